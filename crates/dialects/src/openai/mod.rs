//! The `openai` dialect: chat completions, and reading of legacy completions and embeddings.
//!
//! [`read`] classifies an event for the race without building anything: it only checks the emptiness and length of
//! strings (rules of what counts as payload: `docs/measurement.md`).

mod conversation;
mod format;
mod growing_calls;
mod messages;
mod payload;
mod reader;
mod request;
mod whole;
mod writer;

use std::borrow::Cow;

use bytes::Bytes;
use memchr::{memchr2, memmem, memrchr, memrchr2};
use serde_json::Value;

pub use conversation::{check, conversation};
pub use format::OpenAiFormat;
pub use photofinish_wire::stream::frame::{Chunk, Frame, Payload};
pub use reader::OpenAiReader;
pub use reader::url_citation;
pub use request::{grammar_of, request};
pub use whole::ChatWhole;
pub use whole::{choice_rule, chunk_rule, with_choices};
pub use writer::OpenAiWriter;
pub use writer::{citation_json, usage_json};

use messages::CALL_SIGNATURES;
use photofinish_wire::client_error::ErrorShape;
use photofinish_wire::conversation::signature::{RemovedReasoning, cleaned};
use photofinish_wire::dialect::Dialect;
use photofinish_wire::json::values::{PutMember, answer, says_error};
use photofinish_wire::json::{InvalidJson, Json};
use photofinish_wire::stream::event_reader::{or_foreign, read_sse};
use photofinish_wire::stream::service_tier::ServiceTier;
use photofinish_wire::stream::sse::SseEvent;

/// Reads one event.
pub fn read(event: &SseEvent) -> Frame<'_> {
    read_sse(event, |text, _| {
        let wire = OpenAiWire::read(text)?;
        let has_own = wire.choices > 0 || wire.chunk.usage.is_some() || wire.chunk.cost.is_some();
        Ok(match wire {
            OpenAiWire { is_error: true, chunk, .. } => {
                Frame::Error { data: Cow::Borrowed(text.as_bytes()), usage: chunk.usage }
            }
            OpenAiWire { chunk, .. } if has_own => Frame::Chunk(chunk),
            OpenAiWire { chunk, .. } => or_foreign(Dialect::OpenAi, text, chunk),
        })
    })
}

/// Turns a whole chat answer or legacy completion into stream events: one chunk with everything, and `[DONE]`. None if
/// the body is not a completion.
pub fn events_of_whole(body: &[u8]) -> Option<Bytes> {
    if let Some(chunk) = as_chunk(body) {
        return Some(Bytes::from(format!("data: {chunk}\n\ndata: [DONE]\n\n")));
    }
    let mut answer = answer(body)?;
    let mut is_legacy = false;
    for choice in answer.get_mut("choices")?.as_array_mut()?.iter_mut().filter_map(Value::as_object_mut) {
        let Some(mut message) = choice.shift_remove("message") else {
            is_legacy = true;
            choice.get("text")?;
            continue;
        };
        let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
        for (index, call) in calls.into_iter().flatten().filter_map(Value::as_object_mut).enumerate() {
            call.entry("index").or_insert(Value::from(index));
        }
        choice.insert("delta".to_owned(), message);
    }
    if !is_legacy {
        answer.insert("object".to_owned(), Value::from("chat.completion.chunk"));
    }
    Some(Bytes::from(format!("data: {}\n\ndata: [DONE]\n\n", Value::Object(answer))))
}

/// A whole chat answer as a chunk, member by member as they are written: a tree costs five times as much. None for legacy
/// completions, for calls, whose deltas need numbers, for halves of characters, and for what is not plainly an answer.
fn as_chunk(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    if memmem::find_iter(body, b"\\u").any(|at| matches!(body.get(at + 2), Some(b'd' | b'D'))) {
        return None;
    }
    let (mut chunk, mut has_object, mut choices) = (String::with_capacity(text.len() + 32), false, 0);
    let member = |chunk: &mut String, name: &str, value: &str| {
        let comma = if chunk.ends_with('{') { "" } else { "," };
        [comma, "\"", name, "\":", value].into_iter().for_each(|part| chunk.push_str(part));
    };
    chunk.push('{');
    let walked = Json::whole(text, |name, json| {
        match name {
            "object" => {
                has_object = true;
                json.skip()?;
                member(&mut chunk, name, "\"chat.completion.chunk\"");
            }
            "error" if says_error(json.skip()?) => return Err(InvalidJson),
            "error" => member(&mut chunk, name, "null"),
            "choices" if choices == 0 && json.peek() == Some(b'[') => {
                member(&mut chunk, name, "[");
                json.list(|json| {
                    chunk.push_str(if choices == 0 { "{" } else { ",{" });
                    choices += 1;
                    let mut has_message = false;
                    json.object(|name, json| {
                        let value = json.skip()?;
                        let is_message = name == "message";
                        if is_message && (has_message || !value.starts_with('{') || has_calls(value)?)
                            || name == "delta"
                        {
                            return Err(InvalidJson);
                        }
                        has_message |= is_message;
                        member(&mut chunk, if is_message { "delta" } else { name }, value);
                        Ok(())
                    })?;
                    chunk.push('}');
                    if has_message { Ok(()) } else { Err(InvalidJson) }
                })?;
                chunk.push(']');
            }
            "choices" => return Err(InvalidJson),
            _ => member(&mut chunk, name, json.skip()?),
        }
        Ok(())
    });
    chunk.push('}');
    // A string has no line break of its own, so the others are between members.
    let is_one_line = memchr2(b'\n', b'\r', chunk.as_bytes()).is_none();
    let one_line = |chunk: String| if is_one_line { chunk } else { chunk.replace(['\n', '\r'], " ") };
    walked.ok().filter(|()| has_object && choices > 0).map(|()| one_line(chunk))
}

