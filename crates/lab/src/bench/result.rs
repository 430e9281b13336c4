//! The result of a run: what is stored in the table `run`, printed by `bench --json` and read by `--against` and the report.

use serde::{Deserialize, Serialize};

use super::compare::{self, ComparedFigure, LoadComparison};
use super::figures::StageFigures;
use super::search::FoundRate;
use super::slo::LoadSlo;
use super::workload::Workload;

/// The edition of this shape, and of what its figures mean.
pub const RESULT_VERSION: u32 = 2;
/// A doubled load that adds less than this to the tokens of all is past the knee.
const KNEE_GAIN: f64 = 0.1;
/// The first level, run again at the end, may differ by this.
const DRIFT: f64 = 0.05;

/// Everything that a run found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    pub version: u32,
    pub run_id: String,
    pub label: Option<String>,
    /// Microseconds since 1970.
    pub started_at: i64,
    pub seconds: f64,
    pub targets: Vec<String>,
    pub workload: Workload,
    /// Share of a prompt that all have in common.
    pub prefix: f64,
    /// Fingerprints of the given prompts and of the members that were added to each request; none where there were none.
    pub prompts: Option<String>,
    pub body: Option<String>,
    pub seed: u64,
    pub slo: Option<LoadSlo>,
    pub stages: Vec<StageFigures>,
    pub curves: Vec<Curve>,
    pub found: Vec<FoundRate>,
    pub comparisons: Vec<LoadComparison>,
    /// Targets and levels that were not compared, with the reason.
    #[serde(default)]
    pub not_compared: Vec<String>,
    /// Least and most.
    pub cost_usd: (f64, f64),
    /// The client's own error in TTFT, milliseconds.
    pub calibration_ms: Option<f64>,
    /// Such as `linux x86_64, 2 cores, photofinish 0.1.0`.
    pub machine: String,
    /// It was ended before its plan: why.
    pub cut_short: Option<String>,
}

/// What the levels of a closed loop show of one target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    pub target: String,
    /// The fewest users from which doubling them adds less than 10 % to the tokens per second of all.
    pub knee_users: Option<usize>,
    /// The most users of a level that counts.
    pub most_users: Option<usize>,
    /// The fewest users at which one has at most half the speed of one alone.
    pub half_speed_users: Option<usize>,
    /// The first level differed when it was run again at the end: in words.
    pub drift: Option<String>,
}

impl RunResult {
    /// Why it is not trusted as a whole: the first doubt about a stage. A trial of a search that the client spoiled counts only
    /// if it was not repeated with success.
    pub fn doubt(&self) -> Option<&str> {
        let is_repeated = |stage: &StageFigures, later: &[StageFigures]| {
            let same = |again: &StageFigures| again.target == stage.target && again.request_rate == stage.request_rate;
            !self.found.is_empty() && later.iter().any(|again| same(again) && again.is_trusted())
        };
        let each = self.stages.iter().enumerate();
        let mut doubtful =
            each.filter(|(at, stage)| !stage.is_trusted() && !is_repeated(stage, &self.stages[at + 1..]));
        doubtful.next()?.1.doubts.first().map(String::as_str)
    }

    /// Its label, else its id.
    pub fn name(&self) -> &str {
        self.label.as_deref().unwrap_or(&self.run_id)
    }

    pub fn is_search(&self) -> bool {
        !self.found.is_empty()
    }
}

/// The curve of one target's stages, in the order in which they ran.
pub fn curve(target: &str, stages: &[StageFigures]) -> Curve {
    let own: Vec<&StageFigures> = stages.iter().filter(|stage| stage.target == target && stage.counts()).collect();
    let mut levels: Vec<&StageFigures> = Vec::new();
    for stage in own.iter().filter(|stage| stage.users.is_some()) {
        if levels.iter().all(|known| known.users != stage.users) {
            levels.push(stage);
        }
    }
    levels.sort_by_key(|stage| stage.users);
    Curve {
        target: target.to_owned(),
        knee_users: knee(&levels),
        most_users: levels.last().and_then(|level| level.users),
        half_speed_users: half_speed(&levels),
        drift: drift(&own),
    }
}

fn knee(levels: &[&StageFigures]) -> Option<usize> {
    levels.windows(2).find_map(|pair| {
        let (users, more) = (pair[0].users?, pair[1].users?);
        let gain = pair[1].tok_s_all? / pair[0].tok_s_all?;
        let doublings = (more as f64 / users as f64).log2();
        (gain.powf(1.0 / doublings) < 1.0 + KNEE_GAIN).then_some(users)
    })
}

