//! The place of a request in a distributed trace, by W3C Trace Context: what the client's headers say, and what each attempt
//! sends to its upstream.
//!
//! Not for spans: who makes them is a [`SpanSink`].

use std::sync::OnceLock;

use http::header::{HOST, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Version};

use photofinish_config::{Config, TraceSampler};
use photofinish_facts::recording::EndedRace;
use photofinish_translation::RequestSettings;
use photofinish_wire::Surface;

/// Bytes of a `traceparent`; a longer one is no trace.
const PARENT_MAX: usize = 64;
/// Bytes of a `tracestate`; a longer one is not passed on.
const STATE_MAX: usize = 512;

/// Headers of a usual request to an upstream.
const HEADERS: usize = 9;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Makes spans of requests.
pub trait SpanSink: Send + Sync {
    /// A sampled request and its attempts are over. Called within a request, so it must not wait.
    fn ended(&self, trace: &RaceTrace, config: &Config, race: &EndedRace<'_>);

    /// Spans that were lost since the start.
    fn dropped(&self) -> u64;
}

/// One request in its trace.
#[derive(Debug)]
pub struct RaceTrace {
    /// Never 0.
    pub trace_id: u128,
    /// The request's own; never 0.
    pub span_id: u64,
    /// The client's. None: the trace begins here.
    pub parent_id: Option<u64>,
    /// Spans are made of it.
    pub is_sampled: bool,
    /// `tracestate`: what the client's tracing systems pass on.
    state: Option<HeaderValue>,
    /// None: no spans are made of it.
    pub call: Option<TracedCall>,
    /// What the request asks of the model, once it is parsed; only of what spans are made of.
    pub settings: OnceLock<RequestSettings>,
}

/// The HTTP request of the client. Never its query, which may hold a key.
#[derive(Clone, Debug)]
pub struct TracedCall {
    pub method: Method,
    pub version: Version,
    /// The route that took it, as it is declared.
    pub route: Option<String>,
    pub path: String,
    /// The host and the port that the client named.
    pub host: Option<(String, Option<u16>)>,
    pub user_agent: Option<String>,
}

impl TracedCall {
    fn of<B>(request: &Request<B>) -> TracedCall {
        let (uri, headers) = (request.uri(), request.headers());
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let authority = uri.authority().cloned().or_else(|| text(HOST)?.parse().ok());
        TracedCall {
            method: request.method().clone(),
            version: request.version(),
            // Axum would keep its own word for each request, traced or not.
            route: Surface::ALL.into_iter().map(Surface::path).find(|path| *path == uri.path()).map(str::to_owned),
            path: uri.path().to_owned(),
            host: authority.map(|named| (named.host().trim_matches(['[', ']']).to_owned(), named.port_u16())),
            user_agent: text(USER_AGENT).map(str::to_owned),
        }
    }
}

impl RaceTrace {
    pub fn begin<B>(sampler: TraceSampler, request: &Request<B>) -> RaceTrace {
        let headers = request.headers();
        let caller = caller(headers);
        // Not the race's id: half of its bits are a time, and by the lower ones samplers choose.
        let trace_id = caller.map_or_else(|| fastrand::u128(1..), |caller| caller.trace_id);
        let is_sampled = sampler.takes(caller.map(|caller| caller.is_sampled), trace_id);
        RaceTrace {
            trace_id,
            span_id: fastrand::u64(1..),
            parent_id: caller.map(|caller| caller.span_id),
            is_sampled,
            state: caller.and_then(|_| state(headers)),
            call: is_sampled.then(|| TracedCall::of(request)),
            settings: OnceLock::new(),
        }
    }

