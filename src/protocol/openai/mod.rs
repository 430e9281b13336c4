//! The `openai` dialect: what one event of a chat-completions stream carries.
//!
//! [`read`] looks at an event without building anything: strings stay where they are, only their emptiness and length
//! are taken. It is the one place that knows what counts as payload (the rules: `docs/measurement.md`).

mod payload;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::PayloadKind;
use super::sse::Event;
use payload::{Delta, merge};

/// What one event is.
#[derive(Debug, PartialEq)]
pub enum Frame<'a> {
    /// A comment, a ping, an event without data.
    KeepAlive,
    /// `[DONE]`
    Done,
    /// An error in a 200, with its data.
    Error(Cow<'a, [u8]>),
    /// Not valid JSON.
    Malformed,
    Chunk(Chunk<'a>),
}

/// The facts of one chunk. One chunk may carry payload, finish and usage at once.
#[derive(Debug, Default, PartialEq)]
pub struct Chunk<'a> {
    /// None for a role, an empty string, a prompt filter, progress, usage.
    pub payload: Option<Payload>,
    pub finish_reason: Option<Cow<'a, str>>,
    /// The `model` field.
    pub model: Option<Cow<'a, str>>,
    /// JSON objects that hold usage or timings, see [`super::usage`].
    pub usage: Option<&'a str>,
    pub timings: Option<&'a str>,
    pub time_info: Option<&'a str>,
    /// `choices` is empty, and there is usage: the chunk that `include_usage` asks for.
    pub usage_only: bool,
}

/// Generated output in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Of several, the answer's before reasoning.
    pub kind: PayloadKind,
    /// Unicode characters.
    pub chars: u32,
}

/// Reads one event.
pub fn read(event: &Event) -> Frame<'_> {
    let fields = event.fields();
    let error_event = fields.name == Some(b"error");
    match fields.data {
        // Some servers write a bare JSON line into a 200 when something is wrong.
        None if event.raw.trim_ascii_start().starts_with(b"{") => read_data(&event.raw),
        None => Frame::KeepAlive,
        Some(data) if data.iter().all(u8::is_ascii_whitespace) => Frame::KeepAlive,
        Some(data) if data.trim_ascii() == b"[DONE]" => Frame::Done,
        Some(data) if error_event => Frame::Error(data),
        Some(_) if fields.name == Some(b"ping") => Frame::KeepAlive,
        Some(Cow::Borrowed(data)) => read_data(data),
        Some(Cow::Owned(data)) => read_joined(data),
    }
}

/// The events that a server would have sent which answered as a whole: one chunk with everything, and `[DONE]`. None if
/// the body is no completion.
pub fn events_of_whole(body: &[u8]) -> Option<Bytes> {
    let mut answer: serde_json::Map<String, Value> = serde_json::from_slice(body).ok()?;
    if answer.get("error").is_some_and(|error| !error.is_null()) {
        return None;
    }
    for choice in answer.get_mut("choices")?.as_array_mut()?.iter_mut().filter_map(Value::as_object_mut) {
        let mut message = choice.shift_remove("message")?;
        let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
        for (index, call) in calls.into_iter().flatten().filter_map(Value::as_object_mut).enumerate() {
            call.entry("index").or_insert(Value::from(index));
        }
        choice.insert("delta".to_owned(), message);
    }
    answer.insert("object".to_owned(), Value::from("chat.completion.chunk"));
    Some(Bytes::from(format!("data: {}\n\ndata: [DONE]\n\n", Value::Object(answer))))
}

fn read_data(data: &[u8]) -> Frame<'_> {
    match serde_json::from_slice::<Wire<'_>>(data) {
        Err(_) => odd(data),
        Ok(wire) if wire.is_error() => Frame::Error(Cow::Borrowed(data)),
        Ok(wire) => Frame::Chunk(wire.facts()),
    }
}

/// JSON of a shape that is not known carries nothing, but is passed on; what is no JSON at all is not.
fn odd(data: &[u8]) -> Frame<'static> {
    match std::str::from_utf8(data).map(serde_json::from_str::<IgnoredAny>) {
        Ok(Ok(_)) => Frame::Chunk(Chunk::default()),
        _ => Frame::Malformed,
    }
}

