//! Which hosts are worse by what the history says. Not for what traffic teaches while it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{JudgedAnswer, Quality};
use photofinish_base::clock::micros;
use photofinish_config::{Config, UpstreamConfig};
use photofinish_facts::record::recorded::{QualityHistory, Recorded, RecordedAttempt};

/// Attempts of an upstream that are read, the newest. Older ones would have almost no weight.
pub const REMEMBERED_MAX: usize = 4_000;
/// How long a fact of `photofinish verify` counts: a host may have been mended since.
const FACTS_FOR: Duration = Duration::from_secs(30 * 86_400);

impl Quality {
    /// All that the history says now.
    ///
    /// # Errors
    /// The history cannot be read.
    pub fn of_history<H: QualityHistory>(config: &Config, history: &H, now_us: i64) -> Result<Quality, H::Error> {
        let quality = Quality::default();
        let compared = config.models.values().filter(|model| model.upstreams.len() > 1);
        let upstreams: BTreeSet<String> =
            compared.flat_map(|model| &model.upstreams).map(UpstreamConfig::name).collect();
        let upstreams: Vec<String> = upstreams.into_iter().collect();
        let each = &mut |recorded: Recorded| quality.remember(config, &recorded, now_us);
        history.requests_of(&upstreams, REMEMBERED_MAX, each)?;
        quality.read_facts(config, history, now_us)?;
        quality.look_at_all(now_us);
        Ok(quality)
    }

    /// Counts the answers of a request of the history, without looking at the hosts again.
    pub fn remember(&self, config: &Config, recorded: &Recorded, now_us: i64) {
        let Some(model) = config.model(&recorded.model) else { return };
        for (class, upstream, broken) in recorded.attempts.iter().filter_map(RecordedAttempt::judged) {
            let at_us = recorded.started_at.min(now_us);
            self.known().add(&JudgedAnswer { model: &model.name, upstream: &upstream, class, broken, at_us });
        }
    }

    /// What a host certainly does not do makes it worse. What it does in another way, such as another template, does not.
    ///
    /// # Errors
    /// The history cannot be read.
    pub fn read_facts<H: QualityHistory>(&self, config: &Config, history: &H, now_us: i64) -> Result<(), H::Error> {
        let mut facts = BTreeMap::<String, BTreeSet<String>>::new();
        for (host, fact) in history.wrong_facts(now_us - micros(FACTS_FOR))? {
            facts.entry(host).or_default().insert(fact);
        }
        let mut models = BTreeMap::<String, Vec<&str>>::new();
        for model in config.models.values() {
            model.upstreams.iter().for_each(|upstream| models.entry(upstream.name()).or_default().push(&model.name));
        }
        for (upstream, models) in models {
            let facts = facts.remove(&upstream).unwrap_or_default().into_iter().collect();
            self.set_facts(&upstream, facts, &models, now_us);
        }
        Ok(())
    }
}
