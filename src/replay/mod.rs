//! What-if: the recorded requests of one model, played again under other policies, and what that says of them beside what was
//! done. [`PastRequests`] takes the rows, [`replay`] answers.
//!
//! Rows know what became of the attempts that were started, and of those that were cut only that it took longer. What is
//! missing is drawn, several times, from what the upstream showed in the rest of the window ([`UpstreamModel`]); the answer says
//! how far it rests on that. No I/O: rows come in, figures go out.

mod answer;
mod figures;
mod imputation;
mod past_requests;
mod scatter;
#[cfg(test)]
mod tests;
mod upstream_model;

pub use answer::{ProgressReport, ReplayReport, ReplayRow, ReplayedPlan, replay};
pub use figures::{FIGURES, Interval, ReplayFigure, ReplayFigures};
pub use past_requests::{ENOUGH, PastCounts, PastRequests, REQUESTS_MAX};
pub use upstream_model::UpstreamModel;
