//! What the simulation needs to know of a chat request. Unknown members are ignored, as most providers do.

use serde::Deserialize;
use serde_json::value::RawValue;

/// Most choices of one answer.
const CHOICES_MAX: u32 = 8;
/// Characters of `user` that are remembered.
const USER_MAX: usize = 64;

/// A valid request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChatRequest {
    pub(super) model: String,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    /// 1 to 8.
    pub(super) choices: u32,
    /// The smaller of `max_tokens` and `max_completion_tokens`; at least 1.
    pub(super) tokens_max: Option<u32>,
    /// Bytes of the messages / 4.
    pub(super) prompt_tokens: u64,
    pub(super) seed: Option<i64>,
    /// At most 64 characters.
    pub(super) user: Option<String>,
}

impl ChatRequest {
    /// # Errors
    /// What is wrong, for the client; without the request's own text.
    pub(super) fn parse(body: &[u8]) -> Result<ChatRequest, String> {
        let raw: Raw<'_> = serde_json::from_slice(body)
            .map_err(|error| format!("not a chat request (line {}, column {})", error.line(), error.column()))?;
        let messages = raw.messages.ok_or("`messages` is missing")?.get();
        if !messages.starts_with('[') {
            return Err("`messages` must be an array".into());
        }
        let choices = raw.n.unwrap_or(1);
        if !(1..=CHOICES_MAX).contains(&choices) {
            return Err(format!("`n` must be 1 to {CHOICES_MAX}"));
        }
        let tokens_max = raw.max_tokens.into_iter().chain(raw.max_completion_tokens).min();
        if tokens_max == Some(0) {
            return Err("`max_tokens` must be at least 1".into());
        }
        Ok(ChatRequest {
            model: raw.model.ok_or("`model` is missing")?,
            stream: raw.stream.unwrap_or(false),
            include_usage: raw.stream_options.and_then(|options| options.include_usage).unwrap_or(false),
            choices,
            tokens_max,
            prompt_tokens: (messages.len() as u64).div_ceil(4),
            seed: raw.seed,
            user: raw.user.map(|user| user.chars().take(USER_MAX).collect()),
        })
    }
}

#[derive(Deserialize)]
struct Raw<'a> {
    model: Option<String>,
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    stream: Option<bool>,
    stream_options: Option<RawStreamOptions>,
    n: Option<u32>,
    max_tokens: Option<u32>,
    max_completion_tokens: Option<u32>,
    seed: Option<i64>,
    user: Option<String>,
}

#[derive(Deserialize)]
struct RawStreamOptions {
    include_usage: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_has_its_default() {
        let request = ChatRequest::parse(br#"{"model":"m","messages":[{}]}"#).unwrap();
        let expected = ChatRequest {
            model: "m".into(),
            stream: false,
            include_usage: false,
            choices: 1,
            tokens_max: None,
            prompt_tokens: 1,
            seed: None,
            user: None,
        };
        assert_eq!(request, expected);
    }

    #[test]
    fn what_is_said_counts() {
        let body = br#"{"model":"m","messages":[],"stream":true,"stream_options":{"include_usage":true,"x":1},
            "n":2,"max_tokens":9,"max_completion_tokens":5,"seed":-3,"user":"u","temperature":null}"#;
        let request = ChatRequest::parse(body).unwrap();
        assert!(request.stream && request.include_usage);
        assert_eq!(request.seed, Some(-3));
        assert_eq!((request.choices, request.tokens_max, request.user), (2, Some(5), Some("u".into())));
    }

    #[test]
    fn what_is_wrong_is_said_without_quoting() {
        let cases = [
            ("{", "not a chat request"),
            (r#"{"model":"m","messages":[],"stream":"sk-secret"}"#, "not a chat request"),
            (r#"{"model":"m"}"#, "`messages` is missing"),
            (r#"{"model":"m","messages":null}"#, "`messages` is missing"),
            (r#"{"model":"m","messages":"hi"}"#, "`messages` must be an array"),
            (r#"{"messages":[]}"#, "`model` is missing"),
            (r#"{"model":"m","messages":[],"n":0}"#, "`n` must be"),
            (r#"{"model":"m","messages":[],"n":9}"#, "`n` must be"),
            (r#"{"model":"m","messages":[],"max_tokens":0}"#, "`max_tokens` must be"),
        ];
        for (body, expected) in cases {
            let error = ChatRequest::parse(body.as_bytes()).unwrap_err();
            assert!(error.contains(expected) && !error.contains("sk-secret"), "{body}: {error}");
        }
    }
}
