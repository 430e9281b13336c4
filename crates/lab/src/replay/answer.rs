//! Replays every policy over every imputation and summarises: means over the draws, and intervals over draws and resampled
//! stretches of time together. Not for the simulation, which is `rehearse`'s.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::past_requests::{KnownOutcome, PastCounts, PastRequests};
use super::upstream_model::{Imputation, UpstreamModel};
use crate::rehearse::{PlayedRace, Rehearsal, SimulatedRequest};
use photofinish_base::clock::{HOUR_US, SECOND_US};
use photofinish_config::RaceSettings;

/// Imputations at most, and at least; a long history gets fewer.
const DRAWS: usize = 20;
const DRAWS_LEAST: usize = 5;
/// Requests that are played for one plan, all imputations together, before these become fewer.
const PLAYED: usize = 1_000_000;
/// Resamples behind an interval.
const RESAMPLES: usize = 200;
/// The first tenth only teaches, up to this number of requests.
const WARM_UP: usize = 500;
/// A window is resampled in about this number of stretches, of an hour at most and a minute at least.
const BLOCKS: i64 = 30;
/// Threads of a replay.
const THREADS_MAX: usize = 8;

/// One policy to replay.
#[derive(Clone, Debug)]
pub struct ReplayedPlan {
    /// Shown to users.
    pub name: String,
    pub settings: RaceSettings,
    /// It was in force: upstreams that were hardly asked are asked no more than that.
    pub as_it_was: bool,
}

/// Share of a policy's requests that may ask upstreams of which too little is known. Beyond it there is no figure.
const LITTLE_KNOWN_MOST: f64 = 0.05;

/// The result of one policy.
#[derive(Clone, Debug)]
pub struct ReplayRow {
    pub name: String,
    /// Means over the imputations.
    pub figures: ReplayFigures,
    pub intervals: [Interval; FIGURES.len()],
    /// Against what was recorded; see [`ReplayFigure::change`].
    pub changes: ReplayFigures,
    pub change_intervals: [Interval; FIGURES.len()],
    /// Share of its answers that were seen just so, and not drawn.
    pub seen: f64,
    /// Share of its answers whose time lies beyond what its upstream was ever watched for: a quantile further out than this
    /// is a guess.
    pub assumed: f64,
    /// Upstreams of which too little is known and that it would have asked too often: so it has no figure.
    pub little_known: Vec<String>,
}

/// The whole report.
#[derive(Clone, Debug)]
pub struct ReplayReport {
    /// Requests that were played, and of these those that only teach, at the beginning.
    pub requests: usize,
    pub warm_up: usize,
    /// Requests behind the figures.
    pub counted: usize,
    /// From the first to the last; microseconds since 1970.
    pub span_us: (i64, i64),
    pub draws: usize,
    /// Stretches of time that were resampled.
    pub blocks: usize,
    pub recorded: ReplayFigures,
    pub recorded_intervals: [Interval; FIGURES.len()],
    pub rows: Vec<ReplayRow>,
    pub counts: Vec<PastCounts>,
    pub expected: Vec<UpstreamModel>,
}

impl ReplayRow {
    fn without_figures(plan: &ReplayedPlan, little_known: Vec<String>) -> ReplayRow {
        let (none, nowhere) = ([f64::NAN; FIGURES.len()], [Interval { low: f64::NAN, high: f64::NAN }; FIGURES.len()]);
        ReplayRow {
            name: plan.name.clone(),
            figures: none,
            intervals: nowhere,
            changes: none,
            change_intervals: nowhere,
            seen: f64::NAN,
            assumed: f64::NAN,
            little_known,
        }
    }

    /// This figure is a guess: too many answers are longer than any observation.
    pub fn is_guess(&self, figure: ReplayFigure) -> bool {
        figure.beyond().is_some_and(|beyond| self.assumed > beyond)
    }
}

/// Requests that are played before it is asked again whether to go on.
const ASKED_EVERY: usize = 1_000;

/// Called with the number of runs that are over and of all, also while one runs; returns whether to go on.
pub type ProgressReport<'a> = &'a mut dyn FnMut(usize, usize) -> bool;

