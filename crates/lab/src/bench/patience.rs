//! How long a measurement waits for an answer. Not for clients, who decide that themselves.

use std::time::Duration;

/// Time for a whole answer at least, however short it is to be.
const ANSWER_LEAST: Duration = Duration::from_secs(30);
/// Time for a whole answer at most, however long it is to be.
const ANSWER_FOR: Duration = Duration::from_secs(24 * 3_600);
/// Tokens per second of an answer that is not waited for to its end. A model at this speed is of no use to a reader.
const OUTPUT_PER_SECOND: f64 = 5.0;
/// Tokens per second at which its prompt is read.
const INPUT_PER_SECOND: f64 = 1_000.0;

/// The time for one answer to a prompt of so many tokens, with at most so many tokens of its own.
pub fn patience(input_tokens: f64, output_tokens: f64) -> Duration {
    let seconds = input_tokens / INPUT_PER_SECOND + output_tokens / OUTPUT_PER_SECOND;
    Duration::try_from_secs_f64(seconds).unwrap_or(ANSWER_FOR).clamp(ANSWER_LEAST, ANSWER_FOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_answers_are_awaited_for_longer_and_none_forever() {
        let table = [
            (200.0, 16.0, 30),
            (500.0, 200.0, 40),
            (1_000.0, 1_000.0, 201),
            (100_000.0, 2_000.0, 500),
            (f64::NAN, 1.0, 86_400),
            (1.0, 1e300, 86_400),
            (-5.0, -5.0, 86_400),
        ];
        for (input, output, seconds) in table {
            assert_eq!(patience(input, output).as_secs(), seconds, "{input} {output}");
        }
    }
}
