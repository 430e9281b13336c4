//! Circuit breakers: an upstream that keeps failing by its own fault is left out for a while and then tried by one request at a
//! time. One state machine per upstream and surface: events and a `now` in, its state out.
//!
//! A trial in addition to another upstream risks no client, so there is one every `open`, and a recovered upstream is found within
//! that time. A trial in the place of another delays its client, so its wait doubles up to `open_max`.
//!
//! A failure that a request may have caused opens the breaker for its caller only, until another caller meets one too. Not for keys
//! or 429s, which are in `cooldown`; which failures count is decided in `race::verdict`.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use crate::clock::Instant;
use crate::config::BreakerSettings as Settings;
use crate::protocol::Surface;

/// Upstreams of one surface, named by callers, with a breaker that is not as new. Beyond it closed ones are forgotten first.
const NAMED_MAX: usize = 1_000;
/// What a client is told to wait where only the trial of another request is in the way.
const SOON: Duration = Duration::from_secs(1);

/// How an upstream may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerStatus {
    /// Use it as usual.
    Closed,
    /// Do not use it for this long.
    Open(Duration),
    /// Its time is over: for a trial.
    Due,
}

impl BreakerStatus {
    /// How long a client is to wait for it.
    pub fn wait(self) -> Duration {
        if let BreakerStatus::Open(wait) = self { wait } else { SOON }
    }
}

/// Where a trial would run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeScope {
    /// In addition to another upstream, whose answer does not wait for it.
    Beside,
    /// In its own place of the list: others wait for it to fail.
    InPlace,
}

/// The scope of a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerScope<'a> {
    /// `provider/model`
    pub upstream: &'a str,
    pub surface: Surface,
    /// No model of the configuration lists it: a caller named it.
    pub named: bool,
}

/// All breakers. One that is not in here is closed, and nothing is held against it.
#[derive(Debug, Default)]
pub struct Breakers {
    /// Keyed by surface and by whether callers named the upstream; then by upstream.
    breakers: HashMap<(Surface, bool), HashMap<String, CircuitBreaker>>,
}

#[derive(Debug, Default)]
struct CircuitBreaker {
    /// Failures before the first token, since there was one.
    failed: u32,
    /// Answers that broke off after their first token, since one ended well.
    broke: u32,
    met_by: FailureSource,
    open: Option<OpenBreaker>,
}

/// Whose requests met the failures that are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FailureSource {
    #[default]
    Nobody,
    One(u64),
    /// Several callers; or it was a failure that no request can cause.
    Everybody,
}

#[derive(Clone, Copy, Debug)]
struct OpenBreaker {
    /// It opened then, or the latest trial that failed was sent then.
    since: Instant,
    /// How long it is left out of its own place.
    lasts: Duration,
    /// When the latest trial was begun, while it is under way.
    trial: Option<Instant>,
    /// Open for this caller only.
    only: Option<u64>,
    /// Whose request may have made the latest trial fail.
    tried_by: Option<u64>,
    /// When that caller's latest trial was sent, if it failed too: that is held against nobody else.
    again: Option<Instant>,
}

impl Breakers {
    /// Its state for `caller`; none: for every caller.
    pub fn standing(
        &self,
        asked: BreakerScope<'_>,
        settings: &Settings,
        caller: Option<u64>,
        trying: ProbeScope,
        now: Instant,
    ) -> BreakerStatus {
        let open = self.get(asked).filter(|_| settings.failures > 0).and_then(|breaker| breaker.open);
        let Some(open) = open.filter(|open| open.only.is_none() || open.only == caller) else {
            return BreakerStatus::Closed;
        };
        let due = open.due(settings, caller, trying);
        if now < due { BreakerStatus::Open((due - now).max(SOON)) } else { BreakerStatus::Due }
    }

    /// Begins a trial of an open one, also before its time. None if one was begun within `open`: a later one is begun beside it,
    /// for an upstream that hung may be well again.
    pub fn begin_trial(&mut self, asked: BreakerScope<'_>, settings: &Settings, now: Instant) -> Option<Instant> {
        let open = self.get_mut(asked)?.open.as_mut()?;
        if open.trial.is_some_and(|begun| now < begun + settings.open) {
            return None;
        }
        open.trial = Some(now);
        open.trial
    }

    /// The trial that was begun then is over, whatever came of it.
    pub fn end_trial(&mut self, asked: BreakerScope<'_>, begun: Instant) {
        let open = self.get_mut(asked).and_then(|breaker| breaker.open.as_mut());
        if let Some(open) = open.filter(|open| open.trial == Some(begun)) {
            open.trial = None;
        }
    }

