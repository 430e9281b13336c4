//! Everything that is known at one moment, and what it says of an upstream or of a model. Not for which of them are told.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::listing::{Asked, Listing};
use super::ranking::{Contender, Obstacles, rank};
use super::told::{BreakerNow, ModelNow, Predicted, Unit, UpstreamNow};
use crate::clock::Instant;
use crate::config::{HedgeAfter, Policy, RaceSettings, Upstream};
use crate::health::runner::{target, wait_for_all};
use crate::health::state::lock;
use crate::health::{Live, UpstreamHealth, why_off};
use crate::learning::Known;
use crate::routing::adaptive::{Learner, Ledger, Outlook, Sent, Terms};
use crate::routing::breaker::{self, Standing, Trying};
use crate::routing::keyring::{Key, Ring};
use crate::routing::tariff::{Basis, Prompt};

/// Prompts that are predicted for, tokens. Upstreams are compared by the first.
pub const SIZES: [u32; 3] = [500, 2_000, 8_000];

/// One moment.
pub struct View<'a> {
    health: &'a UpstreamHealth,
    live: &'a Live,
    known: HashMap<String, Arc<Known>>,
    /// Of those that nobody knows.
    nothing: Arc<Outlook>,
    /// By model, the bits of the budget, and whether it is counted in money.
    terms: HashMap<(String, u64, bool), Terms>,
    now_us: i64,
    now: Instant,
}

