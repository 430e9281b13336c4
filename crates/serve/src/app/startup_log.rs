//! Logs a summary of a configuration: which file, what is on, and why the rest is off. Uses the same texts as
//! `photofinish check`.

use photofinish_config::{Config, Keys, today};

pub(super) fn configuration(config: &Config) {
    tracing::info!(version = env!("CARGO_PKG_VERSION"), config = %config.source, "photofinish");
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
    let catalogue = &config.catalogue;
    tracing::info!(rows = catalogue.len(), "catalogue of models: {}, {}", catalogue.date(), config.catalogue_place);
    if config.serves_catalogue && !config.models.is_empty() {
        catalogue_models(config);
    }
    for model in config.models.values().filter(|_| !config.serves_catalogue) {
        tracing::info!("model {}: {}, {}", model.name, model.race.policy.as_str(), config.upstreams_on_text(model));
    }
    // What a server lists is logged once it has answered.
    if config.models.is_empty() && !config.providers.values().any(|provider| provider.serves_its_list()) {
        tracing::info!("models: none; callers may name upstreams as provider/model");
    }
    if !config.users.is_empty() {
        tracing::info!(users = config.users.len(), "callers must send a token");
    }
    if let Some(otlp) = &config.otlp {
        tracing::info!("traces go to {}", otlp.address.origin());
    }
    for warning in config.warnings.iter().chain(&config.old_catalogue(&today())) {
        tracing::warn!("{warning}");
    }
}

/// A line about the models of the catalogue, and one about what races or would.
fn catalogue_models(config: &Config) {
    let raced: Vec<&str> = config
        .models
        .values()
        .filter(|model| config.upstreams_on(model) > 1)
        .map(|model| model.name.as_str())
        .collect();
    let policy = config.models.values().next().map_or("", |model| model.race.policy.as_str());
    tracing::info!(
        policy,
        "models: {} served by name, {} of them raced; `photofinish models` lists them",
        config.models.len(),
        raced.len()
    );
    match (raced.len(), config.most_useful_key()) {
        (0, Some((variable, gained))) => {
            tracing::info!("nothing races: a second key would help, most of all {variable}, for {gained} models");
        }
        (0, None) => tracing::info!("nothing races: no other provider hosts these models"),
        _ => tracing::info!("raced: {}", shortened(&raced)),
    }
}

/// Names with commas, and how many more there are.
pub(super) fn shortened(names: &[&str]) -> String {
    const SHOWN: usize = 12;
    let listed = names[..names.len().min(SHOWN)].join(", ");
    if names.len() > SHOWN { format!("{listed} and {} more", names.len() - SHOWN) } else { listed }
}
