//! The door: who asks, what the headers demand, and whether there is room. Not for what is asked.

pub mod admission;
pub mod caller;
pub mod overrides;
