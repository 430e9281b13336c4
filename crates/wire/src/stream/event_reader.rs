//! The common part of all dialects when they read one event for the race and the meter: unwrap the JSON text, and
//! classify unreadable text. Not for the members of a dialect.

use std::borrow::Cow;

use memchr::memmem;
use serde::de::IgnoredAny;

use crate::Dialect;
use crate::json::{InvalidJson, Json};
use crate::stream::frame::{Chunk, Frame};
use crate::stream::sse::SseEvent;

/// The data of a server-sent event, before its JSON is read.
pub enum EventData<'a> {
    None,
    /// `[DONE]`. Some servers and proxies write it in dialects that do not have it.
    Done,
    /// `name` is the value of the `event` line, empty if there is none.
    Json {
        data: Cow<'a, [u8]>,
        name: &'a [u8],
    },
    /// A sentence or a web page: what a server or a proxy writes when something is wrong.
    Sentence(Cow<'a, [u8]>),
}

pub fn data_of(event: &SseEvent) -> EventData<'_> {
    let fields = event.fields();
    let name = fields.name.unwrap_or_default();
    let Some(data) = fields.data else {
        // Some servers write bare JSON into a stream: an error, or an answer that is not streamed.
        return match bare_json(event) {
            Some(data) => EventData::Json { data, name },
            None if says(event.raw.trim_ascii_start()) => EventData::Sentence(Cow::Borrowed(&event.raw)),
            None => EventData::None,
        };
    };
    match data.trim_ascii() {
        b"" => EventData::None,
        b"[DONE]" => EventData::Done,
        // An event with a name may have data of any kind.
        text if matches!(name, b"" | b"message") && says(text) => EventData::Sentence(data),
        _ => EventData::Json { data, name },
    }
}

/// The text of an event without data that may be JSON, whole or damaged. Not the text of a web page.
fn bare_json(event: &SseEvent) -> Option<Cow<'_, [u8]>> {
    let text = event.raw.trim_ascii_start();
    if text.starts_with(b"{") {
        return Some(Cow::Borrowed(&event.raw));
    }
    let is_field = |line: &[u8]| [&b":"[..], b"event:", b"id:", b"retry:"].iter().any(|name| line.starts_with(name));
    let mut lines = text.split_inclusive(|byte| *byte == b'\n').filter(|line| !is_field(line)).peekable();
    let is_page = lines.peek().is_some_and(|line| line.starts_with(b"<"));
    let bare = lines.collect::<Vec<_>>().concat();
    let may_be_json = bare.trim_ascii_start().starts_with(b"{") || memmem::find(&bare, b"{\"").is_some();
    (may_be_json && !is_page).then_some(Cow::Owned(bare))
}

/// Whether a text is a sentence or a web page. Most are JSON and decided by their first byte.
pub fn says(text: &[u8]) -> bool {
    let is_json = matches!(text.first(), None | Some(b'{' | b'[' | b'"'));
    !is_json && std::str::from_utf8(text).is_ok_and(is_sentence)
}

/// Reads a server-sent event. `read` gets the JSON text and the event's name.
pub fn read_sse(
    event: &SseEvent,
    read: impl for<'a> Fn(&'a str, &'a [u8]) -> Result<Frame<'a>, InvalidJson>,
) -> Frame<'_> {
    match data_of(event) {
        EventData::None => Frame::KeepAlive,
        EventData::Done => Frame::Done(Chunk::default()),
        EventData::Sentence(data) => Frame::Error { data, usage: None },
        EventData::Json { data, name: b"error" } => Frame::Error { data, usage: None },
        EventData::Json { name: b"ping", .. } => Frame::KeepAlive,
        EventData::Json { data: Cow::Borrowed(data), name } => read_json(data, |text| read(text, name)),
        // A JSON text in several `data` lines. Rare.
        EventData::Json { data: Cow::Owned(data), name } => read_json(&data, |text| read(text, name)).into_owned(),
    }
}

/// Reads a JSON text. A text that `read` cannot walk is malformed, unless it is valid JSON: then it carries nothing, but is
/// passed on.
pub fn read_json<'a>(data: &'a [u8], read: impl FnOnce(&'a str) -> Result<Frame<'a>, InvalidJson>) -> Frame<'a> {
    let Ok(text) = std::str::from_utf8(data) else { return Frame::Malformed };
    match read(text) {
        Ok(frame) => frame,
        Err(InvalidJson) if serde_json::from_str::<IgnoredAny>(text).is_ok() => Frame::Chunk(Chunk::default()),
        Err(InvalidJson) => Frame::Malformed,
    }
}

