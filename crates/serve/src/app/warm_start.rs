//! Learns from the history before the first request is served, so that a restarted gateway decides as well as before.
//! If the history cannot be read yet, it learns later.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use photofinish_base::clock::{Instant, wall_micros};
use photofinish_config::{Config, StoreAddress, UpstreamConfig};
use photofinish_facts::record::RaceSource;
use photofinish_facts::record::recorded::{Recorded, RecordedAttempt};
use photofinish_gateway::proxy::Gateway;
use photofinish_history::recorder::Recorder;
use photofinish_history::report::question::time;
use photofinish_history::store::{AHEAD_US, OpenError};
use photofinish_routing::learning::{Learning, RequestMemory};
use photofinish_routing::money::SharedCostBudget;
use photofinish_routing::money::tariff::{Basis, PromptTokens};
use photofinish_routing::quality::REMEMBERED_MAX;
use photofinish_routing::verdict::slows_hedging;

/// From one look at the facts to the next.
const FACTS_EVERY: Duration = Duration::from_secs(30);

/// Learns from the history at this address: a reload does not move it. A history that cannot be read is logged and skipped.
pub(super) async fn learn(gateway: &Arc<Gateway>, recorder: &Recorder, store: StoreAddress) {
    let (taught, recorder) = (gateway.clone(), recorder.clone());
    let learning = gateway.shutdown().run_blocking(move || remember(&taught, &recorder, &store));
    if let Err(error) = learning.await {
        tracing::error!(%error, "learning from the history broke off");
    }
}

/// Learns once the store accepts rows, unless the gateway drains before.
pub(super) async fn learn_later(gateway: Arc<Gateway>, recorder: Recorder, store: StoreAddress) {
    tokio::select! {
        () = recorder.until_stored() => learn(&gateway, &recorder, store).await,
        () = gateway.shutdown().draining() => {}
    }
}

/// Reads what `photofinish verify` found while the gateway runs, until it drains. A history that cannot be read now is read later.
pub(super) async fn follow_facts(gateway: Arc<Gateway>, recorder: Recorder, store: StoreAddress) {
    loop {
        tokio::select! {
            () = gateway.shutdown().draining() => return,
            () = tokio::time::sleep(FACTS_EVERY) => {}
        }
        let (reader_gateway, recorder, store) = (gateway.clone(), recorder.clone(), store.clone());
        if gateway.shutdown().run_blocking(move || read_facts(&reader_gateway, &recorder, &store)).await.is_err() {
            return;
        }
    }
}

/// By itself in a profile, so that `scripts/instructions` can leave it out.
#[inline(never)]
fn read_facts(gateway: &Gateway, recorder: &Recorder, store: &StoreAddress) {
    if let Ok(reader) = recorder.read_history(store) {
        // What cannot be read now is read in half a minute.
        let learning = gateway.learning();
        let _ = learning.quality().read_facts(&gateway.live().config, &reader, wall_micros());
    }
}

/// Blocks: do not call it from an async task. A history that cannot be read is logged and skipped.
fn remember(gateway: &Gateway, recorder: &Recorder, store: &StoreAddress) {
    let (live, learning) = (gateway.live(), gateway.learning());
    let config = &live.config;
    let began = Instant::now();
    let opened = match recorder.read_history(store) {
        Err(OpenError::Absent { .. }) => return,
        opened => opened,
    };
    let configured: BTreeSet<String> =
        config.models.values().flat_map(|model| &model.upstreams).map(UpstreamConfig::name).collect();
    let upstreams: Vec<String> = configured.into_iter().collect();
    let (mut requests, mut newest_us) = (0_u64, 0);
    let read = opened.map_err(anyhow::Error::from).and_then(|reader| {
        let each = |recorded: Recorded| {
            requests += 1;
            newest_us = newest_us.max(recorded.started_at);
            // A probe costs no budget, and says nothing about what a client's request usually costs.
            let model = config.model(&recorded.model).filter(|_| recorded.source == RaceSource::Client);
            let cost_budget = model.map(|model| {
                learning.cost_budget(&model.name, model.race.budget, Basis::of(model.upstreams.iter()).is_money())
            });
            learn_one(learning, config, &recorded, cost_budget);
        };
        reader.recorded_of(&upstreams, REMEMBERED_MAX, each)?;
        Ok(learning.quality().read_facts(config, &reader, wall_micros())?)
    });
    if newest_us > wall_micros() + AHEAD_US {
        let newest = time(newest_us);
        tracing::warn!(
            newest,
            "the history has requests dated after now: a clock was ahead; they are in no figure until then"
        );
    }
    learning.publish();
    learning.quality().look_at_all(learning.now_us());
    match read {
        Ok(()) => tracing::info!(requests, after = ?began.elapsed(), "learnt from the history"),
        Err(error) => {
            tracing::warn!(requests, %error, "the history could not be read to its end: plans begin with what is known")
        }
    }
}

/// Learns from what other gateways on the same database recorded. What their requests cost is no part of this one's budget for extras.
pub(super) fn learn_heard(gateway: &Gateway, requests: impl Iterator<Item = Recorded>) {
    let (live, learning) = (gateway.live(), gateway.learning());
    requests.for_each(|recorded| learn_one(learning, &live.config, &recorded, None));
    learning.publish();
}

fn learn_one(learning: &Learning, config: &Config, recorded: &Recorded, cost_budget: Option<SharedCostBudget>) {
    learning.quality().remember(config, recorded, learning.now_us());
    let cost = |attempt: &RecordedAttempt| cost(attempt, recorded, config);
    learning.remember(recorded, &RequestMemory { counts: &slows_hedging, cost_budget, cost: &cost });
}

/// Cost at the current prices. None if the model no longer lists the upstream.
fn cost(attempt: &RecordedAttempt, recorded: &Recorded, config: &Config) -> Option<f64> {
    let model = config.model(&recorded.model)?;
    let is_it =
        |upstream: &&UpstreamConfig| upstream.provider.name == attempt.provider && upstream.model == attempt.model_sent;
    let upstream = model.upstreams.iter().find(is_it)?;
    let tariff = Basis::of(model.upstreams.iter()).tariff(upstream.billing());
    let input = attempt.input_tokens.unwrap_or(recorded.input_tokens_estimate);
    let cached = attempt.cached_input_tokens.unwrap_or(0).min(input);
    let prompt = PromptTokens { uncached: (input - cached) as f64, cached: cached as f64 };
    Some(tariff.whole(prompt, attempt.output_tokens.unwrap_or(0) as f64))
}
