//! Reads the cause of an error from an error body or an error frame: the same for status 4xx or 5xx and for an error
//! inside a 200 response.
//!
//! Vendors share no error format, only habits: an `error` object or text, FastAPI's `detail`, a bare `message`. Not for
//! the effect of a failure on the race: see `race::verdict`.

mod blame;
mod complaint;
mod limited;
mod page;
mod refused_member;
mod window;
mod words;

use http::{HeaderMap, StatusCode};
use serde_json::Value;

use blame::{RefusalSubject, blame, lacks_rights, refuses_account};
pub use complaint::{rejects_reasoning, rejects_stream, rejects_stream_options};
use limited::limits_account;
pub use refused_member::{RefusedMember, refused_member};
pub use window::{ContextOverflow, too_long};
use words::has_word;

use super::reset::{self, DETAILS_MAX, Reset};
use crate::dialects::bedrock::kind_of_exception;
use photofinish_base::failure::FailureKind;

/// Maximum bytes of a kept message.
const MESSAGE_MAX: usize = 2_000;

/// The facts in an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorFacts {
    pub kind: FailureKind,
    /// For a refused key, model or account: the error's words prove that the request is not the cause.
    pub certain: bool,
    /// For a rate limit: the error's words state that it applies to the whole account, not only to this model.
    pub whole_account: bool,
    /// The status that the frame itself names (`code: 429`), else the response's.
    pub status: Option<u16>,
    /// The message, at most 2,000 bytes. May quote the prompt.
    pub message: String,
    /// For a rate limit or an overload: when the provider says that it ends.
    pub reset: Option<Reset>,
}

/// Reads an error body that came with `status`.
pub fn of_body(status: u16, body: &[u8]) -> ErrorFacts {
    of_answer(status, &HeaderMap::new(), body)
}

/// Reads an error answer. AWS names the error in a header.
pub fn of_answer(status: u16, headers: &HeaderMap, body: &[u8]) -> ErrorFacts {
    let (mut words, message, reset) = read(body);
    words.extend(headers.get("x-amzn-errortype").and_then(|name| name.to_str().ok()).map(str::to_lowercase));
    let kind =
        of_exception(&words, &message).filter(|_| (400..600).contains(&status)).unwrap_or_else(|| match status {
            // The gateway follows no redirects. Numbers from 600 on are not statuses.
            ..=399 | 600.. => FailureKind::Protocol,
            401 if lacks_rights(&message) => FailureKind::Forbidden,
            401 => FailureKind::Unauthorized,
            // Google's code for a wrong key.
            400 if has_word(&words, &["api_key_invalid"]) => FailureKind::Unauthorized,
            400 if refuses_account(&words, &message) => FailureKind::Forbidden,
            // Some vendors refuse a prompt with 403. No upstream is blamed for that.
            403 if refuses_content(&words, &message) => FailureKind::ContentPolicy,
            402 | 403 => FailureKind::Forbidden,
            // The provider does not offer the called API, such as embeddings.
            404 | 501 => FailureKind::NotFound,
            408 | 504 => FailureKind::ServerError,
            413 => FailureKind::TooLarge,
            // One request exceeds the limit of a minute. Waiting does not help it, and other requests need not wait.
            429 if message.to_lowercase().starts_with("request too large") => FailureKind::TooLarge,
            429 => FailureKind::RateLimited,
            498 | 503 | 529 => FailureKind::Overloaded,
            500..=599 => FailureKind::ServerError,
            _ => {
                of_words(&words, &message).filter(|kind| is_about_the_request(*kind)).unwrap_or(FailureKind::BadRequest)
            }
        });
    let (kind, certain) = blamed(kind, &words, &message);
    let whole_account = kind == FailureKind::RateLimited && limits_account(&words, &message);
    let message = page::page(&message, Some(status), headers).unwrap_or_else(|| or_status(message, status));
    ErrorFacts { kind, certain, whole_account, status: Some(status), message, reset: reset_for(kind, reset) }
}

/// The end of a limit is of interest where waiting helps.
fn reset_for(kind: FailureKind, reset: Option<Reset>) -> Option<Reset> {
    reset.filter(|_| matches!(kind, FailureKind::RateLimited | FailureKind::Overloaded))
}

/// Decides whether a refusal is about the request or about the upstream and its key, and whether that is certain.
fn blamed(kind: FailureKind, words: &[String], message: &str) -> (FailureKind, bool) {
    match kind {
        FailureKind::Forbidden | FailureKind::NotFound => match blame(words, message) {
            RefusalSubject::Upstream => (kind, true),
            RefusalSubject::Request => (FailureKind::BadRequest, false),
            RefusalSubject::Unknown => (kind, false),
        },
        kind => (kind, kind == FailureKind::Unauthorized),
    }
}

