//! `GET /metrics`: counters and histograms of races and attempts, as Prometheus' text or as OpenMetrics.
//!
//! The recorder feeds them with every row, so rows and metrics agree. A row costs a look-up and a few atomic additions, a token
//! costs nothing. Not for history: counts start at zero with the process, and nothing is estimated.

mod costs;
mod gen_ai;
mod histogram;
mod series;
#[cfg(test)]
mod tests;
mod text;
mod users;

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;

use costs::{BOUNDS, ModelCosts};
use gen_ai::GenAi;
use histogram::{MetricHistogram, micros};
use photofinish_config::Config;
use photofinish_config::names::names;
use photofinish_facts::estimate::cost::{Cost, CostSum};
use photofinish_facts::estimate::facts;
use photofinish_facts::estimate::speed::Decoding;
use photofinish_facts::record::table::Subset as _;
use photofinish_facts::record::{
    AttemptOutcome, AttemptRecord, IncidentKind, LeftOutReason, RaceOutcome, RaceRecord, StartReason,
};
use series::NamedSeries;
pub use text::{MetricFamily, MetricSample, MetricsFormat, MetricsText, SampleValue};
use users::UserFigures;

/// Models with metrics of their own, first by name; further ones share `other`.
const MODELS_MAX: usize = 32;
/// Upstreams with metrics of their own, first by model; further ones share `other`.
const UPSTREAMS_MAX: usize = 64;

/// Counts from rows since the start.
#[derive(Debug)]
pub struct Metrics {
    /// In the order of [`RaceOutcome::ALL`].
    races: [AtomicU64; RaceOutcome::ALL.len()],
    starts: Starts,
    overhead: MetricHistogram,
    rolled_up_attempts: AtomicU64,
    removed_races: AtomicU64,
    probes: ProbeCounts,
    named: ArcSwap<ConfiguredNames>,
    users: UserFigures,
    incidents: ArcSwap<CurrentIncidents>,
}

/// The series of an attempt's upstream.
#[derive(Debug)]
pub struct UpstreamSeries(Arc<UpstreamMetrics>);

/// The series of one configuration.
#[derive(Debug)]
struct ConfiguredNames {
    models: NamedSeries<ModelMetrics>,
    upstreams: NamedSeries<UpstreamMetrics>,
}

#[derive(Debug)]
struct ModelMetrics {
    races: RaceCounts,
    /// Client TTFT.
    ttft: MetricHistogram,
}

/// In the order of [`RaceOutcome::ALL`].
type RaceCounts = [AtomicU64; RaceOutcome::ALL.len()];

#[derive(Debug)]
struct UpstreamMetrics {
    outcomes: [AtomicU64; AttemptOutcome::ALL.len()],
    /// Judged answers: those that are good, and those that are broken.
    judged: [AtomicU64; 2],
    ttft: MetricHistogram,
    tpot: MetricHistogram,
    /// In the order of [`TOKEN_KINDS`].
    tokens: [AtomicU64; TOKEN_KINDS.len()],
    gen_ai: GenAi,
    costs: ModelCosts,
    /// Incidents that began, in the order of [`IncidentKind::ALL`].
    incidents: [AtomicU64; IncidentKind::ALL.len()],
}

/// `input` includes cached tokens; with most providers `output` includes reasoning.
const TOKEN_KINDS: [&str; 4] = ["input", "cached_input", "output", "reasoning"];

impl Metrics {
    /// Without configured names: see [`Metrics::configure`].
    pub fn new() -> Metrics {
        let named = ConfiguredNames {
            models: NamedSeries::new(ModelMetrics::new),
            upstreams: NamedSeries::new(UpstreamMetrics::new),
        };
        Metrics {
            races: Default::default(),
            starts: Starts::default(),
            overhead: MetricHistogram::new(histogram::OVERHEAD),
            rolled_up_attempts: AtomicU64::new(0),
            removed_races: AtomicU64::new(0),
            probes: ProbeCounts::default(),
            named: ArcSwap::from_pointee(named),
            users: UserFigures::default(),
            incidents: ArcSwap::default(),
        }
    }

    /// Creates separate series for the models of `config` and their upstreams. The series of removed names are dropped.
    pub fn configure(&self, config: &Config) {
        self.named.rcu(|before| {
            let models = before.models.renamed(config.models.keys().cloned(), MODELS_MAX, ModelMetrics::new);
            let upstreams = config.models.values().flat_map(|model| &model.upstreams);
            let upstreams = upstreams.map(|upstream| upstream_name(&upstream.provider.name, &upstream.model));
            let upstreams = before.upstreams.renamed(upstreams, UPSTREAMS_MAX, UpstreamMetrics::new);
            upstreams.iter().for_each(|(_, upstream)| upstream.costs.keep(&models));
            ConfiguredNames { models, upstreams }
        });
    }

