//! Detects a 4xx body that complains about something the request can omit. Reads only the message and the location
//! members: some vendors quote the whole request (`input`), which contains the words in any case.

use std::cell::RefCell;

use serde_json::Value;

use super::MESSAGE_MAX;

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

/// Phrases with which vendors refuse a member that they do not take, or not with this model; lower case.
const REFUSALS: [&str; 12] = [
    "not supported",
    "unsupported",
    "does not support",
    "not permitted",
    "not allowed",
    "not available",
    "unknown parameter",
    "unknown field",
    "unrecognized",
    "unexpected keyword",
    "deprecated",
    "extra_forbidden",
];

/// Names that are read from one refusal.
const NAMED_MAX: usize = 16;

/// What a refused request's member may be called, by a 4xx body that says that it is not taken: the names that stand where
/// vendors put them, then all that are quoted. None of them need be a member.
pub fn refused_names(body: &[u8]) -> Vec<String> {
    let says_so = |text: &str| {
        let text = text.to_lowercase();
        REFUSALS.iter().any(|phrase| text.contains(phrase))
    };
    if !complains(body, &says_so) {
        return Vec::new();
    }
    let names = RefCell::new(Vec::new());
    complains(body, &|text| {
        let mut names = names.borrow_mut();
        let quoted = text.split(['`', '\'', '"']).skip(1).step_by(2);
        // `temperature`, and `temperature: Extra inputs are not permitted`.
        let words = text.split(':').next().into_iter().chain(quoted);
        names.extend(words.map(str::trim).filter(|word| is_name(word)).map(str::to_owned).take(NAMED_MAX));
        false
    });
    let mut names = names.into_inner();
    names.truncate(NAMED_MAX);
    names
}

fn is_name(word: &str) -> bool {
    (1..=64).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
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

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_refusal_names_the_member_that_is_not_taken() {
        for (complaint, name) in [
            (
                r#"{"error":{"message":"Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.","type":"invalid_request_error","param":"temperature","code":"unsupported_value"}}"#,
                "temperature",
            ),
            (
                r#"{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","param":"max_tokens","code":"unsupported_parameter"}}"#,
                "max_tokens",
            ),
            (r#"{"error":{"message":"Unrecognized request argument supplied: seed","param":null}}"#, ""),
            (r#"{"error":{"message":"Unknown parameter: 'verbosity'.","param":"verbosity"}}"#, "verbosity"),
            (
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"top_k: Extra inputs are not permitted"}}"#,
                "top_k",
            ),
            (
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"`temperature` is deprecated for this model."}}"#,
                "temperature",
            ),
            (
                r#"{"detail":[{"type":"extra_forbidden","loc":["body","logit_bias"],"msg":"Extra inputs are not permitted","input":{"seed":1}}]}"#,
                "logit_bias",
            ),
            (r#"{"error":{"message":"'n' must be at most 8","param":"n"}}"#, ""),
            ("unsupported", ""),
            ("", ""),
        ] {
            let names = refused_names(complaint.as_bytes());
            let has = names.iter().any(|found| found == name);
            assert!(
                if name.is_empty() { !names.iter().any(|found| found == "seed" || found == "n") } else { has },
                "{complaint}: {names:?}"
            );
        }
    }
}
