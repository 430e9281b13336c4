//! Questions that are put to a [`Config`].

use std::sync::Arc;

use super::problem::nearest;
use super::{Config, Model, Provider};

impl Config {
    /// The model of this name, or the one with this alias.
    pub fn model(&self, name: &str) -> Option<&Arc<Model>> {
        self.models.get(name).or_else(|| self.models.get(self.aliases.get(name)?))
    }

    /// The models and aliases most like `name`, at most three, the best first.
    pub fn nearest_models(&self, name: &str) -> Vec<String> {
        nearest(name, self.models.keys().chain(self.aliases.keys()).map(String::as_str), 3)
    }

    /// Whether anybody can use this provider without bringing a key: it is on, or a user has a key for it.
    pub fn provider_is_on(&self, provider: &Provider) -> bool {
        provider.is_on() || self.users.iter().any(|user| user.keys.contains_key(&provider.name))
    }
}
