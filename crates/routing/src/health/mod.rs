//! The state of the upstreams: breakers, cool-downs, used-up limits, key rotation, context windows, and how an attempt's
//! outcome changes them. Not for requests: those are in `proxy`.

mod admission;
pub mod breaker;
pub(crate) mod candidate;
pub mod cooldown;
mod failure_meaning;
mod hint_exchange;
mod hints;
mod live;
mod needs;
mod outcome_reporter;
mod refusals;
mod sent_request;
pub(crate) mod state;
pub mod windows;

pub use admission::{BreakerAdmission, RaceCandidate, TrialPermit, cooling_down};
pub use candidate::{CallerId, Candidate, CooldownState, LastResort};
pub use failure_meaning::FailureMeaning;
pub use hints::HealthHint;
pub use live::{LiveConfig, ProviderRoute, named, why_off};
pub use needs::{RequestNeeds, prompt_length};
pub use outcome_reporter::OutcomeReporter;
pub use refusals::{Refusals, RefusedKind, RequestFeatures};
pub use sent_request::{RejectedFeature, RequestNotes, SentRequest};
pub use state::{StreamingHabit, UpstreamHealth};
