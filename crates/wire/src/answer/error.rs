//! Reads the cause of an error from an error body or an error frame: the same for status 4xx or 5xx and for an error
//! inside a 200 response.
//!
//! Vendors share no error format, only habits: an `error` object or text, FastAPI's `detail`, a bare `message`. Not for
//! the effect of a failure on the race: see `photofinish_routing::verdict`.

mod complaint;

use http::header::SERVER;
use http::{HeaderMap, StatusCode};
use serde_json::Value;

pub use complaint::{RefusalWords, rejects_stream, rejects_stream_options};

use crate::answer::reset::{self, DETAILS_MAX, Reset};
use crate::dialect::{Dialect, Surface};
use photofinish_base::failure::FailureKind;
use photofinish_base::printable::printable;

/// Maximum bytes of a kept message.
const MESSAGE_MAX: usize = 2_000;

/// Maximum bytes of a code in [`in_short`], and the most codes.
const CODE_MAX: usize = 40;
const CODES_MAX: usize = 2;

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

/// The status and the codes of a refusal, without its message, which may quote the prompt: "400 invalid_request_error".
pub fn in_short(status: u16, body: &[u8]) -> String {
    let (words, ..) = read(body);
    let is_code = |word: &&String| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        word.len() <= CODE_MAX && word.bytes().all(is_part) && word.bytes().any(|byte| byte.is_ascii_alphabetic())
    };
    let mut text = status.to_string();
    words.iter().filter(is_code).take(CODES_MAX).for_each(|word| {
        text.push(' ');
        text.push_str(word);
    });
    text
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
            // llama.cpp and others count with 500 too.
            413 | 500 if of_words(&words, &message) == Some(FailureKind::ContextLength) => FailureKind::ContextLength,
            413 => FailureKind::TooLarge,
            // The account has no money: no waiting ends that.
            429 if lacks_money(&words, &message) => FailureKind::Forbidden,
            // One request exceeds the limit of a minute. Waiting does not help it, and other requests need not wait.
            429 if message.to_lowercase().starts_with("request too large") => FailureKind::TooLarge,
            429 => FailureKind::RateLimited,
            498 | 503 | 529 => FailureKind::Overloaded,
            500 if refuses_request(&message) => FailureKind::BadRequest,
            500..=599 => FailureKind::ServerError,
            _ => {
                of_words(&words, &message).filter(|kind| is_about_the_request(*kind)).unwrap_or(FailureKind::BadRequest)
            }
        });
    let mut facts = facts(kind, &words, message, Some(status), headers, reset);
    if facts.message.is_empty() {
        facts.message = format!("HTTP status {status} without a message");
    }
    facts
}