/// Plays on at most `threads`. None if there is nothing to play: no request, or no upstream of which enough is known; and if
/// `progress` ended it. `past` is settled.
pub fn replay(
    past: &PastRequests,
    plans: &[ReplayedPlan],
    seed: u64,
    threads: usize,
    progress: ProgressReport<'_>,
) -> Option<ReplayReport> {
    let draws = (PLAYED / past.requests().max(1)).clamp(DRAWS_LEAST, DRAWS);
    drawn_so_often(past, plans, (seed, draws), threads, progress)
}

/// The same with a given number of imputations.
pub(super) fn drawn_so_often(
    past: &PastRequests,
    plans: &[ReplayedPlan],
    (seed, draws): (u64, usize),
    threads: usize,
    progress: ProgressReport<'_>,
) -> Option<ReplayReport> {
    let (first_us, last_us) = past.span_us()?;
    if past.little_known.len() == past.upstreams().len() {
        return None;
    }
    let known = (!past.little_known.is_empty()).then(|| past.of_known());
    let stage = ReplaySetup::new(past, seed, draws);
    let as_it_was = known.as_ref().map(|known| ReplaySetup::new(known, seed, draws));
    let jobs: Vec<(usize, usize)> =
        (0..stage.draws).flat_map(|draw| (0..plans.len()).map(move |plan| (plan, draw))).collect();
    let stages = (&stage, as_it_was.as_ref().unwrap_or(&stage));
    let results = played(stages, plans, &jobs, threads, progress)?;
    let recorded = PlayedRequests::new(stage.counted().map(|(request, block)| was(past, request, block)), stage.blocks);
    let even = vec![1.0; stage.blocks];
    let resampled: Vec<ReplayFigures> = stage.resamples.iter().map(|times| recorded.figures(times)).collect();
    let was = recorded.figures(&even);
    let rows = plans.iter().enumerate().map(|(number, plan)| {
        let mut runs: Vec<&ReplayRun> = results.iter().filter(|run| run.plan == number).collect();
        runs.sort_by_key(|run| run.draw);
        row(plan, &runs, &was, &resampled, past)
    });
    Some(ReplayReport {
        requests: past.requests(),
        warm_up: stage.warm_up,
        counted: stage.counted().count(),
        span_us: (first_us, last_us),
        draws: stage.draws,
        blocks: stage.blocks,
        recorded: was,
        recorded_intervals: std::array::from_fn(|figure| Interval::of(resampled.iter().map(|all| all[figure]))),
        rows: rows.collect(),
        counts: past.counts(),
        expected: stage.expected,
    })
}

/// Shared by all runs.
struct ReplaySetup<'a> {
    past: &'a PastRequests,
    expected: Vec<UpstreamModel>,
    seed: u64,
    draws: usize,
    warm_up: usize,
    block_us: i64,
    blocks: usize,
    /// Weight of each block, by resample.
    resamples: Vec<Vec<f64>>,
}

/// One plan over one imputation.
struct ReplayRun {
    plan: usize,
    draw: usize,
    figures: ReplayFigures,
    /// Number of the resample, and its figures.
    resampled: Vec<(usize, ReplayFigures)>,
    requests: f64,
    answers: f64,
    seen: f64,
    assumed: f64,
    /// By upstream: the requests that asked it.
    asked: Vec<f64>,
}

