//! The decision: whom to start at arrival, and whom at a timer or after a failure, weighing time against money.
//!
//! A hedge to `k` at `a` gains what is still open at `a` and would be met by `k`, and costs `λ · cost / mean cost` with the
//! probability that it is started. Everything is a sum over one grid of times, and only what can be best is looked at: the
//! best few candidates, and a dozen timers around the primary's median.

use super::grid::{self, Row, TIMES, grid};
use super::predict::{Prospect, Weights};
use super::{CANDIDATES_MAX, Candidate, Next, Opening, Picks, Question, Running, Why, rule};

/// Primaries that are tried at arrival.
const PRIMARIES: usize = 3;
/// Hedges that are tried with each.
const HEDGES: usize = 4;
/// Timers of the first look, so many points of the grid apart.
const TIMERS: usize = 7;
const APART: usize = 3;
/// Points before the median at which the first timer stands.
const EARLIER: usize = 2;
/// A hedge that gains this share of what the best moment gains is started now.
const NOW_IS_AS_GOOD: f32 = 0.9;
/// The share of its predicted time that a candidate of mean cost counts for more, so that of two equal ones the cheaper is
/// taken.
const DEARER: f32 = 0.005;
/// An upstream is unknown until so much was seen of it, or so often tried.
const UNKNOWN_SEEN: f64 = 0.5;
const UNKNOWN_LAUNCHES: u64 = 3;
/// Share of the requests that probe, once an upstream was not used for so long, µs.
const PROBES: f64 = 0.01;
const UNUSED_US: i64 = 120_000_000;
/// Asked again no sooner than this, µs, and no sooner than half of what was waited.
const AGAIN_US: i64 = 100_000;

/// At a request's arrival. With no candidate that can be started the answer names the first.
pub fn open(question: &Question<'_>) -> Opening {
    let weights = Weights::new(question);
    let scores = Scores::new(question, &weights);
    let Some(best) = scores.best.first() else {
        return Opening { primary: 0, also: Picks::default(), hedge_at_us: None, hedge: None, why: Why::Alone };
    };
    if !scores.value[best].is_finite() {
        return rule::open(question);
    }
    let unknown: Picks = scores.best.iter().filter(|place| is_unknown(&question.candidates[*place])).collect();
    if !unknown.is_empty() {
        return cold(question, &scores, &unknown);
    }
    let mut chosen = (best, f32::INFINITY, None);
    for primary in scores.best.iter().take(PRIMARIES) {
        let prospect = Prospect::new(question, &question.candidates[primary], 0);
        let running = [Running { candidate: primary, waited_us: 0 }];
        let hedge = best_hedge(question, &weights, &scores, &prospect, &running);
        let total = scores.value[primary] - hedge.map_or(0.0, |hedge| hedge.gain);
        if total < chosen.1 {
            chosen = (primary, total, hedge);
        }
    }
    let (primary, _, hedge) = chosen;
    opening(question, primary, hedge)
}

/// At a timer, or after a failure. With none running it names the best that is left.
pub fn next(question: &Question<'_>, running: &[Running]) -> (Next, Why) {
    let weights = Weights::new(question);
    let scores = Scores::new(question, &weights);
    let mut waiting = running.iter().filter_map(|running| {
        let candidate = question.candidates.get(running.candidate)?;
        Some(Prospect::new(question, candidate, running.waited_us))
    });
    let Some(first) = waiting.next() else {
        return scores.best.first().map_or((Next::Never, Why::Alone), |best| (Next::Start(best), Why::Best));
    };
    if running.len() >= question.max_running {
        return (Next::Never, Why::Best);
    }
    let all = waiting.fold(first, |all, other| all.with(&other));
    let later = Next::AskAgain { after_us: (question.elapsed_us / 2).max(AGAIN_US) };
    match best_hedge(question, &weights, &scores, &all, running) {
        Some(hedge) if !affordable(question, hedge.candidate) => (later, Why::Budget),
        Some(Hedge { candidate, from: None, .. }) => (Next::Start(candidate), Why::Hedged),
        Some(hedge) => (Next::AskAgain { after_us: hedge.after_us() }, Why::Hedge),
        None => match why_alone(question, running) {
            Why::Best => (later, Why::Best),
            why => (Next::Never, why),
        },
    }
}