    /// A failure of what was sent at `sent`; `broke`: after its first token. `caller`: whose request may have caused it; none
    /// where that cannot be, or where there is but one caller. If it opens the breaker: for how long.
    pub fn failed(
        &mut self,
        asked: BreakerScope<'_>,
        settings: &Settings,
        broke: bool,
        caller: Option<u64>,
        sent: Instant,
        now: Instant,
    ) -> Option<Duration> {
        if settings.failures == 0 {
            return None;
        }
        let breakers = self.breakers.entry((asked.surface, asked.named)).or_default();
        if asked.named {
            make_room(breakers, asked.upstream);
        }
        let breaker = breakers.entry(asked.upstream.to_owned()).or_default();
        if let Some(open) = &mut breaker.open {
            // What was sent before it opened tells nothing new.
            if sent < open.since {
                return None;
            }
            if open.only.is_some() && open.only != caller {
                *open = OpenBreaker::new(settings, None, now);
                return Some(settings.open);
            }
            if open.trial.is_some() {
                open.trial_failed(settings, caller, sent);
            }
            return None;
        }
        let run = if broke { &mut breaker.broke } else { &mut breaker.failed };
        *run = run.saturating_add(1);
        breaker.met_by = match (breaker.met_by, caller) {
            (FailureSource::Nobody, Some(caller)) => FailureSource::One(caller),
            (FailureSource::One(before), Some(caller)) if before == caller => FailureSource::One(caller),
            _ => FailureSource::Everybody,
        };
        if *run < settings.failures {
            return None;
        }
        let only = if let FailureSource::One(caller) = breaker.met_by { Some(caller) } else { None };
        breaker.open = Some(OpenBreaker::new(settings, only, now));
        Some(settings.open)
    }

    /// The first token of what was sent at `sent`. True if it closes the breaker; what was sent before it opened does not.
    pub fn first_token(&mut self, asked: BreakerScope<'_>, sent: Instant) -> bool {
        let Some(breaker) = self.get_mut(asked) else { return false };
        if breaker.open.is_some_and(|open| sent < open.since) {
            return false;
        }
        breaker.failed = 0;
        let closes = breaker.open.take().is_some();
        if closes || breaker.broke == 0 {
            self.remove(asked);
        }
        closes
    }

    /// An answer came to a good end.
    pub fn ended_well(&mut self, asked: BreakerScope<'_>) {
        if let Some(breaker) = self.get_mut(asked).filter(|breaker| breaker.open.is_none()) {
            breaker.broke = 0;
            if breaker.failed == 0 {
                self.remove(asked);
            }
        }
    }

    /// The upstreams of those that are open for everybody, trials or not.
    pub fn open(&self) -> BTreeSet<String> {
        let is_open = |breaker: &CircuitBreaker| breaker.open.is_some_and(|open| open.only.is_none());
        let all = self.breakers.values().flatten();
        all.filter(|(_, breaker)| is_open(breaker)).map(|(upstream, _)| upstream.clone()).collect()
    }

    /// Forgets all others.
    pub fn retain(&mut self, remains: impl Fn(BreakerScope<'_>) -> bool) {
        for ((surface, named), breakers) in &mut self.breakers {
            breakers.retain(|upstream, _| remains(BreakerScope { upstream, surface: *surface, named: *named }));
        }
    }

    fn get(&self, asked: BreakerScope<'_>) -> Option<&CircuitBreaker> {
        self.breakers.get(&(asked.surface, asked.named))?.get(asked.upstream)
    }

    fn get_mut(&mut self, asked: BreakerScope<'_>) -> Option<&mut CircuitBreaker> {
        self.breakers.get_mut(&(asked.surface, asked.named))?.get_mut(asked.upstream)
    }

    fn remove(&mut self, asked: BreakerScope<'_>) {
        let breakers = self.breakers.get_mut(&(asked.surface, asked.named));
        breakers.and_then(|breakers| breakers.remove(asked.upstream));
    }
}

/// Drops what is closed when there are many; if all are open, the one whose time is over first.
fn make_room(breakers: &mut HashMap<String, CircuitBreaker>, upstream: &str) {
    if breakers.len() < NAMED_MAX || breakers.contains_key(upstream) {
        return;
    }
    breakers.retain(|_, breaker| breaker.open.is_some());
    if breakers.len() >= NAMED_MAX {
        let due = |breaker: &CircuitBreaker| breaker.open.map(|open| open.since + open.lasts);
        let earliest = breakers.iter().min_by_key(|(_, breaker)| due(breaker)).map(|(name, _)| name.clone());
        earliest.map(|name| breakers.remove(&name));
    }
}

impl OpenBreaker {
    fn new(settings: &Settings, only: Option<u64>, now: Instant) -> OpenBreaker {
        OpenBreaker { since: now, lasts: settings.open, trial: None, only, tried_by: None, again: None }
    }

    /// When `caller` may try it.
    fn due(&self, settings: &Settings, caller: Option<u64>, trying: ProbeScope) -> Instant {
        let again = self.again.filter(|_| caller.is_some() && self.tried_by == caller);
        let since = self.since.max(again.unwrap_or(self.since));
        let (lasts, trial_for) = match trying {
            ProbeScope::Beside => (settings.open, settings.open),
            // A trial that hangs keeps others from waiting for one too.
            ProbeScope::InPlace => (self.lasts, settings.open_max),
        };
        let tried = self.trial.map_or(since, |begun| begun + trial_for);
        tried.max(since + lasts)
    }

    /// One that was sent at `sent`. From then on, and not from its failure, so that a trial that takes long delays no other.
    fn trial_failed(&mut self, settings: &Settings, caller: Option<u64>, sent: Instant) {
        self.trial = self.trial.filter(|begun| *begun > sent);
        if self.only.is_none() && caller.is_some() && self.tried_by == caller {
            // One caller alone keeps it open for nobody else.
            self.again = Some(sent);
            return;
        }
        self.lasts = self.lasts.saturating_mul(2).min(settings.open_max);
        (self.since, self.tried_by, self.again) = (sent, caller, None);
    }
}

#[cfg(test)]
mod tests;
