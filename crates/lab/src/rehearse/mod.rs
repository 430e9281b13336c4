//! Simulated traffic: requests run against upstreams whose times are known beforehand, on a clock of its own, so that days
//! of traffic take seconds.
//!
//! A [`Rehearsal`] runs the gateway's own race ([`Race`](photofinish_race::Race)), driver, breakers and statistics; only the
//! attempts are simulated, by a [`SimulatedWorld`]. One policy is compared with another by playing both in the same world.
//! No I/O and no real clock. Not simulated: audits, losers that are drained, whole answers that break off.

mod attempt;
#[cfg(test)]
mod calls;
mod engine;
#[cfg(test)]
mod figures;
#[cfg(test)]
mod parity;
mod stage;
#[cfg(test)]
mod tests;
mod world;

pub use engine::Rehearsal;
pub use world::{
    AttemptEnd, Baseline, Dispatch, OpeningView, PlayedAttempt, PlayedLook, PlayedRace, Shown, SimulatedRequest,
    SimulatedResponse, SimulatedUpstream, SimulatedWorld,
};
