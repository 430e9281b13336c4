//! Which path is served by what.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRef, Path, State};
use axum::middleware;
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, get, post};
use http::header::ALLOW;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};

use super::api::{self, DatabaseReads};
use super::{cors, health, metrics};
use crate::protocol::Surface;
use crate::proxy::{self, Gateway, Rejection};

/// What the paths are served from.
#[derive(Clone)]
pub(super) struct ServedPaths {
    pub gateway: Arc<Gateway>,
    pub reads: DatabaseReads,
}

impl FromRef<ServedPaths> for Arc<Gateway> {
    fn from_ref(site: &ServedPaths) -> Arc<Gateway> {
        site.gateway.clone()
    }
}

/// Every path of the gateway. What is not here is a 404 in the dialect's shape.
pub(super) fn router(gateway: Arc<Gateway>) -> Router {
    // A reload does not move the database, whatever the file says by then.
    let reads = DatabaseReads::new(gateway.live().config.store.path.clone(), gateway.shutdown().clone());
    let router = routes().into_iter().fold(Router::new(), |router, (path, served)| router.route(path, served));
    let cors = middleware::from_fn_with_state(gateway.clone(), cors::apply);
    let router = router.route("/", only_get(get(home)));
    router.fallback(nothing).layer(cors).with_state(ServedPaths { gateway, reads })
}

/// Those that answer with data; `/` is beside them. `HEAD` is answered like `GET`, without the body.
pub(super) fn routes() -> Vec<(&'static str, MethodRouter<ServedPaths>)> {
    let surfaces = Surface::ALL.into_iter().map(|surface| (surface.path(), surface_route(surface)));
    let others = [
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
    ];
    surfaces.chain(others).collect()
}

fn surface_route(surface: Surface) -> MethodRouter<ServedPaths> {
    let serve =
        move |State(gateway): State<Arc<Gateway>>, request: Request<Body>| proxy::serve(gateway, surface, request);
    post(serve).fallback(move |asked: Method| method(asked, surface, "POST", "POST, OPTIONS"))
}

fn only_get(served: MethodRouter<ServedPaths>) -> MethodRouter<ServedPaths> {
    served.fallback(|asked: Method| method(asked, Surface::Chat, "GET", "GET, HEAD, OPTIONS"))
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

/// Some clients ask for the base URL to see whether anybody is there.
async fn home() -> &'static str {
    "Photofinish, a racing LLM gateway. Its surfaces are under /v1: GET /v1/models lists the models.\n"
}

/// The answer to a method that the path does not take: it takes `only`, or `all` with what every path does.
async fn method(asked: Method, surface: Surface, only: &'static str, all: &'static str) -> Response<Body> {
    if asked != Method::OPTIONS {
        return Rejection::method(only).answer_to(surface);
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(all));
    response
}

/// In the shape of the surface that is nearest.
async fn nothing(uri: Uri) -> impl IntoResponse {
    Rejection::not_found(uri.path()).answer_to(near(uri.path()))
}

/// The surface whose clients ask for such a path.
pub(super) fn near(path: &str) -> Surface {
    Surface::ALL.into_iter().find(|surface| path.starts_with(surface.path())).unwrap_or(Surface::Chat)
}
