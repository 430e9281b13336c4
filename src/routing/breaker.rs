//! Circuit breakers: an upstream that fails by its own fault, time after time, is left out for a while and then tried by
//! one request at a time. A state machine for each upstream: what happened and a `now` in, where it stands out.
//!
//! Not for keys, nor for what a provider asks for itself by a 429: those are in `cooldown`. Which failures count is the
//! verdict's to say.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use crate::clock::Instant;
use crate::config::Breaker as Settings;

/// Upstreams with a breaker that is not as new; callers may name any. Beyond it closed ones are forgotten first.
const BREAKERS_MAX: usize = 10_000;
/// What a client is told to wait where only the trial of another request is in the way.
const SOON: Duration = Duration::from_secs(1);

/// How an upstream may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// As usual.
    Closed,
    /// Not for so long.
    Open(Duration),
    /// Its time is over: for a trial behind the others.
    Due,
    /// In another `open_max` nobody got to try it there: for a trial in its own place.
    Overdue,
}

impl Standing {
    /// How long a client is to wait for it.
    pub fn wait(self) -> Duration {
        if let Standing::Open(wait) = self { wait } else { SOON }
    }
}

/// All breakers, by upstream. One that is not in here is closed, and nothing is held against it.
#[derive(Debug, Default)]
pub struct Breakers {
    breakers: HashMap<String, Breaker>,
}

#[derive(Debug, Default)]
struct Breaker {
    /// Failures before the first token, since there was one.
    failed: u32,
    /// Answers that broke off after their first token, since one ended well.
    broke: u32,
    open: Option<Open>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    since: Instant,
    lasts: Duration,
    /// When the trial that is under way was begun.
    trial: Option<Instant>,
}

impl Breakers {
    pub fn standing(&self, upstream: &str, settings: &Settings, now: Instant) -> Standing {
        let breaker = self.breakers.get(upstream).filter(|_| settings.failures > 0);
        let Some(open) = breaker.and_then(|breaker| breaker.open) else { return Standing::Closed };
        let due = open.since + open.lasts;
        if open.is_tried(settings, now) || now < due {
            Standing::Open(due.saturating_duration_since(now).max(SOON))
        } else if now < due + settings.open_max {
            Standing::Due
        } else {
            Standing::Overdue
        }
    }

    /// Begins a trial of an open one, also before its time. None if one is under way; one that takes longer than `open_max`
    /// is no longer waited for.
    pub fn begin_trial(&mut self, upstream: &str, settings: &Settings, now: Instant) -> Option<Instant> {
        let open = self.breakers.get_mut(upstream)?.open.as_mut()?;
        if open.is_tried(settings, now) {
            return None;
        }
        open.trial = Some(now);
        open.trial
    }

    /// The trial that was begun then is over, whatever came of it.
    pub fn end_trial(&mut self, upstream: &str, begun: Instant) {
        let open = self.breakers.get_mut(upstream).and_then(|breaker| breaker.open.as_mut());
        if let Some(open) = open.filter(|open| open.trial == Some(begun)) {
            open.trial = None;
        }
    }

    /// A failure of what was sent at `sent`; `broke`: after its first token. If it opens the breaker: for how long.
    pub fn failed(
        &mut self,
        upstream: &str,
        settings: &Settings,
        broke: bool,
        sent: Instant,
        now: Instant,
    ) -> Option<Duration> {
        if settings.failures == 0 {
            return None;
        }
        self.make_room(upstream);
        let breaker = self.breakers.entry(upstream.to_owned()).or_default();
        if let Some(open) = &mut breaker.open {
            // What was sent before it opened tells nothing new.
            if open.trial.is_some() && sent >= open.since {
                let lasts = open.lasts.saturating_mul(2).min(settings.open_max);
                *open = Open { since: now, lasts, trial: None };
            }
            return None;
        }
        let run = if broke { &mut breaker.broke } else { &mut breaker.failed };
        *run = run.saturating_add(1);
        if *run < settings.failures {
            return None;
        }
        breaker.open = Some(Open { since: now, lasts: settings.open, trial: None });
        Some(settings.open)
    }

    /// The first token of what was sent at `sent`. True if it closes the breaker; what was sent before it opened does not.
    pub fn first_token(&mut self, upstream: &str, sent: Instant) -> bool {
        let Some(breaker) = self.breakers.get_mut(upstream) else { return false };
        if breaker.open.is_some_and(|open| sent < open.since) {
            return false;
        }
        breaker.failed = 0;
        let closes = breaker.open.take().is_some();
        if closes || breaker.broke == 0 {
            self.breakers.remove(upstream);
        }
        closes
    }

