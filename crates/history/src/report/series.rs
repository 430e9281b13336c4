//! A figure over time, or over attempts in flight: a series of points for each upstream, model or user. The definitions
//! are those of `stats`.
//!
//! Not for drawing: the command does that.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::dimension::{GroupValue, NameIndex};
use super::members::{MemberField, MemberKind, field, integer, number, text};
use super::question::{RaceWindow, choice, positive_duration, slo, time};
use super::spent::{self, GatherCosts};
use crate::store::{AttemptFilter, Coverage, Gather, ReadError, RollupCell, Selection, StoreReader};
use photofinish_base::clock::{DAY_US, HOUR_US, SECOND_US, micros};
use photofinish_config::names::names;
use photofinish_config::units::format_duration;
use photofinish_facts::estimate::ShortBytes;
use photofinish_facts::estimate::class::Concurrency;
use photofinish_facts::estimate::cost::Cost;
use photofinish_facts::estimate::facts::{AttemptFacts, RequestFacts};
use photofinish_facts::estimate::goodput::SloTargets;
use photofinish_facts::estimate::summary::Summary;
use photofinish_facts::estimate::survival::{Estimate, is_firm};

/// Reads the answer.
///
/// # Errors
/// When the requested steps are too many for the data, or the file cannot be read.
pub fn ask(reader: &StoreReader, question: &SeriesQuestion, now_us: i64) -> Result<SeriesReport, SeriesError> {
    let filter = question.window.filter(now_us);
    let until_us = end(&filter, now_us);
    let every_us = match question.by {
        SeriesDimension::Concurrency => None,
        _ => {
            let since = filter.since.map_or_else(|| reader.oldest(filter.source), |since| Ok(Some(since)))?;
            let from_us = since.unwrap_or(until_us);
            let every_us = question.every.map_or_else(|| chosen_step(until_us - from_us), micros);
            match too_many_steps(every_us, from_us, until_us) {
                Some(problem) => return Err(SeriesError::Steps(problem)),
                None => Some(every_us),
            }
        }
    };
    let rules = SeriesRules::new(question.by, every_us, filter.provider.is_some(), now_us);
    let selection = Selection {
        filter: filter.clone(),
        now_us,
        classes: question.by == SeriesDimension::Concurrency,
        hourly: every_us.is_some_and(|every_us| every_us % DAY_US != 0),
        // A rolled-up hour cannot be divided, so its rows are read while they exist.
        exact: question.exact || every_us.is_some_and(|every_us| every_us < HOUR_US),
    };
    let new = || GatheredSeries::new(&rules);
    let (gathered, coverage) = match question.metric {
        Metric::Cost => spent::gather(reader, &selection, new)?,
        _ => reader.gather(&selection, new)?,
    };
    let span_us = coverage.window(&filter, gathered.oldest, now_us);
    // Their provider is unknown.
    let without_attempts = if filter.provider.is_some() { 0 } else { gathered.without_attempts };
    let mut series = SeriesReport {
        lines: Vec::new(),
        attempts: gathered.attempts(),
        span_us,
        every_us,
        left_out: (0, 0),
        whole_hours: 0,
        coverage,
        moved: coverage.whole_hours.map(|_| span_us),
        without_speed: 0,
        without_verdict: 0.0,
        without_attempts,
        running: gathered.running,
        filter,
    };
    fill(&mut series, gathered, question)?;
    Ok(series)
}

/// Steps of one answer of `history`.
pub const STEPS_MAX: i64 = 2_000;
names! {
    /// The figure of a series.
    pub enum Metric {
        /// First token − the attempt's own dispatch, estimated (Kaplan–Meier) with the censored attempts, which were cut off
        /// before their first token.
        Ttft = "ttft",
        /// First payload byte handed to the client − request fully read, of clients that asked to stream. A request counts at the
        /// upstream that served it.
        ClientTtft = "client_ttft",
        /// 1 / TPOT, the time per output token after the first, by the provider's own count. A quantile of 0.05 is the slow end.
        TokS = "tok_s",
        /// Requests that finished well within the targets, per second of the step.
        Goodput = "goodput",
        /// Share of attempts that failed, failed midway, timed out or were refused; losers are attempts too.
        Failures = "failures",
        /// US dollars of all attempts and of shadows, between bounds.
        Cost = "cost",
        /// Requests of the step, without those whose client left. One counts at the upstream that answered it, or that tried.
        Requests = "requests",
        /// Tokens of prompts of all attempts, by the providers' count.
        InputTokens = "input_tokens",
        /// Tokens that all attempts generated, by the providers' count.
        OutputTokens = "output_tokens",
    }
}