/// Whether a message has tool calls.
fn has_calls(message: &str) -> Result<bool, InvalidJson> {
    let calls = Json::new(message).member("tool_calls", Json::some)?;
    Ok(calls.is_some_and(|calls| calls != "[]"))
}

/// Whether an OpenAI SDK treats this event as an error: its data has an `error` that is not empty.
pub fn is_error_event(event: &SseEvent) -> bool {
    let fields = event.fields();
    let text = fields.data.as_deref().and_then(|data| std::str::from_utf8(data).ok()).unwrap_or_default();
    matches!(Json::new(text).member("error", Json::some), Ok(Some(error)) if says_error(error))
}

/// The members of a chunk that matter.
#[derive(Default)]
struct OpenAiWire<'a> {
    chunk: Chunk<'a>,
    is_error: bool,
    choices: usize,
    /// Usage from other places, used if there is no `usage` member.
    other_usage: Option<&'a str>,
}

impl<'a> OpenAiWire<'a> {
    fn read(text: &'a str) -> Result<OpenAiWire<'a>, InvalidJson> {
        let mut wire = OpenAiWire::default();
        let mut usage = None;
        Json::whole(
            text,
            members!(|json| {
                "choices" => json.list(|json| wire.choice(json))?,
                "model" => wire.chunk.model = json.text()?,
                "id" => wire.chunk.id = json.text()?,
                "usage" => usage = json.some()?,
                "timings" => wire.chunk.timings = json.some()?.map(Cow::Borrowed),
                "time_info" | "perf_metrics" => wire.chunk.time_info = json.some()?.map(Cow::Borrowed),
                "service_tier" => wire.chunk.tier = json.string_or_skip()?.map(ServiceTier::of_name),
                "cost" => wire.chunk.cost = json.some()?.map(Cow::Borrowed),
                "error" => wire.is_error |= says_error(json.skip()?),
                "object" => wire.is_error |= json.string_or_skip()? == Some("error"),
                "x_groq" => wire.groq(json)?,
                "base_resp" => wire.base_resp(json)?,
                "obfuscation" => wire.chunk.padding = json.string_or_skip()?,
            }),
        )?;
        wire.chunk.usage_only = wire.choices == 0 && usage.is_some();
        wire.chunk.usage = usage.or(wire.other_usage).map(Cow::Borrowed);
        Ok(wire)
    }

    fn choice(&mut self, json: &mut Json<'a>) -> Result<(), InvalidJson> {
        self.choices += 1;
        let (mut index, mut finished, mut open, mut ended_badly) = (0_u32, false, false, false);
        let (mut has_delta, mut has_message, mut has_error, mut legacy) = (false, false, false, None);
        json.object(members!(|json| {
            "index" => index = json.skip()?.parse().unwrap_or(0),
            "delta" => {
                has_delta = json.peek() == Some(b'{');
                self.payload(payload::of_delta(json)?);
            },
            "message" => has_message = json.skip()?.starts_with('{'),
            // A legacy completion. Some vendors repeat the delta's text here.
            "text" => legacy = Some(payload::of_text(json)?),
            "finish_reason" => {
                let reason = json.text()?;
                finished |= reason.is_some();
                open = reason.is_none();
                ended_badly = reason.as_deref() == Some("error");
                self.chunk.finish_reason = reason.or(self.chunk.finish_reason.take());
            },
            "error" => has_error = says_error(json.skip()?),
            // Some vendors send usage in the choice.
            "usage" => self.other_usage = json.some()?.or(self.other_usage),
        }))?;
        if let Some(legacy) = legacy.filter(|_| !has_delta) {
            self.payload(legacy);
        }
        self.chunk.whole |= has_message && !has_delta;
        // OpenRouter says here how its vendor failed during the answer.
        self.is_error |= has_error && ended_badly;
        let bit = 1 << u32::min(index, 63);
        self.chunk.choices |= bit;
        self.chunk.finished |= if finished { bit } else { 0 };
        self.chunk.open |= if open { bit } else { 0 };
        Ok(())
    }

    fn payload(&mut self, delta: payload::DeltaPayload<'a>) {
        self.chunk.text = delta.text.filter(|_| self.chunk.payload.is_none());
        self.chunk.payload = Payload::merge(self.chunk.payload, delta.payload);
        self.chunk.calls |= delta.calls;
    }

    /// Groq's own object.
    fn groq(&mut self, json: &mut Json<'a>) -> Result<(), InvalidJson> {
        json.object(members!(|json| {
            "usage" => self.other_usage = json.some()?.or(self.other_usage),
            "error" => self.is_error |= says_error(json.skip()?),
        }))
    }

    /// MiniMax's own object: any status but 0 is an error.
    fn base_resp(&mut self, json: &mut Json<'a>) -> Result<(), InvalidJson> {
        self.is_error |= json.member("status_code", Json::some)?.is_some_and(|code| code.trim_matches('"') != "0");
        Ok(())
    }
}

/// An error in the vendor's shape.
pub fn error(error: &ErrorShape<'_>) -> Value {
    let mut shape = serde_json::json!({
        "message": error.message, "type": error.kind, "param": error.param, "code": error.code,
    });
    shape.put("attempts", error.attempts.cloned());
    serde_json::json!({ "error": shape })
}

// Members that every chunk of a chat or completions answer repeats. A continued stream must keep them.

/// Members that every chunk repeats.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChunkNames {
    pub id: String,
    pub model: String,
    /// Seconds since 1970, UTC.
    pub created: u64,
}

