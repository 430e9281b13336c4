//! The `openai` dialect: what one event of a chat-completions stream carries.
//!
//! [`read`] looks at an event without building anything: strings stay where they are, only their emptiness and length
//! are taken. It is the one place that knows what counts as payload (the rules: `docs/measurement.md`).

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::PayloadKind;
use super::sse::Event;

/// Nesting of `content` parts that is looked into.
const PART_DEPTH: usize = 4;

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

/// The usage that a vendor may put beside an error, see [`super::usage`].
pub fn usage_beside_error(data: &[u8]) -> Option<&str> {
    serde_json::from_slice::<Wire<'_>>(data).ok()?.facts().usage
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

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow, default)]
    thinking: Option<&'a RawValue>,
    #[serde(borrow, default)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_calls: Option<&'a RawValue>,
    #[serde(borrow, default)]
    function_call: Option<&'a RawValue>,
    #[serde(borrow, default)]
    audio: Option<&'a RawValue>,
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

impl Delta<'_> {
    fn payload(&self) -> Option<Payload> {
        let reasoning = [self.reasoning_content, self.reasoning, self.thinking]
            .into_iter()
            .flatten()
            .find_map(|raw| content(raw, PayloadKind::Reasoning));
        let answer = [
            self.content.and_then(|raw| content(raw, PayloadKind::Text)),
            self.tool_calls.and_then(tool_calls),
            self.function_call.and_then(function).map(|chars| Payload { kind: PayloadKind::Tool, chars }),
            self.refusal.and_then(|raw| content(raw, PayloadKind::Refusal)),
            self.audio.and_then(audio),
        ];
        answer.into_iter().fold(reasoning, merge)
    }
}

/// Two payloads of one chunk are one: the answer's kind goes before reasoning, else the first.
fn merge(a: Option<Payload>, b: Option<Payload>) -> Option<Payload> {
    match (a, b) {
        (Some(a), Some(b)) => {
            let kind = if a.kind == PayloadKind::Reasoning { b.kind } else { a.kind };
            Some(Payload { kind, chars: a.chars.saturating_add(b.chars) })
        }
        (a, b) => a.or(b),
    }
}

/// A string, or a list of parts (Mistral: `thinking` and `text`).
fn content(raw: &RawValue, kind: PayloadKind) -> Option<Payload> {
    match raw.get().as_bytes().first() {
        Some(b'"') => string_chars(raw).map(|chars| Payload { kind, chars }),
        Some(b'[') => parts(raw, kind, 0),
        _ => None,
    }
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    thinking: Option<&'a RawValue>,
}

fn parts(raw: &RawValue, kind: PayloadKind, depth: usize) -> Option<Payload> {
    if depth == PART_DEPTH {
        return None;
    }
    let list: Vec<Part<'_>> = serde_json::from_str(raw.get()).ok()?;
    list.iter().fold(None, |payload, part| {
        let thinking = part.kind.is_some_and(|kind| kind.get() == "\"thinking\"");
        let kind = if thinking { PayloadKind::Reasoning } else { kind };
        let inner =
            [part.text, part.thinking].into_iter().flatten().find_map(|raw| match raw.get().as_bytes().first() {
                Some(b'"') => string_chars(raw).map(|chars| Payload { kind, chars }),
                Some(b'[') => parts(raw, kind, depth + 1),
                _ => None,
            });
        merge(payload, inner)
    })
}

#[derive(Deserialize)]
struct ToolCall<'a> {
    #[serde(borrow, default)]
    function: Option<&'a RawValue>,
    #[serde(borrow, default)]
    custom: Option<&'a RawValue>,
}

fn tool_calls(raw: &RawValue) -> Option<Payload> {
    if raw.get().len() <= 2 {
        return None;
    }
    let calls: Vec<ToolCall<'_>> = serde_json::from_str(raw.get()).ok()?;
    let chars: Vec<u32> = calls.iter().filter_map(|call| call.function.or(call.custom)).filter_map(function).collect();
    (!chars.is_empty()).then(|| Payload { kind: PayloadKind::Tool, chars: chars.iter().sum() })
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    /// A custom tool's input.
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
}

