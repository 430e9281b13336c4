//! The value of each candidate: its survival over the grid, and its cost under an aim. Not for choosing.

use super::question::{AdaptiveQuestion, CANDIDATES_MAX, CandidateForecast, CandidateOrder, Minimise};
use crate::forecast::grid::{self, GridRow, TIMES, grid};
use crate::forecast::{LatencyForecast, SendConditions};

/// The least that a break costs its client, µs: somebody has to see it and ask again.
const BREAK_US: f64 = 30e6;
/// Weight of a missed target, in tracked p99s.
const MISSED: f64 = 10.0;
/// Weight of the mean next to the target, to separate candidates that both miss or both meet it.
const MEAN_SHARE: f32 = 0.05;
/// The tail: what exceeding each multiple of the tracked p99 weighs, in p99s.
const TAIL: [(f64, f64); 5] = [(0.9, 3.0), (1.1, 4.5), (1.3, 4.5), (1.7, 3.0), (2.6, 3.0)];

/// Cost of survival at each time, µs; decisions minimise the sum.
pub struct SurvivalWeights(pub GridRow);

/// One attempt, begun or thought of.
#[derive(Clone, Copy)]
pub struct AttemptForecast {
    /// Probability of no first token yet.
    pub alive: GridRow,
    /// Probability that what the aim wants is not reached: the first token, the whole answer, or a token in time and enough
    /// speed behind it.
    pub missing: GridRow,
    /// Probability that it is never reached because decoding is too slow.
    pub slow: f32,
}

impl SurvivalWeights {
    pub fn new(question: &AdaptiveQuestion<'_>) -> SurvivalWeights {
        let widths = &grid().widths;
        let p99_us = question.p99_us.max(1000.0);
        let elapsed_us = question.elapsed_us.max(0) as f64;
        match question.aim {
            Minimise::Completion => SurvivalWeights(*widths),
            Minimise::Ttft | Minimise::Both { .. } => {
                let mut weights = SurvivalWeights(*widths);
                for (multiple, weight) in TAIL {
                    weights.step(multiple * p99_us - elapsed_us, weight * p99_us);
                }
                weights
            }
            Minimise::Goodput { ttft_us, .. } => {
                let mut weights = SurvivalWeights(widths.map(|width| width * MEAN_SHARE));
                weights.step(ttft_us as f64 - elapsed_us, MISSED * p99_us);
                weights
            }
        }
    }

    /// Without a hedge the mean decides: the share of stragglers of each upstream is hardly known, and would
    /// drive requests from one to the next.
    pub fn alone(question: &AdaptiveQuestion<'_>) -> SurvivalWeights {
        match question.aim {
            Minimise::Ttft | Minimise::Both { .. } | Minimise::Completion => SurvivalWeights(grid().widths),
            Minimise::Goodput { .. } => SurvivalWeights::new(question),
        }
    }

    /// Cost of this survival, µs.
    pub fn cost(&self, missing: &GridRow) -> f32 {
        grid::dot(&self.0, missing)
    }

    /// What an answer costs that is not there before `time_us`, µs.
    fn until(&self, time_us: f64) -> f32 {
        let point = grid::position(time_us).clamp(0.0, (TIMES - 1) as f64) as usize;
        self.0[..=point].iter().sum()
    }

    /// What the answers of this candidate that break off cost a client, µs, of one that starts now: the time until then, and all of it
    /// once more.
    pub(crate) fn breaks(&self, question: &AdaptiveQuestion<'_>, candidate: &CandidateForecast<'_>) -> f32 {
        let chance = candidate.forecast.break_chance(question.now);
        let ttft_us = candidate.forecast.ln_ttft(candidate.sent, question.now).exp();
        let whole_us = ttft_us + question.terms.answer_tokens * candidate.tpot_us();
        let so_far_us =
            if question.aim == (Minimise::Both { rest: 1.0 }) { whole_us } else { (ttft_us + whole_us) / 2.0 };
        chance as f32 * self.until((so_far_us + whole_us).max(BREAK_US))
    }

    /// Being beyond `time_us` weighs so much more; a time that has passed weighs nothing, for nothing mends it.
    fn step(&mut self, time_us: f64, weight: f64) {
        let position = grid::position(time_us);
        if time_us <= 0.0 || position > (TIMES - 1) as f64 {
            return;
        }
        let position = position.max(0.0);
        let before = (position as usize).min(TIMES - 2);
        let share = position - before as f64;
        self.0[before] += (weight * (1.0 - share)) as f32;
        self.0[before + 1] += (weight * share) as f32;
    }
}

impl AttemptForecast {
    /// No attempt.
    pub const NONE: AttemptForecast = AttemptForecast { alive: [0.0; TIMES], missing: [0.0; TIMES], slow: 0.0 };

    /// An attempt at this candidate after `waited_us`.
    pub fn new(question: &AdaptiveQuestion<'_>, candidate: &CandidateForecast<'_>, waited_us: i64) -> AttemptForecast {
        let ln_ttft = candidate.forecast.ln_ttft(candidate.sent, question.now);
        let alive = grid::given(&candidate.forecast.survival(ln_ttft), waited_us as f32);
        let tpot = &candidate.forecast.tpot;
        match question.aim {
            Minimise::Ttft => AttemptForecast { alive, missing: alive, slow: 0.0 },
            // The least is common to all, and the tail is one of first tokens.
            Minimise::Both { rest } => {
                let later_us = rest * question.terms.answer_tokens * (candidate.tpot_us() - question.tpot_least_us);
                AttemptForecast { alive, missing: grid::delayed(&alive, later_us as f32), slow: 0.0 }
            }
            Minimise::Completion => {
                let missing = grid::delayed(&alive, (question.terms.answer_tokens * candidate.tpot_us()) as f32);
                AttemptForecast { alive, missing, slow: 0.0 }
            }
            Minimise::Goodput { tpot_us, .. } => {
                let slow = 1.0 - tpot.within(tpot_us as f64, candidate.sent.in_flight) as f32;
                AttemptForecast { alive, missing: alive.map(|alive| slow + (1.0 - slow) * alive), slow }
            }
        }
    }

