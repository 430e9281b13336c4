//! All of the gateway's own answers: status and message, in the shape of the caller's surface. Not for errors of
//! upstreams that are passed on: see `all_failed`.

pub(super) mod code;
mod cooling;
mod forbidden;
mod overloaded;
mod transport;
mod unknown;
mod watched;

pub use cooling::all_cooling_down;

use std::borrow::Cow;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use code::ErrorCode;
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use serde_json::{Value, json};

use photofinish_base::failure::{Failure, FailureKind};
use photofinish_base::printable::quoted;
use photofinish_config::config::Config;
use photofinish_config::config::units::format_bytes;
use photofinish_wire::client_error::{ErrorShape, Invalid};
use photofinish_wire::request::InvalidRequest;
use photofinish_wire::{Losses, Surface};

/// One upstream that did not serve the request.
#[derive(Clone, Debug)]
pub struct FailedUpstream {
    pub upstream: String,
    pub failure: Failure,
}

/// A refusal, or the report that no upstream answered. Boxed: it is the rare side of many results.
#[derive(Debug)]
pub struct Rejection(Box<RejectionParts>);

#[derive(Debug)]
struct RejectionParts {
    code: ErrorCode,
    message: String,
    /// The member or parameter of the request that caused it.
    param: Option<Cow<'static, str>>,
    attempts: Vec<FailedUpstream>,
    retry_after: Option<Duration>,
    /// A header that says what the gateway takes instead.
    instead: Option<(HeaderName, &'static str)>,
    /// Attempts were made: an answer of the race, not a refusal before it.
    after_race: bool,
    /// No upstream supports such a call.
    unspoken: bool,
    /// The upstreams that could not start, as the race's row has them.
    left_out: Option<String>,
}

impl Rejection {
    pub(super) fn new(code: ErrorCode, message: impl Into<String>) -> Rejection {
        Rejection(Box::new(RejectionParts {
            code,
            message: message.into(),
            param: None,
            attempts: Vec::new(),
            retry_after: None,
            instead: None,
            after_race: false,
            unspoken: false,
            left_out: None,
        }))
    }

    fn on(mut self, param: Option<Cow<'static, str>>) -> Rejection {
        self.0.param = param;
        self
    }

    fn on_model(self) -> Rejection {
        self.on(Some("model".into()))
    }

    fn with(mut self, failed: &[FailedUpstream]) -> Rejection {
        self.0.attempts = failed.to_vec();
        self
    }

    /// Sets the header that says what the gateway takes instead.
    fn naming(mut self, name: HeaderName, value: &'static str) -> Rejection {
        self.0.instead = Some((name, value));
        self
    }

    /// For the race's row.
    pub fn leaving_out(mut self, left_out: Option<String>) -> Rejection {
        self.0.left_out = left_out;
        self
    }

    fn ended_race(mut self) -> Rejection {
        self.0.after_race = true;
        self
    }

    /// Sets Retry-After.
    pub(super) fn after(mut self, wait: Duration) -> Rejection {
        self.0.retry_after = Some(wait);
        self
    }

    pub fn unauthorized(why: &str) -> Rejection {
        let message = format!("{why}: send a user's token as `Authorization: Bearer …` or `x-api-key: …`");
        Rejection::new(code::UNAUTHORIZED, message)
    }

    /// A request header with an invalid value.
    pub fn header(name: &str, why: &str) -> Rejection {
        Rejection::new(code::BAD_HEADER, format!("header {name}: {why}"))
    }

    pub fn too_large(max: usize) -> Rejection {
        let max = u64::try_from(max).unwrap_or(u64::MAX);
        let message = format!(
            "the request body is larger than {}: send less, or raise body_max under [server]",
            format_bytes(max)
        );
        Rejection::new(code::TOO_LARGE, message)
    }

    pub fn body_stopped(after: Duration) -> Rejection {
        let message = format!("the request body stopped coming for {after:?}");
        Rejection::new(code::BODY_TIMEOUT, message)
    }

    pub fn body_broke() -> Rejection {
        Rejection::new(code::INVALID_REQUEST, "the request body broke off")
    }

    /// `why`: why the name is not an upstream either, if it is written as one.
    pub fn unknown_model(config: &Config, model: &str, why: Option<&str>) -> Rejection {
        let nearest = config.nearest_models(model);
        let hint = if nearest.is_empty() { String::new() } else { format!(" Did you mean {}?", nearest.join(" or ")) };
        let who_would = config.why_not_served(model);
        let (why, or) = match who_would.as_deref().or(why) {
            Some(why) => (format!(", and {why}"), ""),
            None => (String::new(), "; an upstream is named as provider/model"),
        };
        let message = format!(
            "the model {} is not configured{why}.{hint} GET /v1/models lists what there is{or}.",
            quoted(model)
        );
        Rejection::new(code::UNKNOWN_MODEL, message).on_model()
    }

