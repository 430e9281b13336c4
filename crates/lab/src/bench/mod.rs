//! The load generator of `photofinish bench` and of the probes: requests at planned times, measured by their own rows.
//!
//! Every request goes through [`photofinish_gateway::proxy::serve_as`], so it is planned, sent, metered and recorded like a client's. What
//! to send and when is drawn before a stage begins (`arrivals`, `prompt`); what was sent, and what came back, is judged after
//! it (`stage`, `trust`, `compare`, `search`). These parts are pure; `generator` says when to send, `client` alone sends.
//!
//! Not for the options and the output of the command: see `cli::bench`.

pub mod block;
pub mod client;
pub mod compare;
pub mod condition;
pub mod conversation;
mod generator;
pub mod measured;
pub mod prompt;
pub mod result;
pub mod search;
pub mod spend;
pub mod stage;
pub mod statistics;
pub mod trust;

#[cfg(test)]
mod stall;

pub use block::{BlockPlan, BlockResult, BlockStop, Load, LoadTarget, Progress, failing_alone, ramp};
pub use client::{LoadClient, RowFeed, patience};
pub use generator::Generator;

/// The runtime in which a benchmark measures best.
///
/// Arrivals come from a thread of their own, through the queue that all workers share. A worker whose own queue is full moves
/// half of it there too. So on several cores both queues take turns: if the shared one always went first, tasks in the queue
/// of a busy worker would wait for up to seconds. On one core, ready tasks have a queue without a bound, and the shared one
/// has arrivals and what blocking threads wake: it goes first.
pub fn runtime() -> tokio::runtime::Builder {
    let is_alone = std::thread::available_parallelism().is_ok_and(|cores| cores.get() == 1);
    let mut builder = if is_alone {
        tokio::runtime::Builder::new_current_thread()
    } else {
        tokio::runtime::Builder::new_multi_thread()
    };
    builder.global_queue_interval(if is_alone { 1 } else { 2 }).enable_all();
    builder
}