/// A hedge that pays.
#[derive(Clone, Copy)]
struct Hedge {
    candidate: usize,
    /// The point of the grid at which it is started; none: now.
    from: Option<usize>,
    /// µs of weighed time, its cost taken off.
    gain: f32,
}

impl Hedge {
    fn after_us(&self) -> i64 {
        self.from.map_or(1, |from| grid().times[from] as i64)
    }
}

/// What each candidate is worth alone.
pub(super) struct Scores {
    /// Weighed time, and a little for its cost.
    value: [f32; CANDIDATES_MAX],
    /// Those that can be started, the best first.
    pub(super) best: Picks,
}

impl Scores {
    pub(super) fn new(question: &Question<'_>, weights: &Weights) -> Scores {
        let mut value = [f32::INFINITY; CANDIDATES_MAX];
        let mut order = [(f32::INFINITY, 0_usize); CANDIDATES_MAX];
        let mut count = 0;
        for (place, candidate) in question.able() {
            let prospect = Prospect::new(question, candidate, 0);
            let dearer = DEARER * share_of_mean(question, candidate);
            value[place] = weights.cost(&prospect.missing) * (1.0 + dearer);
            order[count] = (value[place], place);
            count += 1;
        }
        let order = &mut order[..count];
        order.sort_unstable_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        Scores { value, best: order.iter().map(|(_, place)| *place).collect() }
    }
}

/// The hedge that gains most beside `all`, which runs as `running`; none if none is worth its cost.
fn best_hedge(
    question: &Question<'_>,
    weights: &Weights,
    scores: &Scores,
    all: &Prospect,
    running: &[Running],
) -> Option<Hedge> {
    let median = all.alive.partition_point(|alive| *alive > 0.5);
    let first = median.saturating_sub(EARLIER);
    let mut best: Option<Hedge> = None;
    let mut now: Option<Hedge> = None;
    let may = beside(question, scores, running);
    for candidate in may.iter().take(HEDGES) {
        let other = &question.candidates[candidate];
        let missing = Prospect::new(question, other, 0).missing;
        let price = question.terms.lambda_us as f32 * share_of_mean(question, other);
        let gain = |from: Option<usize>| Hedge { candidate, from, gain: gain(weights, all, &missing, from, price) };
        let timers = (0..TIMERS).map(|timer| first + timer * APART).filter(|from| *from < TIMES);
        let at_once = gain(None);
        let coarse = timers.map(|from| gain(Some(from))).fold(at_once, better);
        let found = match coarse.from {
            Some(from) => [from.saturating_sub(1), from + 1]
                .into_iter()
                .filter(|from| *from < TIMES)
                .map(|from| gain(Some(from)))
                .fold(coarse, better),
            None => coarse,
        };
        best = Some(best.map_or(found, |best| better(best, found)));
        now = Some(now.map_or(at_once, |now| better(now, at_once)));
    }
    let best = best.filter(|best| best.gain > 0.0)?;
    now.filter(|now| now.gain >= best.gain * NOW_IS_AS_GOOD).or(Some(best))
}

/// What a hedge gains, less its price where it is started.
fn gain(weights: &Weights, all: &Prospect, missing: &Row, from: Option<usize>, price: f32) -> f32 {
    let open = all.open_at(weights, from);
    let (start, shifted) = from.map_or((0, *missing), |from| (from, grid::later(missing, from)));
    let met: f32 = open[start..].iter().zip(&shifted[start..]).map(|(open, missing)| open * (1.0 - missing)).sum();
    met - price * from.map_or(1.0, |from| all.alive[from])
}