    /// The model is known, and off for this caller.
    pub fn model_off(model: &str) -> Rejection {
        let message = format!(
            "the model {} is configured, but none of its providers is on for you: set the key of one, or bring it as \
             x-photofinish-key-PROVIDER. GET /v1/models lists what there is.",
            quoted(model)
        );
        Rejection::new(code::UNKNOWN_MODEL, message).on_model()
    }

    /// The model is known, but no upstream can serve it to this caller.
    pub fn no_upstream(model: &str, off: &[String]) -> Rejection {
        let why = if off.is_empty() { "none of its upstreams can be used".to_owned() } else { off.join("; ") };
        let message = format!(
            "no upstream of {} can serve this call: {why}. Set the key, or bring one as x-photofinish-key-PROVIDER.",
            quoted(model)
        );
        Rejection::new(code::NO_UPSTREAM, message).on_model()
    }

    /// No dialect of the model's upstreams supports such a call.
    pub fn unspoken(model: &str, surface: Surface, who: &[String]) -> Rejection {
        let message = format!(
            "no upstream of {} can serve {}: {}. Name an upstream whose provider speaks {}.",
            quoted(model),
            surface.path(),
            who.join("; "),
            surface.dialect().as_str()
        );
        let mut rejection = Rejection::new(code::NO_UPSTREAM, message).on_model();
        rejection.0.unspoken = true;
        rejection
    }

    /// No upstream's dialect can express the request.
    pub fn not_translatable(losses: &Losses, who: &str, surface: Surface) -> Rejection {
        let names: Vec<String> = losses.deciding().map(|name| format!("`{name}`")).collect();
        let allowed_by = if losses.keeps_content() { "prefer" } else { "drop" };
        let message = format!(
            "no upstream of this model can take {}: {who}, which has no place for it. Leave it out, use an upstream that speaks \
             the dialect of {} ({}), or allow the loss with lossy = \"{allowed_by}\" in the configuration or the header \
             x-photofinish-lossy: {allowed_by}",
            names.join(", "),
            surface.path(),
            surface.dialect().as_str(),
        );
        let first = losses.deciding().next().map(|name| Cow::Owned(name.to_owned()));
        Rejection::new(code::NOT_TRANSLATABLE, message).on(first)
    }

    /// The request is invalid for its surface; in the vendor's words.
    pub fn invalid(invalid: &Invalid) -> Rejection {
        let message = cut(&invalid.message);
        Rejection::new(code::INVALID_REQUEST, message).on(invalid.param.as_deref().map(|param| cut(param).into()))
    }

    /// Every upstream cools down after a rate limit.
    pub fn cooling_down(failed: &[FailedUpstream], wait: Duration) -> Rejection {
        let message =
            "every upstream is cooling down after a rate limit: try again after Retry-After, or add upstreams or keys";
        Rejection::new(code::COOLING_DOWN, message).with(failed).after(wait)
    }

    /// Every attempt was rate-limited.
    pub fn rate_limited(failed: &[FailedUpstream]) -> Rejection {
        let wait = failed.iter().filter_map(|failed| failed.failure.retry_after).min();
        let message = "every upstream is rate-limited: try again later, or add upstreams or keys";
        Rejection::new(code::RATE_LIMITED, message)
            .with(failed)
            .after(wait.unwrap_or(Duration::from_secs(1)))
            .ended_race()
    }

    pub fn all_failed(failed: &[FailedUpstream]) -> Rejection {
        let message = format!("every upstream failed: {}", summary(failed));
        Rejection::new(code::ALL_FAILED, message).with(failed).ended_race()
    }

    pub fn deadline(failed: &[FailedUpstream]) -> Rejection {
        let message =
            "no upstream answered within the total timeout: raise timeouts.total under [race], or add upstreams";
        Rejection::new(code::TIMEOUT, message).with(failed).ended_race()
    }

    pub fn shutting_down() -> Rejection {
        let message = "the gateway is shutting down: send the request again";
        Rejection::new(code::SHUTTING_DOWN, message).after(Duration::from_secs(1))
    }

    /// A handler panicked.
    pub fn internal() -> Rejection {
        let message = "the gateway failed on this request: its log says where, and sending it again may help";
        Rejection::new(code::INTERNAL, message)
    }

