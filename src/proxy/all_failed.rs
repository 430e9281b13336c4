//! What a race without a winner is answered with. Which answer it is, is chosen by the class of the failures and not by
//! their order; what the gateway itself says of it is in `rejection`.

use axum::body::Body;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};

use super::Served;
use super::answer::passed_on;
use super::field::Field;
use super::launcher::Launcher;
use super::rejection::{Failed, Rejection};
use crate::failure::{Answer, Failure, FailureKind};
use crate::protocol::error::rejects_stream_options;
use crate::protocol::openai::{self, Frame};
use crate::protocol::request::ChatRequest;
use crate::protocol::sse::Scanner;
use crate::race::Race;
use crate::race::verdict::is_the_requests_fault;
use crate::relay::{DONE, assemble_events, without_usage};

const EVENT_STREAM: &str = "text/event-stream; charset=utf-8";

/// Nobody won.
///
/// # Errors
/// What the gateway itself has to say, where no upstream's own answer is the client's to see.
pub fn all_failed(race: &Race<Launcher>, field: &Field, request: &ChatRequest) -> Result<Served, Rejection> {
    let failed: Vec<Failed> = field.failed(race.failures());
    match choose(race.failures(), request.include_usage) {
        Choice::AsItCame(candidate, answer) => {
            Ok(Served::Whole(as_it_came(answer, &field.runners[candidate].name, request)))
        }
        Choice::RateLimited => Err(Rejection::rate_limited(&failed)),
        Choice::AllFailed => Err(Rejection::all_failed(&failed)),
    }
}

#[derive(Debug, PartialEq)]
enum Choice<'a> {
    /// The answer of this candidate.
    AsItCame(usize, &'a Answer),
    RateLimited,
    AllFailed,
}

/// `usage_asked`: the client itself sent `stream_options`.
fn choose(failures: &[(usize, Failure)], usage_asked: bool) -> Choice<'_> {
    // The one retry without what was added is an attempt like any other, so `max_attempts` may leave no room for it. The
    // complaint is then nothing that the client could mend, and says nothing of its request.
    let counted: Vec<&(usize, Failure)> =
        failures.iter().filter(|(_, failure)| usage_asked || !is_about_what_was_added(failure)).collect();
    let all =
        |test: fn(FailureKind) -> bool| !counted.is_empty() && counted.iter().all(|(_, failure)| test(failure.kind));
    // A refusal on policy is the answer whatever else failed: nothing was started after it, and a 502 beside it would have
    // the client send the same again.
    let refused = |failure: &Failure| failure.kind == FailureKind::ContentPolicy && failure.answer.is_some();
    let refused = counted.iter().find(|(_, failure)| refused(failure));
    let own_answer = if refused.is_some() {
        refused.copied()
    } else if all(is_the_requests_fault) {
        most_telling(&counted)
    } else if all(|kind| kind == FailureKind::Empty) {
        counted.first().copied()
    } else {
        None
    };
    match own_answer.and_then(|(candidate, failure)| Some((*candidate, failure.answer.as_ref()?))) {
        Some((candidate, answer)) => Choice::AsItCame(candidate, answer),
        None if all(|kind| kind == FailureKind::RateLimited) => Choice::RateLimited,
        None => Choice::AllFailed,
    }
}

/// The gateway adds `stream_options` to every request that goes up.
fn is_about_what_was_added(failure: &Failure) -> bool {
    let answer = failure.answer.as_ref().filter(|_| failure.kind == FailureKind::BadRequest);
    answer.is_some_and(|answer| rejects_stream_options(&answer.body))
}

/// Of several answers that say that the request is wrong, the one that says most.
fn most_telling<'a>(failures: &[&'a (usize, Failure)]) -> Option<&'a (usize, Failure)> {
    let rank = |failure: &Failure| match failure.kind {
        FailureKind::ContextLength => 3,
        FailureKind::BadRequest => 2,
        _ => 1,
    };
    // The first of equals: `max_by_key` would give the last.
    let answered = failures.iter().rev().filter(|(_, failure)| failure.answer.is_some());
    answered.max_by_key(|(_, failure)| rank(failure)).copied()
}

/// A provider's own error, or an empty answer: status, type and bytes as they came, and who sent them.
fn as_it_came(answer: &Answer, upstream: &str, request: &ChatRequest) -> Response<Body> {
    let real_type = answer.headers.get(CONTENT_TYPE).cloned();
    let (body, content_type) = match (answer.status == StatusCode::OK.as_u16(), request.stream) {
        (false, _) => (answer.body.clone(), real_type),
        (true, false) => (assemble_events(answer.body.clone()), Some(HeaderValue::from_static("application/json"))),
        // An answer that came as a whole was made a stream.
        (true, true) => {
            let stream_type = real_type.filter(|value| !value.as_bytes().starts_with(b"application/json"));
            let body = empty_stream(&answer.body, request.include_usage);
            (body, stream_type.or(Some(HeaderValue::from_static(EVENT_STREAM))))
        }
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::BAD_GATEWAY);
    let headers = response.headers_mut();
    *headers = passed_on(&answer.headers);
    content_type.map(|value| headers.insert(CONTENT_TYPE, value));
    HeaderValue::from_str(upstream).ok().map(|value| headers.insert("x-photofinish-upstream", value));
    response
}

