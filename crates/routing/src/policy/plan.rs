//! A plan: the candidates of one race, and when each starts. Every policy makes such a list. Not for running it: the race has no
//! modes.

use std::fmt::{self, Write as _};
use std::time::Duration;

use photofinish_config::{ContentPolicy, RaceSettings};

/// The longest text of a plan, characters.
pub const TEXT_MAX: usize = 512;

/// An ordered list of candidates.
#[derive(Clone, Debug, PartialEq)]
pub struct RacePlan {
    pub entries: Vec<PlannedStart>,
    /// Attempts that may run at once by choice: the opening, hedges, and retries while others run. What replaces a failed or a late
    /// attempt is not counted.
    pub max_attempts: usize,
    /// From the request to the last moment for a winner.
    pub total: Duration,
    /// When the race first asks what to start next, counted from its beginning. None: never.
    pub ask_after: Option<Duration>,
    /// The candidate that would start then, by the present forecast.
    pub expected: Option<usize>,
    /// Attempts that run in addition may serve the client. If not, they are only watched while another one runs.
    pub trials_win: bool,
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
    /// It runs in addition to the others, to test or to measure an upstream. If it fails or is late, no other attempt replaces it.
    pub trial: bool,
    /// It only shows its first token, where the client waits for a whole answer: it serves no client.
    pub only_shows: bool,
}

/// When a candidate starts. A failure starts the next one at once, whatever its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartRule {
    /// This long after the race began: all zero is a race, a delay is a hedge.
    At(Duration),
    AfterFailure,
    /// The last resort: when no other candidate is left.
    Last,
}

/// The answer of a policy that is called while its race runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replan {
    /// Start this candidate now, if it has not started yet, and ask again at once.
    Start(usize),
    /// The same, because the attempt that waits longest is late.
    Rescue(usize),
    /// Ask again after this time.
    Again(Duration),
    /// Ask again only after a failure.
    Never,
}

impl PlannedStart {
    /// A candidate that starts after a failure.
    pub fn listed(candidate: usize, first_token: Duration, trial: bool) -> PlannedStart {
        PlannedStart {
            candidate,
            start: StartRule::AfterFailure,
            first_token,
            p_include: 1.0,
            trial,
            only_shows: false,
        }
    }
}

impl RacePlan {
    /// The first entry starts at once, the others after a failure. `entries` come in the listed order, trials at the end: each
    /// trial starts at once, in addition to `max_attempts`.
    pub fn listed(settings: &RaceSettings, mut entries: Vec<PlannedStart>) -> RacePlan {
        let regular = entries.partition_point(|entry| !entry.trial);
        let at_once = entries.iter_mut().enumerate().filter(|(position, entry)| *position == 0 || entry.trial);
        at_once.for_each(|(_, entry)| entry.start = StartRule::At(Duration::ZERO));
        RacePlan {
            max_attempts: settings.max_attempts + entries.len() - regular,
            entries,
            total: settings.timeouts.total,
            ask_after: None,
            expected: None,
            trials_win: true,
            content_policy: settings.content_policy,
        }
    }

    /// The text in the race's row, such as `groq/llama@0 cerebras/llama@412ms openrouter/x@failure`: every candidate that may
    /// start, and when. `name` gives a candidate's upstream. Beyond [`TEXT_MAX`] the text ends with `…`.
    pub fn text<'n>(&self, name: impl Fn(usize) -> &'n str) -> String {
        let mut text = String::new();
        for entry in &self.entries {
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
            StartRule::Last => f.write_str("last"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn settings() -> RaceSettings {
        photofinish_config::parse("", std::path::Path::new("x"), &|_| None).unwrap().race
    }

    fn listed(count: usize) -> RacePlan {
        RacePlan::listed(
            &settings(),
            (0..count).map(|candidate| PlannedStart::listed(candidate, SECOND, false)).collect(),
        )
    }

    #[test]
    fn a_trial_runs_in_addition_to_the_others() {
        let entries: Vec<PlannedStart> =
            (0..3).map(|candidate| PlannedStart::listed(candidate, SECOND, candidate == 2)).collect();
        let plan = RacePlan::listed(&settings(), entries);
        let now = StartRule::At(Duration::ZERO);
        let starts: Vec<StartRule> = plan.entries.iter().map(|entry| entry.start).collect();
        assert_eq!(starts, [now, StartRule::AfterFailure, now]);
        assert_eq!(plan.max_attempts, settings().max_attempts + 1, "a trial takes no regular place");
        assert!(listed(0).entries.is_empty());
    }

    #[test]
    fn the_text_of_a_plan() {
        let short = |candidate| ["a/m", "b/m", "c/m", "d/m", "e/m"][candidate];
        let starting = |count: usize, start: fn(u32) -> StartRule| {
            let mut plan = listed(count);
            (0..).zip(&mut plan.entries).for_each(|(place, entry)| entry.start = start(place));
            plan
        };
        let at_once = |count| starting(count, |_| StartRule::At(Duration::ZERO));
        assert_eq!(at_once(5).text(short), "a/m@0 b/m@0 c/m@0 d/m@0 e/m@0");
        let hedged = starting(5, |place| StartRule::At(Duration::from_micros(412_900) * place));
        assert_eq!(hedged.text(short), "a/m@0 b/m@412ms c/m@825ms d/m@1238ms e/m@1651ms");
        assert_eq!(listed(5).text(short), "a/m@0 b/m@failure c/m@failure d/m@failure e/m@failure");
        let learnt = RacePlan { ask_after: Some(SECOND / 4), expected: Some(2), ..listed(5) };
        assert_eq!(
            learnt.text(short),
            "a/m@0 b/m@failure c/m@250ms d/m@failure e/m@failure",
            "the expected hedge and its time"
        );
        let cut = |lengths: &[usize]| {
            let names: Vec<String> = lengths.iter().map(|length| "ü".repeat(*length)).collect();
            at_once(names.len()).text(|candidate| names[candidate].as_str())
        };
        let full = cut(&[3, 502, 1]);
        assert!(full.starts_with("üüü@0 ü") && full.ends_with("ü@0 …"), "{full}");
        assert_eq!(full.chars().count(), TEXT_MAX);
        assert_eq!(cut(&[3, 503, 1]), "üüü@0 …");
        assert_eq!(cut(&[600]), "…");
    }
}
