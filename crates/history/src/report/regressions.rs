//! Finds what is worse now than in the same hours of the days before, upstream by upstream.
//!
//! Chooses the attempts to compare and words a finding. All times are on the grid, also those of rows: exact times of one side
//! would differ from the other side's buckets. Not for the tests: those are in `estimate::regression`.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use clap::Args;
use serde_json::{Map, Value};

use super::dimension::NameIndex;
use super::members::members;
use super::question::{RaceWindow, time};
use crate::estimate::class::Input;
use crate::estimate::facts::{AttemptFacts, RequestFacts};
use crate::estimate::regression::{Finding, RegressionStratum, Sample, TestedFigure, Thresholds, compare};
use crate::estimate::spread::{Spread, Times};
use crate::estimate::summary::Summary;
use crate::estimate::survival::{AuditedLoser, Observation, SurvivalPoint};
use crate::estimate::{ShortBytes, goodput};
use crate::record::{AttemptOutcome, IncidentRecord};
use crate::store::{Gather, IncidentFilter, ReadError, RollupCell, Selection, StoreReader};
use photofinish_base::clock::{DAY_US, HOUR_US};

/// Length of *now* by default.
const NOW_US: i64 = HOUR_US;
/// The longest *now* of regressions: it has every hour of the day.
const NOW_US_MAX: i64 = DAY_US;
/// Incidents that are named beside regressions.
const INCIDENTS_MAX: usize = 20;
/// Days before now that are compared.
const DAYS_BEFORE: i64 = 7;

/// Races in `window` are *now*. Without `since` it is the last hour.
#[derive(Args, Clone, Debug, Default)]
pub struct RegressionsQuestion {
    #[command(flatten)]
    pub window: RaceWindow,
}

/// The answer.
#[derive(Debug)]
pub struct Regressions {
    /// Start and end of *now*; microseconds since 1970, UTC.
    pub now: (i64, i64),
    /// Findings, by upstream.
    pub findings: Vec<Regression>,
    /// Upstreams that were compared.
    pub upstreams: usize,
    /// Their attempts before, in hours and input classes with attempts on both sides.
    pub attempts_before: u64,
    /// The same for now.
    pub attempts_now: u64,
    /// Upstreams with too few attempts now or before.
    pub too_few: Vec<TooFew>,
    /// Incidents of now, newest first, without parts of others.
    pub incidents: Vec<IncidentRecord>,
}

/// One figure of one upstream that is worse.
#[derive(Clone, Debug, PartialEq)]
pub struct Regression {
    /// `PROVIDER/MODEL`.
    pub upstream: String,
    pub finding: Finding,
    /// Compared attempts of the upstream.
    pub attempts_before: u64,
    pub attempts_now: u64,
}

/// An upstream with too few attempts on a side, in hours and input classes with attempts on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooFew {
    pub upstream: String,
    /// All its attempts.
    pub attempts_before: u64,
    /// All its attempts.
    pub attempts_now: u64,
}

impl RegressionsQuestion {
    /// An error in the combination of valid parts.
    pub fn problem(&self, now_us: i64) -> Option<String> {
        let (from, until) = self.now(now_us);
        let too_long = || {
            (until - from > NOW_US_MAX).then(|| {
                format!(
                    "--since {} is more than 24h before {}; what is compared with the same hours of the days before may be 24h \
                     long, such as --since 1h",
                    time(from),
                    time(until)
                )
            })
        };
        self.window.problem(now_us).or_else(too_long)
    }

    /// Start and end of *now*; microseconds since 1970, UTC.
    fn now(&self, now_us: i64) -> (i64, i64) {
        let until = self.window.until.map_or(now_us, |until| until.micros(now_us).min(now_us));
        (self.window.since.map_or(until - NOW_US, |since| since.micros(now_us)), until)
    }
}

/// Compares. Reads one stretch after another; once the reader is stopped, the next one ends at once.
///
/// # Errors
/// For an operator.
pub fn ask(reader: &StoreReader, question: &RegressionsQuestion, now_us: i64) -> Result<Regressions, ReadError> {
    let read = |(from, until): (i64, i64)| {
        let mut filter = question.window.filter(now_us);
        (filter.since, filter.until) = (Some(from), Some(until));
        let selection = Selection { filter, now_us, classes: true, hourly: true, exact: false };
        Ok(reader.gather(&selection, UpstreamSides::default)?.0)
    };
    let now = question.now(now_us);
    let of_now = read(now)?;
    let mut of_before = UpstreamSides::default();
    for stretch in same_hours(now) {
        of_before.merge(read(stretch)?);
    }
    let (since, until, provider) = (Some(now.0), Some(now.1), question.window.provider.clone());
    let mut incidents = reader.incidents(&IncidentFilter { since, until, provider, limit: INCIDENTS_MAX })?;
    incidents.retain(|incident| incident.part_of.is_none());
    Ok(Regressions { incidents, ..compared(now, &of_before, &of_now) })
}

