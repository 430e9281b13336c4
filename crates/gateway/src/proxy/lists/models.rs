//! `GET /v1/models` and `/v1/models/{id}`: the models that this caller may use, and their aliases, in the shape of the client's
//! vendor. Not for the status of upstreams: see `routing::status`.

use std::sync::Arc;

use axum::body::Body;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response};
use serde_json::{Value, json};

use crate::proxy::door::caller::{Caller, Client, authenticate};
use crate::proxy::refusals::rejection::Rejection;
use crate::proxy::state::gateway::Gateway;
use photofinish_config::offerings::{InputKind, Offering};
use photofinish_config::{Config, ModelConfig, UpstreamConfig};

/// All models of the caller.
///
/// # Errors
/// 401 or 429 without a valid token.
pub fn list(gateway: &Gateway, client: &Client, headers: &HeaderMap) -> Result<Response<Body>, Rejection> {
    let models = usable_models(gateway, client, headers)?;
    if asks_anthropic(headers) {
        let data: Vec<Value> = models.iter().map(|(id, model)| anthropic_entry(id, model)).collect();
        let (first, last) = (models.first().map(|(id, _)| id), models.last().map(|(id, _)| id));
        let list = json!({ "data": data, "has_more": false, "first_id": first, "last_id": last });
        return Ok(json_response(&list));
    }
    let data: Vec<Value> = models.iter().map(|(id, model)| entry(id, model)).collect();
    Ok(json_response(&json!({ "object": "list", "data": data })))
}

/// The model with this id.
///
/// # Errors
/// 401 or 429 without a valid token, 404 for a model that is unknown or off for the caller.
pub fn one(gateway: &Gateway, client: &Client, headers: &HeaderMap, id: &str) -> Result<Response<Body>, Rejection> {
    let model = usable_model(gateway, client, headers, id)?;
    Ok(json_response(&if asks_anthropic(headers) { anthropic_entry(id, &model) } else { entry(id, &model) }))
}

/// All models of the caller, as Gemini lists them.
///
/// # Errors
/// 401 or 429 without a valid token.
pub fn gemini_list(gateway: &Gateway, client: &Client, headers: &HeaderMap) -> Result<Response<Body>, Rejection> {
    let models = usable_models(gateway, client, headers)?;
    let models: Vec<Value> = models.iter().map(|(id, model)| gemini_entry(id, model)).collect();
    Ok(json_response(&json!({ "models": models })))
}

/// The model with this id, as Gemini describes it.
///
/// # Errors
/// 401 or 429 without a valid token, 404 for a model that is unknown or off for the caller.
pub fn gemini_one(
    gateway: &Gateway,
    client: &Client,
    headers: &HeaderMap,
    id: &str,
) -> Result<Response<Body>, Rejection> {
    let model = usable_model(gateway, client, headers, id)?;
    Ok(json_response(&gemini_entry(id, &model)))
}

fn gemini_entry(id: &str, model: &ModelConfig) -> Value {
    let embeds = known(model).next().is_some() && known(model).all(|offering| offering.embedding);
    let calls = if embeds { ["embedContent", "batchEmbedContents"] } else { ["generateContent", "countTokens"] };
    let mut entry = json!({ "name": format!("models/{id}"), "displayName": id, "supportedGenerationMethods": calls });
    put(&mut entry, "inputTokenLimit", context_window(model));
    put(&mut entry, "outputTokenLimit", longest_answer(model));
    entry
}

/// The caller's models by name and by alias.
///
/// # Errors
/// 401 or 429 without a valid token.
pub(crate) fn usable_models(
    gateway: &Gateway,
    client: &Client,
    headers: &HeaderMap,
) -> Result<Vec<(String, Arc<ModelConfig>)>, Rejection> {
    let live = gateway.live();
    let caller = Caller::new(&live, authenticate(gateway, &live, client)?, headers)?;
    let config = &live.config;
    let models = config.models.values().map(|model| (&model.name, model));
    let aliases = config.aliases.iter().filter_map(|(alias, name)| Some((alias, config.models.get(name)?)));
    let usable = models.chain(aliases).filter(|(_, model)| caller.may_use(gateway, config, model));
    Ok(usable.map(|(name, model)| (name.clone(), model.clone())).collect())
}

/// The model with this name or alias.
///
/// # Errors
/// 401 or 429 without a valid token, 404 for a model that is unknown or off for the caller.
pub(crate) fn usable_model(
    gateway: &Gateway,
    client: &Client,
    headers: &HeaderMap,
    id: &str,
) -> Result<Arc<ModelConfig>, Rejection> {
    let live = gateway.live();
    let caller = Caller::new(&live, authenticate(gateway, &live, client)?, headers)?;
    match live.config.model(id) {
        Some(model) if caller.may_use(gateway, &live.config, model) => Ok(model.clone()),
        Some(_) => Err(Rejection::model_off(id)),
        None => Err(Rejection::unknown_model(&live.config, id, None)),
    }
}

