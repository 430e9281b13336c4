//! A plan: the candidates of one race, and when each starts. Every policy makes such a list. Not for running it: the race has no
//! modes.

use std::cmp::Ordering;
use std::fmt::{self, Write as _};
use std::time::Duration;

use photofinish_config::config::{ContentPolicy, Policy, RaceSettings};

/// The longest text of a plan, characters.
pub const TEXT_MAX: usize = 512;

/// An ordered list of candidates.
#[derive(Clone, Debug, PartialEq)]
pub struct RacePlan {
    pub entries: Vec<PlannedStart>,
    /// Attempts that may start, retries included.
    pub max_attempts: usize,
    /// From the request to the last moment for a winner.
    pub total: Duration,
    /// When the race first asks what to start next, counted from its beginning. None: never.
    pub ask_after: Option<Duration>,
    /// The candidate that would start then, by the present forecast.
    pub expected: Option<usize>,
    /// The effect of a content-policy refusal.
    pub content_policy: ContentPolicy,
}

/// One candidate of a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlannedStart {
    /// Index into the list that the plan was made from.
    pub candidate: usize,
    pub start: StartRule,
    /// Timeout from its own start to its first token.
    pub first_token: Duration,
    /// Probability of this candidate at this place.
    pub p_include: f64,
    /// It runs in addition to the others, to test an upstream. If it fails or is late, no other attempt replaces it.
    pub trial: bool,
}

/// When a candidate starts. A failure starts the next one at once, whatever its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartRule {
    /// This long after the race began: all zero is a race, a delay is a hedge.
    At(Duration),
    AfterFailure,
}

/// The answer of a policy that is called while its race runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replan {
    /// Start this candidate now, if it has not started yet, and ask again at once.
    Start(usize),
    /// Ask again after this time.
    Again(Duration),
    /// Ask again only after a failure.
    Never,
}

impl PlannedStart {
    /// A candidate that starts after a failure.
    pub fn listed(candidate: usize, first_token: Duration, trial: bool) -> PlannedStart {
        PlannedStart { candidate, start: StartRule::AfterFailure, first_token, p_include: 1.0, trial }
    }
}

/// Makes the plan that needs no statistics. `entries` come in the listed order, trials at the end; `weights` are by candidate.
/// `hedge_after` is the delay of `hedge`; `draw`, in 0..1, decides `weighted`. Each trial may start in addition to
/// `max_attempts`.
pub fn plan(
    settings: &RaceSettings,
    mut entries: Vec<PlannedStart>,
    weights: &[f64],
    hedge_after: Duration,
    draw: f64,
) -> RacePlan {
    let count = entries.len();
    let regular = entries.partition_point(|entry| !entry.trial);
    let weights = &weights[..regular];
    if settings.policy == Policy::Weighted && regular > 0 {
        let first = drawn(weights, draw * weights.iter().sum::<f64>());
        entries[..=first].rotate_right(1);
        for entry in &mut entries[..regular] {
            entry.p_include = p_here(weights, entry.candidate, first);
        }
    }
    for (position, entry) in (0_u32..).zip(&mut entries) {
        entry.start = match settings.policy {
            Policy::Race => StartRule::At(Duration::ZERO),
            _ if position == 0 || entry.trial => StartRule::At(Duration::ZERO),
            Policy::Hedge => StartRule::At(hedge_after.saturating_mul(position)),
            Policy::Adaptive | Policy::Rule | Policy::Fastest | Policy::Fallback | Policy::Weighted => {
                StartRule::AfterFailure
            }
        };
    }
    RacePlan {
        entries,
        max_attempts: settings.max_attempts + count - regular,
        total: settings.timeouts.total,
        ask_after: None,
        expected: None,
        content_policy: settings.content_policy,
    }
}

impl RacePlan {
    /// The text in the race's row, such as `groq/llama@0 cerebras/llama@412ms openrouter/x@failure`: every candidate that may
    /// start, and when. `name` gives a candidate's upstream. Beyond [`TEXT_MAX`] the text ends with `…`.
    pub fn text<'n>(&self, name: impl Fn(usize) -> &'n str) -> String {
        let mut text = String::new();
        for entry in self.entries.iter().take(self.max_attempts) {
            let space = if text.is_empty() { "" } else { " " };
            let asked = self.ask_after.filter(|_| self.expected == Some(entry.candidate));
            let start = asked.map_or(entry.start, StartRule::At);
            let before = text.len();
            let _ = write!(text, "{space}{}@{start}", name(entry.candidate));
            // Leaves room for the ellipsis.
            if text.len() > TEXT_MAX - 2 && text.chars().count() > TEXT_MAX - 2 {
                text.truncate(before);
                return text + space + "…";
            }
        }
        text
    }
}

impl fmt::Display for StartRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartRule::At(Duration::ZERO) => f.write_str("0"),
            StartRule::At(delay) => write!(f, "{}ms", delay.as_millis()),
            StartRule::AfterFailure => f.write_str("failure"),
        }
    }
}

/// The probability that a draw puts `candidate` where it is now that `first` was drawn. The others keep their order behind
/// `first`, so a draw from behind a candidate moves it back by one.
fn p_here(weights: &[f64], candidate: usize, first: usize) -> f64 {
    let total: f64 = weights.iter().sum();
    if total <= 0.0 {
        return 1.0;
    }
    let same_place = |other: usize| match first.cmp(&candidate) {
        Ordering::Equal => other == candidate,
        Ordering::Greater => other > candidate,
        Ordering::Less => other < candidate,
    };
    let draws = weights.iter().enumerate().filter(|(other, _)| same_place(*other));
    draws.map(|(_, weight)| weight).sum::<f64>() / total
}