    /// The span of the attempt with this ordinal: follows from the request's, so that it need not be kept.
    pub fn attempt_id(&self, ordinal: usize) -> u64 {
        // The mixing function of splitmix64.
        let mut id = self.span_id.wrapping_add((ordinal as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        id = (id ^ (id >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        id = (id ^ (id >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (id ^ (id >> 31)).max(1)
    }

    /// What `tracestate` says. Empty: nothing.
    pub fn state(&self) -> &str {
        self.state.as_ref().and_then(|state| state.to_str().ok()).unwrap_or_default()
    }

    /// Writes the trace headers of the attempt with this ordinal for its upstream.
    pub fn write_headers(&self, ordinal: usize, headers: &mut HeaderMap) {
        let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
        write_hexadecimal(&mut text[3..35], self.trace_id);
        write_hexadecimal(&mut text[36..52], u128::from(self.attempt_id(ordinal)));
        text[54] += u8::from(self.is_sampled);
        // At once for all headers of the request.
        headers.reserve(HEADERS);
        if let Ok(value) = HeaderValue::from_bytes(&text) {
            headers.insert(TRACEPARENT, value);
        }
        match &self.state {
            Some(state) => headers.insert(TRACESTATE, state.clone()),
            None => headers.remove(TRACESTATE),
        };
    }
}

/// The span of a client that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CallerSpan {
    trace_id: u128,
    span_id: u64,
    is_sampled: bool,
}

/// None: there is none, more than one, or it is not well-formed.
fn caller(headers: &HeaderMap) -> Option<CallerSpan> {
    let mut all = headers.get_all(TRACEPARENT).iter();
    let (first, None) = (all.next()?.as_bytes(), all.next()) else { return None };
    if first.len() > PARENT_MAX {
        return None;
    }
    let text = std::str::from_utf8(first).ok()?;
    let mut parts = text.split('-');
    let mut next = |digits| hexadecimal(parts.next()?, digits);
    let (version, trace_id, span_id, flags) = (next(2)?, next(32)?, next(16)?, next(2)?);
    // Later versions may append parts; 255 is forbidden.
    let is_known = version < 255 && (version > 0 || parts.next().is_none());
    let span = CallerSpan { trace_id, span_id: u64::try_from(span_id).ok()?, is_sampled: flags & 1 == 1 };
    (is_known && span.trace_id != 0 && span.span_id != 0).then_some(span)
}

/// Of `digits` digits, in lower case.
fn hexadecimal(text: &str, digits: usize) -> Option<u128> {
    let is_lower =
        text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    is_lower.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

/// Faster than by the formatter, whose rules no id needs.
fn write_hexadecimal(digits: &mut [u8], mut value: u128) {
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(value & 15) as usize];
        value >>= 4;
    }
}

/// Several headers are one list. None: there is none, or it is too long.
fn state(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut whole: Vec<u8> = Vec::new();
    for part in headers.get_all(TRACESTATE) {
        if !whole.is_empty() {
            whole.push(b',');
        }
        whole.extend_from_slice(part.as_bytes());
        if whole.len() > STATE_MAX {
            return None;
        }
    }
    if whole.is_empty() || !whole.is_ascii() { None } else { HeaderValue::from_bytes(&whole).ok() }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        all.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    fn begin(all: &[(&'static str, &str)]) -> RaceTrace {
        let variables = |name: &str| (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| "http://collector".to_owned());
        let config = photofinish_config::parse("", Path::new("config.toml"), &variables).unwrap();
        let mut request = Request::new(());
        *request.headers_mut() = headers(all);
        RaceTrace::begin(config.otlp.unwrap().sampler, &request)
    }

    #[test]
    fn a_client_s_trace_goes_on() {
        for (flags, is_sampled) in [("01", true), ("00", false), ("03", true), ("ff", true), ("02", false)] {
            let trace = begin(&[("traceparent", &format!("00-{TRACE}-{SPAN}-{flags}")), ("tracestate", "a=1,b=2")]);
            assert_eq!(format!("{:x}", trace.trace_id), TRACE);
            assert_eq!((trace.parent_id, trace.is_sampled), (Some(0x00f0_67aa_0ba9_02b7), is_sampled));
            let mut up = headers(&[("traceparent", "of somebody else"), ("tracestate", "x=1")]);
            trace.write_headers(1, &mut up);
            let expected = format!("00-{TRACE}-{:016x}-{:02x}", trace.attempt_id(1), u8::from(is_sampled));
            assert_eq!(up["traceparent"].to_str().unwrap(), expected);
            assert_eq!(up["tracestate"], "a=1,b=2");
            assert_eq!(up.len(), 2);
        }
        let later = begin(&[("traceparent", &format!("01-{TRACE}-{SPAN}-01-more"))]);
        assert_eq!(format!("{:x}", later.trace_id), TRACE, "of a later version");
    }

    #[test]
    fn what_is_no_traceparent_begins_a_trace() {
        let good = format!("00-{TRACE}-{SPAN}-01");
        for bad in [
            String::new(),
            format!("{good}-more"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{}-{SPAN}-01", "0".repeat(32)),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            good.to_uppercase(),
            good.replace('-', "_"),
            format!("00-+{}-{SPAN}-01", &TRACE[1..]),
            format!("00-{TRACE}-{SPAN}-1"),
            format!("01-{TRACE}-{SPAN}-01-{}", "x".repeat(10)),
            "0".repeat(10 << 10),
        ] {
            let trace = begin(&[("traceparent", &bad), ("tracestate", "a=1")]);
            assert!(trace.parent_id.is_none() && trace.trace_id != 0 && trace.is_sampled, "{bad}");
            assert_eq!(trace.state(), "", "it belongs to the other");
        }
        let twice = begin(&[("traceparent", &good), ("traceparent", &good)]);
        assert_eq!(twice.parent_id, None);
        assert_ne!(twice.trace_id, begin(&[]).trace_id);
    }

    #[test]
    fn a_tracestate_has_a_bound() {
        let parent = format!("00-{TRACE}-{SPAN}-01");
        let state = |all: &[&str]| {
            let all = all.iter().map(|state| ("tracestate", *state));
            begin(&[("traceparent", parent.as_str())].into_iter().chain(all).collect::<Vec<_>>()).state().to_owned()
        };
        assert_eq!(state(&["a=1", "b=2"]), "a=1,b=2");
        assert_eq!(state(&[&"x".repeat(512)]).len(), 512);
        assert_eq!(state(&[&"x".repeat(513)]), "");
        assert_eq!(state(&["a=1", &"x".repeat(509)]), "");
    }

    #[test]
    fn each_attempt_has_an_id_of_its_own() {
        let trace = begin(&[]);
        let ids: std::collections::BTreeSet<u64> = (0..64).map(|ordinal| trace.attempt_id(ordinal)).collect();
        assert!(ids.len() == 64 && !ids.contains(&trace.span_id));
    }
}