impl<'a> ReplaySetup<'a> {
    fn new(past: &'a PastRequests, seed: u64, draws: usize) -> ReplaySetup<'a> {
        let requests = past.requests();
        let (first_us, last_us) = past.span_us().unwrap_or_default();
        let warm_up = (requests / 10).min(WARM_UP);
        let block_us = ((last_us - first_us) / BLOCKS).clamp(60 * SECOND_US, HOUR_US);
        let blocks = ((last_us - first_us) / block_us + 1) as usize;
        let mut dice = fastrand::Rng::with_seed(seed);
        let used = blocks_used(past, warm_up, block_us);
        let resamples = (0..RESAMPLES).map(|_| {
            let mut times = vec![0.0; blocks];
            for _ in 0..used.len() {
                times[used[dice.usize(..used.len())]] += 1.0;
            }
            times
        });
        ReplaySetup {
            past,
            expected: (0..past.upstreams().len()).map(|upstream| UpstreamModel::new(past, upstream)).collect(),
            seed,
            draws,
            warm_up,
            block_us,
            blocks,
            resamples: resamples.collect(),
        }
    }

    /// The requests behind the figures, each with its block.
    fn counted(&self) -> impl Iterator<Item = (usize, usize)> {
        counted(self.past, self.warm_up).map(|request| (request, block(self.past, request, self.block_us)))
    }

    /// None: `goes_on` ended it.
    fn run(
        &self,
        plans: &[ReplayedPlan],
        (plan, draw): (usize, usize),
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Option<ReplayRun> {
        let settings = &plans[plan].settings;
        let seed = self.seed.wrapping_add((draw as u64 + 1).wrapping_mul(0xd134_2543_de82_ef95));
        let mut world = Imputation::new(self.past, &self.expected, seed);
        let rehearsal = Rehearsal { in_usd: self.past.priced, ..Rehearsal::new(settings.clone(), seed) };
        let requests = self.past.requests.iter().enumerate().map(|(id, asked)| SimulatedRequest {
            id,
            at_us: asked.at_us,
            output_tokens: asked.output_tokens.max(1),
            whole: asked.whole,
        });
        let mut ended = false;
        let requests = requests.take_while(|request| {
            ended = ended || (request.id % ASKED_EVERY == ASKED_EVERY - 1 && !goes_on());
            !ended
        });
        let (mut went, known) = (Vec::with_capacity(self.past.requests()), world.clone());
        let (mut answers, mut seen, mut assumed) = (0.0, 0.0, 0.0);
        let mut asked = vec![0.0; self.past.upstreams().len()];
        rehearsal.run(requests, &mut world, &mut |outcome: &PlayedRace<'_>| {
            let request = outcome.request.id;
            if request < self.warm_up || !self.past.requests[request].was.counts {
                return;
            }
            if let Some(winner) = outcome.winner {
                let upstream = outcome.attempts[winner].upstream;
                let was_seen = matches!(self.past.cell(request, upstream).known, KnownOutcome::Seen(_));
                answers += 1.0;
                seen += f64::from(u8::from(was_seen));
                assumed += f64::from(u8::from(known.is_assumed(outcome.request, upstream)));
            }
            let is_asked = |upstream: usize| outcome.attempts.iter().any(|attempt| attempt.upstream == upstream);
            asked
                .iter_mut()
                .enumerate()
                .filter(|(upstream, _)| is_asked(*upstream))
                .for_each(|(_, asked)| *asked += 1.0);
            went.push(self.went(outcome));
        });
        if ended {
            return None;
        }
        let (requests, played) = (went.len() as f64, PlayedRequests::new(went.into_iter(), self.blocks));
        let own = self.resamples.iter().enumerate().filter(|(number, _)| number % self.draws == draw);
        Some(ReplayRun {
            plan,
            draw,
            figures: played.figures(&vec![1.0; self.blocks]),
            resampled: own.map(|(number, times)| (number, played.figures(times))).collect(),
            requests,
            answers,
            seen,
            assumed,
            asked,
        })
    }

    /// The same requests as in what was recorded, as far as both have an answer.
    fn went(&self, outcome: &PlayedRace<'_>) -> PlayedRequest {
        let asked = &self.past.requests[outcome.request.id];
        let answered = outcome.winner.is_some();
        let ended = asked.was.took_us.is_some() || !asked.was.answered;
        PlayedRequest {
            block: block(self.past, outcome.request.id, self.block_us),
            ttft_us: outcome.ttft_us.filter(|_| !asked.whole),
            took_us: Some(outcome.took_us).filter(|_| answered && ended),
            answered,
            cost: outcome.attempts.iter().map(|attempt| attempt.cost).sum(),
            attempts: outcome.attempts.len() as f64,
        }
    }
}

/// `as_it_was`: for the plan that was in force.
fn played(
    (stage, as_it_was): (&ReplaySetup<'_>, &ReplaySetup<'_>),
    plans: &[ReplayedPlan],
    jobs: &[(usize, usize)],
    threads: usize,
    progress: ProgressReport<'_>,
) -> Option<Vec<ReplayRun>> {
    let (next, over) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = |report: &mut dyn FnMut(usize) -> bool| {
        let mut runs = Vec::new();
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let stage = if plans[job.0].as_it_was { as_it_was } else { stage };
            let run = stage.run(plans, *job, &mut || report(over.load(Ordering::Relaxed)));
            let ended = run.is_none() || !report(over.fetch_add(1, Ordering::Relaxed) + 1);
            runs.extend(run);
            if ended {
                next.store(jobs.len(), Ordering::Relaxed);
            }
        }
        runs
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let others = cores.min(threads).clamp(1, THREADS_MAX) - 1;
    std::thread::scope(|scope| {
        let helpers: Vec<_> = (0..others).map(|_| scope.spawn(|| work(&mut |_| true))).collect();
        let mut runs = work(&mut |over| progress(over, jobs.len()));
        for helper in helpers {
            match helper.join() {
                Ok(more) => runs.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        (runs.len() == jobs.len()).then_some(runs)
    })
}

fn row(
    plan: &ReplayedPlan,
    runs: &[&ReplayRun],
    was: &ReplayFigures,
    recorded: &[ReplayFigures],
    past: &PastRequests,
) -> ReplayRow {
    let little_known = if plan.as_it_was { Vec::new() } else { asked_too_often(runs, past) };
    if !little_known.is_empty() {
        return ReplayRow::without_figures(plan, little_known);
    }
    let figures: ReplayFigures =
        std::array::from_fn(|figure| runs.iter().map(|run| run.figures[figure]).sum::<f64>() / runs.len() as f64);
    let resampled = || runs.iter().flat_map(|run| &run.resampled);
    let answers: f64 = runs.iter().map(|run| run.answers).sum();
    let share = |of: fn(&ReplayRun) -> f64| runs.iter().map(|run| of(run)).sum::<f64>() / answers;
    ReplayRow {
        name: plan.name.clone(),
        figures,
        intervals: std::array::from_fn(|figure| Interval::of(resampled().map(|(_, all)| all[figure]))),
        changes: std::array::from_fn(|figure| FIGURES[figure].change(was[figure], figures[figure])),
        change_intervals: std::array::from_fn(|figure| {
            let change =
                |(number, all): &(usize, ReplayFigures)| FIGURES[figure].change(recorded[*number][figure], all[figure]);
            Interval::of(resampled().map(change))
        }),
        seen: share(|run| run.seen),
        assumed: share(|run| run.assumed),
        little_known,
    }
}

/// Upstreams of which too little is known for how often these runs ask them.
fn asked_too_often(runs: &[&ReplayRun], past: &PastRequests) -> Vec<String> {
    let requests: f64 = runs.iter().map(|run| run.requests).sum();
    let share = |upstream: usize| runs.iter().map(|run| run.asked[upstream]).sum::<f64>() / requests.max(1.0);
    let often = |upstream: &usize| past.is_little_known(*upstream) && share(*upstream) > LITTLE_KNOWN_MOST;
    (0..past.upstreams().len()).filter(often).map(|upstream| past.upstreams()[upstream].name.clone()).collect()
}

fn counted(past: &PastRequests, warm_up: usize) -> impl Iterator<Item = usize> {
    (warm_up..past.requests()).filter(|request| past.requests[*request].was.counts)
}

fn block(past: &PastRequests, request: usize, block_us: i64) -> usize {
    let first_us = past.requests.first().map_or(0, |first| first.at_us);
    ((past.requests[request].at_us - first_us) / block_us) as usize
}

/// Those that hold a request that counts.
fn blocks_used(past: &PastRequests, warm_up: usize, block_us: i64) -> Vec<usize> {
    let mut used: Vec<usize> = counted(past, warm_up).map(|request| block(past, request, block_us)).collect();
    used.sort_unstable();
    used.dedup();
    used
}

fn was(past: &PastRequests, request: usize, block: usize) -> PlayedRequest {
    let was = &past.requests[request].was;
    PlayedRequest {
        block,
        ttft_us: was.ttft_us,
        took_us: was.took_us,
        answered: was.answered,
        cost: was.cost,
        attempts: f64::from(was.attempts),
    }
}

/// Of streamed requests to the first token, of all to the end of the answer, in microseconds; money or tokens, all
/// together; attempts for each request; the share without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayFigure {
    TtftP50,
    TtftP95,
    TtftP99,
    WholeP50,
    WholeP95,
    Cost,
    Attempts,
    Unanswered,
}

/// Every one, in the order of a table.
pub const FIGURES: [ReplayFigure; 8] = [
    ReplayFigure::TtftP50,
    ReplayFigure::TtftP95,
    ReplayFigure::TtftP99,
    ReplayFigure::WholeP50,
    ReplayFigure::WholeP95,
    ReplayFigure::Cost,
    ReplayFigure::Attempts,
    ReplayFigure::Unanswered,
];

/// In the order of [`FIGURES`]; NaN if there is no request to compute it from.
pub type ReplayFigures = [f64; FIGURES.len()];

/// Where a figure lies with a probability of 90 %, as far as draws and the choice of hours go.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

/// A request as it went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PlayedRequest {
    /// The stretch of time that it is resampled with.
    pub block: usize,
    pub ttft_us: Option<i64>,
    pub took_us: Option<i64>,
    pub answered: bool,
    pub cost: f64,
    pub attempts: f64,
}

/// Many of them, ready to be weighed.
#[derive(Debug)]
pub(super) struct PlayedRequests {
    /// Sorted, each with its block.
    ttft: Vec<(i64, u32)>,
    took: Vec<(i64, u32)>,
    blocks: Vec<HourBlock>,
}

#[derive(Clone, Copy, Debug, Default)]
struct HourBlock {
    requests: f64,
    unanswered: f64,
    cost: f64,
    attempts: f64,
}

impl ReplayFigure {
    /// The name in JSON, with its unit.
    pub fn name(self) -> &'static str {
        match self {
            ReplayFigure::TtftP50 => "ttft_p50_ms",
            ReplayFigure::TtftP95 => "ttft_p95_ms",
            ReplayFigure::TtftP99 => "ttft_p99_ms",
            ReplayFigure::WholeP50 => "whole_p50_ms",
            ReplayFigure::WholeP95 => "whole_p95_ms",
            ReplayFigure::Cost => "cost",
            ReplayFigure::Attempts => "attempts_per_request",
            ReplayFigure::Unanswered => "unanswered",
        }
    }

