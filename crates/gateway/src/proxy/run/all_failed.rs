//! The answer to a race without a winner, chosen by the class of the failures and not by their order. Not for the
//! gateway's own messages: see `rejection`.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use photofinish_dialects::SurfaceFormat as _;
use serde_json::json;

use crate::attempt::assemble_events;
use crate::proxy::refusals::rejection::{FailedUpstream, Rejection};
use crate::proxy::request::candidate_set::CandidateSet;
use crate::proxy::run::answer::{passed_on, whole_type};
use crate::proxy::run::launcher::Launcher;
use crate::relay::without_usage;
use photofinish_base::failure::{Failure, FailureKind, RawAnswer};
use photofinish_config::ContentPolicy;
use photofinish_race::Race;
use photofinish_routing::verdict::{NextStep, is_the_requests_fault, next};
use photofinish_translation::ApiRequest;
use photofinish_wire::answer::error::{PROMPT_TOO_LONG, overflow_words, rejects_stream_options};
use photofinish_wire::client_error::ErrorShape;
use photofinish_wire::{Dialect, Surface};

/// The answer if no attempt won: an upstream's own, if the client should see it.
///
/// # Errors
/// The gateway's own answer.
pub fn all_failed(
    race: &Race<Launcher>,
    candidates: &CandidateSet,
    request: &ApiRequest,
) -> Result<Response<Bytes>, Rejection> {
    let failed: Vec<FailedUpstream> = candidates.failed(race.failures());
    let of = |candidate, test: &dyn Fn(&Failure) -> bool| {
        let its = race.failures().iter().find(|(failed, failure)| *failed == candidate && test(failure));
        its.map(|(_, failure)| failure)
    };
    let kept_back = race.launch().kept_back(candidates);
    let content_policy = candidates.settings.content_policy;
    match (choose(race.failures(), request.include_usage, content_policy, kept_back.is_some()), kept_back) {
        (FailureChoice::AsItCame(candidate, answer), _) => {
            let upstream = candidates.name(candidate);
            Ok(match of(candidate, &|_| true) {
                Some(failure)
                    if answer.status != StatusCode::OK.as_u16()
                        && (candidates.list[candidate].upload.is_translated() || is_unread(answer)) =>
                {
                    in_the_callers_words(answer, failure, upstream, request)
                }
                _ => as_it_came(answer, upstream, request),
            })
        }
        (FailureChoice::TooLong(candidate, answer), _) => {
            let upstream = candidates.name(candidate);
            let is_translated = candidates.list[candidate].upload.is_translated();
            let is_only = race.failures().len() == 1;
            let is_shown = |answer: &&RawAnswer| {
                !is_translated && !is_unread(answer) && shows_overflow(request.surface, answer, is_only)
            };
            match (answer.filter(is_shown), of(candidate, &is_overflow)) {
                (Some(answer), _) => Ok(as_it_came(answer, upstream, request)),
                (None, Some(failure)) => Ok(in_the_callers_words(&overflow(answer), failure, upstream, request)),
                (None, None) => Err(Rejection::all_failed(&failed)),
            }
        }
        (_, Some((limited, is_held))) => Err(Rejection::kept_back(&limited, is_held, &failed)),
        (FailureChoice::RateLimited, None) => Err(Rejection::rate_limited(&failed)),
        (FailureChoice::GatewayLimit, None) => Err(Rejection::gateway_limit(&failed)),
        (FailureChoice::AllFailed, None) => Err(Rejection::all_failed(&failed)),
    }
}

