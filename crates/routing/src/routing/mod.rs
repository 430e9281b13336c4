//! Forecasts, prices, breakers and plans. Pure code: input is values and a `now`, output is values.
//!
//! Not for choosing by a policy, which is in `policy`. Not for running a race: `race` executes the [`plan::RacePlan`].

pub mod adaptive;
pub mod breaker;
pub mod cooldown;
pub mod plan;
pub mod tariff;
pub mod windows;
