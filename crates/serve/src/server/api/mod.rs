//! `/api`: the history over HTTP, for admins. The URL parameters are the options of the commands, and the answers are
//! JSON; `openapi` describes both.
//!
//! Not for the questions and figures: see `report`.

mod accounts;
mod config;
mod events;
mod openapi;
mod questions;
#[cfg(test)]
mod tests;

pub use accounts::{AuditQuestion, audit, audit_line, is_account_path, me, of_kind, one_of_kind, rotation, usage};
pub use config::{config, shared_part};
pub use events::{REPLAYS_MAX, live, replay};
pub use openapi::document;
pub use questions::{
    costs, distribution, history, incidents, race, races, reload, replicas, routing, run, runs, stats, verdicts,
};
