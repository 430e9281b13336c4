//! Spans of sample rows, as OpenTelemetry's own code writes them; and the bounds of what waits.

use std::path::Path;

use bytes::Bytes;
use http::Request;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use prost::Message as _;

use super::*;
use photofinish_config::{CancelBilling, parse};
use photofinish_facts::bill::BillBounds;
use photofinish_facts::record::sample::{self, STARTED_AT};
use photofinish_facts::record::{AttemptRecord, RaceOutcome, RaceRecord, RaceSource};
use photofinish_facts::recording::RaceRecorder as _;
use photofinish_history::recorder::Recorder;
use photofinish_translation::ApiRequest;
use photofinish_wire::Surface;

const UNBILLED: BillBounds = BillBounds::new(CancelBilling::Unknown);
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn config() -> Config {
    let variables = |name: &str| match name {
        "OTEL_EXPORTER_OTLP_ENDPOINT" => Some("http://collector".to_owned()),
        "OTEL_RESOURCE_ATTRIBUTES" => Some("service.name=other,deployment.environment.name=test".to_owned()),
        "OTEL_SERVICE_NAME" => Some("edge".to_owned()),
        _ => None,
    };
    let text = "[providers.groq]\napi_key = \"planted\"\n[providers.my-vllm]\nbase_url = \"http://box:8000/v1\"";
    parse(text, Path::new("config.toml"), &variables).unwrap()
}

/// The spans of this race, whose attempts took 3 s each.
fn spans_of_race(
    race: RaceRecord,
    attempts: Vec<AttemptRecord>,
    headers: &[(&'static str, &'static str)],
) -> Vec<SpanData> {
    let (config, queue) = (config(), Arc::new(SpanQueue::default()));
    let sampler = config.otlp.as_ref().unwrap().sampler;
    let call =
        Request::post("/v1/chat/completions?key=planted").header("host", "[::1]:8080").header("user-agent", "openai/1");
    let call = headers.iter().fold(call, |call, (name, value)| call.header(*name, *value));
    let trace = RaceTrace::begin(sampler, &call.body(()).unwrap());
    let body = r#"{"model":"m","messages":[{"role":"user","content":"planted"}],"n":2,"temperature":0.7,"top_p":0.9,"seed":42,"stop":["planted"],
        "reasoning_effort":"low","response_format":{"type":"json_object"}}"#;
    let parsed = ApiRequest::parse(Surface::Chat, Bytes::from_static(body.as_bytes())).unwrap();
    trace.settings.set(parsed.settings()).unwrap();
    let sink = Recorder::without_store().for_race(RaceSource::Client);
    let ending = queue.clone();
    sink.ends_with(Box::new(move |ended| ending.ended(&trace, &config, ended)));
    for attempt in attempts {
        sink.bill(attempt.ordinal, UNBILLED);
        sink.attempt(Box::new(attempt), None, 3_000_000);
    }
    sink.race(Box::new(race), None);
    drop(sink);
    queue.take()
}

/// The request that a collector would get for it.
fn exported(
    race: RaceRecord,
    attempts: Vec<AttemptRecord>,
    headers: &[(&'static str, &'static str)],
) -> ExportTraceServiceRequest {
    let resource = (&export::resource(&config().otlp.unwrap(), "one")).into();
    let spans = spans_of_race(race, attempts, headers);
    ExportTraceServiceRequest { resource_spans: group_spans_by_resource_and_scope(spans, &resource) }
}

fn spans_of(request: &ExportTraceServiceRequest) -> &[Span] {
    &request.resource_spans[0].scope_spans[0].spans
}

/// The attributes as text, by name.
fn shown(attributes: &[KeyValue]) -> Vec<String> {
    let value = |value: &Option<AnyValue>| match value.as_ref().unwrap().value.as_ref().unwrap() {
        Value::StringValue(text) => text.clone(),
        Value::BoolValue(flag) => flag.to_string(),
        Value::IntValue(whole) => whole.to_string(),
        Value::DoubleValue(real) => format!("{real:?}"),
        Value::ArrayValue(list) => {
            format!("{:?}", list.values.iter().map(|value| value.value.clone().unwrap()).collect::<Vec<_>>())
        }
        other => panic!("{other:?}"),
    };
    attributes.iter().map(|pair| format!("{} = {}", pair.key, value(&pair.value))).collect()
}

