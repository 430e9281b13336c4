//! One request of a stage, as its rows tell it.

use serde::{Deserialize, Serialize};

/// How a request of a stage ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestEnd {
    /// A whole answer.
    Answered,
    /// 429, or set aside because of one.
    RateLimited,
    TimedOut,
    #[default]
    Failed,
    /// Not sent: too many were in flight. Open loop only.
    Dropped,
    /// The run ended before it did: neither good nor bad.
    CutShort,
}

/// One request. Times are microseconds. `scheduled_us`, `sent_us` and `ended_us` count from the beginning of its block, the
/// others from the dispatch of its first attempt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredRequest {
    /// The number of its prompt.
    pub number: u64,
    pub scheduled_us: i64,
    /// The dispatch of its first attempt.
    pub sent_us: i64,
    pub ended_us: i64,
    pub end: RequestEnd,
    /// The failure's name, such as `server_error`.
    pub failure: Option<&'static str>,
    pub ttft_us: Option<i64>,
    /// To the last token.
    pub e2e_us: Option<i64>,
    pub tpot_us: Option<f64>,
    /// The answer was one token, or came in one event: it meets any TPOT.
    pub at_once: bool,
    pub input_tokens: Option<i64>,
    pub cached_input_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    /// What all its attempts cost: least and most.
    pub cost_usd: (f64, f64),
    /// A part of the cost is not known at all.
    pub unpriced: bool,
    pub conn_reused: Option<bool>,
    /// Attempts that were started for it.
    pub attempts: i64,
}

impl MeasuredRequest {
    pub fn is_answered(&self) -> bool {
        self.end == RequestEnd::Answered
    }

    /// Whether it is known when it was sent: a dropped one was not, and one that was cut short has no row.
    pub fn has_dispatch(&self) -> bool {
        !matches!(self.end, RequestEnd::Dropped | RequestEnd::CutShort)
    }

    /// How late it was sent.
    pub fn lag_us(&self) -> i64 {
        (self.sent_us - self.scheduled_us).max(0)
    }

    /// From the scheduled time to the first token: what a client feels in an open loop.
    pub fn client_ttft_us(&self) -> Option<i64> {
        Some(self.lag_us() + self.ttft_us?)
    }

    /// From the scheduled time to the last token.
    pub fn client_e2e_us(&self) -> Option<i64> {
        Some(self.lag_us() + self.e2e_us?)
    }

    /// The same request, in a block where it was scheduled at that time.
    pub(super) fn scheduled_at(self, scheduled_us: i64) -> MeasuredRequest {
        let since = scheduled_us - self.scheduled_us;
        MeasuredRequest { scheduled_us, sent_us: self.sent_us + since, ended_us: self.ended_us + since, ..self }
    }
}
