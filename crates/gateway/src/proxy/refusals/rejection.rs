//! All of the gateway's own answers: status and message, in the shape of the caller's surface. Not for errors of
//! upstreams that are passed on: see `all_failed`.

use photofinish_dialects::SurfaceFormat as _;
use std::borrow::Cow;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, ALLOW, CONTENT_TYPE, RETRY_AFTER, UPGRADE, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use serde_json::{Value, json};

use crate::proxy::refusals::code::{self, ErrorCode};
use crate::proxy::refusals::limit_headers;
use crate::proxy::refusals::shed::ShedReason;
use photofinish_base::coding::{ContentCoding, Undecodable, UnknownCoding};
use photofinish_base::failure::{Failure, FailureKind};
use photofinish_base::printable::quoted;
use photofinish_config::units::format_bytes;
use photofinish_config::{Config, Right, UserRole};
use photofinish_facts::record::LeftOutUpstream;
use photofinish_limits::LimitsLeft;
use photofinish_routing::health::cooldown::ASK_AGAIN_FOR;
use photofinish_routing::health::{CooldownState, cooling_down};
use photofinish_routing::verdict::CooldownReason;
use photofinish_translation::request::{AmbiguousMember, InvalidRequest};
use photofinish_wire::client_error::{ErrorShape, Invalid};
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
    /// A further header, such as what the gateway takes instead.
    instead: Option<(HeaderName, &'static str)>,
    /// A limit of the caller refuses: what is left to it.
    limits_left: Option<LimitsLeft>,
    /// Attempts were made: an answer of the race, not a refusal before it.
    after_race: bool,
    /// No upstream supports such a call.
    unspoken: bool,
    /// The upstreams that could not start.
    left_out: Vec<LeftOutUpstream>,
}

impl Rejection {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Rejection {
        Rejection(Box::new(RejectionParts {
            code,
            message: message.into(),
            param: None,
            attempts: Vec::new(),
            retry_after: None,
            instead: None,
            limits_left: None,
            after_race: false,
            unspoken: false,
            left_out: Vec::new(),
        }))
    }

    pub(super) fn on(mut self, param: Option<Cow<'static, str>>) -> Rejection {
        self.0.param = param;
        self
    }

    pub(super) fn on_model(self) -> Rejection {
        self.on(Some("model".into()))
    }

    pub(super) fn with(mut self, failed: &[FailedUpstream]) -> Rejection {
        self.0.attempts = failed.to_vec();
        self
    }

    /// Sets a further header.
    pub(super) fn naming(mut self, name: HeaderName, value: &'static str) -> Rejection {
        self.0.instead = Some((name, value));
        self
    }

    /// With the headers that say what is left, as an answer to the same caller has them.
    pub(super) fn with_limits(mut self, left: LimitsLeft) -> Rejection {
        self.0.limits_left = Some(left);
        self
    }

    /// For the race's row.
    pub fn leaving_out(mut self, left_out: Vec<LeftOutUpstream>) -> Rejection {
        self.0.left_out = left_out;
        self
    }

    pub(super) fn ended_race(mut self) -> Rejection {
        self.0.after_race = true;
        self
    }

    /// Sets Retry-After.
    pub(crate) fn after(mut self, wait: Duration) -> Rejection {
        self.0.retry_after = Some(wait);
        self
    }

    pub fn unauthorized(why: &str) -> Rejection {
        let message = format!("{why}: send a user's token as `Authorization: Bearer …` or `x-api-key: …`");
        Rejection::new(crate::proxy::refusals::code::UNAUTHORIZED, message)
    }

    /// A key was sent, and the store could not be read yet.
    pub fn keys_not_read() -> Rejection {
        let message = "the keys that were made at run time cannot be read yet: send the request again later";
        Rejection::new(crate::proxy::refusals::code::KEYS_UNAVAILABLE, message).after(Duration::from_secs(1))
    }

    /// No user can log in now.
    pub fn login_unavailable(why: &str) -> Rejection {
        Rejection::new(code::LOGIN_UNAVAILABLE, cut(why)).after(Duration::from_secs(5))
    }

