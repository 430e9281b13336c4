//! The interface for observing running races, for example to draw one.
//!
//! Not for figures: they come from the rows.

use crate::history::AttemptRecord;
use crate::store::Record;

/// Receives the events of races as they happen. It is called within a request, so it must not wait.
pub trait RaceObserver: Send + Sync {
    /// An attempt made a step, `at_us` microseconds after its dispatch. `attempt` has only the values known at that
    /// step, without the times of events in the body.
    fn step(&self, attempt: &AttemptRecord, step: AttemptStep, at_us: i64);

    /// The client's response is bound to the attempt with this ordinal.
    fn committed(&self, race_id: &str, ordinal: i64);

    /// A row is complete: its attempt, or its race, is over. The bounds of an attempt's cost are set when its race
    /// ends.
    fn recorded(&self, record: &Record);

    /// A race is over. `rows`: all its rows, as they will be written.
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
