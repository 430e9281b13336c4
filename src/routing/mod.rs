//! Forecasts, prices, breakers and plans: pure code, values and a `now` in, values out.
//!
//! Not for choosing by a policy, which is `policy`'s, nor for running a race: `race` executes the [`plan::RacePlan`].

pub mod adaptive;
pub mod bill;
pub mod breaker;
pub mod cooldown;
pub mod keyring;
pub mod plan;
pub mod scrub;
pub mod tariff;
pub mod windows;
