//! `/healthz`: the process is alive. `/readyz`: an upstream is available, and no row of the history is lost; a store
//! that only delays its rows does not make the gateway unready. Both need no token, so names and counts are only for
//! who may see all figures. `/metrics`: Prometheus' text or OpenMetrics.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde_json::json;

use super::budget_figures;
use super::served_paths::ServedPaths;
use photofinish_base::machine;
use photofinish_config::{Keys, Provider, Right};
use photofinish_gateway::proxy::{self, Client, Gateway};
use photofinish_history::recorder::{Condition, Recorder};
use photofinish_metrics::{MetricFamily, MetricsFormat, MetricsText};

pub async fn alive() -> Response<Body> {
    answer(StatusCode::OK, &json!({ "status": "ok" }))
}

pub async fn ready(State(site): State<ServedPaths>, client: Client) -> Response<Body> {
    let gateway = &site.gateway;
    let live = gateway.live();
    let config = &live.config;
    let providers_on = config.providers.values().filter(|provider| config.provider_is_on(provider)).count();
    let recorder = site.reads.recorder();
    let (store, draining) = (recorder.condition(), gateway.is_leaving());
    let ready = store != Condition::Failing && providers_on > 0 && !draining;
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut body = json!({ "ready": ready, "store": store.as_str(), "draining": draining });
    if proxy::has_right(gateway, &client, Right::Figures) {
        let waits = |provider: &&Arc<Provider>| matches!(provider.keys, Keys::Token(_)) && !provider.is_on();
        let without_token: Vec<&str> = config.providers.values().filter(waits).map(|p| p.name.as_str()).collect();
        let refused = gateway.refused_configuration();
        body["configuration_refused"] = json!(refused.as_ref().map(ToString::to_string));
        body["accept"] = json!(refused.and_then(|refused| refused.accepted_by()));
        body["providers_on"] = json!(providers_on);
        body["without_token"] = json!(without_token);
        body["races_running"] = json!(gateway.races());
        body["unauthorized"] = json!(gateway.totals().unauthorized_so_far());
        body["records_queued"] = json!(recorder.depth());
        body["records_spilled"] = json!(recorder.spilled());
        body["records_dropped"] = json!(recorder.dropped());
        let (problem, aside) = recorder.problem_and_aside();
        body["store_problem"] = json!(problem);
        body["set_aside"] = json!(aside);
        body["records_set_aside"] = json!(recorder.set_aside());
        body["records_refused"] = json!(recorder.refused());
    }
    answer(status, &body)
}

