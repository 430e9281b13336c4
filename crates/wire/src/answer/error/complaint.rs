//! Detects a 4xx body that complains about something the request can omit. Reads only the message and the location
//! members: some vendors quote the whole request (`input`), which contains the words in any case.

use serde_json::Value;

use crate::answer::error::MESSAGE_MAX;

/// Members with the complaint and its location. The last two are a router's, with the answer of its own upstream.
const COMPLAINTS: [&str; 13] = [
    "error",
    "errors",
    "message",
    "msg",
    "detail",
    "details",
    "loc",
    "param",
    "description",
    "reason",
    "code",
    "metadata",
    "raw",
];

/// Phrases with which vendors refuse reasoning of others, or changed reasoning; lower case, without quotes.
const REASONING: [&str; 12] = [
    // Anthropic, also through Bedrock and Vertex AI.
    "invalid signature in thinking block",
    "invalid data in redacted_thinking block",
    "thinking.signature",
    "redacted_thinking.data",
    "blocks in the latest assistant message cannot be modified",
    // Gemini.
    "thought signature is not valid",
    "invalid thought signature",
    "corrupted thought signature",
    // OpenAI's Responses.
    "invalid_encrypted_content",
    "encrypted content could not be",
    "item with id rs_",
    "of type reasoning was provided without its required",
];

/// True if a 4xx body complains about `stream_options` or `include_usage`.
pub fn rejects_stream_options(body: &[u8]) -> bool {
    complains(body, &|text| text.contains("stream_options") || text.contains("include_usage"))
}

/// Phrases with which vendors refuse to stream; lower case.
const NO_STREAM: [&str; 14] = [
    "not support",
    "not currently support",
    "n't support",
    "unsupported",
    "cannot",
    "can't",
    "must be verified",
    "not allowed",
    "not available",
    "not enabled",
    "not implemented",
    "disabled",
    "without stream",
    "only non-stream",
];

/// True if this answer refuses to stream: a plain one may be given.
pub fn rejects_stream(status: u16, body: &[u8]) -> bool {
    let refuses = |text: &str| {
        let text = text.to_lowercase();
        text.contains("stream")
            && !["stream_options", "upstream"].iter().any(|other| text.contains(other))
            && NO_STREAM.iter().any(|phrase| text.contains(phrase))
    };
    let names_it = || {
        let said = serde_json::from_slice::<Value>(body).unwrap_or_default();
        let param = said.pointer("/error/param").or_else(|| said.get("param"));
        param.is_some_and(|param| param == "stream")
    };
    // A bare "Not Implemented" may mean anything; asking once more shows it.
    let is_bare = || !complains(body, &|text| !text.trim().is_empty() && !text.to_lowercase().contains("implement"));
    names_it() || complains(body, &refuses) || (status == 501 && (is_page(body) || is_bare()))
}

/// True if a 4xx body reports that reasoning of an earlier turn is not the vendor's own.
pub fn rejects_reasoning(body: &[u8]) -> bool {
    complains(body, &refuses_reasoning)
}

fn refuses_reasoning(text: &str) -> bool {
    let plain: String =
        text.chars().filter(|c| !matches!(c, '`' | '\'' | '"' | '\\')).collect::<String>().to_lowercase();
    // The data itself is between these words.
    let unverified = plain.find("the encrypted content ").is_some_and(|at| {
        plain[at..].contains("could not be verified") || plain[at..].contains("could not be decrypted")
    });
    unverified || REASONING.iter().any(|words| plain.contains(words))
}

fn is_page(body: &[u8]) -> bool {
    body.trim_ascii_start().starts_with(b"<")
}

fn complains(body: &[u8], names: &dyn Fn(&str) -> bool) -> bool {
    match serde_json::from_slice::<Value>(body) {
        Ok(value) => said_in(&value, names),
        Err(_) => names(&String::from_utf8_lossy(&body[..body.len().min(MESSAGE_MAX)])),
    }
}

fn said_in(value: &Value, names: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => names(text),
        Value::Array(values) => values.iter().any(|value| said_in(value, names)),
        Value::Object(members) => {
            members.iter().any(|(name, value)| COMPLAINTS.contains(&name.as_str()) && said_in(value, names))
        }
        _ => false,
    }
}

// Detects a 4xx body that says that a member of the request is not taken, and which one. Not for what is done then: see `quirks`.

/// A member that a vendor does not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedMember {
    pub name: String,
    /// Its value is not taken; others may be.
    pub by_value: bool,
}