    /// An answer came to a good end.
    pub fn ended_well(&mut self, upstream: &str) {
        if let Some(breaker) = self.breakers.get_mut(upstream).filter(|breaker| breaker.open.is_none()) {
            breaker.broke = 0;
            if breaker.failed == 0 {
                self.breakers.remove(upstream);
            }
        }
    }

    /// Those that are open, trials or not.
    pub fn open(&self) -> BTreeSet<String> {
        let open = self.breakers.iter().filter(|(_, breaker)| breaker.open.is_some());
        open.map(|(upstream, _)| upstream.clone()).collect()
    }

    /// Forgets all others.
    pub fn retain(&mut self, remains: impl Fn(&str) -> bool) {
        self.breakers.retain(|upstream, _| remains(upstream));
    }

    /// Drops what is closed when there are many; if all are open, the one whose time is over first.
    fn make_room(&mut self, upstream: &str) {
        if self.breakers.len() < BREAKERS_MAX || self.breakers.contains_key(upstream) {
            return;
        }
        self.breakers.retain(|_, breaker| breaker.open.is_some());
        if self.breakers.len() >= BREAKERS_MAX {
            let due = |breaker: &Breaker| breaker.open.map(|open| open.since + open.lasts);
            let earliest = self.breakers.iter().min_by_key(|(_, breaker)| due(breaker)).map(|(name, _)| name.clone());
            earliest.map(|name| self.breakers.remove(&name));
        }
    }
}

impl Open {
    fn is_tried(&self, settings: &Settings, now: Instant) -> bool {
        self.trial.is_some_and(|begun| now < begun + settings.open_max)
    }
}

#[cfg(test)]
mod tests {
    use super::Standing::{Closed, Due, Overdue};
    use super::*;

    const UP: &str = "a/m";

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn settings(failures: u32) -> Settings {
        Settings { failures, open: seconds(5), open_max: seconds(60) }
    }

    fn open(wait: u64) -> Standing {
        Standing::Open(seconds(wait))
    }

    /// What happens at a time; times are seconds.
    enum Event {
        Failed {
            sent: u64,
        },
        Broke {
            sent: u64,
        },
        FirstToken {
            sent: u64,
        },
        EndedWell,
        TimePasses,
        TrialBegins,
        NoTrialBegins,
        /// Of the one begun then.
        TrialEnds(u64),
    }

    /// Where it stands after each event, at the time of the event.
    fn run(failures: u32, table: &[(u64, Event, Standing)]) {
        let (mut breakers, settings, zero) = (Breakers::default(), settings(failures), Instant::now());
        let at = |time: u64| zero + seconds(time);
        for (row, (time, event, expected)) in table.iter().enumerate() {
            let now = at(*time);
            match event {
                Event::Failed { sent } => drop(breakers.failed(UP, &settings, false, at(*sent), now)),
                Event::Broke { sent } => drop(breakers.failed(UP, &settings, true, at(*sent), now)),
                Event::FirstToken { sent } => drop(breakers.first_token(UP, at(*sent))),
                Event::EndedWell => breakers.ended_well(UP),
                Event::TimePasses => {}
                Event::TrialBegins => assert_eq!(breakers.begin_trial(UP, &settings, now), Some(now), "row {row}"),
                Event::NoTrialBegins => assert_eq!(breakers.begin_trial(UP, &settings, now), None, "row {row}"),
                Event::TrialEnds(begun) => breakers.end_trial(UP, at(*begun)),
            }
            assert_eq!(breakers.standing(UP, &settings, now), *expected, "row {row}");
        }
    }

    use Event::*;

    #[test]
    fn failures_in_a_row_open_it_and_a_first_token_begins_anew() {
        run(
            3,
            &[
                (0, Failed { sent: 0 }, Closed),
                (1, Failed { sent: 1 }, Closed),
                (2, FirstToken { sent: 0 }, Closed),
                (3, Failed { sent: 3 }, Closed),
                (4, Failed { sent: 3 }, Closed),
                (5, NoTrialBegins, Closed),
                (6, Failed { sent: 3 }, open(5)),
            ],
        );
    }

