//! Statistics that all requests share: each upstream's latencies, each model's budget, and which upstream has read which
//! prompt.
//!
//! Only for sharing: forecasts and decisions are the rooms `forecast`'s and `policy`'s. Configured upstreams are read without a lock and are
//! never evicted by names that callers make up.

mod attempt_observer;
mod prefixes;
mod request_memory;
mod upstream_stats;

pub use attempt_observer::{AttemptObserver, ObservedEnd, ObserverSpec};
pub use prefixes::{ConversationId, PrefixBlocks};
pub use request_memory::RequestMemory;
pub use upstream_stats::{LatencyClock, LongestWaiting, UpstreamStats};

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;

use crate::money::{CostBudget, SharedCostBudget, lock};
use crate::quality::Quality;
use photofinish_base::clock::{Instant, micros_between, wall_micros};
use photofinish_base::recent::Recent;
use photofinish_facts::bill::PerByte;
use prefixes::{KeptKeys, Prefixes};
use upstream_stats::Prompts;

/// Upstreams that only callers name; each takes about 10 kB.
const NAMED_MAX: usize = 1_000;
/// Budgets that requests bring themselves, one for each model and size.
const BROUGHT_MAX: usize = 256;

/// Estimated bytes of a prompt per token; the history uses the same.
const BYTES_PER_TOKEN: f64 = 4.0;
/// Tokens for each byte, at most, before any prompt was counted.
const UNKNOWN_RATIO: f64 = 2.0 / BYTES_PER_TOKEN;

/// All statistics. Held by the gateway and by every running attempt.
pub struct Learning {
    clock: RoutingClock,
    /// Upstreams and budgets of the configuration.
    configured: ArcSwap<Configured>,
    /// Upstreams that only callers name.
    named: Mutex<Recent<String, Arc<UpstreamStats>>>,
    brought: Mutex<Recent<CostBudgetKey, SharedCostBudget>>,
    prefixes: Prefixes,
    /// For all upstreams together.
    prompts: Prompts,
    kept: KeptKeys,
    /// The upstream of each session.
    pins: KeptKeys,
    quality: Quality,
}

/// The clock of everything in here: microseconds since 1970 that never go back.
enum RoutingClock {
    /// The wall clock at the start, and the time passed since.
    Running { began: Instant, began_us: i64 },
    /// Set by [`Learning::set_now_us`].
    Stopped(AtomicI64),
}

/// Read without a lock; changed only with the configuration.
#[derive(Clone, Default)]
struct Configured {
    upstreams: HashMap<String, Arc<UpstreamStats>>,
    cost_budgets: HashMap<CostBudgetKey, SharedCostBudget>,
}

/// The key of a budget.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CostBudgetKey {
    pub model: String,
    /// Bits of the `f64`. A request with a budget of its own must not spend what others saved.
    budget: u64,
    /// Not in tokens.
    money: bool,
}

impl CostBudgetKey {
    /// `model`: empty for upstreams that requests name themselves. `money`: what it costs is counted in US dollars, and not
    /// in tokens.
    pub fn new(model: &str, budget: f64, money: bool) -> CostBudgetKey {
        CostBudgetKey { model: model.to_owned(), budget: budget.to_bits(), money }
    }

    /// Extra cost over base cost, at most.
    pub fn budget(&self) -> f64 {
        f64::from_bits(self.budget)
    }
}

impl Default for Learning {
    fn default() -> Learning {
        Learning::new()
    }
}

impl Learning {
    /// Nothing is known yet.
    pub fn new() -> Learning {
        Learning::with_clock(RoutingClock::Running { began: Instant::now(), began_us: wall_micros() })
    }

    /// The same on a clock that only [`Learning::set_now_us`] moves: for simulated time.
    pub fn stopped() -> Learning {
        Learning::with_clock(RoutingClock::Stopped(AtomicI64::new(1)))
    }

