//! The options of `race` as a request to the gateway: the same that a client would send.

use std::fmt;
use std::io::Read;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use serde_json::json;

use photofinish_config::{Config, ModelConfig, UpstreamConfig, User};

/// Options that become headers, so that the gateway reads them like a client's.
const AS_HEADERS: [(&str, &str); 4] = [
    ("--upstreams", "x-photofinish-upstreams"),
    ("--policy", "x-photofinish-policy"),
    ("--hedge-after", "x-photofinish-hedge-after"),
    ("--max-attempts", "x-photofinish-max-attempts"),
];

/// A request.
pub struct RequestTemplate {
    body: Bytes,
    headers: HeaderMap,
    pub user: Option<Arc<User>>,
    /// The upstreams that may start, as `provider/model`, by the configuration.
    pub upstreams: Vec<String>,
    /// The models of the configuration, for an error message.
    models: String,
}

impl RequestTemplate {
    /// `input`: where a prompt of `-` comes from.
    ///
    /// # Errors
    /// In words, if the options cannot be used.
    pub fn new(config: &Config, options: &RaceOptions, input: impl Read) -> Result<RequestTemplate, String> {
        let models = models(config);
        let user = options.user.as_deref().map(|name| user(config, name)).transpose()?;
        let named = options.model.as_deref().or(options.upstreams.as_deref());
        let Some(model) = named.or_else(|| obvious_model(config, user.as_deref())) else {
            return Err(format!("--model is missing; {models}"));
        };
        if options.upstreams.is_none() && !model.contains('/') && config.model(model).is_none() {
            let nearest = config.nearest_models(model);
            let hint =
                if nearest.is_empty() { String::new() } else { format!(", did you mean {}?", nearest.join(" or ")) };
            return Err(format!("there is no model {model:?}{hint}; {models}"));
        }
        let prompt = prompt(options, config.server.body_max, input)?;
        let system = options.system.as_ref().map(|system| json!({ "role": "system", "content": system.0 }));
        let messages: Vec<_> = system.into_iter().chain([json!({ "role": "user", "content": prompt })]).collect();
        let mut body = json!({ "model": model, "stream": true, "messages": messages });
        if let Some(max_tokens) = options.max_tokens {
            body["max_tokens"] = max_tokens.into();
        }
        Ok(RequestTemplate {
            body: Bytes::from(body.to_string()),
            headers: headers(options)?,
            upstreams: upstreams(config, options.upstreams.as_deref(), model, user.as_deref()),
            user,
            models,
        })
    }

    pub fn request(&self) -> Request<Body> {
        let mut request = Request::new(Body::from(self.body.clone()));
        *request.method_mut() = Method::POST;
        *request.headers_mut() = self.headers.clone();
        request
    }

    /// The gateway's rejection in the words of the command.
    pub fn in_words_of_options(&self, message: &str) -> String {
        let message = AS_HEADERS
            .iter()
            .fold(message.to_owned(), |message, (option, header)| message.replace(&format!("header {header}"), option));
        message.replace("GET /v1/models lists what there is", &self.models)
    }
}

fn prompt(options: &RaceOptions, max: usize, input: impl Read) -> Result<String, String> {
    let mut prompt = options.prompt.0.clone();
    if prompt == "-" {
        prompt.clear();
        let limit = u64::try_from(max).unwrap_or(u64::MAX);
        let read = input.take(limit.saturating_add(1)).read_to_string(&mut prompt);
        read.map_err(|error| format!("the prompt cannot be read from standard input: {error}"))?;
        if prompt.len() > max {
            return Err("the prompt on standard input is larger than body_max".to_owned());
        }
    }
    if prompt.trim().is_empty() { Err("the prompt is empty".to_owned()) } else { Ok(prompt) }
}

fn headers(options: &RaceOptions) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // Without --model they are the model, and a model may name upstreams itself.
    let upstreams = options.upstreams.as_ref().filter(|_| options.model.is_some());
    let values = [upstreams, options.policy.as_ref(), options.hedge_after.as_ref(), options.max_attempts.as_ref()];
    for ((option, header), value) in AS_HEADERS.into_iter().zip(values) {
        if let Some(value) = value {
            let value = HeaderValue::from_str(value).map_err(|_| format!("{option}: expected visible characters"))?;
            headers.insert(HeaderName::from_static(header), value);
        }
    }
    Ok(headers)
}

