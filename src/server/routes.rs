//! Which path is served by what.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRef, Path, State};
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, get, post};
use http::{HeaderMap, Request, Response, Uri};

use super::api::{self, Reads};
use super::{health, metrics};
use crate::proxy::{self, Gateway, Rejection};

/// What the paths are served from.
#[derive(Clone)]
pub(super) struct Site {
    pub gateway: Arc<Gateway>,
    pub reads: Reads,
}

impl FromRef<Site> for Arc<Gateway> {
    fn from_ref(site: &Site) -> Arc<Gateway> {
        site.gateway.clone()
    }
}

/// Every path of the gateway. What is not here is a 404 in the dialect's shape.
pub fn router(gateway: Arc<Gateway>) -> Router {
    // A reload does not move the database, whatever the file says by then.
    let reads = Reads::new(gateway.live().config.store.path.clone(), gateway.shutdown().clone());
    let router = routes().into_iter().fold(Router::new(), |router, (path, served)| router.route(path, served));
    router.fallback(nothing).with_state(Site { gateway, reads })
}

/// `HEAD` is answered like `GET`, without the body.
pub(super) fn routes() -> Vec<(&'static str, MethodRouter<Site>)> {
    let only_get = |served: MethodRouter<Site>| served.fallback(|| method("GET"));
    vec![
        ("/v1/chat/completions", post(chat).fallback(|| method("POST"))),
        ("/v1/models", only_get(get(models))),
        ("/v1/models/{*id}", only_get(get(model))),
        ("/api/stats", only_get(get(api::stats))),
        ("/api/history", only_get(get(api::history))),
        ("/api/races", only_get(get(api::races))),
        ("/api/races/{race_id}", only_get(get(api::race))),
        ("/api/routing", only_get(get(api::routing))),
        ("/api/openapi.json", only_get(get(api::document))),
        ("/healthz", only_get(get(health::alive))),
        ("/health", only_get(get(health::alive))),
        ("/readyz", only_get(get(health::ready))),
        ("/metrics", only_get(get(metrics::metrics))),
    ]
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
