//! A plan: which candidates are started, and when. Every policy is one way to make the same kind of list.

use std::cmp::Ordering;
use std::time::Duration;

use crate::config::{Policy, RaceSettings};

/// An ordered list of candidates; the race has no modes beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub entries: Vec<Entry>,
    /// Attempts that may be started, retries included.
    pub max_attempts: usize,
    /// From the request until a winner must be there.
    pub total: Duration,
    /// A plan that learns: so long after the race began, and then as its answers say, it is asked what to start next. None:
    /// never.
    pub ask_after: Option<Duration>,
}

/// One candidate of a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// Index into the list that the plan was made of.
    pub candidate: usize,
    pub start: Start,
    /// From its own start to its first token.
    pub first_token: Duration,
    /// Probability with which this candidate stands where it stands.
    pub p_include: f64,
}

/// When a candidate is started. A failure starts the next one at once, whatever it was waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// So long after the race began: all zero is a race, a delay is a hedge.
    At(Duration),
    AfterFailure,
}

/// What a plan needs to know of an upstream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Runner {
    /// For `weighted`.
    pub weight: f64,
    pub first_token: Duration,
    /// Only on trial: behind all others, and never in the place of one of them.
    pub extra: bool,
}

/// Makes the plan. Extras stand at the end of `runners`. `draw`, in 0..1, decides for `weighted`.
pub fn plan(settings: &RaceSettings, runners: &[Runner], draw: f64) -> Plan {
    let regular = &runners[..runners.partition_point(|runner| !runner.extra)];
    let mut order: Vec<usize> = (0..runners.len()).collect();
    let mut drawn_first = None;
    if settings.policy == Policy::Weighted {
        let total: f64 = regular.iter().map(|runner| runner.weight).sum();
        let first = drawn(regular, draw * total);
        drawn_first = Some(first);
        order.retain(|candidate| *candidate != first);
        order.insert(0, first.min(order.len()));
    }
    order.truncate(runners.len());
    let entry = |(position, candidate): (usize, &usize)| Entry {
        candidate: *candidate,
        start: match (settings.policy, position) {
            (Policy::Race, _) | (_, 0) => Start::At(Duration::ZERO),
            (Policy::Hedge, _) => {
                Start::At(settings.hedge_after.saturating_mul(u32::try_from(position).unwrap_or(u32::MAX)))
            }
            (Policy::Fallback | Policy::Weighted, _) => Start::AfterFailure,
        },
        first_token: runners[*candidate].first_token,
        p_include: drawn_first
            .filter(|_| *candidate < regular.len())
            .map_or(1.0, |first| p_here(regular, *candidate, first)),
    };
    let entries = order.iter().enumerate().map(entry).collect();
    Plan { entries, max_attempts: settings.max_attempts, total: settings.timeouts.total, ask_after: None }
}

/// With what probability a draw puts this candidate where it stands now that `first` was drawn: the others keep their order
/// behind it, so it stands one later for each draw from behind it.
fn p_here(runners: &[Runner], candidate: usize, first: usize) -> f64 {
    let total: f64 = runners.iter().map(|runner| runner.weight).sum();
    if total <= 0.0 {
        return 1.0;
    }
    let as_now = |other: usize| match first.cmp(&candidate) {
        Ordering::Equal => other == candidate,
        Ordering::Greater => other > candidate,
        Ordering::Less => other < candidate,
    };
    let draws = runners.iter().enumerate().filter(|(other, _)| as_now(*other));
    draws.map(|(_, runner)| runner.weight).sum::<f64>() / total
}

