//! What is kept of races: the database, the recorder that fills it, and questions to the history. Not for decisions, nor for
//! what a row says: see `photofinish_facts`.

pub mod recorder;
pub mod report;
pub mod store;
