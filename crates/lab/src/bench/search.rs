//! The highest rate at which a share of requests meets every target at once: DistServe's goodput (2024), as a search with a
//! statistical decision for each rate. Pure.
//!
//! A trial passes when the 95 % interval of its attainment lies above the wanted share, and fails when it lies below. It is
//! looked at every second; before its end, a decision needs a surer interval and a window of many answers. A backlog that grows
//! fails at once: such a rate has no steady state, and a longer trial would only show more of it.

use serde::{Deserialize, Serialize};

use super::measured::{LoadSlo, MeasuredRequest, RequestEnd, SloTarget};
use super::statistics::{Z, effective_samples, slope, wilson};

/// Requests of a trial at most; then it is undecided.
pub const TRIAL_MAX: usize = 10_000;
/// z of a decision before the end of a trial: 99.9 %, because each second is one more chance to be wrong.
const Z_EARLY: f64 = 3.290_527;
/// A decision before the end needs judged requests over this many times the mean answer. A queue remembers for several answers, so
/// a shorter window may have seen one good spell alone.
const EARLY_ANSWERS: f64 = 20.0;
/// Judged requests before a trial is decided.
const TRIAL_LEAST: usize = 40;
/// A trial's first requests, which find an empty server, are left out: this share, if no warm-up is given.
const EMPTY_SHARE: f64 = 0.2;
/// Trials of one search at most.
pub const TRIALS_MAX: usize = 30;
/// Trials of one rate that the client may spoil before the search ends.
const SPOILED_MAX: usize = 3;
/// Rates that one search may leave undecided.
const UNDECIDED_MAX: usize = 5;
/// Points of the backlog.
const POINTS: usize = 40;
/// A backlog grows if fewer than this share of the arrivals has ended.
const ENDED_LEAST: f64 = 0.98;
/// Rates that are tried, per second.
const RATES: (f64, f64) = (0.001, 100_000.0);

/// What a trial showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialVerdict {
    Pass,
    Fail,
    Undecided,
}

/// One rate that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateTrial {
    pub rate: f64,
    pub verdict: TrialVerdict,
    pub requests: usize,
    pub attainment: f64,
    /// The target that was missed most.
    pub missed: Option<SloTarget>,
    /// Why it was left out of the search. Empty if it counts: the client was not late, or its error could not change the verdict.
    pub doubts: Vec<String>,
}

impl RateTrial {
    /// The client slowed it: it is tried again.
    fn is_spoiled(&self) -> bool {
        !self.doubts.is_empty()
    }
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FoundRate {
    pub target: String,
    pub attain: f64,
    /// The highest rate that passed, per second.
    pub passes: Option<f64>,
    /// The lowest rate that failed.
    pub fails: Option<f64>,
    /// The target that the lowest failing rate missed most.
    pub first_missed: Option<SloTarget>,
    pub trials: Vec<RateTrial>,
}

impl FoundRate {
    /// Why it did not find both a rate that passes and one that fails; none if it did.
    pub fn why_undecided(&self) -> Option<String> {
        let what = match (self.passes, self.fails) {
            (Some(_), Some(_)) => return None,
            (Some(_), None) => "no rate was found that fails",
            (None, Some(_)) => "no rate was found that passes",
            (None, None) => "no rate passes or fails for certain",
        };
        let last = self.trials.last().filter(|trial| trial.is_spoiled());
        let spoiled =
            last.map_or(String::new(), |trial| format!(": the client spoiled the trials: {}", trial.doubts.join("; ")));
        Some(format!("{}: {what}{spoiled}", self.target))
    }

