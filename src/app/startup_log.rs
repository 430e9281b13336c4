//! Logs a summary of a configuration: which file, what is on, and why the rest is off. Uses the same texts as
//! `photofinish check`.

use crate::config::{Config, Keys};

pub(super) fn configuration(config: &Config) {
    tracing::info!(version = env!("CARGO_PKG_VERSION"), config = %config.path.display(), "photofinish");
    let (mut on, mut simulated, mut waiting, mut off) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for provider in config.providers.values() {
        match &provider.keys {
            _ if provider.simulate.is_some() => simulated.push(provider.name.clone()),
            Keys::Token(token) if token.current().is_none() => {
                waiting.push(format!("{} ({})", provider.name, token.source.name()));
            }
            Keys::Off(_) if !config.provider_is_on(provider) => {
                off.push(format!("{} ({})", provider.name, provider.why_off().unwrap_or_default()));
            }
            Keys::Off(_) => on.push(format!("{} (own keys)", provider.name)),
            Keys::NotConfigured | Keys::Keys(_) | Keys::Token(_) => on.push(provider.name.clone()),
        }
    }
    for (what, names) in [("on", on), ("off until their first token", waiting), ("simulated", simulated), ("off", off)]
    {
        if !names.is_empty() {
            tracing::info!("providers {what}: {}", names.join(", "));
        }
    }
    for model in config.models.values() {
        tracing::info!("model {}: {}, {}", model.name, model.race.policy.as_str(), config.told_on(model));
    }
    if config.models.is_empty() {
        tracing::info!("models: none; callers may name upstreams as provider/model");
    }
    if !config.users.is_empty() {
        tracing::info!(users = config.users.len(), "callers must send a token");
    }
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
}
