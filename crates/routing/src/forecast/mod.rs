//! What each upstream has shown, and the forecast of its latency for one request. Pure: no clock, no lock and no randomness. Times are
//! `i64` microseconds on one monotonic clock, so that recorded history runs through the same code. Not for decisions, nor for
//! sharing statistics between threads.
//!
//! Attempts report to the [`Learner`] of their upstream, whose [`LatencyForecast`] the next decision reads.

mod breaks;
pub mod grid;
mod latency;
mod learner;
mod level;
mod load;
mod residuals;
mod size;
mod throttle;
mod tpot;

pub use latency::{LatencyForecast, OtherWaiting, SendConditions, WAITING_MAX};
pub use learner::Learner;
