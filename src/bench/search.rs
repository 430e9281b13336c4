//! The highest rate at which a share of requests meets every target at once: DistServe's goodput (2024), as a search with a
//! statistical decision for each rate. Pure.
//!
//! A trial passes when the 95 % interval of its attainment lies above the wanted share, and fails when it lies below. A
//! backlog that grows fails at once: such a rate has no steady state, and a longer trial would only show more of it.

use serde::{Deserialize, Serialize};

use super::measured::{MeasuredRequest, RequestEnd};
use super::slo::{LoadSlo, SloTarget};
use super::statistics::{effective_samples, share_estimate, slope};

/// Requests of a trial at most; then it is undecided.
pub const TRIAL_MAX: usize = 2_000;
/// Judged requests before a trial is decided.
const TRIAL_LEAST: usize = 40;
/// A trial's first requests, which find an empty server, are left out: this share.
const EMPTY_SHARE: f64 = 0.2;
/// Trials of one search at most.
const TRIALS_MAX: usize = 30;
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
    /// Why it was left out of the search; empty if it counts.
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
        self.beside_all().filter(|rate| (RATES.0..=RATES.1).contains(rate))
    }

    /// A rate in the middle of the widest gap.
    fn beside_all(&self) -> Option<f64> {
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

/// What the requests so far say of this rate; none: go on. `now_us`: since the beginning of the trial. `horizon_us`: a good
/// request takes at most so long, so one that was scheduled earlier and has not ended is missed.
pub fn verdict(
    ended: &[MeasuredRequest],
    scheduled: &[i64],
    now_us: i64,
    horizon_us: i64,
    slo: &LoadSlo,
    attain: f64,
) -> Option<TrialVerdict> {
    let skip = (scheduled.len().min(ended.len()) as f64 * EMPTY_SHARE) as usize;
    let mut good: Vec<(i64, f64)> = Vec::new();
    let mut decided = std::collections::HashSet::new();
    for request in ended.iter().filter(|request| request.end != RequestEnd::CutShort) {
        decided.insert(request.scheduled_us);
        if request.scheduled_us + horizon_us <= now_us {
            good.push((request.scheduled_us, if slo.missed(request).is_empty() { 1.0 } else { 0.0 }));
        }
    }
    let late = scheduled.iter().filter(|at| **at + horizon_us <= now_us && !decided.contains(at));
    good.extend(late.map(|at| (*at, 0.0)));
    good.sort_by_key(|(at, _)| *at);
    let series: Vec<f64> = good.iter().skip(skip).map(|(_, good)| *good).collect();
    if series.len() < TRIAL_LEAST {
        return None;
    }
    if grows(ended, scheduled, now_us) {
        return Some(TrialVerdict::Fail);
    }
    let share = series.iter().sum::<f64>() / series.len() as f64;
    let estimate = share_estimate(share, effective_samples(&series));
    if estimate.low.is_some_and(|low| low > attain) {
        return Some(TrialVerdict::Pass);
    }
    if estimate.high.is_some_and(|high| high < attain) {
        return Some(TrialVerdict::Fail);
    }
    (series.len() + skip >= TRIAL_MAX).then_some(TrialVerdict::Undecided)
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
mod tests {
    use super::*;
    use crate::bench::arrivals::Arrivals;
    use std::time::Duration;

    fn trial(rate: f64, verdict: TrialVerdict) -> RateTrial {
        RateTrial { rate, verdict, requests: 0, attainment: 0.0, missed: None, doubts: Vec::new() }
    }

    fn search(truth: f64, start: f64) -> FoundRate {
        let mut search = RateSearch::new("a/m", 0.9, start, 0.1);
        while let Some(rate) = search.next() {
            search.take(trial(rate, if rate <= truth { TrialVerdict::Pass } else { TrialVerdict::Fail }));
        }
        search.found()
    }

    #[test]
    fn the_true_rate_lies_between_what_passes_and_what_fails() {
        for (truth, start) in [(7.3, 1.0), (0.02, 5.0), (900.0, 0.3), (1.0, 1.0)] {
            let found = search(truth, start);
            let (low, high) = (found.passes.unwrap(), found.fails.unwrap());
            assert!(low <= truth && truth < high && high / low <= 1.1 + 1e-9, "{truth}: {found:?}");
        }
    }

    /// Rates within this share of the truth cannot be decided.
    fn search_with_doubt(truth: f64, start: f64, doubt: f64) -> FoundRate {
        let mut search = RateSearch::new("a/m", 0.9, start, 0.1);
        while let Some(rate) = search.next() {
            let verdict = match rate / truth {
                off if off < 1.0 - doubt => TrialVerdict::Pass,
                off if off > 1.0 + doubt => TrialVerdict::Fail,
                _ => TrialVerdict::Undecided,
            };
            search.take(trial(rate, verdict));
        }
        search.found()
    }

    #[test]
    fn rates_that_cannot_be_decided_are_narrowed_from_both_sides() {
        // The first undecided rate comes before one passes, before one fails, and between both.
        for (truth, start) in [(10.0, 10.0), (10.0, 10.3), (10.0, 2.5), (10.0, 41.0), (10.0, 2.9), (10.0, 1.7)] {
            let found = search_with_doubt(truth, start, 0.04);
            let (low, high) = (found.passes.unwrap(), found.fails.unwrap());
            assert!(low < truth && truth < high && high / low < 1.25, "{start}: {found:?}");
            assert!(((low * high).sqrt() / truth - 1.0).abs() < 0.08 && found.trials.len() <= 13, "{start}: {found:?}");
        }
    }

    #[test]
    fn a_search_that_decides_nothing_ends() {
        let found = search_with_doubt(10.0, 10.0, 0.9);
        assert!(found.trials.len() < TRIALS_MAX, "{found:?}");
        let never = search_with_doubt(1.0, 1.0, f64::INFINITY);
        assert_eq!((never.trials.len(), never.passes, never.fails), (UNDECIDED_MAX, None, None));
    }

    #[test]
    fn a_trial_that_the_client_spoiled_is_repeated_twice() {
        let mut search = RateSearch::new("a/m", 0.9, 1.0, 0.1);
        let spoiled = RateTrial { doubts: vec!["late".to_owned()], ..trial(2.0, TrialVerdict::Undecided) };
        search.take(trial(1.0, TrialVerdict::Pass));
        search.take(spoiled.clone());
        search.take(spoiled.clone());
        assert_eq!(search.next(), Some(2.0));
        search.take(trial(2.0, TrialVerdict::Pass));
        assert_eq!(search.next(), Some(4.0), "the count begins anew");
        (0..3).for_each(|_| search.take(spoiled.clone()));
        assert_eq!(search.next(), None);
        assert_eq!(search.found().passes, Some(2.0));
    }

    /// A server with `slots`, each of which takes `service_us` for an answer whose first token comes at once.
    fn served(times: &[i64], slots: usize, service_us: i64, until_us: i64) -> Vec<MeasuredRequest> {
        let mut free = vec![0_i64; slots];
        let serve = |at: &i64| {
            let slot = (0..slots).min_by_key(|slot| free[*slot]).unwrap();
            let begun = free[slot].max(*at);
            free[slot] = begun + service_us;
            MeasuredRequest {
                scheduled_us: *at,
                sent_us: *at,
                ended_us: begun + service_us,
                end: RequestEnd::Answered,
                ttft_us: Some(begun - at),
                e2e_us: Some(begun + service_us - at),
                ..MeasuredRequest::default()
            }
        };
        times.iter().map(serve).filter(|request| request.ended_us <= until_us).collect()
    }

    fn decided(rate: f64) -> TrialVerdict {
        let slo = LoadSlo { ttft_us: Some(500_000), tpot_us: None, e2e_us: None };
        let times = Arrivals::Poisson.draw(rate, Duration::from_secs(600), TRIAL_MAX, 11);
        for seconds in 1..600 {
            let now = seconds * 1_000_000;
            let ended = served(&times, 4, 1_000_000, now);
            let scheduled = &times[..times.partition_point(|at| *at <= now)];
            if let Some(verdict) = verdict(&ended, scheduled, now, 1_500_000, &slo, 0.9) {
                return verdict;
            }
        }
        TrialVerdict::Undecided
    }

    #[test]
    fn a_queue_passes_below_its_capacity_and_fails_above() {
        // Four slots of one second take 4/s.
        assert_eq!(decided(1.5), TrialVerdict::Pass);
        assert_eq!(decided(3.9), TrialVerdict::Fail);
        assert_eq!(decided(8.0), TrialVerdict::Fail);
    }
}
