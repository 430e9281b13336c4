//! What one event of an upstream is, whatever its dialect: the words that the race and the meter understand.

use std::borrow::Cow;

use super::json::characters;

/// What one event is.
#[derive(Debug, PartialEq)]
pub enum Frame<'a> {
    /// A comment, a ping, an event without data.
    KeepAlive,
    /// The event behind which nothing but usage counts (`[DONE]`). What it carries itself is in the chunk.
    Done(Chunk<'a>),
    /// An error in a 200: its data, and the usage that a vendor may put beside it.
    Error {
        data: Cow<'a, [u8]>,
        usage: Option<Cow<'a, str>>,
    },
    /// Not valid JSON.
    Malformed,
    /// JSON as only this other dialect has it.
    Foreign(&'static str),
    Chunk(Chunk<'a>),
}

/// The facts of one chunk. One chunk may carry payload, finish and usage at once.
#[derive(Debug, Default, PartialEq)]
pub struct Chunk<'a> {
    /// None for a role, an empty string, a prompt filter, progress, usage.
    pub payload: Option<Payload>,
    pub finish_reason: Option<Cow<'a, str>>,
    /// The model that answers, as it names itself.
    pub model: Option<Cow<'a, str>>,
    /// JSON objects that hold usage or timings, see [`super::usage`].
    pub usage: Option<Cow<'a, str>>,
    pub timings: Option<Cow<'a, str>>,
    pub time_info: Option<Cow<'a, str>>,
    /// There is nothing but usage: the chunk that `include_usage` asks for.
    pub usage_only: bool,
    /// The choices in this chunk, a bit for each index; those from 63 on share one. A dialect with one answer uses bit 0.
    pub choices: u64,
    /// Those of them that have a finish reason.
    pub finished: u64,
    /// The one plain string that is all the payload there is, between its quotes, where it stands in the event.
    pub text: Option<&'a str>,
    /// A string behind `text` that varies from chunk to chunk and means nothing (OpenAI's `obfuscation`), likewise.
    pub padding: Option<&'a str>,
    /// A number that counts the events of the stream (Responses' `sequence_number`), where it stands in the event.
    pub number: Option<&'a str>,
    /// Something of a call is in it, whether that is payload or not.
    pub calls: bool,
    /// The payload says once more what the deltas before it said, so it only counts if there were none: some servers send whole
    /// items in a stream.
    pub repeated: bool,
}

/// Generated output in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Of several, the answer's before reasoning.
    pub kind: PayloadKind,
    /// Unicode characters; of audio and images the characters of their base64 text.
    pub chars: u32,
}

/// What kind of output an event carries. Only an event with a non-empty payload of one of these can win a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadKind {
    Text,
    Reasoning,
    Tool,
    Refusal,
    Audio,
    Image,
    /// An answer that has no tokens and comes all at once: an embedding, a count.
    Whole,
}

impl PayloadKind {
    /// The stored name.
    pub fn as_str(self) -> &'static str {
        match self {
            PayloadKind::Text => "text",
            PayloadKind::Reasoning => "reasoning",
            PayloadKind::Tool => "tool",
            PayloadKind::Refusal => "refusal",
            PayloadKind::Audio => "audio",
            PayloadKind::Image => "image",
            PayloadKind::Whole => "whole",
        }
    }
}

/// Whether an answer that ended for this reason was withheld: by the vendor's filter, or because the model would not give it.
/// The names of all dialects, none of which means anything else in another.
pub fn is_refusal(reason: &str) -> bool {
    REFUSALS.contains(&reason)
}

const REFUSALS: [&str; 14] = [
    // OpenAI and those who copy it, Responses, Z.ai.
    "content_filter",
    "sensitive",
    // Anthropic, Bedrock.
    "refusal",
    "content_filtered",
    "guardrail_intervened",
    // Gemini.
    "SAFETY",
    "RECITATION",
    "PROHIBITED_CONTENT",
    "BLOCKLIST",
    "SPII",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
    "MODEL_ARMOR",
];

impl Payload {
    /// None if the text is empty. `text` is what stands between the quotes.
    pub fn of_text(kind: PayloadKind, text: &str) -> Option<Payload> {
        (!text.is_empty()).then(|| Payload { kind, chars: characters(text) })
    }

    /// None if there are no characters.
    pub fn of_chars(kind: PayloadKind, chars: u32) -> Option<Payload> {
        (chars > 0).then_some(Payload { kind, chars })
    }

    /// Two payloads of one chunk are one: the answer's kind goes before reasoning, else the first.
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
    /// Free of the event that it was read from.
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
    /// Free of the event that it was read from; where its text stood is forgotten.
    pub fn into_owned(self) -> Chunk<'static> {
        Chunk {
            payload: self.payload,
            usage_only: self.usage_only,
            choices: self.choices,
            finished: self.finished,
            finish_reason: owned(self.finish_reason),
            model: owned(self.model),
            usage: owned(self.usage),
            timings: owned(self.timings),
            time_info: owned(self.time_info),
            text: None,
            padding: None,
            number: None,
            calls: self.calls,
            repeated: self.repeated,
        }
    }
}

fn owned(text: Option<Cow<'_, str>>) -> Option<Cow<'static, str>> {
    text.map(|text| Cow::Owned(text.into_owned()))
}
