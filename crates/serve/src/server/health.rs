//! `/healthz`: the process is alive. `/readyz`: an upstream is available, and no row of the history is lost; a store
//! that only delays its rows does not make the gateway unready. Both need no token, so names and counts are only for
//! admins. `/metrics`: the text format of Prometheus, for admins.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use serde_json::json;

use photofinish_config::config::{Keys, Provider};
use photofinish_gateway::proxy::{self, Client, Gateway};
use photofinish_history::metrics::{self, ExternalCounts, MemoryUse};
use photofinish_history::recorder::Condition;

pub async fn alive() -> Response<Body> {
    answer(StatusCode::OK, &json!({ "status": "ok" }))
}

pub async fn ready(State(gateway): State<Arc<Gateway>>, client: Client) -> Response<Body> {
    let live = gateway.live();
    let config = &live.config;
    let providers_on = config.providers.values().filter(|provider| config.provider_is_on(provider)).count();
    let recorder = gateway.recorder();
    let (store, draining) = (recorder.condition(), gateway.shutdown().is_draining());
    let ready = store != Condition::Failing && providers_on > 0 && !draining;
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut body = json!({ "ready": ready, "store": store.as_str(), "draining": draining });
    if proxy::is_admin(&gateway, &client) {
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

pub async fn metrics(State(gateway): State<Arc<Gateway>>, client: Client) -> Response<Body> {
    if let Err(rejection) = proxy::admin(&gateway, &client) {
        return rejection.into_response();
    }
    let (recorder, memory) = (gateway.recorder(), gateway.memory());
    let elsewhere = ExternalCounts {
        in_flight: gateway.races(),
        arriving: gateway.arriving(),
        tasks: gateway.shutdown().running(),
        record_queue: recorder.depth(),
        records_spilled: recorder.spilled(),
        records_written: recorder.written(),
        records_dropped: recorder.dropped(),
        records_set_aside: recorder.set_aside(),
        records_refused: recorder.refused(),
        invariant_violations: recorder.violations(),
        unauthorized: gateway.totals().unauthorized_so_far(),
        wrong_tokens: gateway.totals().wrong_tokens_so_far(),
        shed: gateway.totals().shed.so_far(),
        memory: MemoryUse { used: memory.used(), clients: memory.clients(), max: memory.max() },
        open_breakers: gateway.open_breakers(),
        is_config_refused: gateway.refused_configuration().is_some(),
    };
    let mut response = Response::new(Body::from(recorder.metrics().render(&elsewhere)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(metrics::CONTENT_TYPE));
    response
}
