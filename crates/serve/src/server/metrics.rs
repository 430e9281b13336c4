//! `/metrics`: the text format of Prometheus, for admins. `metrics` and the recorder decide what is counted.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};

use photofinish_gateway::proxy::{self, Client, Gateway};
use photofinish_history::metrics::{self, ExternalCounts, MemoryUse};

pub async fn metrics(State(gateway): State<Arc<Gateway>>, client: Client) -> Response<Body> {
    if let Err(rejection) = proxy::admin(&gateway, &client) {
        return rejection.into_response();
    }
    let (recorder, budget) = (gateway.recorder(), gateway.budget());
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
        memory: MemoryUse { used: budget.used(), clients: budget.clients(), max: budget.max() },
        open_breakers: gateway.open_breakers(),
        is_config_refused: gateway.refused_configuration().is_some(),
    };
    let mut response = Response::new(Body::from(recorder.metrics().render(&elsewhere)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(metrics::CONTENT_TYPE));
    response
}
