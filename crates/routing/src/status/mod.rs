//! The status of every upstream, and why a plan would begin with it or not: `GET /api/routing`. Read-only. Not used by races.

mod ranking;
mod report;

pub use report::{
    BreakerReport, CostUnit, ModelReport, PredictionReport, QualityReport, RoutingReport, StatusReason, UpstreamReport,
};

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use crate::forecast::{LatencyForecast, Learner, SendConditions};
use crate::health::breaker::{self, BreakerStatus, TrialScope};
use crate::health::candidate::{target, wait_for_all};
use crate::health::{LiveConfig, RefusedKind, UpstreamHealth, named, why_off};
use crate::learning::{CostBudgetKey, LatencyClock, UpstreamStats};
use crate::money::tariff::{Basis, PromptTokens};
use crate::money::{BudgetSnapshot, CostBudget, SpentLately, lock};
use crate::quality::HostQuality;
use photofinish_base::clock::Instant;
use photofinish_config::keyring::{HashedKey, KeyOrder};
use photofinish_config::{RaceSettings, UpstreamConfig};
use ranking::{Obstacles, RankedUpstream, rank};

/// Upstreams in one answer of `/api/routing`.
const UPSTREAMS_MAX: usize = 1_000;
/// Models there, aliases included.
const MODELS_MAX: usize = 1_000;

/// The whole status, or that of one `model`: a name, an alias, or upstreams separated by commas.
///
/// # Errors
/// The reason why the model is unknown.
pub fn routing(health: &UpstreamHealth, live: &LiveConfig, model: Option<&str>) -> Result<RoutingReport, String> {
    let mut asked = match model {
        Some(model) => vec![RequestedModel::new(live, model)?],
        None => all(live),
    };
    let models_beyond = asked.len().saturating_sub(MODELS_MAX);
    asked.truncate(MODELS_MAX);
    let view = StatusView::new(health, live);
    let models = asked.iter().map(|asked| view.model(asked)).collect();
    let listed = ListedUpstreams::new(&asked);
    let mut upstreams: Vec<UpstreamReport> =
        listed.in_order().map(|(name, listing)| view.upstream(name, listing)).collect();
    if model.is_none() {
        upstreams.extend(others(&view, live, &listed));
    }
    let left_out = models_beyond + upstreams.len().saturating_sub(UPSTREAMS_MAX);
    upstreams.truncate(UPSTREAMS_MAX);
    Ok(RoutingReport { now_us: view.now_us(), upstreams, models, left_out })
}

/// Upstreams that callers named and can still name, most recently used first.
fn others(view: &StatusView<'_>, live: &LiveConfig, listed: &ListedUpstreams<'_>) -> Vec<UpstreamReport> {
    let settings = &live.config.race;
    let mut names: Vec<(Option<i64>, &str)> = view.known().filter(|(_, name)| !listed.has(name)).collect();
    names.sort_by_key(|(last_us, name)| (Reverse(*last_us), *name));
    let status = |(_, name): (Option<i64>, &str)| {
        let upstream = named(live, None, name, settings).ok()?.into_iter().next()?;
        Some(view.upstream(name, &ListedUpstream { place: 0, upstream: &upstream, settings, models: Vec::new() }))
    };
    names.into_iter().filter_map(status).collect()
}

/// A model under a requested name.
pub(crate) struct RequestedModel<'a> {
    pub(crate) name: String,
    pub(crate) alias_of: Option<String>,
    /// The model whose budget pays; empty where upstreams are named.
    pub(crate) paid_by: String,
    pub(crate) upstreams: Vec<UpstreamConfig>,
    pub(crate) settings: &'a RaceSettings,
}

impl<'a> RequestedModel<'a> {
    pub(crate) fn new(live: &'a LiveConfig, name: &str) -> Result<RequestedModel<'a>, String> {
        let config = &live.config;
        if let Some(model) = config.model(name) {
            let alias_of = (model.name != name).then(|| model.name.clone());
            let upstreams = model.upstreams.clone();
            let paid_by = model.name.clone();
            return Ok(RequestedModel { name: name.to_owned(), alias_of, paid_by, upstreams, settings: &model.race });
        }
        let upstreams = named(live, None, name, &config.race)?;
        Ok(RequestedModel {
            name: name.to_owned(),
            alias_of: None,
            paid_by: String::new(),
            upstreams,
            settings: &config.race,
        })
    }
}

/// The models. An alias is its model by another name.
pub(crate) fn all(live: &LiveConfig) -> Vec<RequestedModel<'_>> {
    live.config.models.keys().filter_map(|name| RequestedModel::new(live, name).ok()).collect()
}

/// An upstream with the models that list it, and the settings of the first of them.
pub(crate) struct ListedUpstream<'a> {
    pub(crate) place: usize,
    pub(crate) upstream: &'a UpstreamConfig,
    pub(crate) settings: &'a RaceSettings,
    pub(crate) models: Vec<String>,
}

/// The key is `provider/model`.
pub(crate) struct ListedUpstreams<'a>(BTreeMap<String, ListedUpstream<'a>>);

