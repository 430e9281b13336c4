//! How fast one attempt decoded: the view `attempt_speed` in Rust, for those who cannot ask the database.
//!
//! The definition is the view's; a test of `store` holds them together.

use super::record::{AttemptRecord, TokenSource};

/// Time per output token after the first, in microseconds. `choices`: how many answers the request asked for, if it says.
/// None where it is no measurement: too few tokens, an unknown count, a burst, several choices, nothing but hidden reasoning.
pub fn tpot_us(attempt: &AttemptRecord, choices: Option<i64>) -> Option<f64> {
    if attempt.burst == Some(true) || choices.is_some_and(|choices| choices != 1) {
        return None;
    }
    let reasoning = attempt.reasoning_tokens.unwrap_or(0);
    let hidden = if attempt.reasoning_events == 0 { reasoning } else { 0 };
    let start = if hidden > 0 { attempt.first_answer_us } else { attempt.first_token_us }?;
    let took = attempt.last_token_us? - start;
    let tokens = (tokens_out(attempt)? - hidden) as f64;
    let chars_share = attempt.chars_first as f64 / attempt.chars_total as f64;
    let first = if attempt.chars_total == 0 { 1.0 } else { (tokens * chars_share).max(1.0) };
    (took > 0 && tokens >= 2.0 && tokens - first >= 1.0).then(|| took as f64 / (tokens - first))
}

/// By the provider's own count. Reasoning that is more than the output is not among it.
fn tokens_out(attempt: &AttemptRecord) -> Option<i64> {
    if !matches!(attempt.tok_src, TokenSource::Usage | TokenSource::Partial) {
        return None;
    }
    let (output, reasoning) = (attempt.output_tokens?, attempt.reasoning_tokens.unwrap_or(0));
    Some(if reasoning > output { output + reasoning } else { output })
}
