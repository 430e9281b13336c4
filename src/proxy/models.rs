//! `GET /v1/models` and `/v1/models/{id}`: the models that this caller may use, aliases under ids of their own.

use axum::body::Body;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response};
use serde_json::{Value, json};

use super::caller::{Caller, authenticate};
use super::gateway::Gateway;
use super::rejection::Rejection;
use crate::config::{Keys, Model};

/// All of them.
///
/// # Errors
/// 401 without a valid token.
pub fn list(gateway: &Gateway, headers: &HeaderMap) -> Result<Response<Body>, Rejection> {
    let live = gateway.live();
    let caller = Caller::new(&live, authenticate(gateway, &live, headers)?, headers)?;
    let config = &live.config;
    let models = config.models.values().filter(|model| usable(&caller, model)).map(|model| entry(&model.name));
    let aliases =
        config.aliases.iter().filter(|(_, name)| config.models.get(*name).is_some_and(|model| usable(&caller, model)));
    let data: Vec<Value> = models.chain(aliases.map(|(alias, _)| entry(alias))).collect();
    Ok(json_response(&json!({ "object": "list", "data": data })))
}

/// The one of that id.
///
/// # Errors
/// 401 without a valid token, 404 for an unknown model and for one that is off for the caller.
pub fn one(gateway: &Gateway, headers: &HeaderMap, id: &str) -> Result<Response<Body>, Rejection> {
    let live = gateway.live();
    let caller = Caller::new(&live, authenticate(gateway, &live, headers)?, headers)?;
    match live.config.model(id) {
        Some(model) if usable(&caller, model) => Ok(json_response(&entry(id))),
        Some(_) => Err(Rejection::model_off(id)),
        None => Err(Rejection::unknown_model(id, &live.config.nearest_models(id), "it is no alias")),
    }
}

fn usable(caller: &Caller, model: &Model) -> bool {
    model.upstreams.iter().any(|upstream| {
        let name = &upstream.provider.name;
        let own =
            caller.brought.contains_key(name) || caller.user.as_ref().is_some_and(|user| user.keys.contains_key(name));
        own || !matches!(upstream.provider.keys, Keys::Off(_))
    })
}

fn entry(id: &str) -> Value {
    json!({ "id": id, "object": "model", "created": 0, "owned_by": "photofinish" })
}

fn json_response(value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(value.to_string()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
