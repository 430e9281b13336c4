//! What an error body or an error frame names: one reading for a status 4xx or 5xx and for an error inside a 200.
//!
//! Vendors share no error format, only habits: an `error` object or text, FastAPI's `detail`, a bare `message`. Not for
//! what a failure means to the race: that is `race::verdict`.

use serde_json::Value;

use crate::failure::FailureKind;

/// The longest message that is kept.
const MESSAGE_MAX: usize = 2_000;

/// What could be read of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorFacts {
    pub kind: FailureKind,
    /// The status that the frame itself names (`code: 429`), else the one that was given.
    pub status: Option<u16>,
    /// What it says; at most 2,000 bytes. May quote the prompt.
    pub message: String,
}

/// Reads an error body that came with `status`.
pub fn of_body(status: u16, body: &[u8]) -> ErrorFacts {
    let (words, message) = read(body);
    let kind = match status {
        // Nothing is followed: an address that redirects is no answer.
        100..=399 => FailureKind::Protocol,
        401 => FailureKind::Unauthorized,
        // Some vendors refuse a prompt with the status of a key without rights: that is held against nobody.
        403 if refuses_content(&words, &message) => FailureKind::ContentPolicy,
        402 | 403 => FailureKind::Forbidden,
        404 if misses_something_else(&words, &message) => FailureKind::BadRequest,
        404 => FailureKind::NotFound,
        408 | 504 => FailureKind::ServerError,
        413 => FailureKind::TooLarge,
        429 => FailureKind::RateLimited,
        498 | 503 | 529 => FailureKind::Overloaded,
        500..=599 => FailureKind::ServerError,
        _ => of_words(&words, &message).filter(|kind| is_about_the_request(*kind)).unwrap_or(FailureKind::BadRequest),
    };
    ErrorFacts { kind, status: Some(status), message: or_status(message, status) }
}

/// Reads an error frame, or an error body, that came with a 200.
pub fn of_frame(data: &[u8]) -> ErrorFacts {
    let (words, message) = read(data);
    let status = words.iter().find_map(|word| word.parse::<u16>().ok()).filter(|status| (400..600).contains(status));
    let by_words = of_words(&words, &message);
    let kind = match (status, by_words) {
        (_, Some(kind)) => kind,
        (Some(status), None) => of_body(status, b"").kind,
        (None, None) => FailureKind::InStreamError,
    };
    ErrorFacts { kind, status, message }
}

/// True if a 4xx body complains about `stream_options` or `include_usage`. Only what the vendor says and where it points
/// counts: some quote the whole request (`input`), which has the word in it whatever is wrong with it.
pub fn rejects_stream_options(body: &[u8]) -> bool {
    match serde_json::from_slice::<Value>(body) {
        Ok(value) => complains_of_stream_options(&value),
        Err(_) => names_stream_options(&String::from_utf8_lossy(&body[..body.len().min(MESSAGE_MAX)])),
    }
}

/// Members in which vendors say what is wrong, and where.
const COMPLAINTS: [&str; 10] =
    ["error", "errors", "message", "msg", "detail", "details", "loc", "param", "description", "reason"];

fn complains_of_stream_options(value: &Value) -> bool {
    match value {
        Value::String(text) => names_stream_options(text),
        Value::Array(values) => values.iter().any(complains_of_stream_options),
        Value::Object(members) => members
            .iter()
            .any(|(name, value)| COMPLAINTS.contains(&name.as_str()) && complains_of_stream_options(value)),
        _ => false,
    }
}

fn names_stream_options(text: &str) -> bool {
    text.contains("stream_options") || text.contains("include_usage")
}

/// The words that classify (type, code, status), lower case, and the message.
fn read(body: &[u8]) -> (Vec<String>, String) {
    let Ok(value) = serde_json::from_slice::<Value>(body) else {
        return (Vec::new(), shorten(&String::from_utf8_lossy(&body[..body.len().min(MESSAGE_MAX)])));
    };
    // Some vendors wrap the object in a list.
    let value = value.get(0).cloned().unwrap_or(value);
    let wrapped = value.get("x_groq").and_then(|groq| groq.get("error"));
    let error = value.get("error").filter(|error| !error.is_null()).or(wrapped).unwrap_or(&value);
    let mut words: Vec<String> = ["type", "code", "status", "status_code", "error_type"]
        .iter()
        .filter_map(|key| error.get(key))
        .map(|word| word.as_str().map_or_else(|| word.to_string(), str::to_lowercase))
        .collect();
    let base = value.get("base_resp");
    if let Some(code) = base.and_then(|base| base.get("status_code")).and_then(Value::as_i64) {
        words.push(minimax_word(code).to_owned());
    }
    let candidates = [
        error.get("message"),
        error.get("detail"),
        value.get("detail"),
        value.get("message"),
        base.and_then(|b| b.get("status_msg")),
    ];
    let message = match (error, candidates.into_iter().flatten().find(|message| !message.is_null())) {
        (Value::String(text), _) => text.clone(),
        (_, Some(Value::String(text))) => text.clone(),
        (_, Some(other)) => other.to_string(),
        (_, None) => error.to_string(),
    };
    (words, shorten(&message))
}

