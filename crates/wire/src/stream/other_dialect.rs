//! Detects JSON of another dialect than expected: a provider with the wrong `dialect`, or a router that answers in
//! another dialect. Used only if an event or a body has no sign of the expected dialect.

use std::borrow::Cow;

use super::bare_error::is_bare_error;
use super::frame::{Chunk, Frame};
use crate::Dialect;
use crate::json::Json;

/// Event types of a Messages stream.
const MESSAGES: [&str; 6] = [
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

/// Whether the object is an answer of its dialect that is not streamed. In the other dialects the members of an event
/// tell it.
fn is_whole(own: Dialect, text: &str) -> bool {
    let (member, word) = match own {
        Dialect::Anthropic => ("type", "message"),
        Dialect::Responses => ("object", "response"),
        Dialect::OpenAi | Dialect::Gemini | Dialect::Bedrock | Dialect::Ollama => return false,
    };
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
        ("type", b'"') if word == "message" || MESSAGES.contains(&word) => Dialect::Anthropic,
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
mod tests {
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
