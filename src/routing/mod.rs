//! Deciding which upstreams a request is raced over, in which order and when: pure, values and a `now` in, values out.
//!
//! Not for running a race: `race` executes the [`plan::RacePlan`] that is made here.

pub mod adaptive;
pub mod bill;
pub mod breaker;
pub mod cooldown;
pub mod keyring;
pub mod plan;
pub mod scrub;
pub mod tariff;
pub mod windows;