#[derive(Debug, PartialEq)]
enum FailureChoice<'a> {
    /// The answer of this candidate.
    AsItCame(usize, &'a RawAnswer),
    /// The prompt is too long for this candidate. An agent that gets this error compacts; after another error it would send the same
    /// again.
    TooLong(usize, Option<&'a RawAnswer>),
    RateLimited,
    /// The gateway ran out of resources for some attempts that might have served it.
    GatewayLimit,
    AllFailed,
}

/// `usage_asked`: the client itself sent `stream_options`. `kept_back`: a budget kept back others that could answer.
fn choose(
    failures: &[(usize, Failure)],
    usage_asked: bool,
    content_policy: ContentPolicy,
    kept_back: bool,
) -> FailureChoice<'_> {
    // The retry without `stream_options` counts as an attempt, so `max_attempts` may prevent it. The client cannot fix
    // that complaint, because it is not about the client's request.
    let counted: Vec<&(usize, Failure)> =
        failures.iter().filter(|(_, failure)| usage_asked || !is_about_what_was_added(failure)).collect();
    let all =
        |test: fn(FailureKind) -> bool| !counted.is_empty() && counted.iter().all(|(_, failure)| test(failure.kind));
    // A refusal that stops the race is the answer, whatever else failed: after a 502 the client would send the same
    // request again.
    let stops = |failure: &Failure| next(failure, content_policy) == NextStep::Stop && failure.answer.is_some();
    // Better than an error: something was generated, and it has a finish reason.
    let is_whole = |failure: &Failure| failure.answer.as_ref().is_some_and(|answer| answer.whole);
    let first = |test: &dyn Fn(&Failure) -> bool| counted.iter().find(|(_, failure)| test(failure)).copied();
    let own_answer = if let Some(refused) = first(&stops) {
        Some(refused)
    } else if all(is_the_requests_fault) {
        most_informative(&counted)
    } else if let Some(long) = first(&is_overflow) {
        Some(long)
    } else if all(|kind| kind == FailureKind::Empty) {
        counted.first().copied()
    } else {
        first(&is_whole).or_else(|| alone(&counted).filter(|_| !kept_back))
    };
    if let Some((candidate, failure)) = own_answer.filter(|(_, failure)| is_overflow(failure)) {
        return FailureChoice::TooLong(*candidate, failure.answer.as_ref());
    }
    match own_answer.and_then(|(candidate, failure)| Some((*candidate, failure.answer.as_ref()?))) {
        Some((candidate, answer)) => FailureChoice::AsItCame(candidate, answer),
        None if all(|kind| kind == FailureKind::RateLimited) => FailureChoice::RateLimited,
        None if counted.iter().any(|(_, failure)| failure.kind == FailureKind::GatewayLimit) => {
            FailureChoice::GatewayLimit
        }
        None => FailureChoice::AllFailed,
    }
}

/// The latest answer of the only upstream, if it is overloaded and says until when: the client obeys that, and a 502 does not have it.
fn alone<'a>(failures: &[&'a (usize, Failure)]) -> Option<&'a (usize, Failure)> {
    let (last, others) = failures.split_last()?;
    let comes_back = |answer: &RawAnswer| answer.status >= 500 && answer.headers.contains_key(RETRY_AFTER);
    let is_alone = others.iter().all(|(candidate, _)| *candidate == last.0);
    (is_alone && last.1.kind == FailureKind::Overloaded && last.1.answer.as_ref().is_some_and(comes_back))
        .then_some(last)
}

/// The gateway adds `stream_options` to every request it sends.
fn is_about_what_was_added(failure: &Failure) -> bool {
    let answer = failure.answer.as_ref().filter(|_| failure.kind == FailureKind::BadRequest);
    answer.is_some_and(|answer| rejects_stream_options(&answer.body))
}

/// Of several answers that blame the request, the most specific.
fn most_informative<'a>(failures: &[&'a (usize, Failure)]) -> Option<&'a (usize, Failure)> {
    let rank = |failure: &Failure| match failure.kind {
        FailureKind::ContextLength => 3,
        FailureKind::BadRequest => 2,
        _ => 1,
    };
    // The first of equals; `max_by_key` returns the last.
    let answered = failures.iter().rev().filter(|(_, failure)| failure.answer.is_some() || is_overflow(failure));
    answered.max_by_key(|(_, failure)| rank(failure)).copied()
}

fn is_overflow(failure: &Failure) -> bool {
    failure.kind == FailureKind::ContextLength
}

