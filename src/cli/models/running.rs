//! What a running gateway knows beyond the configuration: what providers list now. Not for the rest of its state: see
//! `routing`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::options::ModelsOptions;
use crate::cli::routing::{self, GatewayAddress};
use crate::cli::text::write_columns;
use photofinish_config::config::{Config, ModelConfig, UpstreamConfig};
use photofinish_routing::status::RoutingReport;

/// A gateway on this machine that takes longer is not waited for.
const ANSWER_FOR: Duration = Duration::from_secs(1);

/// How the lists of providers differ from the configuration.
#[derive(Debug, Default)]
pub struct ListedNow {
    /// Upstreams that are the last choice, as `provider/model`, and why.
    unlisted: BTreeMap<String, String>,
    /// Models that are served only because a local server lists them.
    served: Vec<String>,
}

impl ListedNow {
    /// Asks the gateway of this configuration. None: none answers, it has users and answers admins only, or the options
    /// show nothing of its answer.
    pub async fn ask(config: &Config, options: &ModelsOptions) -> Option<ListedNow> {
        if !config.users.is_empty() || (options.name.is_some() && options.json) {
            return None;
        }
        let at = GatewayAddress::listening(&config.server.listen, config.server.tls.is_some()).ok()?;
        let told = tokio::time::timeout(ANSWER_FOR, routing::report(&at)).await.ok()??;
        Some(ListedNow::of(&told, config, options))
    }

    /// What concerns the models that the options ask for.
    fn of(running: &RoutingReport, config: &Config, options: &ModelsOptions) -> ListedNow {
        let models: Vec<&Arc<ModelConfig>> = match &options.name {
            Some(name) => config.model(name).into_iter().collect(),
            None => options.chosen(config).collect(),
        };
        let shown: BTreeSet<String> =
            models.iter().flat_map(|model| &model.upstreams).map(UpstreamConfig::name).collect();
        let mut now = ListedNow::default();
        for model in &running.models {
            if !config.models.contains_key(&model.model) && is_chosen(&model.model, running, options) {
                now.served.push(model.model.clone());
            }
            for reason in model.why.iter().filter(|why| why.code == "unlisted" && shown.contains(&why.upstream)) {
                now.unlisted.entry(reason.upstream.clone()).or_insert_with(|| reason.text.clone());
            }
        }
        now
    }

    pub(super) fn json(&self) -> Value {
        let unlisted: Vec<Value> =
            self.unlisted.iter().map(|(upstream, why)| json!({ "upstream": upstream, "why": why })).collect();
        json!({ "unlisted": unlisted, "served": self.served })
    }

    /// Nothing if no list differs from the configuration.
    pub(super) fn write(&self, out: &mut impl io::Write) -> io::Result<()> {
        if !self.unlisted.is_empty() {
            writeln!(out, "  By the running gateway these are the last choice:")?;
            let rows: Vec<Vec<String>> =
                self.unlisted.iter().map(|(upstream, why)| vec![upstream.clone(), why.clone()]).collect();
            write_columns("    ", &rows, out)?;
        }
        if !self.served.is_empty() {
            writeln!(out, "  The running gateway also serves: {}.", self.served.join(", "))?;
        }
        Ok(())
    }
}

/// Whether the options ask for this model, which the configuration lacks.
fn is_chosen(model: &String, running: &RoutingReport, options: &ModelsOptions) -> bool {
    let upstreams = || running.upstreams.iter().filter(|upstream| upstream.models.contains(model));
    let by_provider = |provider: &String| {
        upstreams().any(|upstream| upstream.upstream.split_once('/').is_some_and(|(name, _)| name == provider))
    };
    options.name.is_none()
        && (!options.raceable || upstreams().filter(|upstream| upstream.on).count() > 1)
        && options.provider.as_ref().is_none_or(by_provider)
}
