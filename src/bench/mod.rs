//! The load generator of `photofinish bench` and of the probes: requests at planned times, measured by their own rows.
//!
//! Every request goes through [`crate::proxy::serve_as`], so it is planned, sent, metered and recorded like a client's. What
//! to send and when is drawn before a stage begins (`arrivals`, `prompt`); what was sent, and what came back, is judged after
//! it (`stage`, `trust`, `compare`, `search`). These parts are pure; `generator` says when to send, `client` alone sends.
//!
//! Not for the options and the output of the command: see `cli::bench`.

pub mod against;
pub mod arrivals;
mod block;
mod client;
pub mod compare;
pub mod condition;
pub mod estimate;
mod feed;
pub mod figures;
mod generator;
mod heartbeat;
pub mod measured;
mod notes;
pub mod prompt;
pub mod result;
pub mod search;
pub mod slo;
pub mod spend;
pub mod stage;
pub mod statistics;
pub mod trust;
pub mod workload;

#[cfg(test)]
mod stall;

pub use block::{BlockPlan, BlockResult, BlockStop, Load, LoadTarget, Progress, failing_alone, ramp};
pub use client::LoadClient;
pub use feed::RowFeed;
pub use generator::Generator;
