//! Look-ups in a [`Config`]. Not for reading it: see `load`.

use std::sync::Arc;

use super::problem::nearest;
use super::{Config, Keys, ModelConfig, Provider, catalogue};
use crate::printable::quoted;

impl Config {
    /// The model with this name or alias.
    pub fn model(&self, name: &str) -> Option<&Arc<ModelConfig>> {
        let named = |name: &str| self.models.get(name).or_else(|| self.models.get(self.aliases.get(name)?));
        // Ollama's clients add this tag to a name without one.
        named(name).or_else(|| named(name.strip_suffix(":latest")?))
    }

    /// The usable models and aliases most like `name`, at most three, the best first.
    pub fn nearest_models(&self, name: &str) -> Vec<String> {
        let names = self.models.keys().chain(self.aliases.keys()).map(String::as_str);
        nearest(name, names.filter(|name| self.model(name).is_some_and(|model| self.upstreams_on(model) > 0)), 3)
    }

    /// Why there is no provider of this name, as the end of a sentence, with a way out.
    pub fn why_no_provider(&self, name: &str) -> String {
        match catalogue::find(name) {
            Some(entry) => match entry.key_variable.as_deref().filter(|_| entry.has_address()) {
                Some(variable) => {
                    format!("the provider {name} needs a key in {variable}, or a table [providers.{name}]")
                }
                None => format!("the provider {name} needs a table [providers.{name}]"),
            },
            None => {
                let known = catalogue::entries().map(|entry| entry.name.as_str());
                let nearest = nearest(name, self.providers.keys().map(String::as_str).chain(known), 1);
                let hint = nearest.first().map_or(String::new(), |nearest| format!(" (did you mean {nearest}?)"));
                format!("there is no provider {} in the configuration{hint}", quoted(name))
            }
        }
    }

    /// Some caller can use the provider without sending a key: it is on, or a user has a key for it.
    pub fn provider_is_on(&self, provider: &Provider) -> bool {
        provider.is_on() || self.users.iter().any(|user| user.keys.contains_key(&provider.name))
    }

    /// Upstreams of a model that some caller can use once the gateway runs. A provider with a token counts.
    pub fn upstreams_on(&self, model: &ModelConfig) -> usize {
        let will_be = |provider: &Provider| matches!(provider.keys, Keys::Token(_)) || self.provider_is_on(provider);
        model.upstreams.iter().filter(|upstream| will_be(&upstream.provider)).count()
    }

    /// The same in words: `1 of 2 upstreams on`.
    pub fn told_on(&self, model: &ModelConfig) -> String {
        match self.upstreams_on(model) {
            0 => "off: none of its providers is on".to_owned(),
            on => format!("{on} of {} upstreams on", model.upstreams.len()),
        }
    }
}
