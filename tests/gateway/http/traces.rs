//! Traces: the headers that come in and go up, and the spans that a collector gets, against the rows of the history. Not for what
//! each attribute says: see `traces` of the crate `serve`.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::SocketAddr;
use std::time::Duration;

use async_trait::async_trait;
use flate2::read::GzDecoder;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value as Attribute;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as NumberValue;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tonic::codec::CompressionEncoding;

use photofinish_base::shutdown::Shutdown;

use crate::harness::answer::{advance_clock_until, read_response, silent};
use crate::harness::gateway::{Row, Setup, TestGateway};
use crate::harness::process;
use crate::support::{FakeProvider, Request, Script, soon};

const CHAT: &str = "/v1/chat/completions";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CLIENT: &str = "00f067aa0ba902b7";

async fn collector() -> FakeProvider {
    FakeProvider::answering(|_| Script::status(200, &[], "")).await
}

fn traced(setup: Setup, collector: &FakeProvider) -> Setup {
    setup.table(&format!(
        "[otlp]\nendpoint = \"http://{}\"\nheaders = {{ authorization = \"Basic planted\" }}",
        collector.addr()
    ))
}

/// All spans that it got, the requests' first.
fn spans(collector: &FakeProvider) -> Vec<Span> {
    let mut spans = Vec::new();
    for request in collector.requests() {
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/v1/traces"));
        assert_eq!(request.header("content-type"), Some("application/x-protobuf"));
        let read = read(&request);
        let scopes = read.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
        spans.extend(scopes.flat_map(|scope| scope.spans));
    }
    spans.sort_by_key(|span| span.kind);
    spans
}

/// What it got in one call.
fn read(request: &Request) -> ExportTraceServiceRequest {
    let mut body = request.body.to_vec();
    if request.header("content-encoding") == Some("gzip") {
        body.clear();
        GzDecoder::new(&request.body[..]).read_to_end(&mut body).unwrap();
    }
    ExportTraceServiceRequest::decode(&*body).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attributes(span: &Span) -> BTreeMap<&str, String> {
    let text = |value: &Attribute| match value {
        Attribute::StringValue(text) => text.clone(),
        Attribute::IntValue(whole) => whole.to_string(),
        other => format!("{other:?}"),
    };
    let pairs = span.attributes.iter();
    pairs.map(|pair| (pair.key.as_str(), text(pair.value.as_ref().unwrap().value.as_ref().unwrap()))).collect()
}

fn micros(row: &Row, column: &str) -> Option<u64> {
    row[column].as_i64().map(|us| us as u64)
}

async fn ask(gateway: &TestGateway, headers: &[(&str, &str)]) -> u16 {
    let body = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "planted prompt"}]});
    let mut client = gateway.request(CHAT, headers, &body).await;
    read_response(&mut client).await.status
}