impl Regressions {
    /// For programs.
    pub fn objects(&self) -> Vec<Map<String, Value>> {
        self.findings.iter().map(Regression::object).collect()
    }
}

impl Regression {
    /// In words, without the upstream's name.
    pub fn words(&self) -> String {
        let times = |name: &str, before_us: f64, now_us: f64| {
            format!("{name} {} → {} (×{:.2})", millis(before_us), millis(now_us), now_us / before_us.max(1.0))
        };
        match self.finding {
            Finding::Ttft { shift: Some(shift), .. } => {
                let name = format!("TTFT p{:.0}", shift.share * 100.0);
                times(&name, shift.before_us as f64, shift.now_us as f64)
            }
            Finding::Ttft { shift: None, hazard_ratio, .. } => {
                let less = 100.0 * (1.0 - hazard_ratio);
                format!(
                    "TTFT: at equal waiting times first tokens come {less:.0} % less often (hazard ratio {hazard_ratio:.2}; \
                     the median is not reached)"
                )
            }
            Finding::Tpot { before_us, now_us, .. } => times("TPOT p50", before_us, now_us),
            Finding::Failures { before, now, .. } => {
                let [before, now] = [before, now].map(|share| share * 100.0);
                format!("failures {before:.1} % → {now:.1} % (+{:.1} points)", now - before)
            }
        }
    }

    /// The p-value, in words.
    pub fn chance(&self) -> String {
        match self.finding.p_value() {
            tiny if tiny < 1e-9 => "p < 1e-9".to_owned(),
            p_value => format!("p = {p_value:.1e}"),
        }
    }

    /// For programs.
    pub fn object(&self) -> Map<String, Value> {
        regression(self)
    }

    /// Which quantile was compared, and its microseconds before and now.
    fn quantile(&self) -> Option<(f64, f64, f64)> {
        match self.finding {
            Finding::Ttft { shift, .. } => shift.map(|of| (of.share, of.before_us as f64, of.now_us as f64)),
            Finding::Tpot { before_us, now_us, .. } => Some((0.5, before_us, now_us)),
            Finding::Failures { .. } => None,
        }
    }

    /// The shares of failed attempts before and now.
    fn shares(&self) -> Option<(f64, f64)> {
        match self.finding {
            Finding::Failures { before, now, .. } => Some((before, now)),
            _ => None,
        }
    }

    fn hazard_ratio(&self) -> Option<f64> {
        match self.finding {
            Finding::Ttft { hazard_ratio, .. } => Some(hazard_ratio),
            _ => None,
        }
    }

    pub fn figure(&self) -> TestedFigure {
        self.finding.figure()
    }
}

members! {
    /// What is worse, in the order of JSON and CSV. A figure has no members of the other figures: these are null.
    pub REGRESSION: regression(of: &Regression) {
        /// provider and its name for the model: `PROVIDER/MODEL`
        upstream: Text = of.upstream;
        /// what is worse: `ttft`, `tpot` or `failures`
        figure: Text = of.figure().as_str();
        /// which quantile `before_ms` and `now_ms` are; null where none was reached
        quantile: Number or_null = of.quantile().map(|(share, ..)| share);
        /// the quantile in the same hours before
        before_ms: Number ["ms"] or_null = of.quantile().map(|(_, before_us, _)| before_us / 1e3);
        /// the quantile now
        now_ms: Number ["ms"] or_null = of.quantile().map(|(.., now_us)| now_us / 1e3);
        /// `now_ms` / `before_ms`
        ratio: Number or_null = of.quantile().map(|(_, before_us, now_us)| now_us / before_us.max(1.0));
        /// share of attempts that failed in the same hours before
        before_share: Number or_null = of.shares().map(|(before, _)| before);
        /// share of attempts that fail now
        now_share: Number or_null = of.shares().map(|(_, now)| now);
        /// `now_share` − `before_share`
        difference: Number or_null = of.shares().map(|(before, now)| now - before);
        /// the rate at which first tokens come at equal waiting times, now over before; below 1: later
        hazard_ratio: Number or_null = of.hazard_ratio();
        /// the probability that a comparison reports any difference although nothing has changed
        p_value: Number = of.finding.p_value();
        /// attempts of the upstream in the same hours before
        attempts_before: Integer = of.attempts_before;
        /// attempts of the upstream now
        attempts_now: Integer = of.attempts_now;
    }
}

