//! Ollama's requests other than answers: the models, the abilities of one model, the version, and loading a model. Not
//! for `/api/chat` and the other surfaces.

use axum::body::Body;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Request, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::proxy::body;
use crate::proxy::door::caller::{Client, authenticate};
use crate::proxy::lists::models::{ability, context_window, input_kinds, json_response, usable_model, usable_models};
use crate::proxy::refusals::rejection::Rejection;
use crate::proxy::state::gateway::Gateway;
use photofinish_config::ModelConfig;
use photofinish_config::offerings::InputKind;
use photofinish_translation::ApiRequest;
use photofinish_translation::request::InvalidRequest;
use photofinish_wire::Surface;
use photofinish_wire::conversation::members::is_empty_list;

/// The version of Ollama whose API is served. Editors ask for a minimum.
const VERSION: &str = "0.12.11";
/// The gateway does not know when a vendor changed a model.
const UNKNOWN_TIME: &str = "1970-01-01T00:00:00Z";
/// As Ollama says of a model that stays loaded.
const NEVER: &str = "2318-01-01T00:00:00Z";
/// Bytes of the body of `/api/show`.
const QUESTION_MAX: usize = 64 << 10;

/// `GET /api/tags`: all models of the caller.
///
/// # Errors
/// 401 or 429 without a valid token.
pub fn tags(gateway: &Gateway, client: &Client, headers: &HeaderMap) -> Result<Response<Body>, Rejection> {
    let entry = |(id, _): &(String, _)| {
        json!({
            "name": id, "model": id, "modified_at": UNKNOWN_TIME, "size": 0, "digest": "", "details": details(),
        })
    };
    let models: Vec<Value> = usable_models(gateway, client, headers)?.iter().map(entry).collect();
    Ok(json_response(&json!({ "models": models })))
}

/// `GET /api/ps`: the same models, for none of them has to be loaded first.
///
/// # Errors
/// 401 or 429 without a valid token.
pub fn running(gateway: &Gateway, client: &Client, headers: &HeaderMap) -> Result<Response<Body>, Rejection> {
    let entry = |(id, _): &(String, _)| {
        json!({
            "name": id, "model": id, "size": 0, "digest": "", "details": details(), "expires_at": NEVER, "size_vram": 0,
        })
    };
    let models: Vec<Value> = usable_models(gateway, client, headers)?.iter().map(entry).collect();
    Ok(json_response(&json!({ "models": models })))
}

/// `GET /api/version`.
pub fn version() -> Response<Body> {
    json_response(&json!({ "version": VERSION }))
}

/// `POST /api/show`: the abilities of one model.
///
/// # Errors
/// 400 for an invalid body, 401 or 429 without a valid token, 404 for a model that is unknown or off for the caller.
pub async fn show(gateway: &Gateway, client: &Client, request: Request<Body>) -> Result<Response<Body>, Rejection> {
    #[derive(Deserialize)]
    struct Question {
        #[serde(alias = "name")]
        model: Option<String>,
    }
    let (parts, body) = request.into_parts();
    let live = gateway.live();
    // No body is read before the token is checked.
    let user = authenticate(gateway, &live, client)?;
    let mut place = gateway.enter_race(&live, user.as_deref(), client.address).map_err(Rejection::overloaded)?;
    let bytes = body::read(gateway, &parts.headers, body, QUESTION_MAX, &mut place).await?;
    let question: Option<Question> = serde_json::from_slice(&bytes).ok();
    let id = question.and_then(|question| question.model).filter(|id| !id.is_empty());
    let id = id.ok_or(InvalidRequest::NoModel)?;
    let model = usable_model(gateway, client, &parts.headers, &id)?;
    let mut info = json!({ "general.architecture": FAMILY, "general.basename": id });
    if let Some(tokens) = context_window(&model) {
        info[format!("{FAMILY}.context_length")] = tokens.into();
    }
    Ok(json_response(&json!({
        "modelfile": format!("FROM {id}"), "parameters": "", "template": "{{ .Prompt }}", "details": details(),
        "model_info": info, "capabilities": capabilities(&model), "modified_at": UNKNOWN_TIME,
    })))
}

/// As Ollama names them. What is not known is not denied, because clients then leave it out.
fn capabilities(model: &ModelConfig) -> Vec<&'static str> {
    let embeds = ability(model, |offering| Some(offering.embedding)) == Some(true);
    let sees = input_kinds(model).is_none_or(|kinds| kinds.contains(&InputKind::Image));
    let named = [
        ("embedding", embeds),
        ("completion", !embeds),
        ("tools", !embeds && ability(model, |offering| offering.tools) != Some(false)),
        ("vision", sees),
        ("thinking", ability(model, |offering| offering.reasoning) == Some(true)),
    ];
    named.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect()
}

const FAMILY: &str = "photofinish";

fn details() -> Value {
    json!({
        "parent_model": "", "format": "", "family": FAMILY, "families": [FAMILY], "parameter_size": "",
        "quantization_level": "",
    })
}

/// The answer to a request without a prompt. Ollama's clients send it to load or unload a model; the gateway has
/// nothing to load.
pub fn loaded(request: &ApiRequest) -> Option<Response<Bytes>> {
    let output = match request.surface {
        Surface::OllamaChat => ("message", json!({ "role": "assistant", "content": "" })),
        Surface::OllamaGenerate => ("response", json!("")),
        _ => return None,
    };
    let [.., prompt] = request.prompt();
    let prompt = std::str::from_utf8(prompt).unwrap_or_default().trim();
    if !(matches!(prompt, "" | "null" | "\"\"") || is_empty_list(prompt)) {
        return None;
    }
    let reason = if unloads(request.body()) { "unload" } else { "load" };
    let mut answer = json!({
        "model": request.model, "created_at": jiff::Timestamp::now().to_string(), "done": true, "done_reason": reason,
    });
    answer[output.0] = output.1;
    let content_type = if request.stream { request.surface.framing().content_type() } else { "application/json" };
    let mut response = Response::new(Bytes::from(format!("{answer}\n")));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    Some(response)
}

/// Whether `keep_alive` is a duration of zero: a number of seconds or a text such as `0s`.
fn unloads(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct KeepAlive {
        keep_alive: Option<Value>,
    }
    let asked: Option<KeepAlive> = serde_json::from_slice(body).ok();
    match asked.and_then(|asked| asked.keep_alive) {
        Some(Value::Number(number)) => number.as_f64() == Some(0.0),
        Some(Value::String(text)) => text.trim_end_matches(char::is_alphabetic).parse() == Ok(0.0),
        _ => false,
    }
}
