//! A rehearsal: requests are played against upstreams whose times are known beforehand, on a clock of its own, so that days
//! of traffic under any policy take seconds. [`run`] plays, a [`Field`] knows the times, a [`Steering`] decides.
//!
//! No I/O, no real clock, no draw of its own: where the times come from (a made-up world, the recorded history) is the
//! field's, and one policy is compared with another by playing both against the same field.

mod engine;
mod field;
mod flight;
mod health;
mod routed;
mod steering;
#[cfg(test)]
mod tests;

pub use engine::run;
pub use field::{Fate, Field, Launch, Prompt, Request, Rules, Tariff};
pub use flight::{Outcome, Started};
pub use routed::Routed;
pub use steering::{Ask, Moment, Reason, Running, Seat, Seen, Steering, View, Waiting};