/// Characters of a call's name and arguments; none where both are empty.
fn function(raw: &RawValue) -> Option<u32> {
    let function: Function<'_> = serde_json::from_str(raw.get()).ok()?;
    let chars = |raw: Option<&RawValue>| match raw {
        Some(raw) if raw.get().starts_with('"') => string_chars(raw).unwrap_or(0),
        // Some servers send arguments as an object.
        Some(raw) if raw.get().starts_with('{') => u32::try_from(raw.get().len()).unwrap_or(u32::MAX),
        _ => 0,
    };
    let total = chars(function.name) + chars(function.arguments) + chars(function.input);
    (total > 0).then_some(total)
}

#[derive(Deserialize)]
struct Audio<'a> {
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
    #[serde(borrow, default)]
    transcript: Option<&'a RawValue>,
}

fn audio(raw: &RawValue) -> Option<Payload> {
    let audio: Audio<'_> = serde_json::from_str(raw.get()).ok()?;
    let data = audio.data.and_then(string_chars);
    let transcript = audio.transcript.and_then(string_chars);
    (data.is_some() || transcript.is_some())
        .then(|| Payload { kind: PayloadKind::Audio, chars: transcript.unwrap_or(0) })
}

/// Unicode characters of a JSON string; none if it is empty or no string.
fn string_chars(raw: &RawValue) -> Option<u32> {
    let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?.as_bytes();
    if inner.is_empty() {
        return None;
    }
    let characters = inner.iter().filter(|byte| (**byte as i8) >= -0x40).count();
    let mut escaped = 0;
    let mut position = 0;
    while let Some(offset) = memchr::memchr(b'\\', &inner[position..]) {
        let at = position + offset;
        let unicode = inner.get(at + 1) == Some(&b'u');
        // A low surrogate is the second half of a character that was counted.
        let low = unicode
            && inner
                .get(at + 2..at + 4)
                .is_some_and(|hex| hex[0].eq_ignore_ascii_case(&b'd') && hex[1].to_ascii_lowercase() >= b'c');
        escaped += if !unicode { 1 } else { 5 + usize::from(low) };
        position = at + if unicode { 6 } else { 2 };
        if position >= inner.len() {
            break;
        }
    }
    Some(u32::try_from(characters.saturating_sub(escaped).max(1)).unwrap_or(u32::MAX))
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

#[cfg(test)]
mod tests {
    use super::*;
    use PayloadKind::*;

    fn chunk(data: &str) -> Chunk<'static> {
        let event = Event { raw: Bytes::from(format!("data: {data}\n\n")) };
        match read(Box::leak(Box::new(event))) {
            Frame::Chunk(chunk) => chunk,
            other => panic!("{data}: {other:?}"),
        }
    }

    #[test]
    fn usage_beside_an_error_is_found() {
        let data = br#"{"error":{"code":400,"message":"limit"},"choices":[],"usage":{"completion_tokens":10}}"#;
        assert_eq!(usage_beside_error(data), Some(r#"{"completion_tokens":10}"#));
        assert_eq!(usage_beside_error(b"{\"error\":{}}"), None);
        assert_eq!(usage_beside_error(b"limit"), None);
    }

    fn payload_of(delta: &str) -> Option<(PayloadKind, u32)> {
        let payload = chunk(&format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#)).payload;
        payload.map(|payload| (payload.kind, payload.chars))
    }

    #[test]
    fn payload_is_generated_output_and_nothing_else() {
        let table: &[(&str, Option<(PayloadKind, u32)>)] = &[
            (r#"{"role":"assistant"}"#, None),
            (r#"{"role":"assistant","content":""}"#, None),
            (r#"{"role":"assistant","content":null}"#, None),
            (r#"{"role":"","reasoning_content":""}"#, None),
            (r#"{"content":" "}"#, Some((Text, 1))),
            (r#"{"content":"hello"}"#, Some((Text, 5))),
            (r#"{"content":"h\u00e9\n"}"#, Some((Text, 3))),
            (r#"{"content":"\ud83d\ude00x"}"#, Some((Text, 2))),
            (r#"{"content":"\\\\u"}"#, Some((Text, 3))),
            (r#"{"content":"é😀"}"#, Some((Text, 2))),
            (r#"{"content":[]}"#, None),
            (r#"{"content":[{"type":"text","text":""}]}"#, None),
            (r#"{"content":[{"type":"text","text":"ab"}]}"#, Some((Text, 2))),
            (r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}"#, Some((Reasoning, 2))),
            (r#"{"content":[{"type":"reference","reference_ids":[1]}]}"#, None),
            (r#"{"reasoning_content":"a"}"#, Some((Reasoning, 1))),
            (r#"{"reasoning":"a","content":""}"#, Some((Reasoning, 1))),
            (r#"{"reasoning":"a","reasoning_content":"a"}"#, Some((Reasoning, 1))),
            (r#"{"thinking":"a"}"#, Some((Reasoning, 1))),
            (r#"{"reasoning":"a","content":"b"}"#, Some((Text, 2))),
            (r#"{"refusal":"no"}"#, Some((Refusal, 2))),
            (r#"{"refusal":null}"#, None),
            (r#"{"tool_calls":[]}"#, None),
            (r#"{"tool_calls":[{"index":0,"id":"call_1","type":"function"}]}"#, None),
            (r#"{"tool_calls":[{"index":0,"function":{"name":"","arguments":""}}]}"#, None),
            (
                r#"{"role":"assistant","tool_calls":[{"index":0,"id":"c","function":{"name":"get","arguments":""}}]}"#,
                Some((Tool, 3)),
            ),
            (r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]}"#, Some((Tool, 4))),
            (r#"{"tool_calls":[{"index":0,"custom":{"name":"x","input":"yz"}}]}"#, Some((Tool, 3))),
            (r#"{"function_call":{"name":"f"}}"#, Some((Tool, 1))),
            (r#"{"audio":{"id":"a"}}"#, None),
            (r#"{"audio":{"data":"AAAA"}}"#, Some((Audio, 0))),
            (r#"{"audio":{"transcript":"hi"}}"#, Some((Audio, 2))),
            (r#"{}"#, None),
            (r#"null"#, None),
            (r#"{"content":7}"#, None),
        ];
        for (delta, expected) in table {
            assert_eq!(payload_of(delta), *expected, "{delta}");
        }
    }

    #[test]
    fn what_is_no_chunk_is_told_apart() {
        let frame = |raw: &'static str| {
            let event: &'static Event = Box::leak(Box::new(Event { raw: Bytes::from_static(raw.as_bytes()) }));
            read(event)
        };
        assert_eq!(frame(": OPENROUTER PROCESSING\n\n"), Frame::KeepAlive);
        assert_eq!(frame("event: ping\ndata: {}\n\n"), Frame::KeepAlive);
        assert_eq!(frame("data:\n\n"), Frame::KeepAlive);
        assert_eq!(frame("data: [DONE]\n\n"), Frame::Done);
        assert_eq!(frame("data:[DONE] \r\n\r\n"), Frame::Done);
        assert_eq!(frame("data: {\"a\":\n\n"), Frame::Malformed);
        assert_eq!(
            read(&Event { raw: Bytes::from_static(b"data: {\"choices\":[{\"delta\":{\"content\":\"\xff\"}}]}\n\n") }),
            Frame::Malformed
        );
        for error in [
            r#"{"error":{"message":"x"}}"#,
            r#"{"error":"x","choices":[]}"#,
            r#"{"x_groq":{"error":"x"},"choices":[]}"#,
            r#"{"base_resp":{"status_code":1002,"status_msg":"x"}}"#,
            r#"{"object":"error","message":"x"}"#,
        ] {
            let event = Event { raw: Bytes::from(format!("data: {error}\n\n")) };
            assert_eq!(read(&event), Frame::Error(Cow::Borrowed(error.as_bytes())), "{error}");
        }
        let event = Event { raw: Bytes::from("event: error\ndata: {\"message\":\"x\"}\n\n") };
        assert!(matches!(read(&event), Frame::Error(_)));
        for fine in [r#"{"error":null}"#, r#"{"base_resp":{"status_code":0}}"#, r#"{"choices":{}}"#, r#"[1]"#] {
            assert_eq!(chunk(fine).payload, None, "{fine}");
        }
    }

    #[test]
    fn the_usage_chunk_is_recognised() {
        assert!(chunk(r#"{"choices":[],"usage":{"prompt_tokens":1}}"#).usage_only);
        assert!(!chunk(r#"{"choices":[],"prompt_filter_results":[{}],"usage":null}"#).usage_only);
        assert!(!chunk(r#"{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}"#).usage_only);
        assert!(
            chunk(
                r#"{"choices":[{"delta":{},"finish_reason":"stop"}],"x_groq":{"id":"r","usage":{"prompt_tokens":1}}}"#
            )
            .usage
            .is_some()
        );
        assert!(chunk(r#"{"choices":[{"delta":{},"usage":{"prompt_tokens":1}}]}"#).usage.is_some());
    }

    #[test]
    fn finish_and_model_are_read_beside_payload() {
        let chunk = chunk(
            r#"{"model":"m-1","choices":[{"delta":{"content":"x"},"finish_reason":null},{"delta":{},"finish_reason":"length"}]}"#,
        );
        assert_eq!((chunk.finish_reason.as_deref(), chunk.model.as_deref()), (Some("length"), Some("m-1")));
        assert_eq!(chunk.payload.map(|payload| payload.kind), Some(Text));
    }

    #[test]
    fn a_whole_answer_becomes_one_chunk() {
        let whole = br#"{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi","tool_calls":[{"id":"a"}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}"#;
        let events = events_of_whole(whole).unwrap();
        let text = std::str::from_utf8(&events).unwrap();
        assert!(
            text.contains(r#""tool_calls":[{"id":"a","index":0}]"#) && text.ends_with("\n\ndata: [DONE]\n\n"),
            "{text}"
        );
        let event = Event { raw: events.slice(..events.len() - 14) };
        assert!(matches!(
            read(&event),
            Frame::Chunk(Chunk { payload: Some(_), finish_reason: Some(_), usage: Some(_), .. })
        ));
        assert_eq!(events_of_whole(br#"{"error":"x"}"#), None);
        assert_eq!(events_of_whole(b"[]"), None);
    }

    #[test]
    fn a_bare_json_line_is_read() {
        let event = Event { raw: Bytes::from("{\"error\":\"model gone\"}\n") };
        assert!(matches!(read(&event), Frame::Error(_)));
    }

    #[test]
    fn data_over_several_lines_is_one_chunk() {
        let event = Event { raw: Bytes::from("data: {\"choices\":[{\"delta\":\ndata: {\"content\":\"x\"}}]}\n\n") };
        assert!(matches!(read(&event), Frame::Chunk(Chunk { payload: Some(_), .. })));
    }

    proptest::proptest! {
        #[test]
        fn characters_are_counted_as_serde_counts_them(text in "\\PC{0,40}") {
            let json = serde_json::to_string(&text).unwrap();
            let raw: &RawValue = serde_json::from_str(&json).unwrap();
            proptest::prop_assert_eq!(string_chars(raw).unwrap_or(0) as usize, text.chars().count());
        }

        #[test]
        fn never_panics(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            read(&Event { raw: Bytes::from(bytes) });
        }
    }
}
