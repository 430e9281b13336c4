//! What is recorded: the rows of races, their bills, the database, the estimates made from them, metrics, and questions to the
//! history. Not for decisions.

pub mod bill;
pub mod estimate;
pub mod metrics;
pub mod reason;
pub mod record;
pub mod recorder;
pub mod report;
pub mod store;