fn answer(status: StatusCode, body: &serde_json::Value) -> Response<Body> {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

pub async fn metrics(State(site): State<ServedPaths>, headers: HeaderMap) -> Response<Body> {
    let (gateway, recorder) = (&site.gateway, site.reads.recorder());
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let format = MetricsFormat::preferred(accept.unwrap_or_default());
    choose_users(gateway, recorder);
    let page = recorder.metrics().render(format, &gateway.open_breakers(), |text| more(gateway, recorder, text));
    let mut response = Response::new(Body::from(page));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
    response
}

/// The same figures for who sends them.
pub fn figures(gateway: Arc<Gateway>, recorder: Recorder) -> Box<dyn Fn() -> Vec<MetricFamily> + Send + Sync> {
    Box::new(move || {
        choose_users(&gateway, &recorder);
        recorder.metrics().families(&gateway.open_breakers(), |text| more(&gateway, &recorder, text))
    })
}

fn choose_users(gateway: &Gateway, recorder: &Recorder) {
    let callers = &gateway.live().callers;
    recorder.metrics().choose_users(|user| callers.has_user(user));
}

fn more(gateway: &Gateway, recorder: &Recorder, text: &mut MetricsText) {
    counts(gateway, recorder, text);
    budget_figures::render(gateway, text);
    process(text);
}

/// What the gateway counts outside of its rows.
fn counts(gateway: &Gateway, recorder: &Recorder, text: &mut MetricsText) {
    let (memory, totals) = (gateway.memory(), gateway.totals());
    let mut gauge = |name: &str, help: &str, value: usize| text.single(name, "gauge", help, value);
    gauge("in_flight", "Races running now.", gateway.races());
    gauge("arriving", "Requests whose bodies are still coming; they hold no place in the race.", gateway.arriving());
    let help = "Tasks of the gateway running now: client and provider connections, attempts, losers that are read to their end.";
    gauge("tasks", help, gateway.shutdown().running());
    gauge("record_queue", "Rows waiting for the database.", recorder.depth());
    gauge("records_spilled", "Rows among these in the spill file next to the database.", recorder.spilled());
    let mut counter = |name: &str, help: &str, value: u64| text.single(name, "counter", help, value);
    counter("records_written_total", "Rows in the database since the start.", recorder.written());
    let help = "Rows lost: the queue was full, or the file for refused rows is.";
    counter("records_dropped_total", help, recorder.dropped());
    let help = "Rows in a database that is no longer in use: it was damaged and set aside, removed or replaced.";
    counter("records_set_aside_total", help, recorder.set_aside());
    let help = "Rows that the database never takes; they are in a file next to it.";
    counter("records_refused_total", help, recorder.refused());
    let help = "Rows of times far away from now, in the table `stray` of a database server: a clock is wrong.";
    counter("records_stray_total", help, recorder.stray());
    let help = "Spans of traces that the collector did not take, or that had no room.";
    counter("otlp_dropped_total", help, gateway.span_sink().map_or(0, |sink| sink.dropped()));
    let help = "Answers that were not checked against their request because too many waited.";
    counter("unjudged_answers_total", help, gateway.judge().crowded_out());
    let help = "Requests refused for lack of a valid token; they have no race.";
    counter("unauthorized_total", help, totals.unauthorized_so_far());
    counter(
        "conversations_total",
        "Conversations that clients asked to make; they have no race.",
        totals.conversations_so_far(),
    );
    counter("wrong_tokens_total", "Requests with a wrong token, on any path.", totals.wrong_tokens_so_far());
    text.family("shed_total", "counter", "Requests refused for lack of room before they had a race, by reason.");
    for (reason, count) in totals.shed.so_far() {
        text.sample(&[("reason", reason)], count);
    }
    let help = "1 while an upstream answers requests with tools or a schema worse than the others of its model.";
    text.family("upstream_worse", "gauge", help);
    for (model, upstream, _) in gateway.learning().quality().worse_now() {
        text.sample(&[("model", &model), ("upstream", &upstream)], 1_u64);
    }
    let help = "1 while an upstream goes last for requests with this because it refused the last ones and others answered them.";
    text.family("upstream_refuses", "gauge", help);
    for (upstream, known) in gateway.refusing() {
        text.sample(&[("upstream", &upstream), ("with", &known.kind.in_words())], 1_u64);
    }
    text.family("limited_total", "counter", "Requests that a limit of their caller refused, by level and limit.");
    for ((level, kind), count) in totals.limited.so_far() {
        text.sample(&[("level", level), ("kind", kind)], count);
    }
    text.family(
        "budget_warnings_total",
        "counter",
        "Budgets of which warn was spent, by level and limit, once a period.",
    );
    for ((level, kind), count) in totals.near_end.so_far() {
        text.sample(&[("level", level), ("kind", kind)], count);
    }
    let mut gauge = |name: &str, help: &str, value: usize| text.single(name, "gauge", help, value);
    let help = "Bytes that bodies, buffers and connections of clients use, as the gateway counts them.";
    gauge("memory_used_bytes", help, memory.used());
    let help = "Bytes of them that clients hold by their connections, with answers that they have not taken.";
    gauge("memory_clients_bytes", help, memory.clients());
    gauge("memory_max_bytes", "Bytes that they may use: memory under [server].", memory.max());
    let help = "1 while a newer configuration is not in force: the log and /api/config say why.";
    gauge("config_refused", help, usize::from(gateway.refused_configuration().is_some()));
    let help = "Attempts whose row contradicts itself: a bug of the gateway.";
    text.single("invariant_violations_total", "counter", help, recorder.violations());
}

/// What all programs report, by the names of Prometheus' client libraries.
fn process(text: &mut MetricsText) {
    text.family("build_info", "gauge", "1, with the version of the gateway.");
    text.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    let Some(process) = machine::process() else { return };
    let mut family = |name: &str, kind: &str, help: &str, value: f64| {
        text.shared_family(name, kind, help);
        text.sample(&[], value);
    };
    family("process_cpu_seconds_total", "counter", "Processor time in user space and kernel.", process.cpu_seconds);
    family("process_resident_memory_bytes", "gauge", "Memory in use.", process.resident_bytes as f64);
    family("process_open_fds", "gauge", "Descriptors in use.", process.descriptors as f64);
    if let Some(max) = process.descriptors_max {
        family("process_max_fds", "gauge", "Descriptors that it may have.", max as f64);
    }
    family("process_start_time_seconds", "gauge", "When it started, in seconds since 1970.", process.started_at);
}
