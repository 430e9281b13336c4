//! What the history teaches before the first request is served, so that a gateway that was started again decides as well as
//! before.

use std::collections::HashMap;

use crate::clock::Instant;
use crate::config::{Config, Policy, Upstream};
use crate::history::AttemptOutcome;
use crate::history::recorded::{Recorded, RecordedAttempt};
use crate::learning::{Learning, Remembering};
use crate::race::verdict::slows_hedging;
use crate::routing::tariff::{Prompt, Tariff, tariffs};
use crate::store::{Reader, RecordedFilter};

/// Requests that are remembered: the newest. What is older has faded from what is learnt.
const REMEMBERED_MAX: usize = 20_000;

/// Blocks: not for a task of the runtime. A history that cannot be read is logged, and nothing is learnt from it.
pub fn remember(config: &Config, learning: &Learning) {
    let (began, path) = (Instant::now(), &config.store.path);
    if !path.exists() {
        return;
    }
    let filter = RecordedFilter { newest: REMEMBERED_MAX, ..RecordedFilter::default() };
    let mut requests = 0_u64;
    let tariffs: HashMap<&str, Tariffs> =
        config.models.values().map(|model| (&*model.name, of(&model.upstreams))).collect();
    let read = Reader::open(path).map_err(anyhow::Error::from).and_then(|reader| {
        let each = |recorded: Recorded| {
            requests += 1;
            let model = config.model(&recorded.model);
            let tariffs = model.and_then(|model| tariffs.get(&*model.name));
            let ledger = model.map(|model| learning.ledger(&recorded.model, model.race.budget));
            let cost = |attempt: &RecordedAttempt| tariffs.map_or(0.0, |tariffs| cost(attempt, &recorded, tariffs));
            let policy = recorded.policy.as_deref().and_then(Policy::from_name);
            let keeps_budget = policy.is_some_and(Policy::spends_budget);
            learning.remember(&recorded, &Remembering { counts: &slows_hedging, ledger, keeps_budget, cost: &cost });
        };
        Ok(reader.recorded(&filter, each)?)
    });
    learning.publish();
    match read {
        Ok(()) => tracing::info!(requests, after = ?began.elapsed(), "learnt from the history"),
        Err(error) => tracing::warn!(requests, %error, "the history teaches no more: plans begin with what is known"),
    }
}

/// By `provider/model`.
type Tariffs = HashMap<String, Tariff>;

fn of(upstreams: &[Upstream]) -> Tariffs {
    let billings: Vec<_> = upstreams.iter().map(Upstream::billing).collect();
    upstreams.iter().map(Upstream::name).zip(tariffs(&billings)).collect()
}

/// As it was counted, else as it is estimated.
fn cost(attempt: &RecordedAttempt, recorded: &Recorded, tariffs: &Tariffs) -> f64 {
    let name = format!("{}/{}", attempt.provider, attempt.model_sent);
    let Some(tariff) = tariffs.get(&name).filter(|_| attempt.outcome != AttemptOutcome::Failed) else { return 0.0 };
    let input = attempt.input_tokens.unwrap_or(recorded.input_tokens_estimate);
    let cached = attempt.cached_input_tokens.unwrap_or(0).min(input);
    let prompt = Prompt { uncached: (input - cached) as f64, cached: cached as f64 };
    tariff.whole(prompt, attempt.output_tokens.unwrap_or(0) as f64)
}
