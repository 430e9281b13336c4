//! What-if: the recorded requests of one model under other policies, and how those compare with the recorded result.
//! [`PastRequests`] takes the rows, [`replay`] answers.
//!
//! A row holds the outcome of a started attempt, and of a cut one only a lower bound. The rest is drawn several times from what
//! the upstream showed in the rest of the window ([`UpstreamModel`]); the answer says how much of it rests on draws. Not for I/O:
//! rows come in from the store, figures go out.

mod answer;
mod history;
mod past_requests;
mod question;
#[cfg(test)]
mod tests;
mod upstream_model;

pub use answer::{
    FIGURES, Interval, ProgressReport, ReplayFigure, ReplayFigures, ReplayReport, ReplayRow, ReplayedPlan, replay,
};
pub use history::{PlayedHistory, ReplayedHistory, ask, object};
pub use past_requests::{ENOUGH, PastCounts, PastRequests, REQUESTS_MAX};
pub use question::ReplayQuestion;
pub use upstream_model::UpstreamModel;
