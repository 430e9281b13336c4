//! The interface for watching running races, such as a command that draws one.
//!
//! Not for figures: those come from the rows.

use crate::history::AttemptRecord;
use crate::store::Record;

/// Receives the events of races as they happen. It is called within a request, so it must not wait.
pub trait RaceObserver: Send + Sync {
    /// An attempt made a step, `at_us` microseconds after its dispatch. Of `attempt`, only what is known by then is
    /// set, without the times of events in the body.
    fn step(&self, attempt: &AttemptRecord, step: AttemptStep, at_us: i64);

    /// The client's response is bound to the attempt with this ordinal.
    fn committed(&self, race_id: &str, ordinal: i64);

    /// A row is there: its attempt, or its race, is over. The bounds of an attempt's cost come with its race.
    fn recorded(&self, record: &Record);

    /// A race is over: all its rows, as they are written.
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