/// What the relay would have made of a stream without a token: an end where it finished without one, and the usage chunk
/// only for those who asked for it.
fn empty_stream(events: &Bytes, include_usage: bool) -> Bytes {
    let kept = if include_usage { events.clone() } else { without_usage(events.clone()) };
    let mut scanner = Scanner::new(usize::MAX);
    scanner.push(kept.clone());
    let (mut finished, mut done) = (false, false);
    while let Ok(Some(event)) = scanner.next_event() {
        match openai::read(&event) {
            Frame::Chunk(chunk) => finished |= chunk.finish_reason.is_some(),
            Frame::Done => done = true,
            Frame::KeepAlive | Frame::Error { .. } | Frame::Malformed => {}
        }
    }
    if finished && !done { Bytes::from([&kept[..], DONE].concat()) } else { kept }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::failure::Phase;

    const COMPLAINT: &str = r#"{"detail":[{"loc":["body","stream_options"],"msg":"extra"}]}"#;

    fn failure(kind: FailureKind, body: &'static str) -> Failure {
        let mut failure = Failure::new(kind, Phase::Headers, "");
        let body = Bytes::from_static(body.as_bytes());
        failure.answer = Some(Answer { status: 400, headers: Box::default(), body });
        failure
    }

    /// The candidate whose answer is passed on, or what the gateway says.
    fn chosen(failures: &[(FailureKind, &'static str)], usage_asked: bool) -> Result<usize, &'static str> {
        let failures: Vec<(usize, Failure)> =
            failures.iter().enumerate().map(|(at, (kind, body))| (at, failure(*kind, body))).collect();
        match choose(&failures, usage_asked) {
            Choice::AsItCame(candidate, _) => Ok(candidate),
            Choice::RateLimited => Err("429"),
            Choice::AllFailed => Err("502"),
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

    fn request(body: &'static str) -> ChatRequest {
        ChatRequest::parse(Bytes::from_static(body.as_bytes())).unwrap()
    }

    #[test]
    fn an_error_keeps_its_headers_and_names_its_upstream() {
        let mut answer = failure(FailureKind::BadRequest, "{}").answer.unwrap();
        for (name, value) in
            [("x-request-id", "r1"), ("retry-after", "3"), ("set-cookie", "c"), ("content-type", "a/b")]
        {
            answer.headers.insert(name, HeaderValue::from_static(value));
        }
        let response = as_it_came(&answer, "a/m", &request(r#"{"model":"m"}"#));
        let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap());
        assert_eq!(
            (header("x-request-id"), header("retry-after"), header("set-cookie")),
            (Some("r1"), Some("3"), None)
        );
        assert_eq!((header("content-type"), header("x-photofinish-upstream")), (Some("a/b"), Some("a/m")));
    }

    #[test]
    fn an_empty_stream_is_ended_and_its_usage_is_for_those_who_asked() {
        let finish = r#"data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}"#;
        let usage = r#"data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":0}}"#;
        let came = Bytes::from(format!(": hm\n\n{finish}\n\n{usage}\n\n"));
        assert_eq!(empty_stream(&came, false), format!(": hm\n\n{finish}\n\ndata: [DONE]\n\n"));
        assert_eq!(empty_stream(&came, true), format!(": hm\n\n{finish}\n\n{usage}\n\ndata: [DONE]\n\n"));
        let done = Bytes::from(format!("{finish}\n\ndata: [DONE]\n\n"));
        assert_eq!(empty_stream(&done, false), done);
        let cut = Bytes::from_static(b": hm\n\n");
        assert_eq!(empty_stream(&cut, false), cut, "it did not finish");
    }

    #[test]
    fn an_empty_answer_has_its_own_type_unless_it_was_no_stream() {
        let streaming = request(r#"{"model":"m","stream":true}"#);
        for (real, expected) in
            [("text/html", "text/html"), ("text/event-stream", "text/event-stream"), ("application/json", EVENT_STREAM)]
        {
            let headers = Box::new(HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(real))]));
            let answer = Answer { status: 200, headers, body: Bytes::new() };
            let response = as_it_came(&answer, "a/m", &streaming);
            assert_eq!(response.headers()[CONTENT_TYPE], expected);
            let whole = as_it_came(&answer, "a/m", &request(r#"{"model":"m"}"#));
            assert_eq!(whole.headers()[CONTENT_TYPE], "application/json");
        }
    }
}
