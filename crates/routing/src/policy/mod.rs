//! The policy of one race: which candidate starts first, which is next, when, and what budget it reserves.
//!
//! The gateway and the replay use the same [`PolicyDriver`]. It runs below `race`: it gets the candidates, the running
//! attempts and the time, and answers with a plan or a step. It has no clock, no randomness and no I/O of its own. Not for
//! running attempts, and not for the forecast itself, which is `routing::adaptive`.

mod candidate;
mod context_fit;
mod driver;
mod reasons;

pub use candidate::CandidateState;
pub use context_fit::ContextFits;
pub use driver::{PolicyDriver, PolicyDriverParts};
pub use reasons::DecisionReasons;
