//! Verifies the hosts of a model: what is exactly different between them.
//!
//! `ask` and `judge` say what is asked and what the answers mean, `compare` who differs from whom: values in, values out. `run` sends
//! the requests with the client of the load generator. Not for what is printed and kept: see the command.

mod ask;
mod compare;
pub mod fingerprint;
mod judge;
mod run;
mod sample;

pub use ask::{FactQuestion, Topic, questions, sample_questions};
pub use compare::{FactAnswer, FactVerdict, compare, vendor};
pub use judge::{FactFinding, Findings, HeardAnswer, HostReply, judge};
pub use run::{Verification, VerifiedHost, Verifier, WORKLOAD};
pub use sample::{LETTERS_MAX, SampleVerdict, SampledAnswer, compare_samples, letters};
