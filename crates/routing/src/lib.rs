//! Decisions as values: plans, policies, forecasts, breakers, cool-downs, prices, what a failure means; and the shared state that
//! they read: statistics and health of the upstreams. Not for carrying them out.

pub mod callers;
pub mod forecast;
pub mod health;
pub mod learning;
pub mod money;
pub mod policy;
pub mod quality;
pub mod status;
pub mod verdict;