impl<'a> ListedUpstreams<'a> {
    pub(crate) fn new(asked: &'a [RequestedModel<'a>]) -> ListedUpstreams<'a> {
        let mut listed: BTreeMap<String, ListedUpstream<'a>> = BTreeMap::new();
        for asked in asked {
            for upstream in &asked.upstreams {
                let place = listed.len();
                let first = || ListedUpstream { place, upstream, settings: asked.settings, models: Vec::new() };
                listed.entry(upstream.name()).or_insert_with(first).models.push(asked.name.clone());
            }
        }
        ListedUpstreams(listed)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(crate) fn in_order(&self) -> impl Iterator<Item = (&str, &ListedUpstream<'a>)> {
        let mut all: Vec<(&str, &ListedUpstream<'a>)> =
            self.0.iter().map(|(name, listing)| (name.as_str(), listing)).collect();
        all.sort_by_key(|(_, listing)| listing.place);
        all.into_iter()
    }
}

/// Prompt sizes of the predictions, tokens. Upstreams are compared by the first.
pub const SIZES: [u32; 3] = [500, 2_000, 8_000];

/// A snapshot.
pub struct StatusView<'a> {
    health: &'a UpstreamHealth,
    live: &'a LiveConfig,
    known: HashMap<String, Arc<UpstreamStats>>,
    /// The forecast of an unknown upstream.
    nothing: Arc<LatencyForecast>,
    terms: HashMap<CostBudgetKey, BudgetSnapshot>,
    /// What was spent in the last hour.
    spent: HashMap<CostBudgetKey, SpentLately>,
    /// Upstreams that go last for a kind of requests.
    refusing: Vec<(String, RefusedKind)>,
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
            terms: learning.cost_budgets().into_iter().map(|(key, budget)| (key, lock(&budget).terms())).collect(),
            spent: learning
                .cost_budgets()
                .into_iter()
                .map(|(key, budget)| (key, lock(&budget).spent_lately(learning.now_us())))
                .collect(),
            refusing: health.refusing(),
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

    pub(crate) fn upstream(&self, name: &str, listing: &ListedUpstream<'_>) -> UpstreamReport {
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
                BreakerStatus::HalfOpen => BreakerReport::Due,
            },
            breaker_wait_s: match obstacles.breaker {
                BreakerStatus::Open(wait) => Some(seconds(wait)),
                BreakerStatus::Closed | BreakerStatus::HalfOpen => None,
            },
            cooling_down_s: obstacles.cooling.map(seconds),
            last_observation_s: forecast.last_us().map(|last_us| rounded((self.now_us - last_us).max(0) as f64 / 1e6)),
            learnt: self.health.taught(name),
            refuses: self.refusing.iter().filter(|(of, _)| of == name).map(|(_, known)| known.in_words()).collect(),
            quality: listing.models.iter().filter_map(|model| self.quality(name, model)).collect(),
        }
    }

    fn quality(&self, name: &str, model: &str) -> Option<QualityReport> {
        let known = self.health.learning().quality().of(model, name, self.now_us);
        if known == HostQuality::default() {
            return None;
        }
        let calls = known.calls;
        Some(QualityReport {
            model: model.to_owned(),
            worse: known.why_worse(),
            judged: rounded(calls.map_or(0.0, |calls| calls.answers)),
            broken_share: calls.map(|calls| rounded(calls.broken_share)),
            others_broken_share: calls.map(|calls| rounded(calls.others_broken_share)),
        })
    }

    pub(crate) fn model(&self, asked: &RequestedModel<'_>) -> ModelReport {
        let settings = asked.settings;
        let basis = Basis::of(asked.upstreams.iter());
        let key = CostBudgetKey::new(&asked.paid_by, settings.budget, basis.is_money());
        let spent = self.spent.get(&key).filter(|spent| spent.base > 0.0);
        let terms = self.terms.get(&key);
        let terms = terms.copied().unwrap_or_else(|| CostBudget::new(settings.budget).terms());
        let clock = self.clock(asked);
        let contenders = self.contenders(asked, clock, &basis, &terms);
        let (order, why) = rank(&contenders, (terms, clock), (settings, basis.is_money()), self.now_us);
        ModelReport {
            model: asked.name.clone(),
            alias_of: asked.alias_of.clone(),
            policy: settings.policy.as_str().to_owned(),
            learns: settings.policy.learns(),
            optimise: settings.optimise.as_str().to_owned(),
            budget: settings.budget,
            bucket: Some(terms.bucket).filter(|bucket| bucket.is_finite()),
            bucket_capacity: terms.capacity,
            extras_share: spent.map(|spent| rounded(spent.extras / spent.base)),
            rescues_share: spent.map(|spent| rounded(spent.rescues / spent.base)),
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
        let route = self.live.route(&upstream.provider.name);
        let ring = route.map_or(Cow::Owned(KeyOrder::Off), |route| route.shared());
        let surface = upstream.provider.preferred().dialect.conversing();
        let asked = breaker::BreakerScope { upstream: name, surface, named: !self.live.is_configured(name) };
        let held = |key: Option<&HashedKey>| self.health.cooling(|| target(upstream, surface, asked.named, key));
        let held = match &*ring {
            KeyOrder::Off => None,
            KeyOrder::NoneNeeded => wait_for_all(&[], held),
            KeyOrder::Keys(keys) => wait_for_all(keys, held),
        };
        let cooling = held.map(|held| held.wait);
        let trying = if settings.max_attempts > 1 { TrialScope::InAddition } else { TrialScope::InPlace };
        let breaker = lock(&self.health.breakers).status(asked, &settings.breaker, None, trying, self.now);
        let off = matches!(*ring, KeyOrder::Off).then(|| why_off(upstream));
        Obstacles { off, unlisted: upstream.why_unlisted(), cooling, breaker }
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