    /// The share of requests that a quantile leaves out, at its far end.
    pub fn beyond(self) -> Option<f64> {
        match self {
            ReplayFigure::TtftP50 | ReplayFigure::WholeP50 => Some(0.5),
            ReplayFigure::TtftP95 | ReplayFigure::WholeP95 => Some(0.05),
            ReplayFigure::TtftP99 => Some(0.01),
            ReplayFigure::Cost | ReplayFigure::Attempts | ReplayFigure::Unanswered => None,
        }
    }

    /// Whether its differences are shares of what was recorded.
    pub fn is_relative(self) -> bool {
        !matches!(self, ReplayFigure::Attempts | ReplayFigure::Unanswered)
    }

    /// From what was to what would be.
    pub fn change(self, was: f64, would_be: f64) -> f64 {
        if self.is_relative() { would_be / was - 1.0 } else { would_be - was }
    }
}

impl Interval {
    /// Of values drawn again and again; those that are none left out.
    pub(super) fn of(values: impl Iterator<Item = f64>) -> Interval {
        let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        values.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| values.get((share * values.len() as f64) as usize).copied().unwrap_or(f64::NAN);
        Interval { low: at(0.05), high: at(0.95) }
    }
}

impl PlayedRequests {
    pub(super) fn new(all: impl Iterator<Item = PlayedRequest>, blocks: usize) -> PlayedRequests {
        let mut played =
            PlayedRequests { ttft: Vec::new(), took: Vec::new(), blocks: vec![HourBlock::default(); blocks] };
        for went in all {
            let (block, number) = (&mut played.blocks[went.block], went.block as u32);
            block.requests += 1.0;
            block.unanswered += f64::from(u8::from(!went.answered));
            block.cost += went.cost;
            block.attempts += went.attempts;
            played.ttft.extend(went.ttft_us.map(|ttft_us| (ttft_us, number)));
            played.took.extend(went.took_us.map(|took_us| (took_us, number)));
        }
        played.ttft.sort_unstable();
        played.took.sort_unstable();
        played
    }

