//! What an error body says, and which places of the request it names. Not for what is done then: see `quirks::lesson`.
//!
//! Reads only the message and the location members: some vendors quote the whole request (`input`), which contains any word.

use serde_json::Value;

use crate::answer::error::MESSAGE_MAX;

/// Members with the complaint, at any depth. `raw` is a router's, with the answer of its own upstream.
const COMPLAINTS: [&str; 10] =
    ["error", "errors", "message", "msg", "detail", "details", "description", "reason", "code", "raw"];
/// What quotes the request.
const QUOTES: [&str; 3] = ["input", "ctx", "body"];

/// Places that are read of one refusal.
const PLACES_MAX: usize = 8;
/// Levels of objects and lists of a refusal that are read.
const DEPTH_MAX: usize = 8;

/// What a body says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusalWords {
    pub text: String,
    /// In members of their own: `tools[0].function.strict`, `body.temperature`.
    pub places: Vec<String>,
}

impl RefusalWords {
    pub fn read(body: &[u8]) -> RefusalWords {
        let mut refusal = RefusalWords::default();
        match serde_json::from_slice::<Value>(body) {
            Ok(value) => refusal.read_in(&value, true, DEPTH_MAX),
            Err(_) => refusal.add(&String::from_utf8_lossy(&body[..body.len().min(MESSAGE_MAX)])),
        }
        refusal
    }

    /// `complains`: its text is the complaint.
    fn read_in(&mut self, value: &Value, complains: bool, depth: usize) {
        let Some(depth) = depth.checked_sub(1) else { return };
        match value {
            // An answer within the answer.
            Value::String(text) if text.starts_with(['{', '[']) => match serde_json::from_str::<Value>(text) {
                Ok(value) => self.read_in(&value, complains, depth),
                Err(_) if complains => self.add(text),
                Err(_) => {}
            },
            Value::String(text) if complains => self.add(text),
            Value::Array(values) => values.iter().for_each(|value| self.read_in(value, complains, depth)),
            Value::Object(members) => {
                for (name, value) in members {
                    match (name.as_str(), value) {
                        ("param" | "field", Value::String(place)) => self.place(place.clone()),
                        ("loc", Value::Array(place)) => {
                            let parts = place.iter().map(|part| part.as_str().map_or(part.to_string(), str::to_owned));
                            self.place(parts.collect::<Vec<_>>().join("."));
                        }
                        (name, _) if QUOTES.contains(&name) => {}
                        (name, value) => self.read_in(value, COMPLAINTS.contains(&name), depth),
                    }
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, text: &str) {
        let room = MESSAGE_MAX.saturating_sub(self.text.len());
        self.text.push_str(&text[..text.floor_char_boundary(room)]);
        self.text.push('\n');
    }

    fn place(&mut self, place: String) {
        if self.places.len() < PLACES_MAX && place.len() <= MESSAGE_MAX {
            self.places.push(place);
        }
    }

    /// Whether it names one of these words, whole and in any case.
    pub fn says(&self, words: &[&str]) -> bool {
        let is_word = |word: &str| words.iter().any(|other| other.eq_ignore_ascii_case(word));
        self.text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(is_word)
            || self.places.iter().flat_map(|place| place.split(['.', '[', ']'])).any(is_word)
    }
}

/// True if a body complains about `stream_options` or `include_usage`.
pub fn rejects_stream_options(body: &[u8]) -> bool {
    RefusalWords::read(body).says(&["stream_options", "include_usage"])
}

/// True if this answer names streaming: a plain one may be given. A bare "Not Implemented" may mean anything; asking once more
/// shows it.
pub fn rejects_stream(status: u16, body: &[u8]) -> bool {
    let refusal = RefusalWords::read(body);
    let is_bare = || {
        refusal.text.trim().is_empty() || body.trim_ascii_start().starts_with(b"<") || refusal.says(&["implemented"])
    };
    !refusal.says(&["stream_options", "include_usage"])
        && (refusal.says(&["stream", "streaming", "streamed", "streams"]) || status == 501 && is_bare())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_to_stream_is_told_apart_from_other_mistakes() {
        for (status, complaint) in [
            (
                400,
                r#"{"error":{"message":"Your organization must be verified to stream this model.","type":"invalid_request_error","param":"stream","code":"unsupported_value"}}"#,
            ),
            (400, r#"{"error":{"message":"Cannot use tools with stream"}}"#),
            (400, r#"{"error":{"message":"unsupported","param":"stream"}}"#),
            (400, r#"{"message":"The model doesn't support streaming."}"#),
            (400, r#"{"error":{"message":"`prompt_logprobs` are not available when `stream=True`."}}"#),
            (422, r#"{"detail":"Streaming is not available for this model"}"#),
            (403, r#"{"error":"streaming is disabled for this deployment"}"#),
            (501, "<html>Not Implemented</html>"),
            (501, ""),
            (501, r#"{"error":{"message":"Not implemented"}}"#),
        ] {
            assert!(rejects_stream(status, complaint.as_bytes()), "{complaint}");
        }
        for other in [
            r#"{"error":{"message":"Unknown parameter: 'stream_options'. It is not supported."}}"#,
            r#"{"error":{"message":"the upstream does not support this model"}}"#,
            r#"{"error":{"message":"temperature is not supported with this model"}}"#,
            r#"{"detail":[{"loc":["body","temperature"],"msg":"too hot","input":"streaming is not supported"}]}"#,
            "",
        ] {
            assert!(!rejects_stream(400, other.as_bytes()), "{other}");
        }
        assert!(!rejects_stream(501, br#"{"error":"not here"}"#));
    }

    #[test]
    fn places_and_messages_are_read_and_quotes_of_the_request_are_not() {
        for (body, text, places) in [
            (r#"{"error":{"message":"a","param":"tools[0].strict"}}"#, "a\n", &["tools[0].strict"][..]),
            (
                r#"{"detail":[{"loc":["body","messages",0,"name"],"msg":"b","input":"seed"}]}"#,
                "b\n",
                &["body.messages.0.name"],
            ),
            (r#"{"error":"c","code":"d"}"#, "d\nc\n", &[]),
            (r#"{"error":{"metadata":{"raw":"{\"message\":\"e\"}"}}}"#, "e\n", &[]),
            (r#"{"error":{"cause":"{\"message\":\"e\",\"param\":\"f\"}","body":{"message":"g"}}}"#, "e\n", &["f"]),
            ("plain", "plain\n", &[]),
        ] {
            let read = RefusalWords::read(body.as_bytes());
            let mut lines: Vec<&str> = read.text.lines().collect();
            let mut expected: Vec<&str> = text.lines().collect();
            lines.sort_unstable();
            expected.sort_unstable();
            assert_eq!((lines, read.places), (expected, places.iter().map(ToString::to_string).collect()), "{body}");
        }
    }
}