impl ChunkNames {
    pub fn of(chunk: &[u8]) -> Option<ChunkNames> {
        let chunk: Value = serde_json::from_slice(chunk).ok().filter(Value::is_object)?;
        let text = |name: &str| chunk[name].as_str().unwrap_or_default().to_owned();
        Some(ChunkNames {
            id: text("id"),
            model: text("model"),
            created: chunk["created"].as_f64().map_or(0, |created| created as u64),
        })
    }
}

// Members of a usage chunk other than the usage.

/// Members that servers move from the last event to the usage chunk if they are asked for one: vLLM, llama.cpp. Others are left out,
/// because the server might not have sent them.
const MOVED: [&str; 2] = ["system_fingerprint", "timings"];

/// `events` with those of these members of a usage chunk that the last of them lacks.
pub fn with_members_of(events: Bytes, usage_chunk: &[u8]) -> Bytes {
    joined(&events, usage_chunk).unwrap_or(None).map_or(events, Bytes::from)
}

/// None: it has them all.
fn joined(events: &[u8], usage_chunk: &[u8]) -> Result<Option<String>, InvalidJson> {
    // Most usage chunks have none, or the last event has the same: reading them whole would be dear for every stream.
    let mut lacked: Vec<&str> =
        MOVED.into_iter().filter(|name| memmem::find(usage_chunk, name.as_bytes()).is_some()).collect();
    if lacked.is_empty() {
        return Ok(None);
    }
    let (end, data) = last_data(events)?;
    let mut is_empty = true;
    Json::new(data).object(|name, json| {
        is_empty = false;
        lacked.retain(|other| *other != name);
        // Nothing is left to look for, so the rest need not be read.
        if lacked.is_empty() { Err(InvalidJson) } else { json.skip().map(drop) }
    })?;
    let mut added = String::new();
    Json::new(last_data(usage_chunk)?.1).object(|name, json| {
        let value = json.skip()?;
        // A line break would end the line of the event.
        if value != "null" && lacked.contains(&name) && !value.contains(['\n', '\r']) {
            added += &format!(",\"{name}\":{value}");
        }
        Ok(())
    })?;
    let text = std::str::from_utf8(events).map_err(|_| InvalidJson)?;
    Ok((!added.is_empty() && !is_empty).then(|| [&text[..end], &added, &text[end..]].concat()))
}

/// The object in the last line of data, and the position of its closing brace.
fn last_data(events: &[u8]) -> Result<(usize, &str), InvalidJson> {
    let end = memrchr(b'}', events).ok_or(InvalidJson)?;
    let start = memrchr2(b'\n', b'\r', &events[..end]).map_or(0, |at| at + 1);
    let line = std::str::from_utf8(&events[start..=end]).map_err(|_| InvalidJson)?;
    Ok((end, line.strip_prefix("data:").ok_or(InvalidJson)?))
}

// Removes other vendors' signatures from a chat request that is otherwise passed through. A server may refuse them.

