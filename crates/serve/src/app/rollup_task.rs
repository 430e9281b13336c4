//! Keeps the history small while the gateway runs. Every minute it rolls up completed hours and removes rows older than
//! `retention`, if the clock can be trusted. `store` implements the steps.

use std::sync::Arc;
use std::time::Duration;

use super::Gateway;
use photofinish_base::clock::{Instant, micros, micros_between, wall_micros};
use photofinish_base::shutdown::Shutdown;
use photofinish_config::{Retention, StoreAddress};
use photofinish_history::recorder::{Condition, Recorder};
use photofinish_history::report::question::time;
use photofinish_history::store::{Roller, RollupError, RollupStep};

/// Pause between two rounds.
const EVERY: Duration = Duration::from_secs(60);
/// Pause after each step, so that the writer gets its turn.
const PAUSE: Duration = Duration::from_millis(10);
/// Minimum time between two log lines about roll-ups. Removals are logged after each round: a shorter retention may
/// remove many rows at once.
const TOLD_EVERY: Duration = Duration::from_secs(86_400);
/// Minimum time between two log lines about errors.
const QUIET: Duration = Duration::from_secs(3_600);

/// The task.
pub(super) struct RollupTask {
    gateway: Arc<Gateway>,
    recorder: Recorder,
    shutdown: Shutdown,
    /// None after a step that panicked.
    roller: Option<Roller>,
    store: StoreAddress,
    attempts: u64,
    /// Races whose rows were removed since the last log line.
    races: u64,
    /// Pages given back to the disk since the last log line.
    pages: u64,
    /// Whole hours of rows older than this are removed; microseconds since 1970, UTC.
    older_than: i64,
    logged: Option<Instant>,
    complained: Option<Instant>,
    clocks: ClockCheck,
    doubted: Option<Instant>,
}

/// The result of a step, and whether rows were kept because the clock is not trusted.
type RollupResult = (Result<RollupStep, RollupError>, bool);

impl RollupTask {
    pub fn new(gateway: Arc<Gateway>, recorder: Recorder) -> RollupTask {
        let shutdown = gateway.shutdown().clone();
        let store = gateway.live().config.store.address.clone();
        RollupTask {
            gateway,
            recorder,
            shutdown,
            roller: None,
            store,
            attempts: 0,
            races: 0,
            pages: 0,
            older_than: 0,
            logged: None,
            complained: None,
            clocks: ClockCheck::default(),
            doubted: None,
        }
    }

    /// Runs until the gateway drains.
    pub async fn run(mut self) {
        let shutdown = self.shutdown.clone();
        let mut draining = std::pin::pin!(shutdown.draining());
        let mut wait = Duration::ZERO;
        loop {
            // The running step checks the shutdown itself: it stops and is rolled back before the store is closed.
            tokio::select! {
                () = &mut draining => return,
                () = tokio::time::sleep(wait) => {}
            }
            wait = match self.step().await {
                Ok(RollupStep::Nothing) => {
                    self.log_progress();
                    EVERY
                }
                Ok(step) => {
                    self.count(step);
                    PAUSE
                }
                Err(_) if self.shutdown.is_draining() => return,
                Err(error) => {
                    if error.is_of_damage {
                        self.recorder.doubt(error.to_string());
                    }
                    self.complain(&error);
                    if error.is_postponed {
                        PAUSE
                    } else {
                        self.log_progress();
                        EVERY
                    }
                }
            };
        }
    }

    async fn step(&mut self) -> Result<RollupStep, RollupError> {
        if self.recorder.condition() == Condition::Damaged {
            return Ok(RollupStep::Nothing);
        }
        let now_us = wall_micros();
        let keep_from = match self.gateway.live().config.store.retention {
            Retention::Forever => None,
            Retention::For(kept) => Some(now_us - micros(kept)),
        };
        self.older_than = keep_from.unwrap_or(self.older_than);
        let steady_for = self.clocks.steady_for(now_us, Instant::now());
        let stop = self.shutdown.clone();
        let mut roller = self.roller.take().unwrap_or_else(|| Roller::new(&self.store, move || stop.is_draining()));
        let stepping = self.shutdown.run_blocking(move || {
            let stepped = step(&mut roller, now_us, keep_from, steady_for);
            (roller, stepped)
        });
        match stepping.await {
            Ok((roller, (stepped, doubted))) => {
                self.roller = Some(roller);
                self.doubt(doubted);
                stepped
            }
            Err(error) => Err(RollupError::new(&self.store, error.to_string())),
        }
    }

    fn count(&mut self, step: RollupStep) {
        let metrics = self.recorder.metrics();
        match step {
            RollupStep::RolledUp { attempts } => {
                self.attempts += attempts;
                metrics.rolled_up(attempts);
            }
            RollupStep::Removed { races } => {
                self.races += races as u64;
                metrics.removed(races as u64);
            }
            RollupStep::GivenBack { pages } => self.pages += pages,
            RollupStep::Day | RollupStep::Nothing => {}
        }
    }

