//! `/healthz`: alive. `/readyz`: the store takes rows, and there is an upstream to ask.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use serde_json::json;

use crate::config::{Keys, Provider};
use crate::proxy::Gateway;

pub async fn alive() -> Response<Body> {
    answer(StatusCode::OK, &json!({ "status": "ok" }))
}

pub async fn ready(State(gateway): State<Arc<Gateway>>) -> Response<Body> {
    let live = gateway.live();
    let config = &live.config;
    let providers_on = config.providers.values().filter(|provider| config.provider_is_on(provider)).count();
    let waits = |provider: &&Arc<Provider>| matches!(provider.keys, Keys::Token(_)) && !provider.is_on();
    let without_token: Vec<&str> = config.providers.values().filter(waits).map(|p| p.name.as_str()).collect();
    let recorder = gateway.recorder();
    let (store, draining) = (recorder.store_ok(), gateway.shutdown().is_draining());
    let ready = store && providers_on > 0 && !draining;
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = json!({
        "ready": ready,
        "store": if store { "ok" } else { "failing" },
        "providers_on": providers_on,
        "without_token": without_token,
        "draining": draining,
        "races_running": gateway.races(),
        "unauthorized": gateway.totals().unauthorized_so_far(),
        "records_queued": recorder.depth(),
        "records_dropped": recorder.dropped(),
    });
    answer(status, &body)
}

fn answer(status: StatusCode, body: &serde_json::Value) -> Response<Body> {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
