//! What callers have used of their limits, and whether a request may begin. Values and a `now` in, values out.
//!
//! A request passes these levels: everybody, its team, its user, its key, and what these may spend on its model. All of them must agree. [`admit`] checks all and then
//! takes from all, under their locks in this order; a [`Hold`] has what one request took, and gives back what it did not use. Not for the
//! limits themselves: see `config::Limits`.

mod admit;
mod book;
mod bucket;
mod heard;
mod hold;
mod lengths;
mod level;
#[cfg(test)]
mod model_check;
mod near_end;
mod parts;
mod rate;
mod replicas;
#[cfg(test)]
mod replicas_check;
#[cfg(test)]
mod storm;
mod window;

pub use admit::{BudgetRefusal, LimitRefusal, OverBudget, RefusedBy, admit};
pub use book::{BudgetChange, LevelUse, LimitLevel, LimitLevels, LimitUse, NANO_USD, PeriodUse, UsageBook};
pub use bucket::RateLeft;
pub use heard::{ReplicaUse, SubjectUse};
pub use hold::{Admission, AttemptCost, AttemptReservation, Hold, KnownCost, LimitsLeft, Written};
pub use lengths::{AnswerLengths, OwnLengths};
pub use level::LevelName;
pub use near_end::{BudgetWarning, NearEnd, usd};
pub use replicas::Heard;
pub use window::{Calendar, LimitClock};