/// The same hours of the days before, as whole hours, because roll-ups have only those. Oldest first, without overlaps
/// with each other or with now.
fn same_hours((from, until): (i64, i64)) -> Vec<(i64, i64)> {
    let first = from.div_euclid(HOUR_US) * HOUR_US;
    let last = -(-until).div_euclid(HOUR_US) * HOUR_US;
    let mut stretches: Vec<(i64, i64)> = Vec::new();
    for day in (1..=DAYS_BEFORE).rev() {
        let stretch = (first - day * DAY_US, (last - day * DAY_US).min(from));
        match stretches.last_mut() {
            Some(before) if stretch.0 <= before.1 => before.1 = stretch.1,
            _ => stretches.push(stretch),
        }
    }
    stretches
}

fn compared(now: (i64, i64), of_before: &UpstreamSides, of_now: &UpstreamSides) -> Regressions {
    let thresholds = Thresholds::default();
    let mut names: Vec<&str> = of_now.upstreams().collect();
    names.sort_unstable();
    let shared = names.iter().map(|upstream| ((*upstream).to_owned(), of_now.shared(of_before, upstream)));
    let least = thresholds.events_min as u64;
    let (enough, too_few): (Vec<_>, Vec<_>) =
        shared.partition(|(_, shared)| shared.attempts_before.min(shared.attempts_now) >= least);
    let findings = enough.iter().flat_map(|(upstream, shared)| {
        let findings = compare(&shared.strata(), &thresholds, enough.len());
        findings.into_iter().map(|finding| Regression {
            upstream: upstream.clone(),
            finding,
            attempts_before: shared.attempts_before,
            attempts_now: shared.attempts_now,
        })
    });
    let too_few = too_few.into_iter().map(|(upstream, _)| TooFew {
        attempts_before: of_before.attempts(&upstream),
        attempts_now: of_now.attempts(&upstream),
        upstream,
    });
    Regressions {
        now,
        findings: findings.collect(),
        upstreams: enough.len(),
        attempts_before: enough.iter().map(|(_, shared)| shared.attempts_before).sum(),
        attempts_now: enough.iter().map(|(_, shared)| shared.attempts_now).sum(),
        too_few: too_few.collect(),
        incidents: Vec::new(),
    }
}

fn millis(us: f64) -> String {
    let ms = us / 1e3;
    if ms < 100.0 { format!("{ms:.1} ms") } else { format!("{ms:.0} ms") }
}

/// By upstream and stratum.
#[derive(Debug, Default)]
struct UpstreamSides {
    names: NameIndex,
    /// By the place of the name.
    upstreams: HashMap<usize, Strata>,
}

/// By hour of the day, UTC, and input class; ordered, because sums of fractions depend on the order.
type Strata = BTreeMap<(i64, Input), StratumSide>;

/// One stratum of one side.
#[derive(Debug, Default)]
struct StratumSide {
    ttft: Times,
    /// The same with squared weights.
    squares: Times,
    /// Of rolled-up hours.
    rolled: Times,
    /// Nanoseconds.
    tpot: Spread,
    attempts: u64,
    failures: u64,
}

/// Strata of one upstream with attempts on both sides.
#[derive(Debug, Default)]
struct SharedStrata {
    strata: Vec<(FlatSide, FlatSide)>,
    /// In these strata.
    pub attempts_before: u64,
    /// In these strata.
    pub attempts_now: u64,
}

/// One side, in the form that the tests take.
#[derive(Debug)]
struct FlatSide {
    ttft: Vec<SurvivalPoint>,
    squares: Vec<SurvivalPoint>,
    tpot: Vec<SurvivalPoint>,
    attempts: u64,
    failures: u64,
}

impl UpstreamSides {
    /// The upstreams with attempts on this side.
    pub fn upstreams(&self) -> impl Iterator<Item = &str> {
        self.names.names()
    }

    /// Strata of one upstream.
    pub fn attempts(&self, upstream: &str) -> u64 {
        self.strata(upstream).map_or(0, |strata| strata.values().map(|side| side.attempts).sum())
    }

