//! A rehearsal: requests are played against upstreams whose times are known beforehand, on a clock of its own, so that days
//! of traffic under any policy take seconds. [`run`] plays, a [`SimulatedUpstreams`] knows the times, a [`SimulatedPolicy`] decides.
//!
//! No I/O, no real clock, no draw of its own: where the times come from (a made-up world, the recorded history) is the
//! field's, and one policy is compared with another by playing both against the same field.

mod engine;
mod health;
mod policy;
mod routed_policy;
mod simulated_race;
#[cfg(test)]
mod tests;
mod upstreams;

pub use engine::run;
pub use policy::{
    AskReason, ObservedProgress, PolicyAnswer, RaceView, RunningView, SimulatedPolicy, SimulatedReason, UpstreamView,
    WaitingAttempt,
};
pub use routed_policy::RoutedModel;
pub use simulated_race::{FinishedAttempt, Outcome};
pub use upstreams::{
    RaceRules, SimulatedOutcome, SimulatedPrompt, SimulatedRequest, SimulatedStart, SimulatedTariff, SimulatedUpstreams,
};
