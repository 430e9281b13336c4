//! To be written.

pub mod check;
pub mod simulate;
pub mod stats;
