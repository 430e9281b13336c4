//! Look-ups in a [`Config`]. Not for reading it: see `load`.

use std::sync::Arc;

use super::problem::nearest;
use super::{Config, Keys, ModelConfig, Provider};

impl Config {
    /// The model with this name or alias.
    pub fn model(&self, name: &str) -> Option<&Arc<ModelConfig>> {
        self.models.get(name).or_else(|| self.models.get(self.aliases.get(name)?))
    }

    /// The models and aliases most like `name`, at most three, the best first.
    pub fn nearest_models(&self, name: &str) -> Vec<String> {
        nearest(name, self.models.keys().chain(self.aliases.keys()).map(String::as_str), 3)
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
            0 => "NOT USABLE, all are off".to_owned(),
            on => format!("{on} of {} upstreams on", model.upstreams.len()),
        }
    }
}
