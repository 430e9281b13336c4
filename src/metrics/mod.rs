//! What `GET /metrics` tells: counters and histograms of races and attempts, written as Prometheus' text.
//!
//! Fed by the recorder with every row that it takes, so that the rows and the metrics say the same. A row costs a look-up
//! and a few atomic additions, a token nothing. Not the history: this is gone with the process, and estimates nothing.

mod gen_ai;
mod histogram;
mod regressions;
mod series;
mod text;

pub use regressions::CurrentRegressions;
pub use text::CONTENT_TYPE;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::config::Config;
use crate::history::regression::TestedFigure;
use crate::history::speed::Decoding;
use crate::history::table::Subset as _;
use crate::history::{AttemptOutcome, AttemptRecord, RaceOutcome, RaceRecord};
use gen_ai::GenAi;
use histogram::MetricHistogram;
use series::NamedSeries;
use text::MetricsText;

/// Models with a series of their own, the first by name; the others are `other`.
const MODELS_MAX: usize = 32;
/// Upstreams with series of their own: those of the models, the first by model; the others are `other`.
const UPSTREAMS_MAX: usize = 64;

/// Everything since the start that rows tell.
#[derive(Debug)]
pub struct Metrics {
    races: [AtomicU64; RaceOutcome::ALL.len()],
    overhead: MetricHistogram,
    rolled_up_attempts: AtomicU64,
    removed_races: AtomicU64,
    named: ArcSwap<ConfiguredNames>,
    regressions: ArcSwap<CurrentRegressions>,
}

/// What the rows do not tell, and others count.
#[derive(Clone, Debug, Default)]
pub struct ExternalCounts {
    /// Races running now.
    pub in_flight: i64,
    /// Tasks running now: connections, attempts, losers that run on.
    pub tasks: usize,
    /// Rows that wait for the database.
    pub record_queue: usize,
    pub records_spilled: usize,
    pub records_written: u64,
    pub records_dropped: u64,
    /// Attempts whose row contradicted itself.
    pub invariant_violations: u64,
    /// Requests without a valid token.
    pub unauthorized: u64,
    /// Requests that were turned away for want of room, by reason.
    pub shed: Vec<(&'static str, u64)>,
    /// Bytes that bodies and buffers take, and may take.
    pub memory: (usize, usize),
    /// Upstreams whose circuit breaker is open.
    pub open_breakers: BTreeSet<String>,
}

/// Of one configuration.
#[derive(Debug)]
struct ConfiguredNames {
    /// Client TTFT.
    models: NamedSeries<MetricHistogram>,
    upstreams: NamedSeries<UpstreamMetrics>,
}

#[derive(Debug)]
struct UpstreamMetrics {
    outcomes: [AtomicU64; AttemptOutcome::ALL.len()],
    ttft: MetricHistogram,
    tpot: MetricHistogram,
    /// In the order of [`TOKEN_KINDS`].
    tokens: [AtomicU64; TOKEN_KINDS.len()],
    gen_ai: GenAi,
    /// Regressions that began, in the order of [`TestedFigure::ALL`].
    regressions: [AtomicU64; TestedFigure::ALL.len()],
}

/// Cached ones are among the input, and those of reasoning, with most providers, among the output.
const TOKEN_KINDS: [&str; 4] = ["input", "cached_input", "output", "reasoning"];

impl Metrics {
    /// Knows no name yet: see [`Metrics::configure`].
    pub fn new() -> Metrics {
        let named =
            ConfiguredNames { models: NamedSeries::new(ttft), upstreams: NamedSeries::new(UpstreamMetrics::new) };
        Metrics {
            races: Default::default(),
            overhead: MetricHistogram::new(histogram::OVERHEAD),
            rolled_up_attempts: AtomicU64::new(0),
            removed_races: AtomicU64::new(0),
            named: ArcSwap::from_pointee(named),
            regressions: ArcSwap::default(),
        }
    }

    /// From now on the models of `config` and their upstreams have series of their own. A name that is gone takes its series
    /// along.
    pub fn configure(&self, config: &Config) {
        self.named.rcu(|before| {
            let mut models = before.models.renamed(config.models.keys().cloned(), MODELS_MAX, ttft);
            for (alias, model) in &config.aliases {
                models.alias(alias, model);
            }
            let upstreams = config.models.values().flat_map(|model| &model.upstreams);
            let upstreams = upstreams.map(|upstream| upstream_name(&upstream.provider.name, &upstream.model));
            ConfiguredNames {
                models,
                upstreams: before.upstreams.renamed(upstreams, UPSTREAMS_MAX, UpstreamMetrics::new),
            }
        });
    }

