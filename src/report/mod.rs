//! Questions to the history, and their answers as values: figures by group, series over time, regressions, races. Asked by
//! the commands and by `/api`, which so take the same parameters and tell the same numbers.
//!
//! No SQL (that is `store`), no estimates (those are `history`), no terminal and no HTTP.

pub mod asked;
pub mod columns;
pub mod dimension;
pub mod export;
pub mod fields;
pub mod figures;
pub mod groups;
pub mod question;
pub mod races;
pub mod regressions;
pub mod series;
pub mod stats;
pub mod timeline;

#[cfg(test)]
mod tests;