fn user(config: &Config, name: &str) -> Result<Arc<User>, String> {
    config.users.iter().find(|user| user.name == name).cloned().ok_or_else(|| {
        let names: Vec<&str> = config.users.iter().map(|user| user.name.as_str()).collect();
        let there_are = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        format!("there is no user {name:?} in the configuration; its users: {there_are}")
    })
}

/// The only model that can be asked, or the only one that can race.
fn obvious_model<'a>(config: &'a Config, user: Option<&User>) -> Option<&'a str> {
    let only = |least: usize| {
        let mut models = config.models.values().filter(|model| usable(model, user).count() >= least);
        models.next().filter(|_| models.next().is_none()).map(|model| model.name.as_str())
    };
    // The models of the catalogue were not chosen, so any race will do: the widest shows most.
    let widest = || {
        let raced = config.models.values().filter(|model| config.serves_catalogue && usable(model, user).count() > 1);
        raced.max_by_key(|model| usable(model, user).count()).map(|model| model.name.as_str())
    };
    only(1).or_else(|| only(2)).or_else(widest)
}

/// The upstreams that have a key: the provider's, or this user's own.
fn usable<'a>(model: &'a ModelConfig, user: Option<&'a User>) -> impl Iterator<Item = &'a UpstreamConfig> {
    let own = move |provider: &str| user.is_some_and(|user| user.keys.contains_key(provider));
    model.upstreams.iter().filter(move |upstream| upstream.provider.is_on() || own(&upstream.provider.name))
}

fn upstreams(config: &Config, named: Option<&str>, model: &str, user: Option<&User>) -> Vec<String> {
    match (named, config.model(model)) {
        (None, Some(model)) => {
            usable(model, user).map(|upstream| format!("{}/{}", upstream.provider.name, upstream.model)).collect()
        }
        (named, _) => {
            let names = named.unwrap_or(model).split(',').map(str::trim);
            names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
        }
    }
}

/// More models than this are counted, not named.
const NAMED_MAX: usize = 12;

fn models(config: &Config) -> String {
    let name = |model: &ModelConfig| {
        let on = model.upstreams.iter().any(|upstream| config.provider_is_on(&upstream.provider));
        if on { model.name.clone() } else { format!("{} (off)", model.name) }
    };
    let names: Vec<String> = config.models.values().map(|model| name(model)).collect();
    if names.is_empty() {
        return "the configuration has no models: name upstreams as provider/model".to_owned();
    }
    if names.len() > NAMED_MAX {
        return format!("`photofinish models` lists the {} models that are served", names.len());
    }
    format!("the models of the configuration: {}", names.join(", "))
}

/// What the command takes.
#[derive(clap::Args, Clone, Debug)]
pub struct RaceOptions {
    /// What to ask; `-` reads it from standard input.
    pub prompt: PromptText,
    /// A model or an alias of the configuration, or upstreams as provider/model with commas between. Not needed where only
    /// one model can be asked, or only one can race.
    #[arg(long)]
    pub model: Option<String>,
    /// Race these instead of the model's: provider/model, with commas between. Without --model they are the model.
    #[arg(long, value_name = "UPSTREAMS")]
    pub upstreams: Option<String>,
    /// Another policy than the model's.
    #[arg(long)]
    pub policy: Option<String>,
    /// For hedge: the delay before the next attempt starts, such as 250ms.
    #[arg(long, value_name = "DELAY")]
    pub hedge_after: Option<String>,
    /// Attempts that may run at once by choice.
    #[arg(long, value_name = "N")]
    pub max_attempts: Option<String>,
    /// Length of the answer, in tokens.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_tokens: Option<u32>,
    /// A system message before the prompt.
    #[arg(long, value_name = "TEXT")]
    pub system: Option<PromptText>,
    /// Use this user's keys, and record the race under this name.
    #[arg(long)]
    pub user: Option<String>,
    /// One object on one line, for programs.
    #[arg(long)]
    pub json: bool,
    /// Write no rows.
    #[arg(long)]
    pub no_store: bool,
}

/// Text that may be a prompt, so `Debug` does not show it.
#[derive(Clone)]
pub struct PromptText(pub String);

impl From<String> for PromptText {
    fn from(text: String) -> PromptText {
        PromptText(text)
    }
}

impl fmt::Debug for PromptText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Text({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests;
