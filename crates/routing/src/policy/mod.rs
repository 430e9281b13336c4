//! The policy of one race: which candidate starts first, which is next, when, and what budget it reserves.
//!
//! The gateway and the replay use the same [`PolicyDriver`]. It runs below `race`: it gets the candidates, the running
//! attempts and the time, and answers with a plan or a step. It has no clock, no randomness and no I/O of its own. Not for
//! running attempts, and not for the forecast itself, which is `forecast`.

pub mod adaptive;
mod candidate;
mod context_fit;
mod draw;
mod driver;
mod fallback;
mod hedge;
mod hold;
mod look;
mod patience;
pub mod plan;
pub mod question;
mod race;
mod revisit;
mod rule;
mod rules;
mod state;
pub mod value;
mod weighted;

pub use candidate::{CandidateState, CandidateTurn};
pub use context_fit::ContextFits;
pub use draw::{LookDraw, LookTicket};
pub use driver::PolicyDriver;
pub use hold::PACE_TOKENS;
pub use rules::{ExtraStarts, PolicyRules, PolicySetting};
pub use state::{DecisionReasons, PolicyDriverParts, PolicyState};

use photofinish_config::Policy;

/// What is known of a policy.
pub fn rules(policy: Policy) -> &'static dyn PolicyRules {
    match policy {
        Policy::Race => &race::All,
        Policy::Hedge => &hedge::Hedge,
        Policy::Adaptive => &adaptive::Adaptive,
        Policy::Fallback => &fallback::Fallback,
        Policy::Weighted => &weighted::Weighted,
    }
}