names! {
    /// What has a series.
    pub enum SeriesDimension {
        /// Each upstream, over time.
        Upstream = "upstream",
        /// Each model that apps asked for, over time.
        Model = "model",
        /// Each caller, over time.
        User = "user",
        /// Each upstream, over the attempts running there instead of over time.
        Concurrency = "concurrency",
    }
}

/// The figure, the attempts and the steps.
#[derive(Args, Clone, Debug)]
pub struct SeriesQuestion {
    #[command(flatten)]
    pub window: RaceWindow,
    /// The figure.
    #[arg(long, value_parser = choice::<Metric>(), default_value = "ttft")]
    pub metric: Metric,
    /// Of ttft, client_ttft and tok_s: which quantile, such as 0.95 or p95; the median by default.
    #[arg(long, value_name = "SHARE", value_parser = share, allow_hyphen_values = true)]
    pub quantile: Option<f64>,
    /// The length of a step: whole hours, or what an hour is divided into evenly; by default such that there are about 48
    /// to 120.
    #[arg(long, value_name = "DURATION", value_parser = step, allow_hyphen_values = true)]
    pub every: Option<Duration>,
    /// A series for each of these.
    #[arg(long, value_name = "DIMENSION", value_parser = choice::<SeriesDimension>(), default_value = "upstream")]
    pub by: SeriesDimension,
    /// Of goodput: what a request must keep, the client's time to first token, the time per output token, or both;
    /// ttft=1s,tpot=50ms by default.
    #[arg(long, value_name = "TARGETS", value_parser = slo)]
    pub slo: Option<SloTargets>,
    /// Read rows and no histograms, for at most 30 s, as far as rows are kept.
    #[arg(long)]
    pub exact: bool,
}

/// For goodput.
const SLO_BY_DEFAULT: SloTargets = SloTargets { ttft_us: Some(1_000_000), tpot_ms: Some(50.0) };

/// Default steps in seconds. Each divides an hour, or is whole hours.
const ROUND_S: [i64; 20] = [
    10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 172_800, 345_600, 604_800,
    1_209_600, 2_419_200,
];
/// Most steps by default.
const CHOSEN_STEPS: i64 = 120;

impl Metric {
    /// Whether a quantile can be asked for.
    pub fn has_quantile(self) -> bool {
        matches!(self, Metric::Ttft | Metric::ClientTtft | Metric::TokS)
    }
}

impl SeriesQuestion {
    /// The share that the value does not exceed, 0 to 1; none for a metric without quantiles.
    pub fn quantile(&self) -> Option<f64> {
        self.metric.has_quantile().then_some(self.quantile.unwrap_or(0.5))
    }

    /// The targets of goodput.
    pub fn slo(&self) -> SloTargets {
        self.slo.unwrap_or(SLO_BY_DEFAULT)
    }

    /// An error in the combination of valid parts.
    pub fn problem(&self, now_us: i64) -> Option<String> {
        if let Some(problem) = self.window.problem(now_us) {
            return Some(problem);
        }
        if self.quantile.is_some() && !self.metric.has_quantile() {
            let metric = self.metric.as_str();
            return Some(format!("--quantile does not go with {metric}; it goes with ttft, client_ttft and tok_s"));
        }
        if self.slo.is_some() && self.metric != Metric::Goodput {
            return Some(format!("--slo does not go with {}; it goes with goodput", self.metric.as_str()));
        }
        let every = self.every?;
        if self.by == SeriesDimension::Concurrency {
            return Some(
                "--every and --by concurrency exclude each other: that is a curve over load, not over time".into(),
            );
        }
        let filter = self.window.filter(now_us);
        let (from_us, until_us) = (filter.since?, end(&filter, now_us));
        if micros(every) > until_us - from_us {
            let (from, until) = (time(from_us), time(until_us));
            let every = format_duration(every);
            return Some(format!("--every {every} is longer than the whole window, from {from} to {until}"));
        }
        too_many_steps(micros(every), from_us, until_us)
    }
}

