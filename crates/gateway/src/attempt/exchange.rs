//! The exchange: connect, send, read to the first payload. Everything before it is held back. Not for the rest of the answer.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method};

use super::credential;
use super::guard::AttemptGuard;
use super::item::{ItemKind, StreamItem};
use super::meter::Meter;
use super::no_answer::{ReadyAttempt, answer, content_type_is, error_in_a_200, no_answer, without_payload};
use super::spec::AttemptSpec;
use super::stream::{EventStream, READ_OUT_FOR};
use photofinish_base::clock::{Instant, wall_micros};
use photofinish_base::failure::{Failure, FailureKind, Phase};
use photofinish_base::memory::{Lease, Memory, MemoryFull};
use photofinish_base::pace::{YieldPace, aside};
use photofinish_config::keyring::{self, HashedKey, scrub};
use photofinish_routing::health::RequestNotes;
use photofinish_translation::ResponseTranslation;
use photofinish_transport::upstream::{Outgoing, Response, ResponseBody, UpstreamClient};
use photofinish_wire::AnswerForm;
use photofinish_wire::answer::{error, headers};
use photofinish_wire::stream::framing::Framing;

/// Bytes of an answer that are held back before its first payload.
const PRELUDE_MAX: usize = 1 << 20;
/// The same with `first_token = "answer"`, where reasoning is held back too, in bytes.
const REASONING_MAX: usize = 16 << 20;
/// Bytes of an answer that is not streamed.
const WHOLE_MAX: usize = 64 << 20;
/// Bytes of an error body that are kept.
const ERROR_BODY_MAX: usize = 64 << 10;
/// How long the body of an error is read.
const ERROR_BODY_FOR: Duration = Duration::from_millis(500);
/// The same where the status alone decides.
const KNOWN_BODY_FOR: Duration = Duration::from_millis(50);

/// Runs until the first token or a failure.
pub(super) async fn exchange(
    client: UpstreamClient,
    outgoing: Result<Outgoing, Failure>,
    response_translation: ResponseTranslation,
    bounds: Bounds,
    key: Option<HashedKey>,
    mut guard: Box<AttemptGuard>,
) -> Result<ReadyAttempt, Failure> {
    guard.dispatched();
    let outgoing = outgoing.inspect_err(|failure| guard.failed(failure))?;
    let mut response = match client.send(&outgoing, |connected| guard.connected(connected)).await {
        Ok(response) => response,
        Err(failure) => {
            guard.failed(&failure);
            return Err(failure);
        }
    };
    // A request may be large and is not needed any more.
    drop(outgoing);
    response.body.count_in(&bounds.memory);
    guard.head(&response);
    if !response.status.is_success() {
        return Err(refused(response, key.as_ref(), &bounds, &mut guard).await);
    }
    let Response { status, headers, body } = response;
    let mut stream = open(body, &headers, response_translation, &bounds, key, guard).await?;
    let prelude = prelude(&mut stream, &headers).await?;
    stream.guard.first_token();
    let exhausted_for = exhausted_for(&headers);
    let (at, whole, notes) = (Instant::now(), None, RequestNotes::default());
    Ok(ReadyAttempt { status, headers, exhausted_for, prelude, stream, at, whole, notes })
}

