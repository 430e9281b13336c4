//! Which path is served by what.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use http::{HeaderMap, Request, Response, Uri};

use super::{health, metrics};
use crate::proxy::{self, Gateway, Rejection};

/// Every path of the gateway. What is not here is a 404 in the dialect's shape.
pub fn router(gateway: Arc<Gateway>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat).fallback(|| method("POST")))
        .route("/v1/models", get(models).fallback(|| method("GET")))
        .route("/v1/models/{*id}", get(model).fallback(|| method("GET")))
        .route("/healthz", get(health::alive).fallback(|| method("GET")))
        .route("/health", get(health::alive).fallback(|| method("GET")))
        .route("/readyz", get(health::ready).fallback(|| method("GET")))
        .route("/metrics", get(metrics::metrics).fallback(|| method("GET")))
        .fallback(nothing)
        .with_state(gateway)
}

async fn chat(State(gateway): State<Arc<Gateway>>, request: Request<Body>) -> Response<Body> {
    proxy::chat(gateway, request).await
}

async fn models(State(gateway): State<Arc<Gateway>>, headers: HeaderMap) -> Response<Body> {
    proxy::list(&gateway, &headers).unwrap_or_else(|rejection| rejection.into_response())
}

/// The id may be anything that a client can write, so also what is no text.
async fn model(
    State(gateway): State<Arc<Gateway>>,
    id: Result<Path<String>, PathRejection>,
    uri: Uri,
    headers: HeaderMap,
) -> Response<Body> {
    let Ok(Path(id)) = id else { return Rejection::not_found(uri.path()).into_response() };
    proxy::one(&gateway, &headers, &id).unwrap_or_else(|rejection| rejection.into_response())
}

async fn method(allow: &'static str) -> impl IntoResponse {
    Rejection::method(allow).into_response()
}

async fn nothing(uri: Uri) -> impl IntoResponse {
    Rejection::not_found(uri.path()).into_response()
}