// Errors in a 200 that have no `error`: `code` and `message`, `detail`, `success: false`, a sentence. Not for what they mean.

/// Members that say what failed.
const MESSAGES: [&str; 6] = ["message", "Message", "msg", "error_msg", "error_message", "errorMessage"];
/// Members with a code, which is no failure if it is one of [`GOOD`] or a good status.
const CODES: [&str; 6] = ["code", "status_code", "statusCode", "error_code", "errorCode", "errorType"];
const GOOD: [&str; 6] = ["", "null", "0", "ok", "success", "true"];
/// Members that may accompany a message without other members.
const ACCOMPANYING: [&str; 8] =
    ["request_id", "requestId", "requestid", "trace_id", "traceId", "timestamp", "path", "param"];

/// What the members of an object say.
#[derive(Default)]
struct ObjectSays {
    /// A plain statement that it failed.
    failed: bool,
    message: bool,
    code: bool,
    detail: bool,
    /// It is of a kind of its own.
    other_type: bool,
    /// It has members that say something else.
    more: bool,
}

/// Whether an object without a member of its dialect is an error.
pub fn is_bare_error(text: &str) -> bool {
    let mut said = ObjectSays::default();
    let walked = Json::new(text).object(|name, json| {
        let value = json.skip()?;
        said.member(name, value);
        Ok(())
    });
    let ObjectSays { failed, message, code, detail, other_type, more } = said;
    walked.is_ok() && (failed || !other_type && (message && (code || !more) || detail))
}

impl ObjectSays {
    fn member(&mut self, name: &str, value: &str) {
        let word = value.trim_matches('"');
        let is_text = value.starts_with('"') && !GOOD.contains(&word.to_ascii_lowercase().as_str());
        let has_more = is_text || value.starts_with(['[', '{']) && !matches!(value, "[]" | "{}");
        match name {
            "success" | "ok" => self.failed |= value == "false",
            // vLLM's.
            "object" if word == "error" => self.failed = true,
            "errors" => self.failed |= has_more,
            "detail" => self.detail |= has_more,
            "status" => {
                self.code |= word.parse().is_ok_and(|status: u16| (400..600).contains(&status));
                self.code |= matches!(word, "error" | "failed" | "fail");
            }
            // A URL names the kind of a problem (RFC 9457).
            "type" => self.other_type |= is_text && !["error", "http", "about:"].iter().any(|part| word.contains(part)),
            name if MESSAGES.contains(&name) => self.message |= is_text,
            name if CODES.contains(&name) => {
                let is_good = GOOD.contains(&word.to_ascii_lowercase().as_str());
                self.code |= !is_good && !word.parse().is_ok_and(|status: u16| (200..300).contains(&status));
            }
            name if ACCOMPANYING.contains(&name) => {}
            _ => self.more = true,
        }
    }
}

/// Words of which a sentence about a failure has one; lower case.
const FAILURES: [&str; 20] = [
    "error",
    "fail",
    "exceed",
    "limit",
    "quota",
    "too many",
    "overload",
    "unavailable",
    "upstream",
    "gateway",
    "timeout",
    "timed out",
    "refused",
    "denied",
    "forbidden",
    "not found",
    "not allowed",
    "invalid",
    "unauthorized",
    "not authenticated",
];
/// Bytes of a text that are looked at.
const READ: usize = 4 << 10;
/// How web pages begin; lower case.
const PAGES: [&str; 7] = ["<!", "<html", "<head", "<title", "<body", "<center", "<?xml"];

/// Whether a text that is no JSON is a web page or says in a sentence what failed: some servers and proxies write that into a
/// stream. Other words may be a vendor's own pings, and what has any JSON in it may be a damaged event.
pub fn is_sentence(text: &str) -> bool {
    let text = text.trim_ascii();
    let lower = text[..text.floor_char_boundary(READ)].to_ascii_lowercase();
    if lower.contains("{\"") {
        return false;
    }
    if lower.starts_with('<') {
        return PAGES.iter().any(|page| lower.starts_with(page));
    }
    // A field of an event is `event: ping`.
    let first = lower.split(' ').next().unwrap_or_default();
    let is_field = first.contains(':') && first != "error:";
    lower.starts_with(|c: char| c.is_alphanumeric())
        && !is_field
        && lower.lines().next().is_some_and(|line| line.contains(' '))
        && FAILURES.iter().any(|word| lower.contains(word))
}

