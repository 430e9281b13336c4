//! Figures computed from records: costs, distributions of censored times, summaries that add up, and the rules of incidents.
//!
//! Pure. Not for grouping (`report`) or for SQL (`store`).

pub mod class;
pub mod cost;
pub mod curve;
pub mod facts;
pub mod fingerprint;
pub mod goodput;
pub mod grid;
pub mod incident;
pub mod interval;
pub mod mix;
pub mod racing;
#[cfg(test)]
mod simulated_truth;
pub mod speed;
pub mod spread;
pub mod summary;
pub mod survival;

pub use grid::ShortBytes;