/// Data in several lines is rare: a JSON text that is spread over lines. Its facts are copied out.
fn read_joined(data: Vec<u8>) -> Frame<'static> {
    let chunk = match serde_json::from_slice::<Wire<'_>>(&data) {
        Err(_) => return odd(&data),
        Ok(wire) if wire.is_error() => None,
        Ok(wire) => {
            let facts = wire.facts();
            let owned = |text: Option<Cow<'_, str>>| text.map(|text| Cow::Owned(text.into_owned()));
            Some(Chunk {
                payload: facts.payload,
                finish_reason: owned(facts.finish_reason),
                model: owned(facts.model),
                usage_only: facts.usage_only,
                usage: None,
                timings: None,
                time_info: None,
            })
        }
    };
    chunk.map_or(Frame::Error(Cow::Owned(data)), Frame::Chunk)
}

/// A chunk as it is written, as far as it matters.
#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default)]
    choices: Choices<'a>,
    #[serde(borrow, default)]
    model: Option<&'a RawValue>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    object: Option<&'a RawValue>,
    #[serde(borrow, default)]
    x_groq: Option<&'a RawValue>,
    #[serde(borrow, default)]
    timings: Option<&'a RawValue>,
    #[serde(borrow, default)]
    time_info: Option<&'a RawValue>,
    #[serde(borrow, default)]
    base_resp: Option<&'a RawValue>,
}

/// The beginning of Groq's own object.
#[derive(Deserialize)]
struct Groq<'a> {
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct BaseResp {
    #[serde(default)]
    status_code: i64,
}

impl<'a> Wire<'a> {
    fn is_error(&self) -> bool {
        let raw_error =
            |error: &Option<&RawValue>| error.is_some_and(|raw| !matches!(raw.get(), "false" | "\"\"" | "{}" | "[]"));
        raw_error(&self.error)
            || self.object.is_some_and(|object| object.get() == "\"error\"")
            || self.groq().is_some_and(|groq| raw_error(&groq.error))
            || self.base_resp.is_some_and(|base| {
                serde_json::from_str::<BaseResp>(base.get()).is_ok_and(|base| base.status_code != 0)
            })
    }

    fn groq(&self) -> Option<Groq<'a>> {
        self.x_groq.and_then(|groq| serde_json::from_str(groq.get()).ok())
    }

    fn facts(self) -> Chunk<'a> {
        let groq_usage = self.groq().and_then(|groq| groq.usage);
        let usage = self.usage.or(groq_usage).or(self.choices.usage).map(RawValue::get);
        Chunk {
            payload: self.choices.payload,
            finish_reason: self.choices.finish_reason,
            model: self.model.and_then(text),
            usage,
            timings: self.timings.map(RawValue::get),
            time_info: self.time_info.map(RawValue::get),
            usage_only: self.choices.count == 0 && self.usage.is_some(),
        }
    }
}

/// All choices of a chunk, folded while they are read.
#[derive(Default)]
struct Choices<'a> {
    count: usize,
    payload: Option<Payload>,
    finish_reason: Option<Cow<'a, str>>,
    /// Some vendors put usage into the choice.
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    finish_reason: Option<&'a RawValue>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Choices<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fold;
        impl<'de> Visitor<'de> for Fold {
            type Value = Choices<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list of choices")
            }

            fn visit_unit<E>(self) -> Result<Choices<'de>, E> {
                Ok(Choices::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Choices<'de>, A::Error> {
                let mut choices = Choices::default();
                while let Some(choice) = sequence.next_element::<Choice<'de>>()? {
                    choices.add(choice);
                }
                Ok(choices)
            }
        }
        deserializer.deserialize_any(Fold)
    }
}

impl<'a> Choices<'a> {
    fn add(&mut self, choice: Choice<'a>) {
        self.count += 1;
        let payload = choice.delta.and_then(|delta| delta.payload());
        self.payload = merge(self.payload, payload);
        self.finish_reason = choice.finish_reason.and_then(text).or(self.finish_reason.take());
        self.usage = choice.usage.or(self.usage);
    }
}

/// A string where one is expected; anything else is none, so that an odd vendor loses no event.
fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    if inner.is_empty() {
        return None;
    }
    match memchr::memchr(b'\\', inner.as_bytes()) {
        None => Some(Cow::Borrowed(inner)),
        Some(_) => serde_json::from_str::<String>(raw.get()).ok().map(Cow::Owned),
    }
}