    /// The rates between the passing and the failing one that could not be decided, in order.
    pub fn undecided(&self) -> Vec<f64> {
        let is_between =
            |rate: &f64| self.passes.is_none_or(|low| *rate > low) && self.fails.is_none_or(|high| *rate < high);
        let trials = self.trials.iter();
        let open = trials.filter(|trial| trial.verdict == TrialVerdict::Undecided && !trial.is_spoiled());
        let mut open: Vec<f64> = open.map(|trial| trial.rate).filter(is_between).collect();
        open.sort_by(f64::total_cmp);
        open
    }
}

/// Doubles or halves the rate until one passes and one fails, then bisects between them. Around rates that could not be decided,
/// it narrows from both sides.
#[derive(Debug)]
pub struct RateSearch {
    found: FoundRate,
    start: f64,
    resolution: f64,
}

impl RateSearch {
    /// `start`: the first rate. `resolution`: the search ends when neighbouring rates are at most 1 + this apart.
    pub fn new(target: &str, attain: f64, start: f64, resolution: f64) -> RateSearch {
        let found = FoundRate { target: target.to_owned(), attain, ..FoundRate::default() };
        RateSearch { found, start: start.clamp(RATES.0, RATES.1), resolution }
    }

    /// The next rate to try; none at the end.
    pub fn next(&self) -> Option<f64> {
        let trials = &self.found.trials;
        let spoiled = trials.iter().rev().take_while(|trial| trial.is_spoiled()).count();
        if trials.len() >= TRIALS_MAX || spoiled >= SPOILED_MAX {
            return None;
        }
        if let Some(again) = trials.last().filter(|trial| trial.is_spoiled()) {
            return Some(again.rate);
        }
        self.next_rate().filter(|rate| (RATES.0..=RATES.1).contains(rate))
    }

    /// A rate in the middle of the widest gap.
    fn next_rate(&self) -> Option<f64> {
        let (passes, fails, open) = (self.found.passes, self.found.fails, self.found.undecided());
        if open.len() >= UNDECIDED_MAX {
            return None;
        }
        let (lowest, highest) = (open.first().copied().or(fails), open.last().copied().or(passes));
        let gap = |low: Option<f64>, high: Option<f64>| match (low, high) {
            (Some(low), Some(high)) => Some((high / low, (low * high).sqrt())),
            (Some(low), None) => Some((f64::INFINITY, low * 2.0)),
            (None, Some(high)) => Some((f64::INFINITY, high / 2.0)),
            (None, None) => None,
        };
        let gaps = [gap(passes, lowest), gap(highest, fails)];
        let widest = gaps.into_iter().flatten().max_by(|one, other| one.0.total_cmp(&other.0));
        let Some((ratio, rate)) = widest else { return Some(self.start) };
        (ratio > 1.0 + self.resolution).then_some(rate)
    }

    pub fn take(&mut self, trial: RateTrial) {
        let found = &mut self.found;
        match trial.verdict {
            TrialVerdict::Pass => found.passes = Some(found.passes.map_or(trial.rate, |low| low.max(trial.rate))),
            TrialVerdict::Fail if found.fails.is_none_or(|high| trial.rate < high) => {
                found.fails = Some(trial.rate);
                found.first_missed = trial.missed;
            }
            _ => {}
        }
        found.trials.push(trial);
    }

