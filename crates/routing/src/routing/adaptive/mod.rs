//! Learned routing: what each upstream has shown, its forecast for this request, and which upstreams to start when, so that latency
//! is bought where it is cheapest and within a hard budget.
//!
//! Pure: no clock, no lock, no randomness, and no allocation in a decision. Times are `i64` microseconds on one monotonic clock, so
//! that recorded history runs through the same code. Not for running a race, nor for sharing statistics between threads.
//!
//! A request calls [`open`] at its arrival, [`next`] at each timer or failure and [`hold`] at a first token. Its attempts report to
//! the [`Learner`] of their upstream, whose [`LatencyForecast`] the next decision reads. [`CostBudget`] holds the money.

mod conditions;
mod cost_budget;
mod forecast;
mod grid;
mod hold;
mod learner;
mod level;
mod load;
mod optimiser;
mod order;
mod predict;
mod question;
mod residuals;
pub mod rule;
mod scores;
mod size;
mod throttle;
mod tpot;

pub use conditions::{OtherWaiting, SendConditions, WAITING_MAX};
pub use cost_budget::{BudgetSnapshot, CostBudget};
pub use forecast::LatencyForecast;
pub use hold::{hold, hopeless};
pub use learner::Learner;
pub use optimiser::{next, open};
pub use order::order;
pub use predict::TPOT_US;
pub use question::{
    AdaptiveQuestion, AttemptView, CANDIDATES_MAX, CandidateForecast, CandidateOrder, Minimise, NextDecision, Opening,
    us_per_cost,
};

#[cfg(test)]
mod tests;