    /// With each block counted so often.
    pub(super) fn figures(&self, times: &[f64]) -> ReplayFigures {
        let sum = |of: fn(&HourBlock) -> f64| {
            self.blocks.iter().zip(times).map(|(block, times)| of(block) * times).sum::<f64>()
        };
        let requests = sum(|block| block.requests);
        let all: f64 = self.blocks.iter().map(|block| block.requests).sum();
        let [ttft_p50, ttft_p95, ttft_p99] = quantiles(&self.ttft, times, [0.5, 0.95, 0.99]);
        let [took_p50, took_p95] = quantiles(&self.took, times, [0.5, 0.95]);
        // By the request, so that a resample with more requests does not look dearer.
        let cost = sum(|block| block.cost) / requests * all;
        let attempts = sum(|block| block.attempts) / requests;
        [ttft_p50, ttft_p95, ttft_p99, took_p50, took_p95, cost, attempts, sum(|block| block.unanswered) / requests]
    }
}

/// The least value that at least the share lies at or below.
fn quantiles<const N: usize>(sorted: &[(i64, u32)], times: &[f64], shares: [f64; N]) -> [f64; N] {
    let weight = |block: u32| times.get(block as usize).copied().unwrap_or(0.0);
    let whole: f64 = sorted.iter().map(|(_, block)| weight(*block)).sum();
    let (mut found, mut sum, mut next) = ([f64::NAN; N], 0.0, 0);
    for (value, block) in sorted {
        sum += weight(*block);
        while next < N && sum > 0.0 && sum >= shares[next] * whole - 1e-9 {
            found[next] = *value as f64;
            next += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn went(block: usize, ttft_us: i64) -> PlayedRequest {
        let took_us = Some(2 * ttft_us);
        PlayedRequest { block, ttft_us: Some(ttft_us), took_us, answered: true, cost: 1.0, attempts: 2.0 }
    }

    #[test]
    fn figures_by_the_weight_of_blocks() {
        let unanswered = PlayedRequest { ttft_us: None, took_us: None, answered: false, ..went(1, 0) };
        let all = (1..=100).map(|n| went(usize::from(n > 50), n)).chain([unanswered]);
        let played = PlayedRequests::new(all, 2);
        let figures = played.figures(&[1.0, 1.0]);
        assert_eq!(figures[..7], [50.0, 95.0, 99.0, 100.0, 190.0, 101.0, 2.0]);
        assert!((figures[7] - 1.0 / 101.0).abs() < 1e-12);
        assert_eq!(played.figures(&[1.0, 0.0])[..3], [25.0, 48.0, 50.0]);
        assert_eq!(played.figures(&[0.0, 3.0])[0], 75.0);
        let nothing = PlayedRequests::new(std::iter::empty(), 1).figures(&[1.0]);
        assert!(nothing.iter().all(|figure| figure.is_nan()), "{nothing:?}");
    }

    #[test]
    fn changes_and_intervals() {
        assert_eq!(ReplayFigure::TtftP50.change(200.0, 150.0), -0.25);
        assert_eq!(ReplayFigure::Attempts.change(3.0, 1.0), -2.0);
        let interval = Interval::of((0..100).map(f64::from).chain([f64::NAN]));
        assert_eq!((interval.low, interval.high), (5.0, 95.0));
    }
}
