//! `/api/config`: the configuration in force, for people. Names, numbers and states: no key, no token, no hash of either, and of
//! an address only its host.
//!
//! `problems` are those of a newer file that is not in force, with line and column, and `accept` is the request that takes it all
//! the same.

use axum::body::Body;
use axum::extract::State;
use http::{Response, Uri};
use serde_json::{Value, json};

use super::ask::json as json_answer;
use crate::server::served_paths::ServedPaths;
use photofinish_config::config::units::format_duration;
use photofinish_config::config::{
    Config, Cors, Keys, ModelConfig, Permit, Provider, Retention, UpstreamConfig, User, today,
};
use photofinish_gateway::proxy::{self, Client};

/// Models of the answer; with a catalogue there may be thousands.
const MODELS_MAX: usize = 1_000;

pub async fn config(State(site): State<ServedPaths>, client: Client) -> Response<Body> {
    match proxy::admin(&site.gateway, &client) {
        Ok(()) => {
            let mut told = told(&site.gateway.live().config);
            let refused = site.gateway.refused_configuration();
            told["problems"] = refused.as_ref().map(ToString::to_string).into();
            told["accept"] = refused.and_then(|refused| refused.accepted_by()).into();
            json_answer(told.to_string())
        }
        Err(rejection) => rejection.into_response(),
    }
}

pub(super) fn told(config: &Config) -> Value {
    let server = &config.server;
    let warnings: Vec<&String> = config.warnings.iter().collect();
    let listen: Vec<String> = server.listen.iter().map(|listen| listen.url(server.tls.is_some())).collect();
    json!({
        "source": config.source.to_string(),
        "problems": null,
        "accept": null,
        "store": config.store.path.display().to_string(),
        "retention": retention(&config.store.retention),
        "catalogue": config.catalogue.date(),
        "server": {
            "listen": listen,
            "tls": server.tls.is_some(),
            "hosts": server.hosts,
            "cors": cors(&server.cors),
            "body_max": server.body_max,
            "memory": server.memory,
            "max_in_flight": server.max_in_flight,
            "drain": format_duration(server.drain),
        },
        "providers": config.providers.values().map(|of| provider(config, of)).collect::<Vec<Value>>(),
        "models": config.models.values().take(MODELS_MAX).map(|of| model(config, of)).collect::<Vec<Value>>(),
        "models_left_out": config.models.len().saturating_sub(MODELS_MAX),
        "users": config.users.iter().map(|of| user(of)).collect::<Vec<Value>>(),
        "warnings": warnings.into_iter().chain(&config.old_catalogue(&today())).collect::<Vec<&String>>(),
    })
}

fn retention(retention: &Retention) -> String {
    match retention {
        Retention::Forever => "forever".to_owned(),
        Retention::For(time) => format_duration(*time),
    }
}

fn cors(cors: &Cors) -> Value {
    match cors {
        Cors::None => json!([]),
        Cors::Any => json!(["*"]),
        Cors::Only(origins) => json!(origins),
    }
}

fn provider(config: &Config, provider: &Provider) -> Value {
    let keys = match &provider.keys {
        Keys::Keys(keys) => keys.len(),
        Keys::Token(_) => 1,
        Keys::Off(_) | Keys::NotConfigured => 0,
    };
    let dialects: Vec<&str> = provider.dialects.iter().map(|spoken| spoken.dialect.as_str()).collect();
    json!({
        "provider": provider.name,
        "on": config.provider_is_on(provider),
        "why_off": provider.why_off(),
        "simulated": provider.simulate.is_some(),
        "host": host(&provider.base_url),
        "dialects": dialects,
        "keys": keys,
        "cancel_billing": provider.cancel_billing.as_str(),
        "domain": provider.domain,
        "http_proxy": provider.preferred().transport.proxy.is_some(),
    })
}

/// Scheme, name and port. The rest may hold a secret.
fn host(address: &str) -> Option<String> {
    let uri: Uri = address.parse().ok()?;
    let port = uri.port().map(|port| format!(":{port}")).unwrap_or_default();
    Some(format!("{}://{}{port}", uri.scheme_str()?, uri.host()?))
}

fn model(config: &Config, model: &ModelConfig) -> Value {
    let aliases: Vec<&String> =
        config.aliases.iter().filter(|(_, of)| **of == model.name).map(|(alias, _)| alias).collect();
    let upstream = |of: &UpstreamConfig| {
        let price = of.price.map(|price| json!({ "input": price.input, "output": price.output }));
        json!({
            "upstream": of.name(),
            "on": config.provider_is_on(&of.provider),
            "weight": of.weight,
            "context": of.context,
            // US dollars per million tokens.
            "price": price,
        })
    };
    json!({
        "model": model.name,
        "aliases": aliases,
        "policy": model.race.policy.as_str(),
        "max_attempts": model.race.max_attempts,
        "upstreams": model.upstreams.iter().map(upstream).collect::<Vec<Value>>(),
    })
}

fn user(user: &User) -> Value {
    let overrides = match &user.overrides {
        Permit::Usual => json!("usual"),
        Permit::All => json!("all"),
        Permit::Listed(listed) => json!(listed.iter().map(|one| one.as_str()).collect::<Vec<&str>>()),
    };
    json!({ "user": user.name, "admin": user.admin, "overrides": overrides, "own_keys": user.keys.keys().collect::<Vec<&String>>() })
}
