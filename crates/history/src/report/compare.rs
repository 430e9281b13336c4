//! The comparison of a model's upstreams: how long each alone would have taken for the requests that the model got, at their moments. From
//! looks, each weighed by how likely it was, and brought to the sizes of all requests. And what racing gained over the best one.
//!
//! Not for what attempts took as they were asked: see `figures`.

use std::collections::BTreeMap;

use super::members::members;
use super::question::RaceWindow;
use crate::store::{AttemptFilter, ClientRow, LookRow, LookSeen, ReadError, StoreReader};
use photofinish_config::names::names;
use photofinish_config::{Config, Price, TokenCounts, UpstreamConfig};
use photofinish_facts::estimate::interval::{RankedQuantile, values_needed, weighted_quantile};
use photofinish_facts::estimate::mix::{SizeMix, SizedTime, mix_quantile, slopes};

/// The quantiles that are compared.
const QUANTILES: [f64; 2] = [0.5, 0.95];
/// Draws of an upstream without one first token, from which on it counts as away: it is no upstream that a request could have had
/// alone.
const AWAY_DRAWS: usize = 6;

/// The answer: by model, then upstream.
#[derive(Debug, Default)]
pub struct Comparison {
    pub models: Vec<ModelComparison>,
}

/// One model.
#[derive(Debug)]
pub struct ModelComparison {
    pub model: String,
    /// The lowest median first; those with too few looks at the end. Those of the configuration, and those that had a look.
    pub upstreams: Vec<UpstreamComparison>,
    /// What clients saw, at p50 and p95.
    pub clients: [Option<RankedQuantile>; 2],
    /// What requests of clients that stream would have taken alone at whichever upstream is the best at p50 or p95. None while that is not
    /// known of each. Which one it is is in doubt too: so each bound is the least of all.
    pub alone: [Option<RankedQuantile>; 2],
    /// First tokens of clients that this is made of.
    pub clients_n: usize,
    /// Requests among them whose tokens were counted.
    pub mix_n: usize,
}

/// One upstream of a model.
#[derive(Debug, Default)]
pub struct UpstreamComparison {
    pub upstream: String,
    /// First tokens of looks, and timeouts, which count as their time.
    pub looks: usize,
    pub failed: usize,
    pub out: usize,
    pub cut: usize,
    /// At p50 and p95, microseconds. None: too few looks.
    pub ttft: [Option<RankedQuantile>; 2],
    /// What the mean request of the model would cost here, US dollars. None: no price, or no counted request.
    pub mix_usd: Option<f64>,
}

names! {
    /// Whether racing gained.
    pub enum GainVerdict {
        /// Its bounds are above 0.
        Gained = "gained",
        /// They are below 0.
        Lost = "lost",
        /// They include 0, or there are too few looks.
        Unknown = "unknown",
    }
}

/// Reads the answer. `config` has the prices.
///
/// # Errors
/// For an operator.
pub fn ask(reader: &StoreReader, window: &RaceWindow, config: &Config, now_us: i64) -> Result<Comparison, ReadError> {
    let filter: AttemptFilter = window.filter(now_us);
    let looks = reader.looks(&filter)?;
    let mut by_model: BTreeMap<&str, Vec<&LookRow>> = BTreeMap::new();
    for look in &looks {
        by_model.entry(&look.model).or_default().push(look);
    }
    let of =
        |upstream: &str| filter.provider.as_deref().is_none_or(|provider| upstream.split('/').next() == Some(provider));
    let mut models = Vec::new();
    let clients = reader.clients_around(&looks, &filter)?;
    for (model, looks) in by_model {
        let clients: Vec<&ClientRow> = clients.iter().filter(|client| client.model == model).collect();
        let listed = config
            .model(model)
            .map_or_else(Vec::new, |model| model.upstreams.iter().map(UpstreamConfig::name).collect());
        let mut compared = ModelComparison::new(model, &looks, &clients, &listed);
        let mix: Vec<(TokenCounts, f64)> =
            clients.iter().filter_map(|client| Some((client.tokens?, client.weight))).collect();
        compared.mix_n = mix.len();
        for one in &mut compared.upstreams {
            one.mix_usd = config.price_of(model, &one.upstream).and_then(|price| mean_usd(&mix, price));
        }
        compared.upstreams.retain(|one| of(&one.upstream));
        models.push(compared);
    }
    Ok(Comparison { models })
}

