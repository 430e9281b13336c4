//! Failures in a 200: an empty answer, an error, or another dialect. Not for other statuses: see `exchange`.

use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::de::IgnoredAny;

use super::classify::in_dialect;
use super::stream::EventStream;
use photofinish_base::clock::Instant;
use photofinish_base::failure::{Failure, FailureKind, RawAnswer};
use photofinish_config::keyring;
use photofinish_race::{CutReason, HeldAttempt};
use photofinish_routing::health::RequestNotes;
use photofinish_translation::request::asked::NoAnswer;
use photofinish_wire::answer::ends::End;
use photofinish_wire::answer::error::{self, ErrorFacts};

const WEB_PAGE: &str = "it answered with a web page: is base_url right?";

impl ReadyAttempt {
    /// The failure of a complete answer without content.
    pub fn nothing_said(&mut self, body: Bytes) -> Failure {
        let mut failure = self.stream.said_nothing();
        failure.answer = Some(nothing_said(&self.stream, &self.headers, body, true));
        failure
    }
}

impl EventStream {
    /// Ends the attempt: its answer has no content, because the vendor's filter withheld it or none was generated.
    fn said_nothing(&mut self) -> Failure {
        match self.guard.meter.finish_reason() {
            Some(reason) if End::of(reason).is_refusal() => {
                let message = format!("the answer was withheld (`{reason}`)");
                self.fail(FailureKind::ContentPolicy, message)
            }
            _ => self.fail(FailureKind::Empty, "it finished without generating anything"),
        }
    }
}

/// The stream ended without generated output. If it has a finish reason it is an answer: it is kept in case all the others are
/// empty, completed with an end event. Without a finish reason it is a failure.
pub(super) fn without_payload(
    stream: &mut EventStream,
    mut held: BytesMut,
    headers: &HeaderMap,
    has_ended: bool,
) -> Failure {
    if !stream.is_complete() {
        return if content_type_is(headers, "text/html") {
            stream.fail(FailureKind::Malformed, WEB_PAGE)
        } else {
            stream.ended_too_early()
        };
    }
    if !has_ended || stream.is_translated() {
        held.extend_from_slice(&stream.ending());
    }
    let mut failure = stream.said_nothing();
    failure.answer = Some(nothing_said(stream, headers, held.freeze(), false));
    failure
}

/// An empty answer in the caller's dialect, in case it is passed on.
fn nothing_said(stream: &EventStream, headers: &HeaderMap, body: Bytes, whole: bool) -> RawAnswer {
    let mut headers = headers.clone();
    keyring::scrub_headers(&mut headers, stream.key());
    if stream.is_translated() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    }
    RawAnswer { whole, ..answer(StatusCode::OK.as_u16(), &headers, body) }
}

/// An error in a 200 has the kind that it names. If it blames the request the client may have to see it.
pub(super) fn error_in_a_200(stream: &mut EventStream, facts: ErrorFacts, data: Bytes) -> Failure {
    let mut failure = stream.fail_with(facts);
    if data.is_empty() {
        // The gateway's own message; the provider sent none.
        return failure;
    }
    let status = failure.status.unwrap_or(StatusCode::BAD_REQUEST.as_u16());
    let mut headers = HeaderMap::new();
    let is_json = matches!(data.trim_ascii_start().first(), Some(b'{' | b'['));
    let content_type = if is_json { "application/json" } else { "text/plain; charset=utf-8" };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    failure.answer = Some(answer(status, &headers, data));
    failure
}

pub(super) fn answer(status: u16, headers: &HeaderMap, body: Bytes) -> RawAnswer {
    RawAnswer { status, headers: Box::new(headers.clone()), body, whole: false }
}

/// A body that is not an answer: another dialect, not JSON, an error, or something else than was asked for.
pub(super) fn no_answer(stream: &mut EventStream, headers: &HeaderMap, body: Bytes, why: NoAnswer) -> Failure {
    let text = body.trim_ascii();
    if text.is_empty() {
        return stream.fail(FailureKind::Closed, "it ended without an answer");
    }
    if content_type_is(headers, "text/html") || text.starts_with(b"<") {
        return stream.fail(FailureKind::Malformed, WEB_PAGE);
    }
    if let Some(dialect) = stream.response_translation.of_another(&body) {
        return stream.fail(FailureKind::Malformed, in_dialect(dialect));
    }
    let is_unread_json = matches!(text.first(), Some(b'{' | b'[' | b'"'));
    if is_unread_json && serde_json::from_slice::<IgnoredAny>(&body).is_err() {
        return stream.fail(FailureKind::Malformed, "an answer that is no JSON");
    }
    match why {
        Some(why) => stream.fail(FailureKind::Malformed, why),
        None => error_in_a_200(stream, error::of_frame(&body), body),
    }
}

pub(super) fn content_type_is(headers: &HeaderMap, name: &str) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    content_type.is_some_and(|value| value.trim_start().to_ascii_lowercase().starts_with(name))
}

/// An attempt whose first token has arrived, or its whole answer if the client does not stream.
pub struct ReadyAttempt {
    pub status: StatusCode,
    /// The upstream's headers, unchanged.
    pub headers: HeaderMap,
    /// A rate limit is used up for this long.
    pub exhausted_for: Option<Duration>,
    /// The bytes up to the end of the first event with payload.
    pub prelude: Bytes,
    pub stream: EventStream,
    /// When the first token was seen.
    pub at: Instant,
    /// The assembled answer. The stream then has nothing more that a client needs.
    pub whole: Option<Bytes>,
    /// What its request was without, and why.
    pub notes: RequestNotes,
}

impl HeldAttempt for ReadyAttempt {
    fn poll_held(&mut self, context: &mut Context<'_>) -> Poll<Failure> {
        self.stream.read_ahead(context)
    }

    fn cut(&mut self, cut: CutReason) {
        match cut {
            CutReason::Lost => self.stream.lost(),
            CutReason::Late | CutReason::Deadline => {
                self.stream.time_out();
            }
        }
    }
}