/// Phrases with which vendors refuse a member, whatever its value; lower case.
const BY_NAME: [&str; 10] = [
    "unsupported parameter",
    "unsupported_parameter",
    "unknown parameter",
    "unknown field",
    "unknown name",
    "unrecognized request argument",
    "unexpected keyword",
    "extra inputs are not permitted",
    "extra_forbidden",
    "is deprecated for this model",
];

/// Phrases with which they refuse one value of it.
const BY_VALUE: [&str; 3] = ["unsupported value", "unsupported_value", "only the default"];

/// Where a refusal is about two members, it says nothing of one.
const TOGETHER: [&str; 4] = ["in combination", "together", "both ", "tools with"];

/// The member that a 4xx body refuses. None: it refuses none, or does not say which.
pub fn refused_member(body: &[u8]) -> Option<RefusedMember> {
    let said = Said::of(&serde_json::from_slice(body).ok()?);
    let text = [said.messages.join(" "), said.codes.join(" ")].join(" ").to_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
    let (by_name, by_value) = (says(&BY_NAME), says(&BY_VALUE));
    if says(&TOGETHER) || !(by_name || by_value) {
        return None;
    }
    let name = said.name.or_else(|| said.messages.iter().find_map(|text| name_in(text)))?;
    Some(RefusedMember { name, by_value })
}

/// What an error says, and the member that it names in a place of its own.
#[derive(Default)]
struct Said {
    messages: Vec<String>,
    /// The kinds of the error.
    codes: Vec<String>,
    name: Option<String>,
}

impl Said {
    fn of(value: &Value) -> Said {
        let mut said = Said::default();
        said.read(value, 4);
        said
    }