fn better(one: Hedge, other: Hedge) -> Hedge {
    if other.gain > one.gain { other } else { one }
}

/// Those that may be started beside what runs, the best first.
fn beside(question: &Question<'_>, scores: &Scores, running: &[Running]) -> Picks {
    let may: Picks = question.beside(running).map(|(place, _)| place).collect();
    scores.best.iter().filter(|place| may.contains(*place)).collect()
}

fn opening(question: &Question<'_>, primary: usize, hedge: Option<Hedge>) -> Opening {
    let alone = Opening { primary, also: Picks::default(), hedge_at_us: None, hedge: None, why: Why::Best };
    let running = [Running { candidate: primary, waited_us: 0 }];
    if question.max_running < 2 {
        return alone;
    }
    let Some(hedge) = hedge else {
        return Opening { why: why_alone(question, &running), ..alone };
    };
    let affordable = affordable(question, hedge.candidate);
    let also = probe(question, &running).into_iter().collect::<Picks>();
    let why = match (affordable, also.is_empty()) {
        (false, _) => Why::Budget,
        (true, false) => Why::Probe,
        (true, true) => Why::Hedge,
    };
    let hedge_at_us = Some(if affordable { hedge.after_us() } else { hedge.after_us().max(AGAIN_US) });
    Opening { primary, also, hedge_at_us, hedge: affordable.then_some(hedge.candidate), why }
}

/// Nobody knows some of them yet: they are tried beside the best, as many as may run and the bucket holds.
fn cold(question: &Question<'_>, scores: &Scores, unknown: &Picks) -> Opening {
    let primary = scores.best.first().unwrap_or(0);
    let mut also = Picks::default();
    let mut left = question.terms.bucket;
    let running = [Running { candidate: primary, waited_us: 0 }];
    for place in beside(question, scores, &running).iter().filter(|place| unknown.contains(*place)) {
        let cost = question.candidates[place].cost;
        if also.len() + 1 < question.max_running && cost <= left {
            also.push(place);
            left -= cost;
        }
    }
    let weights = Weights::new(question);
    let prospect = Prospect::new(question, &question.candidates[primary], 0);
    let hedge = best_hedge(question, &weights, scores, &prospect, &running);
    Opening { also, why: Why::Cold, ..opening(question, primary, hedge) }
}

fn is_unknown(candidate: &Candidate<'_>) -> bool {
    candidate.outlook.seen() < UNKNOWN_SEEN && candidate.outlook.launches() < UNKNOWN_LAUNCHES
}

/// Now and then one that nobody used for long, while the bucket is at least half full.
fn probe(question: &Question<'_>, running: &[Running]) -> Option<usize> {
    if question.draw >= PROBES || question.terms.bucket < question.terms.capacity / 2.0 {
        return None;
    }
    let unused = |candidate: &Candidate<'_>| {
        candidate.outlook.last_us().is_none_or(|last| question.now.saturating_sub(last) > UNUSED_US)
    };
    let may = question.beside(running).filter(|(place, candidate)| unused(candidate) && affordable(question, *place));
    may.min_by_key(|(_, candidate)| candidate.outlook.last_us()).map(|(place, _)| place)
}

fn affordable(question: &Question<'_>, place: usize) -> bool {
    question.candidates[place].cost <= question.terms.bucket.max(0.0)
}

/// Why there is no hedge.
fn why_alone(question: &Question<'_>, running: &[Running]) -> Why {
    if question.beside(running).next().is_some() {
        return Why::Best;
    }
    let others = || question.able().filter(|(place, _)| running.iter().all(|running| running.candidate != *place));
    if others().any(|(_, candidate)| candidate.may_hedge && candidate.outlook.throttled()) {
        Why::Throttled
    } else {
        Why::Alone
    }
}

fn share_of_mean(question: &Question<'_>, candidate: &Candidate<'_>) -> f32 {
    if question.terms.mean_cost > 0.0 { (candidate.cost.max(0.0) / question.terms.mean_cost) as f32 } else { 0.0 }
}
