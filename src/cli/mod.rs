//! To be written.

pub mod stats;
