//! The records of finished races and of runs: their tables, column by column, and the values that a column stores by name.
//!
//! Pure. Not for SQL (`store`), tasks (`recorder`) or estimates (`estimate`).

pub mod invariants;
pub mod left_out;
pub mod names;
pub mod recorded;
pub mod row;
#[cfg(any(test, feature = "test-support"))]
pub mod sample;
pub mod table;
pub mod tables;

pub use left_out::LeftOutUpstream;
pub use names::{
    AttemptOutcome, CensorCause, IncidentKind, IncidentState, LeftOutReason, RaceOutcome, RaceSource, RequestOrigin,
    RunKind, StartReason, TokenSource,
};
pub use row::Record;
pub use tables::{AttemptRecord, IncidentRecord, RaceRecord, RunRecord};