fn end(filter: &AttemptFilter, now_us: i64) -> i64 {
    filter.until.unwrap_or(now_us).min(now_us)
}

/// The shortest round step that does not make too many.
fn chosen_step(span_us: i64) -> i64 {
    let rounds = ROUND_S.into_iter().map(|seconds| seconds * SECOND_US);
    let mut found = rounds.filter(|step_us| span_us / step_us <= CHOSEN_STEPS);
    found.next().unwrap_or_else(|| (span_us / CHOSEN_STEPS / DAY_US + 1) * DAY_US)
}

fn too_many_steps(every_us: i64, from_us: i64, until_us: i64) -> Option<String> {
    let steps = (until_us - 1).div_euclid(every_us) - from_us.div_euclid(every_us) + 1;
    (steps > STEPS_MAX).then(|| {
        let name = |us: i64| format_duration(Duration::from_micros(us.unsigned_abs()));
        format!(
            "--every {} makes {steps} steps from {} to {}, and there may be {STEPS_MAX} at most; ask for a shorter window, or \
             for longer steps, such as {}",
            name(every_us),
            time(from_us),
            time(until_us),
            name(chosen_step(until_us - from_us))
        )
    })
}

/// For clap: more than 0 and less than 1.
fn share(text: &str) -> Result<f64, String> {
    let share = match text.strip_prefix('p') {
        Some(percent) => percent.parse::<f64>().map(|percent| (percent * 1e10).round() / 1e12),
        None => text.parse(),
    };
    share
        .ok()
        .filter(|share| *share > 0.0 && *share < 1.0)
        .ok_or_else(|| "expected a share between 0 and 1, such as 0.5 or 0.95, or the same as p50 or p95".to_owned())
}

/// For clap: steps that divide an hour, or whole hours.
fn step(text: &str) -> Result<Duration, String> {
    let duration = positive_duration(text)?;
    let seconds = duration.as_secs();
    if seconds > 0 && duration.subsec_nanos() == 0 && (3_600 % seconds == 0 || seconds % 3_600 == 0) {
        return Ok(duration);
    }
    Err("expected whole hours, or seconds or minutes that an hour is divided into evenly, such as 10s, 1m, 15m, 1h, 6h, 1d or 7d"
        .to_owned())
}

/// Series of one answer of `history`, those with most attempts. As many as there are letters for them.
pub const SERIES_MAX: usize = 62;

/// The answer.
#[derive(Debug)]
pub struct SeriesReport {
    pub filter: AttemptFilter,
    /// In the order of their names.
    pub lines: Vec<SeriesLine>,
    /// Attempts read, in all series.
    pub attempts: u64,
    /// From the start of the window, or else of the oldest race that was read, to its end; microseconds since 1970,
    /// UTC.
    pub span_us: (i64, i64),
    /// Length of a step in microseconds; none over concurrency.
    pub every_us: Option<i64>,
    /// Series beyond [`SERIES_MAX`], and their attempts.
    pub left_out: (usize, u64),
    /// Points that are a whole hour although steps are shorter: their rows are gone.
    pub whole_hours: usize,
    pub coverage: Coverage,
    /// See [`Stats::whole_hours`](crate::report::stats::Stats::whole_hours).
    pub moved: Option<(i64, i64)>,
    /// Attempts that generated something, but whose tok/s is not known.
    pub without_speed: u64,
    /// For goodput: requests in time, but of unknown pace.
    pub without_verdict: f64,
    /// Requests without an attempt.
    pub without_attempts: u64,
    /// Attempts of running races, which are left out.
    pub running: u64,
}

/// The points of one name.
#[derive(Debug)]
pub struct SeriesLine {
    pub name: GroupValue,
    pub attempts: u64,
    /// Rising; a step without attempts has no point.
    pub points: Vec<SeriesPoint>,
}

/// A step, or a class of concurrency, with attempts.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesPoint {
    pub place: PointPlace,
    /// In milliseconds, tokens per second, requests per second or as a share (0 to 1); of a cost its lower bound. None if unknown.
    pub value: Option<f64>,
    /// Instead of the value, if the quantile was not reached: it is above this, in the same unit.
    pub over: Option<f64>,
    /// The sample: first tokens, clients, attempts of known speed, judged requests, or attempts.
    pub samples: u64,
    /// Whether the sample is large enough. Shares follow the rule of a median; sums and rates always are.
    pub firm: bool,
    /// The bounds of a cost.
    pub cost: Option<Cost>,
}