fn facts(
    kind: FailureKind,
    words: &[String],
    message: String,
    status: Option<u16>,
    headers: &HeaderMap,
    reset: Option<Reset>,
) -> ErrorFacts {
    let (kind, certain) = blamed(kind, words, &message);
    let whole_account = kind == FailureKind::RateLimited && limits_account(words, &message);
    let message = page(&message, status, headers).unwrap_or(message);
    // The end of a limit is of interest where waiting helps.
    let reset = reset.filter(|_| matches!(kind, FailureKind::RateLimited | FailureKind::Overloaded));
    ErrorFacts { kind, certain, whole_account, status, message, reset }
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
    facts(kind, &words, message, status, &HeaderMap::new(), reset)
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
    // If the error is only a text, they are outside of it.
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

/// The kind of an exception. `name` is in lower case and may have a namespace before it (`com.amazon#`) and an address
/// after it (`:http://`).
pub fn kind_of_exception(name: &str) -> Option<FailureKind> {
    let name = name.rsplit('#').next().unwrap_or(name);
    let name = name.split(':').next().unwrap_or(name);
    Some(match name.trim() {
        "throttlingexception"
        | "toomanyrequestsexception"
        | "limitexceededexception"
        | "servicequotaexceededexception" => FailureKind::RateLimited,
        "serviceunavailableexception" | "modelnotreadyexception" => FailureKind::Overloaded,
        "internalserverexception"
        | "internalfailureexception"
        | "modelstreamerrorexception"
        | "modelerrorexception"
        | "modeltimeoutexception" => FailureKind::ServerError,
        "accessdeniedexception" => FailureKind::Forbidden,
        "unrecognizedclientexception"
        | "expiredtokenexception"
        | "invalidsignatureexception"
        | "incompletesignatureexception"
        | "missingauthenticationtokenexception" => FailureKind::Unauthorized,
        "resourcenotfoundexception" => FailureKind::NotFound,
        "validationexception" | "serializationexception" => FailureKind::BadRequest,
        _ => return None,
    })
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

fn shorten(text: &str) -> String {
    let end = text.floor_char_boundary(MESSAGE_MAX);
    text[..end].trim().to_owned()
}

// The words of an error that classify it: type, code and status, in lower case.

/// Whether one of `needles` occurs in one of the words. Vendors write `rate_limit`, `rate-limit` and `RateLimit`.
pub fn has_word(words: &[String], needles: &[&str]) -> bool {
    words.iter().any(|word| {
        let letters = letters_of(word);
        // `image_` is not the same as `image`.
        let alike = |needle: &str| needle.trim_matches('_') == needle && letters.contains(&letters_of(needle));
        needles.iter().any(|needle| word.contains(needle) || alike(needle))
    })
}

fn letters_of(word: &str) -> String {
    word.chars().filter(|c| c.is_alphanumeric()).collect()
}

// Decides the cause of a refusal: the model, key or account (for every request), or this one request. Uses known words
// of vendors; with other words the cause is unknown.
//
// Not for the consequences: see `photofinish_routing::verdict`.

/// The subject of a refusal (402, 403, 404).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalSubject {
    /// The upstream or its key: every request would be refused.
    Upstream,
    /// Something that this request asks for.
    Request,
    /// The words do not show it.
    Unknown,
}

/// Codes that no request can cause.
const UPSTREAM_WORDS: [&str; 9] = [
    "model_not_found",
    "model_not_available",
    "model_deprecated",
    "model_decommissioned",
    "insufficient_quota",
    "billing",
    "account_deactivated",
    "organization_restricted",
    "unsupported_country",
];

/// Things that a request may name apart from its model.
const REQUEST_WORDS: [&str; 7] =
    ["previous_response", "container", "vector_store", "conversation", "file_", "image_", "_image"];
const REQUEST_PHRASES: [&str; 26] = [
    "can only afford",
    "fewer max_tokens",
    "previous response",
    "response with id",
    "item with id",
    "prompt with id",
    "conversation",
    "container",
    "vector store",
    "file with id",
    "file not found",
    "no such file",
    "files/",
    "file ",
    "cachedcontent",
    "cached content",
    "endpoints found that",
    "endpoints found matching",
    "data policy",
    "allowed providers",
    "requested parameters",
    "support tool",
    "support image",
    "support audio",
    "image",
    "url",
];

/// Phrases that count together with the word "model".
const MODEL_PHRASES: [&str; 13] = [
    "not found",
    "not exist",
    "no such model",
    "unknown model",
    "access to",
    "decommissioned",
    "deprecated",
    "no longer",
    "not available",
    "unavailable",
    "not supported",
    "end of its life",
    "could not resolve",
];
const ACCOUNT_PHRASES: [&str; 10] = [
    "no endpoints found for",
    "exceeded your current quota",
    "quota exceeded",
    "billing",
    "location is not supported",
    "country, region",
    "key limit exceeded",
    "key has expired",
    "key expired",
    "reported as leaked",
];
const ACCOUNT_STATES: [&str; 6] = ["suspended", "deactivated", "disabled", "flagged", "not active", "closed"];

/// `words`: type, code and status, in lower case.
pub fn blame(words: &[String], message: &str) -> RefusalSubject {
    // Quoted text may come from the caller.
    let message = without_quotes(&message.to_lowercase());
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| message.contains(phrase));
    if message.starts_with('<') {
        // An HTML page of a proxy before the provider.
        RefusalSubject::Unknown
    } else if has_word(words, &UPSTREAM_WORDS) || has_word(words, &MONEY_WORDS) {
        RefusalSubject::Upstream
    } else if has_word(words, &REQUEST_WORDS) || says(&REQUEST_PHRASES) {
        RefusalSubject::Request
    } else if message.contains("model") && says(&MODEL_PHRASES)
        || message.starts_with("model:") && has_word(words, &["not_found"])
        || concerns_account(&message)
    {
        RefusalSubject::Upstream
    } else {
        RefusalSubject::Unknown
    }
}