    /// Of a request about teams, users and keys.
    pub fn unknown_account(why: &str) -> Rejection {
        Rejection::new(crate::proxy::refusals::code::UNKNOWN_ACCOUNT, cut(why))
    }

    /// Likewise: it does not fit what is there.
    pub fn conflict(why: &str) -> Rejection {
        Rejection::new(crate::proxy::refusals::code::CONFLICT, cut(why))
    }

    /// A request header with an invalid value.
    pub fn header(name: &str, why: &str) -> Rejection {
        Rejection::new(crate::proxy::refusals::code::BAD_HEADER, format!("header {name}: {why}"))
    }

    pub fn too_large(max: usize) -> Rejection {
        let max = u64::try_from(max).unwrap_or(u64::MAX);
        let message = format!(
            "the request body is larger than {}: send less, or raise body_max under [server]",
            format_bytes(max)
        );
        Rejection::new(crate::proxy::refusals::code::TOO_LARGE, message)
    }

    /// A body that is not held is larger than this.
    pub fn upload_too_large(max: usize) -> Rejection {
        let max = format_bytes(u64::try_from(max).unwrap_or(u64::MAX));
        Rejection::new(
            crate::proxy::refusals::code::TOO_LARGE,
            format!("the request body is larger than {max}, the most that is passed on"),
        )
    }

    pub fn body_stopped(after: Duration) -> Rejection {
        let message = format!("the request body stopped coming for {after:?}");
        Rejection::new(crate::proxy::refusals::code::BODY_TIMEOUT, message)
    }

    pub fn body_broke() -> Rejection {
        Rejection::new(crate::proxy::refusals::code::INVALID_REQUEST, "the request body broke off")
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
        Rejection::new(crate::proxy::refusals::code::UNKNOWN_MODEL, message).on_model()
    }

    /// The model is known, and off for this caller.
    pub fn model_off(model: &str) -> Rejection {
        let message = format!(
            "the model {} is configured, but none of its providers is on for you: set the key of one, or bring it as \
             x-photofinish-key-PROVIDER. GET /v1/models lists what there is.",
            quoted(model)
        );
        Rejection::new(crate::proxy::refusals::code::UNKNOWN_MODEL, message).on_model()
    }

    /// The model is known, but no upstream can serve it to this caller.
    pub fn no_upstream(model: &str, off: &[String]) -> Rejection {
        let why = if off.is_empty() { "none of its upstreams can be used".to_owned() } else { off.join("; ") };
        let message = format!(
            "no upstream of {} can serve this call: {why}. Set the key, or bring one as x-photofinish-key-PROVIDER.",
            quoted(model)
        );
        Rejection::new(crate::proxy::refusals::code::NO_UPSTREAM, message).on_model()
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
        let mut rejection = Rejection::new(crate::proxy::refusals::code::NO_UPSTREAM, message).on_model();
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
        Rejection::new(crate::proxy::refusals::code::NOT_TRANSLATABLE, message).on(first)
    }

    /// The request is invalid for its surface; in the vendor's words.
    pub fn invalid(invalid: &Invalid) -> Rejection {
        let message = cut(&invalid.message);
        Rejection::new(crate::proxy::refusals::code::INVALID_REQUEST, message)
            .on(invalid.param.as_deref().map(|param| cut(param).into()))
    }

    /// Every upstream cools down after a rate limit.
    pub fn cooling_down(failed: &[FailedUpstream], wait: Duration) -> Rejection {
        let message =
            "every upstream is cooling down after a rate limit: try again after Retry-After, or add upstreams or keys";
        Rejection::new(crate::proxy::refusals::code::COOLING_DOWN, message).with(failed).after(wait)
    }

    /// Every attempt was rate-limited.
    pub fn rate_limited(failed: &[FailedUpstream]) -> Rejection {
        let wait = failed.iter().filter_map(|failed| failed.failure.retry_after).min();
        let message = "every upstream is rate-limited: try again later, or add upstreams or keys";
        Rejection::new(crate::proxy::refusals::code::RATE_LIMITED, message)
            .with(failed)
            .after(wait.unwrap_or(Duration::from_secs(1)))
            .ended_race()
    }

