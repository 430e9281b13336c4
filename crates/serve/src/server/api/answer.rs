//! Answers of `/api`: JSON that caches must not store, and errors.

use axum::body::Body;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response};
use serde_json::{Map, Value};

use photofinish_gateway::proxy::Rejection;
use photofinish_history::report::export;
use photofinish_history::report::question::{BadParameter, time};

pub fn refused(bad: BadParameter) -> Rejection {
    Rejection::parameter(bad.name, &bad.message)
}

/// Exactly the bytes that the command prints with `--json`.
pub fn as_printed(objects: &[Map<String, Value>], rolled_until: Option<i64>) -> Result<Response<Body>, Rejection> {
    let mut bytes = Vec::new();
    export::write_json(objects, &mut bytes).map_err(|error| Rejection::history(error.to_string(), false))?;
    Ok(with_source(json(bytes), rolled_until))
}

/// Says until when roll-ups were read.
pub fn with_source(mut response: Response<Body>, rolled_until: Option<i64>) -> Response<Body> {
    if let Some(until) = rolled_until.and_then(|until| HeaderValue::try_from(time(until)).ok()) {
        response.headers_mut().insert("x-photofinish-rolled-until", until);
    }
    response
}

/// Says how many groups the answer has no room for.
pub fn leaving_out(mut response: Response<Body>, groups: usize) -> Response<Body> {
    if groups > 0 {
        response.headers_mut().insert("x-photofinish-left-out", HeaderValue::from(groups));
    }
    response
}

pub fn json(body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