/// A 400 that every request would get: the account has no money left, or its country is not served.
pub fn refuses_account(words: &[String], message: &str) -> bool {
    let message = without_quotes(&message.to_lowercase());
    has_word(words, &["billing_hard_limit"])
        || message.starts_with("your credit balance")
        || has_word(words, &["failed_precondition"]) && concerns_account(&message)
}

/// A 429 of an account that has to be paid for first.
fn lacks_money(words: &[String], message: &str) -> bool {
    let message = message.to_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| message.contains(phrase));
    let is_dry =
        says(&["insufficient balance", "insufficient credits", "recharge", "credits are depleted", "out of credits"]);
    let is_unpaid =
        has_word(words, &["insufficient_quota"]) && says(&["billing"]) || has_word(words, &["exceeded_current_quota"]);
    is_dry || is_unpaid || has_word(words, &["insufficient_balance", "insufficient_credits", "credit_balance"])
}

/// A 500 that the same request would get again: a server, or a template of its model, does not take it.
fn refuses_request(message: &str) -> bool {
    let message = message.to_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| message.contains(phrase));
    says(&["not supported", "not support", "unsupported", "must be at the beginning", "roles must alternate"])
}

/// A 401 about the rights of a key. The key may be valid for other calls.
pub fn lacks_rights(message: &str) -> bool {
    let message = message.to_lowercase();
    message.contains("missing scopes") || message.contains("insufficient permissions")
}

fn concerns_account(message: &str) -> bool {
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| message.contains(phrase));
    says(&ACCOUNT_PHRASES) || says(&MONEY_PHRASES) || message.contains("account") && says(&ACCOUNT_STATES)
}

/// Removes quoted text. An apostrophe within a word is not a quote.
fn without_quotes(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut until = None;
    let mut characters = text.chars().peekable();
    let mut before = ' ';
    while let Some(character) = characters.next() {
        let inside_word = before.is_alphanumeric() && characters.peek().is_some_and(|next| next.is_alphanumeric());
        let is_quote = matches!(character, '"' | '`') || character == '\'' && !inside_word;
        match until {
            Some(end) if end == character && is_quote => until = None,
            Some(_) => {}
            None if is_quote => until = Some(character),
            None => kept.push(character),
        }
        before = character;
    }
    kept
}

// Decides whether a 429 limits one model, which most providers count separately, or the whole account. Uses known
// words of vendors. Other words count as a limit of one model: a second 429 costs less than avoiding a model without
// need.

/// The account has no money left or reached a spending limit. No model is served then.
const MONEY_WORDS: [&str; 7] = [
    "credit_balance",
    "insufficient_balance",
    "insufficient_credits",
    "exceeded_current_quota",
    "billing_hard_limit",
    "spend_limit",
    "organization_usage_limit",
];
const MONEY_PHRASES: [&str; 10] = [
    "credit balance",
    "insufficient balance",
    "insufficient credits",
    "available credits",
    "credits are depleted",
    "out of credits",
    "spending limit",
    "spending cap",
    "spend limit",
    "usage limit",
];

/// A limit of one model, whatever else the message contains: "Rate limit reached for gpt-4o in organization …", "…
/// (org: …, model: …)", "… per_base_model …". Alibaba's allocated quota is per model too.
const MODEL_LIMITS: [&str; 3] = ["model", "rate limit reached for", "allocated quota"];
/// Google counts all quotas per model.
const MODEL_WORDS: [&str; 1] = ["resource_exhausted"];

