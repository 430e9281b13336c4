//! The request: its body, its overrides, and the request to each upstream that may serve it. Not for running the race.

pub mod blocking;
pub mod body;
pub mod candidate_set;
pub mod message;
pub mod outbound;
pub mod overrides;
