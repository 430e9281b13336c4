//! How many tokens an answer surely has, and how many no honest answer has: beyond that it is endless. Pure.
//!
//! Only a tokenizer knows the true count, so it is estimated from below, by what the meter counts anyway:
//!
//! - A token has at most 128 characters ([`TOKEN_CHARS`]). So characters divided by 128 are never more than the tokens.
//! - An event with text holds a token at least, unless its server cuts tokens into pieces. So events with text count too, but at
//!   most one for 32 characters ([`PIECE_CHARS`]): however small the pieces are, that is never more than four times the tokens.
//! - Thinking counts by its characters alone. Some providers do not count it in `max_tokens`.
//! - Audio and images are base64 text of which one token makes thousands of characters. Encrypted reasoning is no payload.
//!
//! `max_tokens` is exceeded at four times its value, so an honest answer that uses all of it is not cut, whatever its text is and
//! however it is cut into events.

use std::fmt;

/// Characters of a token at most: the longest of the common vocabularies are 128 blanks (`cl100k`, `o200k`, Llama 3, Qwen) and
/// 64 times two letters (GPT-2).
const TOKEN_CHARS: i64 = 128;
/// Characters of text that count as a token at least where each comes in an event of its own: a quarter of the longest token, as
/// an answer is cut at four times its `max_tokens`.
const PIECE_CHARS: i64 = TOKEN_CHARS / TIMES_ASKED;
/// Characters of audio or an image that count as a token: sound of 48 kHz in stereo has 20,000, an image of 20 MB 14,000.
const DATA_CHARS: i64 = 65_536;
/// An answer is endless beyond this multiple of `max_tokens`.
const TIMES_ASKED: i64 = 4;
/// Without `max_tokens` it is endless beyond this multiple of the model's longest answer.
const TIMES_LONGEST: i64 = 2;
/// Tokens after which an answer of unknown length is endless: several times the longest answer of any model of 2026.
const TOKENS_MAX: i64 = 1_000_000;
/// A smaller `max_tokens` counts as this: Responses takes none below it.
const ASKED_LEAST: i64 = 16;
/// Prompts of one call of completions, each of which has answers of its own. Beyond 63 answers they are not distinguished.
const PROMPTS: i64 = 2_048;

/// What an answer has so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerLength {
    /// Events with payload that is no thinking.
    pub events: i64,
    /// Characters of text, calls and refusals.
    pub chars: i64,
    /// Characters of thinking.
    pub thinking: i64,
    /// Characters of audio and images.
    pub data: i64,
}

impl AnswerLength {
    fn tokens_at_least(self) -> i64 {
        let text = (self.chars / TOKEN_CHARS).max(self.events.min(self.chars / PIECE_CHARS));
        text + self.thinking / TOKEN_CHARS + self.data / DATA_CHARS
    }
}

/// From how many tokens on an answer is endless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LengthBound {
    /// Of one answer; a request may ask for several.
    tokens: i64,
    of: BoundSource,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BoundSource {
    /// `max_tokens`, in any dialect.
    Asked(i64),
    /// The longest answer of the model, from the catalogue.
    Longest(i64),
    Unknown,
}

impl LengthBound {
    /// `asked`: `max_tokens`; zero and less mean none. `longest`: tokens of the model's longest answer. `echoed`: bytes of a
    /// prompt that the answer repeats.
    pub fn new(asked: Option<i64>, longest: Option<u64>, echoed: usize) -> LengthBound {
        let positive = |tokens: &i64| *tokens > 0;
        let longest = || longest.and_then(|tokens| i64::try_from(tokens).ok()).filter(positive);
        let (tokens, of) = match asked.filter(positive) {
            Some(asked) => (asked.max(ASKED_LEAST).saturating_mul(TIMES_ASKED), BoundSource::Asked(asked)),
            None => match longest() {
                Some(longest) => (longest.saturating_mul(TIMES_LONGEST), BoundSource::Longest(longest)),
                None => (TOKENS_MAX, BoundSource::Unknown),
            },
        };
        let echoed = i64::try_from(echoed).unwrap_or(i64::MAX) / PIECE_CHARS;
        LengthBound { tokens: tokens.saturating_add(echoed), of }
    }

    /// This number of characters is never too many: a cheap first check.
    pub fn free_chars(self, choices: u32) -> i64 {
        self.tokens.saturating_mul(i64::from(choices)).saturating_mul(PIECE_CHARS)
    }

    /// Whether it is endless. `seen`: the answers that it has, one bit each, as in `Chunk::choices`.
    pub fn is_exceeded(self, length: AnswerLength, choices: u32, seen: u64) -> bool {
        let seen = if seen >> 63 == 1 { PROMPTS } else { i64::from(seen.count_ones()) };
        length.tokens_at_least() > self.tokens.saturating_mul(seen.max(i64::from(choices)))
    }
}