/// The candidate whose share of the summed weights holds `point`.
fn drawn(weights: &[f64], point: f64) -> usize {
    let mut sum = 0.0;
    let by_share = weights.iter().position(|weight| {
        sum += weight;
        point < sum
    });
    by_share.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn settings(policy: Policy) -> RaceSettings {
        let config = photofinish_config::config::parse("", std::path::Path::new("x"), &|_| None).unwrap();
        RaceSettings { policy, ..config.race }
    }

    fn entries(count: usize) -> Vec<PlannedStart> {
        (0..count).map(|candidate| PlannedStart::listed(candidate, SECOND, false)).collect()
    }

    fn starts(policy: Policy, weights: &[f64], draw: f64) -> Vec<(usize, StartRule)> {
        plan(&settings(policy), entries(weights.len()), weights, SECOND, draw)
            .entries
            .iter()
            .map(|entry| (entry.candidate, entry.start))
            .collect()
    }

    #[test]
    fn each_policy_is_a_list_of_starts() {
        let now = StartRule::At(Duration::ZERO);
        let later = |seconds| StartRule::At(SECOND * seconds);
        let after = StartRule::AfterFailure;
        assert_eq!(starts(Policy::Race, &[1.0; 3], 0.0), [(0, now), (1, now), (2, now)]);
        assert_eq!(starts(Policy::Hedge, &[1.0; 3], 0.0), [(0, now), (1, later(1)), (2, later(2))]);
        for policy in [Policy::Fallback, Policy::Fastest, Policy::Adaptive, Policy::Rule] {
            assert_eq!(starts(policy, &[1.0; 3], 0.9), [(0, now), (1, after), (2, after)], "{policy:?}");
        }
        assert_eq!(starts(Policy::Weighted, &[1.0, 3.0, 0.0], 0.2), [(0, now), (1, after), (2, after)]);
        assert_eq!(starts(Policy::Weighted, &[1.0, 3.0, 0.0], 0.3), [(1, now), (0, after), (2, after)]);
        assert_eq!(
            starts(Policy::Weighted, &[0.0, 0.0], 0.9),
            [(0, now), (1, after)],
            "no weight left: the listed order"
        );
        assert_eq!(starts(Policy::Race, &[], 0.0), []);
        assert_eq!(starts(Policy::Weighted, &[], 0.0), []);
    }

    #[test]
    fn the_probability_of_each_place_is_recorded() {
        let p_include = |policy, draw| -> Vec<(usize, f64)> {
            let plan = plan(&settings(policy), entries(3), &[1.0, 5.0, 2.0], SECOND, draw);
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
    fn a_trial_runs_in_addition_to_the_others_under_every_policy() {
        let entries: Vec<PlannedStart> =
            (0..3).map(|candidate| PlannedStart::listed(candidate, SECOND, candidate == 2)).collect();
        for policy in Policy::ALL {
            let order = if policy == Policy::Weighted { [1, 0, 2] } else { [0, 1, 2] };
            let settings = settings(policy);
            let plan = plan(&settings, entries.clone(), &[1.0, 3.0, 96.0], SECOND, 0.9);
            let last = plan.entries[2];
            assert_eq!(plan.entries.iter().map(|entry| entry.candidate).collect::<Vec<_>>(), order);
            assert_eq!((last.start, last.p_include), (StartRule::At(Duration::ZERO), 1.0), "{policy:?}");
            assert_eq!(plan.entries.iter().map(|entry| entry.trial).collect::<Vec<_>>(), [false, false, true]);
            assert_eq!(plan.max_attempts, settings.max_attempts + 1, "a trial takes no regular place: {policy:?}");
            let p_first = if policy == Policy::Weighted { 0.75 } else { 1.0 };
            assert_eq!(plan.entries[0].p_include, p_first, "its weight does not count: {policy:?}");
        }
    }

    #[test]
    fn the_text_of_a_plan() {
        let text = |policy, name: fn(usize) -> &'static str| {
            let delay = Duration::from_micros(412_900);
            plan(&settings(policy), entries(5), &[1.0; 5], delay, 0.0).text(name)
        };
        let short = |candidate| ["a/m", "b/m", "c/m", "d/m", "e/m"][candidate];
        assert_eq!(text(Policy::Race, short), "a/m@0 b/m@0 c/m@0 d/m@0", "no more than max_attempts");
        assert_eq!(text(Policy::Hedge, short), "a/m@0 b/m@412ms c/m@825ms d/m@1238ms");
        assert_eq!(text(Policy::Rule, short), "a/m@0 b/m@failure c/m@failure d/m@failure");
        let learnt = plan(&settings(Policy::Adaptive), entries(5), &[1.0; 5], Duration::ZERO, 0.0);
        let learnt = RacePlan { ask_after: Some(SECOND / 4), expected: Some(2), ..learnt };
        assert_eq!(learnt.text(short), "a/m@0 b/m@failure c/m@250ms d/m@failure", "the expected hedge and its time");
        let cut = |lengths: &[usize]| {
            let names: Vec<String> = lengths.iter().map(|length| "ü".repeat(*length)).collect();
            let plan = plan(&settings(Policy::Race), entries(names.len()), &[1.0; 5], SECOND, 0.0);
            plan.text(|candidate| names[candidate].as_str())
        };
        let full = cut(&[3, 502, 1]);
        assert!(full.starts_with("üüü@0 ü") && full.ends_with("ü@0 …"), "{full}");
        assert_eq!(full.chars().count(), TEXT_MAX);
        assert_eq!(cut(&[3, 503, 1]), "üüü@0 …");
        assert_eq!(cut(&[600]), "…");
    }
}
