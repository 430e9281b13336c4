//! What a running gateway knows beyond the configuration: what providers list now. Not for the rest of its state: see
//! `routing`.

use std::io;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::routing::{self, GatewayAddress};
use crate::cli::text::write_columns;
use crate::config::{Config, UpstreamConfig};

/// A gateway on this machine that takes longer is not waited for.
const ANSWER_FOR: Duration = Duration::from_secs(1);

/// How the lists of providers differ from the configuration.
#[derive(Debug, Default)]
pub struct ListedNow {
    /// Upstreams that are the last choice, as `provider/model`, and why.
    unlisted: Vec<(String, String)>,
    /// Models that are served only because a local server lists them.
    served: Vec<String>,
}

impl ListedNow {
    /// Asks the gateway of this configuration. None: none answers, or it has users and answers admins only.
    pub async fn ask(config: &Config) -> Option<ListedNow> {
        if !config.users.is_empty() {
            return None;
        }
        let at = GatewayAddress::listening(&config.server.listen, config.server.tls.is_some()).ok()?;
        let told = tokio::time::timeout(ANSWER_FOR, routing::report(&at)).await.ok()??;
        let mut now = ListedNow::default();
        for model in told.models {
            if !config.models.contains_key(&model.model) {
                now.served.push(model.model);
            }
            let gone = model.why.into_iter().filter(|reason| reason.code == "unlisted");
            now.unlisted.extend(gone.map(|reason| (reason.upstream, reason.text)));
        }
        Some(now)
    }

    /// What concerns this model of the configuration.
    pub(super) fn of_model(&self, config: &Config, name: &str) -> ListedNow {
        let upstreams: Vec<String> =
            config.model(name).map_or(Vec::new(), |model| model.upstreams.iter().map(UpstreamConfig::name).collect());
        let unlisted = self.unlisted.iter().filter(|(upstream, _)| upstreams.contains(upstream));
        ListedNow { unlisted: unlisted.cloned().collect(), served: Vec::new() }
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