    pub fn all_failed(failed: &[FailedUpstream]) -> Rejection {
        let message = format!("every upstream failed: {}", summary(failed));
        Rejection::new(crate::proxy::refusals::code::ALL_FAILED, message).with(failed).ended_race()
    }

    /// The limit that ended it is in the failures.
    pub fn deadline(failed: &[FailedUpstream]) -> Rejection {
        let message = "no upstream answered within timeouts.total: raise it under [race], or add upstreams";
        Rejection::new(crate::proxy::refusals::code::TIMEOUT, message).with(failed).ended_race()
    }

    pub fn shutting_down() -> Rejection {
        let message = "the gateway is shutting down: send the request again";
        Rejection::new(crate::proxy::refusals::code::SHUTTING_DOWN, message).after(Duration::from_secs(1))
    }

    /// A handler panicked.
    pub fn internal() -> Rejection {
        let message = "the gateway failed on this request: its log says where, and sending it again may help";
        Rejection::new(crate::proxy::refusals::code::INTERNAL, message)
    }

    /// `nearest`: the path that the client probably meant.
    pub fn not_found(path: &str, nearest: Option<&str>) -> Rejection {
        let hint = match nearest {
            Some(nearest) => format!("did you mean {nearest}?"),
            None => "OpenAI clients take a base URL that ends in /v1, Anthropic, Gemini and Ollama clients one without"
                .to_owned(),
        };
        Rejection::new(crate::proxy::refusals::code::NOT_FOUND, format!("there is nothing at {}: {hint}", quoted(path)))
    }

    /// Nothing is served at this path; `instead`: what to do.
    pub fn not_served(path: &str, instead: &str) -> Rejection {
        Rejection::new(
            crate::proxy::refusals::code::NOT_FOUND,
            cut(&format!("there is nothing at {}: {instead}", quoted(path))),
        )
    }

    /// A path of a provider that cannot be asked.
    pub fn not_passed(why: String) -> Rejection {
        Rejection::new(crate::proxy::refusals::code::NO_UPSTREAM, why)
    }

    /// Any path of a provider, with a shared key: it reaches every model and all files.
    pub fn forbidden_provider(provider: &str, user: &str) -> Rejection {
        let message = format!(
            "the user {} may use only listed models with a shared key, and a path of {provider} reaches more: bring a key as \
             x-photofinish-key-{provider}, or add \"upstreams\" to overrides under [users.NAME]",
            quoted(user)
        );
        Rejection::new(crate::proxy::refusals::code::FORBIDDEN_UPSTREAM, message)
    }

    /// An invalid parameter or path segment of the URL. `why` names the value and the valid ones.
    pub fn parameter(name: Option<String>, why: &str) -> Rejection {
        let why = cut(why);
        Rejection::new(crate::proxy::refusals::code::BAD_PARAMETER, why).on(name.map(|name| cut(&name).into()))
    }

    /// The history cannot be read: `why` is for an operator. `passes`: it may be temporary.
    pub fn history(why: String, passes: bool) -> Rejection {
        Rejection::new(
            if passes {
                crate::proxy::refusals::code::HISTORY_BUSY
            } else {
                crate::proxy::refusals::code::HISTORY_BROKEN
            },
            why,
        )
    }

    /// Too many questions to the history.
    pub fn busy(at_once: usize, waited: Duration) -> Rejection {
        let message =
            format!("{at_once} questions are being answered, and none of them was done in {waited:?}: ask again later");
        Rejection::new(crate::proxy::refusals::code::BUSY, message).after(waited)
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

    /// The upstreams that could not start.
    pub fn left_out(&self) -> &[LeftOutUpstream] {
        &self.0.left_out
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
        if let Some(left) = self.0.limits_left {
            limit_headers::add(headers, left, surface);
        }
        if let Some(wait) = self.0.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(whole_seconds(wait)));
        }
        response
    }
}

/// As `retry-after` has them: rounded up, and at least one.
pub(super) fn whole_seconds(wait: Duration) -> u64 {
    (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1)
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
            | InvalidRequest::ResponsesForm
            | InvalidRequest::Surface(_) => None,
        };
        Rejection::new(crate::proxy::refusals::code::INVALID_REQUEST, invalid.to_string()).on(param.map(Cow::Borrowed))
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

