//! What is known of races that were run: the two records, and the estimates that are made of them.
//!
//! Pure: no SQL (that is `store`), no tasks (that is `recorder`).

pub mod cost;
pub mod goodput;
pub mod invariants;
pub mod record;
pub mod regression;
pub mod speed;
pub mod survival;

#[cfg(test)]
pub mod sample;
#[cfg(test)]
mod truth;

pub use record::{
    AttemptOutcome, AttemptRecord, CensorCause, CostBasis, RaceOutcome, RaceRecord, StartReason, TokenSource,
};