impl Caller {
    /// One of the model's upstreams is on for the caller, whose limits allow it.
    fn may_use(&self, gateway: &Gateway, config: &Config, model: &Arc<ModelConfig>) -> bool {
        let levels = gateway.usage().levels(config, self.user.as_deref());
        model.upstreams.iter().any(|upstream| {
            let name = &upstream.provider.name;
            let own =
                self.brought.contains_key(name) || self.user.as_ref().is_some_and(|user| user.keys.contains_key(name));
            let upstream_name = upstream.name();
            let is_forbidden = levels.forbidding(config.names_of(Some(model), upstream), &upstream_name).is_some();
            (own || upstream.provider.is_on()) && !is_forbidden
        })
    }
}

fn entry(id: &str, model: &ModelConfig) -> Value {
    let mut entry = json!({ "id": id, "object": "model", "created": 0, "owned_by": "photofinish" });
    // OpenAI has no such members. The first is named as vLLM and SGLang do, the others as OpenRouter does.
    put(&mut entry, "max_model_len", context_window(model));
    put(&mut entry, "context_length", context_window(model));
    put(&mut entry, "max_output_tokens", longest_answer(model));
    let kinds = input_kinds(model).map(|kinds| kinds.into_iter().map(modality).collect::<Vec<_>>());
    put(&mut entry, "architecture", kinds.map(|kinds| json!({ "input_modalities": kinds })));
    let parameters: [(Option<bool>, &[&str]); 3] = [
        (ability(model, |offering| offering.tools), &["tools", "tool_choice"]),
        (ability(model, |offering| offering.schema), &["response_format", "structured_outputs"]),
        (ability(model, |offering| offering.reasoning), &["reasoning"]),
    ];
    if parameters.iter().any(|(known, _)| known.is_some()) {
        let supported = parameters.iter().filter(|(known, _)| *known == Some(true));
        entry["supported_parameters"] = supported.flat_map(|(_, names)| *names).copied().collect();
    }
    entry
}

/// Sets a member if there is a value for it.
fn put(entry: &mut Value, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        entry[name] = value.into();
    }
}

/// As OpenRouter names it.
fn modality(kind: InputKind) -> &'static str {
    if kind == InputKind::Pdf { "file" } else { kind.as_str() }
}

/// What the catalogue knows of the upstreams.
fn known(model: &ModelConfig) -> impl Iterator<Item = &Offering> {
    model.upstreams.iter().filter_map(|upstream| upstream.offering.as_deref())
}

/// Whether an upstream has an ability; a request that needs it goes there. None: that is known of none.
pub(crate) fn ability(model: &ModelConfig, of: impl Fn(&Offering) -> Option<bool>) -> Option<bool> {
    known(model).filter_map(of).reduce(|one, other| one || other)
}

/// What a prompt may contain at one of the upstreams at least. None: that is known of none.
pub(crate) fn input_kinds(model: &ModelConfig) -> Option<Vec<InputKind>> {
    let has = |kind: &InputKind| ability(model, |offering| Some(offering.kinds.as_ref()?.contains(kind))) == Some(true);
    let kinds: Vec<InputKind> = InputKind::ALL.into_iter().filter(has).collect();
    (!kinds.is_empty()).then_some(kinds)
}

/// The smallest context window of the upstreams, in tokens. None if the window of any upstream is not known.
pub(crate) fn context_window(model: &ModelConfig) -> Option<u64> {
    least(model, |upstream| upstream.context)
}

/// The same of the longest answers.
fn longest_answer(model: &ModelConfig) -> Option<u64> {
    least(model, |upstream| upstream.offering.as_deref()?.max_output)
}

fn least(model: &ModelConfig, of: impl Fn(&UpstreamConfig) -> Option<u64>) -> Option<u64> {
    model.upstreams.iter().map(of).collect::<Option<Vec<_>>>()?.into_iter().min()
}

/// Anthropic's clients send this header with every request.
fn asks_anthropic(headers: &HeaderMap) -> bool {
    headers.contains_key("anthropic-version")
}

fn anthropic_entry(id: &str, model: &ModelConfig) -> Value {
    let mut entry = json!({ "type": "model", "id": id, "display_name": id, "created_at": "1970-01-01T00:00:00Z" });
    put(&mut entry, "max_input_tokens", context_window(model));
    put(&mut entry, "max_tokens", longest_answer(model));
    entry
}

pub(crate) fn json_response(value: &Value) -> Response<Body> {
    json_text(value.to_string())
}

/// A text of JSON as an answer.
pub(crate) fn json_text(text: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(text.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
