//! The speed of decoding, as the view `attempt_speed` has it in SQL: for those who cannot ask the database, or ask for too
//! much of it.
//!
//! A test of `store` holds the two definitions together.

use super::record::{AttemptRecord, TokenSource};

/// What the speed of an attempt is made of; the columns of these names.
#[derive(Clone, Copy, Debug)]
pub struct Decoding {
    pub first_token_us: Option<i64>,
    pub first_answer_us: Option<i64>,
    pub last_token_us: Option<i64>,
    pub reasoning_events: i64,
    pub chars_total: i64,
    pub chars_first: i64,
    pub burst: Option<bool>,
    pub output_tokens: Option<i64>,
    pub reasoning_tokens: Option<i64>,
    pub tok_src: TokenSource,
}

impl Decoding {
    /// Of an attempt without a token.
    pub const NOTHING: Decoding = Decoding {
        first_token_us: None,
        first_answer_us: None,
        last_token_us: None,
        reasoning_events: 0,
        chars_total: 0,
        chars_first: 0,
        burst: None,
        output_tokens: None,
        reasoning_tokens: None,
        tok_src: TokenSource::None,
    };

    /// Time per output token after the first, in microseconds. `choices`: how many answers the request asked for, if it
    /// says. None where it is no measurement: too few tokens, an unknown count, a burst, several choices, nothing but
    /// hidden reasoning.
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

    /// By the provider's own count. Reasoning that is more than the output is not among it.
    pub fn tokens_out(&self) -> Option<i64> {
        if !matches!(self.tok_src, TokenSource::Usage | TokenSource::Partial) {
            return None;
        }
        let (output, reasoning) = (self.output_tokens?, self.reasoning_tokens.unwrap_or(0));
        Some(if reasoning > output { output + reasoning } else { output })
    }
}

impl From<&AttemptRecord> for Decoding {
    fn from(attempt: &AttemptRecord) -> Decoding {
        Decoding {
            first_token_us: attempt.first_token_us,
            first_answer_us: attempt.first_answer_us,
            last_token_us: attempt.last_token_us,
            reasoning_events: attempt.reasoning_events,
            chars_total: attempt.chars_total,
            chars_first: attempt.chars_first,
            burst: attempt.burst,
            output_tokens: attempt.output_tokens,
            reasoning_tokens: attempt.reasoning_tokens,
            tok_src: attempt.tok_src,
        }
    }
}
