//! What is known of races that were run: the two records, and the estimates that are made of them.
//!
//! Pure: no SQL (that is `store`), no tasks (that is `recorder`).

mod bytes;
pub mod class;
pub mod cost;
pub mod facts;
pub mod goodput;
pub mod grid;
pub mod invariants;
pub mod record;
pub mod recorded;
pub mod regression;
pub mod requests;
pub mod speed;
pub mod spread;
pub mod summary;
pub mod survival;

#[cfg(test)]
pub mod sample;
#[cfg(test)]
mod truth;

pub use bytes::Short;
pub use record::{
    AttemptOutcome, AttemptRecord, CensorCause, CostBasis, RaceOutcome, RaceRecord, StartReason, TokenSource,
};