/// The request without signatures of other dialects, or without any. None: it contained none.
pub fn without_reasoning(body: &[u8], taken: RemovedReasoning) -> Option<Vec<u8>> {
    cleaned(body, taken, |request| {
        let Some(messages) = request.get_mut("messages").and_then(Value::as_array_mut) else { return false };
        messages.iter_mut().fold(false, |found, message| clean(message, taken) | found)
    })
}

fn clean(message: &mut Value, taken: RemovedReasoning) -> bool {
    let mut found = false;
    if let (RemovedReasoning::All, Some(members)) = (taken, message.as_object_mut()) {
        let plain = ["reasoning_content", "reasoning"].map(|name| members.shift_remove(name).is_some());
        found = plain.contains(&true);
    }
    for name in ["reasoning_details", "thinking_blocks", "content"] {
        let Some(Value::Array(entries)) = message.get_mut(name) else { continue };
        let before = entries.len();
        entries.retain(|entry| !goes(name, entry, taken));
        if entries.len() == before {
            continue;
        }
        found = true;
        // Content is required, and an empty list is refused.
        match message.as_object_mut() {
            Some(members) if members[name] == Value::Array(Vec::new()) => match name {
                "content" => drop(members.insert(name.to_owned(), Value::from(""))),
                _ => drop(members.shift_remove(name)),
            },
            _ => {}
        }
    }
    for call in message.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten() {
        found |= clean_call(call, taken);
    }
    found
}

fn goes(name: &str, entry: &Value, taken: RemovedReasoning) -> bool {
    let thinks = |entry: &Value| matches!(entry["type"].as_str(), Some("thinking" | "redacted_thinking"));
    (name != "content" || thinks(entry)) && taken.takes(entry, &["signature", "data"])
}

/// A member that contains only the signature is removed too.
fn clean_call(call: &mut Value, taken: RemovedReasoning) -> bool {
    let mut found = false;
    for (member, path) in CALL_SIGNATURES {
        let pointer = format!("/{member}{path}");
        if call.pointer(&pointer).and_then(Value::as_str).is_some_and(|text| taken.takes_signature(text)) {
            found = true;
            remove(call, &pointer);
        }
    }
    found
}

/// Removes a member, and enclosing objects that become empty.
fn remove(value: &mut Value, pointer: &str) {
    let Some((parent, name)) = pointer.rsplit_once('/') else { return };
    let Some(Value::Object(members)) = value.pointer_mut(parent) else { return };
    members.shift_remove(name);
    if members.is_empty() && !parent.is_empty() {
        remove(value, parent);
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod usage_chunk_tests {
    use super::*;

    #[test]
    fn what_the_last_event_lacks_is_added_to_it() {
        let finish = r#"{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
        for (events, usage, expected) in [
            // vLLM, llama.cpp.
            (
                format!("data: {finish}\n\n"),
                r#"{"id":"c","choices":[],"usage":{"prompt_tokens":1},"system_fingerprint":"v","timings":null,"service_tier":"x"}"#,
                r#"data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"system_fingerprint":"v"}"#,
            ),
            (
                format!(": hm\ndata:{finish} \r\n\r\n"),
                r#"{"timings":{"a":1.50},"choices":[],"usage":{}}"#,
                ": hm\ndata:{\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"timings\":{\"a\":1.50}}",
            ),
            // Several events: the last one.
            (
                format!("data: {{\"a\":1}}\n\ndata: {finish}\n\n"),
                r#"{"timings":1,"id":"d","usage":{}}"#,
                "data: {\"a\":1}\n\ndata: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"timings\":1}",
            ),
        ] {
            let joined = with_members_of(Bytes::from(events.clone()), format!("data: {usage}\n\n").as_bytes());
            let end = events.rfind('}').unwrap() + 1;
            assert_eq!(joined, format!("{expected}{}", &events[end..]), "{usage}");
        }
    }

    #[test]
    fn what_needs_nothing_or_cannot_be_read_is_unchanged() {
        let whole = r#"data: {"id":"c","timings":null,"choices":[]}"#;
        for (events, usage) in [
            (whole, r#"data: {"id":"c","usage":{},"timings":1}"#),
            (whole, r#"data: {"id":"c","model":"m","service_tier":"x","usage":{}}"#),
            (whole, "data: {\"system_fingerprint\":[1,\n2],\"usage\":{}}"),
            (whole, r#"data: {"system_fingerprint":1,"#),
            ("data: {}", r#"data: {"timings":1}"#),
            ("data: [DONE]", r#"data: {"timings":1}"#),
            ("data: {\n\"id\":\"c\"}", r#"data: {"timings":1}"#),
            ("", r#"data: {"timings":1}"#),
        ] {
            let events = Bytes::from(format!("{events}\n\n"));
            assert_eq!(with_members_of(events.clone(), usage.as_bytes()), events, "{usage}");
        }
    }
}
