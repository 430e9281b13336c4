//! The records of finished races and of runs, and the estimates made from them.
//!
//! Pure. Not for SQL (`store`) or tasks (`recorder`).

mod bytes;
pub mod class;
pub mod cost;
pub mod curve;
pub mod facts;
pub mod goodput;
pub mod grid;
pub mod interval;
pub mod invariants;
pub mod left_out;
pub mod names;
mod origin;
pub mod record;
pub mod recorded;
pub mod regression;
pub mod requests;
pub mod speed;
pub mod spread;
pub mod summary;
pub mod survival;
pub mod table;

#[cfg(any(test, feature = "test-support"))]
pub mod sample;
#[cfg(test)]
mod simulated_truth;

pub use bytes::ShortBytes;
pub use left_out::LeftOutUpstream;
pub use names::{
    AttemptOutcome, CensorCause, CostBasis, LeftOutReason, RaceOutcome, RaceSource, RunKind, StartReason, TokenSource,
};
pub use origin::RequestOrigin;
pub use record::{AttemptRecord, RaceRecord, RunRecord};