#[tokio::test]
async fn every_row_is_a_span_in_the_trace_of_the_client() {
    let collector = collector().await;
    let winner = FakeProvider::start(vec![Script::stream(&["one ", "two"])]).await;
    let loser = FakeProvider::start(vec![silent()]).await;
    let failing = FakeProvider::start(vec![Script::status(500, &[], "planted answer")]).await;
    let setup = Setup::new().provider("a", &winner, "").provider("b", &loser, "").provider("c", &failing, "");
    let gateway = traced(setup, &collector).start().await;
    let parent = format!("00-{TRACE}-{CLIENT}-01");
    let headers = [("traceparent", parent.as_str()), ("tracestate", "vendor=1"), ("baggage", "planted=1")];
    assert_eq!(ask(&gateway, &headers).await, 200);
    let rows = gateway.stop().await;
    let spans = spans(&collector);
    let [server, clients @ ..] = spans.as_slice() else { panic!("no span") };
    assert_eq!((server.kind, hex(&server.trace_id), hex(&server.parent_span_id)), (2, TRACE.into(), CLIENT.into()));
    assert_eq!(server.name, format!("POST {CHAT}"));
    let found = attributes(server);
    let found = ["http.route", "url.path", "url.scheme", "http.request.method", "server.address"]
        .map(|name| found[name].as_str());
    assert_eq!(found, [CHAT, CHAT, "http", "POST", "localhost"]);
    let began = micros(&rows.races[0], "started_at").unwrap();
    let nanos = |us: u64| us * 1_000;
    assert_eq!(server.start_time_unix_nano, nanos(began));
    assert_eq!(server.end_time_unix_nano, nanos(began + micros(&rows.races[0], "done_us").unwrap()));
    assert_eq!((clients.len(), rows.attempts.len()), (3, 3), "a row is a span");
    for (row, upstream) in rows.attempts.iter().zip([&winner, &loser, &failing]) {
        let id = row["ordinal"].to_string();
        let span = clients.iter().find(|span| attributes(span)["photofinish.ordinal"] == id).unwrap();
        assert_eq!((span.kind, &span.trace_id, &span.parent_span_id), (3, &server.trace_id, &server.span_id));
        let dispatch = began + micros(row, "dispatch_us").unwrap();
        assert_eq!(span.start_time_unix_nano, nanos(dispatch));
        if let Some(end) = micros(row, "cancel_us").or(micros(row, "eof_us")) {
            assert_eq!(span.end_time_unix_nano, nanos(dispatch + end), "{row:?}");
        }
        assert!(span.end_time_unix_nano > span.start_time_unix_nano);
        let request = upstream.request(0).await;
        let found = format!("00-{TRACE}-{}-01", hex(&span.span_id));
        assert_eq!(request.header("traceparent"), Some(found.as_str()));
        assert_eq!((request.header("tracestate"), request.header("baggage")), (Some("vendor=1"), None));
        let failure = row["failure"].as_str();
        assert_eq!(attributes(span).get("error.type").map(String::as_str), failure);
        let is_error = span.status.as_ref().unwrap().code == 2;
        assert_eq!(is_error, failure.is_some(), "a loser is no error: {row:?}");
        assert_eq!(attributes(span)["photofinish.outcome"], row["outcome"].as_str().unwrap());
    }
    let ends: Vec<_> = rows.attempts.iter().map(|row| row["outcome"].as_str().unwrap()).collect();
    assert_eq!(ends, ["won", "lost", "failed"]);
    let sent: Vec<u8> = collector.requests().into_iter().flat_map(|request| request.body).collect();
    assert!(!String::from_utf8_lossy(&sent).contains("planted"), "no content, no key");
    assert_eq!(collector.request(0).await.header("authorization"), Some("Basic planted"));
}

#[tokio::test]
async fn a_client_that_does_not_trace_is_not_traced() {
    let (collector, fake) = (collector().await, FakeProvider::answering(|_| Script::stream(&["a"])).await);
    let gateway = traced(Setup::over(&[&fake]), &collector).start().await;
    assert_eq!(ask(&gateway, &[("traceparent", &format!("00-{TRACE}-{CLIENT}-00"))]).await, 200);
    gateway.stop().await;
    assert!(collector.requests().is_empty());
    let found = fake.request(0).await;
    let found = found.header("traceparent").unwrap();
    assert!(found.starts_with(&format!("00-{TRACE}-")) && found.ends_with("-00"), "{found}");
}

#[tokio::test]
async fn without_a_collector_the_headers_are_as_those_of_any_client() {
    let fake = FakeProvider::answering(|_| Script::stream(&["a"])).await;
    let setup = Setup::new().provider("a", &fake, "").provider("b", &fake, "forward_headers = [\"traceparent\"]");
    let gateway = setup.start().await;
    let parent = format!("00-{TRACE}-{CLIENT}-01");
    for upstream in ["a/m", "b/m"] {
        let body = json!({"model": upstream, "messages": [{}]});
        let headers = [("traceparent", parent.as_str()), ("tracestate", "a=1")];
        let mut client = gateway.request(CHAT, &headers, &body).await;
        assert_eq!(read_response(&mut client).await.status, 200);
    }
    gateway.stop().await;
    let found: Vec<_> =
        fake.requests().iter().map(|request| request.header("traceparent").map(str::to_owned)).collect();
    assert_eq!(found, [None, Some(parent)]);
    assert!(fake.requests().iter().all(|request| request.header("tracestate").is_none()));
}

#[tokio::test]
async fn a_wrong_traceparent_begins_a_trace() {
    let (collector, fake) = (collector().await, FakeProvider::answering(|_| Script::stream(&["a"])).await);
    let gateway = traced(Setup::over(&[&fake]), &collector).start().await;
    let wrong =
        [format!("00-{TRACE}-{CLIENT}-01-x"), "0".repeat(10 << 10), format!("00-{TRACE}-{}-01", "0".repeat(16))];
    for parent in &wrong {
        assert_eq!(ask(&gateway, &[("traceparent", parent), ("tracestate", "a=1")]).await, 200);
    }
    gateway.stop().await;
    let spans = spans(&collector);
    assert_eq!(spans.len(), 2 * wrong.len());
    for span in spans.iter().filter(|span| span.kind == 2) {
        assert!(span.parent_span_id.is_empty() && span.trace_state.is_empty() && hex(&span.trace_id) != TRACE);
    }
}