/// The first bytes decide the kind of body: a content type may be wrong or missing.
async fn open(
    mut body: ResponseBody,
    headers: &HeaderMap,
    response_translation: ResponseTranslation,
    bounds: &Bounds,
    key: Option<HashedKey>,
    mut guard: Box<AttemptGuard>,
) -> Result<EventStream, Failure> {
    let first = match poll_fn(|context| body.poll_chunk(context)).await {
        Some(Ok(first)) => first,
        Some(Err(mut failure)) => {
            failure.phase = Phase::FirstToken;
            guard.failed(&failure);
            return Err(failure);
        }
        None => Bytes::new(),
    };
    let text = first.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&first).trim_ascii_start();
    let is_json_text = matches!(text.first(), Some(b'{' | b'['));
    let is_whole = match response_translation.framing() {
        Framing::Sse => is_json_text && !is_event_stream(headers),
        // Each line of such a stream begins like a JSON text.
        Framing::Lines => is_json_text && is_json(headers),
        Framing::Binary => is_json_text,
        Framing::Whole => true,
    };
    // No stream begins like a web page.
    let is_whole = is_whole || text.first() == Some(&b'<');
    if is_whole || (first.is_empty() && is_json(headers)) {
        return whole(body, first, headers, response_translation, bounds, key, guard).await;
    }
    guard.note_stream();
    let mut stream =
        EventStream::new(Some(body), response_translation, bounds.event_max, key, guard, bounds.memory.lease());
    if !first.is_empty() {
        stream.push(first);
    }
    Ok(stream)
}

/// Reads to the end of the first event with payload.
async fn prelude(stream: &mut EventStream, headers: &HeaderMap) -> Result<Bytes, Failure> {
    let mut held = BytesMut::new();
    let mut read = 0;
    // After a finish without payload only usage can follow, and soon.
    let mut until = None;
    loop {
        if until.is_none() && stream.is_complete() {
            until = Some(Instant::now() + READ_OUT_FOR);
        }
        let next = poll_fn(|context| stream.poll_item(context));
        let next = match until {
            None => next.await,
            Some(until) => tokio::time::timeout_at(until, next).await.unwrap_or(None),
        };
        let Some(item) = next else {
            return Err(without_payload(stream, held, headers, false));
        };
        let StreamItem { raw, kind, size, .. } = item?;
        read += size;
        stream.hold(read)?;
        match kind {
            ItemKind::LeftOut => {}
            ItemKind::Error { facts, data } => return Err(error_in_a_200(stream, facts, data)),
            ItemKind::Payload if stream.first_token_us().is_none() => held.extend_from_slice(&raw),
            ItemKind::Payload if held.is_empty() => return Ok(raw),
            ItemKind::Payload => {
                held.extend_from_slice(&raw);
                return Ok(stream.counted(held.freeze()));
            }
            ItemKind::Done => {
                held.extend_from_slice(&raw);
                return Err(without_payload(stream, held, headers, true));
            }
            ItemKind::Other | ItemKind::Heartbeat | ItemKind::UsageOnly => {
                stream.usage_in_prelude |= matches!(kind, ItemKind::UsageOnly);
                held.extend_from_slice(&raw);
            }
        }
        let max = if stream.guard.answer_only { REASONING_MAX } else { PRELUDE_MAX };
        if read > max {
            return Err(stream.fail(FailureKind::Malformed, format!("{max} bytes without a token")));
        }
    }
}

/// A 200 that is not a stream: an error body, or the answer of a server that does not stream.
async fn whole(
    body: ResponseBody,
    first: Bytes,
    headers: &HeaderMap,
    mut response_translation: ResponseTranslation,
    bounds: &Bounds,
    key: Option<HashedKey>,
    mut guard: Box<AttemptGuard>,
) -> Result<EventStream, Failure> {
    guard.meter.read(Instant::now());
    let mut bytes = BytesMut::from(first);
    // Covers the text and the stream made of it.
    let mut lease = bounds.memory.lease();
    if let Err(mut failure) = collect(body, &mut bytes, WHOLE_MAX, &mut lease, &mut guard.meter).await {
        failure.phase = Phase::FirstToken;
        guard.failed(&failure);
        return Err(failure);
    }
    let (bytes, events) = aside(bytes.len(), || {
        let bytes = response_translation.named(scrub(bytes.freeze(), key.as_ref()));
        let events = response_translation.events_of_whole(&bytes, content_type(headers));
        (bytes, events)
    });
    let mut stream = EventStream::new(None, response_translation, WHOLE_MAX * 2, key, guard, lease);
    stream.plain = Some(bytes.clone()).filter(|_| stream.guard.record.plain);
    match events {
        // The token came with the last read, so the body has ended.
        Ok(events) => stream.push_whole(events),
        Err(why) => return Err(no_answer(&mut stream, headers, bytes, why)),
    }
    Ok(stream)
}