    pub fn found(self) -> FoundRate {
        self.found
    }
}

/// How a trial is judged.
#[derive(Clone, Copy, Debug)]
pub struct TrialQuestion {
    pub slo: LoadSlo,
    pub attain: f64,
    /// A good request takes at most this time, so one that was scheduled earlier and has not ended is missed.
    pub horizon_us: i64,
    /// None: a share of the first requests is left out.
    pub warm_up_us: Option<i64>,
    /// As if every time had been this much longer.
    pub moved_us: f64,
}

/// What the requests so far say of this rate; none: go on. `now_us`: since the beginning of the trial. `is_over`: no more will
/// come.
pub fn verdict(
    question: &TrialQuestion,
    ended: &[MeasuredRequest],
    scheduled: &[i64],
    now_us: i64,
    is_over: bool,
) -> Option<TrialVerdict> {
    let TrialQuestion { slo, attain, horizon_us, warm_up_us, moved_us } = *question;
    let mut good: Vec<(i64, f64)> = Vec::new();
    let mut decided = std::collections::HashSet::new();
    for request in ended.iter().filter(|request| request.end != RequestEnd::CutShort) {
        decided.insert(request.scheduled_us);
        if request.scheduled_us + horizon_us <= now_us {
            let missed = slo.missed(&request.moved(moved_us));
            good.extend(missed.map(|missed| (request.scheduled_us, if missed.is_empty() { 1.0 } else { 0.0 })));
        }
    }
    let late = scheduled.iter().filter(|at| **at + horizon_us <= now_us && !decided.contains(at));
    good.extend(late.map(|at| (*at, 0.0)));
    good.sort_by_key(|(at, _)| *at);
    let skip = match warm_up_us {
        Some(until) => good.partition_point(|(at, _)| *at < until),
        None => (scheduled.len().min(ended.len()) as f64 * EMPTY_SHARE) as usize,
    };
    let series: Vec<f64> = good.iter().skip(skip).map(|(_, good)| *good).collect();
    if series.len() < TRIAL_LEAST {
        return is_over.then_some(TrialVerdict::Undecided);
    }
    if grows(ended, scheduled, now_us) {
        return Some(TrialVerdict::Fail);
    }
    let judged = &good[skip..];
    if !is_over && !is_long(ended, judged.last().map_or(0, |last| last.0) - judged.first().map_or(0, |first| first.0)) {
        return None;
    }
    let share = |series: &[f64]| series.iter().sum::<f64>() / series.len() as f64;
    let (low, high) = wilson(share(&series), effective_samples(&series), if is_over { Z } else { Z_EARLY });
    // Near its capacity a queue grows slowly: the second half must be good, too.
    if low > attain && share(&series[series.len() / 2..]) > attain {
        return Some(TrialVerdict::Pass);
    }
    if high < attain {
        return Some(TrialVerdict::Fail);
    }
    is_over.then_some(TrialVerdict::Undecided)
}

/// The verdict that holds although the client was late: the same, had it moved every time by its error either way.
pub fn despite(
    error_us: f64,
    question: &TrialQuestion,
    verdict: impl Fn(&TrialQuestion) -> Option<TrialVerdict>,
) -> Option<TrialVerdict> {
    let moved = |moved_us: f64| verdict(&TrialQuestion { moved_us, ..*question });
    let found = moved(0.0).filter(|verdict| *verdict != TrialVerdict::Undecided)?;
    [error_us, -error_us].into_iter().all(|by_us| moved(by_us) == Some(found)).then_some(found)
}

/// Whether a window shows more than one good or bad spell of the server. Where nothing was answered, it does.
fn is_long(ended: &[MeasuredRequest], window_us: i64) -> bool {
    let answers: Vec<i64> = ended.iter().filter_map(|request| request.e2e_us).collect();
    let mean = answers.iter().sum::<i64>() as f64 / answers.len().max(1) as f64;
    window_us as f64 >= EARLY_ANSWERS * mean
}

/// Whether requests pile up over the last half.
fn grows(ended: &[MeasuredRequest], scheduled: &[i64], now_us: i64) -> bool {
    let from = now_us / 2;
    let step = (now_us - from) / POINTS as i64;
    if step == 0 {
        return false;
    }
    let arrived = |at: i64| scheduled.partition_point(|scheduled| *scheduled <= at);
    let mut ends: Vec<i64> = ended.iter().map(|request| request.ended_us).collect();
    ends.sort_unstable();
    let left = |at: i64| ends.partition_point(|ended| *ended <= at);
    let points = (0..POINTS as i64).map(|point| from + point * step);
    let (times, counts): (Vec<f64>, Vec<f64>) =
        points.map(|at| (at as f64 / 1e6, arrived(at) as f64 - left(at) as f64)).unzip();
    let in_half = (arrived(now_us) - arrived(from)) as f64;
    let ended_in_half = (left(now_us) - left(from)) as f64;
    let steep = slope(&times, &counts).and_then(|slope| slope.low).is_some_and(|low| low > 0.0);
    steep && in_half >= TRIAL_LEAST as f64 && ended_in_half < ENDED_LEAST * in_half && {
        // A backlog of a few requests is chance: it must be more than an eighth of what arrived.
        (arrived(now_us) as f64 - left(now_us) as f64) - (arrived(from) as f64 - left(from) as f64) > in_half / 8.0
    }
}

#[cfg(test)]
mod tests;