fn half_speed(levels: &[&StageFigures]) -> Option<usize> {
    let speed = |stage: &StageFigures| stage.tok_s.map(|tok_s| tok_s.p50.value);
    let alone = levels.iter().find(|stage| stage.users == Some(1)).and_then(|stage| speed(stage))?;
    levels.iter().find(|stage| speed(stage).is_some_and(|speed| speed <= alone / 2.0))?.users
}

/// The first level against the last stage, where that is the same level again.
fn drift(own: &[&StageFigures]) -> Option<String> {
    let (first, last) = (own.first()?, own.last()?);
    if own.len() < 3 || first.users != last.users {
        return None;
    }
    ComparedFigure::OF_ANSWERS.into_iter().find_map(|figure| {
        let (ratio, _) = compare::of_stages(figure, first, last)?;
        let excludes_one = ratio.low.is_some_and(|low| low > 1.0) || ratio.high.is_some_and(|high| high < 1.0);
        let off = (ratio.value - 1.0) * 100.0;
        (excludes_one && off.abs() > DRIFT * 100.0)
            .then(|| format!("{} is {off:+.0} % when the first level is run again: the server drifted", figure.label()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::stage::quantiles;

    fn level(users: usize, tok_s_all: f64, tok_s: f64) -> StageFigures {
        let near = |value: f64| quantiles((0..100).map(move |n| value * (1.0 + f64::from(n % 5) / 1e4)));
        StageFigures {
            target: "a/m".to_owned(),
            users: Some(users),
            tok_s_all: Some(tok_s_all),
            tok_s: near(tok_s),
            ttft_ms: near(100.0),
            e2e_ms: near(1_000.0),
            ..StageFigures::default()
        }
    }

    #[test]
    fn the_knee_is_where_doubling_adds_little() {
        let stages =
            [level(1, 100.0, 100.0), level(10, 900.0, 90.0), level(25, 1_000.0, 45.0), level(50, 1_010.0, 20.0)];
        let curve = curve("a/m", &stages);
        // From 10 to 25 users, 1.3 doublings add 11 %: 8 % each.
        assert_eq!((curve.knee_users, curve.half_speed_users, curve.most_users), (Some(10), Some(25), Some(50)));
        assert_eq!(curve.drift, None);
    }

    #[test]
    fn a_stage_that_is_not_trusted_is_no_level() {
        let mut stages = vec![level(1, 100.0, 100.0), level(10, 101.0, 10.0), level(50, 3_000.0, 90.0)];
        stages[1].doubts.push("the client woke late".to_owned());
        assert_eq!((curve("a/m", &stages).knee_users, curve("a/m", &stages).most_users), (None, Some(50)));
    }

    #[test]
    fn a_spoiled_trial_that_was_repeated_is_no_doubt_about_the_run() {
        let trial = |rate: f64, doubts: &[&str]| StageFigures {
            target: "a/m".to_owned(),
            request_rate: Some(rate),
            doubts: doubts.iter().map(|doubt| (*doubt).to_owned()).collect(),
            ..StageFigures::default()
        };
        let of = |stages: Vec<StageFigures>, found: usize| RunResult {
            stages,
            found: vec![FoundRate::default(); found],
            ..RunResult::default()
        };
        let (spoiled, good) = (trial(4.0, &["it woke late"]), trial(4.0, &[]));
        assert_eq!(of(vec![spoiled.clone(), good.clone()], 1).doubt(), None);
        assert_eq!(of(vec![good.clone(), spoiled.clone()], 1).doubt(), Some("it woke late"));
        assert_eq!(of(vec![spoiled.clone(), trial(8.0, &[])], 1).doubt(), Some("it woke late"));
        assert_eq!(of(vec![spoiled, good], 0).doubt(), Some("it woke late"), "levels are no trials");
    }

    #[test]
    fn a_result_of_the_first_version_can_be_read() {
        let mut object = serde_json::to_value(RunResult {
            stages: vec![level(1, 100.0, 100.0)],
            curves: vec![Curve::default()],
            ..RunResult::default()
        })
        .unwrap();
        for name in ["prompts", "body", "not_compared"] {
            object.as_object_mut().unwrap().remove(name);
        }
        object["curves"][0].as_object_mut().unwrap().remove("most_users");
        for name in ["failed_share", "ended_by"] {
            object["stages"][0].as_object_mut().unwrap().remove(name);
        }
        object["stages"][0]["ended"] = "it was ended early".into();
        let read: RunResult = serde_json::from_value(object).unwrap();
        assert_eq!(read.stages[0].ended_by, None);
        assert!(!read.stages[0].counts());
    }

    #[test]
    fn a_server_that_drifted_is_told() {
        let stages = [level(1, 100.0, 100.0), level(10, 900.0, 90.0), level(1, 60.0, 60.0)];
        assert!(curve("a/m", &stages).drift.unwrap().contains("tok/s is -40 %"));
    }
}