/// What the mean request of these costs.
fn mean_usd(mix: &[(TokenCounts, f64)], price: Price) -> Option<f64> {
    let all: f64 = mix.iter().map(|(_, weight)| weight).sum();
    (all > 0.0).then(|| mix.iter().map(|(tokens, weight)| price.usd(*tokens) * weight).sum::<f64>() / all)
}

/// The upstreams of one model by its looks, and those that are `listed`; the lowest median first. `mix`: the sizes of its requests.
pub fn upstreams(looks: &[&LookRow], mix: &SizeMix, listed: &[String]) -> Vec<UpstreamComparison> {
    let mut by_upstream: BTreeMap<&str, Vec<&LookRow>> =
        listed.iter().map(|name| (name.as_str(), Vec::new())).collect();
    for look in looks {
        by_upstream.entry(&look.upstream).or_default().push(look);
    }
    let times: Vec<Vec<SizedTime>> =
        by_upstream.values().map(|looks| looks.iter().filter_map(token).collect()).collect();
    let slopes = slopes(&times);
    let mut finished: Vec<UpstreamComparison> = by_upstream
        .into_iter()
        .zip(times.iter().zip(slopes))
        .map(|((upstream, looks), (times, slope))| {
            let count = |seen: LookSeen| looks.iter().filter(|look| look.seen == seen).count();
            UpstreamComparison {
                upstream: upstream.to_owned(),
                looks: times.len(),
                failed: count(LookSeen::Failed),
                out: count(LookSeen::Out),
                cut: count(LookSeen::Cut),
                ttft: QUANTILES.map(|quantile| mix_quantile(times, slope, mix, quantile)),
                mix_usd: None,
            }
        })
        .collect();
    let median = |one: &UpstreamComparison| one.ttft[0].map_or(f64::INFINITY, |median| median.value);
    finished.sort_by(|one, other| median(one).total_cmp(&median(other)));
    finished
}

fn token(look: &&LookRow) -> Option<SizedTime> {
    let LookSeen::Token(us) = look.seen else { return None };
    Some(SizedTime { us: us as f64, tokens: look.prompt_tokens as f64, weight: look.weight })
}

/// The sizes of these requests.
fn sizes<'c>(clients: impl Iterator<Item = &'c &'c ClientRow>) -> SizeMix {
    SizeMix::new(clients.map(|client| (client.prompt_tokens as f64, client.weight)))
}

impl ModelComparison {
    fn new(model: &str, looks: &[&LookRow], clients: &[&ClientRow], listed: &[String]) -> ModelComparison {
        let upstreams = upstreams(looks, &sizes(clients.iter()), listed);
        let mut seen: Vec<(f64, f64)> =
            clients.iter().filter_map(|client| Some((client.first_token_us? as f64, client.weight))).collect();
        seen.sort_by(|one, other| one.0.total_cmp(&other.0));
        // A client that waits for the whole answer sees no first token: what racing gained is of those that stream.
        let streams: Vec<&LookRow> = looks.iter().copied().filter(|look| look.streams).collect();
        let streamed = (streams.len() < looks.len()).then(|| {
            let mix = sizes(clients.iter().filter(|client| client.first_token_us.is_some()));
            self::upstreams(&streams, &mix, listed)
        });
        ModelComparison {
            model: model.to_owned(),
            alone: [0, 1].map(|place| alone(streamed.as_ref().unwrap_or(&upstreams), place)),
            upstreams,
            clients: QUANTILES.map(|quantile| weighted_quantile(&seen, quantile)),
            clients_n: seen.len(),
            mix_n: 0,
        }
    }

    /// The worth of equal looks of each upstream from which on its p50 or p95 is known.
    pub fn needed(place: usize) -> usize {
        values_needed(QUANTILES[place])
    }

