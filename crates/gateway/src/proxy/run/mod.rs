//! The race of a request: its attempts, its row, and the head of its answer. Not for the request before that.

pub mod all_failed;
pub mod answer;
mod client_headers;
pub mod early;
pub mod gate;
pub mod launcher;
pub mod race_guard;
pub mod race_policy;
mod raced_attempt;
mod rescuer;
pub mod running;