    fn read(&mut self, value: &Value, depth: usize) {
        let Some(depth) = depth.checked_sub(1) else { return };
        match value {
            // Of several errors the first.
            Value::Array(values) => values.iter().take(1).for_each(|value| self.read(value, depth)),
            Value::Object(members) => {
                for (name, value) in members {
                    match (name.as_str(), value) {
                        ("param", Value::String(param)) if is_name(param) => self.name = Some(param.clone()),
                        ("loc", Value::Array(place)) => {
                            if let [Value::String(body), Value::String(name)] = &place[..]
                                && body == "body"
                                && is_name(name)
                            {
                                self.name = Some(name.clone());
                            } else {
                                // It is within another member.
                                self.name = Some(String::new());
                            }
                        }
                        ("message" | "msg" | "detail", Value::String(text)) => self.messages.push(text.clone()),
                        ("code" | "type", Value::String(code)) => self.codes.push(code.clone()),
                        ("error" | "errors" | "detail" | "details", value) => self.read(value, depth),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
}

/// `top_k: Extra inputs are not permitted`, `…argument supplied: seed`, or the only name in quotes.
fn name_in(text: &str) -> Option<String> {
    let (first, last) = (text.split(':').next()?.trim(), text.rsplit(':').next()?.trim());
    let quoted: Vec<&str> = text.split(['`', '\'', '"']).skip(1).step_by(2).filter(|word| is_name(word)).collect();
    let found = match &quoted[..] {
        [only] => only,
        [_, ..] => return None,
        [] if is_name(first) => first,
        [] if is_name(last) => last,
        [] => return None,
    };
    Some(found.to_owned())
}

fn is_name(word: &str) -> bool {
    (1..=64).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
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
            (400, r#"{"error":{"message":"`stream` is not supported with `n` > 1","param":null}}"#),
            (400, r#"{"message":"The model doesn't support streaming."}"#),
            (400, r#"{"error":{"message":"Streaming is not currently supported with beam search","param":null}}"#),
            (
                400,
                r#"{"error":{"message":"`prompt_logprobs` are not available when `stream=True`.","param":"prompt_logprobs"}}"#,
            ),
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
            r#"{"error":{"message":"a stream was interrupted"}}"#,
            r#"{"detail":[{"loc":["body","temperature"],"msg":"too hot","input":"streaming is not supported"}]}"#,
            "",
        ] {
            assert!(!rejects_stream(400, other.as_bytes()), "{other}");
        }
        assert!(!rejects_stream(501, br#"{"error":"not here"}"#));
    }

    #[test]
    fn reasoning_that_a_vendor_did_not_make_is_told_apart_from_other_mistakes() {
        for complaint in [
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.1.content.0: Invalid `signature` in `thinking` block"}}"#,
            r#"{"message":"The model returned the following errors: messages.39.content.0: Invalid signature in thinking block"}"#,
            r#"{"error":{"message":"messages.369.content.0.thinking.signature: Field required"}}"#,
            r#"{"error":{"message":"messages.3.content.1: Invalid `data` in `redacted_thinking` block"}}"#,
            r#"{"error":{"message":"messages.1.content.3: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified."}}"#,
            r#"{"error":{"code":400,"message":"Corrupted thought signature.","status":"INVALID_ARGUMENT"}}"#,
            r#"[{"error":{"code":400,"message":"Unable to submit request because Thought signature is not valid..","status":"INVALID_ARGUMENT"}}]"#,
            r#"{"error":{"code":400,"message":"Invalid thought signature.","status":"INVALID_ARGUMENT"}}"#,
            r#"{"error":{"message":"The encrypted content gAAA...DQ== could not be verified.","type":"invalid_request_error","param":null,"code":"invalid_encrypted_content"}}"#,
            r#"{"error":{"message":"The encrypted content gAAA...wXBV could not be verified.","type":"invalid_request_error","param":null,"code":null}}"#,
            r#"{"error":{"message":"Item with id 'rs_0a1b' not found. Items are not persisted when `store` is set to false."}}"#,
            r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"message\":\"messages.7.content.2: Invalid signature in thinking block\"}","provider_name":"Amazon Bedrock"}}}"#,
            r#"{"error":{"code":400,"message":"{\"type\":\"error\",\"error\":{\"message\":\"messages.1.content.0: Invalid `signature` in `thinking` block\"}}","status":"INVALID_ARGUMENT"}}"#,
            "ValidationException: messages.1.content.0: Invalid `signature` in `thinking` block",
        ] {
            assert!(rejects_reasoning(complaint.as_bytes()), "{complaint}");
        }
        for other in [
            r#"{"error":{"message":"max_tokens must be greater than thinking.budget_tokens"}}"#,
            r#"{"error":{"message":"Function call is missing a thought_signature in functionCall parts."}}"#,
            r#"{"error":{"message":"The request signature we calculated does not match the signature you provided."}}"#,
            r#"{"detail":[{"loc":["body","temperature"],"msg":"too hot","input":"Invalid `signature` in `thinking` block"}]}"#,
            "",
        ] {
            assert!(!rejects_reasoning(other.as_bytes()), "{other}");
        }
    }
}

#[cfg(test)]
mod refused_member_tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_member_that_is_not_taken() {
        for (complaint, expected) in [
            (
                r#"{"error":{"message":"Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.","type":"invalid_request_error","param":"temperature","code":"unsupported_value"}}"#,
                Some(("temperature", true)),
            ),
            (
                r#"{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","param":"max_tokens","code":"unsupported_parameter"}}"#,
                Some(("max_tokens", false)),
            ),
            (
                r#"{"error":{"message":"Unrecognized request argument supplied: seed","param":null}}"#,
                Some(("seed", false)),
            ),
            (
                r#"{"error":{"message":"Unknown parameter: 'verbosity'.","param":"verbosity"}}"#,
                Some(("verbosity", false)),
            ),
            (
                r#"{"error":{"code":400,"message":"Invalid JSON payload received. Unknown name \"seed\""}}"#,
                Some(("seed", false)),
            ),
            (
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"top_k: Extra inputs are not permitted"}}"#,
                Some(("top_k", false)),
            ),
            (
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"`temperature` is deprecated for this model."}}"#,
                Some(("temperature", false)),
            ),
            (
                r#"{"detail":[{"type":"extra_forbidden","loc":["body","logit_bias"],"msg":"Extra inputs are not permitted","input":{"seed":1}}]}"#,
                Some(("logit_bias", false)),
            ),
            // Within another member, of two members, of a value that another one of its kind would be taken for, or of nothing.
            (
                r#"{"detail":[{"type":"extra_forbidden","loc":["body","messages",0,"user","seed"],"msg":"Extra inputs"}]}"#,
                Some(("", false)),
            ),
            (
                r#"{"error":{"message":"Function tools with reasoning_effort are not supported for this model: unsupported_value"}}"#,
                None,
            ),
            (r#"{"error":{"message":"'temperature' must be 1: 'top_p' is an unknown parameter"}}"#, None),
            (r#"{"error":{"message":"'n' must be at most 8","param":"n"}}"#, None),
            (r#"{"error":{"message":"max_tokens: 200000 > 128000"}}"#, None),
            ("unsupported", None),
            ("", None),
        ] {
            let found = refused_member(complaint.as_bytes());
            let found = found.as_ref().map(|refused| (refused.name.as_str(), refused.by_value));
            assert_eq!(found, expected, "{complaint}");
        }
    }
}
