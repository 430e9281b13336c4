//! The request of one attempt as its race remembers it. Not for its bytes: see `translation`.

use photofinish_base::clock::Instant;
use photofinish_base::telemetry::LogContext;
use photofinish_config::keyring::HashedKey;
use photofinish_translation::adapt::Lesson;
use photofinish_wire::{AnswerForm, Surface};

/// The request that was sent.
#[derive(Clone)]
pub struct SentRequest {
    pub at: Instant,
    /// The names of the attempt in the log.
    pub context: LogContext,
    pub key: Option<HashedKey>,
    /// How it is to be answered.
    pub form: AnswerForm,
    /// The features that the upstream rejected in this race; they are left out.
    pub complained: RejectedFeature,
    pub notes: RequestNotes,
    /// A pooled connection died in this race: further starts use a new one.
    pub stale: bool,
}

/// What the headers of an answer say of a request that was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestNotes {
    /// Names of what it was without.
    pub lost: Vec<String>,
    /// What refusals of its upstream taught about it.
    pub learnt: Vec<String>,
}

/// Parts of a request that an upstream rejected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RejectedFeature {
    /// A guess, until an answer without them confirms it.
    pub stream_options: bool,
    /// Streaming: it is asked for a plain answer. A guess like the first.
    pub stream: bool,
    /// What its refusals named, and on which of its surfaces. Guesses like the first.
    pub lessons: Vec<(Surface, Lesson)>,
    /// A hash of the last refusal: the same words again teach nothing more.
    pub words: Option<u64>,
}
