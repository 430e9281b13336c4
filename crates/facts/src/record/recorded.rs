//! Recorded requests with their attempts in the order of starting, for learning at start-up and for replay.
//!
//! Not for figures: `facts` makes them without keeping the rows.

use super::names::{AttemptOutcome, RaceOutcome, RaceSource};
use photofinish_base::failure::FailureKind;
use photofinish_wire::answer::judgement::{CallsVerdict, Judgement, StructuredVerdict};

/// One request. Times are microseconds after the request was read unless the field states otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    pub race_id: String,
    /// Microseconds since 1970, UTC.
    pub started_at: i64,
    /// The model that the client asked for.
    pub model: String,
    /// The policy of its plan.
    pub policy: Option<String>,
    pub stream: bool,
    pub has_tools: bool,
    /// Bytes of the request / 4.
    pub input_tokens_estimate: i64,
    /// Ordinal of the attempt that served the client.
    pub winner: Option<i64>,
    /// First payload byte sent to the client.
    pub client_ttft_us: Option<i64>,
    pub done_us: Option<i64>,
    pub outcome: RaceOutcome,
    pub source: RaceSource,
    /// The upstream that it drew to be looked at.
    pub look: Option<String>,
    pub attempts: Vec<RecordedAttempt>,
}

/// One attempt. Times are microseconds after its dispatch unless the field states otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedAttempt {
    pub ordinal: i64,
    pub provider: String,
    pub model_sent: String,
    /// Microseconds after the request was read.
    pub dispatch_us: i64,
    /// Other attempts at this upstream at dispatch.
    pub in_flight: i64,
    /// The TTFT, or how long no token had come. None: it failed.
    pub ttft_obs_us: Option<i64>,
    /// Whether the first token was seen.
    pub seen: bool,
    /// Its answer was asked for in one piece: it has no TTFT.
    pub plain: bool,
    pub outcome: AttemptOutcome,
    pub failure: Option<FailureKind>,
    /// Time per token after the first, in microseconds.
    pub tpot_us: Option<f64>,
    pub input_tokens: Option<i64>,
    pub cached_input_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    /// Exact cost in US dollars. None: it is not known exactly.
    pub cost_usd: Option<f64>,
    /// Its end: the end of the body, the cancel, or its last known event.
    pub ended_us: i64,
    pub calls: Option<CallsVerdict>,
    pub structured: Option<StructuredVerdict>,
    /// Equal for requests with the same tools and schema.
    pub tool_set: Option<i64>,
}

impl RecordedAttempt {
    /// Its tool set, its upstream, and whether its answer is broken. None: nothing of it was judged.
    pub fn judged(&self) -> Option<(u32, String, bool)> {
        let broken = Judgement { calls: self.calls, structured: self.structured }.is_broken()?;
        let class = u32::try_from(self.tool_set?).ok()?;
        Some((class, format!("{}/{}", self.provider, self.model_sent), broken))
    }
}

/// What the history is asked for to know which of a model's hosts are worse than the others.
pub trait QualityHistory {
    type Error;

    /// Passes to `each` the requests of these upstreams (`provider/model`), oldest first: of each its newest attempts, at most `newest`.
    ///
    /// # Errors
    /// The history cannot be read.
    fn requests_of(
        &self,
        upstreams: &[String],
        newest: usize,
        each: &mut dyn FnMut(Recorded),
    ) -> Result<(), Self::Error>;

    /// What `photofinish verify` found since then (microseconds since 1970) that a host certainly does not do: host and fact.
    ///
    /// # Errors
    /// The history cannot be read.
    fn wrong_facts(&self, since_us: i64) -> Result<Vec<(String, String)>, Self::Error>;
}