#[tokio::test]
async fn a_collector_that_hangs_costs_no_request_and_holds_up_no_end() {
    let (hanging, fake) =
        (FakeProvider::answering(|_| silent()).await, FakeProvider::answering(|_| Script::stream(&["a"])).await);
    let gateway = traced(Setup::over(&[&fake]), &hanging).start().await;
    assert_eq!(ask(&gateway, &[]).await, 200);
    advance_clock_until(hanging.request(0)).await;
    let sink = gateway.gateway().span_sink().unwrap().clone();
    for _ in 0..20 {
        assert_eq!(ask(&gateway, &[]).await, 200);
    }
    assert_eq!(sink.dropped(), 0, "they wait");
    let began = Instant::now();
    let rows = gateway.stop().await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert_eq!(rows.races.len(), 21);
    assert_eq!(sink.dropped(), 2 * 21, "all are counted");
}

#[tokio::test]
async fn what_a_collector_does_not_take_is_counted_and_what_it_takes_later_is_sent_again() {
    let fake = FakeProvider::answering(|_| Script::stream(&["a"])).await;
    let refused = [0xa, 2, 8, 1];
    let answers = move |request: &Request| match request.number {
        0 => Script::status(500, &[], ""),
        1 => Script::status(429, &[("retry-after", "0")], ""),
        2 => Script::status(503, &[], ""),
        // It took all but one.
        3 => Script::new().head(200, &[("content-length", "4")]).raw(refused).end(),
        _ => Script::status(401, &[], ""),
    };
    let collector = FakeProvider::answering(answers).await;
    let gateway = traced(Setup::over(&[&fake]), &collector).start().await;
    let sink = gateway.gateway().span_sink().unwrap().clone();
    let mut requests = 0;
    for (calls, dropped) in [(1, 2), (3, 3), (1, 5)] {
        assert_eq!(ask(&gateway, &[]).await, 200);
        requests += calls;
        advance_clock_until(collector.request(requests - 1)).await;
        let counted = async {
            while sink.dropped() < dropped {
                tokio::task::yield_now().await;
            }
        };
        soon("they are counted", counted).await;
    }
    let metrics = gateway.gateway();
    drop(metrics);
    gateway.stop().await;
    let bodies: Vec<_> = collector.requests().into_iter().map(|request| request.body).collect();
    assert!(bodies[1] == bodies[2] && bodies[2] == bodies[3] && bodies[0] != bodies[1]);
    assert_eq!((bodies.len(), sink.dropped()), (5, 5));
}

#[tokio::test]
async fn a_reload_begins_and_ends_it() {
    let (collector, fake) = (collector().await, FakeProvider::answering(|_| Script::stream(&["a"])).await);
    let gateway = Setup::over(&[&fake]).start().await;
    assert_eq!(ask(&gateway, &[]).await, 200);
    gateway.reload(&traced(Setup::over(&[&fake]), &collector)).await;
    assert_eq!(ask(&gateway, &[]).await, 200);
    advance_clock_until(collector.request(0)).await;
    gateway.reload(&Setup::over(&[&fake])).await;
    assert_eq!(ask(&gateway, &[]).await, 200);
    gateway.stop().await;
    assert_eq!(spans(&collector).len(), 2);
    let found: Vec<_> = fake.requests().iter().map(|request| request.header("traceparent").is_some()).collect();
    assert_eq!(found, [false, true, false]);
}

#[tokio::test]
async fn the_program_follows_the_variables_and_tells_no_key() {
    let (collector, fake) = (collector().await, FakeProvider::answering(|_| Script::stream(&["a"])).await);
    let config = format!("{}[models.m]\nupstreams = [\"one/m\"]\n", process::provider("one", &fake));
    let setup = process::Setup::new(&config)
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &format!("http://{}", collector.addr()))
        .env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20planted")
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
        .env("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
        .env("OTEL_SERVICE_NAME", "edge");
    let served = setup.serve().await;
    let mut client = served.asking("m").await;
    assert_eq!(read_response(&mut client).await.status, 200);
    drop(client);
    served.process.signal("TERM");
    assert_eq!(served.process.ended().await, Some(0), "{}", served.process.log());
    assert_eq!(spans(&collector).len(), 2, "what waited is sent at the end");
    let request = collector.request(0).await;
    assert_eq!(request.header("authorization"), Some("Basic planted"));
    assert_eq!(request.header("content-encoding"), Some("gzip"));
    let sent = read(&request);
    let resource = sent.resource_spans[0].resource.as_ref().unwrap();
    let name = resource.attributes.iter().find(|pair| pair.key == "service.name").unwrap();
    assert_eq!(name.value.as_ref().unwrap().value, Some(Attribute::StringValue("edge".to_owned())));
    let log = served.process.log();
    assert!(log.contains("OTEL_EXPORTER_OTLP_PROTOCOL asks for http/json") && !log.contains("planted"), "{log}");
}