// Detects JSON of another dialect than expected: a provider with the wrong `dialect`, or a router that answers in
// another dialect. Used only if an event or a body has no sign of the expected dialect.

/// Event types of a Messages stream.
const MESSAGES_EVENTS: [&str; 6] = [
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
];
/// Objects of chat and completions.
const OBJECTS: [&str; 3] = ["chat.completion", "chat.completion.chunk", "text_completion"];
/// Event types of Cohere's own chat API, which is not supported.
const COHERE: [&str; 6] =
    ["message-start", "content-start", "content-delta", "content-end", "tool-call-delta", "message-end"];
const COHERE_NAME: &str = "cohere";

/// The frame of an event without members of its own dialect: foreign if it has signs of another, an error if it says so, else
/// the chunk.
pub fn or_foreign<'a>(own: Dialect, text: &'a str, chunk: Chunk<'a>) -> Frame<'a> {
    match name(own, text) {
        Some(dialect) => Frame::Foreign(dialect),
        None if is_bare_error(text) => Frame::Error { data: Cow::Borrowed(text.as_bytes()), usage: chunk.usage },
        None => Frame::Chunk(Chunk { whole: is_whole(own, text), ..chunk }),
    }
}

/// Whether the object is an answer of its dialect that is not streamed.
fn is_whole(own: Dialect, text: &str) -> bool {
    let Some((member, word)) = own.whole_sign() else { return false };
    matches!(Json::new(text).member(member, Json::string_or_skip), Ok(Some(found)) if found == word)
}

/// The name of another dialect whose signs the object has. None if it also has signs of its own dialect, or of none.
pub fn name(own: Dialect, text: &str) -> Option<&'static str> {
    let mut found = Vec::new();
    // Ollama has `done` together with one of two content members.
    let (mut says, mut done) = (false, false);
    let walked = Json::new(text).object(|name, json| {
        let first = json.peek();
        let value = json.skip()?;
        found.extend(sign(name, first, value));
        says |= matches!((name, first), ("message", Some(b'{')) | ("response", Some(b'"')));
        done |= name == "done" && matches!(value, "true" | "false");
        Ok(())
    });
    walked.ok()?;
    found.extend((says && done).then_some(Dialect::Ollama.as_str()));
    if found.contains(&own.as_str()) {
        return None;
    }
    Dialect::ALL.map(Dialect::as_str).into_iter().chain([COHERE_NAME]).find(|name| found.contains(name))
}

/// The dialect that is the only one with such a member. `first`: the first byte of the value.
fn sign(name: &str, first: Option<u8>, value: &str) -> Option<&'static str> {
    let word = value.trim_matches('"');
    let dialect = match (name, first?) {
        ("type", b'"') if word.starts_with("response.") => Dialect::Responses,
        ("type", b'"') if word == "message" || MESSAGES_EVENTS.contains(&word) => Dialect::Anthropic,
        ("type", b'"') if COHERE.contains(&word) => return Some(COHERE_NAME),
        ("event_type", b'"') => return Some(COHERE_NAME),
        ("object", b'"') if OBJECTS.contains(&word) => Dialect::OpenAi,
        ("object", b'"') if word == "response" => Dialect::Responses,
        ("choices", b'[') => Dialect::OpenAi,
        ("candidates", b'[') | ("usageMetadata" | "promptFeedback", b'{') => Dialect::Gemini,
        ("output", b'{') | ("stopReason", b'"') => Dialect::Bedrock,
        _ => return None,
    };
    Some(dialect.as_str())
}

#[cfg(test)]
mod bare_error_tests {
    use super::*;