/// The place of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointPlace {
    /// Start in microseconds since 1970, UTC, and length in microseconds.
    Time {
        start_us: i64,
        span_us: i64,
    },
    Class(Concurrency),
}

/// For the caller.
#[derive(Debug, thiserror::Error)]
pub enum SeriesError {
    /// Wrong use that only the data could show.
    #[error("{0}")]
    Steps(String),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Damaged(#[from] ShortBytes),
}

/// How attempts are gathered.
#[derive(Debug)]
struct SeriesRules {
    by: SeriesDimension,
    /// Length of a step in microseconds; none over concurrency.
    every_us: Option<i64>,
    /// Unanswered requests count once for each upstream that tried, instead of once.
    unserved_by_upstream: bool,
    /// Microseconds since 1970, UTC.
    now_us: i64,
}

/// All that was read.
#[derive(Debug)]
struct GatheredSeries<'r> {
    rules: &'r SeriesRules,
    names: NameIndex,
    /// By the place of the name. None: the race's own row is not written yet, or there are no users.
    lines: HashMap<Option<usize>, GatheredLine>,
    pub without_attempts: u64,
    /// Attempts of running races.
    pub running: u64,
    /// Start of the first race; microseconds since 1970, UTC.
    pub oldest: Option<i64>,
}

#[derive(Debug, Default)]
struct GatheredLine {
    pub attempts: u64,
    /// By the start of the step in microseconds since 1970, or by the index of the class.
    pub steps: BTreeMap<i64, SeriesStep>,
}

/// The data of one point.
#[derive(Debug, Default)]
struct SeriesStep {
    rows: Summary,
    /// Encoded summaries, which take a hundredth of the memory of decoded ones; and whether unanswered requests count.
    cells: Vec<(bool, Box<[u8]>)>,
    /// Length of the longest cell in microseconds; 0 without cells.
    pub cell_span_us: i64,
}

impl SeriesRules {
    /// `of_one_provider`: only one provider is gathered.
    pub fn new(by: SeriesDimension, every_us: Option<i64>, of_one_provider: bool, now_us: i64) -> SeriesRules {
        let unserved_by_upstream =
            of_one_provider || matches!(by, SeriesDimension::Upstream | SeriesDimension::Concurrency);
        SeriesRules { by, every_us, unserved_by_upstream, now_us }
    }
}

impl<'r> GatheredSeries<'r> {
    pub fn new(rules: &'r SeriesRules) -> GatheredSeries<'r> {
        GatheredSeries {
            rules,
            names: NameIndex::default(),
            lines: HashMap::new(),
            without_attempts: 0,
            running: 0,
            oldest: None,
        }
    }

    pub fn attempts(&self) -> u64 {
        self.lines.values().map(|line| line.attempts).sum()
    }

    fn saw(&mut self, at_us: i64) {
        self.oldest = Some(self.oldest.map_or(at_us, |oldest| oldest.min(at_us)));
    }

    /// Each line with its name.
    pub fn into_lines(self) -> impl Iterator<Item = (GroupValue, GatheredLine)> {
        let GatheredSeries { names, lines, .. } = self;
        let name = move |place| GroupValue::Name(names.name(place).to_owned());
        lines.into_iter().map(move |(place, line)| (place.map_or(GroupValue::Unknown, &name), line))
    }

    fn line_of(&mut self, upstream: (&str, &str), model: Option<&str>, user: Option<&str>) -> &mut GatheredLine {
        let place = match self.rules.by {
            SeriesDimension::Upstream | SeriesDimension::Concurrency => Some(self.names.upstream(upstream)),
            SeriesDimension::Model => model.map(|name| self.names.place(name)),
            SeriesDimension::User => user.map(|name| self.names.place(name)),
        };
        self.lines.entry(place).or_default()
    }

    fn at(&self, started_at: i64, class: Option<Concurrency>) -> i64 {
        match self.rules.every_us {
            Some(every_us) => started_at.div_euclid(every_us) * every_us,
            None => class.map_or(0, |class| i64::from(class.place())),
        }
    }
}

impl Gather for GatheredSeries<'_> {
    fn attempt(&mut self, facts: &AttemptFacts<'_>) {
        self.saw(facts.started_at);
        if facts.is_of_a_running_race(self.rules.now_us) {
            self.running += 1;
            return;
        }
        let at = self.at(facts.started_at, Some(Concurrency::of(facts.in_flight_upstream)));
        let (model, user) = facts.request.as_ref().map_or((None, None), |request| (Some(request.model), request.user));
        let by_upstream = self.rules.unserved_by_upstream;
        let line = self.line_of((facts.provider, facts.model_sent), model, user);
        line.attempts += 1;
        let rows = &mut line.steps.entry(at).or_default().rows;
        rows.add(facts, false);
        if by_upstream {
            rows.requests.count_by_upstream();
        }
    }

