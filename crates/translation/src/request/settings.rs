//! What a request asks of the model apart from its prompt, for its span: numbers, words and ids.
//!
//! Not for content: stop sequences are text of the user and are left out, and so is every word that is no plain one.

use photofinish_wire::dialect::{PassedCall, Surface};
use photofinish_wire::json::Json;

use super::{ApiRequest, SERDE_DEPTH_MAX, asks_json};

/// As the client says it, whatever an upstream is sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestSettings {
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub top_k: Option<i64>,
    pub frequency_penalty: Option<f64>,
    pub presence_penalty: Option<f64>,
    pub seed: Option<i64>,
    /// How much it may reason, in the word of its API.
    pub reasoning_level: Option<String>,
    /// `text`, `json`, `image` or `speech`.
    pub output: Option<&'static str>,
    /// The id of the conversation that it belongs to.
    pub conversation: Option<String>,
    /// The id of the answer that it goes on from.
    pub previous: Option<String>,
}

/// Bytes of a level of reasoning in a span; a longer word is left out.
const WORD_MAX: usize = 32;
/// Depth of the objects of a request in which settings are looked for.
const NESTED_MAX: u32 = 2;

impl ApiRequest {
    /// Reads the body once more: for requests that are traced.
    pub fn settings(&self) -> RequestSettings {
        let mut settings = RequestSettings {
            conversation: self.state.conversation.clone(),
            previous: self.state.previous.clone(),
            ..RequestSettings::default()
        };
        if let (false, Ok(text)) = (self.is_form(), std::str::from_utf8(&self.body)) {
            settings.read(text, 0);
        }
        settings.output = match self.surface {
            Surface::Passed(PassedCall::Speech) => Some("speech"),
            Surface::Passed(PassedCall::Image | PassedCall::ImageEdit) => Some("image"),
            _ if self.asks_json => Some("json"),
            _ => settings.output,
        };
        settings
    }
}

impl RequestSettings {
    fn read(&mut self, text: &str, depth: u32) {
        // What cannot be read was refused before.
        let _ = Json::nested(text, SERDE_DEPTH_MAX).object(|name, json| {
            let value = json.skip()?;
            match name {
                "temperature" => self.temperature = number(value),
                "top_p" | "topP" => self.top_p = number(value),
                "top_k" | "topK" => self.top_k = whole(value),
                "frequency_penalty" | "frequencyPenalty" => self.frequency_penalty = number(value),
                "presence_penalty" | "presencePenalty" => self.presence_penalty = number(value),
                "seed" => self.seed = whole(value),
                "reasoning_effort" | "think" => self.reasoning_level = word(value),
                "effort" | "thinkingLevel" | "thinking_level" if depth > 0 => self.reasoning_level = word(value),
                "response_format" if !asks_json(value) && value.contains("\"text\"") => self.output = Some("text"),
                "options" | "generationConfig" | "generation_config" | "reasoning" | "output_config"
                | "thinkingConfig" | "thinking_config"
                    if depth < NESTED_MAX =>
                {
                    self.read(value, depth + 1);
                }
                _ => {}
            }
            Ok(())
        });
    }
}

fn number(value: &str) -> Option<f64> {
    value.parse().ok().filter(|number: &f64| number.is_finite())
}

fn whole(value: &str) -> Option<i64> {
    value.parse().ok()
}

/// A plain word in quotes: no text of a prompt is one.
fn word(value: &str) -> Option<String> {
    let word = value.strip_prefix('"')?.strip_suffix('"')?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    ((1..=WORD_MAX).contains(&word.len()) && word.bytes().all(is_plain)).then(|| word.to_owned())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn settings(surface: Surface, body: &'static str) -> RequestSettings {
        let call =
            photofinish_wire::PathCall::of_gemini("m:generateContent", "").filter(|call| call.surface == surface);
        ApiRequest::parse_call(surface, Bytes::from_static(body.as_bytes()), call.as_ref(), false).unwrap().settings()
    }

    #[test]
    fn each_api_says_it_in_its_own_place() {
        let none = RequestSettings::default;
        let high = || Some("high".to_owned());
        for (surface, body, expected) in [
            (
                Surface::Chat,
                r#"{"model":"m","messages":[{"role":"user","content":"\"temperature\":9"}],"temperature":0.5,"top_p":1,"seed":7,
                "frequency_penalty":-0.5,"presence_penalty":2e-1,"reasoning_effort":"high","stop":["planted"],
                "response_format":{"type":"text"}}"#,
                RequestSettings {
                    temperature: Some(0.5),
                    top_p: Some(1.0),
                    seed: Some(7),
                    frequency_penalty: Some(-0.5),
                    presence_penalty: Some(0.2),
                    reasoning_level: high(),
                    output: Some("text"),
                    ..none()
                },
            ),
            (
                Surface::Responses,
                r#"{"model":"m","input":"x","reasoning":{"effort":"high"},"text":{"format":{"type":"json_object"}},
                "previous_response_id":"resp_1"}"#,
                RequestSettings {
                    reasoning_level: high(),
                    output: Some("json"),
                    previous: Some("resp_1".to_owned()),
                    ..none()
                },
            ),
            (
                Surface::Messages,
                r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}],"top_k":40,"output_config":{"effort":"high"}}"#,
                RequestSettings { top_k: Some(40), reasoning_level: high(), ..none() },
            ),
            (
                Surface::Gemini,
                r#"{"contents":[{"role":"user","parts":[{"text":"x"}]}],"generationConfig":{"temperature":0,"topP":0.9,"topK":3,"seed":-1,
                "thinkingConfig":{"thinkingLevel":"high"}}}"#,
                RequestSettings {
                    temperature: Some(0.0),
                    top_p: Some(0.9),
                    top_k: Some(3),
                    seed: Some(-1),
                    reasoning_level: high(),
                    ..none()
                },
            ),
            (
                Surface::OllamaChat,
                r#"{"model":"m","messages":[{"role":"user","content":"x"}],"think":"high","options":{"temperature":1,"options":{"options":{"seed":1}}}}"#,
                RequestSettings { temperature: Some(1.0), reasoning_level: high(), ..none() },
            ),
        ] {
            assert_eq!(settings(surface, body), expected, "{surface:?}");
        }
    }

    #[test]
    fn a_text_is_no_level() {
        for level in
            ["\"What is the capital?\"", "\"\"", "true", "null", "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"", "\"a\\\"b\""]
        {
            assert_eq!(word(level), None, "{level}");
        }
        assert_eq!(word("\"x-high\"").as_deref(), Some("x-high"));
    }
}