    /// Decides which users have series of their own: of those who are still users, those who spent most.
    pub fn choose_users(&self, is_user: impl Fn(&str) -> bool) {
        self.users.choose(is_user);
    }

    /// What a race decided. `refused_hedge`: a hedge would have paid, and the budget did not allow it. `left_out`: why upstreams could
    /// not start.
    pub fn decided(&self, refused_hedge: bool, left_out: impl Iterator<Item = LeftOutReason>) {
        self.starts.decided(refused_hedge, left_out);
    }

    /// `overhead_us`: the time that the gateway itself added before the client's first token. None: unknown.
    pub fn race(&self, race: &RaceRecord, overhead_us: Option<i64>) {
        self.races[race.outcome as usize].fetch_add(1, Relaxed);
        let named = self.named.load();
        let model = named.models.of(&race.model);
        model.races[race.outcome as usize].fetch_add(1, Relaxed);
        if let Some(user) = &race.user {
            self.users.race(user, race.outcome);
        }
        if let Some(sent) = race.first_token_sent_us {
            model.ttft.observe_of(micros(sent), &race.race_id);
        }
        if let Some(overhead) = overhead_us {
            self.overhead.observe(micros(overhead));
        }
    }

    /// `choices`: the number of answers that the request asked for, if given. `took_us`: microseconds from dispatch to
    /// the end of the attempt. Returns the series for [`Metrics::costs`].
    pub fn attempt(&self, attempt: &AttemptRecord, choices: Option<i64>, took_us: i64) -> UpstreamSeries {
        self.starts.attempt(attempt);
        let UpstreamSeries(upstream) = self.series(attempt);
        upstream.outcomes[attempt.outcome as usize].fetch_add(1, Relaxed);
        if let Some(broken) = attempt.judgement().is_broken() {
            upstream.judged[usize::from(broken)].fetch_add(1, Relaxed);
        }
        if let Some(ttft) = attempt.first_token_us {
            upstream.ttft.observe_of(micros(ttft), &attempt.race_id);
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
        UpstreamSeries(upstream)
    }

    /// The series of the upstream of a shadow, of which only the costs count.
    pub fn series(&self, attempt: &AttemptRecord) -> UpstreamSeries {
        UpstreamSeries(self.named.load().upstreams.shared(&upstream_name(&attempt.provider, &attempt.model_sent)))
    }

    /// The attempts of a race, once the bounds of their costs are known.
    pub fn costs<'a>(
        &self,
        race: &RaceRecord,
        attempts: impl Iterator<Item = (&'a AttemptRecord, &'a UpstreamSeries)>,
    ) {
        let attempts: Vec<(&AttemptRecord, &UpstreamSeries)> = attempts.collect();
        let racing = facts::racing(race, attempts.iter().map(|(attempt, _)| *attempt));
        let named = self.named.load();
        let model = named.models.label(&race.model);
        let mut total = CostSum::default();
        for ((attempt, UpstreamSeries(upstream)), racing) in attempts.iter().zip(racing) {
            let cost = Cost::of(attempt);
            upstream.costs.add(model, &cost, racing.is_some());
            total.add(&cost);
        }
        if let Some(user) = race.user.as_ref().filter(|_| !total.is_empty()) {
            self.users.cost(user, &total);
        }
    }

    /// An hour with this many attempts was rolled up.
    pub fn rolled_up(&self, attempts: u64) {
        self.rolled_up_attempts.fetch_add(attempts, Relaxed);
    }

    /// The rows of this many races were removed.
    pub fn removed(&self, races: u64) {
        self.removed_races.fetch_add(races, Relaxed);
    }

    /// A probe ended; what it cost.
    pub fn probe(&self, outcome: ProbeOutcome, cost: &Cost) {
        self.probes.count(outcome, cost);
    }

    /// Adds probes that were not sent in their time.
    pub fn probes_given_up(&self, probes: u64) {
        self.probes.count_skipped(probes);
    }

    /// An incident of an upstream began.
    pub fn incident(&self, upstream: &str, kind: IncidentKind) {
        self.named.load().upstreams.of(upstream).incidents[kind as usize].fetch_add(1, Relaxed);
    }

    /// Replaces the current incidents.
    pub fn current_incidents(&self, incidents: CurrentIncidents) {
        self.incidents.store(incidents.into());
    }