    fn log_progress(&mut self) {
        if self.races > 0 {
            let older_than = time(self.older_than);
            tracing::info!(races = self.races, older_than, "removed old rows of the history; their figures stay");
            self.races = 0;
        }
        if self.pages > 0 {
            tracing::info!(pages = self.pages, "gave space of removed rows back to the disk");
            self.pages = 0;
        }
        if self.attempts > 0 && self.logged.is_none_or(|logged| logged.elapsed() >= TOLD_EVERY) {
            tracing::info!(attempts = self.attempts, "rolled up the history");
            (self.attempts, self.logged) = (0, Some(Instant::now()));
        }
    }

    fn doubt(&mut self, doubted: bool) {
        if doubted && self.doubted.is_none_or(|logged| logged.elapsed() >= QUIET) {
            let (now, older_than) = (time(wall_micros()), time(self.older_than));
            tracing::warn!(
                now,
                older_than,
                "old rows are not removed yet: the history has rows of few days of the last month, so the clock may be \
                 wrong. Set it right if it is; else they are removed once the gateway has run for a day, or has rows \
                 of three days"
            );
            self.doubted = Some(Instant::now());
        }
    }

    fn complain(&mut self, error: &RollupError) {
        // Postponed work is reported each time it fails, which is once an hour.
        if error.is_postponed || self.complained.is_none_or(|complained| complained.elapsed() >= QUIET) {
            tracing::warn!(%error, "a part of the history is not rolled up now; it is tried again, within the hour at most");
            self.complained = Some(Instant::now());
        }
    }
}

/// Blocks. Removes nothing while the clock is not trusted.
fn step(roller: &mut Roller, now_us: i64, keep_from: Option<i64>, steady_for: Duration) -> RollupResult {
    let Some(wanted) = keep_from else { return (roller.step(now_us, None), false) };
    match roller.days_with_rows(now_us) {
        Err(error) => (Err(error), false),
        Ok(days) if is_believed(steady_for, days) => (roller.step(now_us, keep_from), false),
        Ok(_) => (roller.step(now_us, None), roller.has_rows_before(wanted)),
    }
}

/// How long the wall clock must have agreed with the monotonic clock before rows are removed.
const STEADY_FOR: Duration = Duration::from_secs(86_400);
/// The wall clock has jumped if it gains or loses more than this against the monotonic clock between two checks;
/// microseconds. Ordinary corrections are smaller. Sleep of the machine counts as a jump, but then the history has rows
/// from the days before.
const JUMP_US: i64 = 3_600 * 1_000_000;
/// The wall clock is trusted at once if the history has rows from this many recent days. If the clock is wrong from the
/// start, the history has rows from at most one such day: today.
const DAYS: usize = 3;

/// Compares the two clocks.
#[derive(Debug, Default)]
pub(super) struct ClockCheck {
    /// When the clocks were first compared, or first compared after a jump.
    since: Option<Instant>,
    last: Option<(i64, Instant)>,
}

impl ClockCheck {
    /// How long the wall clock (microseconds since 1970, UTC) has agreed with the monotonic one.
    pub fn steady_for(&mut self, wall_us: i64, now: Instant) -> Duration {
        if let Some((last_us, last)) = self.last.replace((wall_us, now)) {
            let apart = (wall_us - last_us).saturating_sub(micros_between(last, now));
            if apart.abs() > JUMP_US {
                self.since = None;
            }
        }
        now.saturating_duration_since(*self.since.get_or_insert(now))
    }
}

/// `days`: the number of days within the last month (by the wall clock) for which the history has rows.
pub(super) fn is_believed(steady_for: Duration, days: usize) -> bool {
    steady_for >= STEADY_FOR || days >= DAYS
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn a_history_of_several_days_or_a_day_of_steady_running_is_enough() {
        for (steady_for, days, expected) in [
            (Duration::ZERO, 0, false),
            (Duration::ZERO, 1, false),
            (Duration::ZERO, 2, false),
            (Duration::ZERO, 3, true),
            (DAY / 2, 1, false),
            (DAY, 0, true),
        ] {
            assert_eq!(is_believed(steady_for, days), expected, "{steady_for:?}, {days} days");
        }
    }

    #[test]
    fn a_jump_begins_the_day_anew() {
        let minute = Duration::from_secs(60);
        let days_us = |days: i64| days * 86_400 * 1_000_000;
        // How much the wall clock gains on the monotonic clock per minute, and how long it counts as steady after that
        // minute.
        for (gains_us, steady_for) in [
            (0, 2 * minute),
            (5_000_000, 2 * minute),
            (-5_000_000, 2 * minute),
            (days_us(400), Duration::ZERO),
            (-days_us(400), Duration::ZERO),
            (2 * JUMP_US, Duration::ZERO),
        ] {
            let (mut clocks, began) = (ClockCheck::default(), Instant::now());
            assert_eq!(clocks.steady_for(1_000, began), Duration::ZERO);
            assert_eq!(clocks.steady_for(1_000 + 60_000_000, began + minute), minute);
            let wall_us = 1_000 + 2 * 60_000_000 + gains_us;
            assert_eq!(clocks.steady_for(wall_us, began + 2 * minute), steady_for, "{gains_us}");
            assert_eq!(clocks.steady_for(wall_us + days_us(1), began + 2 * minute + DAY), steady_for + DAY);
        }
    }
}