/// An error answer. The status decides at once; the body is read for details, as far as it comes in time.
pub(super) async fn refused(
    response: Response,
    key: Option<&HashedKey>,
    bounds: &Bounds,
    guard: &mut AttemptGuard,
) -> Failure {
    let Response { status, mut headers, body } = response;
    keyring::scrub_headers(&mut headers, key);
    let refusal = |body| refusal(status.as_u16(), &headers, body, bounds.names_stored);
    let mut failure = refusal(Bytes::new());
    guard.refused(&failure);
    // Wait longer if the text may change the meaning.
    let known_by_status = matches!(status.as_u16(), 401 | 429 | 498 | 500..);
    let patience = if known_by_status { KNOWN_BODY_FOR } else { ERROR_BODY_FOR };
    let (mut bytes, mut lease) = (BytesMut::new(), bounds.memory.lease());
    let read = collect(body, &mut bytes, ERROR_BODY_MAX, &mut lease, &mut guard.meter);
    // A partial body is kept.
    let read = tokio::time::timeout(patience, read).await;
    if let Ok(Ok(())) = read {
        guard.meter.eof(Instant::now());
    }
    failure = refusal(scrub(bytes.freeze(), key));
    match read {
        Ok(Err(unread)) if failure.answer.as_ref().is_none_or(|answer| answer.body.is_empty()) => {
            failure.message = format!("HTTP status {}: {}", status.as_u16(), unread.message);
        }
        _ => {}
    }
    guard.refused(&failure);
    failure
}

/// `names_stored`: the request names something that may not be there, whose absence says nothing of the upstream.
fn refusal(status: u16, headers: &HeaderMap, body: Bytes, names_stored: bool) -> Failure {
    let mut facts = error::of_answer(status, headers, &body);
    if names_stored && facts.kind == FailureKind::NotFound {
        (facts.kind, facts.certain) = (FailureKind::BadRequest, false);
    }
    let mut failure = Failure::new(facts.kind, Phase::Headers, facts.message);
    failure.status = Some(status);
    failure.certain = facts.certain;
    failure.whole_account =
        facts.kind == FailureKind::RateLimited && headers::names_account(headers).unwrap_or(facts.whole_account);
    let in_body = || facts.reset.and_then(|reset| reset.wait(wall_micros() / 1_000));
    failure.retry_after = retry_after(headers).or_else(in_body).or_else(|| exhausted_for(headers));
    failure.answer = Some(answer(status, headers, body));
    failure
}

/// Reads a body to its end, or `max` bytes of it.
async fn collect(
    mut body: ResponseBody,
    bytes: &mut BytesMut,
    max: usize,
    lease: &mut Lease,
    meter: &mut Meter,
) -> Result<(), Failure> {
    let mut pace = YieldPace::default();
    let mut next = |context: &mut Context<'_>| {
        ready!(pace.poll_proceed(context));
        let chunk = ready!(body.poll_chunk(context));
        chunk.iter().flatten().for_each(|chunk| pace.bytes(chunk.len()));
        Poll::Ready(chunk)
    };
    while let Some(chunk) = poll_fn(&mut next).await {
        let chunk = chunk?;
        meter.read(Instant::now());
        if bytes.len() + chunk.len() > max {
            bytes.extend_from_slice(&chunk[..max - bytes.len()]);
            return Err(Failure::new(
                FailureKind::Malformed,
                Phase::FirstToken,
                format!("an answer of more than {max} bytes"),
            ));
        }
        lease.cover(2 * (bytes.len() + chunk.len())).map_err(|MemoryFull| no_memory(Phase::FirstToken))?;
        bytes.extend_from_slice(&chunk);
    }
    Ok(())
}

