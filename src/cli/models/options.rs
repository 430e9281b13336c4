//! What `photofinish models` takes, and the models that it asks for. Not for printing them: see `models`.

use std::sync::Arc;

use super::update::{self, UpdateOptions};
use photofinish_config::config::{Config, ModelConfig};

/// What the command takes.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct ModelsOptions {
    /// Only this model or alias, with everything that is known of it.
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Only models that two upstreams or more can serve.
    #[arg(long)]
    pub raceable: bool,
    /// Only models that this provider serves.
    #[arg(long, value_name = "NAME")]
    pub provider: Option<String>,
    /// JSON: one object with a list of models.
    #[arg(long)]
    pub json: bool,
    #[command(subcommand)]
    pub action: Option<ModelsAction>,
}

#[derive(clap::Subcommand, Clone, Debug)]
pub enum ModelsAction {
    /// Get a newer catalogue of models and put it beside the store.
    ///
    /// The next start takes it, and a running gateway within seconds. The exit code is 1 where it is refused.
    #[command(after_help = update::EXAMPLES)]
    Update(UpdateOptions),
}

impl ModelsOptions {
    /// The models that they ask for, by name. `name` is another question.
    pub(super) fn chosen<'c>(&'c self, config: &'c Config) -> impl Iterator<Item = &'c Arc<ModelConfig>> {
        let by_provider = |model: &ModelConfig| {
            let of = |name: &String| model.upstreams.iter().any(|upstream| upstream.provider.name == *name);
            self.provider.as_ref().is_none_or(of)
        };
        let is_chosen =
            move |model: &ModelConfig| (!self.raceable || config.upstreams_on(model) > 1) && by_provider(model);
        config.models.values().filter(move |model| is_chosen(model))
    }
}
