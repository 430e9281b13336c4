//! To be written.
pub mod check;