    fn with_clock(clock: RoutingClock) -> Learning {
        Learning {
            clock,
            configured: ArcSwap::default(),
            named: Mutex::new(Recent::new(NAMED_MAX)),
            brought: Mutex::new(Recent::new(BROUGHT_MAX)),
            prefixes: Prefixes::default(),
            prompts: Prompts::default(),
            kept: KeptKeys::default(),
            pins: KeptKeys::default(),
            quality: Quality::default(),
        }
    }

    /// Which hosts answer worse than others.
    pub fn quality(&self) -> &Quality {
        &self.quality
    }

    /// The time on the routing clock: microseconds since 1970 that never go back.
    pub fn now_us(&self) -> i64 {
        self.at_us(Instant::now())
    }

    /// The same for another moment; a stopped clock gives its own time.
    pub fn at_us(&self, at: Instant) -> i64 {
        match &self.clock {
            RoutingClock::Running { began, began_us } => began_us + micros_between(*began, at),
            RoutingClock::Stopped(now_us) => now_us.load(Relaxed),
        }
    }

    /// Sets a stopped clock, to 1 at least; a running clock ignores it.
    pub fn set_now_us(&self, us: i64) {
        if let RoutingClock::Stopped(now_us) = &self.clock {
            now_us.store(us.max(1), Relaxed);
        }
    }

    /// Gives these upstreams, by `provider/model`, and these budgets places of their own, which nothing that callers name can
    /// take. What had one before and has none now is kept as if a caller had named it.
    pub fn configure(
        &self,
        upstreams: impl Iterator<Item = String>,
        cost_budgets: impl Iterator<Item = CostBudgetKey>,
    ) {
        let (mut named, mut brought) = (lock(&self.named), lock(&self.brought));
        let mut before = Configured::clone(&self.configured.load());
        let mut next = Configured::default();
        for name in upstreams {
            let known = before.upstreams.remove(&name).or_else(|| named.remove(&name));
            let known = known.unwrap_or_else(|| Arc::new(UpstreamStats::new(&name)));
            next.upstreams.entry(name).or_insert(known);
        }
        for key in cost_budgets {
            let cost_budget = before.cost_budgets.remove(&key).or_else(|| brought.remove(&key));
            let cost_budget = cost_budget.unwrap_or_else(|| new_cost_budget(&key));
            next.cost_budgets.entry(key).or_insert(cost_budget);
        }
        self.configured.store(Arc::new(next));
        for (name, known) in before.upstreams {
            named.get_or_make(&name, || known);
        }
        for (key, cost_budget) in before.cost_budgets {
            brought.get_or_make(&key, || cost_budget);
        }
    }

    /// The statistics of `provider/model`; created on first use.
    pub fn upstream(&self, name: &str) -> Arc<UpstreamStats> {
        if let Some(known) = self.configured.load().upstreams.get(name) {
            return known.clone();
        }
        lock(&self.named).get_or_make(&name.to_owned(), || Arc::new(UpstreamStats::new(name)))
    }

    /// The budget of a configured model; the empty name is for upstreams that requests name.
    /// `money`: what it costs is counted in US dollars, and not in tokens.
    pub fn cost_budget(&self, model: &str, budget: f64, money: bool) -> SharedCostBudget {
        let key = CostBudgetKey::new(model, budget, money);
        if let Some(cost_budget) = self.configured.load().cost_budgets.get(&key) {
            return cost_budget.clone();
        }
        lock(&self.brought).get_or_make(&key, || new_cost_budget(&key))
    }

    /// Every upstream that is known, by name.
    pub fn upstreams(&self) -> Vec<Arc<UpstreamStats>> {
        let mut all: Vec<Arc<UpstreamStats>> = self.configured.load().upstreams.values().cloned().collect();
        all.extend(lock(&self.named).iter().map(|(_, known)| known.clone()));
        all.sort_by(|one, other| one.name().cmp(other.name()));
        all
    }