/// Limits that all models of an account share.
const ACCOUNT_WORDS: [&str; 2] = ["insufficient_quota", "account_rate_limit"];
const ACCOUNT_LIMITS: [&str; 7] = [
    "exceeded your current quota",
    "your account's rate limit",
    "account rate limit",
    "organization rate limit exceeded",
    // "Your account … request reached organization max RPM"
    "request reached",
    "api calls / minute",
    "api calls / month",
];

/// True for a rate limit of the whole account. `words`: type, code and status, in lower case.
pub fn limits_account(words: &[String], message: &str) -> bool {
    let message = message.to_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| message.contains(phrase));
    if has_word(words, &MONEY_WORDS) || says(&MONEY_PHRASES) {
        true
    } else if has_word(words, &MODEL_WORDS) || says(&MODEL_LIMITS) {
        false
    } else {
        has_word(words, &ACCOUNT_WORDS) || says(&ACCOUNT_LIMITS)
    }
}

// Web pages in the place of an error: a proxy or CDN before the provider answered, not the provider. Their text is
// markup of no use to a client, so a few words replace it.

/// Longer titles, and names of servers, are left out.
const TITLE_MAX: usize = 80;
const SERVER_MAX: usize = 32;

/// The words for a page: `an HTML page (502, cloudflare): "Bad gateway"`. None: the message is no page.
fn page(message: &str, status: Option<u16>, headers: &HeaderMap) -> Option<String> {
    let message = message.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    if !message.starts_with('<') {
        return None;
    }
    // The same positions, whatever the case of its tags.
    let lower = message.to_ascii_lowercase();
    let is_page = ["<!doctype html", "<html", "<head", "<title", "<body", "<center"].iter().any(|tag| lower.starts_with(tag))
        // Comments of a page come before or behind its declaration.
        || lower.starts_with("<!--") && lower.contains("<html");
    if !is_page {
        return None;
    }
    let facts: Vec<String> = status.map(|status| status.to_string()).into_iter().chain(server(headers)).collect();
    let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
    let title = title(message, &lower).map(|title| format!(": \"{title}\"")).unwrap_or_default();
    Some(format!("an HTML page{facts}{title}"))
}

/// The name of the server, without its version.
fn server(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(SERVER)?.to_str().ok()?;
    let name = value.split(['/', ' ', '(']).next()?.to_ascii_lowercase();
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    (!name.is_empty() && name.len() <= SERVER_MAX && name.chars().all(is_name)).then_some(name)
}

/// The title, if it is short and plain.
fn title(text: &str, lower: &str) -> Option<String> {
    let tag = lower.find("<title")?;
    let start = tag + lower[tag..].find('>')? + 1;
    let end = start + lower[start..].find("</title")?;
    let title = text[start..end].split_whitespace().collect::<Vec<_>>().join(" ");
    let is_plain = title.len() <= TITLE_MAX && !title.contains(['<', '>', '&', '"']) && printable(&title) == title;
    (is_plain && !title.is_empty()).then_some(title)
}

// Reads the numbers in the refusal of a prompt that is too long. A number counts only if the message explains it.

/// Token counts that the message names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextOverflow {
    /// The model's context window.
    pub window: Option<u64>,
    /// The prompt, or prompt and requested answer together.
    pub asked: Option<u64>,
}

/// The window follows these phrases; lower case.
const WINDOW_BEHIND: [&str; 13] = [
    // OpenAI, DeepSeek, vLLM, Fireworks.
    "maximum context length is ",
    "maximum context length: ",
    // xAI.
    "maximum prompt length is ",
    // Gemini.
    "maximum number of tokens allowed (",
    "maximum number of tokens allowed is ",
    // llama.cpp.
    "available context size (",
    "context size of ",
    "context window of ",
    "context length of ",
    "context limit of ",
    // Cohere, TGI.
    "cannot exceed ",
    "must be <= ",
    // Anthropic: `210000 tokens > 200000 maximum`, `190000 + 20000 > 200000`.
    " > ",
];
/// The window precedes these. Mistral.
const WINDOW_BEFORE: [&str; 2] = [" maximum context length", " token context"];
/// The requested tokens follow these phrases.
const ASKED_BEHIND: [&str; 9] = [
    "resulted in ",
    "you requested ",
    "you requested about ",
    "request contains ",
    "prompt contains ",
    "prompt is too long: ",
    "input token count (",
    "input token count of ",
    "request (",
];
/// Plausible windows. Other numbers are ignored.
const WINDOWS: std::ops::RangeInclusive<u64> = 512..=100_000_000;

