//! What-if: the recorded requests of one model, played again under other policies, and what that says of them beside what was
//! done. [`Past`] takes the rows, [`replay`] answers.
//!
//! Rows know what became of the attempts that were started, and of those that were cut only that it took longer. What is
//! missing is drawn, several times, from what the upstream showed in the rest of the window ([`Expected`]); the answer says
//! how far it rests on that. No I/O: rows come in, figures go out.

mod answer;
mod drawn;
mod expected;
mod figures;
mod past;
mod scatter;
#[cfg(test)]
mod tests;

pub use answer::{Answer, Plan, Progress, Row, replay};
pub use expected::Expected;
pub use figures::{FIGURES, Figure, Figures, Interval};
pub use past::{Counts, ENOUGH, Past, REQUESTS_MAX};