/// MiniMax answers 200 with a code of its own (`base_resp.status_code`).
fn minimax_word(code: i64) -> &'static str {
    match code {
        1002 | 1039 => "rate_limit_exceeded",
        1004 | 2049 => "invalid_api_key",
        1008 => "insufficient_quota",
        1026 | 1027 => "content_filter",
        2013 => "invalid_request_error",
        _ => "server_error",
    }
}

/// The kind that the vendor's own words name.
fn of_words(words: &[String], message: &str) -> Option<FailureKind> {
    let message = message.to_lowercase();
    let word = |needles: &[&str]| words.iter().any(|word| needles.iter().any(|needle| word.contains(needle)));
    let says = |needles: &[&str]| needles.iter().any(|needle| message.contains(needle));
    let context = [
        "context length",
        "context window",
        "context size",
        "maximum context",
        "prompt is too long",
        "too many tokens",
        "input is too long",
    ];
    if word(&["context_length", "exceed_context", "context_window"]) || says(&context) {
        Some(FailureKind::ContextLength)
    } else if refuses_content(words, &message) {
        Some(FailureKind::ContentPolicy)
    } else if word(&["rate_limit", "too_many_requests", "resource_exhausted", "insufficient_quota"]) {
        Some(FailureKind::RateLimited)
    } else if word(&["overloaded", "unavailable", "capacity", "insufficient_system_resource"]) || says(&["overloaded"])
    {
        Some(FailureKind::Overloaded)
    } else if word(&["invalid_api_key", "authentication", "unauthorized"]) {
        Some(FailureKind::Unauthorized)
    } else if word(&["permission"]) {
        Some(FailureKind::Forbidden)
    } else if word(&["not_found"]) {
        Some(FailureKind::NotFound)
    } else if word(&["invalid_request", "bad_request", "badrequest", "tool_use_failed", "invalid_argument"]) {
        Some(FailureKind::BadRequest)
    } else if word(&["server_error", "internal", "api_error"]) {
        Some(FailureKind::ServerError)
    } else {
        None
    }
}

/// True if a vendor will not serve the prompt, whoever sends it.
fn refuses_content(words: &[String], message: &str) -> bool {
    let message = message.to_lowercase();
    let named = ["content_filter", "content_policy", "responsibleai", "moderation"];
    // Not "flagged" alone: an account may be that too.
    let said = [
        "content management policy",
        "content policy",
        "flagged by moderation",
        "safety policy",
        "requires moderation",
        "input was flagged",
        "prompt was flagged",
        "content was flagged",
        "violates usage guidelines",
    ];
    words.iter().any(|word| named.iter().any(|name| word.contains(name)))
        || said.iter().any(|phrase| message.contains(phrase))
}

/// True for a 404 that is about what the request asks for beside the model, so that the upstream serves other requests
/// well. Without such words it is the model, or the whole path, that is not there.
fn misses_something_else(words: &[String], message: &str) -> bool {
    let message = message.to_lowercase();
    let said = [
        "endpoints found that",
        "requested parameters",
        "support tool",
        "support image",
        "support audio",
        "item with id",
        "file with id",
        "file not found",
        "no such file",
    ];
    !words.iter().any(|word| word.contains("model_not_found")) && said.iter().any(|phrase| message.contains(phrase))
}

/// A plain 4xx is about the request, whatever else its words say.
fn is_about_the_request(kind: FailureKind) -> bool {
    matches!(kind, FailureKind::ContextLength | FailureKind::ContentPolicy | FailureKind::BadRequest)
}

fn or_status(message: String, status: u16) -> String {
    if message.is_empty() { format!("HTTP status {status} without a message") } else { message }
}

