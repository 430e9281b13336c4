//! What a request says of its client: its session, and whether it is an agent in the middle of its work. Not for the conversation
//! by its text, which a provider's cache goes by.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::Deserialize;
use serde_json::value::RawValue;

/// Anthropic's clients put the session into the id of the user.
pub(super) fn user_id(metadata: &str) -> Option<u64> {
    #[derive(Deserialize)]
    struct Metadata<'a> {
        #[serde(borrow)]
        user_id: Option<&'a RawValue>,
    }
    serde_json::from_str::<Metadata<'_>>(metadata).ok()?.user_id.and_then(|id| session(id.get()))
}

/// None for what is no string, and for an empty one.
pub(super) fn session(json: &str) -> Option<u64> {
    (json.len() > 2 && json.starts_with('"')).then(|| session_hash(json.trim_matches('"')))
}

/// A session by its id, whatever its length.
pub fn session_hash(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

/// Bytes from the end of the messages in which the last one is looked for.
const LAST_MESSAGE_MAX: usize = 64 << 10;

/// Whether the last message is the result of a tool. Inside of strings these marks have backslashes before their quotes.
pub(super) fn ends_with_result(messages: &[u8]) -> bool {
    let end = &messages[messages.len().saturating_sub(LAST_MESSAGE_MAX)..];
    // Forwards: backwards takes ten times as many instructions.
    let last_of = |mark: &&str| memchr::memmem::find_iter(end, mark.as_bytes()).last();
    let last = |marks: &[&str]| marks.iter().filter_map(last_of).max();
    // In Anthropic's and Gemini's dialects the user brings results.
    let result = last(&[
        r#""tool_result""#,
        r#""function_call_output""#,
        r#""custom_tool_call_output""#,
        r#""functionResponse""#,
    ]);
    let tool = last(&[r#""tool""#]);
    let model = last(&[r#""assistant""#, r#""model""#]);
    result > model || tool > last(&[r#""user""#]).max(model)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::request::ApiRequest;
    use photofinish_wire::dialect::Surface;

    #[test]
    fn a_session_is_what_its_clients_call_it() {
        let of =
            |surface, body: &str| ApiRequest::parse(surface, Bytes::copy_from_slice(body.as_bytes())).unwrap().session;
        let (chat, messages) = (Surface::Chat, Surface::Messages);
        let named = Some(session_hash("s1"));
        assert_eq!(
            of(chat, r#"{"model":"m","messages":[{"role":"user","content":"q"}],"prompt_cache_key":"s1"}"#),
            named
        );
        assert_eq!(of(Surface::Responses, r#"{"model":"m","input":"x","prompt_cache_key":"s1"}"#), named);
        let user =
            r#"{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"q"}],"metadata":{"user_id":"s1"}}"#;
        assert_eq!(of(messages, user), named);
        for none in [
            r#"{"model":"m","messages":[{"role":"user","content":"q"}],"metadata":{"user_id":"s1"}}"#,
            r#"{"model":"m","messages":[{"role":"user","content":"q"}],"prompt_cache_key":""}"#,
        ] {
            assert_eq!(of(chat, none), None, "{none}");
        }
        let long = format!(
            r#"{{"model":"m","messages":[{{"role":"user","content":"q"}}],"prompt_cache_key":"{}"}}"#,
            "x".repeat(10_000)
        );
        assert!(of(chat, &long).is_some());
    }

    #[test]
    fn the_last_message_of_an_agent_is_a_result() {
        for (messages, expected) in [
            (
                r#"[{"role":"user","content":"q"},{"role":"assistant","tool_calls":[{"id":"c"}]},{"role":"tool","tool_call_id":"c","content":"r"}]"#,
                true,
            ),
            (
                r#"[{"role":"user","content":"q"},{"role":"assistant","content":"a"},{"content":"r","role": "tool"}]"#,
                true,
            ),
            (
                r#"[{"role":"assistant","tool_calls":[]},{"role":"tool","content":"r"},{"role":"user","content":"and now?"}]"#,
                false,
            ),
            (r#"[{"role":"tool","content":"r"},{"role":"assistant","content":"a"}]"#, false),
            (r#"[{"role":"user","content":"a \"tool\", a \"tool_result\""}]"#, false),
            (
                r#"[{"role":"assistant","content":[]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]}]"#,
                true,
            ),
            (
                r#"[{"role":"user","content":[{"type":"tool_result"}]},{"role":"assistant","content":"a"},{"role":"user","content":"q"}]"#,
                false,
            ),
            (
                r#"[{"role":"user","content":"q"},{"type":"function_call","call_id":"c"},{"type":"function_call_output","output":"o"}]"#,
                true,
            ),
            (
                r#"[{"type":"function_call_output","output":"o"},{"role":"assistant","content":"a"},{"role":"user","content":"q"}]"#,
                false,
            ),
            (r#"[{"role":"model","parts":[]},{"role":"user","parts":[{"functionResponse":{"name":"f"}}]}]"#, true),
            ("", false),
            (r#""a question""#, false),
        ] {
            assert_eq!(ends_with_result(messages.as_bytes()), expected, "{messages}");
        }
    }
}
