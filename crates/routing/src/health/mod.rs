//! The state of the upstreams: breakers, cool-downs, used-up limits, key rotation, context windows, and how an attempt's
//! outcome changes them. Not for requests: those are in `proxy`.

mod breakers;
mod caller_id;
mod candidate;
mod cooldown_state;
mod live;
mod outcome_reporter;
pub mod routing_status;
mod state;

pub use breakers::{BreakerAdmission, ProbePermit};
pub use caller_id::CallerId;
pub use candidate::{Candidate, CooldownState};
pub use cooldown_state::{admit, cooling_down};
pub use live::{LiveConfig, named, why_off};
pub use outcome_reporter::{OutcomeReporter, RejectedFeature, SentRequest};
pub use state::{StreamingHabit, UpstreamHealth, prompt_length};