    /// Both at once: none has a token, none reaches what is wanted.
    pub fn with(&self, other: &AttemptForecast) -> AttemptForecast {
        let both = |one: &GridRow, other: &GridRow| std::array::from_fn(|point| one[point] * other[point]);
        AttemptForecast {
            alive: both(&self.alive, &other.alive),
            missing: both(&self.missing, &other.missing),
            slow: self.slow * other.slow,
        }
    }

    /// What is weighed if it has no token at `from`: the weight of each later time, times the probability that there is
    /// neither a token at `from` nor what is wanted at that time.
    pub fn open_at(&self, weights: &SurvivalWeights, from: Option<usize>) -> GridRow {
        let Some(from) = from else {
            return std::array::from_fn(|point| weights.0[point] * self.missing[point]);
        };
        let (alive, never) = (self.alive[from], self.slow * (1.0 - self.alive[from]));
        let mut open = [0.0; TIMES];
        let later = open.iter_mut().zip(weights.0.iter().zip(&self.missing)).skip(from);
        for (open, (weight, missing)) in later {
            *open = weight * (missing - never).max(0.0).min(alive);
        }
        open
    }
}

/// A candidate of mean price counts as slower by this share of its predicted time. So the cheaper of two equal ones is taken although
/// their predictions differ by chance.
const DEARER: f32 = 0.1;

/// Where the best is slower than usual by this, as a logarithm, and `BUSY` attempts of ours run at each on average, queues make them
/// slow.
const SLOWER: f64 = 0.5;
pub(super) const BUSY: u32 = 3;
/// By this power of its own attempts, and one, an upstream then counts as slower.
const QUEUED: i32 = 8;

/// The value of each candidate alone.
pub(crate) struct CandidateScores {
    /// Weighed time, and a little for its cost.
    pub(crate) value: [f32; CANDIDATES_MAX],
    pub(crate) prospects: [AttemptForecast; CANDIDATES_MAX],
    /// Startable candidates, best first.
    pub(crate) best: CandidateOrder,
    /// All are slow and busy: the shortest queue is the best, and a hedge would make the queues longer.
    pub(crate) queue: bool,
}

impl CandidateScores {
    pub(crate) fn new(question: &AdaptiveQuestion<'_>, weights: &SurvivalWeights) -> CandidateScores {
        let mut scores = CandidateScores {
            value: [f32::INFINITY; CANDIDATES_MAX],
            prospects: [AttemptForecast::NONE; CANDIDATES_MAX],
            best: CandidateOrder::default(),
            queue: false,
        };
        let mut order = [(f32::INFINITY, 0_usize); CANDIDATES_MAX];
        let mut count = 0;
        for (place, candidate) in question.able() {
            let prospect = &mut scores.prospects[place];
            *prospect = AttemptForecast::new(question, candidate, 0);
            let dearer = DEARER * share_of_mean(question, candidate.price);
            scores.value[place] = weights.cost(&prospect.missing) * (1.0 + dearer)
                + (candidate.price * question.us_per_cost) as f32
                + weights.breaks(question, candidate);
            order[count] = (scores.value[place], place);
            count += 1;
        }
        let order = &mut order[..count];
        scores.queue = are_queues(question, order);
        if scores.queue {
            for (value, place) in order.iter_mut() {
                let running = question.candidates[*place].sent.in_flight;
                *value *= (1.0 + running as f32).powi(QUEUED);
                scores.value[*place] = *value;
            }
        }
        order.sort_unstable_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        scores.best = order.iter().map(|(_, place)| *place).collect();
        scores
    }
}

/// Whether our own attempts decide: the best of these is far slower than usual, and many run.
fn are_queues(question: &AdaptiveQuestion<'_>, valued: &[(f32, usize)]) -> bool {
    let running: u32 = valued.iter().map(|(_, place)| question.candidates[*place].sent.in_flight).sum();
    if valued.len() < 2 || f64::from(running) < f64::from(BUSY) * valued.len() as f64 {
        return false;
    }
    let best = valued.iter().min_by(|one, other| one.0.total_cmp(&other.0));
    best.is_some_and(|(_, place)| {
        let CandidateForecast { forecast, sent, .. } = &question.candidates[*place];
        is_far_slower(forecast, *sent, question.now)
    })
}

/// It is far slower than usual.
pub(super) fn is_far_slower(forecast: &LatencyForecast, sent: SendConditions, now: i64) -> bool {
    forecast.slower(sent, now) > SLOWER
}

pub(crate) fn share_of_mean(question: &AdaptiveQuestion<'_>, cost: f64) -> f32 {
    if question.terms.mean_cost > 0.0 { (cost.max(0.0) / question.terms.mean_cost) as f32 } else { 0.0 }
}

/// `first`, then the others in their order.
pub fn order_from(first: usize, question: &AdaptiveQuestion<'_>) -> CandidateOrder {
    std::iter::once(first).chain(order(question).iter().filter(|other| *other != first)).collect()
}

/// The startable candidates, best for the aim first; equal ones by cost, then as listed.
pub fn order(question: &AdaptiveQuestion<'_>) -> CandidateOrder {
    CandidateScores::new(question, &SurvivalWeights::alone(question)).best
}
