//! A plan: which candidates are started, and when. Every policy is one way to make the same kind of list.

use std::cmp::Ordering;
use std::fmt;
use std::time::Duration;

use crate::config::{ContentPolicy, Policy, RaceSettings};

/// Characters of a plan's text.
pub const TEXT_MAX: usize = 512;

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
    /// Who would be started then, as it looks now.
    pub expected: Option<usize>,
    /// What a refusal on policy means.
    pub content_policy: ContentPolicy,
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
    /// It only runs beside others, to see whether it is well: when it fails or is late nobody is started in its place, and it
    /// counts for no other.
    pub trial: bool,
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
    /// Only on trial: beside the others from the beginning, and never in the place of one of them.
    pub extra: bool,
}

/// Makes the plan as it is without anything learned. Extras stand at the end of `runners`. `hedge_after` is the delay that
/// the setting of that name comes to; `draw`, in 0..1, decides for `weighted`. Trials take no places: each may be started beside
/// what `max_attempts` allows.
pub fn plan(settings: &RaceSettings, runners: &[Runner], hedge_after: Duration, draw: f64) -> Plan {
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
            _ if runners[*candidate].extra => Start::At(Duration::ZERO),
            (Policy::Hedge, _) => Start::At(hedge_after.saturating_mul(u32::try_from(position).unwrap_or(u32::MAX))),
            (Policy::Adaptive | Policy::Rule | Policy::Fastest | Policy::Fallback | Policy::Weighted, _) => {
                Start::AfterFailure
            }
        },
        first_token: runners[*candidate].first_token,
        p_include: drawn_first
            .filter(|_| *candidate < regular.len())
            .map_or(1.0, |first| p_here(regular, *candidate, first)),
        trial: runners[*candidate].extra,
    };
    let entries = order.iter().enumerate().map(entry).collect();
    Plan {
        entries,
        max_attempts: settings.max_attempts + runners.len() - regular.len(),
        total: settings.timeouts.total,
        ask_after: None,
        expected: None,
        content_policy: settings.content_policy,
    }
}

