//! Which right each path needs, by its method, and the layer of [`edge`](super::routes::edge) that refuses who does not have it. Which role
//! has which right: see `UserRole` of the configuration. Paths for asking models have no such layer: whoever asks them is checked where
//! requests are admitted, since a WebSocket brings many.
//!
//! Not for whose figures, keys and users an answer has: handlers heed the `Asker` that the layer finds.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::middleware::Next;
use http::{Method, Request, Response};

use photofinish_config::Right;
use photofinish_gateway::proxy::{self, Client, Gateway};
use photofinish_wire::Surface;

/// Methods, the right that they need, and their paths. `GET` counts for `HEAD` too.
const RIGHTS: [(&str, Right, &[&str]); 18] = [
    ("GET", Right::Open, &["/", "/healthz", "/health", "/readyz", "/api/version"]),
    (
        "GET",
        Right::Open,
        &["/dashboard", "/dashboard/", "/dashboard/{*page}", "/dashboard/login", "/dashboard/login/callback"],
    ),
    ("GET POST", Right::Open, &["/api/login"]),
    ("DELETE", Right::Open, &["/dashboard/session"]),
    ("GET POST", Right::Me, &["/dashboard/session"]),
    ("GET", Right::Me, &["/api/me", "/api/openapi.json"]),
    ("GET", Right::Ask, &["/api/tags", "/api/ps"]),
    ("POST", Right::Ask, &["/api/show"]),
    (
        "GET",
        Right::Spent,
        &["/api/races", "/api/races/{race_id}", "/api/usage", "/api/costs", "/api/stats", "/api/history"],
    ),
    ("GET", Right::Figures, &["/api/distribution", "/api/runs", "/api/runs/{run}", "/api/routing", "/api/incidents"]),
    ("GET", Right::Figures, &["/api/verdicts", "/api/replicas", "/api/config", "/api/live", "/api/replay"]),
    ("GET", Right::Metrics, &["/metrics"]),
    ("GET", Right::SeeKeys, &["/api/keys", "/api/keys/{id}"]),
    ("POST PATCH DELETE", Right::ChangeKeys, &["/api/keys", "/api/keys/{id}", "/api/keys/{id}/rotate"]),
    ("GET", Right::SeeUsers, &["/api/users", "/api/users/{id}", "/api/teams", "/api/teams/{id}"]),
    ("POST PATCH DELETE", Right::ChangeUsers, &["/api/users", "/api/users/{id}"]),
    ("POST PATCH DELETE", Right::Admin, &["/api/teams", "/api/teams/{id}"]),
    ("GET POST", Right::Admin, &["/api/audit", "/api/reload"]),
];

/// The right that a route needs; `path` as the router has it. What is not listed is for admins alone.
pub fn right_of(method: &Method, path: &str) -> Right {
    let method = if method == Method::HEAD { "GET" } else { method.as_str() };
    let listed =
        RIGHTS.iter().find(|(methods, _, paths)| paths.contains(&path) && methods.split(' ').any(|of| of == method));
    listed.map_or(if asks_models(path) { Right::Ask } else { Right::Admin }, |(_, right, _)| *right)
}

/// The path is of a surface, of what surfaces store, or of providers. These have no other use.
fn asks_models(path: &str) -> bool {
    ["/v1/", "/v1beta/", "/v2/", "/openai/", "/providers/"].iter().any(|start| path.starts_with(start))
        || Surface::ALL.iter().any(|surface| surface.path() == path)
}

/// Whether this path needs the layer.
pub(super) fn is_guarded(path: &str) -> bool {
    path != UNKNOWN && !asks_models(path)
}

/// The path of [`edge`](super::routes::edge) of all that the router does not have.
pub(super) const UNKNOWN: &str = "unknown";

/// Refuses who does not have the right, and passes the caller to the handler.
pub(super) async fn guard(
    State((gateway, path)): State<(Arc<Gateway>, &'static str)>,
    client: Client,
    mut request: Request<Body>,
    next: Next,
) -> Response<Body> {
    let right = right_of(request.method(), path);
    // OPTIONS asks which methods there are.
    if !matches!(right, Right::Open | Right::Ask) && request.method() != Method::OPTIONS {
        match proxy::permitted(&gateway, &client, right) {
            Ok(asker) => drop(request.extensions_mut().insert(asker)),
            Err(refused) => return refused.into_response(),
        }
    }
    next.run(request).await
}