#[tokio::test]
async fn the_figures_of_the_page_are_sent_too() {
    let (collector, fake) = (collector().await, FakeProvider::answering(|_| Script::stream(&["a"])).await);
    let table = format!("[otlp]\nendpoint = \"http://{}\"\nmetrics = true", collector.addr());
    let gateway = Setup::over(&[&fake]).table(&table).start().await;
    let parent = format!("00-{TRACE}-{CLIENT}-00");
    assert_eq!(ask(&gateway, &[("traceparent", parent.as_str())]).await, 200);
    gateway.stop().await;
    let requests = collector.requests();
    let [sent] = requests.as_slice() else { panic!("{} requests", requests.len()) };
    assert_eq!((sent.method.as_str(), sent.path.as_str()), ("POST", "/v1/metrics"));
    let sent = ExportMetricsServiceRequest::decode(&sent.body[..]).unwrap();
    let metrics = &sent.resource_metrics[0].scope_metrics[0].metrics;
    let data = |name: &str| metrics.iter().find(|metric| metric.name == name).unwrap().data.clone().unwrap();
    let Data::Sum(races) = data("photofinish_races_total") else { panic!("no counter") };
    let ok = races.data_points.iter().find(|point| format!("{point:?}").contains("\"ok\"")).unwrap();
    assert!(races.is_monotonic && races.aggregation_temporality == 2 && ok.start_time_unix_nano < ok.time_unix_nano);
    assert_eq!(ok.value, Some(NumberValue::AsInt(1)));
    let Data::Gauge(running) = data("photofinish_in_flight") else { panic!("no gauge") };
    assert_eq!(running.data_points[0].value, Some(NumberValue::AsInt(0)));
    let Data::Histogram(durations) = data("gen_ai.client.inference.duration") else { panic!("no histogram") };
    let point = &durations.data_points[0];
    let names: Vec<_> = point.attributes.iter().map(|pair| pair.key.as_str()).collect();
    assert_eq!(names, ["gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model"]);
    assert_eq!((point.count, point.bucket_counts.len()), (1, point.explicit_bounds.len() + 1));
}

/// A collector that speaks gRPC, and passes on what it gets with the header `authorization`.
struct GrpcCollector(mpsc::Sender<(Option<String>, ExportTraceServiceRequest)>);

#[async_trait]
impl TraceService for GrpcCollector {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, tonic::Status> {
        let key = request.metadata().get("authorization").map(|key| key.to_str().unwrap().to_owned());
        self.0.send((key, request.into_inner())).await.unwrap();
        Ok(tonic::Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tokio::test]
async fn traces_go_by_grpc_too() {
    let (sender, mut got) = mpsc::channel(16);
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let address = listener.local_addr().unwrap();
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    let service = TraceServiceServer::new(GrpcCollector(sender)).accept_compressed(CompressionEncoding::Gzip);
    let server = tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming);
    let fake = FakeProvider::answering(|_| Script::stream(&["a"])).await;
    let setup = Setup::over(&[&fake]).table(&format!(
        "[otlp]\nendpoint = \"http://{address}\"\nprotocol = \"grpc\"\nheaders = {{ authorization = \"Basic planted\" }}"
    ));
    let server = Shutdown::new().spawn(async { drop(server.await) });
    let gateway = setup.start().await;
    assert_eq!(ask(&gateway, &[]).await, 200);
    let sink = gateway.gateway().span_sink().unwrap().clone();
    gateway.stop().await;
    let (key, request) = got.recv().await.unwrap();
    assert_eq!((key.as_deref(), sink.dropped()), (Some("Basic planted"), 0));
    assert_eq!(request.resource_spans[0].scope_spans[0].spans.len(), 2);
    server.abort();
}
