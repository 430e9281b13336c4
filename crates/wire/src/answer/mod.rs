//! Answers, whatever their dialect: whole answers, usage, ends, errors, limits.

pub mod ends;
pub mod error;
pub mod growing;
pub mod headers;
pub mod judgement;
pub mod reset;
pub mod usage;
pub mod whole;
