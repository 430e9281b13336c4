//! What a gateway asks of those who record its races, so that it knows no database. Nothing here waits: all is called within a request.
//!
//! Not for keeping rows: see `photofinish_history`.

use std::sync::Arc;

use crate::bill::BillBounds;
use crate::record::{AttemptRecord, LeftOutReason, RaceRecord, RaceSource, Record};
use photofinish_config::Config;

/// Records the races of one gateway.
pub trait RaceRecorder: Send + Sync {
    /// This configuration is in force from now on.
    fn configured(&self, config: &Config);

    /// For one race: its rows are recorded together, once the last reference to the sink is dropped.
    fn for_race(&self, source: RaceSource) -> Arc<dyn RaceSink>;
}

/// Takes the rows of one race, and what happens in it.
pub trait RaceSink: Send + Sync {
    /// Who pays for it. The first payer stays.
    fn paid_by(&self, payer: Arc<dyn RacePayer>);

    /// Who hears of its end. Only the last one stays.
    fn ends_with(&self, end: RaceEnd);

    /// It begins to start attempts.
    fn planned(&self, race: &RaceRecord);

    /// An attempt made a step, `at_us` microseconds after its dispatch. `attempt` has only the values known at that step, without the
    /// times of events in the body.
    fn step(&self, attempt: &AttemptRecord, step: AttemptStep, at_us: i64);

    /// The client's response is bound to the attempt with this ordinal.
    fn committed(&self, race_id: &str, ordinal: i64);

    /// Sets the bill of the attempt with this ordinal before its row arrives. The whole race is needed to bound the cost.
    fn bill(&self, ordinal: i64, bill: BillBounds);

    /// An attempt is over. `choices`: the answers that it was asked for; none: unknown. `took_us`: from its dispatch to its end.
    fn attempt(&self, attempt: Box<AttemptRecord>, choices: Option<i64>, took_us: i64);

    /// What the race decided. `refused_hedge`: a hedge would have paid, and the budget did not allow it. `left_out`: why upstreams could
    /// not start.
    fn decided(&self, refused_hedge: bool, left_out: &mut dyn Iterator<Item = LeftOutReason>);

    /// The race is over. `overhead_us`: what the gateway itself added before the first token.
    fn race(&self, race: Box<RaceRecord>, overhead_us: Option<i64>);

    /// The same for a race that is counted and has no row.
    fn counted(&self, race: &RaceRecord, overhead_us: Option<i64>);
}

/// Hears of the end of one race.
pub type RaceEnd = Box<dyn FnOnce(&EndedRace<'_>) + Send>;

/// A race whose attempts are all over.
pub struct EndedRace<'r> {
    /// As they will be written.
    pub rows: &'r [Record],
    /// From the dispatch of the attempt with this ordinal to its end; microseconds.
    pub took_us: &'r dyn Fn(i64) -> i64,
}

/// Pays for one race.
pub trait RacePayer: Send + Sync {
    /// The race is over. `rows`: all its rows, with the costs of its attempts.
    fn settled(&self, rows: &[Record]);
}

/// The progress of an attempt. Its end is in its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptStep {
    /// It asks for a connection.
    Dispatched,
    /// The request is sent.
    Connected,
    /// Status and headers were read.
    Headers,
    /// The first payload was read.
    FirstToken,
}

/// Records nothing.
#[cfg(any(test, feature = "test-support"))]
#[derive(Clone, Copy, Debug)]
pub struct NoRecorder;

#[cfg(any(test, feature = "test-support"))]
impl RaceRecorder for NoRecorder {
    fn configured(&self, _: &Config) {}

    fn for_race(&self, _: RaceSource) -> Arc<dyn RaceSink> {
        Arc::new(NoRecorder)
    }
}

#[cfg(any(test, feature = "test-support"))]
impl RaceSink for NoRecorder {
    fn paid_by(&self, _: Arc<dyn RacePayer>) {}

    fn ends_with(&self, _: RaceEnd) {}

    fn planned(&self, _: &RaceRecord) {}

    fn step(&self, _: &AttemptRecord, _: AttemptStep, _: i64) {}

    fn committed(&self, _: &str, _: i64) {}

    fn bill(&self, _: i64, _: BillBounds) {}

    fn attempt(&self, _: Box<AttemptRecord>, _: Option<i64>, _: i64) {}

    fn decided(&self, _: bool, _: &mut dyn Iterator<Item = LeftOutReason>) {}

    fn race(&self, _: Box<RaceRecord>, _: Option<i64>) {}

    fn counted(&self, _: &RaceRecord, _: Option<i64>) {}
}