/// Reads a message of kind `ContextLength`.
pub fn too_long(message: &str) -> ContextOverflow {
    let text = message.to_lowercase();
    let behind = |words: &[&str]| {
        words.iter().find_map(|words| {
            let at = text.find(words)? + words.len();
            number_at_start(&text[at..])
        })
    };
    let before = || WINDOW_BEFORE.iter().find_map(|words| number_at_end(&text[..text.find(words)?]));
    let window = behind(&WINDOW_BEHIND).or_else(before).filter(|window| WINDOWS.contains(window));
    let asked = behind(&ASKED_BEHIND).filter(|asked| window.is_none_or(|window| *asked > window));
    ContextOverflow { window, asked }
}

/// With these words Anthropic's API says it, and its agents compact at them.
pub const PROMPT_TOO_LONG: &str = "prompt is too long";

/// A message of kind `ContextLength` in the words that agents of this surface know.
pub fn overflow_words(surface: Surface, message: &str) -> String {
    if surface.dialect() != Dialect::Anthropic || message.contains(PROMPT_TOO_LONG) {
        return message.to_owned();
    }
    match too_long(message) {
        ContextOverflow { window: Some(window), asked: Some(asked) } => {
            format!("{PROMPT_TOO_LONG}: {asked} tokens > {window} maximum")
        }
        _ => format!("{PROMPT_TOO_LONG}: {message}"),
    }
}

/// Digits, with or without commas.
fn is_of_number(c: char) -> bool {
    c.is_ascii_digit() || c == ','
}

fn number_at_start(text: &str) -> Option<u64> {
    let end = text.find(|c| !is_of_number(c)).unwrap_or(text.len());
    number(&text[..end])
}

fn number_at_end(text: &str) -> Option<u64> {
    let start =
        text.rfind(|c| !is_of_number(c)).map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
    number(&text[start..])
}

fn number(text: &str) -> Option<u64> {
    text.replace(',', "").parse().ok()
}

#[cfg(test)]
mod resets;

#[cfg(test)]
mod shapes;

#[cfg(test)]
mod tests;

#[cfg(test)]
mod blame_tests {
    use super::*;

    #[test]
    fn a_refusal_is_blamed_by_its_words() {
        let table: &[(&[&str], &str, RefusalSubject)] = &[
            (&["invalid_request_error", "model_not_found"], "The model `x` does not exist", RefusalSubject::Upstream),
            (&[], "The model `x` does not exist or you do not have access to it.", RefusalSubject::Upstream),
            (&["not_found_error"], "model: claude-9", RefusalSubject::Upstream),
            (&[], "models/gemini-9 is not found for API version v1beta", RefusalSubject::Upstream),
            (&[], "The model `llama-1` has been decommissioned and is no longer supported.", RefusalSubject::Upstream),
            (&[], "Project `p` does not have access to model `m`", RefusalSubject::Upstream),
            (&[], "You don't have access to the model with the specified model ID.", RefusalSubject::Upstream),
            (&[], "no such model", RefusalSubject::Upstream),
            (&[], "No endpoints found for a/b.", RefusalSubject::Upstream),
            (&["insufficient_quota"], "no", RefusalSubject::Upstream),
            (&["insufficient_credits"], "No credits left", RefusalSubject::Upstream),
            (&[], "Key limit exceeded (total limit).", RefusalSubject::Upstream),
            (&[], "Insufficient Balance", RefusalSubject::Upstream),
            (&[], "Your account was flagged", RefusalSubject::Upstream),
            (&[], "User location is not supported for the API use.", RefusalSubject::Upstream),
            (
                &[],
                "This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, but can only \
                 afford 9000.",
                RefusalSubject::Request,
            ),
            (
                &["previous_response_not_found"],
                "Previous response with id 'resp_1' not found.",
                RefusalSubject::Request,
            ),
            (&[], "Container with id 'model does not exist' not found.", RefusalSubject::Request),
            (&[], "No such File object: file-1", RefusalSubject::Request),
            (&["permission_denied"], "CachedContent not found (or permission denied)", RefusalSubject::Request),
            (&[], "Error 403 while downloading the image", RefusalSubject::Request),
            (&[], "No endpoints found matching your data policy", RefusalSubject::Request),
            (&[], "No endpoints found that support tool use.", RefusalSubject::Request),
            (&[], "'the model does not exist' was refused", RefusalSubject::Unknown),
            (
                &["permission_error"],
                "Your API key does not have permission to use the specified resource",
                RefusalSubject::Unknown,
            ),
            (&[], "<html><title>Attention Required! | Cloudflare</title><img url=x>", RefusalSubject::Unknown),
            (&[], "Not Found", RefusalSubject::Unknown),
            (&[], "", RefusalSubject::Unknown),
        ];
        for (words, message, expected) in table {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(blame(&words, message), *expected, "{message}");
        }
    }

