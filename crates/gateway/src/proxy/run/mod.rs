//! The race of a request: its attempts, its row, and the head of its answer. Not for the request before that.

pub mod all_failed;
pub mod answer;
pub mod early;
pub mod gate;
pub mod launcher;
pub mod race_guard;
mod raced_attempt;
mod rescuer;
pub mod running;