#[test]
fn a_race_is_a_server_span_with_a_client_span_for_each_attempt() {
    let attempts = vec![
        AttemptRecord { failure: None, cancel_us: None, ..sample::won(1) },
        sample::lost(1, 99_000),
        sample::failed(1),
    ];
    let race = RaceRecord { n_choices: Some(2), ..sample::race(1) };
    let request = exported(race, attempts, &[("traceparent", PARENT), ("tracestate", "a=1")]);
    let [server, won, lost, failed] = spans_of(&request) else { panic!("{request:#?}") };
    assert_eq!((server.name.as_str(), server.kind), ("POST /v1/chat/completions", 2));
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(format!("00-{}-{}-01", hex(&server.trace_id), hex(&server.parent_span_id)), PARENT);
    let start = STARTED_AT as u64 + 1_000;
    let times = |span: &Span| [span.start_time_unix_nano, span.end_time_unix_nano].map(|nanos| nanos - start * 1_000);
    assert_eq!(times(server), [0, 2_101_500_000]);
    for attempt in [won, lost, failed] {
        assert_eq!((attempt.kind, attempt.name.as_str()), (3, "chat llama-70b"));
        assert_eq!((&attempt.trace_id, &attempt.parent_span_id), (&server.trace_id, &server.span_id));
        assert_eq!(times(attempt)[0], 1_000_000);
    }
    // When its body ended, when it was dropped, and what it took without either.
    let ends = [won, lost, failed].map(|span| times(span)[1]);
    assert_eq!(ends, [2_101_200_000, 3_001_000_000, 3_001_000_000]);
    assert!([server, won].iter().all(|span| span.trace_state == "a=1" && span.flags & 1 == 1));
    assert_eq!([server.flags, won.flags], [0x301, 0x101], "of another process, of this one");
    let codes = [server, won, lost, failed].map(|span| span.status.as_ref().unwrap().code);
    assert_eq!(codes, [0, 0, 0, 2], "a loser is no error");
    let text = [server, won, lost, failed]
        .map(|span| format!("{}\n{}", span.name, shown(&span.attributes).join("\n")))
        .join("\n\n");
    assert!(!text.contains("planted") && !text.contains("k1") && !text.contains("k3yAbcd9"), "{text}");
    // Names are for other programs: they change on purpose only.
    let expected: Vec<&str> = include_str!("tests/spans.txt").lines().collect();
    assert_eq!(text.lines().collect::<Vec<_>>(), expected, "{text}");
}

#[test]
fn the_gateway_names_itself() {
    let request = exported(sample::race(1), vec![], &[]);
    let resource = request.resource_spans[0].resource.as_ref().unwrap();
    let version = concat!("service.version = ", env!("CARGO_PKG_VERSION"));
    let mut all = shown(&resource.attributes);
    all.sort_unstable();
    let expected = ["deployment.environment.name = test", "service.instance.id = one", "service.name = edge", version];
    assert_eq!(all, expected);
    let scope = request.resource_spans[0].scope_spans[0].scope.as_ref().unwrap();
    assert_eq!(request.resource_spans[0].scope_spans[0].schema_url, "https://opentelemetry.io/schemas/1.45.0");
    assert_eq!((scope.name.as_str(), scope.version.as_str()), ("photofinish", env!("CARGO_PKG_VERSION")));
    let [server] = spans_of(&request) else { panic!("{request:#?}") };
    assert!(server.parent_span_id.is_empty() && server.trace_state.is_empty(), "it begins its trace");
}

#[test]
fn a_request_is_an_error_if_the_gateway_failed() {
    for (outcome, status, expected) in [
        (RaceOutcome::Ok, Some(200), None),
        (RaceOutcome::Error, Some(502), Some("502")),
        (RaceOutcome::Rejected, Some(400), None),
        (RaceOutcome::Error, Some(400), None),
        (RaceOutcome::Rejected, Some(503), Some("503")),
        (RaceOutcome::Error, Some(200), Some("stream_broken")),
        (RaceOutcome::Shutdown, Some(200), Some("shutdown")),
        (RaceOutcome::ClientGone, None, None),
    ] {
        let request = exported(RaceRecord { outcome, http_status: status, ..sample::race(1) }, vec![], &[]);
        let span = &spans_of(&request)[0];
        let errors: Vec<_> =
            shown(&span.attributes).into_iter().filter(|pair| pair.starts_with("error.type")).collect();
        let shown: Vec<_> = expected.into_iter().map(|error| format!("error.type = {error}")).collect();
        let is_error = span.status.as_ref().unwrap().code == 2;
        assert_eq!((errors, is_error), (shown, expected.is_some()), "{outcome:?} {status:?}");
    }
}

#[test]
fn a_long_text_is_cut() {
    let request = exported(RaceRecord { model: "ü".repeat(9_999), ..sample::race(1) }, vec![], &[]);
    let shown = shown(&spans_of(&request)[0].attributes);
    let model = shown.iter().find_map(|pair| pair.strip_prefix("photofinish.model = "));
    assert_eq!(model.map(str::len), Some(1024));
}

#[test]
fn what_waits_is_bounded() {
    let queue = SpanQueue::default();
    // A clone has no spare room.
    let race = spans_of_race(sample::race(1), vec![sample::won(1), sample::failed(1)], &[]).clone();
    let (count, bytes) = (race.len(), race.iter().map(spans::size).sum::<usize>());
    (0..=WAITING_MAX / bytes).for_each(|_| queue.add(race.clone()));
    let batches: Vec<_> = std::iter::from_fn(|| Some(queue.take()).filter(|batch| !batch.is_empty())).collect();
    assert!(batches.iter().all(|batch| batch.len() <= BATCH_MAX));
    let kept: usize = batches.iter().map(Vec::len).sum();
    assert_eq!((kept, queue.dropped()), (WAITING_MAX / bytes * count, count as u64));
    assert_eq!(queue.waiting().bytes, 0);
}

#[test]
fn a_collector_may_refuse_a_part() {
    let answer = |rejected_spans, message: &str| {
        let partial = ExportTracePartialSuccess { rejected_spans, error_message: message.to_owned() };
        ExportTraceServiceResponse { partial_success: Some(partial) }.encode_to_vec()
    };
    for (answer, expected) in [
        (vec![], 0),
        (answer(0, ""), 0),
        (answer(0, "a warning"), 0),
        (answer(7, "no"), 7),
        (answer(300, ""), 300),
        (b"{}".to_vec(), 0),
        (vec![0xa], 0),
        (vec![0xa, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], 0),
    ] {
        assert_eq!(export::refused(&answer), expected, "{answer:?}");
    }
}