    fn without_attempts(&mut self, _: i64, _: &RequestFacts<'_>) {
        self.without_attempts += 1;
    }

    fn cell(&mut self, cell: &RollupCell<'_>) -> Result<(), ShortBytes> {
        self.saw(cell.start_us);
        let unserved = self.rules.unserved_by_upstream;
        if cell.upstream.is_none() {
            self.without_attempts += cell.count;
            if unserved {
                return Ok(());
            }
        }
        let at = self.at(cell.start_us, cell.class.map(|class| class.concurrency));
        let line = self.line_of(cell.upstream.unwrap_or_default(), cell.model, cell.user);
        line.attempts += if cell.upstream.is_some() { cell.count } else { 0 };
        let step = line.steps.entry(at).or_default();
        step.cells.push((unserved || cell.upstream.is_none(), cell.summary.into()));
        step.cell_span_us = step.cell_span_us.max(cell.span_us);
        Ok(())
    }

    fn merge(&mut self, other: Self) {
        self.without_attempts += other.without_attempts;
        self.running += other.running;
        other.oldest.into_iter().for_each(|oldest| self.saw(oldest));
        for (place, line) in other.lines {
            let place = place.map(|place| self.names.place(other.names.name(place)));
            let mine = self.lines.entry(place).or_default();
            mine.attempts += line.attempts;
            for (at, step) in line.steps {
                let into = mine.steps.entry(at).or_default();
                into.rows.merge(step.rows);
                into.cells.extend(step.cells);
                into.cell_span_us = into.cell_span_us.max(step.cell_span_us);
            }
        }
    }
}

impl GatherCosts for GatheredSeries<'_> {
    fn cost(&mut self, facts: &AttemptFacts<'_>) {
        let at = self.at(facts.started_at, Some(Concurrency::of(facts.in_flight_upstream)));
        let (model, user) = facts.request.as_ref().map_or((None, None), |request| (Some(request.model), request.user));
        let line = self.line_of((facts.provider, facts.model_sent), model, user);
        line.steps.entry(at).or_default().rows.add_cost(facts);
    }
}

impl GatheredLine {
    /// It has attempts or costs.
    fn has_points(&self) -> bool {
        self.attempts > 0 || self.steps.values().any(|step| !step.rows.cost.is_empty())
    }
}

impl SeriesStep {
    /// All of it, decoded.
    ///
    /// # Errors
    /// When a stored summary is damaged.
    pub fn summary(self) -> Result<Summary, ShortBytes> {
        let mut summary = self.rows;
        for (unserved, bytes) in &self.cells {
            summary.absorb(bytes, *unserved)?;
        }
        Ok(summary)
    }
}

/// Fills in the lines, and what they leave out.
///
/// # Errors
/// When a stored summary is damaged.
fn fill(series: &mut SeriesReport, gathered: GatheredSeries<'_>, question: &SeriesQuestion) -> Result<(), ShortBytes> {
    let mut lines: Vec<_> = gathered.into_lines().filter(|(_, line)| line.has_points()).collect();
    lines.sort_by(|(a, a_line), (b, b_line)| b_line.attempts.cmp(&a_line.attempts).then_with(|| a.cmp(b)));
    let left_out = lines.split_off(lines.len().min(SERIES_MAX));
    series.left_out = (left_out.len(), left_out.iter().map(|(_, line)| line.attempts).sum());
    lines.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (name, line) in lines {
        let (attempts, points) = (line.attempts, points(series, line, question)?);
        series.lines.push(SeriesLine { name, attempts, points });
    }
    Ok(())
}