impl Plan {
    /// For the race's row, such as `groq/llama@0 cerebras/llama@412ms openrouter/x@failure`: those who may be started, each
    /// with when. `name` tells a candidate's upstream. What would make it longer than [`TEXT_MAX`] is left out, for a `…`.
    pub fn text<'n>(&self, name: impl Fn(usize) -> &'n str) -> String {
        let mut text = String::new();
        for entry in self.entries.iter().take(self.max_attempts) {
            let space = if text.is_empty() { "" } else { " " };
            let asked = self.ask_after.filter(|_| self.expected == Some(entry.candidate));
            let start = asked.map_or(entry.start, Start::At);
            let next = format!("{space}{}@{start}", name(entry.candidate));
            // Room for the sign of what is left out is kept.
            if text.chars().count() + next.chars().count() > TEXT_MAX - 2 {
                return text + space + "…";
            }
            text.push_str(&next);
        }
        text
    }
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Start::At(Duration::ZERO) => f.write_str("0"),
            Start::At(delay) => write!(f, "{}ms", delay.as_millis()),
            Start::AfterFailure => f.write_str("failure"),
        }
    }
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

    const SECOND: Duration = Duration::from_secs(1);

    fn settings(policy: Policy) -> RaceSettings {
        let config = crate::config::parse("", std::path::Path::new("x"), &|_| None).unwrap();
        RaceSettings { policy, ..config.race }
    }

    fn starts(policy: Policy, weights: &[f64], draw: f64) -> Vec<(usize, Start)> {
        let runners: Vec<Runner> =
            weights.iter().map(|weight| Runner { weight: *weight, first_token: SECOND, extra: false }).collect();
        plan(&settings(policy), &runners, SECOND, draw)
            .entries
            .iter()
            .map(|entry| (entry.candidate, entry.start))
            .collect()
    }

    #[test]
    fn each_policy_is_a_list_of_starts() {
        let now = Start::At(Duration::ZERO);
        let later = |seconds| Start::At(SECOND * seconds);
        let after = Start::AfterFailure;
        assert_eq!(starts(Policy::Race, &[1.0; 3], 0.0), [(0, now), (1, now), (2, now)]);
        assert_eq!(starts(Policy::Hedge, &[1.0; 3], 0.0), [(0, now), (1, later(1)), (2, later(2))]);
        for policy in [Policy::Fallback, Policy::Fastest, Policy::Adaptive, Policy::Rule] {
            assert_eq!(starts(policy, &[1.0; 3], 0.9), [(0, now), (1, after), (2, after)], "{policy:?}");
        }
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
            let plan = plan(&settings(policy), &[1.0, 5.0, 2.0].map(runner), SECOND, draw);
            plan.entries.iter().map(|entry| (entry.candidate, entry.p_include)).collect()
        };
        for policy in Policy::ALL.into_iter().filter(|policy| *policy != Policy::Weighted) {
            assert_eq!(p_include(policy, 0.9), [(0, 1.0), (1, 1.0), (2, 1.0)]);
        }
        assert_eq!(p_include(Policy::Weighted, 0.0), [(0, 0.125), (1, 0.125), (2, 0.75)]);
        assert_eq!(p_include(Policy::Weighted, 0.5), [(1, 0.625), (0, 0.875), (2, 0.75)]);
        assert_eq!(p_include(Policy::Weighted, 0.9), [(2, 0.25), (0, 0.875), (1, 0.25)]);
    }

    #[test]
    fn a_trial_runs_beside_the_others_under_every_policy() {
        let runner = |weight, extra| Runner { weight, first_token: SECOND, extra };
        let runners = [runner(1.0, false), runner(3.0, false), runner(96.0, true)];
        for policy in Policy::ALL {
            let order = if policy == Policy::Weighted { [1, 0, 2] } else { [0, 1, 2] };
            let settings = settings(policy);
            let plan = plan(&settings, &runners, SECOND, 0.9);
            let last = plan.entries[2];
            assert_eq!(plan.entries.iter().map(|entry| entry.candidate).collect::<Vec<_>>(), order);
            assert_eq!((last.start, last.p_include), (Start::At(Duration::ZERO), 1.0), "{policy:?}");
            assert_eq!(plan.entries.iter().map(|entry| entry.trial).collect::<Vec<_>>(), [false, false, true]);
            assert_eq!(plan.max_attempts, settings.max_attempts + 1, "it takes nobody's place: {policy:?}");
            let p_first = if policy == Policy::Weighted { 0.75 } else { 1.0 };
            assert_eq!(plan.entries[0].p_include, p_first, "its weight does not count: {policy:?}");
        }
    }

    #[test]
    fn a_plan_is_told_in_few_words() {
        let runners = [Runner { weight: 1.0, first_token: SECOND, extra: false }; 5];
        let told = |policy, name: fn(usize) -> &'static str| {
            let delay = Duration::from_micros(412_900);
            plan(&settings(policy), &runners, delay, 0.0).text(name)
        };
        let short = |candidate| ["a/m", "b/m", "c/m", "d/m", "e/m"][candidate];
        assert_eq!(told(Policy::Race, short), "a/m@0 b/m@0 c/m@0 d/m@0", "no more than max_attempts");
        assert_eq!(told(Policy::Hedge, short), "a/m@0 b/m@412ms c/m@825ms d/m@1238ms");
        assert_eq!(told(Policy::Rule, short), "a/m@0 b/m@failure c/m@failure d/m@failure");
        let learnt = plan(&settings(Policy::Adaptive), &runners, Duration::ZERO, 0.0);
        let learnt = Plan { ask_after: Some(SECOND / 4), expected: Some(2), ..learnt };
        assert_eq!(learnt.text(short), "a/m@0 b/m@failure c/m@250ms d/m@failure", "whom it will ask about, and when");
        let cut = |lengths: &[usize]| {
            let names: Vec<String> = lengths.iter().map(|length| "ü".repeat(*length)).collect();
            let plan = plan(&settings(Policy::Race), &runners[..names.len()], SECOND, 0.0);
            plan.text(|candidate| names[candidate].as_str())
        };
        let full = cut(&[3, 502, 1]);
        assert!(full.starts_with("üüü@0 ü") && full.ends_with("ü@0 …"), "{full}");
        assert_eq!(full.chars().count(), TEXT_MAX);
        assert_eq!(cut(&[3, 503, 1]), "üüü@0 …");
        assert_eq!(cut(&[600]), "…");
    }
}