fn shorten(text: &str) -> String {
    let end = text.floor_char_boundary(MESSAGE_MAX);
    text[..end].trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use FailureKind::*;

    #[test]
    fn bodies_are_classified_by_status_and_then_by_their_words() {
        let table: &[(u16, &str, FailureKind, &str)] = &[
            (
                400,
                r#"{"error":{"message":"Unknown parameter: 'foo'","type":"invalid_request_error"}}"#,
                BadRequest,
                "Unknown parameter: 'foo'",
            ),
            (400, r#"{"error":{"message":"x","code":"context_length_exceeded"}}"#, ContextLength, "x"),
            (
                400,
                r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}"#,
                ContextLength,
                "the request exceeds the available context size",
            ),
            (400, r#"{"error":{"message":"filtered","code":"content_filter"}}"#, ContentPolicy, "filtered"),
            (422, r#"{"detail":"bad field"}"#, BadRequest, "bad field"),
            (422, r#"{"detail":[{"loc":["body"],"msg":"extra"}]}"#, BadRequest, r#"[{"loc":["body"],"msg":"extra"}]"#),
            (401, r#"{"error":"no"}"#, Unauthorized, "no"),
            (307, "", Protocol, "HTTP status 307 without a message"),
            (403, "", Forbidden, "HTTP status 403 without a message"),
            (
                403,
                r#"{"error":{"code":403,"message":"Your chosen model requires moderation and your input was flagged","metadata":{"flagged_input":"x"}}}"#,
                ContentPolicy,
                "Your chosen model requires moderation and your input was flagged",
            ),
            (403, r#"{"error":{"message":"no","type":"content_policy_violation"}}"#, ContentPolicy, "no"),
            (403, r#"{"error":"Your account was flagged"}"#, Forbidden, "Your account was flagged"),
            (404, r#"{"message":"model gone"}"#, NotFound, "model gone"),
            (404, "<html>nothing here</html>", NotFound, "<html>nothing here</html>"),
            (
                404,
                r#"{"error":{"message":"No endpoints found that support tool use.","code":404}}"#,
                BadRequest,
                "No endpoints found that support tool use.",
            ),
            (
                404,
                r#"{"error":{"message":"No endpoints found for a/b.","code":404}}"#,
                NotFound,
                "No endpoints found for a/b.",
            ),
            (
                404,
                r#"{"error":{"message":"This is not a chat model and thus not supported in the v1/chat/completions endpoint."}}"#,
                NotFound,
                "This is not a chat model and thus not supported in the v1/chat/completions endpoint.",
            ),
            (413, "", TooLarge, "HTTP status 413 without a message"),
            (429, r#"[{"error":{"message":"slow down","status":"RESOURCE_EXHAUSTED"}}]"#, RateLimited, "slow down"),
            (498, "", Overloaded, "HTTP status 498 without a message"),
            (
                529,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                Overloaded,
                "Overloaded",
            ),
            (502, "<html>bad gateway</html>", ServerError, "<html>bad gateway</html>"),
            (418, r#"{"error":{"message":"teapot","type":"rate_limit"}}"#, BadRequest, "teapot"),
        ];
        for (status, body, kind, message) in table {
            let facts = of_body(*status, body.as_bytes());
            assert_eq!((facts.kind, facts.message.as_str()), (*kind, *message), "{status} {body}");
        }
    }

    #[test]
    fn frames_name_their_own_error() {
        let table: &[(&str, FailureKind, Option<u16>)] = &[
            (r#"{"error":{"message":"boom"}}"#, InStreamError, None),
            (r#"{"error":{"code":429,"message":"slow"}}"#, RateLimited, Some(429)),
            (r#"{"error":{"code":502,"message":"upstream"},"choices":[]}"#, ServerError, Some(502)),
            (r#"{"error":{"message":"Overloaded","type":"overloaded_error"}}"#, Overloaded, None),
            (
                r#"{"error":{"message":"Tool call validation failed","type":"invalid_request_error","code":"tool_use_failed","status_code":400}}"#,
                BadRequest,
                Some(400),
            ),
            (r#"{"x_groq":{"error":"over capacity"}}"#, InStreamError, None),
            (r#"{"base_resp":{"status_code":1002,"status_msg":"rate limit"}}"#, RateLimited, None),
            (r#"{"object":"error","message":"x","code":400}"#, BadRequest, Some(400)),
            (r#"{"error":"plain"}"#, InStreamError, None),
        ];
        for (frame, kind, status) in table {
            let facts = of_frame(frame.as_bytes());
            assert_eq!((facts.kind, facts.status), (*kind, *status), "{frame}");
        }
    }

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        let body = format!(r#"{{"error":"{}"}}"#, "é".repeat(3_000));
        assert!(of_body(400, body.as_bytes()).message.len() <= MESSAGE_MAX);
    }

    #[test]
    fn a_complaint_about_stream_options_is_recognised() {
        assert!(rejects_stream_options(br#"{"detail":[{"loc":["body","stream_options"],"msg":"Extra inputs"}]}"#));
        for complaint in [
            r#"{"error":{"message":"Unknown parameter","param":"stream_options.include_usage"}}"#,
            r#"{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"]}]}}"#,
            r#"[{"error":{"message":"stream_options is not allowed"}}]"#,
            "unknown field `stream_options`",
        ] {
            assert!(rejects_stream_options(complaint.as_bytes()), "{complaint}");
        }
        for other in [
            r#"{"error":"unknown parameter temperature"}"#,
            r#"{"detail":[{"loc":["body","temperature"],"msg":"too hot","input":{"stream_options":{"include_usage":true}}}]}"#,
            r#"{"error":{"message":"too hot","request":"{\"stream_options\":{}}"}}"#,
        ] {
            assert!(!rejects_stream_options(other.as_bytes()), "{other}");
        }
    }
}
