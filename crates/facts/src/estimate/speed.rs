//! The speed of decoding: the same definition as the SQL view `attempt_speed`, for rows in memory and for scans that
//! are too large for the view.
//!
//! A test of `store` compares both.

use crate::record::names::TokenSource;
use crate::record::table::subset;
use crate::record::tables::AttemptRecord;

/// An answer below this share of the length that was asked for is short.
pub const SHORT_ANSWER: f64 = 0.8;

subset! {
    /// The columns that the speed of an attempt is computed from. The default is an attempt without a token.
    pub Decoding of AttemptRecord {
        first_token_us: Option<i64>,
        first_answer_us: Option<i64>,
        last_token_us: Option<i64>,
        reasoning_events: i64,
        chars_total: i64,
        chars_first: i64,
        burst: Option<bool>,
        output_tokens: Option<i64>,
        reasoning_tokens: Option<i64>,
        tok_src: TokenSource,
    }
}

/// Whether an answer meets any TPOT: it was one token, or all its tokens came in one event.
pub fn came_at_once(payload_events: i64, output_tokens: Option<i64>) -> bool {
    payload_events == 1 || output_tokens == Some(1)
}

impl Decoding {
    /// Time per output token after the first, in microseconds. `choices`: `n` of the request. None if it cannot be
    /// measured: too few tokens, an unknown count, a burst, several choices, only hidden reasoning.
    pub fn tpot_us(&self, choices: Option<i64>) -> Option<f64> {
        if self.burst == Some(true) || choices.is_some_and(|choices| choices != 1) {
            return None;
        }
        let reasoning = self.reasoning_tokens.unwrap_or(0);
        let hidden = if self.reasoning_events == 0 { reasoning } else { 0 };
        let start = if hidden > 0 { self.first_answer_us } else { self.first_token_us }?;
        let took = self.last_token_us? - start;
        let tokens = (self.tokens_out()? - hidden) as f64;
        let chars_share = self.chars_first as f64 / self.chars_total as f64;
        let first = if self.chars_total == 0 { 1.0 } else { (tokens * chars_share).max(1.0) };
        (took > 0 && tokens >= 2.0 && tokens - first >= 1.0).then(|| took as f64 / (tokens - first))
    }

    /// The provider's own count, reasoning included.
    pub fn tokens_out(&self) -> Option<i64> {
        self.output_tokens.filter(|_| matches!(self.tok_src, TokenSource::Usage | TokenSource::Partial))
    }
}