impl fmt::Display for LengthBound {
    /// Such as `4 times its max_tokens, 100`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.of {
            BoundSource::Asked(tokens) => write!(f, "{TIMES_ASKED} times its max_tokens, {tokens}"),
            BoundSource::Longest(tokens) => {
                write!(f, "{TIMES_LONGEST} times the {tokens} tokens of the model's longest answer")
            }
            BoundSource::Unknown => write!(f, "{TOKENS_MAX} tokens"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(events: i64, chars: i64) -> AnswerLength {
        AnswerLength { events, chars, ..AnswerLength::default() }
    }

    #[test]
    fn what_bounds_an_answer() {
        let table = [
            (Some(100), Some(8_192), 400, "4 times its max_tokens, 100"),
            (Some(1), None, 64, "4 times its max_tokens, 1"),
            (Some(i64::MAX), None, i64::MAX, "4 times its max_tokens, 9223372036854775807"),
            (None, Some(8_192), 16_384, "2 times the 8192 tokens of the model's longest answer"),
            (Some(0), Some(8_192), 16_384, "2 times the 8192 tokens of the model's longest answer"),
            (Some(-1), None, 1_000_000, "1000000 tokens"),
            (None, Some(0), 1_000_000, "1000000 tokens"),
            (None, None, 1_000_000, "1000000 tokens"),
        ];
        for (asked, longest, tokens, shown) in table {
            let bound = LengthBound::new(asked, longest, 0);
            assert_eq!((bound.tokens, bound.to_string().as_str()), (tokens, shown), "{asked:?} {longest:?}");
        }
        assert_eq!(LengthBound::new(Some(100), None, 3_200).tokens, 500, "the prompt is repeated");
    }

    #[test]
    fn what_counts_as_a_token_at_least() {
        let table = [
            (text(0, 0), 0),
            (text(1, 4), 0),
            (text(10, 320), 10),
            (text(10, 319), 9),
            (text(1_000, 320), 10),
            (text(1, 12_800), 100),
            (AnswerLength { thinking: 12_800, ..text(10, 320) }, 110),
            (AnswerLength { data: 1_000_000, events: 500, ..AnswerLength::default() }, 15),
        ];
        for (length, expected) in table {
            assert_eq!(length.tokens_at_least(), expected, "{length:?}");
        }
    }

    #[test]
    fn each_answer_of_a_request_has_its_own_tokens() {
        let bound = LengthBound::new(Some(100), None, 0);
        let exceeded = |tokens: i64, choices, seen| bound.is_exceeded(text(tokens, tokens * 32), choices, seen);
        assert!(!exceeded(400, 1, 1) && exceeded(401, 1, 1));
        assert!(!exceeded(800, 2, 1) && exceeded(801, 2, 1), "two were asked for");
        assert!(!exceeded(1_200, 1, 0b111) && exceeded(1_201, 1, 0b111), "three prompts");
        assert!(!exceeded(400 * 2_048, 1, 1 << 63) && exceeded(400 * 2_048 + 1, 1, 1 << 63), "many prompts");
    }

    /// Tokens of an answer as their lengths, most of them as long as a vocabulary has them, and where its server cuts the text
    /// into events.
    fn answer() -> impl Strategy<Value = (Vec<usize>, Vec<usize>)> {
        let token = prop_oneof![3 => 1_usize..8, 1 => Just(1), 2 => Just(TOKEN_CHARS as usize), 1 => 8_usize..128];
        let pieces = prop_oneof![Just(vec![1_usize]), prop::collection::vec(1_usize..300, 1..9)];
        (prop::collection::vec(token, 1..400), pieces)
    }

    proptest! {
        /// Whole tokens in each event: the estimate is never more than their number.
        #[test]
        fn of_whole_tokens_never_more_are_estimated((tokens, pieces) in answer(), thinks: bool) {
            let mut length = AnswerLength::default();
            let mut rest = &tokens[..];
            for piece in pieces.iter().cycle() {
                let (event, more) = rest.split_at((*piece).min(rest.len()));
                rest = more;
                let chars = event.iter().sum::<usize>() as i64;
                if thinks {
                    length.thinking += chars;
                } else {
                    length.events += 1;
                    length.chars += chars;
                }
                prop_assert!(length.tokens_at_least() <= (tokens.len() - rest.len()) as i64, "{length:?}");
                if rest.is_empty() {
                    break;
                }
            }
        }

        /// Pieces of any size, down to single characters: an answer that keeps to its `max_tokens` is never endless.
        #[test]
        fn an_honest_answer_is_never_endless((tokens, pieces) in answer()) {
            let bound = LengthBound::new(Some(tokens.len() as i64), None, 0);
            let all = tokens.iter().sum::<usize>();
            let mut length = AnswerLength::default();
            for piece in pieces.iter().cycle() {
                let piece = (*piece).min(all - length.chars as usize);
                length.events += 1;
                length.chars += piece as i64;
                prop_assert!(!bound.is_exceeded(length, 1, 1), "{length:?}");
                if length.chars as usize == all {
                    break;
                }
            }
        }

        /// The first look leaves out nothing that the second finds.
        #[test]
        fn nothing_endless_has_few_characters(
            events in 0_i64..1_000_000, chars in 0_i64..1_000_000, thinking in 0_i64..1_000_000, data in 0_i64..100_000_000,
            asked in 1_i64..100, choices in 1_u32..4
        ) {
            let (bound, length) = (LengthBound::new(Some(asked), None, 0), AnswerLength { events, chars, thinking, data });
            if chars + thinking + data <= bound.free_chars(choices) {
                prop_assert!(!bound.is_exceeded(length, choices, 1));
            }
        }

        /// What goes on ends, whatever it is.
        #[test]
        fn whatever_goes_on_is_endless_at_last(chars in 1_i64..5_000, kind in 0_usize..3, asked in 1_i64..500) {
            let bound = LengthBound::new(Some(asked), None, 0);
            let events = 128 * 65_536 * (bound.tokens + 1) / chars.min(128);
            let all = chars.saturating_mul(events);
            let length = match kind {
                0 => text(events, all),
                1 => AnswerLength { thinking: all, ..AnswerLength::default() },
                _ => AnswerLength { data: all, events, ..AnswerLength::default() },
            };
            prop_assert!(bound.is_exceeded(length, 1, 1), "{length:?}");
        }
    }
}
