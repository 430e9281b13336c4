//! Answers, whatever their dialect: whole answers, usage, ends, errors, limits, and continuing a broken answer ([`rescue`]).

pub mod asked;
pub mod ends;
pub mod error;
pub mod growing;
pub mod headers;

pub mod rescue;
pub mod reset;
pub mod service_tier;
pub mod usage;
pub(crate) mod whole;
