//! The request: the candidates that may serve it, and the request to each upstream that may serve it. Not for running the race.

pub mod candidate_set;
pub mod message;
pub mod outbound;