fn content_type(headers: &HeaderMap) -> &str {
    headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn is_json(headers: &HeaderMap) -> bool {
    content_type_is(headers, "application/json")
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    content_type_is(headers, "text/event-stream")
}

/// `retry-after-ms`, or `retry-after` in seconds or as a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |name: &str| text(name)?.parse::<f64>().ok();
    let seconds =
        number("retry-after-ms").map(|millis| millis / 1e3).or_else(|| number(RETRY_AFTER.as_str())).or_else(|| {
            let until = jiff::fmt::rfc2822::parse(text(RETRY_AFTER.as_str())?).ok()?.timestamp();
            Some((until.as_second() - jiff::Timestamp::now().as_second()).max(0) as f64)
        });
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

fn exhausted_for(headers: &HeaderMap) -> Option<Duration> {
    headers::exhausted_for(headers, wall_micros() / 1_000)
}

/// The complete request to this upstream.
///
/// # Errors
/// There is no memory for it.
pub(super) fn outgoing(spec: &AttemptSpec) -> Result<Outgoing, Failure> {
    let mut headers = spec.headers.clone();
    headers.insert(CONTENT_TYPE, spec.request_translation.content_type());
    let provider = &spec.upstream.provider;
    let (surface, dialect) = (spec.request_translation.surface(), spec.request_translation.dialect());
    let spoken =
        provider.dialects.iter().find(|spoken| spoken.dialect == dialect).unwrap_or_else(|| provider.preferred());
    let framing = spec.request_translation.framing();
    let accept = if spec.form == AnswerForm::Plain { "application/json" } else { framing.accept() };
    headers.insert(ACCEPT, HeaderValue::from_static(accept));
    // A compressed stream is often a buffered stream.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("photofinish/", env!("CARGO_PKG_VERSION"))));
    let (method, path) = match spec.request_translation.call() {
        Some((method, path)) => (method.clone(), provider.versioned(path)),
        None => (Method::POST, provider.path(spoken, surface, &spec.upstream.model, spec.form)),
    };
    let mut outgoing = Outgoing {
        endpoint: spec.endpoint.clone(),
        method,
        path,
        headers,
        body: spec.request_translation.body_for(&spec.upstream.model, spec.form),
        connect_timeout: spec.upstream.timeouts.connect,
        fresh: spec.fresh,
    };
    credential::add(&mut outgoing, spoken, spec.exchange.key.as_ref().map(HashedKey::expose), SystemTime::now());
    Ok(outgoing)
}

/// How much an attempt may buffer.
pub(super) struct Bounds {
    /// Bytes of one event.
    pub event_max: usize,
    /// Memory of all attempts together.
    pub memory: Memory,
    /// The path names something that is stored at the upstream.
    pub names_stored: bool,
}

/// The failure of an attempt without memory.
pub(super) fn no_memory(phase: Phase) -> Failure {
    Failure::new(FailureKind::GatewayLimit, phase, "the memory for bodies and buffers is in use")
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    #[test]
    fn retry_after_is_read_in_both_units() {
        assert_eq!(retry_after(&headers(&[("retry-after", "7")])), Some(Duration::from_secs(7)));
        assert_eq!(retry_after(&headers(&[("retry-after", "0.5")])), Some(Duration::from_millis(500)));
        assert_eq!(
            retry_after(&headers(&[("retry-after", "7"), ("retry-after-ms", "250")])),
            Some(Duration::from_millis(250))
        );
        assert_eq!(retry_after(&headers(&[("retry-after", "Wed, 21 Oct 2020 07:28:00 GMT")])), Some(Duration::ZERO));
        let far = retry_after(&headers(&[("retry-after", "Tue, 21 Oct 2098 07:28:00 GMT")])).unwrap();
        assert!(far > Duration::from_secs(86_400 * 365), "{far:?}");
        for odd in ["-1", "soon", "NaN", "inf", "1e300", "Wed, 99 Oct 2026"] {
            assert_eq!(retry_after(&headers(&[("retry-after", odd)])), None, "{odd}");
        }
    }
}