pub(super) fn summary(failed: &[FailedUpstream]) -> String {
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

impl Rejection {
    /// The request names an unknown host. A web page may have rebound that name.
    pub fn unknown_host(host: &str) -> Rejection {
        let message = format!(
            "this gateway has no users, and the host {} is not known to be its own: call it as localhost or by its IP \
             address, or add the name to [server] hosts",
            quoted(host)
        );
        Rejection::new(code::UNKNOWN_HOST, message)
    }

    /// A web page of this origin sent the request. None: the origin is unknown.
    pub fn foreign_page(origin: Option<&[u8]>) -> Rejection {
        let who = match origin {
            Some(origin) => format!("web pages of the origin {}", quoted(&String::from_utf8_lossy(origin))),
            None => "web pages of another site".to_owned(),
        };
        let message = format!("{who} may not call this gateway: add the origin to cors under [server] if they are to");
        Rejection::new(code::FOREIGN_PAGE, message)
    }

    /// A trusted proxy forwards a request from another machine, and there are no users.
    pub fn remote_client() -> Rejection {
        let message = "this gateway has no users, so it serves its own machine only, and this request comes from another one \
                       through a proxy: add [users] to serve others";
        Rejection::new(code::REMOTE_CLIENT, message)
    }

    /// Plain HTTP to an address that speaks TLS.
    pub fn only_https() -> Rejection {
        let message = "this address speaks HTTPS: call it with https://";
        Rejection::new(code::ONLY_HTTPS, message)
    }

    pub fn body_slow(rate_min: u64) -> Rejection {
        let message =
            format!("the request body came too slowly: send at least {} a second on average", format_bytes(rate_min));
        Rejection::new(code::BODY_TIMEOUT, message)
    }

    /// All connections, or all memory for them, are busy, and this one is reserved for status requests.
    pub fn crowded() -> Rejection {
        let message =
            "every connection of the gateway, or all memory for them, is at work: send the request again later";
        Rejection::new(code::CROWDED, message).after(Duration::from_secs(1))
    }
}

/// No upstream is available now. If one of them refused the key, the model or the account, waiting does not help, and
/// the answer says so.
pub fn all_cooling_down(cooling: Vec<(String, CooldownState)>) -> Rejection {
    let is_refused = |(_, cooling): &&(String, CooldownState)| cooling.why.is_some_and(CooldownReason::is_refusal);
    let any_refused = cooling.iter().any(|cooling| is_refused(&cooling));
    // An upstream without this call is left alone for a while, like one without the model.
    let lacks_call = cooling.iter().any(|(_, cooling)| cooling.why == Some(CooldownReason::NotFound));
    let limits = cooling.iter().filter(|cooling| !is_refused(cooling));
    let wait = limits.map(|(_, cooling)| cooling.wait).min();
    let failed: Vec<FailedUpstream> = cooling
        .into_iter()
        .map(|(upstream, cooling)| FailedUpstream { upstream, failure: cooling_down(cooling) })
        .collect();
    let mut rejection = match any_refused {
        true => Rejection::refused(&failed, wait),
        false => Rejection::cooling_down(&failed, wait.unwrap_or_default()),
    };
    rejection.0.unspoken = lacks_call;
    rejection
}

/// Maximum upstreams in a message; `error.attempts` has all.
const TOLD_MAX: usize = 4;

impl Rejection {
    /// The role of the user lacks this right.
    pub fn forbidden(role: UserRole, right: Right) -> Rejection {
        let (role, may) = (role.as_str(), UserRole::that_may(right).join(", "));
        Rejection::new(
            code::FORBIDDEN,
            format!("a user with role = \"{role}\" may not do this; the role under [users.NAME] must be one of {may}"),
        )
    }

    /// It is of another user or team. `why`: which, and what is allowed.
    pub fn out_of_reach(why: &str) -> Rejection {
        Rejection::new(code::FORBIDDEN, why)
    }

    /// A header that this user may not send. `name`: its name in `overrides`.
    pub fn forbidden_override(header: &str, user: &str, name: &str) -> Rejection {
        let message = format!(
            "header {header}: the user {} may not send it: add {name:?} to overrides under [users.NAME]",
            quoted(user)
        );
        Rejection::new(code::FORBIDDEN_OVERRIDE, message)
    }

    /// A header that asks for more than the settings of the model allow. `allows`: those settings.
    pub fn costly_override(header: &str, user: &str, name: &str, allows: &str) -> Rejection {
        let message = format!(
            "header {header}: this may cost more than the settings of the model allow ({allows}), and the user {} may not \
             raise them: ask for less, or add {name:?} to overrides under [users.NAME]",
            quoted(user)
        );
        Rejection::new(code::FORBIDDEN_OVERRIDE, message)
    }

    /// An upstream that no model lists, and that this user may not use with a shared key.
    pub fn forbidden_upstream(upstream: &str, provider: &str, user: &str) -> Rejection {
        let message = format!(
            "no model lists the upstream {}, so the user {} may not ask it with a shared key: bring a key as \
             x-photofinish-key-{provider}, list it under [models], or add \"upstreams\" to overrides under [users.NAME]",
            quoted(upstream),
            quoted(user)
        );
        Rejection::new(code::FORBIDDEN_UPSTREAM, message).on_model()
    }

    /// A member with which this user may reach models that are not listed, with a shared key.
    pub fn forbidden_member(member: &AmbiguousMember, provider: &str, user: &str) -> Rejection {
        let message = format!(
            "{member}, and the user {} may use only listed models with a shared key: leave it out, bring a key as \
             x-photofinish-key-{provider}, or add \"upstreams\" to overrides under [users.NAME]",
            quoted(user)
        );
        Rejection::new(code::FORBIDDEN_UPSTREAM, message).on(Some(cut(&member.name).into()))
    }

    /// Every upstream cools down, some because they refused the key, the model or the account. `wait`: the shortest of
    /// the other cool-downs. Without one there is no Retry-After: a wait does not repair a key, and clients would wait
    /// in vain.
    pub fn refused(failed: &[FailedUpstream], wait: Option<Duration>) -> Rejection {
        // These messages are the gateway's own.
        let reasons: Vec<String> = failed
            .iter()
            .take(TOLD_MAX)
            .map(|failed| format!("{} is {}", failed.upstream, failed.failure.message))
            .collect();
        let message = format!(
            "no upstream can be asked: {}. Look at its key, its model and its account; one request in {ASK_AGAIN_FOR:?} \
             is let through to it meanwhile",
            reasons.join(", ")
        );
        let rejection = Rejection::new(code::UPSTREAM_REFUSED, message).with(failed);
        match wait {
            Some(wait) => rejection.after(wait),
            None => rejection,
        }
    }
}

impl Rejection {
    /// No room for another request now.
    pub fn overloaded(shed: ShedReason) -> Rejection {
        let why = match shed {
            ShedReason::InFlight => "the gateway serves as many requests as max_in_flight under [server] allows",
            ShedReason::Share => {
                "you have your share of the requests that the gateway serves at once (max_in_flight under [server]), of those \
                 whose bodies are still coming, or of the memory for bodies"
            }
            ShedReason::Memory => "the memory for bodies and buffers, memory under [server], is in use",
            ShedReason::Descriptors => {
                "the gateway has hardly a file descriptor left; its operator may raise the limit (ulimit -n)"
            }
        };
        Rejection::new(code::OVERLOADED, format!("{why}: try again after Retry-After")).after(Duration::from_secs(1))
    }

    /// A request needs more memory than is free, or more than the limit.
    pub fn no_memory(bytes: usize, max: usize) -> Rejection {
        if bytes <= max {
            return Rejection::overloaded(ShedReason::Memory);
        }
        let max = format_bytes(u64::try_from(max).unwrap_or(u64::MAX));
        let message = format!(
            "the request takes {bytes} bytes of memory, and memory under [server] is {max}: send less, or raise it"
        );
        Rejection::new(code::TOO_LARGE, message)
    }

    /// A large request was not parsed and translated in time.
    pub fn too_slow() -> Rejection {
        let message = "too many large requests are being read and translated: try again after Retry-After";
        Rejection::new(code::OVERLOADED, message).after(Duration::from_secs(5))
    }

    /// The gateway had no descriptor or memory for an attempt, and no other attempt served the request.
    pub fn gateway_limit(failed: &[FailedUpstream]) -> Rejection {
        let message = format!("the gateway ran out of descriptors or memory: {}", summary(failed));
        Rejection::new(code::OVERLOADED, message).with(failed).after(Duration::from_secs(1)).ended_race()
    }
}

impl Rejection {
    pub fn method(allow: &'static str) -> Rejection {
        let message = format!("this path takes {allow} only");
        Rejection::new(code::METHOD_NOT_ALLOWED, message).naming(ALLOW, allow)
    }

    /// A client of the Responses API tries a WebSocket first, and turns to HTTP at once after this status.
    pub fn no_websocket() -> Rejection {
        let message = "there is no WebSocket here: send a POST, and read server-sent events with \"stream\": true. Only /v1/responses \
                       over HTTP/1.1 has one (version 13), unless websocket under [server] is false";
        Rejection::new(code::NO_WEBSOCKET, message).naming(UPGRADE, "HTTP/1.1")
    }

    /// A handshake that is none by RFC 6455.
    pub fn no_handshake() -> Rejection {
        let message = "the handshake of the WebSocket is not of RFC 6455: send connection: upgrade, and one sec-websocket-key of \
                       16 bytes in Base64";
        Rejection::new(code::INVALID_REQUEST, message)
    }

    /// A body of a coding that the gateway does not decode.
    pub fn unknown_coding(unknown: &UnknownCoding) -> Rejection {
        let what = match unknown {
            UnknownCoding::Name(name) => format!("header content-encoding: {} is not supported", quoted(name)),
            UnknownCoding::Several => "header content-encoding: more than one coding is not supported".to_owned(),
        };
        let message = format!("{what}: send the body as it is, or as one of {}", ContentCoding::NAMES);
        Rejection::new(code::UNSUPPORTED_ENCODING, message).naming(ACCEPT_ENCODING, ContentCoding::NAMES)
    }

    pub fn undecodable(coding: ContentCoding, why: Undecodable) -> Rejection {
        let name = coding.as_str();
        let message = match why {
            Undecodable::Invalid => format!("the request body is not valid {name}, as its content-encoding says"),
            Undecodable::Cut => format!("the request body ends in the middle of its {name} data"),
        };
        Rejection::new(code::INVALID_REQUEST, message)
    }
}

impl Rejection {
    /// In the vendor's words: clients send the whole input again after its code.
    pub fn no_previous(id: &str) -> Rejection {
        let message = format!("Previous response with id '{}' not found.", cut(id));
        Rejection::new(code::PREVIOUS_NOT_FOUND, message).on(Some("previous_response_id".into()))
    }

    /// In the vendor's words.
    pub fn not_stored(what: &str, id: &str) -> Rejection {
        Rejection::new(code::NOT_FOUND, format!("{what} with id '{}' not found.", cut(id))).on(Some("id".into()))
    }

    /// An item of an earlier answer.
    pub fn no_item(id: &str) -> Rejection {
        let message = format!("Item with id '{}' not found.", cut(id));
        Rejection::new(code::INVALID_REQUEST, message).on(Some("input".into()))
    }

    pub fn previous_and_conversation() -> Rejection {
        let message = "Mutually exclusive parameters: 'previous_response_id' and 'conversation'. Send one of them.";
        Rejection::new(code::INVALID_REQUEST, message).on(Some("previous_response_id".into()))
    }

    /// None of the model's upstreams can work in the background.
    pub fn no_background() -> Rejection {
        let message = "Unsupported parameter: 'background'. A response in the background is made and kept by its upstream, and \
                       no upstream of this model speaks the Responses API: send the request without it, or name an upstream \
                       of that dialect.";
        Rejection::new(code::INVALID_REQUEST, message).on(Some("background".into()))
    }

    pub fn not_in_background() -> Rejection {
        let message = "Cannot cancel a synchronous response: it was not created with 'background': true.";
        Rejection::new(code::INVALID_REQUEST, message)
    }

    /// In the vendor's words.
    pub fn not_streamed() -> Rejection {
        let message = "This response cannot be streamed because it was not created with background=true.";
        Rejection::new(code::INVALID_REQUEST, message).on(Some("stream".into()))
    }

    /// `stored = "off"`.
    pub fn keeps_nothing() -> Rejection {
        let message = "this gateway keeps no conversations: set stored under [server], or send the whole input";
        Rejection::new(code::INVALID_REQUEST, message)
    }

    /// A conversation is larger than all that may be kept.
    pub fn keeps_no_more() -> Rejection {
        let message =
            "there is no room for these items: raise the size in stored under [server], or send the whole input";
        Rejection::new(code::OVERLOADED, message).after(Duration::from_secs(5))
    }
}

impl Rejection {
    pub fn unknown_race(race_id: &str) -> Rejection {
        let message = format!(
            "there is no race {race_id}: it is not written yet, its row was removed, or it never was. GET /api/races \
             lists the newest"
        );
        Rejection::new(code::UNKNOWN_RACE, message)
    }

    /// `why` names the run.
    pub fn unknown_run(why: &str) -> Rejection {
        Rejection::new(code::UNKNOWN_RUN, format!("{why}. GET /api/runs lists the newest"))
    }
}

impl Rejection {
    /// Too many wrong tokens came from the client's address.
    pub fn too_many_tokens(wait: Duration) -> Rejection {
        let message = "too many wrong tokens came from this address: try again after Retry-After, or send a right one at any time";
        Rejection::new(code::TOO_MANY_TOKENS, message).after(wait)
    }

    /// Too many watch the races.
    pub fn too_many_watchers(most: usize) -> Rejection {
        let message = format!("{most} watch already: close another dashboard, or try again later");
        Rejection::new(code::TOO_MANY_WATCHERS, message).after(Duration::from_secs(5))
    }

    /// A replay is running.
    pub fn replaying() -> Rejection {
        let message = "a replay is running, and one runs at a time: ask again later";
        Rejection::new(code::BUSY, message).after(Duration::from_secs(5))
    }

    /// The new configuration is invalid; `why` is for an operator.
    pub fn not_reloaded(why: &str) -> Rejection {
        Rejection::new(code::NOT_RELOADED, format!("the old configuration stays in force:\n{why}"))
    }
}

#[cfg(test)]
mod cooling_tests {
    use std::time::Duration;

    use http::StatusCode;

    use super::*;

    #[test]
    fn a_refusal_is_told_as_such_and_a_rate_limit_as_a_429() {
        let limit = |seconds| (Some(CooldownReason::RateLimited), seconds);
        let account = |seconds| (Some(CooldownReason::AccountRateLimited), seconds);
        let [key, access, model] =
            [CooldownReason::KeyRefused, CooldownReason::Forbidden, CooldownReason::NotFound].map(|why| (Some(why), 9));
        type Row<'a> = (&'a [(Option<CooldownReason>, u64)], StatusCode, Option<&'a str>);
        let table: &[Row<'_>] = &[
            (&[limit(7)], StatusCode::TOO_MANY_REQUESTS, Some("7")),
            (&[limit(7), account(3)], StatusCode::TOO_MANY_REQUESTS, Some("3")),
            (&[key], StatusCode::BAD_GATEWAY, None),
            (&[access], StatusCode::BAD_GATEWAY, None),
            (&[model], StatusCode::BAD_GATEWAY, None),
            (&[limit(20), key], StatusCode::BAD_GATEWAY, Some("20")),
        ];
        for (cooling_upstreams, status, retry_after) in table {
            let cooling = cooling_upstreams.iter().map(|(why, seconds)| {
                ("a/m".to_owned(), CooldownState { wait: Duration::from_secs(*seconds), why: *why })
            });
            let answer = all_cooling_down(cooling.collect()).into_response();
            let sent = answer.headers().get("retry-after").map(|value| value.to_str().unwrap());
            assert_eq!((answer.status(), sent), (*status, *retry_after), "{cooling_upstreams:?}");
        }
    }
}