    #[test]
    fn what_is_quoted_is_left_out() {
        assert_eq!(without_quotes("a 'b c' d's \"e\" `f` 'g"), "a  d's   ");
    }
}

#[cfg(test)]
mod limited_tests {
    use super::*;

    #[test]
    fn a_rate_limit_is_one_model_s_unless_its_words_name_the_account() {
        let (model, account) = (false, true);
        let table: &[(&[&str], &str, bool)] = &[
            (
                &["requests", "rate_limit_exceeded"],
                "Rate limit reached for gpt-4o in organization org-1 on requests per min (RPM): Limit 3, Used 3. You can \
                 increase your rate limit by adding a payment method to your account at https://x/account/billing.",
                model,
            ),
            (
                &["insufficient_quota"],
                "You exceeded your current quota, please check your plan and billing details.",
                account,
            ),
            (&["insufficient_quota", "credit_balance_exhausted"], "no", account),
            (&["organization_spend_limit_exceeded"], "no", account),
            (&["organization_usage_limit_exceeded"], "no", account),
            (&["project_spend_limit_exceeded"], "no", account),
            (
                &["rate_limit_error"],
                "This request would exceed your organization's rate limit of 30,000 input tokens per minute (org: 1, \
                 model: claude-sonnet-4-6).",
                model,
            ),
            (
                &["rate_limit_error"],
                "This request would exceed the rate limit for your organization (1) of 30,000 input tokens per minute.",
                model,
            ),
            (&["rate_limit_error"], "This request would exceed your account's rate limit. Please try again.", account),
            (
                &["tokens", "rate_limit_exceeded"],
                "Rate limit reached for model `llama` in organization `org_1` service tier `on_demand` on tokens per day \
                 (TPD). Need more tokens? Upgrade at https://x/settings/billing",
                model,
            ),
            (
                &["429", "resource_exhausted"],
                "You exceeded your current quota, please check your plan and billing details. * Quota exceeded for metric: \
                 generate_content_free_tier_requests, limit: 20",
                model,
            ),
            (
                &["429", "resource_exhausted"],
                "Your prepayment credits are depleted. Please go to AI Studio to manage your project and billing.",
                account,
            ),
            (&[], "Quota exceeded for online_prediction_requests_per_base_model with base model: x", model),
            (
                &["rate_limit_reached_error"],
                "Your account org-1<ak-1> request reached organization max RPM: 3, please try again after 1 seconds",
                account,
            ),
            (&["rate_limit_reached_error"], "Organization Rate limit exceeded, please try again", account),
            (&["exceeded_current_quota_error"], "Your account is suspended", account),
            (&["token_quota_exceeded"], "Tokens per minute limit exceeded - too many tokens processed.", model),
            (&["insufficient_quota"], "Allocated quota exceeded, please increase your quota limit.", model),
            (&[], "Your team has either used all available credits or reached its monthly spending limit.", account),
            (&[], "You are using a Trial key, which is limited to 40 API calls / minute.", account),
            (&["1300"], "Requests rate limit exceeded", model),
            (&["throttlingexception"], "Too many tokens, please wait before trying again.", model),
            (&[], "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 requests per day", model),
            (&[], "slow down", model),
            (&[], "", model),
        ];
        for (words, message, expected) in table {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            assert_eq!(limits_account(&words, message), *expected, "{words:?} {message}");
        }
    }
}