    /// `overhead_us`: what the gateway itself added before the client's first token, where that is known.
    pub fn race(&self, race: &RaceRecord, overhead_us: Option<i64>) {
        self.races[race.outcome as usize].fetch_add(1, Relaxed);
        if let Some(sent) = race.first_token_sent_us {
            self.named.load().models.of(&race.model).observe(micros(sent));
        }
        if let Some(overhead) = overhead_us {
            self.overhead.observe(micros(overhead));
        }
    }

    /// `choices`: how many answers the request asked for, where it says so. `took_us`: microseconds from the dispatch until
    /// nothing of the attempt was left.
    pub fn attempt(&self, attempt: &AttemptRecord, choices: Option<i64>, took_us: i64) {
        let named = self.named.load();
        let upstream = named.upstreams.of(&upstream_name(&attempt.provider, &attempt.model_sent));
        upstream.outcomes[attempt.outcome as usize].fetch_add(1, Relaxed);
        if let Some(ttft) = attempt.first_token_us {
            upstream.ttft.observe(micros(ttft));
        }
        if let Some(tpot) = Decoding::of(attempt).tpot_us(choices) {
            upstream.tpot.observe(Duration::from_nanos((tpot * 1e3) as u64));
        }
        let tokens =
            [attempt.input_tokens, attempt.cached_input_tokens, attempt.output_tokens, attempt.reasoning_tokens];
        for (count, tokens) in upstream.tokens.iter().zip(tokens) {
            count.fetch_add(tokens.and_then(|tokens| u64::try_from(tokens).ok()).unwrap_or(0), Relaxed);
        }
        upstream.gen_ai.attempt(attempt, took_us);
    }

    /// An hour of so many attempts was rolled up.
    pub fn rolled_up(&self, attempts: u64) {
        self.rolled_up_attempts.fetch_add(attempts, Relaxed);
    }

    /// Rows of so many races were removed.
    pub fn removed(&self, races: u64) {
        self.removed_races.fetch_add(races, Relaxed);
    }

    /// The page in the text format 0.0.4; see [`CONTENT_TYPE`]. A series of a model or an upstream is there once it has
    /// counted something.
    pub fn render(&self, elsewhere: &ExternalCounts) -> String {
        let named = self.named.load();
        let mut text = MetricsText::default();
        self.render_races(&named, &mut text);
        render_attempts(&named.upstreams, &mut text);
        render_tokens(&named.upstreams, &mut text);
        gen_ai::render(&named.upstreams, &mut text);
        regressions::render(&named.upstreams, &self.regressions.load(), &mut text);
        render_breakers(&named.upstreams, &elsewhere.open_breakers, &mut text);
        render_elsewhere(elsewhere, &mut text);
        self.render_retention(&mut text);
        text.finish()
    }

    fn render_retention(&self, text: &mut MetricsText) {
        let help = "Attempts whose hour was rolled up; once more for each time that rows came late.";
        text.single("rolled_up_attempts_total", "counter", help, self.rolled_up_attempts.load(Relaxed));
        let help = "Races whose rows were removed, for they are older than the retention.";
        text.single("removed_races_total", "counter", help, self.removed_races.load(Relaxed));
    }

    fn render_races(&self, named: &ConfiguredNames, text: &mut MetricsText) {
        text.family("races_total", "counter", "Races that ended, one for each authenticated request, by outcome.");
        for (outcome, count) in RaceOutcome::ALL.iter().zip(&self.races) {
            text.sample(&[("outcome", outcome.as_str())], count.load(Relaxed));
        }
        let help = "From the request fully read to the first byte of payload handed to the client; for a client that does \
                    not stream, to the whole answer.";
        text.family("client_ttft_seconds", "histogram", help);
        for (model, ttft) in named.models.iter().filter(|(_, ttft)| !ttft.is_empty()) {
            text.histogram(&[("model", model)], ttft);
        }
        let help = "What the gateway itself added before a streaming client's first token: its TTFT, less the winner's start \
                    and the winner's TTFT.";
        text.family("overhead_seconds", "histogram", help);
        text.histogram(&[], &self.overhead);
    }
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new()
    }
}

impl UpstreamMetrics {
    fn new() -> UpstreamMetrics {
        UpstreamMetrics {
            outcomes: Default::default(),
            ttft: ttft(),
            tpot: MetricHistogram::new(histogram::TPOT),
            tokens: Default::default(),
            gen_ai: GenAi::new(),
            regressions: Default::default(),
        }
    }
}

