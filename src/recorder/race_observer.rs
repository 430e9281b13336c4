//! The interface for watching races while they run, such as a command that draws one. Not for figures: those come from
//! the rows.

use crate::history::AttemptRecord;
use crate::store::Record;

/// Hears what races do as they do it. It is called in the middle of a request, so it must not wait for anything.
pub trait RaceObserver: Send + Sync {
    /// An attempt got so far, `at_us` microseconds after its dispatch. Of `attempt` only what is known by then is filled in;
    /// the times of events in its body are not.
    fn step(&self, attempt: &AttemptRecord, step: AttemptStep, at_us: i64);

    /// The client's response is bound to the attempt of this ordinal.
    fn committed(&self, race_id: &str, ordinal: i64);

    /// A row is there: its attempt, or its race, is over. What bounds the cost of an attempt comes with its race.
    fn recorded(&self, record: &Record);

    /// Everything of a race is over: all its rows, as they are written.
    fn settled(&self, rows: &[Record]);
}

/// How far an attempt got. That it ended is told by its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptStep {
    /// It asks for its connection.
    Dispatched,
    /// The request goes out.
    Connected,
    /// Status and headers are there.
    Headers,
    /// The first payload is there.
    FirstToken,
}