#[cfg(test)]
mod page_tests {
    use http::HeaderValue;

    use super::*;

    fn words(server: &'static str, body: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        if !server.is_empty() {
            headers.insert(SERVER, HeaderValue::from_bytes(server.as_bytes()).unwrap());
        }
        page(body, Some(502), &headers)
    }

    #[test]
    fn a_page_is_told_in_a_few_words() {
        let nginx = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>…</body></html>";
        for (server, body, expected) in [
            ("nginx/1.27.1", nginx, "an HTML page (502, nginx): \"502 Bad Gateway\""),
            ("", nginx, "an HTML page (502): \"502 Bad Gateway\""),
            (
                "cloudflare",
                "\n<!DOCTYPE html>\n<!--[if lt IE 7]> <html class=\"ie6\"> <![endif]-->\n<title>api.test |\n 502: Bad gateway</title>",
                "an HTML page (502, cloudflare): \"api.test | 502: Bad gateway\"",
            ),
            ("awselb/2.0", "<HTML><HEAD><TITLE lang=en>no</TITLE>", "an HTML page (502, awselb): \"no\""),
            ("a b<script>", "<center>busy", "an HTML page (502, a)"),
            ("<script>", "<!-- x --><html>", "an HTML page (502)"),
            ("x", "\u{feff}<html><title></title>", "an HTML page (502, x)"),
            ("x", "<html><title>a &amp; b</title>", "an HTML page (502, x)"),
            ("x", "<html><title>a <b>b</b></title>", "an HTML page (502, x)"),
            ("x", "<html><title>a\u{202e}b</title>", "an HTML page (502, x)"),
            ("x", "<html><title>never ends", "an HTML page (502, x)"),
        ] {
            assert_eq!(words(server, body).as_deref(), Some(expected), "{body}");
        }
        assert_eq!(words("x", &format!("<html><title>{}</title>", "a".repeat(81))).unwrap(), "an HTML page (502, x)");
        assert_eq!(page("<html>", None, &HeaderMap::new()).unwrap(), "an HTML page");
        for body in
            ["", "Bad gateway", "{}", "<?xml version=\"1.0\"?><Error/>", "the <html> page", "<b>no</b>", "<!-- x -->"]
        {
            assert_eq!(words("x", body), None, "{body}");
        }
    }
}

#[cfg(test)]
mod window_tests {
    use super::*;

    #[test]
    fn numbers_of_many_vendors() {
        let table = [
            (
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens. Please reduce the length of the messages.",
                Some(8_192),
                Some(9_001),
            ),
            (
                "This model's maximum context length is 131072 tokens. However, you requested 150000 tokens (140000 in the messages, 10000 in the completion).",
                Some(131_072),
                Some(150_000),
            ),
            ("prompt is too long: 210000 tokens > 200000 maximum", Some(200_000), Some(210_000)),
            (
                "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again",
                Some(200_000),
                None,
            ),
            (
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                Some(1_048_576),
                Some(1_200_000),
            ),
            (
                "This model's maximum prompt length is 131,072 but the request contains 250,000 tokens.",
                Some(131_072),
                Some(250_000),
            ),
            (
                "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
                Some(32_768),
                Some(40_000),
            ),
            ("The prompt is too long: 140000, model maximum context length: 131071", Some(131_071), Some(140_000)),
            (
                "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
                Some(4_096),
                Some(5_000),
            ),
            ("Input is too long for requested model.", None, None),
            ("too many tokens", None, None),
            ("the prompt > 3 pages exceeds the context window", None, None),
            ("größer: 9 maximum context length", None, None),
        ];
        for (message, window, asked) in table {
            assert_eq!(too_long(message), ContextOverflow { window, asked }, "{message}");
        }
    }
}
