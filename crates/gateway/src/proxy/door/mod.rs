//! The door: who asks, whether there is room, and what each caller may hold. Not for what is asked.

pub mod admission;
pub mod caller;
pub mod load;
pub mod minute_counts;
pub mod places;
pub mod sessions;
pub mod shares;
pub mod wrong_tokens;