    /// The page. An upstream or a user without counts has no series. `open_breakers`: upstreams; `more`: writes what other parts of
    /// the gateway count.
    pub fn render(
        &self,
        format: MetricsFormat,
        open_breakers: &BTreeSet<String>,
        more: impl FnOnce(&mut MetricsText),
    ) -> String {
        let mut text = MetricsText::new(format);
        self.write(open_breakers, more, &mut text);
        text.finish()
    }

    /// The output of [`Metrics::render`], in parts.
    pub fn families(&self, open_breakers: &BTreeSet<String>, more: impl FnOnce(&mut MetricsText)) -> Vec<MetricFamily> {
        let mut text = MetricsText::in_parts();
        self.write(open_breakers, more, &mut text);
        text.parts()
    }

    fn write(&self, open_breakers: &BTreeSet<String>, more: impl FnOnce(&mut MetricsText), text: &mut MetricsText) {
        let named = self.named.load();
        self.render_races(&named, text);
        self.users.render(text);
        self.starts.render(text);
        render_attempts(&named.upstreams, text);
        render_tokens(&named.upstreams, text);
        costs::render(&named.upstreams, |of| &of.costs, text);
        gen_ai::render(&named.upstreams, |of| &of.gen_ai, text);
        render_incidents(&named.upstreams, &self.incidents.load(), text);
        render_breakers(&named.upstreams, open_breakers, text);
        self.probes.render(text);
        more(text);
        self.render_retention(text);
    }

    fn render_retention(&self, text: &mut MetricsText) {
        let help =
            "Attempts whose hour was rolled up; counted again each time an hour is rolled up again for late rows.";
        text.single("rolled_up_attempts_total", "counter", help, self.rolled_up_attempts.load(Relaxed));
        let help = "Races whose rows were removed because they are older than the retention.";
        text.single("removed_races_total", "counter", help, self.removed_races.load(Relaxed));
    }