/// Whether clients of this surface see in this answer that the prompt is too long. Those of chat read the only answer as its server
/// words it; agents of the others look for one type or code.
fn shows_overflow(surface: Surface, answer: &RawAnswer, is_only: bool) -> bool {
    let says = |words| String::from_utf8_lossy(&answer.body).contains(words);
    answer.status == StatusCode::BAD_REQUEST.as_u16()
        && match surface.dialect() {
            Dialect::Anthropic => says(PROMPT_TOO_LONG),
            Dialect::OpenAi => is_only || says("context_length_exceeded"),
            Dialect::Responses => says("context_length_exceeded"),
            _ => true,
        }
}

/// An answer that says so, with the headers of this one.
fn overflow(answer: Option<&RawAnswer>) -> RawAnswer {
    let headers = answer.map(|answer| answer.headers.clone()).unwrap_or_default();
    RawAnswer { status: StatusCode::BAD_REQUEST.as_u16(), headers, body: Bytes::new(), whole: false }
}

/// It is no JSON, such as a page of a proxy: clients of all surfaces read JSON.
fn is_unread(answer: &RawAnswer) -> bool {
    !matches!(answer.body.trim_ascii_start().first(), Some(b'{' | b'['))
}

/// A provider's own error or empty answer: its status and bytes, and its name. An error keeps its type.
fn as_it_came(answer: &RawAnswer, upstream: &str, request: &ApiRequest) -> Response<Bytes> {
    let whole_type = whole_type(request.surface, &answer.headers);
    let (body, content_type) = match (answer.status == StatusCode::OK.as_u16(), request.stream) {
        (false, _) => (answer.body.clone(), answer.headers.get(CONTENT_TYPE).cloned()),
        (true, false) if answer.whole => (answer.body.clone(), whole_type),
        (true, false) => (assemble_events(request.surface, answer.body.clone()), whole_type),
        // An answer that was not streamed became a stream.
        (true, true) => {
            let stream_type = HeaderValue::from_static(request.surface.framing().content_type());
            (empty_stream(&answer.body, request), Some(stream_type))
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::BAD_GATEWAY);
    let headers = response.headers_mut();
    *headers = passed_on(&answer.headers, None);
    content_type.map(|value| headers.insert(CONTENT_TYPE, value));
    HeaderValue::from_str(upstream).ok().map(|value| headers.insert("x-photofinish-upstream", value));
    response
}

/// Removes the usage chunk, unless the client asked for it.
fn empty_stream(events: &Bytes, request: &ApiRequest) -> Bytes {
    if request.surface.dialect() != Dialect::OpenAi || request.include_usage {
        events.clone()
    } else {
        without_usage(events.clone())
    }
}

/// The error of a provider of another dialect: its status and message, in the shape of the caller's surface.
fn in_the_callers_words(
    answer: &RawAnswer,
    failure: &Failure,
    upstream: &str,
    request: &ApiRequest,
) -> Response<Bytes> {
    let code = match failure.kind {
        FailureKind::ContextLength => "context_length_exceeded",
        FailureKind::ContentPolicy => "content_policy_violation",
        kind => kind.as_str(),
    };
    let error = request.surface.error(&ErrorShape {
        status: answer.status,
        kind: if answer.status >= 500 { "server_error" } else { "invalid_request_error" },
        code,
        message: &if is_overflow(failure) {
            overflow_words(request.surface, &failure.message)
        } else {
            failure.message.clone()
        },
        param: None,
        attempts: None,
    });
    let json = HeaderValue::from_static("application/json");
    let body = Bytes::from(error.to_string());
    let headers = HeaderMap::from_iter(answer.headers.iter().map(|(name, value)| (name.clone(), value.clone())));
    let mut shaped = RawAnswer { status: answer.status, headers: Box::new(headers), body, whole: false };
    shaped.headers.insert(CONTENT_TYPE, json);
    as_it_came(&shaped, upstream, request)
}

/// Bytes per token of the estimate.
const BYTES_PER_TOKEN: usize = 4;

/// Whether an upstream has no such call: many servers of the dialect do not.
pub fn is_lacking(failures: &[(usize, Failure)]) -> bool {
    let lacks = |failure: &Failure| failure.kind == FailureKind::NotFound || failure.status == Some(405);
    failures.iter().any(|(_, failure)| lacks(failure))
}

/// The answer in the vendor's shape; the header `x-photofinish-estimate` marks it.
pub fn estimate(request: &ApiRequest) -> Response<Bytes> {
    let bytes: usize = request.prompt().iter().map(|part| part.len()).sum();
    let name = if request.surface == Surface::GeminiCount { "totalTokens" } else { "input_tokens" };
    let mut count = json!({ name: bytes.div_ceil(BYTES_PER_TOKEN) });
    if request.surface.dialect() == Dialect::Responses {
        count["object"] = "response.input_tokens".into();
    }
    let mut response = Response::new(Bytes::from(count.to_string()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert("x-photofinish-estimate", HeaderValue::from_static("bytes/4"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use photofinish_base::failure::Phase;
    use photofinish_wire::Surface;

    const COMPLAINT: &str = r#"{"detail":[{"loc":["body","stream_options"],"msg":"extra"}]}"#;

    fn failure(kind: FailureKind, body: &'static str) -> Failure {
        let mut failure = Failure::new(kind, Phase::Headers, "");
        let body = Bytes::from_static(body.as_bytes());
        failure.answer = Some(RawAnswer { status: 400, headers: Box::default(), body, whole: false });
        failure
    }

    /// The candidate whose answer is passed on, or the status of the gateway's answer.
    fn chosen(failures: &[(FailureKind, &'static str)], usage_asked: bool) -> Result<usize, &'static str> {
        let failures: Vec<(usize, Failure)> =
            failures.iter().enumerate().map(|(at, (kind, body))| (at, failure(*kind, body))).collect();
        match choose(&failures, usage_asked, ContentPolicy::Stop, false) {
            FailureChoice::AsItCame(candidate, _) | FailureChoice::TooLong(candidate, _) => Ok(candidate),
            FailureChoice::RateLimited => Err("429"),
            FailureChoice::AllFailed => Err("502"),
            FailureChoice::GatewayLimit => Err("503"),
        }
    }

    #[test]
    fn the_answer_is_chosen_by_class() {
        use FailureKind::*;
        assert_eq!(chosen(&[(ServerError, ""), (ContentPolicy, "")], false), Ok(1), "a refusal, whatever else failed");
        assert_eq!(chosen(&[(BadRequest, ""), (TooLarge, "")], false), Ok(0));
        assert_eq!(chosen(&[(TooLarge, ""), (BadRequest, ""), (ContextLength, "")], false), Ok(2));
        assert_eq!(chosen(&[(BadRequest, ""), (ServerError, "")], false), Err("502"));
        assert_eq!(chosen(&[(Empty, ""), (Empty, "")], false), Ok(0));
        assert_eq!(chosen(&[(RateLimited, ""), (RateLimited, "")], false), Err("429"));
        assert_eq!(chosen(&[(Protocol, "")], false), Err("502"), "a redirect is never passed on");
        assert_eq!(chosen(&[(GatewayLimit, ""), (ServerError, "")], false), Err("503"), "it might have served it");
        assert_eq!(chosen(&[(Timeout, ""), (ServerError, "")], false), Err("502"));
        assert_eq!(chosen(&[], false), Err("502"));
    }

    #[test]
    fn a_complaint_about_what_the_gateway_added_is_not_the_client_s() {
        use FailureKind::*;
        assert_eq!(chosen(&[(BadRequest, COMPLAINT)], false), Err("502"));
        assert_eq!(chosen(&[(BadRequest, COMPLAINT)], true), Ok(0), "it sent that itself");
        assert_eq!(chosen(&[(BadRequest, COMPLAINT), (BadRequest, "{}")], false), Ok(1));
        assert_eq!(chosen(&[(BadRequest, COMPLAINT), (RateLimited, "")], false), Err("429"));
    }

    #[test]
    fn the_only_upstream_says_when_it_serves_again() {
        let outage = |candidate, status, header: &'static str| {
            let mut failure = failure(FailureKind::Overloaded, "{}");
            let answer = failure.answer.as_mut().unwrap();
            answer.status = status;
            answer.headers.insert(header, HeaderValue::from_static("7"));
            (candidate, failure)
        };
        let choice =
            |failures: &[(usize, Failure)], kept_back| match choose(failures, false, ContentPolicy::Stop, kept_back) {
                FailureChoice::AsItCame(candidate, answer) => Some((candidate, answer.status)),
                _ => None,
            };
        let chosen = |failures: &[(usize, Failure)]| choice(failures, false);
        assert_eq!(chosen(&[outage(0, 503, "retry-after")]), Some((0, 503)));
        assert_eq!(choice(&[outage(0, 503, "retry-after")], true), None, "another one could answer");
        assert_eq!(chosen(&[outage(0, 529, "retry-after")]), Some((0, 529)));
        assert_eq!(chosen(&[outage(0, 500, "x"), outage(0, 503, "retry-after")]), Some((0, 503)), "the latest");
        assert_eq!(chosen(&[outage(0, 503, "x")]), None);
        assert_eq!(chosen(&[outage(0, 503, "retry-after"), outage(0, 503, "x")]), None);
        assert_eq!(chosen(&[outage(0, 503, "retry-after"), outage(1, 503, "retry-after")]), None, "not the only one");
    }

    fn request(body: &'static str) -> ApiRequest {
        ApiRequest::parse(Surface::Chat, Bytes::from_static(body.as_bytes())).unwrap()
    }

    #[test]
    fn an_error_keeps_its_headers_and_names_its_upstream() {
        let mut answer = failure(FailureKind::BadRequest, "{}").answer.unwrap();
        for (name, value) in
            [("x-request-id", "r1"), ("retry-after", "3"), ("set-cookie", "c"), ("content-type", "a/b")]
        {
            answer.headers.insert(name, HeaderValue::from_static(value));
        }
        let response = as_it_came(&answer, "a/m", &request(r#"{"model":"m","messages":[{}]}"#));
        let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap());
        assert_eq!(
            (header("x-request-id"), header("retry-after"), header("set-cookie")),
            (Some("r1"), Some("3"), None)
        );
        assert_eq!((header("content-type"), header("x-photofinish-upstream")), (Some("a/b"), Some("a/m")));
    }

    #[test]
    fn the_usage_of_an_empty_stream_is_for_those_who_asked() {
        let finish = r#"data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}"#;
        let usage = r#"data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":0}}"#;
        let came = Bytes::from(format!(": hm\n\n{finish}\n\n{usage}\n\ndata: [DONE]\n\n"));
        let asked = request(r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{}]}"#);
        assert_eq!(empty_stream(&came, &asked), came);
        let not_asked = request(r#"{"model":"m","stream":true,"messages":[{}]}"#);
        assert_eq!(empty_stream(&came, &not_asked), format!(": hm\n\n{finish}\n\ndata: [DONE]\n\n"));
    }

    #[test]
    fn an_empty_answer_has_the_type_of_its_surface() {
        let streaming = request(r#"{"model":"m","stream":true,"messages":[{}]}"#);
        for real in ["text/html", "text/event-stream", "application/json"] {
            let headers = Box::new(HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(real))]));
            let answer = RawAnswer { status: 200, headers, body: Bytes::new(), whole: false };
            let response = as_it_came(&answer, "a/m", &streaming);
            assert_eq!(response.headers()[CONTENT_TYPE], "text/event-stream; charset=utf-8");
            let whole = as_it_came(&answer, "a/m", &request(r#"{"model":"m","messages":[{}]}"#));
            assert_eq!(whole.headers()[CONTENT_TYPE], "application/json");
        }
    }
}
