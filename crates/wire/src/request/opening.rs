//! Finds the opening of a conversation: everything up to the first question. Later requests of a conversation begin
//! with the same bytes. Other conversations hardly do, even with the same system prompt.

use crate::json::{InvalidJson, Json};
use crate::request::ApiRequest;
use crate::translate::bounds::DEPTH_MAX;

/// Maximum messages that are searched for the first question. Examples may precede it.
const MESSAGES_MAX: usize = 16;

/// The parts of the prompt up to the end of the first user message. None if there is no such message.
pub fn opening(request: &ApiRequest) -> Option<[&[u8]; 3]> {
    let [tools, system, messages] = request.prompt();
    let end = first_question(messages)?;
    Some([tools, system, &messages[..end]])
}

/// The end of the first user message. Reading stops there.
fn first_question(messages: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(messages).ok()?;
    let (mut found, mut left) = (None, MESSAGES_MAX);
    let walked = Json::nested(text, DEPTH_MAX).list(|json| {
        let message = json.skip()?;
        let role = Json::nested(message, DEPTH_MAX).member("role", Json::text)?;
        left -= 1;
        if role.is_some_and(|role| role == "user") {
            found = (message.as_ptr() as usize).checked_sub(text.as_ptr() as usize).map(|at| at + message.len());
        }
        // An error stops the walk.
        if found.is_some() || left == 0 { Err(InvalidJson) } else { Ok(()) }
    });
    walked.err().and(found)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::Surface;

    fn of(surface: Surface, body: &str) -> Option<String> {
        let request = ApiRequest::parse(surface, Bytes::copy_from_slice(body.as_bytes())).unwrap();
        let parts = opening(&request)?.map(|part| String::from_utf8(part.to_vec()).unwrap());
        Some(parts.join("|"))
    }

    #[test]
    fn a_conversation_opens_with_its_first_question() {
        let chat = r#"[{"role":"system","content":"s"}, {"role":"user","content":"q"}"#;
        for (surface, body, expected) in [
            (Surface::Chat, format!(r#"{{"model":"m","messages":{chat}]}}"#), Some(format!("||{chat}"))),
            (
                Surface::Chat,
                format!(r#"{{"model":"m","tools":[1],"messages":{chat},{{"role":"assistant","content":"a"}}]}}"#),
                Some(format!("[1]||{chat}")),
            ),
            (
                Surface::Messages,
                r#"{"model":"m","max_tokens":1,"system":"s","messages":[{"content":"q","role":"user"},{"role":"assistant","content":"a"}]}"#.to_owned(),
                Some(r#"|"s"|[{"content":"q","role":"user"}"#.to_owned()),
            ),
            (
                Surface::Responses,
                r#"{"model":"m","instructions":"s","input":[{"role":"user","content":"q"},{"type":"function_call_output","call_id":"c","output":"o"}]}"#.to_owned(),
                Some(r#"|"s"|[{"role":"user","content":"q"}"#.to_owned()),
            ),
            (Surface::Responses, r#"{"model":"m","input":"q"}"#.to_owned(), None),
            (Surface::Completions, r#"{"model":"m","prompt":"q"}"#.to_owned(), None),
            (Surface::Embeddings, r#"{"model":"m","input":["q"]}"#.to_owned(), None),
        ] {
            assert_eq!(of(surface, &body), expected, "{body}");
        }
        let examples = r#"{"role":"system","content":"x"},"#.repeat(MESSAGES_MAX);
        assert_eq!(first_question(format!("[{examples}{{\"role\":\"user\"}}]").as_bytes()), None, "too far behind");
        for odd in ["", "[", "{}", "[1, 2]", r#"[{"role":1}]"#] {
            assert_eq!(first_question(odd.as_bytes()), None, "{odd}");
        }
    }
}
