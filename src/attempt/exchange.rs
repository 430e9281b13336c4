//! The exchange itself: connect, send, read to the first payload. What comes before it is held back.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::Spec;
use super::guard::Guard;
use super::stream::{EVENT_MAX, EventStream, Kind};
use crate::clock::Instant;
use crate::config::Auth;
use crate::failure::{Answer, Failure, FailureKind, Phase};
use crate::protocol::{error, openai};
use crate::routing::keyring::{Key, scrub};
use crate::upstream::{Body, Outgoing, Response};

/// Bytes that are held back before the first payload.
const PRELUDE_MAX: usize = 1 << 20;
/// Bytes of an error body that are kept.
const ERROR_BODY_MAX: usize = 64 << 10;
/// How long an error body may take.
const ERROR_BODY_FOR: Duration = Duration::from_secs(5);

/// An attempt whose first token is there.
pub struct Ready {
    pub status: StatusCode,
    /// As the upstream sent them.
    pub headers: HeaderMap,
    /// Everything up to the end of the first event with payload, as it came.
    pub prelude: Bytes,
    /// The short hash of the key that was sent.
    pub key_id: Option<String>,
    pub stream: EventStream,
}

/// Runs until the first token or a failure.
pub(super) async fn exchange(mut spec: Spec, dispatch: Instant, fate: Arc<AtomicU8>) -> Result<Ready, Failure> {
    let mut guard = Guard::new(&mut spec, dispatch, fate);
    let outgoing = outgoing(&spec);
    let sent = spec.client.send(&outgoing, |connected| guard.connected(connected)).await;
    let response = match sent {
        Ok(response) => response,
        Err(failure) => {
            guard.failed(&failure);
            return Err(failure);
        }
    };
    guard.head(&response);
    let key = spec.key.take();
    if !response.status.is_success() {
        let failure = refused(response, key.as_ref()).await;
        guard.failed(&failure);
        return Err(failure);
    }
    let Response { status, headers, body } = response;
    let key_id = key.as_ref().map(|key| key.id().to_owned());
    let mut stream =
        if is_json(&headers) { whole(body, key, guard).await? } else { EventStream::new(Some(body), key, guard) };
    let prelude = prelude(&mut stream).await?;
    Ok(Ready { status, headers, prelude, key_id, stream })
}

/// Reads to the end of the first event with payload.
async fn prelude(stream: &mut EventStream) -> Result<Bytes, Failure> {
    let mut held = BytesMut::new();
    loop {
        let Some(item) = poll_fn(|context| stream.poll_item(context)).await else {
            return Err(without_payload(stream, held.freeze()));
        };
        let item = item?;
        match item.kind {
            Kind::Malformed => continue,
            Kind::Error(facts) => return Err(stream.fail_with(facts)),
            Kind::Payload if held.is_empty() => return Ok(item.raw),
            _ => held.extend_from_slice(&item.raw),
        }
        if matches!(item.kind, Kind::Payload) {
            return Ok(held.freeze());
        }
        if matches!(item.kind, Kind::Done) {
            return Err(without_payload(stream, held.freeze()));
        }
        if held.len() > PRELUDE_MAX {
            return Err(stream.fail(FailureKind::Malformed, format!("{PRELUDE_MAX} bytes without a token")));
        }
    }
}

/// The stream ended and nothing was generated. `empty` is an answer too: it is kept, should all the others be empty.
fn without_payload(stream: &mut EventStream, held: Bytes) -> Failure {
    let message = if stream.is_complete() {
        "it finished without generating anything"
    } else {
        "it ended without generating anything"
    };
    let mut failure = stream.fail(FailureKind::Empty, message);
    failure.status = Some(StatusCode::OK.as_u16());
    failure.answer = Some(Answer {
        status: StatusCode::OK.as_u16(),
        content_type: Some("text/event-stream".to_owned()),
        headers: Box::default(),
        body: held,
    });
    failure
}

