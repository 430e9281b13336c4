//! A snapshot of all statistics, and the status of one upstream or model in it. Not for the choice of upstreams and models.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::listing::{ListedUpstream, RequestedModel};
use super::ranking::{Obstacles, RankedUpstream, rank};
use super::report::{BreakerReport, CostUnit, ModelReport, PredictionReport, UpstreamReport};
use crate::health::candidate::{target, wait_for_all};
use crate::health::state::lock;
use crate::health::{LiveConfig, UpstreamHealth, why_off};
use crate::learning::{LatencyClock, UpstreamStats};
use crate::routing::adaptive::{BudgetSnapshot, CostBudget, LatencyForecast, Learner, SendConditions};
use crate::routing::breaker::{self, BreakerStatus, ProbeScope};
use crate::routing::tariff::{Basis, PromptTokens};
use photofinish_base::clock::Instant;
use photofinish_config::config::{HedgeAfter, RaceSettings, UpstreamConfig, UpstreamOrder};
use photofinish_config::keyring::{HashedKey, KeyOrder};

/// Prompt sizes of the predictions, tokens. Upstreams are compared by the first.
pub const SIZES: [u32; 3] = [500, 2_000, 8_000];

/// A snapshot.
pub struct StatusView<'a> {
    health: &'a UpstreamHealth,
    live: &'a LiveConfig,
    known: HashMap<String, Arc<UpstreamStats>>,
    /// The forecast of an unknown upstream.
    nothing: Arc<LatencyForecast>,
    /// The key is the model, the bits of the budget, and whether its unit is money.
    terms: HashMap<(String, u64, bool), BudgetSnapshot>,
    now_us: i64,
    now: Instant,
}