    #[test]
    fn answers_that_break_off_are_a_run_of_their_own() {
        run(
            2,
            &[
                (0, FirstToken { sent: 0 }, Closed),
                (1, Broke { sent: 0 }, Closed),
                (2, FirstToken { sent: 2 }, Closed),
                (2, EndedWell, Closed),
                (3, Failed { sent: 3 }, Closed),
                (4, Broke { sent: 4 }, Closed),
                (5, FirstToken { sent: 5 }, Closed),
                (6, Broke { sent: 5 }, open(5)),
                (7, EndedWell, open(4)),
            ],
        );
    }

    #[test]
    fn a_failed_trial_doubles_the_time_up_to_its_bound() {
        let mut table = vec![(0, Failed { sent: 0 }, open(5))];
        let mut time = 5;
        for lasts in [10, 20, 40, 60, 60] {
            table.push((time, TrialBegins, open(1)));
            table.push((time + 1, Failed { sent: time }, open(lasts)));
            time += 1 + lasts;
        }
        table.push((time, TrialBegins, open(1)));
        table.push((time, FirstToken { sent: time }, Closed));
        table.push((time, Failed { sent: time }, open(5)));
        run(1, &table);
    }

    #[test]
    fn one_trial_at_a_time_also_before_its_time() {
        run(
            1,
            &[
                (0, Failed { sent: 0 }, open(5)),
                (1, TrialBegins, open(4)),
                (2, NoTrialBegins, open(3)),
                (3, TrialEnds(1), open(2)),
                (5, TrialBegins, open(1)),
                (6, TrialEnds(1), open(1)),
                (6, NoTrialBegins, open(1)),
                (7, TrialEnds(5), Due),
                (8, TrialBegins, open(1)),
                (68, TrialBegins, open(1)),
                (69, TrialEnds(8), open(1)),
                (70, TrialEnds(68), Overdue),
            ],
        );
    }

    #[test]
    fn what_nobody_tried_is_overdue() {
        run(
            1,
            &[
                (0, Failed { sent: 0 }, open(5)),
                (4, TimePasses, open(1)),
                (5, TimePasses, Due),
                (64, TimePasses, Due),
                (65, TimePasses, Overdue),
                (65, TrialBegins, open(1)),
            ],
        );
    }

    #[test]
    fn what_was_sent_before_it_opened_tells_nothing_new() {
        run(
            1,
            &[
                (10, Failed { sent: 1 }, open(5)),
                (11, Failed { sent: 2 }, open(4)),
                (12, FirstToken { sent: 9 }, open(3)),
                (13, Failed { sent: 12 }, open(2)),
                (15, TrialBegins, open(1)),
                (16, Failed { sent: 9 }, open(1)),
                (16, FirstToken { sent: 15 }, Closed),
            ],
        );
    }

    #[test]
    fn no_failures_turn_it_off() {
        run(0, &[(0, Failed { sent: 0 }, Closed), (1, Broke { sent: 0 }, Closed)]);
        let (mut breakers, now) = (Breakers::default(), Instant::now());
        assert_eq!(breakers.failed(UP, &settings(1), false, now, now), Some(seconds(5)));
        assert_eq!(breakers.failed(UP, &settings(1), false, now, now), None, "it is open already");
        assert_eq!(breakers.standing(UP, &settings(0), now), Closed, "for a model that has none");
        assert_eq!(breakers.standing("b/m", &settings(1), now), Closed, "another upstream");
        assert_eq!(breakers.open(), BTreeSet::from([UP.to_owned()]));
        breakers.retain(|upstream| upstream != UP);
        assert_eq!(breakers.standing(UP, &settings(1), now), Closed);
    }

    #[test]
    fn the_table_is_bounded_and_keeps_what_is_open() {
        let (mut breakers, now) = (Breakers::default(), Instant::now());
        breakers.failed(UP, &settings(1), false, now, now);
        for upstream in 0..BREAKERS_MAX + 500 {
            breakers.failed(&upstream.to_string(), &settings(2), false, now, now);
            assert!(breakers.breakers.len() <= BREAKERS_MAX);
        }
        assert_eq!(breakers.standing(UP, &settings(1), now), open(5));
        for upstream in 0..BREAKERS_MAX + 500 {
            breakers.failed(&upstream.to_string(), &settings(1), false, now, now + seconds(1));
        }
        assert_eq!(breakers.breakers.len(), BREAKERS_MAX);
        assert_eq!(breakers.standing(UP, &settings(1), now), Closed, "its time would be over first");
    }
}