    #[test]
    fn errors_are_told_from_events_of_vendors() {
        for error in [
            r#"{"code":"Throttling.RateQuota","message":"Requests rate limit exceeded","request_id":"r"}"#,
            r#"{"code":50505,"message":"Model service overloaded.","data":null}"#,
            r#"{"code":500,"msg":"busy"}"#,
            r#"{"error_code":17,"error_msg":"Open api daily request limit reached","id":"x"}"#,
            r#"{"errorMessage":"Task timed out","errorType":"Runtime.ExitError"}"#,
            r#"{"detail":"Not authenticated"}"#,
            r#"{"detail":[{"loc":["body"],"msg":"extra"}]}"#,
            r#"{"type":"about:blank","title":"Busy","status":503,"detail":"later"}"#,
            r#"{"success":false,"errors":[{"code":10000,"message":"Authentication error"}],"messages":[],"result":null}"#,
            r#"{"success":false}"#,
            r#"{"status":"error","message":"no"}"#,
            r#"{"message":"Internal server error"}"#,
            r#"{"message":"no","requestId":"r"}"#,
            r#"{"type":"error","code":"x","message":"no"}"#,
            r#"{"object":"error","type":"BadRequestError","message":"no","code":400}"#,
        ] {
            assert!(is_bare_error(error), "{error}");
        }
        for other in [
            "{}",
            "[]",
            "7",
            r#"{"code":0,"message":"success"}"#,
            r#"{"code":200,"message":"all is well","data":{}}"#,
            r#"{"code":"500","message":""}"#,
            r#"{"message":{"role":"assistant","content":"hi"},"done":false}"#,
            r#"{"message":"working","progress":7}"#,
            r#"{"type":"progress","detail":"thinking"}"#,
            r#"{"type":"codex.rate_limits","message":"7 left"}"#,
            r#"{"success":true,"errors":[],"result":{}}"#,
            r#"{"detail":""}"#,
            r#"{"cost":0.1}"#,
            r#"{"code":"x","message":"cut"#,
        ] {
            assert!(!is_bare_error(other), "{other}");
        }
    }

    #[test]
    fn sentences_are_told_from_pings() {
        for sentence in [
            "Rate limit exceeded",
            "upstream connect error or disconnect/reset before headers",
            "502 Bad Gateway\n",
            "\n<!DOCTYPE html><html>",
            "Error: it broke",
        ] {
            assert!(is_sentence(sentence), "{sentence}");
        }
        for other in [
            "",
            "ping",
            "[DONE]",
            "keep-alive\n",
            "{\"a\": 1",
            "[1, 2",
            "\"a b\"",
            ": a b",
            "event: a b",
            "data: {}",
            "a b {\"c\": 1}",
        ] {
            assert!(!is_sentence(other), "{other}");
        }
    }
}

#[cfg(test)]
mod other_dialect_tests {
    use super::*;

    #[test]
    fn a_dialect_is_known_by_its_marks() {
        let table: &[(&str, &str)] = &[
            ("openai", r#"{"id":"c","object":"chat.completion.chunk","choices":[{"delta":{"content":"x"}}]}"#),
            ("openai", r#"{"choices":[{"text":"x"}]}"#),
            ("responses", r#"{"type":"response.output_text.delta","delta":"x"}"#),
            ("responses", r#"{"id":"r","object":"response","status":"completed","output":[]}"#),
            ("anthropic", r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"x"}}"#),
            ("anthropic", r#"{"type":"message","role":"assistant","content":[]}"#),
            ("gemini", r#"{"candidates":[{"content":{"parts":[{"text":"x"}]}}]}"#),
            ("gemini", r#"{"usageMetadata":{"promptTokenCount":1}}"#),
            ("bedrock", r#"{"output":{"message":{"role":"assistant","content":[]}},"stopReason":"end_turn"}"#),
            ("ollama", r#"{"model":"m","message":{"role":"assistant","content":"x"},"done":false}"#),
            ("ollama", r#"{"model":"m","response":"x","done":false}"#),
            ("cohere", r#"{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"x"}}}}"#),
            ("cohere", r#"{"is_finished":false,"event_type":"text-generation","text":"x"}"#),
        ];
        for (dialect, text) in table {
            for own in Dialect::ALL {
                let expected = (own.as_str() != *dialect).then_some(*dialect);
                assert_eq!(name(own, text), expected, "{text} for {}", own.as_str());
            }
        }
    }

    #[test]
    fn what_could_be_of_any_is_of_none() {
        for text in [
            "{}",
            "[]",
            "1",
            "{",
            r#"{"type":"ping"}"#,
            r#"{"type":"codex.rate_limits","plan":"x"}"#,
            r#"{"cost":0.1}"#,
            r#"{"message":"too busy","done":true}"#,
            r#"{"output":[]}"#,
            r#"{"error":{"message":"x"}}"#,
        ] {
            assert!(Dialect::ALL.iter().all(|own| name(*own, text).is_none()), "{text}");
        }
        // A sign of its own dialect takes precedence.
        assert_eq!(name(Dialect::OpenAi, r#"{"type":"message_start","choices":[]}"#), None);
    }
}