/// The runner in whose share of the summed weights `point` lies.
fn drawn(runners: &[Runner], point: f64) -> usize {
    let mut sum = 0.0;
    let by_share = runners.iter().position(|runner| {
        sum += runner.weight;
        point < sum
    });
    by_share.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Timeouts;

    const SECOND: Duration = Duration::from_secs(1);

    fn settings(policy: Policy) -> RaceSettings {
        let timeouts = Timeouts { connect: SECOND, first_token: SECOND * 30, idle: SECOND * 30, total: SECOND * 600 };
        let drains = crate::config::Drains { time: SECOND, bytes: 1, running: 0 };
        let breaker = crate::config::Breaker { failures: 0, open: SECOND, open_max: SECOND };
        RaceSettings { policy, hedge_after: SECOND, max_attempts: 4, audit: 0.0, drains, breaker, timeouts }
    }

    fn starts(policy: Policy, weights: &[f64], draw: f64) -> Vec<(usize, Start)> {
        let runners: Vec<Runner> =
            weights.iter().map(|weight| Runner { weight: *weight, first_token: SECOND, extra: false }).collect();
        plan(&settings(policy), &runners, draw).entries.iter().map(|entry| (entry.candidate, entry.start)).collect()
    }

    #[test]
    fn each_policy_is_a_list_of_starts() {
        let now = Start::At(Duration::ZERO);
        let later = |seconds| Start::At(SECOND * seconds);
        let after = Start::AfterFailure;
        assert_eq!(starts(Policy::Race, &[1.0; 3], 0.0), [(0, now), (1, now), (2, now)]);
        assert_eq!(starts(Policy::Hedge, &[1.0; 3], 0.0), [(0, now), (1, later(1)), (2, later(2))]);
        assert_eq!(starts(Policy::Fallback, &[1.0; 3], 0.0), [(0, now), (1, after), (2, after)]);
        assert_eq!(starts(Policy::Weighted, &[1.0, 3.0, 0.0], 0.2), [(0, now), (1, after), (2, after)]);
        assert_eq!(starts(Policy::Weighted, &[1.0, 3.0, 0.0], 0.3), [(1, now), (0, after), (2, after)]);
        assert_eq!(starts(Policy::Weighted, &[0.0, 0.0], 0.9), [(0, now), (1, after)], "all weights gone: as listed");
        assert_eq!(starts(Policy::Race, &[], 0.0), []);
        assert_eq!(starts(Policy::Weighted, &[], 0.0), []);
    }

    #[test]
    fn the_probability_of_each_place_is_recorded() {
        let p_include = |policy, draw| -> Vec<(usize, f64)> {
            let runner = |weight| Runner { weight, first_token: SECOND, extra: false };
            let plan = plan(&settings(policy), &[1.0, 5.0, 2.0].map(runner), draw);
            plan.entries.iter().map(|entry| (entry.candidate, entry.p_include)).collect()
        };
        for policy in [Policy::Race, Policy::Hedge, Policy::Fallback] {
            assert_eq!(p_include(policy, 0.9), [(0, 1.0), (1, 1.0), (2, 1.0)]);
        }
        assert_eq!(p_include(Policy::Weighted, 0.0), [(0, 0.125), (1, 0.125), (2, 0.75)]);
        assert_eq!(p_include(Policy::Weighted, 0.5), [(1, 0.625), (0, 0.875), (2, 0.75)]);
        assert_eq!(p_include(Policy::Weighted, 0.9), [(2, 0.25), (0, 0.875), (1, 0.25)]);
    }

    #[test]
    fn an_extra_stands_behind_the_others_under_every_policy() {
        let runner = |weight, extra| Runner { weight, first_token: SECOND, extra };
        let runners = [runner(1.0, false), runner(3.0, false), runner(96.0, true)];
        for (policy, order, start) in [
            (Policy::Race, [0, 1, 2], Start::At(Duration::ZERO)),
            (Policy::Hedge, [0, 1, 2], Start::At(SECOND * 2)),
            (Policy::Fallback, [0, 1, 2], Start::AfterFailure),
            (Policy::Weighted, [1, 0, 2], Start::AfterFailure),
        ] {
            let plan = plan(&settings(policy), &runners, 0.9);
            let last = plan.entries[2];
            assert_eq!(plan.entries.iter().map(|entry| entry.candidate).collect::<Vec<_>>(), order);
            assert_eq!((last.start, last.p_include), (start, 1.0), "{policy:?}");
            let p_first = if policy == Policy::Weighted { 0.75 } else { 1.0 };
            assert_eq!(plan.entries[0].p_include, p_first, "its weight does not count: {policy:?}");
        }
    }
}