    /// `nearest`: the path that the client probably meant.
    pub fn not_found(path: &str, nearest: Option<&str>) -> Rejection {
        let hint = match nearest {
            Some(nearest) => format!("did you mean {nearest}?"),
            None => "OpenAI clients take a base URL that ends in /v1, Anthropic, Gemini and Ollama clients one without"
                .to_owned(),
        };
        Rejection::new(code::NOT_FOUND, format!("there is nothing at {}: {hint}", quoted(path)))
    }

    /// An invalid parameter or path segment of the URL. `why` names the value and the valid ones.
    pub fn parameter(name: Option<String>, why: &str) -> Rejection {
        let why = cut(why);
        Rejection::new(code::BAD_PARAMETER, why).on(name.map(|name| cut(&name).into()))
    }

    /// The history cannot be read: `why` is for an operator. `passes`: it may be temporary.
    pub fn history(why: String, passes: bool) -> Rejection {
        Rejection::new(if passes { code::HISTORY_BUSY } else { code::HISTORY_BROKEN }, why)
    }

    /// Too many questions to the history.
    pub fn busy(at_once: usize, waited: Duration) -> Rejection {
        let message =
            format!("{at_once} questions are being answered, and none of them was done in {waited:?}: ask again later");
        Rejection::new(code::BUSY, message).after(waited)
    }

    pub fn status(&self) -> StatusCode {
        self.0.code.status
    }

    /// Attempts were made: an answer of the race, not a refusal before it.
    pub fn is_after_race(&self) -> bool {
        self.0.after_race
    }

    pub fn code(&self) -> &'static str {
        self.0.code.code
    }

    /// The upstreams that could not start, as the race's row has them.
    pub fn left_out(&self) -> Option<&str> {
        self.0.left_out.as_deref()
    }

    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// No upstream supports such a call.
    pub fn is_unspoken(&self) -> bool {
        self.0.unspoken
    }

    /// For a path that is not a surface.
    pub fn into_response(self) -> Response<Body> {
        self.answer_to(Surface::Chat)
    }

    /// The answer in the shape of the caller's surface.
    pub fn answer_to(&self, surface: Surface) -> Response<Body> {
        let error = self.shaped(|error| surface.error(error));
        let mut response = Response::new(Body::from(error.to_string()));
        *response.status_mut() = self.0.code.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.0.code.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some((name, value)) = &self.0.instead {
            headers.insert(name.clone(), HeaderValue::from_static(value));
        }
        if let Some(wait) = self.0.retry_after {
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        response
    }
}

impl Rejection {
    /// The event that ends a stream, for a client that has already received a head.
    pub fn event(&self, surface: Surface) -> Bytes {
        self.shaped(|error| surface.error_event(error))
    }

    fn shaped<T>(&self, write: impl FnOnce(&ErrorShape<'_>) -> T) -> T {
        let attempts: Option<Value> =
            (!self.0.attempts.is_empty()).then(|| self.0.attempts.iter().map(attempt).collect());
        write(&ErrorShape {
            status: self.0.code.status.as_u16(),
            kind: self.0.code.kind,
            code: self.0.code.code,
            message: &self.0.message,
            param: self.0.param.as_deref(),
            attempts: attempts.as_ref(),
        })
    }
}

impl From<InvalidRequest> for Rejection {
    fn from(invalid: InvalidRequest) -> Rejection {
        if let InvalidRequest::Surface(invalid) = &invalid {
            return Rejection::invalid(invalid);
        }
        let param = match &invalid {
            InvalidRequest::NoModel => Some("model"),
            InvalidRequest::Member { member, .. } | InvalidRequest::Twice(member) => Some(*member),
            InvalidRequest::Json(_)
            | InvalidRequest::NotAnObject
            | InvalidRequest::Form(_)
            | InvalidRequest::Surface(_) => None,
        };
        Rejection::new(code::INVALID_REQUEST, invalid.to_string()).on(param.map(Cow::Borrowed))
    }
}

fn attempt(failed: &FailedUpstream) -> Value {
    let FailedUpstream { upstream, failure } = failed;
    json!({ "upstream": upstream, "failure": failure.kind.as_str(), "status": failure.status, "message": failure.message })
}

/// Shortens a message that repeats a client's text.
fn cut(text: &str) -> String {
    match text.char_indices().nth(1_000) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn summary(failed: &[FailedUpstream]) -> String {
    let each: Vec<String> =
        failed.iter().map(|FailedUpstream { upstream, failure }| format!("{upstream} {}", spoken(failure))).collect();
    each.join(", ")
}

fn spoken(failure: &Failure) -> String {
    match (failure.kind, failure.status) {
        (FailureKind::Empty, _) | (_, None) => failure.kind.to_string(),
        (kind, Some(status)) => format!("{kind} ({status})"),
    }
}
