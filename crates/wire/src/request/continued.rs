//! Writes a request that continues its answer: with one more message, or a longer prompt. All other bytes are kept.

use serde::Deserialize;
use serde_json::Value;

use super::{ApiRequest, PROMPT_PARTS, Surface};
use crate::json::Json;
use crate::request::prefix::Prefix;
use crate::translate::bounds::DEPTH_MAX;

#[derive(Deserialize)]
struct ContinuedTurn {
    #[serde(default)]
    role: String,
}

impl ApiRequest {
    /// With `said` as the last assistant message, or appended to the prompt of a completion, and with as many tokens less
    /// as were `spent` on it. None if the last message is already the assistant's: then the answer has more than `said`.
    pub fn continued(&self, said: &str, spent: i64, prefix: Prefix) -> Option<ApiRequest> {
        let range = self.prompt[PROMPT_PARTS - 1].clone();
        let (list, end) = (self.body.get(range.clone())?, range.end.checked_sub(1)?);
        let (inner, members) = match self.surface {
            Surface::Chat | Surface::Messages => {
                let turns: Vec<ContinuedTurn> = serde_json::from_slice(list).ok()?;
                if turns.last()?.role == "assistant" {
                    return None;
                }
                let (of_message, of_request) = prefix.members();
                (format!(r#",{{"role":"assistant","content":{}{of_message}}}"#, Value::from(said)), of_request)
            }
            Surface::Completions if list.first() == Some(&b'"') && !self.echoes => {
                let text = Value::from(said).to_string();
                (text.strip_prefix('"')?.strip_suffix('"')?.to_owned(), "")
            }
            _ => return None,
        };
        let mut body = Vec::with_capacity(self.body.len() + inner.len() + members.len());
        body.extend_from_slice(self.body.get(..end)?);
        body.extend_from_slice(inner.as_bytes());
        body.extend_from_slice(self.body.get(end..self.end)?);
        body.extend_from_slice(members.as_bytes());
        body.extend_from_slice(self.body.get(self.end..)?);
        ApiRequest::written(self.surface, with_fewer_tokens(body, spent).into()).ok()
    }
}

/// Members that bound the tokens of the answer.
const LIMITS: [&str; 3] = ["max_tokens", "max_completion_tokens", "max_output_tokens"];

/// The request with a smaller bound, but at least one token.
fn with_fewer_tokens(mut body: Vec<u8>, spent: i64) -> Vec<u8> {
    let mut limits = Vec::new();
    let text = std::str::from_utf8(&body).unwrap_or_default();
    // Only what was read is changed.
    let _ = Json::nested(text, DEPTH_MAX).object(|name, json| {
        let value = json.skip()?;
        if let Some(tokens) = value.parse::<i64>().ok().filter(|_| LIMITS.contains(&name)) {
            let start = value.as_ptr() as usize - text.as_ptr() as usize;
            limits.push((start..start + value.len(), tokens.saturating_sub(spent).max(1)));
        }
        Ok(())
    });
    for (at, tokens) in limits.into_iter().rev() {
        body.splice(at, tokens.to_string().into_bytes());
    }
    body
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn continued(surface: Surface, body: &'static str, prefix: Prefix) -> Option<String> {
        let request = ApiRequest::parse(surface, Bytes::from_static(body.as_bytes())).unwrap();
        let continued = request.continued("a \"b\"", 4, prefix)?;
        Some(String::from_utf8(continued.body_for("up", crate::AnswerForm::Streamed).to_vec()).unwrap())
    }

    #[test]
    fn what_was_said_is_the_last_message() {
        let chat = r#"{"model":"m","messages":[{"role":"user","content":"x"} ],"seed":1}"#;
        let with = |message: &str, members: &str| {
            Some(format!(
                r#"{{"model":"up","messages":[{{"role":"user","content":"x"}} ,{{"role":"assistant","content":"a \"b\""{message}}}],"seed":1{members},"stream":true}}"#
            ))
        };
        assert_eq!(continued(Surface::Chat, chat, Prefix::Plain), with("", ""));
        assert_eq!(continued(Surface::Chat, chat, Prefix::Prefix), with(r#","prefix":true"#, ""));
        assert_eq!(continued(Surface::Chat, chat, Prefix::Partial), with(r#","partial":true"#, ""));
        let members = r#","add_generation_prompt":false,"continue_final_message":true"#;
        assert_eq!(continued(Surface::Chat, chat, Prefix::ContinueFinalMessage), with("", members));
        let messages = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}]}"#;
        let expected = r#"{"model":"up","max_tokens":5,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"a \"b\""}],"stream":true}"#;
        assert_eq!(continued(Surface::Messages, messages, Prefix::Plain).as_deref(), Some(expected));
    }

    #[test]
    fn a_completion_goes_on_from_a_longer_prompt() {
        let body = r#"{"model":"m","prompt":"say:","max_tokens":4}"#;
        let expected = r#"{"model":"up","prompt":"say:a \"b\"","max_tokens":1,"stream":true}"#;
        assert_eq!(continued(Surface::Completions, body, Prefix::Plain).as_deref(), Some(expected));
        assert_eq!(continued(Surface::Completions, r#"{"model":"m","prompt":["a","b"]}"#, Prefix::Plain), None);
        let less = |body: &str| String::from_utf8(with_fewer_tokens(body.into(), 7)).unwrap();
        assert_eq!(
            less(r#"{"max_tokens": 40, "x": {"max_tokens": 9}, "max_completion_tokens":null,"max_output_tokens":9.5}"#),
            r#"{"max_tokens": 33, "x": {"max_tokens": 9}, "max_completion_tokens":null,"max_output_tokens":9.5}"#
        );
        assert_eq!(
            less(r#"{"max_completion_tokens":10,"max_tokens":100}"#),
            r#"{"max_completion_tokens":3,"max_tokens":93}"#
        );
    }

    #[test]
    fn what_the_client_itself_began_is_not_gone_on_with() {
        let body = r#"{"model":"m","messages":[{"role":"user","content":"x"},{"role":"assistant","content":"{"}]}"#;
        assert_eq!(continued(Surface::Chat, body, Prefix::Plain), None);
    }
}