fn render_attempts(upstreams: &NamedSeries<UpstreamMetrics>, text: &mut MetricsText) {
    text.family("attempts_total", "counter", "Attempts that ended, by upstream and outcome.");
    for (upstream, of) in upstreams.iter() {
        let counts = of.outcomes.iter().map(|count| count.load(Relaxed));
        for (outcome, count) in AttemptOutcome::ALL.iter().zip(counts).filter(|(_, count)| *count > 0) {
            text.sample(&[("upstream", upstream), ("outcome", outcome.as_str())], count);
        }
    }
    let help = "From an attempt's own dispatch to its first token, of the attempts whose first token was seen. Those cut off \
                before are not in here but in attempts_total as lost, so this is too low where many are: the stats command \
                estimates with them.";
    text.family("attempt_ttft_seconds", "histogram", help);
    for (upstream, of) in upstreams.iter().filter(|(_, of)| !of.ttft.is_empty()) {
        text.histogram(&[("upstream", upstream)], &of.ttft);
    }
    let help =
        "Time per output token after the first, by the provider's own count; without bursts and several choices.";
    text.family("tpot_seconds", "histogram", help);
    for (upstream, of) in upstreams.iter().filter(|(_, of)| !of.tpot.is_empty()) {
        text.histogram(&[("upstream", upstream)], &of.tpot);
    }
}

fn render_tokens(upstreams: &NamedSeries<UpstreamMetrics>, text: &mut MetricsText) {
    let help = "Tokens of all attempts, winners and losers, as their providers count them: cached_input is part of input, and \
                reasoning with most providers of output.";
    text.family("tokens_total", "counter", help);
    for (upstream, of) in upstreams.iter() {
        let counts = of.tokens.iter().map(|count| count.load(Relaxed));
        for (kind, count) in TOKEN_KINDS.iter().zip(counts).filter(|(_, count)| *count > 0) {
            text.sample(&[("upstream", upstream), ("kind", kind)], count);
        }
    }
}

/// A series is there for each upstream, so that one that is open is a change.
fn render_breakers(upstreams: &NamedSeries<UpstreamMetrics>, open: &BTreeSet<String>, text: &mut MetricsText) {
    let open: BTreeSet<&str> = open.iter().map(|upstream| upstreams.label(upstream)).collect();
    let help = "1 while the circuit breaker of an upstream is open, and it is left out but for trials.";
    text.family("breaker_open", "gauge", help);
    for (upstream, _) in upstreams.iter() {
        text.sample(&[("upstream", upstream)], u8::from(open.contains(upstream)));
    }
}

fn render_elsewhere(elsewhere: &ExternalCounts, text: &mut MetricsText) {
    text.single("in_flight", "gauge", "Races running now.", elsewhere.in_flight);
    text.single(
        "tasks",
        "gauge",
        "Tasks of the gateway running now: client and provider connections, attempts, losers that run on.",
        elsewhere.tasks,
    );
    text.single("record_queue", "gauge", "Rows that wait for the database.", elsewhere.record_queue);
    let spilled = "Of these, rows in the file beside the database.";
    text.single("records_spilled", "gauge", spilled, elsewhere.records_spilled);
    let written = "Rows in the database since the start.";
    text.single("records_written_total", "counter", written, elsewhere.records_written);
    let dropped = "Rows lost: the queue was full, or the database never takes them.";
    text.single("records_dropped_total", "counter", dropped, elsewhere.records_dropped);
    let unauthorized = "Requests turned away for want of a valid token; they have no race.";
    text.single("unauthorized_total", "counter", unauthorized, elsewhere.unauthorized);
    text.family("shed_total", "counter", "Requests turned away for want of room, before they had a race; by reason.");
    for (reason, count) in &elsewhere.shed {
        text.sample(&[("reason", reason)], count);
    }
    let (used, max) = elsewhere.memory;
    text.single("memory_used_bytes", "gauge", "What bodies and buffers take, by the gateway's own account.", used);
    text.single("memory_max_bytes", "gauge", "What they may take: memory under [server].", max);
    let violations = "Attempts whose row contradicts itself: a mistake of the gateway.";
    text.single("invariant_violations_total", "counter", violations, elsewhere.invariant_violations);
}

fn ttft() -> MetricHistogram {
    MetricHistogram::new(histogram::TTFT)
}

fn upstream_name(provider: &str, model: &str) -> String {
    format!("{provider}/{model}")
}

fn micros(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

#[cfg(test)]
mod tests;
