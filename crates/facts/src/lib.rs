//! What is known of races and attempts: their rows, why they were decided so, their bills, and the estimates made from them. Pure.
//! Not for keeping rows: see `photofinish_history`.

pub mod bill;
pub mod estimate;
pub mod reason;
pub mod record;
pub mod recording;