    /// The upstream with the least median, once that of every one is known.
    pub fn best(&self) -> Option<&UpstreamComparison> {
        self.upstreams.first().filter(|best| best.ttft[0].is_some() && self.least_known(0).is_none())
    }

    /// Of the upstreams whose p50 or p95 is not known, that with the fewest looks.
    pub fn least_known(&self, place: usize) -> Option<&UpstreamComparison> {
        least_known(&self.upstreams, place)
    }

    /// What racing gained over the best of all at p50 or p95, microseconds: what a request alone takes there less what clients saw, between
    /// bounds. The distances of both bounds add as independent errors do (MOVER; Zou and Donner 2008).
    pub fn gain(&self, place: usize) -> Option<RankedQuantile> {
        let (alone, clients) = (self.alone[place]?, self.clients[place]?);
        let value = alone.value - clients.value;
        let low = value - (alone.value - alone.low).hypot(clients.high - clients.value);
        let high = value + (alone.high - alone.value).hypot(clients.value - clients.low);
        Some(RankedQuantile { value, low, high })
    }

    pub fn verdict(&self, place: usize) -> GainVerdict {
        match self.gain(place) {
            Some(gain) if gain.low > 0.0 => GainVerdict::Gained,
            Some(gain) if gain.high < 0.0 => GainVerdict::Lost,
            _ => GainVerdict::Unknown,
        }
    }
}

impl UpstreamComparison {
    /// How fast it is is not known, although it may be asked.
    fn is_unknown(&self, place: usize) -> bool {
        self.ttft[place].is_none() && !self.is_away()
    }

    /// None of enough draws brought a first token.
    fn is_away(&self) -> bool {
        self.looks == 0 && self.failed + self.out >= AWAY_DRAWS
    }
}

fn least_known(upstreams: &[UpstreamComparison], place: usize) -> Option<&UpstreamComparison> {
    upstreams.iter().filter(|one| one.is_unknown(place)).min_by_key(|one| one.looks)
}

/// As [`ModelComparison::alone`].
fn alone(upstreams: &[UpstreamComparison], place: usize) -> Option<RankedQuantile> {
    let known = || upstreams.iter().filter_map(|one| one.ttft[place]);
    let least = |of: fn(&RankedQuantile) -> f64| known().map(|one| of(&one)).fold(f64::INFINITY, f64::min);
    (known().next().is_some() && least_known(upstreams, place).is_none()).then(|| RankedQuantile {
        value: least(|one| one.value),
        low: least(|one| one.low),
        high: least(|one| one.high),
    })
}

fn share(part: usize, all: usize) -> Option<f64> {
    (all > 0).then(|| part as f64 / all as f64)
}

fn ms(us: Option<f64>) -> Option<f64> {
    us.map(|us| us / 1e3)
}

members! {
    /// How long one upstream alone would have taken.
    pub UPSTREAM_COMPARISON: upstream_comparison(of: &UpstreamComparison) {
        /// `provider/model`
        upstream: Text = of.upstream;
        /// looks with a first token or a timeout
        looks: Integer = of.looks;
        /// looks that failed
        failed: Integer = of.failed;
        /// of the looks that ended by themselves, those that failed
        failed_share: Number or_null = share(of.failed, of.looks + of.failed);
        /// draws of this upstream that did not start: its breaker open, cooling down, left out, or the budget used up
        out: Integer = of.out;
        /// it had six draws or more and not one first token: no request could have had it alone
        away: Boolean = of.is_away();
        /// looks that were cut because the client left or the gateway stopped
        cut: Integer = of.cut;
        /// median time to first token; null where the looks are worth less than `needed_p50` equal ones
        ttft_p50_ms: Number ["ms"] or_null = ms(of.ttft[0].map(|one| one.value));
        /// lower bound of it, 95 %
        ttft_p50_low_ms: Number ["ms"] or_null = ms(of.ttft[0].map(|one| one.low));
        /// upper bound of it, 95 %
        ttft_p50_high_ms: Number ["ms"] or_null = ms(of.ttft[0].map(|one| one.high));
        /// 95th percentile of the time to first token; null where the looks are worth less than `needed_p95` equal ones
        ttft_p95_ms: Number ["ms"] or_null = ms(of.ttft[1].map(|one| one.value));
        /// lower bound of it, 95 %
        ttft_p95_low_ms: Number ["ms"] or_null = ms(of.ttft[1].map(|one| one.low));
        /// upper bound of it, 95 %
        ttft_p95_high_ms: Number ["ms"] or_null = ms(of.ttft[1].map(|one| one.high));
        /// what the mean request of the model would cost here, by today's price and the tokens of the model's own requests;
        /// null without a price, and where no provider counted tokens
        mix_cost_usd: Number ["USD"] or_null = of.mix_usd;
    }
}