/// A 200 that is no stream: an error body, or a server that does not stream and answers at once.
async fn whole(body: Body, key: Option<Key>, mut guard: Guard) -> Result<EventStream, Failure> {
    let (bytes, ended) = collect(body, EVENT_MAX).await;
    if let Err(mut failure) = ended {
        failure.phase = Phase::FirstToken;
        guard.failed(&failure);
        return Err(failure);
    }
    let bytes = scrub(bytes, key.as_ref());
    let events = openai::events_of_whole(&bytes);
    let mut stream = EventStream::new(None, key, guard);
    match events {
        Some(events) => stream.push(events),
        None => return Err(stream.fail_with(error::of_frame(&bytes))),
    }
    Ok(stream)
}

/// Reads an error answer; one that breaks off or takes too long is kept as far as it came.
async fn refused(response: Response, key: Option<&Key>) -> Failure {
    let status = response.status.as_u16();
    let (body, _) = match tokio::time::timeout(ERROR_BODY_FOR, collect(response.body, ERROR_BODY_MAX)).await {
        Ok(collected) => collected,
        Err(_) => (Bytes::new(), Ok(())),
    };
    let body = scrub(body, key);
    let facts = error::of_body(status, &body);
    let mut failure = Failure::new(facts.kind, Phase::Headers, facts.message);
    failure.status = Some(status);
    failure.retry_after = retry_after(&response.headers);
    let content_type = response.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(str::to_owned);
    failure.answer = Some(Answer { status, content_type, headers: Box::default(), body });
    failure
}

/// Reads a body to its end, or `max` bytes of it. What came is given also where it broke off.
async fn collect(mut body: Body, max: usize) -> (Bytes, Result<(), Failure>) {
    let mut bytes = BytesMut::new();
    while let Some(chunk) = poll_fn(|context| body.poll_chunk(context)).await {
        match chunk {
            Ok(chunk) if bytes.len() + chunk.len() <= max => bytes.extend_from_slice(&chunk),
            Ok(_) => {
                let failure = Failure::new(
                    FailureKind::Malformed,
                    Phase::FirstToken,
                    format!("an answer of more than {max} bytes"),
                );
                return (bytes.freeze(), Err(failure));
            }
            Err(failure) => return (bytes.freeze(), Err(failure)),
        }
    }
    (bytes.freeze(), Ok(()))
}

fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    content_type.is_some_and(|value| value.trim_start().to_ascii_lowercase().starts_with("application/json"))
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

fn outgoing(spec: &Spec) -> Outgoing {
    let mut headers = spec.headers.clone();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
    // A compressed stream is a buffered stream.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("photofinish/", env!("CARGO_PKG_VERSION"))));
    if let Some((name, value)) =
        spec.key.as_ref().and_then(|key| credential(&spec.upstream.provider.auth, key.expose()))
    {
        headers.insert(name, value);
    }
    Outgoing {
        endpoint: spec.endpoint.clone(),
        path: "/chat/completions",
        headers,
        body: spec.request.body_for(&spec.upstream.model, spec.stream_options),
        connect_timeout: spec.upstream.timeouts.connect,
    }
}

/// The header that carries a key. A key that is no header value is left out, and the provider will say so.
fn credential(auth: &Auth, key: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, text) = match auth {
        Auth::Bearer => (AUTHORIZATION, format!("Bearer {key}")),
        Auth::Header(name) => (HeaderName::try_from(name.as_str()).ok()?, key.to_owned()),
    };
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    Some((name, value))
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn each_way_of_sending_a_key_is_marked_sensitive() {
        let (name, value) = credential(&Auth::Bearer, "k").unwrap();
        assert!(name == AUTHORIZATION && value == "Bearer k" && value.is_sensitive());
        let (name, value) = credential(&Auth::Header("api-key".to_owned()), "k").unwrap();
        assert!(name == "api-key" && value == "k" && value.is_sensitive());
        assert!(credential(&Auth::Bearer, "line\nbreak").is_none());
    }
}