impl<'a> StatusView<'a> {
    pub fn new(health: &'a UpstreamHealth, live: &'a LiveConfig) -> StatusView<'a> {
        let learning = health.learning();
        let by_name = |known: Arc<UpstreamStats>| (known.name().to_owned(), known);
        let now = Instant::now();
        StatusView {
            health,
            live,
            known: learning.upstreams().into_iter().map(by_name).collect(),
            nothing: Arc::new(Learner::new().forecast()),
            terms: learning
                .accounts()
                .into_iter()
                .map(|account| {
                    ((account.model, account.budget.to_bits(), account.money), lock(&account.cost_budget).terms())
                })
                .collect(),
            now_us: learning.at_us(now),
            now,
        }
    }

    pub fn now_us(&self) -> i64 {
        self.now_us
    }

    /// Every upstream with statistics: its last use in µs, and its name.
    pub fn known(&self) -> impl Iterator<Item = (Option<i64>, &str)> {
        self.known.values().map(|known| (known.forecast_by(known.usual_clock()).last_us(), known.name()))
    }

    pub(super) fn upstream(&self, name: &str, listing: &ListedUpstream<'_>) -> UpstreamReport {
        let clock = self.known.get(name).map_or(LatencyClock::FirstToken, |known| known.usual_clock());
        let forecast = self.forecast(name, clock);
        let obstacles = self.obstacles(listing.upstream, name, listing.settings);
        let in_flight = self.in_flight(name);
        let level = forecast.level(self.now_us);
        UpstreamReport {
            upstream: name.to_owned(),
            models: listing.models.clone(),
            on: obstacles.off.is_none(),
            predicted: SIZES.iter().map(|size| self.predicted(name, *size, in_flight)).collect(),
            whole_answers: clock == LatencyClock::WholeAnswer,
            level: rounded(level),
            level_factor: rounded(level.exp()),
            load_slope: rounded(forecast.load_slope()),
            tpot_ms: self.forecast(name, LatencyClock::FirstToken).tpot_us(in_flight).map(millis),
            samples: rounded(forecast.seen()),
            launches: forecast.launches(),
            in_flight,
            throttled: self.throttled(name),
            caching: rounded(self.known.get(name).map_or(0.0, |known| known.caching())),
            breaker: match obstacles.breaker {
                BreakerStatus::Closed => BreakerReport::Closed,
                BreakerStatus::Open(_) => BreakerReport::Open,
                BreakerStatus::Due => BreakerReport::Due,
            },
            breaker_wait_s: match obstacles.breaker {
                BreakerStatus::Open(wait) => Some(seconds(wait)),
                BreakerStatus::Closed | BreakerStatus::Due => None,
            },
            cooling_down_s: obstacles.cooling.map(seconds),
            last_observation_s: forecast.last_us().map(|last_us| rounded((self.now_us - last_us).max(0) as f64 / 1e6)),
        }
    }

    pub(super) fn model(&self, asked: &RequestedModel<'_>) -> ModelReport {
        let settings = asked.settings;
        let basis = Basis::of(asked.upstreams.iter());
        let terms = self.terms.get(&(asked.paid_by.clone(), settings.budget.to_bits(), basis.is_money()));
        let terms = terms.copied().unwrap_or_else(|| CostBudget::new(settings.budget).terms());
        let clock = self.clock(asked);
        let contenders = self.contenders(asked, clock, &basis, &terms);
        let (order, why) = rank(&contenders, (terms, clock), (settings, basis.is_money()), self.now_us);
        ModelReport {
            model: asked.name.clone(),
            alias_of: asked.alias_of.clone(),
            policy: settings.policy.as_str().to_owned(),
            learns: learns(settings),
            optimise: settings.optimise.as_str().to_owned(),
            budget: settings.budget,
            bucket: Some(terms.bucket).filter(|bucket| bucket.is_finite()),
            bucket_capacity: terms.capacity,
            unit: if basis.is_money() { CostUnit::Usd } else { CostUnit::Tokens },
            lambda_ms: millis(terms.lambda_us),
            mean_cost: terms.mean_cost,
            ttft_p99_ms: millis(terms.p99_us),
            answer_tokens: rounded(terms.answer_tokens),
            whole_answers: clock == LatencyClock::WholeAnswer,
            order,
            why,
        }
    }

    /// The clock by which more was seen of most of its upstreams.
    fn clock(&self, asked: &RequestedModel<'_>) -> LatencyClock {
        let known = || asked.upstreams.iter().filter_map(|upstream| self.known.get(&upstream.name()));
        let by = |clock| {
            known().filter(|known| known.usual_clock() == clock && known.forecast_by(clock).seen() > 0.0).count()
        };
        if by(LatencyClock::WholeAnswer) > by(LatencyClock::FirstToken) {
            LatencyClock::WholeAnswer
        } else {
            LatencyClock::FirstToken
        }
    }

    fn contenders(
        &self,
        asked: &RequestedModel<'_>,
        clock: LatencyClock,
        basis: &Basis,
        terms: &BudgetSnapshot,
    ) -> Vec<RankedUpstream> {
        let domains: Vec<Option<&str>> =
            asked.upstreams.iter().map(|upstream| upstream.provider.domain.as_deref()).collect();
        let prompt = PromptTokens { uncached: f64::from(SIZES[0]), cached: 0.0 };
        let contender = |(place, upstream): (usize, &UpstreamConfig)| {
            let name = upstream.name();
            // A domain's number is the index of its first upstream.
            let domain = domains[place].and_then(|domain| domains.iter().position(|other| *other == Some(domain)));
            let tariff = basis.tariff(upstream.billing());
            RankedUpstream {
                forecast: self.forecast(&name, clock),
                throttled: self.throttled(&name),
                sent: SendConditions { uncached_tokens: prompt.uncached, in_flight: self.in_flight(&name) },
                cost: tariff.started(prompt, terms.answer_tokens),
                price: tariff.whole(prompt, terms.answer_tokens),
                domain: domain.and_then(|domain| u32::try_from(domain).ok()),
                obstacles: self.obstacles(upstream, &name, asked.settings),
                name,
            }
        };
        asked.upstreams.iter().enumerate().map(contender).collect()
    }

    fn forecast(&self, name: &str, clock: LatencyClock) -> Arc<LatencyForecast> {
        self.known.get(name).map_or_else(|| self.nothing.clone(), |known| Arc::clone(&known.forecast_by(clock)))
    }

    fn throttled(&self, name: &str) -> bool {
        self.known.get(name).is_some_and(|known| known.throttled(self.now_us))
    }

    fn in_flight(&self, name: &str) -> u32 {
        self.known.get(name).map_or(0, |known| known.in_flight())
    }

    fn predicted(&self, name: &str, input_tokens: u32, in_flight: u32) -> PredictionReport {
        let sent = SendConditions { uncached_tokens: f64::from(input_tokens), in_flight };
        let quantiles = |clock| {
            let forecast = self.forecast(name, clock);
            [0.5, 0.95].map(|q| forecast.ttft_quantile_us(sent, q, self.now_us).map(millis))
        };
        let [ttft_p50_ms, ttft_p95_ms] = quantiles(LatencyClock::FirstToken);
        let [whole_p50_ms, whole_p95_ms] = quantiles(LatencyClock::WholeAnswer);
        PredictionReport { input_tokens, ttft_p50_ms, ttft_p95_ms, whole_p50_ms, whole_p95_ms }
    }

    /// For a caller without own keys, on the surface for conversations.
    fn obstacles(&self, upstream: &UpstreamConfig, name: &str, settings: &RaceSettings) -> Obstacles {
        let line = self.live.line(&upstream.provider.name);
        let ring = line.map_or(Cow::Owned(KeyOrder::Off), |line| line.shared());
        let surface = upstream.provider.preferred().dialect.conversing();
        let asked = breaker::BreakerScope { upstream: name, surface, named: !self.live.is_configured(name) };
        let held = |key: Option<&HashedKey>| self.health.cooling(|| target(upstream, surface, asked.named, key));
        let held = match &*ring {
            KeyOrder::Off => None,
            KeyOrder::NoneNeeded => wait_for_all(&[], held),
            KeyOrder::Keys(keys) => wait_for_all(keys, held),
        };
        let cooling = held.map(|held| held.wait);
        let trying = if settings.max_attempts > 1 { ProbeScope::Beside } else { ProbeScope::InPlace };
        let breaker = lock(&self.health.breakers).standing(asked, &settings.breaker, None, trying, self.now);
        let off = matches!(*ring, KeyOrder::Off).then(|| why_off(upstream));
        Obstacles { off, unlisted: upstream.why_unlisted(), cooling, breaker }
    }
}

/// Whether the policy uses the order by predictions.
fn learns(settings: &RaceSettings) -> bool {
    match settings.policy.order() {
        UpstreamOrder::Learned => true,
        UpstreamOrder::ByDelay => matches!(settings.hedge_after, HedgeAfter::Quantile(_)),
        UpstreamOrder::AllAtOnce | UpstreamOrder::Listed | UpstreamOrder::Drawn => false,
    }
}

fn millis(us: f64) -> f64 {
    rounded(us / 1e3)
}

fn seconds(wait: Duration) -> f64 {
    rounded(wait.as_secs_f64())
}

/// Further digits carry no information.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
