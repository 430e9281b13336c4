//! The content of one upstream event, in terms that the race and the meter understand. The same for every dialect.

use std::borrow::Cow;

use crate::json::characters;
use crate::stream::service_tier::ServiceTier;

/// The class of one event.
#[derive(Debug, PartialEq)]
pub enum Frame<'a> {
    /// A comment, a ping, or an event without data.
    KeepAlive,
    /// The event after which only usage counts (`[DONE]`). Its own content is in the chunk.
    Done(Chunk<'a>),
    /// An error in a 200 response: its data, and usage if the vendor sends it too.
    Error {
        data: Cow<'a, [u8]>,
        usage: Option<Cow<'a, str>>,
    },
    /// Not valid JSON.
    Malformed,
    /// JSON that only this other dialect has.
    Foreign(&'static str),
    Chunk(Chunk<'a>),
}

/// The facts of one chunk. One chunk may carry payload, finish and usage at once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chunk<'a> {
    /// None for a role, an empty string, a prompt filter, progress or usage.
    pub payload: Option<Payload>,
    pub finish_reason: Option<Cow<'a, str>>,
    /// The model's own name, as the vendor sends it.
    pub model: Option<Cow<'a, str>>,
    /// The answer's id, as the vendor sends it.
    pub id: Option<Cow<'a, str>>,
    /// JSON objects with usage or timings, see [`crate::answer::usage`].
    pub usage: Option<Cow<'a, str>>,
    pub timings: Option<Cow<'a, str>>,
    pub time_info: Option<Cow<'a, str>>,
    /// A price outside the usage, as JSON (Venice).
    pub cost: Option<Cow<'a, str>>,
    /// The tier that serves the request, if the event names one.
    pub tier: Option<ServiceTier>,
    /// The chunk contains only usage, as `include_usage` requests.
    pub usage_only: bool,
    /// The choices in this chunk, one bit per index; indexes from 63 on share a bit. Dialects with one answer use bit
    /// 0.
    pub choices: u64,
    /// The choices that have a finish reason, likewise.
    pub finished: u64,
    /// The choices that say that they have none yet, likewise: they will have one.
    pub open: u64,
    /// The text if it is a single plain string and all of the payload: the part of the event between its quotes.
    pub text: Option<&'a str>,
    /// A meaningless string that varies between chunks (OpenAI's `obfuscation`), likewise.
    pub padding: Option<&'a str>,
    /// The number of the event in the stream (Responses' `sequence_number`), likewise.
    pub number: Option<&'a str>,
    /// The chunk contains part of a call, payload or not.
    pub calls: bool,
    /// The payload repeats earlier deltas, and counts only if there were none. Some servers send whole items in a
    /// stream.
    pub repeated: bool,
    /// The event has the form of an answer that is not streamed. Its content is not in this chunk.
    pub whole: bool,
}

/// Generated output in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload {
    /// With several kinds, the answer's kind takes precedence over reasoning.
    pub kind: PayloadKind,
    /// Unicode characters; for audio and images, characters of their base64 text.
    pub chars: u32,
}

photofinish_base::named! {
    /// The kind of output in an event, by its stored name. Only an event with a non-empty payload of one of these kinds can win
    /// a race.
    pub enum PayloadKind {
        Text = "text",
        Reasoning = "reasoning",
        Tool = "tool",
        Refusal = "refusal",
        Audio = "audio",
        Image = "image",
        /// An answer without tokens that arrives all at once: an embedding, a token count.
        Whole = "whole",
    }
}

impl PayloadKind {
    /// Base64 text, of which few tokens make much.
    pub fn is_data(self) -> bool {
        matches!(self, PayloadKind::Audio | PayloadKind::Image | PayloadKind::Whole)
    }
}

impl Payload {
    /// None if the text is empty. `text` is the part between the quotes.
    pub fn of_text(kind: PayloadKind, text: &str) -> Option<Payload> {
        (!text.is_empty()).then(|| Payload { kind, chars: characters(text) })
    }

    /// None if there are no characters.
    pub fn of_chars(kind: PayloadKind, chars: u32) -> Option<Payload> {
        (chars > 0).then_some(Payload { kind, chars })
    }

    /// Merges two payloads of one chunk: the answer's kind takes precedence over reasoning, else the first.
    pub fn merge(a: Option<Payload>, b: Option<Payload>) -> Option<Payload> {
        match (a, b) {
            (Some(a), Some(b)) => {
                let kind = if a.kind == PayloadKind::Reasoning { b.kind } else { a.kind };
                Some(Payload { kind, chars: a.chars.saturating_add(b.chars) })
            }
            (a, b) => a.or(b),
        }
    }
}

impl Frame<'_> {
    /// A copy that does not borrow from the event.
    pub fn into_owned(self) -> Frame<'static> {
        match self {
            Frame::KeepAlive => Frame::KeepAlive,
            Frame::Malformed => Frame::Malformed,
            Frame::Foreign(dialect) => Frame::Foreign(dialect),
            Frame::Done(chunk) => Frame::Done(chunk.into_owned()),
            Frame::Error { data, usage } => Frame::Error { data: Cow::Owned(data.into_owned()), usage: owned(usage) },
            Frame::Chunk(chunk) => Frame::Chunk(chunk.into_owned()),
        }
    }
}

impl Chunk<'_> {
    /// Whether it surely has more than reasoning and white space.
    pub fn says(&self) -> bool {
        match self.payload.map(|payload| payload.kind) {
            None | Some(PayloadKind::Reasoning) => false,
            Some(PayloadKind::Text) => self.text.is_some_and(is_more_than_space),
            Some(_) => true,
        }
    }

    /// A copy that does not borrow from the event. The positions of its texts are dropped.
    pub fn into_owned(self) -> Chunk<'static> {
        Chunk {
            payload: self.payload,
            usage_only: self.usage_only,
            choices: self.choices,
            finished: self.finished,
            open: self.open,
            finish_reason: owned(self.finish_reason),
            model: owned(self.model),
            id: owned(self.id),
            usage: owned(self.usage),
            timings: owned(self.timings),
            time_info: owned(self.time_info),
            cost: owned(self.cost),
            tier: self.tier,
            text: None,
            padding: None,
            number: None,
            calls: self.calls,
            repeated: self.repeated,
            whole: self.whole,
        }
    }
}

fn owned(text: Option<Cow<'_, str>>) -> Option<Cow<'static, str>> {
    text.map(|text| Cow::Owned(text.into_owned()))
}

/// Whether a text, given as it is between its quotes, has a character that is surely no white space.
fn is_more_than_space(quoted: &str) -> bool {
    quoted.split('\\').enumerate().any(|(at, part)| {
        // The first character behind a backslash belongs to the escape.
        let skipped = if at == 0 { 0 } else { part.chars().next().map_or(0, char::len_utf8) };
        let rest = if part.starts_with('u') && at > 0 { part.get(5..) } else { part.get(skipped..) };
        rest.is_some_and(|rest| !rest.trim().is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_surely_says_something() {
        for (quoted, says) in [
            ("", false),
            (" ", false),
            ("\\n\\t \\r", false),
            ("\\u0020 \\u00a0", false),
            ("a", true),
            (" \\n\\nyes", true),
            ("\\u0020é", true),
            ("\\u00e9", false),
            ("日", true),
            ("\\u12", false),
        ] {
            assert_eq!(is_more_than_space(quoted), says, "{quoted}");
        }
    }
}
