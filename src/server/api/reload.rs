//! `POST /api/reload`: reads the configuration again, as SIGHUP does, and answers with what came of it. Not for reloading: see
//! `app`.

use axum::body::Body;
use axum::extract::State;
use http::Response;
use serde_json::json;

use super::answer::json as json_answer;
use crate::proxy::{self, Client, Rejection};
use crate::server::served_paths::ServedPaths;

pub async fn reload(State(site): State<ServedPaths>, client: Client) -> Response<Body> {
    if let Err(rejection) = proxy::admin(&site.gateway, &client) {
        return rejection.into_response();
    }
    // On a task of its own: a client that leaves must not end it half-way.
    let reloaded = site.gateway.shutdown().spawn((site.reload)()).await;
    match reloaded {
        Ok(Ok(())) => json_answer(json!({ "reloaded": true }).to_string()),
        Ok(Err(problem)) => Rejection::not_reloaded(&problem).into_response(),
        Err(_) => Rejection::internal().into_response(),
    }
}