    /// Every cost budget, by model and share.
    pub fn cost_budgets(&self) -> Vec<(CostBudgetKey, SharedCostBudget)> {
        let known = |(key, cost_budget): (&CostBudgetKey, &SharedCostBudget)| (key.clone(), cost_budget.clone());
        let mut all: Vec<_> = self.configured.load().cost_budgets.iter().map(known).collect();
        all.extend(lock(&self.brought).iter().map(known));
        all.sort_by(|(one, _), (other, _)| {
            one.model.cmp(&other.model).then_with(|| one.budget().total_cmp(&other.budget()))
        });
        all
    }

    /// Drops the upstreams and the budgets of models that changed. Running attempts and races still report to the dropped ones.
    pub fn retain(&self, upstream_remains: impl Fn(&str) -> bool, model_remains: impl Fn(&str) -> bool) {
        let (mut named, mut brought) = (lock(&self.named), lock(&self.brought));
        self.quality.retain(&upstream_remains);
        named.retain(|name| upstream_remains(name));
        brought.retain(|key| model_remains(&key.model));
        let mut next = Configured::clone(&self.configured.load());
        next.upstreams.retain(|name, _| upstream_remains(name));
        next.cost_budgets.retain(|key, _| model_remains(&key.model));
        self.configured.store(Arc::new(next));
    }

    /// The blocks of a prompt, whose parts come in the order in which a provider reads them.
    pub fn blocks(&self, parts: &[&[u8]]) -> PrefixBlocks {
        self.prefixes.blocks(parts)
    }

    /// The upstream counted the tokens of a prompt.
    fn counted(&self, known: &UpstreamStats, tokens: i64, bytes: i64) {
        known.prompts.counted(tokens, bytes);
        self.prompts.counted(tokens, bytes);
    }

    /// Tokens of a prompt of this number of bytes, by the largest ratio that this upstream counted lately, else by that of all others.
    pub fn most_tokens(&self, upstream: &str, bytes: usize) -> f64 {
        let elsewhere = || self.prompts.per_byte().map(PerByte::widened);
        let ratio = self.upstream(upstream).prompts.per_byte().or_else(elsewhere);
        bytes as f64 * ratio.map_or(UNKNOWN_RATIO, |ratio| ratio.most)
    }

    /// The conversation with this opening, if its prompt is long enough for a provider to cache it. `prompt`: bytes.
    pub fn conversation(&self, opening: &[&[u8]], prompt: usize) -> Option<ConversationId> {
        self.kept.conversation(opening, prompt)
    }

    /// The conversation asks this provider with this key now.
    pub fn keep_key(&self, provider: &str, conversation: ConversationId, key_id: &str) {
        self.kept.note(provider, conversation, key_id, self.now_us());
    }

    /// The place among these keys of the one that the conversation used lately at this provider.
    pub fn kept_key<'k>(
        &self,
        provider: &str,
        conversation: ConversationId,
        key_ids: impl Iterator<Item = &'k str>,
    ) -> Option<usize> {
        self.kept.place_of(provider, conversation, key_ids, self.now_us())
    }

    /// A session of one caller with a model.
    pub fn session(&self, caller: u64, model: &str, session: u64) -> ConversationId {
        self.pins.session(caller, model, session)
    }

    /// The session is answered by this upstream.
    pub fn pin(&self, session: ConversationId, upstream: &str) {
        self.pins.note("", session, upstream, self.now_us());
    }

    /// The place among these upstreams of the one that answered the session within the last five minutes.
    pub fn pinned<'u>(&self, session: ConversationId, upstreams: impl Iterator<Item = &'u str>) -> Option<usize> {
        self.pins.place_of("", session, upstreams, self.now_us())
    }

    /// Tokens from the beginning of this prompt that the upstream has read lately.
    pub fn known_tokens(&self, known: &UpstreamStats, blocks: &PrefixBlocks, now_us: i64) -> f64 {
        self.prefixes.known_bytes(known.name(), blocks, now_us) as f64 / BYTES_PER_TOKEN
    }
}

fn new_cost_budget(key: &CostBudgetKey) -> SharedCostBudget {
    Arc::new(Mutex::new(CostBudget::new(key.budget())))
}

#[cfg(test)]
mod tests;