/// Reads an error frame or an error body with status 200.
pub fn of_frame(data: &[u8]) -> ErrorFacts {
    let (words, message, reset) = read(data);
    let status = words.iter().find_map(|word| word.parse::<u16>().ok()).filter(|status| (400..600).contains(status));
    let status = status.or_else(|| status_of_phrase(&message).filter(|_| words.is_empty()));
    let is_page = data.trim_ascii_start().starts_with(b"<");
    let by_words = of_exception(&words, &message).or_else(|| of_words(&words, &message)).filter(|_| !is_page);
    let kind = match (status, by_words) {
        (None, None) if is_page => FailureKind::Malformed,
        (_, Some(kind)) => kind,
        (Some(status), None) => of_body(status, b"").kind,
        (None, None) => FailureKind::InStreamError,
    };
    let (kind, certain) = blamed(kind, &words, &message);
    let whole_account = kind == FailureKind::RateLimited && limits_account(&words, &message);
    let message = page::page(&message, status, &HeaderMap::new()).unwrap_or(message);
    ErrorFacts { kind, certain, whole_account, status, message, reset: reset_for(kind, reset) }
}

/// Reads the end of an answer that broke off with this finish reason. `data`: its event, which may have more words about
/// the end, but may have a part of the answer too.
pub fn of_end(reason: &str, data: &[u8]) -> ErrorFacts {
    let event = serde_json::from_slice::<Value>(data).unwrap_or_default();
    let message = failed_end(&event).unwrap_or_else(|| ended_with(reason, ""));
    let kind = of_words(&[reason.to_lowercase()], "").unwrap_or(FailureKind::InStreamError);
    ErrorFacts { kind, certain: false, whole_account: false, status: None, message: shorten(&message), reset: None }
}

/// The status whose standard words the message is, with or without its number before them.
fn status_of_phrase(message: &str) -> Option<u16> {
    let words = message.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    let is_phrase =
        |status: &StatusCode| status.canonical_reason().is_some_and(|phrase| phrase.eq_ignore_ascii_case(words));
    (400..600).filter_map(|status| StatusCode::from_u16(status).ok()).find(is_phrase).map(|status| status.as_u16())
}

/// The words that classify an error (type, code, status), in lower case, its message, and when it ends.
fn read(body: &[u8]) -> (Vec<String>, String, Option<Reset>) {
    let Ok(value) = serde_json::from_slice::<Value>(body) else {
        let message = shorten(&String::from_utf8_lossy(&body[..body.len().min(MESSAGE_MAX)]));
        let reset = reset::reset(&Value::Null, &Value::Null, &message);
        return (Vec::new(), message, reset);
    };
    // Some vendors wrap the object in a list.
    let value = value.get(0).cloned().unwrap_or(value);
    let wrapped = value.get("x_groq").and_then(|groq| groq.get("error"));
    // `response.failed` has the error in the response.
    let failed = value.get("response").and_then(|response| response.get("error")).filter(|error| !error.is_null());
    let error = value.get("error").filter(|error| !error.is_null()).or(wrapped).or(failed);
    let listed = || value.get("errors").and_then(|errors| errors.get(0)).filter(|error| error.is_object());
    let error = error.or_else(|| error_of_choice(&value)).or_else(listed).unwrap_or(&value);
    // Beside an error that is only a text, they stand outside.
    let named = if error.is_string() { &value } else { error };
    let mut words: Vec<String> = WORDS
        .iter()
        .filter_map(|key| named.get(key))
        .map(|word| word.as_str().map_or_else(|| word.to_string(), str::to_lowercase))
        .collect();
    let reasons = error.get("details").and_then(Value::as_array).into_iter().flatten().take(DETAILS_MAX);
    words.extend(reasons.filter_map(|detail| detail.get("reason")?.as_str()).map(str::to_lowercase));
    if let Some(reason) = blocked_prompt(&value) {
        return (vec!["content_filter".to_owned()], shorten(&format!("the prompt was blocked: {reason}")), None);
    }
    let base = value.get("base_resp");
    if let Some(code) = base.and_then(|base| base.get("status_code")).and_then(Value::as_i64) {
        words.push(minimax_word(code).to_owned());
    }
    let candidates = MESSAGES.iter().flat_map(|name| [error.get(name), value.get(name)]);
    let candidates = candidates.chain([base.and_then(|b| b.get("status_msg"))]);
    let message = match (error, candidates.flatten().find(|message| !message.is_null())) {
        (Value::String(text), _) => text.clone(),
        (_, Some(Value::String(text))) => text.clone(),
        (_, Some(other)) => other.to_string(),
        (_, None) => failed_end(&value).unwrap_or_else(|| error.to_string()),
    };
    let reset = reset::reset(&value, error, &message);
    (words, shorten(&message), reset)
}

/// Members whose values classify an error.
const WORDS: [&str; 10] = [
    "type",
    "code",
    "status",
    "status_code",
    "statusCode",
    "error_type",
    "errorType",
    "error_code",
    "errorCode",
    "__type",
];
/// Members with its message, the most usual first.
const MESSAGES: [&str; 7] = ["message", "detail", "Message", "msg", "error_msg", "error_message", "errorMessage"];

/// OpenRouter puts the error of one choice into that choice.
fn error_of_choice(value: &Value) -> Option<&Value> {
    let choices = value.get("choices")?.as_array()?;
    choices.iter().take(DETAILS_MAX).find_map(|choice| choice.get("error").filter(|error| error.is_object()))
}

