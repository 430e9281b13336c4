//! Detects a JSON text of another dialect than expected: a provider with the wrong `dialect`, or a router that answers
//! in its own. Used only if an event or a body has nothing of its own dialect.

use super::Dialect;
use super::frame::{Chunk, Frame};
use super::json::{InvalidJson, Json};

/// Event types of a Messages stream.
const MESSAGES: [&str; 6] = [
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
];
/// Event types of Cohere's own chat API, which is not supported.
const COHERE: [&str; 6] =
    ["message-start", "content-start", "content-delta", "content-end", "tool-call-delta", "message-end"];
const COHERE_NAME: &str = "cohere";

/// Signs of the dialects in a text.
#[derive(Default)]
struct DialectMarks {
    openai: bool,
    responses: bool,
    anthropic: bool,
    gemini: bool,
    bedrock: bool,
    cohere: bool,
    /// Ollama has one of these members together with `done`.
    says: bool,
    done: bool,
}

/// The frame of an event without members of its own dialect: foreign if it has signs of another, else the chunk.
pub fn or_foreign<'a>(own: Dialect, text: &str, chunk: Chunk<'a>) -> Frame<'a> {
    name(own, text).map_or(Frame::Chunk(chunk), Frame::Foreign)
}

/// The name of another dialect whose signs the object has. None if it also has signs of its own dialect, or of none.
pub fn name(own: Dialect, text: &str) -> Option<&'static str> {
    let mut marks = DialectMarks::default();
    let mut json = Json::new(text);
    json.object(|name, json| marks.member(name, json)).ok()?;
    let ollama = marks.says && marks.done;
    let found = [
        (marks.openai, Dialect::OpenAi.as_str()),
        (marks.responses, Dialect::Responses.as_str()),
        (marks.anthropic, Dialect::Anthropic.as_str()),
        (marks.gemini, Dialect::Gemini.as_str()),
        (marks.bedrock, Dialect::Bedrock.as_str()),
        (ollama, Dialect::Ollama.as_str()),
        (marks.cohere, COHERE_NAME),
    ];
    let mut found = found.into_iter().filter_map(|(is_there, name)| is_there.then_some(name));
    let first = found.next()?;
    (first != own.as_str() && found.all(|name| name != own.as_str())).then_some(first)
}

impl DialectMarks {
    fn member(&mut self, name: &str, json: &mut Json<'_>) -> Result<(), InvalidJson> {
        match (name, json.peek()) {
            ("type", Some(b'"')) => self.kind(json.string_or_skip()?.unwrap_or_default()),
            ("object", Some(b'"')) => match json.string_or_skip()? {
                Some("chat.completion" | "chat.completion.chunk" | "text_completion") => self.openai = true,
                Some("response") => self.responses = true,
                _ => {}
            },
            ("choices", Some(b'[')) => {
                self.openai = true;
                json.skip()?;
            }
            ("candidates", Some(b'[')) | ("usageMetadata" | "promptFeedback", Some(b'{')) => {
                self.gemini = true;
                json.skip()?;
            }
            ("output", Some(b'{')) | ("stopReason", Some(b'"')) => {
                self.bedrock = true;
                json.skip()?;
            }
            ("message", Some(b'{')) | ("response", Some(b'"')) => {
                self.says = true;
                json.skip()?;
            }
            ("done", _) => self.done = matches!(json.skip()?, "true" | "false"),
            ("event_type", Some(b'"')) => {
                self.cohere = true;
                json.skip()?;
            }
            _ => drop(json.skip()?),
        }
        Ok(())
    }

    fn kind(&mut self, kind: &str) {
        self.responses |= kind.starts_with("response.");
        self.anthropic |= kind == "message" || MESSAGES.contains(&kind);
        self.cohere |= COHERE.contains(&kind);
    }
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