fn points(
    series: &mut SeriesReport,
    line: GatheredLine,
    question: &SeriesQuestion,
) -> Result<Vec<SeriesPoint>, ShortBytes> {
    let mut points = Vec::new();
    for (at, step) in line.steps {
        let (place, seconds) = match series.every_us {
            None => (PointPlace::Class(Concurrency::at(at as u8)), seconds(series.span_us, i64::MIN, i64::MAX)),
            Some(every_us) => {
                series.whole_hours += usize::from(step.cell_span_us > every_us);
                let whole_us = every_us.max(step.cell_span_us);
                let seconds = seconds(series.span_us, at, at.saturating_add(whole_us));
                (PointPlace::Time { start_us: at, span_us: (seconds * 1e6).round() as i64 }, seconds)
            }
        };
        let summary = step.summary()?;
        if summary.attempts == 0 && summary.cost.is_empty() {
            continue;
        }
        series.without_speed += summary.without_speed();
        if question.metric == Metric::Goodput {
            series.without_verdict += summary.requests.judged(&question.slo()).unknown;
        }
        points.push(point(question, place, &summary, seconds));
    }
    Ok(points)
}

/// The part of the step that is within the window.
fn seconds((from_us, until_us): (i64, i64), start_us: i64, end_us: i64) -> f64 {
    (end_us.min(until_us) - start_us.max(from_us)).max(0) as f64 / 1e6
}

fn point(question: &SeriesQuestion, place: PointPlace, summary: &Summary, seconds: f64) -> SeriesPoint {
    let p = question.quantile().unwrap_or(0.5);
    let bare = SeriesPoint { place, value: None, over: None, samples: 0, firm: true, cost: None };
    match question.metric {
        Metric::Ttft => {
            let estimate = summary.ttft.survival().quantile(p);
            SeriesPoint {
                value: estimate.and_then(Estimate::reached).map(|us| us as f64 / 1e3),
                over: match estimate {
                    Some(Estimate::NotReached { over_us }) => Some(over_us as f64 / 1e3),
                    _ => None,
                },
                samples: summary.ttft.seen,
                firm: is_firm(summary.ttft.effective(), p),
                ..bare
            }
        }
        Metric::ClientTtft => {
            let ([us], samples) = (summary.client_ttft.quantiles([p]), summary.client_ttft.count);
            SeriesPoint { value: us.map(|us| us as f64 / 1e3), samples, firm: is_firm(samples as f64, p), ..bare }
        }
        Metric::TokS => {
            let ([ns], samples) = (summary.tpot.quantiles_from_above([p]), summary.tpot.count);
            SeriesPoint { value: ns.map(|ns| 1e9 / ns as f64), samples, firm: is_firm(samples as f64, p), ..bare }
        }
        Metric::Goodput => {
            let judged = summary.requests.judged(&question.slo());
            let requests = judged.met + judged.missed;
            let rate = Some(judged.met / seconds).filter(|rate| requests > 0.0 && rate.is_finite());
            SeriesPoint { value: rate, samples: requests.round() as u64, ..bare }
        }
        Metric::Failures => {
            let samples = summary.attempts;
            let share = summary.failed() as f64 / samples as f64;
            SeriesPoint { value: Some(share), samples, firm: is_firm(samples as f64, 0.5), ..bare }
        }
        Metric::Cost => {
            let cost = summary.cost.cost();
            SeriesPoint { value: cost.cost_usd_min, samples: summary.attempts, cost: Some(cost), ..bare }
        }
        Metric::Requests => {
            let requests = summary.requests.total();
            SeriesPoint { value: Some(requests as f64), samples: requests, ..bare }
        }
        Metric::InputTokens => SeriesPoint { value: Some(summary.tokens_in as f64), samples: summary.attempts, ..bare },
        Metric::OutputTokens => {
            let tokens = summary.tokens_served + summary.tokens_lost;
            SeriesPoint { value: Some(tokens as f64), samples: summary.attempts, ..bare }
        }
    }
}

