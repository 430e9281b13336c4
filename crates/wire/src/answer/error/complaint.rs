//! Detects a 4xx body that complains about something the request can omit. Reads only the message and the location
//! members: some vendors quote the whole request (`input`), which contains the words in any case.

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
