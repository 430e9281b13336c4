//! The head of a winner's answer, and which upstream headers reach the client. Not for races without a winner: see
//! `all_failed`.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, Response};

use crate::attempt::ReadyAttempt;
use crate::proxy::request::candidate_set::CandidateSet;
use crate::proxy::run::race_guard::RaceGuard;
use photofinish_base::clock::{Instant, micros_between};
use photofinish_config::keyring::{HashedKey, scrub_headers};
use photofinish_wire::answer::headers::is_about_rate_limits;
use photofinish_wire::{Dialect, Surface};

/// The winner's headers about the race.
pub fn about_race(
    candidates: &CandidateSet,
    candidate: usize,
    ready: &ReadyAttempt,
    read_at: Instant,
) -> Vec<(HeaderName, HeaderValue)> {
    // A plain answer has no first token.
    let ttft_us = ready.stream.first_token_us().filter(|_| !ready.stream.is_plain());
    // A whole answer came later than its first token.
    let committed_at = if ready.whole.is_some() { ready.at } else { Instant::now() };
    let client_ttft_us = micros_between(read_at, committed_at);
    let overhead_us = (client_ttft_us - token_us(ready)).max(0);
    // Three digits: as precise as a microsecond.
    let millis = |micros: i64| format!("{}.{:03}", micros / 1_000, micros % 1_000);
    let (client_ms, overhead_ms) = (millis(client_ttft_us), millis(overhead_us));
    let timing = if ttft_us.is_some() { "ttft" } else { "whole" };
    let pairs = [
        ("x-photofinish-upstream", candidates.name(candidate).to_owned()),
        ("x-photofinish-ttft-ms", ttft_us.map_or_else(String::new, |us| ((us + 500) / 1_000).to_string())),
        ("server-timing", format!("{timing};dur={client_ms}, gateway;dur={overhead_ms}")),
        ("x-photofinish-dropped", ready.notes.lost.join(", ")),
        ("x-photofinish-learnt", ready.notes.learnt.join(", ")),
        ("x-photofinish-left-out", candidates.passed_over().join(", ")),
        ("x-photofinish-quality", candidates.list[candidate].candidate.worse.as_deref().unwrap_or_default().to_owned()),
    ];
    let written = pairs.into_iter().filter(|(_, value)| !value.is_empty());
    written
        .filter_map(|(name, value)| Some((HeaderName::from_static(name), HeaderValue::try_from(value).ok()?)))
        .collect()
}

/// Microseconds from reading the request to the winner's first token.
pub fn token_us(ready: &ReadyAttempt) -> i64 {
    ready.stream.dispatch_us() + ready.stream.first_token_us().unwrap_or(0)
}

/// Every answer to an authenticated request names its race and the number of attempts so far.
pub fn name_race(headers: &mut HeaderMap, guard: &RaceGuard) {
    let race_id = guard.race_id();
    if let Ok(id) = HeaderValue::from_str(race_id) {
        headers.insert("x-photofinish-race", id);
    }
    headers.insert("x-photofinish-attempts", HeaderValue::from(guard.started()));
    guard.tell_limits(headers);
    // Clients show it with an error; an upstream's own id takes precedence.
    let name = if guard.surface().dialect() == Dialect::Anthropic { "request-id" } else { "x-request-id" };
    if let (false, Ok(id)) = (headers.contains_key(name), HeaderValue::from_str(race_id)) {
        headers.insert(name, id);
    }
}

/// The head of a streamed answer.
pub fn head(ready: &ReadyAttempt, about_race: Vec<(HeaderName, HeaderValue)>) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = ready.status;
    let headers = response.headers_mut();
    *headers = passed_on(&ready.headers, ready.stream.key());
    event_stream(headers, ready.stream.surface());
    headers.extend(about_race);
    response
}

/// The headers of every streamed answer.
pub fn event_stream(headers: &mut HeaderMap, surface: Surface) {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(surface.framing().content_type()));
    // Proxies must not buffer tokens.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
}

/// An assembled answer.
pub fn whole(ready: &ReadyAttempt, about_race: Vec<(HeaderName, HeaderValue)>, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = ready.status;
    let headers = response.headers_mut();
    *headers = passed_on(&ready.headers, ready.stream.key());
    headers.extend(whole_type(ready.stream.surface(), &ready.headers).map(|value| (CONTENT_TYPE, value)));
    scrub_headers(headers, ready.stream.key());
    headers.extend(about_race);
    response
}

/// The content type of a whole answer. None: the upstream sent none with a body that was not read.
pub fn whole_type(surface: Surface, upstream: &HeaderMap) -> Option<HeaderValue> {
    if surface.is_passed() {
        upstream.get(CONTENT_TYPE).cloned()
    } else {
        Some(HeaderValue::from_static("application/json"))
    }
}

/// Keeps request ids, rate limits and Retry-After; drops cookies, `server`, connection headers and unknown ones. Removes `key`
/// from the values.
pub fn passed_on(upstream: &HeaderMap, key: Option<&HashedKey>) -> HeaderMap {
    let goes = |name: &str| PASSED_ON.contains(&name) || is_about_rate_limits(name);
    // With room for the gateway's own, so that the map does not grow three times.
    let mut headers = HeaderMap::with_capacity(ANSWER_HEADERS);
    headers.extend(
        upstream.iter().filter(|(name, _)| goes(name.as_str())).map(|(name, value)| (name.clone(), value.clone())),
    );
    scrub_headers(&mut headers, key);
    headers
}

/// Headers of most answers, at most.
const ANSWER_HEADERS: usize = 20;

/// Headers that clients read. Rate limits are recognised by pattern.
const PASSED_ON: [&str; 11] = [
    "x-request-id",
    "request-id",
    "x-amzn-requestid",
    "apim-request-id",
    "x-goog-request-id",
    "retry-after",
    "retry-after-ms",
    "openai-processing-ms",
    "openai-version",
    "openai-model",
    "x-simulated",
];

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::*;

    #[test]
    fn a_known_list_goes_down_without_the_key() {
        let key = HashedKey::new(SecretString::from("sk-planted/1"), false);
        let came = [
            ("x-request-id", "req-1"),
            ("request-id", "for sk-planted/1 and sk-planted%2f1"),
            ("retry-after-ms", "20"),
            ("x-ratelimit-remaining-tokens", "7"),
            ("anthropic-ratelimit-input-tokens-reset", "2026-01-01T00:00:00Z"),
            ("x-ratelimit-remaining-tokens-of-sk-planted", "1"),
            ("x-debug-request-id", "1"),
            ("retry-after-sk-planted", "1"),
            ("set-cookie", "a=b"),
            ("server", "x"),
            ("content-type", "text/html"),
            ("x-echo", "sk-planted/1"),
        ];
        let came: HeaderMap =
            came.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect();
        let mut went: Vec<(String, String)> = passed_on(&came, Some(&key))
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect();
        went.sort();
        let expected = [
            ("anthropic-ratelimit-input-tokens-reset", "2026-01-01T00:00:00Z"),
            ("request-id", "for *** and ***"),
            ("retry-after-ms", "20"),
            ("x-ratelimit-remaining-tokens", "7"),
            ("x-request-id", "req-1"),
        ];
        assert_eq!(went, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
