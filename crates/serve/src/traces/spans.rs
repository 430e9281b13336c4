//! The spans of one race, made from its finished rows: one for the request, one for each attempt. Names, times, counts and
//! outcomes; never content, never a key.
//!
//! Only attempts have the attributes of generative AI: a tool that adds up costs would otherwise count a request twice.

use std::time::{Duration, SystemTime};

use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId};
use opentelemetry::{Array, InstrumentationScope, Key, KeyValue, StringValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use super::names;
use photofinish_config::Config;
use photofinish_facts::record::{AttemptOutcome, AttemptRecord, RaceOutcome, RaceRecord, Record};
use photofinish_facts::recording::EndedRace;
use photofinish_gateway::proxy::{RaceTrace, TracedCall};
use photofinish_translation::RequestSettings;

/// Attributes that a span usually has.
const USUAL: usize = 32;

/// What every span has.
struct SpanHead {
    span_id: u64,
    /// 0: it begins its trace.
    parent_id: u64,
    kind: SpanKind,
    name: String,
    /// Microseconds since 1970.
    start: i64,
    end: i64,
    is_error: bool,
}

/// The spans of a race, the request's first.
pub fn spans(trace: &RaceTrace, config: &Config, ended: &EndedRace<'_>) -> Vec<SpanData> {
    let Some(race) = ended.rows.iter().find_map(|row| if let Record::Race(race) = row { Some(race) } else { None })
    else {
        return Vec::new();
    };
    let attempts =
        || ended.rows.iter().filter_map(|row| if let Record::Attempt(attempt) = row { Some(attempt) } else { None });
    let winner = attempts().find(|attempt| Some(attempt.ordinal) == race.winner);
    let request = of_request((trace, config), race, winner.map(|winner| &**winner));
    let each = attempts().map(|attempt| of_attempt((trace, config), race, (attempt, (ended.took_us)(attempt.ordinal))));
    std::iter::once(request).chain(each).collect()
}

/// Bytes that a span holds, about.
pub fn size(span: &SpanData) -> usize {
    let text = |value: &Value| match value {
        Value::String(text) => text.as_str().len(),
        Value::Array(_) => size_of::<Value>(),
        _ => 0,
    };
    let values: usize = span.attributes.iter().map(|attribute| text(&attribute.value)).sum();
    size_of::<SpanData>() + span.name.len() + span.attributes.capacity() * size_of::<KeyValue>() + values
}

fn span(trace: &RaceTrace, head: SpanHead, attributes: SpanAttributes) -> SpanData {
    let state = trace.state().parse().unwrap_or_default();
    let id = SpanId::from(head.span_id);
    SpanData {
        span_context: SpanContext::new(TraceId::from(trace.trace_id), id, TraceFlags::SAMPLED, false, state),
        parent_span_id: SpanId::from(head.parent_id),
        parent_span_is_remote: head.kind == SpanKind::Server && head.parent_id != 0,
        span_kind: head.kind,
        name: head.name.into(),
        start_time: time(head.start),
        end_time: time(head.end),
        attributes: attributes.0,
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: if head.is_error { Status::error("") } else { Status::Unset },
        instrumentation_scope: InstrumentationScope::builder("photofinish")
            .with_version(env!("CARGO_PKG_VERSION"))
            .with_schema_url(names::SCHEMA_URL)
            .build(),
    }
}

/// Attributes under construction.
struct SpanAttributes(Vec<KeyValue>);

impl SpanAttributes {
    fn new() -> SpanAttributes {
        SpanAttributes(Vec::with_capacity(USUAL))
    }

    fn add(&mut self, name: &'static str, value: impl Into<Value>) {
        self.0.push(KeyValue::new(Key::from_static_str(name), value));
    }

    fn text(&mut self, name: &'static str, value: &str) {
        self.add(name, names::cut(value).to_owned());
    }
}

fn of_request((trace, config): (&RaceTrace, &Config), race: &RaceRecord, winner: Option<&AttemptRecord>) -> SpanData {
    let error = request_error(race);
    let mut all = SpanAttributes::new();
    let called = trace.call.as_ref().map(|call| of_call(&mut all, call, config));
    all.text(names::RACE_ID, &race.race_id);
    all.add(names::API, race.api);
    all.text(names::MODEL, &race.model);
    all.add(names::OUTCOME, race.outcome.as_str());
    all.add(names::ATTEMPTS, race.attempts);
    some(race.policy, |policy| all.add(names::POLICY, policy));
    some(winner, |winner| all.text(names::WINNER, &upstream(winner)));
    some(race.first_token_sent_us, |us| all.add(names::FIRST_TOKEN, seconds(us)));
    some(race.user.as_deref(), |user| all.text(names::USER, user));
    some(race.team.as_deref(), |team| all.text(names::TEAM, team));
    some(race.http_status, |status| all.add(names::HTTP_STATUS, status));
    some(error.as_deref(), |error| all.text(names::ERROR_TYPE, error));
    let head = SpanHead {
        span_id: trace.span_id,
        parent_id: trace.parent_id.unwrap_or(0),
        kind: SpanKind::Server,
        name: called.unwrap_or_else(|| race.api.to_owned()),
        start: race.started_at,
        end: race.started_at + race.done_us.unwrap_or(0),
        is_error: error.is_some(),
    };
    span(trace, head, all)
}

/// What the conventions for HTTP servers name, without the address of the client; returns the name of the span.
fn of_call(all: &mut SpanAttributes, call: &TracedCall, config: &Config) -> String {
    let method = names::method(&call.method);
    all.add(names::HTTP_METHOD, method);
    some(call.route.as_deref(), |route| all.text(names::HTTP_ROUTE, route));
    all.text(names::URL_PATH, &call.path);
    all.add(names::URL_SCHEME, if config.server.tls.is_some() { "https" } else { "http" });
    some(names::version(call.version), |version| all.add(names::HTTP_VERSION, version));
    if let Some((host, port)) = &call.host {
        all.text(names::SERVER_ADDRESS, host);
        some(*port, |port| all.add(names::SERVER_PORT, i64::from(port)));
    }
    some(call.user_agent.as_deref(), |agent| all.text(names::USER_AGENT, agent));
    // Of a path without a route: each may be another one.
    call.route.as_ref().map_or_else(|| method.to_owned(), |route| name(method, route))
}

fn of_attempt(
    (trace, config): (&RaceTrace, &Config),
    race: &RaceRecord,
    (attempt, took_us): (&AttemptRecord, i64),
) -> SpanData {
    let (operation, error) = (names::operation(race.api), attempt_error(attempt));
    let mut all = SpanAttributes::new();
    asked_and_told(&mut all, (trace, config), race, attempt);
    some(attempt.http_status, |status| all.add(names::HTTP_STATUS, status));
    some(attempt.http_version, |version| all.add(names::HTTP_VERSION, version));
    some(error, |error| all.add(names::ERROR_TYPE, error));
    all.text(names::UPSTREAM, &upstream(attempt));
    all.add(names::ORDINAL, attempt.ordinal);
    all.add(names::START_REASON, attempt.start_reason.as_str());
    all.add(names::OUTCOME, attempt.outcome.as_str());
    some(attempt.cost_usd_min, |usd| all.add(names::COST_LEAST, usd));
    some(attempt.cost_usd_max, |usd| all.add(names::COST_MOST, usd));
    let start = race.started_at + attempt.dispatch_us;
    let head = SpanHead {
        span_id: trace.attempt_id(usize::try_from(attempt.ordinal).unwrap_or(0)),
        parent_id: trace.span_id,
        kind: SpanKind::Client,
        name: name(operation, &attempt.model_sent),
        start,
        end: start + attempt.cancel_us.or(attempt.eof_us).unwrap_or(took_us),
        is_error: error.is_some(),
    };
    span(trace, head, all)
}

/// As the client asked for it: an upstream that does not take something may have been asked without it.
fn of_settings(all: &mut SpanAttributes, settings: &RequestSettings) {
    for (name, value) in [
        (names::REQUEST_TEMPERATURE, settings.temperature),
        (names::REQUEST_TOP_P, settings.top_p),
        (names::REQUEST_FREQUENCY_PENALTY, settings.frequency_penalty),
        (names::REQUEST_PRESENCE_PENALTY, settings.presence_penalty),
    ] {
        some(value, |value| all.add(name, value));
    }
    for (name, value) in [(names::REQUEST_TOP_K, settings.top_k), (names::REQUEST_SEED, settings.seed)] {
        some(value, |value| all.add(name, value));
    }
    some(settings.output, |output| all.add(names::OUTPUT_TYPE, output));
    for (name, value) in [
        (names::REQUEST_REASONING, &settings.reasoning_level),
        (names::CONVERSATION, &settings.conversation),
        (names::PREVIOUS_RESPONSE, &settings.previous),
    ] {
        some(value.as_deref(), |value| all.text(name, value));
    }
}

/// What the conventions for generative AI name of an attempt.
fn asked_and_told(
    all: &mut SpanAttributes,
    (trace, config): (&RaceTrace, &Config),
    race: &RaceRecord,
    attempt: &AttemptRecord,
) {
    let provider = config.providers.get(&attempt.provider);
    let server = provider.and_then(|provider| names::server(provider, attempt.dialect));
    let vendor = provider.map_or(attempt.provider.as_str(), |provider| &provider.vendor);
    all.add(names::OPERATION, names::operation(race.api));
    all.text(names::PROVIDER, names::vendor(vendor, server.map_or("", |(host, _)| host)));
    all.text(names::REQUEST_MODEL, &attempt.model_sent);
    if race.stream {
        all.add(names::REQUEST_STREAM, true);
        some(attempt.first_event_us, |us| all.add(names::FIRST_CHUNK, seconds(us)));
    }
    some(race.max_tokens, |tokens| all.add(names::REQUEST_MAX_TOKENS, tokens));
    some(race.n_choices.filter(|choices| *choices != 1), |choices| all.add(names::REQUEST_CHOICES, choices));
    some(trace.settings.get(), |settings| of_settings(all, settings));
    some(attempt.model_reported.as_deref(), |model| all.text(names::RESPONSE_MODEL, model));
    some(attempt.response_id.as_deref(), |id| all.text(names::RESPONSE_ID, id));
    some(attempt.finish_reason.as_deref(), |reason| {
        let reasons = vec![StringValue::from(names::cut(reason).to_owned())];
        all.add(names::FINISH_REASONS, Value::Array(Array::String(reasons)));
    });
    for (name, tokens) in [
        (names::INPUT_TOKENS, attempt.input_tokens),
        (names::CACHE_READ_TOKENS, attempt.cached_input_tokens),
        (names::CACHE_WRITE_TOKENS, attempt.cache_write_tokens),
        (names::OUTPUT_TOKENS, attempt.output_tokens),
        (names::REASONING_TOKENS, attempt.reasoning_tokens),
    ] {
        some(tokens, |tokens| all.add(name, tokens));
    }
    if let Some((host, port)) = server {
        all.text(names::SERVER_ADDRESS, host);
        all.add(names::SERVER_PORT, i64::from(port));
    }
}

/// The name of a span.
fn name(operation: &str, model: &str) -> String {
    let blank = if model.is_empty() { "" } else { " " };
    [names::cut(operation), blank, names::cut(model)].concat()
}

fn time(us: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(u64::try_from(us).unwrap_or(0))
}

/// The type of the error that the client got. A refusal of what the client sent is none.
fn request_error(race: &RaceRecord) -> Option<String> {
    match (race.http_status, race.outcome) {
        (Some(status @ 500..), _) => Some(status.to_string()),
        (Some(400..), _) => None,
        (_, RaceOutcome::Shutdown) => Some("shutdown".to_owned()),
        (_, RaceOutcome::Error) => Some("stream_broken".to_owned()),
        (_, RaceOutcome::Ok | RaceOutcome::ClientGone | RaceOutcome::Rejected) => None,
    }
}

/// The type of its error. Another's victory is none, and neither is the end of the client or of the gateway.
fn attempt_error(attempt: &AttemptRecord) -> Option<&'static str> {
    match attempt.outcome {
        AttemptOutcome::Lost | AttemptOutcome::Drained | AttemptOutcome::ClientGone | AttemptOutcome::Shutdown => None,
        AttemptOutcome::Empty => Some("empty"),
        _ => attempt.failure,
    }
}

fn upstream(attempt: &AttemptRecord) -> String {
    format!("{}/{}", attempt.provider, attempt.model_sent)
}

fn seconds(us: i64) -> f64 {
    us as f64 / 1e6
}

fn some<T>(value: Option<T>, write: impl FnOnce(T)) {
    if let Some(value) = value {
        write(value);
    }
}
