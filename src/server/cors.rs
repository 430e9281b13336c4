//! Which web pages may call: the questions of browsers (preflight requests) and the headers that let a page read an answer.
//!
//! By `cors` of the configuration in force. Pages that it does not name were turned away before, by `host_check`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::middleware::Next;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};

use super::host_check;
use super::routes::near;
use crate::config::Cors;
use crate::proxy::Gateway;

/// How long a browser may remember the answer: as long as any of them does.
const MAX_AGE: &str = "86400";
/// What any path takes.
const METHODS: &str = "GET, HEAD, POST, OPTIONS";
/// Asked by browsers when a page of the internet calls a server in the local network.
const REQUEST_PRIVATE: HeaderName = HeaderName::from_static("access-control-request-private-network");
const ALLOW_PRIVATE: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// Turns away what may not come in, whatever its path. Answers a preflight request; adds to every other answer what lets the
/// page read it.
pub(super) async fn apply(State(gateway): State<Arc<Gateway>>, request: Request<Body>, next: Next) -> Response<Body> {
    let live = gateway.live();
    if let Err(rejection) = host_check::check(&request, &live.config) {
        return rejection.answer_to(near(request.uri().path()));
    }
    let cors = &live.config.server.cors;
    if *cors == Cors::None {
        drop(live);
        return next.run(request).await;
    }
    let leave = leave(cors, request.headers().get(ORIGIN));
    drop(live);
    let mut response = match is_preflight(&request) {
        true => preflight(request.headers(), leave.is_some()),
        false => {
            let mut response = next.run(request).await;
            if leave.is_some() {
                expose(response.headers_mut());
            }
            response
        }
    };
    let headers = response.headers_mut();
    headers.append(VARY, HeaderValue::from_static("origin"));
    headers.remove(ACCESS_CONTROL_ALLOW_ORIGIN);
    headers.remove(ACCESS_CONTROL_ALLOW_CREDENTIALS);
    if let Some(origin) = leave {
        // A page that says "include" sends its cookies; there are none, but without this it would not see the answer.
        if origin != "*" {
            headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        }
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    }
    response
}

fn is_preflight(request: &Request<Body>) -> bool {
    let headers = request.headers();
    request.method() == Method::OPTIONS
        && headers.contains_key(ORIGIN)
        && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Whether a page of this origin may call.
pub(super) fn names(cors: &Cors, origin: Option<&HeaderValue>) -> bool {
    *cors == Cors::Any || leave(cors, origin).is_some()
}

/// What this page's origin is told; none if it may not read.
fn leave(cors: &Cors, origin: Option<&HeaderValue>) -> Option<HeaderValue> {
    let origin = origin?;
    match cors {
        Cors::None => None,
        Cors::Any => Some(HeaderValue::from_static("*")),
        Cors::Only(origins) => {
            let text = origin.to_str().ok()?;
            origins.iter().any(|known| known.eq_ignore_ascii_case(text)).then(|| origin.clone())
        }
    }
}

fn preflight(asked: &HeaderMap, allowed: bool) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.append(VARY, HeaderValue::from_static("access-control-request-method, access-control-request-headers"));
    if allowed {
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
        // Named one by one, for a "*" would leave out `authorization`.
        if let Some(names) = asked.get(ACCESS_CONTROL_REQUEST_HEADERS) {
            headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
        }
        headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE));
        if asked.contains_key(REQUEST_PRIVATE) {
            headers.insert(ALLOW_PRIVATE, HeaderValue::from_static("true"));
        }
    }
    response
}

/// A page sees no header that is not named: those of the gateway, and what providers say of the request and its limits.
fn expose(headers: &mut HeaderMap) {
    let is_told = |name: &str| {
        ["x-", "openai-", "anthropic-"].iter().any(|start| name.starts_with(start))
            || ["server-timing", "request-id", "retry-after", "retry-after-ms"].contains(&name)
    };
    let names: Vec<&str> = headers.keys().map(HeaderName::as_str).filter(|name| is_told(name)).collect();
    if let Ok(names) = HeaderValue::try_from(names.join(", "))
        && !names.is_empty()
    {
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, names);
    }
}