/// All names that an object may have, in order; the columns of CSV.
pub fn names(question: &SeriesQuestion) -> Vec<&'static str> {
    let mut names = vec![question.by.member()];
    names.extend(if question.by == SeriesDimension::Concurrency { &["concurrency"][..] } else { &["start", "span_s"] });
    names.extend(question.metric.has_quantile().then_some("quantile"));
    names.push(question.metric.field());
    names.extend((question.metric == Metric::Ttft).then_some("ttft_over_ms"));
    if question.metric == Metric::Cost {
        names.push("cost_usd_max");
    }
    names.extend(["samples", "firm"]);
    names
}

/// A point of a series: its series, its place, and the value under the name of the figure.
pub const POINT: [MemberField; 20] = [
    text("upstream", "the upstream of the series").or_null().if_known(),
    text("model", "the model of the series").or_null().if_known(),
    text("user", "the caller of the series").or_null().if_known(),
    text("concurrency", "class of the attempts running at the upstream").if_known(),
    text("start", "where the step begins, in the format of RFC 3339").if_known(),
    number("span_s", "s", "the part of the step within the window, which rates are divided by").if_known(),
    number("quantile", "", "the share that the value does not exceed").if_known(),
    number("ttft_ms", "ms", "time to first token, estimated (Kaplan–Meier); null where not reached")
        .or_null()
        .if_known(),
    number("ttft_over_ms", "ms", "the data say only that it is over this").if_known(),
    number("client_ttft_ms", "ms", "what streaming clients saw, from request to first payload").or_null().if_known(),
    number("tok_s", "tokens/s", "1 / TPOT, by the provider's own count").or_null().if_known(),
    number("goodput", "requests/s", "requests that met the targets, per second").or_null().if_known(),
    number("failure_share", "", "failures as a share of attempts").or_null().if_known(),
    number("cost_usd_min", "USD", "lower bound of the cost").or_null().if_known(),
    number("cost_usd_max", "USD", "upper bound of the cost").or_null().if_known(),
    number("requests", "requests", "requests of the step, without those whose client left").if_known(),
    number("input_tokens", "tokens", "tokens of prompts, by the providers' count").if_known(),
    number("output_tokens", "tokens", "tokens generated, by the providers' count").if_known(),
    integer("samples", "", "number of observations behind the value"),
    field("firm", MemberKind::Boolean, "", "whether they suffice for such a figure"),
];

/// One object for each point, series by series.
pub fn objects(question: &SeriesQuestion, series: &SeriesReport) -> Vec<Map<String, Value>> {
    let points = series.lines.iter().flat_map(|line| line.points.iter().map(move |point| (line, point)));
    points.map(|(line, point)| object(question, line, point)).collect()
}

impl SeriesDimension {
    /// The member of JSON with the name of a series.
    fn member(self) -> &'static str {
        match self {
            SeriesDimension::Upstream | SeriesDimension::Concurrency => "upstream",
            SeriesDimension::Model => "model",
            SeriesDimension::User => "user",
        }
    }
}

impl Metric {
    /// The name in JSON, with the unit; the same as in `stats` where it has the figure.
    fn field(self) -> &'static str {
        match self {
            Metric::Ttft => "ttft_ms",
            Metric::ClientTtft => "client_ttft_ms",
            Metric::TokS => "tok_s",
            Metric::Goodput => "goodput",
            Metric::Failures => "failure_share",
            Metric::Cost => "cost_usd_min",
            Metric::Requests => "requests",
            Metric::InputTokens => "input_tokens",
            Metric::OutputTokens => "output_tokens",
        }
    }
}

fn object(question: &SeriesQuestion, line: &SeriesLine, point: &SeriesPoint) -> Map<String, Value> {
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
    put(question.by.member(), line.name.json());
    match point.place {
        PointPlace::Time { start_us, span_us } => {
            put("start", json!(Timestamp::from_microsecond(start_us).ok().map(|start| start.to_string())));
            put("span_s", json!(span_us / 1_000_000));
        }
        PointPlace::Class(class) => {
            put("concurrency", json!(class.name()));
        }
    }
    if let Some(quantile) = question.quantile() {
        put("quantile", json!(quantile));
    }
    put(question.metric.field(), json!(point.value));
    if let Some(over) = point.over {
        put("ttft_over_ms", json!(over));
    }
    if let Some(cost) = &point.cost {
        put("cost_usd_max", json!(cost.cost_usd_max));
    }
    put("samples", json!(point.samples));
    put("firm", json!(point.firm));
    object
}
