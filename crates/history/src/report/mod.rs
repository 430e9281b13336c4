//! Questions to the history and their answers: figures by group, series over time, incidents, races, runs. The commands and
//! `/api` both ask here, so they take the same parameters and give the same numbers.
//!
//! Not for SQL (`store`), estimates (`history`), the terminal (`cli`) or HTTP (`server`).

pub mod compare;
pub mod costs;
pub mod dimension;
pub mod distribution;
pub mod figures;
pub mod groups;
pub mod incidents;
pub mod members;
pub mod probes;
pub mod question;
pub mod races;
pub mod replicas;
pub mod runs;
pub mod series;
pub mod spent;
pub mod stats;
#[cfg(test)]
mod tests;
pub mod usage;
pub mod verdicts;