members! {
    /// A model's upstreams compared, and what racing gained over the best one.
    pub MODEL_COMPARISON: model_comparison(of: &ModelComparison) {
        /// as the app asked for it; an alias counts as its model
        model: Text = of.model;
        /// the upstream with the least median; null until each has one, but for those that could not be asked
        best_upstream: Text or_null = of.best().map(|best| &best.upstream);
        /// first tokens of clients that stream that are compared: of races without a look, at the moments of looks
        clients: Integer = of.clients_n;
        /// requests among them whose tokens were counted: the mix of `mix_cost_usd`
        mix_requests: Integer = of.mix_n;
        /// median of what clients saw
        client_p50_ms: Number ["ms"] or_null = ms(of.clients[0].map(|one| one.value));
        /// 95th percentile of what clients saw
        client_p95_ms: Number ["ms"] or_null = ms(of.clients[1].map(|one| one.value));
        /// the worth of equal looks that each upstream needs for a median
        needed_p50: Integer = ModelComparison::needed(0);
        /// the same for a 95th percentile
        needed_p95: Integer = ModelComparison::needed(1);
        /// what a request alone would have taken at the best one, less what clients saw; null until it is known of each upstream
        gain_p50_ms: Number ["ms"] or_null = ms(of.gain(0).map(|gain| gain.value));
        /// lower bound of it, 95 %
        gain_p50_low_ms: Number ["ms"] or_null = ms(of.gain(0).map(|gain| gain.low));
        /// upper bound of it, 95 %
        gain_p50_high_ms: Number ["ms"] or_null = ms(of.gain(0).map(|gain| gain.high));
        /// `gained` or `lost` where the bounds exclude 0, else `unknown`
        verdict_p50: Text = of.verdict(0).as_str();
        /// the same at p95, against the one that is best there
        gain_p95_ms: Number ["ms"] or_null = ms(of.gain(1).map(|gain| gain.value));
        /// lower bound of it, 95 %
        gain_p95_low_ms: Number ["ms"] or_null = ms(of.gain(1).map(|gain| gain.low));
        /// upper bound of it, 95 %
        gain_p95_high_ms: Number ["ms"] or_null = ms(of.gain(1).map(|gain| gain.high));
        /// the same at p95
        verdict_p95: Text = of.verdict(1).as_str();
        /// the least median first
        upstreams: List("UpstreamComparison", 500) = of.upstreams.iter().map(upstream_comparison).collect::<Vec<_>>();
    }
}

/// The columns of [`Comparison::rows`].
pub fn names_of_rows() -> Vec<&'static str> {
    let upstream = UPSTREAM_COMPARISON.iter().map(|field| field.name);
    let model = MODEL_COMPARISON.iter().map(|field| field.name).filter(|name| *name != "upstreams");
    let (mut names, rest): (Vec<_>, Vec<_>) = model.partition(|name| *name == "model");
    names.extend(upstream.chain(rest));
    names
}

impl Comparison {
    /// One for each upstream, with the figures of its model.
    pub fn rows(&self) -> Vec<serde_json::Map<String, serde_json::Value>> {
        let upstreams = self.models.iter().flat_map(|model| model.upstreams.iter().map(move |one| (model, one)));
        upstreams.map(|(of, one)| model_comparison(of).into_iter().chain(upstream_comparison(one)).collect()).collect()
    }

    pub fn objects(&self) -> Vec<serde_json::Map<String, serde_json::Value>> {
        self.models.iter().map(model_comparison).collect()
    }
}

#[cfg(test)]
mod tests;
