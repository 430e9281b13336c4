//! What the log says of a configuration: which file, and what is on. Why the rest is off is told by `photofinish check`.

use crate::config::{Config, Keys};

pub(super) fn configuration(config: &Config) {
    tracing::info!(version = env!("CARGO_PKG_VERSION"), config = %config.path.display(), "photofinish");
    let (mut on, mut simulated, mut waiting, mut off) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for provider in config.providers.values() {
        match &provider.keys {
            _ if provider.simulate.is_some() => simulated.push(provider.name.clone()),
            Keys::Token(token) if token.current().is_none() => {
                waiting.push(format!("{} ({})", provider.name, token.source.name()));
            }
            Keys::Off(_) if !config.provider_is_on(provider) => off += 1,
            Keys::Off(_) => on.push(format!("{} (own keys)", provider.name)),
            Keys::NotConfigured | Keys::Keys(_) | Keys::Token(_) => on.push(provider.name.clone()),
        }
    }
    for (what, names) in [("on", on), ("off until their first token", waiting), ("simulated", simulated)] {
        if !names.is_empty() {
            tracing::info!("providers {what}: {}", names.join(", "));
        }
    }
    if off > 0 {
        tracing::info!("providers off: {off} (photofinish check tells why)");
    }
    let usable = config
        .models
        .values()
        .filter(|model| model.upstreams.iter().any(|upstream| config.provider_is_on(&upstream.provider)));
    let models: Vec<String> = usable
        .map(|model| format!("{} ({} of {})", model.name, model.race.policy.as_str(), model.upstreams.len()))
        .collect();
    tracing::info!("models: {}", if models.is_empty() { "none".to_owned() } else { models.join(", ") });
    if !config.users.is_empty() {
        tracing::info!(users = config.users.len(), "callers must send a token");
    }
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
}