impl<'a> View<'a> {
    pub fn new(health: &'a UpstreamHealth, live: &'a Live) -> View<'a> {
        let learning = health.learning();
        let by_name = |known: Arc<Known>| (known.name().to_owned(), known);
        let now = Instant::now();
        View {
            health,
            live,
            known: learning.upstreams().into_iter().map(by_name).collect(),
            nothing: Arc::new(Learner::new().outlook()),
            terms: learning
                .accounts()
                .into_iter()
                .map(|account| {
                    ((account.model, account.budget.to_bits(), account.money), lock(&account.ledger).terms())
                })
                .collect(),
            now_us: learning.at_us(now),
            now,
        }
    }

    pub fn now_us(&self) -> i64 {
        self.now_us
    }

    /// Every upstream that something is known of: when it was last used, µs, and its name.
    pub fn known(&self) -> impl Iterator<Item = (Option<i64>, &str)> {
        self.known.values().map(|known| (known.outlook().last_us(), known.name()))
    }

    pub(super) fn upstream(&self, name: &str, listing: &Listing<'_>) -> UpstreamNow {
        let outlook = self.outlook(name);
        let obstacles = self.obstacles(listing.upstream, name, listing.settings);
        let in_flight = self.in_flight(name);
        let level = outlook.level(self.now_us);
        UpstreamNow {
            upstream: name.to_owned(),
            models: listing.models.clone(),
            on: obstacles.off.is_none(),
            predicted: SIZES.iter().map(|size| self.predicted(&outlook, *size, in_flight)).collect(),
            level: rounded(level),
            level_factor: rounded(level.exp()),
            load_slope: rounded(outlook.load_slope()),
            tpot_ms: outlook.tpot_us(in_flight).map(millis),
            samples: rounded(outlook.seen()),
            launches: outlook.launches(),
            in_flight,
            throttled: outlook.throttled(self.now_us),
            caching: rounded(self.known.get(name).map_or(0.0, |known| known.caching())),
            breaker: match obstacles.breaker {
                Standing::Closed => BreakerNow::Closed,
                Standing::Open(_) => BreakerNow::Open,
                Standing::Due => BreakerNow::Due,
            },
            breaker_wait_s: match obstacles.breaker {
                Standing::Open(wait) => Some(seconds(wait)),
                Standing::Closed | Standing::Due => None,
            },
            cooling_down_s: obstacles.cooling.map(seconds),
            last_observation_s: outlook.last_us().map(|last_us| rounded((self.now_us - last_us).max(0) as f64 / 1e6)),
        }
    }

    pub(super) fn model(&self, asked: &Asked<'_>) -> ModelNow {
        let settings = asked.settings;
        let basis = Basis::of(asked.upstreams.iter());
        let terms = self.terms.get(&(asked.paid_by.clone(), settings.budget.to_bits(), basis.is_money()));
        let terms = terms.copied().unwrap_or_else(|| Ledger::new(settings.budget).terms());
        let (order, why) = rank(&self.contenders(asked, &basis, &terms), terms, settings, self.now_us);
        ModelNow {
            model: asked.name.clone(),
            alias_of: asked.alias_of.clone(),
            policy: settings.policy.as_str().to_owned(),
            learns: learns(settings),
            optimise: settings.optimise.as_str().to_owned(),
            budget: settings.budget,
            bucket: Some(terms.bucket).filter(|bucket| bucket.is_finite()),
            bucket_capacity: terms.capacity,
            unit: if basis.is_money() { Unit::Usd } else { Unit::Tokens },
            lambda_ms: millis(terms.lambda_us),
            mean_cost: terms.mean_cost,
            ttft_p99_ms: millis(terms.p99_us),
            answer_tokens: rounded(terms.answer_tokens),
            order,
            why,
        }
    }

    fn contenders(&self, asked: &Asked<'_>, basis: &Basis, terms: &Terms) -> Vec<Contender> {
        let domains: Vec<Option<&str>> =
            asked.upstreams.iter().map(|upstream| upstream.provider.domain.as_deref()).collect();
        let prompt = Prompt { uncached: f64::from(SIZES[0]), cached: 0.0 };
        let contender = |(place, upstream): (usize, &Upstream)| {
            let name = upstream.name();
            // The place of the first of a domain stands for it.
            let domain = domains[place].and_then(|domain| domains.iter().position(|other| *other == Some(domain)));
            Contender {
                outlook: self.outlook(&name),
                sent: Sent { uncached_tokens: prompt.uncached, in_flight: self.in_flight(&name) },
                cost: basis.tariff(upstream.billing()).started(prompt, terms.answer_tokens),
                domain: domain.and_then(|domain| u32::try_from(domain).ok()),
                obstacles: self.obstacles(upstream, &name, asked.settings),
                name,
            }
        };
        asked.upstreams.iter().enumerate().map(contender).collect()
    }

    fn outlook(&self, name: &str) -> Arc<Outlook> {
        self.known.get(name).map_or_else(|| self.nothing.clone(), |known| Arc::clone(&known.outlook()))
    }

    fn in_flight(&self, name: &str) -> u32 {
        self.known.get(name).map_or(0, |known| known.in_flight())
    }

    fn predicted(&self, outlook: &Outlook, input_tokens: u32, in_flight: u32) -> Predicted {
        let sent = Sent { uncached_tokens: f64::from(input_tokens), in_flight };
        let quantile = |q| outlook.ttft_quantile_us(sent, q, self.now_us).map(millis);
        Predicted { input_tokens, ttft_p50_ms: quantile(0.5), ttft_p95_ms: quantile(0.95) }
    }

    /// As a caller without keys of their own meets it, in conversations.
    fn obstacles(&self, upstream: &Upstream, name: &str, settings: &RaceSettings) -> Obstacles {
        let line = self.live.line(&upstream.provider.name);
        let ring = line.map_or(Cow::Owned(Ring::Off), |line| line.shared());
        let surface = upstream.provider.preferred().dialect.conversing();
        let asked = breaker::Asked { upstream: name, surface, named: !self.live.is_configured(name) };
        let held = |key: Option<&Key>| self.health.cooling(|| target(upstream, surface, asked.named, key));
        let held = match &*ring {
            Ring::Off => None,
            Ring::NoneNeeded => wait_for_all(&[], held),
            Ring::Keys(keys) => wait_for_all(keys, held),
        };
        let cooling = held.map(|held| held.wait);
        let trying = if settings.max_attempts > 1 { Trying::Beside } else { Trying::InPlace };
        let breaker = lock(&self.health.breakers).standing(asked, &settings.breaker, None, trying, self.now);
        Obstacles { off: matches!(*ring, Ring::Off).then(|| why_off(upstream)), cooling, breaker }
    }
}

/// Whether the order by predictions decides anything.
fn learns(settings: &RaceSettings) -> bool {
    match settings.policy {
        Policy::Adaptive | Policy::Rule | Policy::Fastest => true,
        Policy::Hedge => matches!(settings.hedge_after, HedgeAfter::Quantile(_)),
        Policy::Race | Policy::Fallback | Policy::Weighted => false,
    }
}

fn millis(us: f64) -> f64 {
    rounded(us / 1e3)
}

fn seconds(wait: Duration) -> f64 {
    rounded(wait.as_secs_f64())
}

/// More digits than these nobody means.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