/// Describes an answer that failed by its finish reason alone.
fn failed_end(value: &Value) -> Option<String> {
    let answers = value.get("choices").or(value.get("candidates"))?.as_array()?;
    answers.iter().take(DETAILS_MAX).find_map(|answer| {
        let reason = answer.get("finish_reason").or(answer.get("finishReason")).filter(|reason| !reason.is_null())?;
        let reason = reason.as_str().map_or_else(|| reason.to_string(), str::to_owned);
        let more = answer.get("finishMessage").and_then(Value::as_str).map(|more| format!(": {more}"));
        Some(ended_with(&reason, &more.unwrap_or_default()))
    })
}

fn ended_with(reason: &str, more: &str) -> String {
    format!("the answer ended with `{reason}`{more}")
}

/// Why Gemini refuses a prompt. The reason is in a 200 response without an error.
fn blocked_prompt(value: &Value) -> Option<&str> {
    value.get("promptFeedback")?.get("blockReason")?.as_str()
}

/// MiniMax responds 200 with its own code (`base_resp.status_code`).
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

/// The kind of an AWS exception. Most request errors share one exception, so the message decides.
fn of_exception(words: &[String], message: &str) -> Option<FailureKind> {
    match words.iter().find_map(|word| kind_of_exception(word))? {
        FailureKind::BadRequest => {
            of_words(&[], message).filter(|kind| is_about_the_request(*kind)).or(Some(FailureKind::BadRequest))
        }
        kind => Some(kind),
    }
}

/// The signs of an error: the kind, words of its type, code and status, and phrases of its message; all in lower case.
type KindSigns = (FailureKind, &'static [&'static str], &'static [&'static str]);

/// The first kind that fits counts.
const KINDS: [KindSigns; 11] = [
    (
        FailureKind::ContextLength,
        &["context_length", "exceed_context", "context_window"],
        &[
            "context length",
            "context window",
            "context size",
            "maximum context",
            "prompt is too long",
            "too many tokens",
            "input is too long",
            "exceeds the maximum number of tokens",
        ],
    ),
    (FailureKind::ContentPolicy, &CONTENT_WORDS, &CONTENT_PHRASES),
    (
        FailureKind::RateLimited,
        &[
            "rate_limit",
            "too_many_requests",
            "resource_exhausted",
            "insufficient_quota",
            "quota_exceeded",
            "usage_limit",
            "limit_requests",
            "throttl",
        ],
        &["rate limit exceeded", "rate limit reached", "rate-limited", "too many requests", "usage limit reached"],
    ),
    (
        FailureKind::Overloaded,
        &["overloaded", "unavailable", "capacity", "insufficient_system_resource"],
        &[
            "overloaded",
            "no healthy upstream",
            "upstream connect error",
            "temporarily unavailable",
            "capacity temporarily exceeded",
        ],
    ),
    (
        FailureKind::Unauthorized,
        &["invalid_api_key", "api_key_invalid", "authentication", "unauthorized", "unauthenticated"],
        &["invalid api key", "incorrect api key", "authentication error", "not authenticated"],
    ),
    (FailureKind::Forbidden, &["permission", "billing_error", "access_denied", "arrearage"], &[]),
    // The Responses API's codes for a prompt or an image that it cannot use, such as `image_file_not_found`.
    (FailureKind::BadRequest, &["invalid_prompt", "image_", "_image"], &[]),
    (FailureKind::NotFound, &["not_found"], &[]),
    (
        FailureKind::BadRequest,
        &["invalid_request", "bad_request", "tool_use_failed", "invalid_argument", "invalid_parameter"],
        &[],
    ),
    (FailureKind::TooLarge, &["request_too_large"], &[]),
    (
        FailureKind::ServerError,
        &["server_error", "internal", "api_error", "timeout_error", "request_time_out"],
        &["internal server error", "bad gateway", "gateway timeout"],
    ),
];
const CONTENT_WORDS: [&str; 5] = ["content_filter", "content_policy", "responsibleai", "moderation", "data_inspection"];
/// Not "flagged" alone: an account may be flagged too.
const CONTENT_PHRASES: [&str; 9] = [
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

/// The kind that the vendor's words name.
fn of_words(words: &[String], message: &str) -> Option<FailureKind> {
    let message = message.to_lowercase();
    let fits =
        |(_, named, said): &&KindSigns| has_word(words, named) || said.iter().any(|phrase| message.contains(phrase));
    KINDS.iter().find(fits).map(|(kind, _, _)| *kind)
}

/// True if the vendor refuses the prompt itself, not its sender.
fn refuses_content(words: &[String], message: &str) -> bool {
    let message = message.to_lowercase();
    has_word(words, &CONTENT_WORDS) || CONTENT_PHRASES.iter().any(|phrase| message.contains(phrase))
}

/// A plain 4xx is about the request, whatever its other words are.
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
mod resets;

#[cfg(test)]
mod shapes;

#[cfg(test)]
mod tests;