    /// With this as `now`: what can be compared of an upstream.
    pub fn shared(&self, before: &UpstreamSides, upstream: &str) -> SharedStrata {
        let mut shared = SharedStrata::default();
        let (Some(now), Some(before)) = (self.strata(upstream), before.strata(upstream)) else {
            return shared;
        };
        for (stratum, now) in now {
            let Some(before) = before.get(stratum) else { continue };
            shared.attempts_before += before.attempts;
            shared.attempts_now += now.attempts;
            shared.strata.push((before.flat(), now.flat()));
        }
        shared
    }

    fn side(&mut self, upstream: (&str, &str), started_at: i64, input: Input) -> &mut StratumSide {
        let strata = self.upstreams.entry(self.names.upstream(upstream)).or_default();
        strata.entry((goodput::hour(started_at), input)).or_default()
    }

    fn strata(&self, upstream: &str) -> Option<&Strata> {
        self.upstreams.get(&self.names.find(upstream)?)
    }
}

impl SharedStrata {
    pub fn strata(&self) -> Vec<RegressionStratum<'_>> {
        self.strata
            .iter()
            .map(|(before, now)| RegressionStratum { before: before.sample(), now: now.sample() })
            .collect()
    }
}

impl StratumSide {
    fn add(&mut self, observation: &Observation) {
        self.ttft.add(observation, 1.0, true);
        // Weights are 1, and for an audit with probability p, 1/p from the loss on; 1/p² is the weight of an audit with
        // p².
        let square = |audit: AuditedLoser| AuditedLoser { probability: audit.probability.min(1.0).powi(2), ..audit };
        self.squares.add(&Observation { audit: observation.audit.map(square), ..*observation }, 1.0, true);
    }

    fn flat(&self) -> FlatSide {
        let event = |(ns, weight)| SurvivalPoint { time_us: ns, events: weight, ..SurvivalPoint::default() };
        FlatSide {
            ttft: [self.ttft.points(), self.rolled.points()].concat(),
            squares: [self.squares.points(), self.rolled.coarse_squares()].concat(),
            tpot: self.tpot.values().into_iter().map(event).collect(),
            attempts: self.attempts,
            failures: self.failures,
        }
    }

    fn merge(&mut self, other: StratumSide) {
        self.ttft.merge(other.ttft);
        self.squares.merge(other.squares);
        self.rolled.merge(other.rolled);
        self.tpot.merge(other.tpot);
        self.attempts += other.attempts;
        self.failures += other.failures;
    }
}

impl FlatSide {
    fn sample(&self) -> Sample<'_> {
        Sample {
            ttft: &self.ttft,
            ttft_squares: &self.squares,
            tpot: &self.tpot,
            attempts: self.attempts,
            failures: self.failures,
        }
    }
}

impl Gather for UpstreamSides {
    fn attempt(&mut self, facts: &AttemptFacts<'_>) {
        use AttemptOutcome::{Failed, FailedMid, Refused, Timeout};
        // A running race has rows of losers only: each upstream would look too slow.
        let Some(request) = &facts.request else { return };
        let input = Input::of(request.input_tokens_estimate);
        let side = self.side((facts.provider, facts.model_sent), facts.started_at, input);
        side.attempts += 1;
        side.failures += u64::from(matches!(facts.outcome, Failed | FailedMid | Timeout | Refused));
        if let Some(observation) = &facts.ttft {
            side.add(observation);
        }
        if let Some(tpot_us) = facts.tpot_us {
            side.tpot.add((tpot_us * 1e3) as i64, 1.0, true);
        }
    }

    fn without_attempts(&mut self, _: i64, _: &RequestFacts<'_>) {}

    fn cell(&mut self, cell: &RollupCell<'_>) -> Result<(), ShortBytes> {
        // Without a model: attempts without the row of their race, which are left out as rows are.
        let (Some(upstream), Some(_), Some(class)) = (cell.upstream, cell.model, cell.class) else { return Ok(()) };
        let mut summary = Summary::default();
        summary.absorb(cell.summary, 1.0, false)?;
        let side = self.side(upstream, cell.start_us, class.input);
        side.attempts += summary.attempts;
        side.failures += summary.failed();
        side.rolled.merge(summary.ttft);
        side.tpot.merge(summary.tpot);
        Ok(())
    }

    fn merge(&mut self, other: UpstreamSides) {
        for (place, strata) in other.upstreams {
            let mine = self.upstreams.entry(self.names.place(other.names.name(place))).or_default();
            strata.into_iter().for_each(|(stratum, side)| mine.entry(stratum).or_default().merge(side));
        }
    }
}