    fn render_races(&self, named: &ConfiguredNames, text: &mut MetricsText) {
        text.family("races_total", "counter", "Races that ended, one for each authenticated request, by outcome.");
        for outcome in RaceOutcome::ALL {
            text.sample(&[("outcome", outcome.as_str())], self.races[outcome as usize].load(Relaxed));
        }
        text.family("model_races_total", "counter", "The same by model and outcome.");
        for (model, of) in named.models.iter() {
            let counts = of.races.each_ref().map(|count| count.load(Relaxed));
            // With its zeros: a rate needs the value before the first one.
            for (outcome, count) in
                RaceOutcome::ALL.iter().zip(counts).filter(|_| counts.iter().any(|count| *count > 0))
            {
                text.sample(&[("model", model), ("outcome", outcome.as_str())], count);
            }
        }
        let help = "From the request fully read to the first byte of payload handed to the client; for a client that does \
                    not stream, to the whole answer.";
        text.family("client_ttft_seconds", "histogram", help);
        for (model, of) in named.models.iter().filter(|(_, of)| !of.ttft.is_empty()) {
            text.histogram(&[("model", model)], &of.ttft);
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

impl ModelMetrics {
    fn new() -> ModelMetrics {
        ModelMetrics { races: Default::default(), ttft: ttft() }
    }
}

impl UpstreamMetrics {
    fn new() -> UpstreamMetrics {
        UpstreamMetrics {
            outcomes: Default::default(),
            judged: Default::default(),
            ttft: ttft(),
            tpot: MetricHistogram::new(histogram::TPOT),
            tokens: Default::default(),
            gen_ai: GenAi::new(),
            costs: ModelCosts::default(),
            incidents: Default::default(),
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
    let help =
        "Answers to requests with tools or a schema whose calls or structure were checked, by upstream and verdict.";
    text.family("judged_answers_total", "counter", help);
    for (upstream, of) in upstreams.iter() {
        let counts = of.judged.each_ref().map(|count| count.load(Relaxed));
        // With its zeros: a rate needs the value before the first one.
        for (verdict, count) in ["valid", "broken"].iter().zip(counts).filter(|_| counts != [0, 0]) {
            text.sample(&[("upstream", upstream), ("verdict", verdict)], count);
        }
    }
    let help = "From an attempt's own dispatch to its first token, for attempts whose first token was seen. Attempts that were \
                cancelled before are only in attempts_total as lost, so this is too low if there are many: the stats command \
                corrects for them.";
    text.family("attempt_ttft_seconds", "histogram", help);
    for (upstream, of) in upstreams.iter().filter(|(_, of)| !of.ttft.is_empty()) {
        text.histogram(&[("upstream", upstream)], &of.ttft);
    }
    let help = "Time per output token after the first, by the provider's own count; without bursts and requests for several choices.";
    text.family("tpot_seconds", "histogram", help);
    for (upstream, of) in upstreams.iter().filter(|(_, of)| !of.tpot.is_empty()) {
        text.histogram(&[("upstream", upstream)], &of.tpot);
    }
}

fn render_tokens(upstreams: &NamedSeries<UpstreamMetrics>, text: &mut MetricsText) {
    let help = "Tokens of all attempts, winners and losers, as their providers count them: input includes cached_input, and \
                with most providers output includes reasoning.";
    text.family("tokens_total", "counter", help);
    for (upstream, of) in upstreams.iter() {
        let counts = of.tokens.iter().map(|count| count.load(Relaxed));
        for (kind, count) in TOKEN_KINDS.iter().zip(counts).filter(|(_, count)| *count > 0) {
            text.sample(&[("upstream", upstream), ("kind", kind)], count);
        }
    }
}

/// Every upstream has a series, so that an open breaker changes a value.
fn render_breakers(upstreams: &NamedSeries<UpstreamMetrics>, open: &BTreeSet<String>, text: &mut MetricsText) {
    let open: BTreeSet<&str> = open.iter().map(|upstream| upstreams.label(upstream)).collect();
    let help = "1 while the circuit breaker of an upstream is open: it gets no requests except probes.";
    text.family("breaker_open", "gauge", help);
    for (upstream, _) in upstreams.iter() {
        text.sample(&[("upstream", upstream)], u8::from(open.contains(upstream)));
    }
}

fn ttft() -> MetricHistogram {
    MetricHistogram::with_exemplars(histogram::TTFT)
}

fn upstream_name(provider: &str, model: &str) -> String {
    [provider, "/", model].concat()
}

names! {
    /// How a probe ended.
    pub enum ProbeOutcome {
        Answered = "answered",
        Failed = "failed",
        /// Nothing was sent: no money is left, the upstream cools down, or clients used it until the slot was over.
        Skipped = "skipped",
    }
}

#[derive(Debug, Default)]
struct ProbeCounts {
    runs: [AtomicU64; ProbeOutcome::ALL.len()],
    cost: Mutex<CostSum>,
}

impl ProbeCounts {
    fn count(&self, outcome: ProbeOutcome, cost: &Cost) {
        self.runs[outcome as usize].fetch_add(1, Relaxed);
        self.cost.lock().unwrap_or_else(PoisonError::into_inner).add(cost);
    }

    fn count_skipped(&self, probes: u64) {
        self.runs[ProbeOutcome::Skipped as usize].fetch_add(probes, Relaxed);
    }

    fn render(&self, text: &mut MetricsText) {
        text.family("probe_runs_total", "counter", "Probes that ended, by outcome; see the page on probes.");
        for (outcome, count) in ProbeOutcome::ALL.iter().zip(&self.runs) {
            text.sample(&[("outcome", outcome.as_str())], count.load(Relaxed));
        }
        let cost = *self.cost.lock().unwrap_or_else(PoisonError::into_inner);
        for (series, help, sample) in BOUNDS {
            let help = format!("{help} that probes cost.");
            text.single(&format!("probe_cost_{series}"), "counter", &help, sample(&cost).unwrap_or_default());
        }
    }
}

/// Upstreams and what is wrong with them.
pub type CurrentIncidents = BTreeSet<(String, IncidentKind)>;

/// Whether something is wrong now, and how often it began. A kind that never was current has no series.
fn render_incidents(upstreams: &NamedSeries<UpstreamMetrics>, current: &CurrentIncidents, text: &mut MetricsText) {
    let current: BTreeSet<(&str, IncidentKind)> =
        current.iter().map(|(upstream, kind)| (upstreams.label(upstream), *kind)).collect();
    let series = |upstream, of: &UpstreamMetrics| {
        let counts = IncidentKind::ALL.into_iter().zip(&of.incidents);
        let rows = counts.map(|(kind, count)| (kind, count.load(Relaxed), current.contains(&(upstream, kind))));
        rows.filter(|(_, count, is_current)| *count > 0 || *is_current).collect::<Vec<_>>()
    };
    let help = "1 while an incident of an upstream lasts, as the command incidents shows; one of the gateway counts for each of its upstreams.";
    text.family("incidents", "gauge", help);
    for (upstream, of) in upstreams.iter() {
        for (kind, _, is_current) in series(upstream, of) {
            text.sample(&[("upstream", upstream), ("kind", kind.as_str())], u8::from(is_current));
        }
    }
    text.family("incidents_begun_total", "counter", "Incidents that began, by upstream and kind.");
    for (upstream, of) in upstreams.iter() {
        for (kind, count, _) in series(upstream, of) {
            text.sample(&[("upstream", upstream), ("kind", kind.as_str())], count);
        }
    }
}

/// Each array is in the order of [`StartReason::ALL`].
#[derive(Debug, Default)]
struct Starts {
    started: [AtomicU64; StartReason::ALL.len()],
    won: [AtomicU64; StartReason::ALL.len()],
    /// Races with a worthwhile hedge that the budget did not allow.
    refused_hedges: AtomicU64,
    /// In the order of [`LeftOutReason::ALL`].
    left_out: [AtomicU64; LeftOutReason::ALL.len()],
}

impl Starts {
    pub fn decided(&self, refused_hedge: bool, left_out: impl Iterator<Item = LeftOutReason>) {
        self.refused_hedges.fetch_add(u64::from(refused_hedge), Relaxed);
        for reason in left_out {
            self.left_out[reason as usize].fetch_add(1, Relaxed);
        }
    }

    pub fn attempt(&self, attempt: &AttemptRecord) {
        let reason = attempt.start_reason as usize;
        self.started[reason].fetch_add(1, Relaxed);
        if attempt.outcome == AttemptOutcome::Won {
            self.won[reason].fetch_add(1, Relaxed);
        }
    }

    pub fn render(&self, text: &mut MetricsText) {
        text.family("starts_total", "counter", "Attempts that ended, by the reason they were started for.");
        render_counts(&self.started, text);
        text.family("starts_won_total", "counter", "Attempts that won, by the reason they were started for.");
        render_counts(&self.won, text);
        let help = "Races with a hedge that would have paid but that the budget did not allow; one for each race.";
        text.family("starts_refused_total", "counter", help);
        text.sample(&[("reason", StartReason::Hedge.as_str())], self.refused_hedges.load(Relaxed));
        let help = "Upstreams with a key that a race could not start, by reason; one for each race and upstream.";
        text.family("left_out_total", "counter", help);
        for (reason, count) in LeftOutReason::ALL.iter().zip(&self.left_out) {
            text.sample(&[("reason", reason.as_str())], count.load(Relaxed));
        }
    }
}

fn render_counts(counts: &[AtomicU64], text: &mut MetricsText) {
    for (reason, count) in StartReason::ALL.iter().zip(counts) {
        text.sample(&[("reason", reason.as_str())], count.load(Relaxed));
    }
}

#[cfg(test)]
mod incidents_tests {
    use std::path::Path;

    use super::*;
    use photofinish_config::parse;

    fn page(metrics: &Metrics) -> Vec<String> {
        let page = metrics.render(MetricsFormat::Text, &BTreeSet::new(), |_| {});
        page.lines().filter(|line| line.contains("incidents") && !line.starts_with('#')).map(str::to_owned).collect()
    }

    #[test]
    fn what_is_current_and_what_began() {
        let models = "providers.groq.base_url = \"http://h/v1\"\nmodels.m.upstreams = [\"groq/a\"]";
        let metrics = Metrics::new();
        metrics.configure(&parse(models, Path::new("x"), &|_| None).unwrap());
        assert_eq!(page(&metrics), [""; 0]);
        let found = [("groq/a", IncidentKind::TokS), ("x/1", IncidentKind::Slower), ("x/2", IncidentKind::Slower)];
        found.iter().for_each(|(upstream, kind)| metrics.incident(upstream, *kind));
        metrics.current_incidents(found.iter().map(|(upstream, kind)| ((*upstream).to_owned(), *kind)).collect());
        let groq = "{upstream=\"groq/a\",kind=\"tok_s\"}";
        let other = "{upstream=\"other\",kind=\"slower\"}";
        assert_eq!(
            page(&metrics),
            [
                format!("photofinish_incidents{groq} 1"),
                format!("photofinish_incidents{other} 1"),
                format!("photofinish_incidents_begun_total{groq} 1"),
                format!("photofinish_incidents_begun_total{other} 2"),
            ]
        );
        metrics.current_incidents([("x/2".to_owned(), IncidentKind::Slower)].into());
        assert_eq!(
            page(&metrics)[..2],
            [format!("photofinish_incidents{groq} 0"), format!("photofinish_incidents{other} 1"),]
        );
        metrics.current_incidents(CurrentIncidents::new());
        assert_eq!(page(&metrics)[1], format!("photofinish_incidents{other} 0"));
    }
}
