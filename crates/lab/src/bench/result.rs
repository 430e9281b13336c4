//! The result of a run: what is stored in the table `run`, printed by `bench --json`, read by the report, and compared by
//! `--against`. Only the same work is compared, and what cannot be compared has a reason.

use serde::{Deserialize, Serialize};

use super::block::Load;
use super::compare::{self, Compared, ComparedFigure, LoadComparison};
use super::measured::{LoadSlo, MeasuredRequest};
use super::prompt::Workload;
use super::search::FoundRate;
use super::stage::{StageEnd, StageFigures};
use photofinish_facts::estimate::cost::Cost;

/// The edition of this shape, and of what its figures mean.
pub const RESULT_VERSION: u32 = 1;
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
    /// Fingerprints of the given prompts and of the members that were added to each request; None if there were none.
    pub prompts: Option<String>,
    pub body: Option<String>,
    pub seed: u64,
    pub slo: Option<LoadSlo>,
    pub stages: Vec<StageFigures>,
    pub curves: Vec<Curve>,
    pub found: Vec<FoundRate>,
    pub comparisons: Vec<LoadComparison>,
    /// Targets and levels that were not compared, with the reason.
    pub not_compared: Vec<String>,
    #[serde(flatten)]
    pub cost: Cost,
    /// The client's own error in TTFT, milliseconds.
    pub calibration_ms: Option<f64>,
    /// Such as `linux x86_64, 2 cores, photofinish 0.1.0`.
    pub machine: String,
    /// It was ended before its plan: why.
    pub cut_short: Option<String>,
}

impl RunResult {
    /// Something is known of its cost, and it is not 0.
    pub fn is_priced(&self) -> bool {
        self.cost.cost_usd_min.is_some() && self.cost != Cost::ZERO
    }
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
    /// The most users whose level, like all below it, meets the targets of the run in `HELD_SHARE` of its requests, by its 95 %
    /// interval. None: no level does, or there are no targets.
    pub held_users: Option<usize>,
    /// The fewest users whose level does not, for certain.
    pub too_many_users: Option<usize>,
    /// The first level differed when it was run again at the end: in words.
    pub drift: Option<String>,
}

impl RunResult {
    /// Why it is not trusted as a whole: the first doubt about a stage. A trial of a search counts only if the search left it out
    /// and did not repeat it with success.
    pub fn doubt(&self) -> Option<&str> {
        let is_decided = |stage: &StageFigures| {
            let of_target = self.found.iter().filter(|found| found.target == stage.target);
            let mut trials = of_target.flat_map(|found| &found.trials);
            trials.any(|trial| Some(trial.rate) == stage.request_rate && trial.doubts.is_empty())
        };
        let doubtful = self.stages.iter().find(|stage| !stage.is_trusted() && !is_decided(stage))?;
        doubtful.doubts.first().map(String::as_str)
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
        held_users: held(&levels),
        too_many_users: levels.iter().find(|level| is_held(level) == Some(false)).and_then(|level| level.users),
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

/// The share of requests that must meet every target, for a level to be held.
pub const HELD_SHARE: f64 = 0.9;

/// None: the samples do not show it.
fn is_held(level: &StageFigures) -> Option<bool> {
    let share = level.attainment?;
    let (low, high) = share.low.zip(share.high)?;
    if low >= HELD_SHARE { Some(true) } else { (high < HELD_SHARE).then_some(false) }
}

fn held(levels: &[&StageFigures]) -> Option<usize> {
    levels.iter().take_while(|level| is_held(level) == Some(true)).last()?.users
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

/// How the requests of two runs differ, apart from their targets. None: they do not.
pub fn different_work(base: &RunResult, other: &RunResult) -> Option<String> {
    let lengths =
        |run: &RunResult| format!("{} tokens in, {} out", run.workload.input_tokens, run.workload.output_tokens);
    for (what, base, other) in
        [("lengths", lengths(base), lengths(other)), ("--prefix", base.prefix.to_string(), other.prefix.to_string())]
    {
        if base != other {
            return Some(format!("{what}: {base} there, {other} here"));
        }
    }
    let given = [("--prompts", &base.prompts, &other.prompts), ("--body", &base.body, &other.body)];
    given.into_iter().find(|(_, base, other)| base != other).map(|(what, base, other)| match (base, other) {
        (Some(_), None) => format!("{what}: given there, not here"),
        (None, _) => format!("{what}: given here, not there"),
        _ => format!("{what}: others there than here"),
    })
}

/// Why a run that asks for these loads cannot be compared with an earlier one, known before a request is sent. `loads`: none for
/// a search. A result of another version is no wrong use: the run may be the base of the next.
pub fn against_problem(base: &RunResult, asked: &RunResult, loads: &[Load]) -> Option<String> {
    if base.version != asked.version {
        return None;
    }
    let wanted = asked.targets.iter().flat_map(|target| loads.iter().map(move |load| (target, *load)));
    let lacks = |(target, load): &(&String, Load)| {
        let same =
            |stage: &StageFigures| stage.load() == Some(*load) && is_same_target(base, asked, &stage.target, target);
        !base.stages.iter().any(same)
    };
    let why = different_work(base, asked).or_else(|| match (base.is_search(), loads.is_empty()) {
        (true, true) => (base.slo != asked.slo).then(|| "another --slo".to_owned()),
        (true, false) => Some("it searched a rate, and has no levels".to_owned()),
        (false, true) => Some("it searched no rate".to_owned()),
        (false, false) => {
            wanted.into_iter().find(lacks).map(|(target, load)| format!("it did not measure {target} at {load}"))
        }
    })?;
    Some(format!("--against {}: {why}", base.name()))
}

/// The stages or the found rates of the same targets, the later run against the earlier one. A run of one target is compared
/// with any other run of one target.
pub fn compare_runs(base: &RunResult, other: &RunResult, margin: f64) -> Compared {
    let mut found = Compared::default();
    let versions = (base.version != other.version).then(|| {
        format!(
            "its result is of version {}, this one of version {}: their figures may mean different things",
            base.version, other.version
        )
    });
    let kinds = || (base.is_search() != other.is_search()).then(|| "only one of the runs searched a rate".to_owned());
    if let Some(reason) = versions.or_else(|| different_work(base, other)).or_else(kinds) {
        found.reasons.push(format!("{}: {reason}", base.name()));
    } else if other.is_search() {
        found_rates(base, other, margin, &mut found);
    } else {
        compare_levels(base, other, margin, &mut found);
    }
    found
}

/// Whether two targets of the runs are the same, or the only ones.
fn is_same_target(base: &RunResult, other: &RunResult, earlier: &str, later: &str) -> bool {
    earlier == later || (base.targets.len() == 1 && other.targets.len() == 1)
}

fn found_rates(base: &RunResult, other: &RunResult, margin: f64, into: &mut Compared) {
    for found in &other.found {
        let same = |earlier: &&FoundRate| is_same_target(base, other, &earlier.target, &found.target);
        let earlier = base.found.iter().find(same).ok_or("it was not searched there");
        let earlier = earlier.and_then(|earlier| match (base.slo == other.slo, earlier.attain == found.attain) {
            (false, _) => Err("another --slo"),
            (_, false) => Err("another --attain"),
            _ => Ok(earlier),
        });
        let compared = earlier.and_then(|earlier| {
            compare::of_found(earlier, found, margin).ok_or("the searches found no rates that can be compared")
        });
        match compared {
            Ok((ratio, margin, verdict)) => into.comparisons.push(LoadComparison {
                figure: ComparedFigure::Rate,
                base: base.name().to_owned(),
                other: found.target.clone(),
                load: "search".to_owned(),
                pairs: None,
                ratio,
                margin,
                verdict,
            }),
            Err(why) => into.reasons.push(format!("{} against {}: {why}", found.target, base.name())),
        }
    }
}

fn compare_levels(base: &RunResult, other: &RunResult, margin: f64, into: &mut Compared) {
    let mut seen: Vec<(&str, Option<Load>)> = Vec::new();
    for stage in &other.stages {
        // The first level runs twice; it is compared once.
        let level = (stage.target.as_str(), stage.load());
        if seen.contains(&level) {
            continue;
        }
        seen.push(level);
        let same = |earlier: &StageFigures| {
            earlier.load() == stage.load() && is_same_target(base, other, &earlier.target, &stage.target)
        };
        let again = |own: &StageFigures| (own.target.as_str(), own.load()) == level;
        match counting(&base.stages, same).zip(counting(&other.stages, again)) {
            Some((earlier, own)) => compare_stages(base.name(), earlier, own, margin, into),
            None => into.reasons.push(format!("{}: {} did not measure it", stage.name(), base.name())),
        }
    }
    if other.stages.is_empty() {
        into.reasons.push("nothing was measured".to_owned());
    }
}

/// Of these stages the first that counts, else the first.
fn counting(stages: &[StageFigures], of: impl Fn(&StageFigures) -> bool) -> Option<&StageFigures> {
    let mut those = stages.iter().filter(|stage| of(stage));
    let first = those.next()?;
    Some(if first.counts() { first } else { those.find(|stage| stage.counts()).unwrap_or(first) })
}

/// Two stages under the same load, measured independently.
fn compare_stages(name: &str, base: &StageFigures, other: &StageFigures, margin: f64, into: &mut Compared) {
    let why = why_not(name, base, other);
    // A server that broke off is worse, and its latencies are not.
    if why.is_none() || (is_of_server(base) && is_of_server(other)) {
        let ratio = compare::answered(base, other);
        into.comparisons
            .extend(ratio.map(|ratio| LoadComparison::new(ComparedFigure::Answered, name, other, ratio, margin)));
    }
    if let Some(why) = why {
        into.reasons.push(why);
        return;
    }
    for figure in ComparedFigure::OF_ANSWERS {
        match compare::of_stages(figure, base, other) {
            Some(ratio) => into.comparisons.push(LoadComparison::new(figure, name, other, ratio, margin)),
            None if figure.of_stage(base).or(figure.of_stage(other)).is_none() => {}
            None => into.reasons.push(too_few(name, other, figure)),
        }
    }
}

fn too_few(name: &str, other: &StageFigures, figure: ComparedFigure) -> String {
    format!("{} against {name}: too few answers to compare {}", other.name(), figure.label())
}

/// Whether its failures are the server's, even where it was ended early.
fn is_of_server(stage: &StageFigures) -> bool {
    stage.is_trusted() && stage.ended_by != Some(StageEnd::Interrupted)
}

/// Why the latencies of two stages are not compared.
fn why_not(name: &str, base: &StageFigures, other: &StageFigures) -> Option<String> {
    let why = base.why_not().map(|why| format!("{name}: {why}")).or_else(|| other.why_not())?;
    Some(format!("{} against {name}: not compared: {why}", other.name()))
}

/// The targets of one level against the first of them: in pairs of requests with the same prompt. `requests`: of each target,
/// without warm-up.
pub fn compare_targets(stages: &[StageFigures], requests: &[Vec<MeasuredRequest>], margin: f64) -> Compared {
    let mut found = Compared::default();
    let (Some((base, others)), Some((base_requests, requests))) = (stages.split_first(), requests.split_first()) else {
        return found;
    };
    for (other, own) in others.iter().zip(requests) {
        if let Some(why) = why_not(&base.target, base, other) {
            found.reasons.push(why);
            continue;
        }
        let new = |figure, ratio| LoadComparison::new(figure, &base.target, other, ratio, margin);
        found.comparisons.extend(compare::answered(base, other).map(|ratio| new(ComparedFigure::Answered, ratio)));
        for figure in ComparedFigure::OF_ANSWERS {
            match compare::paired(figure, base_requests, own) {
                Some(ratio) => {
                    found.comparisons.push(LoadComparison { pairs: Some(ratio.1), ..new(figure, ratio) });
                }
                None if figure.of_stage(base).or(figure.of_stage(other)).is_none() => {}
                None => found.reasons.push(too_few(&base.target, other, figure)),
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::search::{RateTrial, TrialVerdict};
    use crate::bench::stage::quantiles;
    use crate::bench::statistics::share_estimate;

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
    fn users_are_held_up_to_the_first_level_that_misses_the_targets_or_cannot_be_told() {
        let of = |shares: &[(usize, f64, f64)]| {
            let stages: Vec<StageFigures> = shares
                .iter()
                .map(|(users, share, n)| StageFigures {
                    attainment: Some(share_estimate(*share, *n)),
                    ..level(*users, 100.0, 100.0)
                })
                .collect();
            let curve = curve("a/m", &stages);
            (curve.held_users, curve.too_many_users)
        };
        assert_eq!(of(&[(1, 1.0, 100.0), (4, 0.98, 400.0), (8, 0.5, 400.0), (16, 1.0, 100.0)]), (Some(4), Some(8)));
        assert_eq!(of(&[(1, 1.0, 100.0), (4, 0.9, 400.0), (8, 0.98, 400.0)]), (Some(1), None), "4 is undecided");
        assert_eq!(of(&[(1, 0.1, 100.0)]), (None, Some(1)));
        let no_targets = curve("a/m", &[level(1, 100.0, 100.0)]);
        assert_eq!((no_targets.held_users, no_targets.too_many_users), (None, None));
    }

    #[test]
    fn a_stage_that_is_not_trusted_is_no_level() {
        let mut stages = vec![level(1, 100.0, 100.0), level(10, 101.0, 10.0), level(50, 3_000.0, 90.0)];
        stages[1].doubts.push("the client woke late".to_owned());
        assert_eq!((curve("a/m", &stages).knee_users, curve("a/m", &stages).most_users), (None, Some(50)));
    }

    #[test]
    fn a_trial_is_a_doubt_about_the_run_where_the_search_left_it_out() {
        let late = || vec!["it woke late".to_owned()];
        let stage = |rate: f64| StageFigures {
            target: "a/m".to_owned(),
            request_rate: Some(rate),
            doubts: late(),
            ..StageFigures::default()
        };
        let trial = |rate, doubts| RateTrial {
            rate,
            verdict: TrialVerdict::Pass,
            requests: 0,
            attainment: 1.0,
            missed: None,
            doubts,
        };
        let doubt = |trials: Vec<RateTrial>, target: &str| {
            let found = vec![FoundRate { target: target.to_owned(), trials, ..FoundRate::default() }];
            RunResult { stages: vec![stage(4.0)], found, ..RunResult::default() }.doubt().is_some()
        };
        assert!(!doubt(vec![trial(4.0, Vec::new())], "a/m"), "its error could not change the verdict");
        assert!(!doubt(vec![trial(4.0, late()), trial(4.0, Vec::new())], "a/m"), "it was repeated");
        assert!(doubt(vec![trial(4.0, late())], "a/m"));
        assert!(doubt(vec![trial(4.0, late()), trial(8.0, Vec::new())], "a/m"));
        assert!(doubt(vec![trial(4.0, Vec::new())], "b/m"));
        assert!(
            RunResult { stages: vec![stage(4.0)], ..RunResult::default() }.doubt().is_some(),
            "levels are no trials"
        );
    }

    #[test]
    fn a_server_that_drifted_is_told() {
        let stages = [level(1, 100.0, 100.0), level(10, 900.0, 90.0), level(1, 60.0, 60.0)];
        assert!(curve("a/m", &stages).drift.unwrap().contains("tok/s is -40 %"));
    }
}

#[cfg(test)]
mod against_tests {
    use super::super::compare::LoadVerdict;
    use super::super::measured::LoadSlo;
    use super::super::measured::RequestEnd;
    use super::super::prompt::Workload;
    use super::super::stage::quantiles;
    use super::super::statistics::share_estimate;
    use super::RESULT_VERSION;
    use super::*;

    fn stage(target: &str, users: usize, ms: f64, failed: usize) -> StageFigures {
        let near = quantiles((0..200).map(|n| ms * (1.0 + f64::from(n % 7) / 1e3)));
        StageFigures {
            target: target.to_owned(),
            users: Some(users),
            ends: [(RequestEnd::Answered, 200), (RequestEnd::Failed, failed)].into(),
            failed_share: Some(share_estimate(failed as f64 / (200 + failed) as f64, (200 + failed) as f64)),
            ttft_ms: near,
            e2e_ms: near,
            ..StageFigures::default()
        }
    }

    fn run(stages: Vec<StageFigures>) -> RunResult {
        let mut targets: Vec<String> = stages.iter().map(|stage| stage.target.clone()).collect();
        targets.dedup();
        RunResult {
            version: RESULT_VERSION,
            label: Some("main".to_owned()),
            targets,
            workload: Workload::new("1k", 1_000, 1_000),
            stages,
            ..RunResult::default()
        }
    }

    fn verdicts(compared: &Compared) -> Vec<(ComparedFigure, LoadVerdict)> {
        compared.comparisons.iter().map(|one| (one.figure, one.verdict)).collect()
    }

    #[test]
    fn only_the_same_work_is_compared() {
        let base = run(vec![stage("a/m", 10, 100.0, 0)]);
        assert_eq!(compare_runs(&base, &base, 0.05).reasons, Vec::<String>::new());
        let some = |text: &str| Some(text.to_owned());
        for (other, said) in [
            (
                RunResult { workload: Workload::new("10k", 10_000, 1_500), ..base.clone() },
                "main: lengths: 1000 tokens in",
            ),
            (RunResult { prefix: 0.5, ..base.clone() }, "main: --prefix: 0 there, 0.5 here"),
            (RunResult { prompts: some("f00"), ..base.clone() }, "main: --prompts: given here, not there"),
            (RunResult { body: some("f00"), ..base.clone() }, "main: --body: given here, not there"),
            (RunResult { version: RESULT_VERSION + 1, ..base.clone() }, "main: its result is of version"),
            (RunResult { found: vec![FoundRate::default()], ..base.clone() }, "main: only one of the runs searched"),
            (run(vec![stage("a/m", 20, 100.0, 0)]), "a/m, 20 users: main did not measure it"),
            (run(Vec::new()), "nothing was measured"),
        ] {
            let compared = compare_runs(&base, &other, 0.05);
            assert!(compared.comparisons.is_empty(), "{said}: {compared:?}");
            assert!(compared.reasons.len() == 1 && compared.reasons[0].starts_with(said), "{:?}", compared.reasons);
        }
        let others = RunResult { prompts: some("f00"), ..base.clone() };
        let why = different_work(&others, &RunResult { prompts: some("ba2"), ..base.clone() });
        assert_eq!(why.as_deref(), Some("--prompts: others there than here"));
        assert_eq!(different_work(&others, &base).as_deref(), Some("--prompts: given there, not here"));
        // A name of its own for the same lengths is the same work.
        let own = RunResult { workload: Workload::new("agent", 1_000, 1_000), ..base.clone() };
        assert_eq!(different_work(&base, &own), None);
    }

    #[test]
    fn what_cannot_be_compared_is_known_before() {
        let base = run(vec![stage("a/m", 1, 100.0, 0), stage("a/m", 10, 100.0, 0)]);
        let asked = |target: &str| RunResult { targets: vec![target.to_owned()], stages: Vec::new(), ..base.clone() };
        let why = |asked: &RunResult, loads: &[Load]| against_problem(&base, asked, loads).unwrap_or_default();
        assert_eq!(why(&asked("a/m"), &[Load::Users(10)]), "");
        assert_eq!(why(&asked("b/m"), &[Load::Users(10)]), "", "the only target of both");
        assert_eq!(
            why(&asked("a/m"), &[Load::Users(10), Load::Users(25)]),
            "--against main: it did not measure a/m at 25 users"
        );
        let two = RunResult { targets: vec!["a/m".to_owned(), "b/m".to_owned()], ..asked("a/m") };
        assert_eq!(why(&two, &[Load::Users(1)]), "--against main: it did not measure b/m at 1 user");
        assert_eq!(why(&asked("a/m"), &[]), "--against main: it searched no rate");
        assert_eq!(why(&RunResult { prefix: 0.5, ..asked("a/m") }, &[]), "--against main: --prefix: 0 there, 0.5 here");
        let newer = RunResult { version: RESULT_VERSION + 1, prefix: 0.5, ..asked("a/m") };
        assert_eq!(why(&newer, &[]), "", "it is undecided, and the run may be the next base");
    }

    #[test]
    fn other_arrivals_are_another_level() {
        let of = |arrivals| {
            let open = StageFigures {
                users: None,
                request_rate: Some(2.0),
                arrivals: Some(arrivals),
                ..stage("a/m", 1, 100.0, 0)
            };
            run(vec![open])
        };
        let (poisson, constant) =
            (of(super::super::block::Arrivals::Poisson), of(super::super::block::Arrivals::Constant));
        assert!(compare_runs(&poisson, &poisson, 0.05).reasons.is_empty());
        assert_eq!(compare_runs(&poisson, &constant, 0.05).reasons, ["a/m, 2/s, equal gaps: main did not measure it"]);
    }

    #[test]
    fn a_run_that_answers_half_of_its_requests_is_worse() {
        let (base, half) = (run(vec![stage("a/m", 10, 100.0, 0)]), run(vec![stage("a/m", 10, 100.0, 200)]));
        let compared = compare_runs(&base, &half, 0.05);
        assert_eq!(verdicts(&compared)[0], (ComparedFigure::Answered, LoadVerdict::Worse));
        let died = StageFigures {
            ended: Some("it answers no more: reset".to_owned()),
            ended_by: Some(StageEnd::Failing),
            ..stage("a/m", 10, 100.0, 200)
        };
        let compared = compare_runs(&base, &run(vec![died]), 0.05);
        assert_eq!(verdicts(&compared), [(ComparedFigure::Answered, LoadVerdict::Worse)], "its latencies are left out");
        assert_eq!(compared.reasons, ["a/m, 10 users against main: not compared: it answers no more: reset"]);
    }

    #[test]
    fn what_is_not_trusted_is_not_compared_and_said() {
        let base = run(vec![stage("a/m", 1, 100.0, 0), stage("a/m", 10, 100.0, 0)]);
        let mut late = stage("a/m", 10, 200.0, 50);
        late.doubts.push("it woke late".to_owned());
        let compared = compare_runs(&base, &run(vec![stage("b/m", 1, 100.0, 0), late.clone()]), 0.05);
        assert_eq!(compared.reasons.len(), 2, "b/m and a/m are two targets, and main has one: {:?}", compared.reasons);
        let compared =
            compare_runs(&base, &run(vec![stage("a/m", 1, 100.0, 0), late.clone(), stage("a/m", 1, 300.0, 0)]), 0.05);
        let same = LoadVerdict::Same;
        assert_eq!(verdicts(&compared), [(ComparedFigure::Ttft, same), (ComparedFigure::E2e, same)]);
        assert_eq!(compared.reasons, ["a/m, 10 users against main: not compared: not trusted: it woke late"]);
        let few = StageFigures { ttft_ms: quantiles([1.0, 2.0].into_iter()), ..stage("a/m", 1, 100.0, 0) };
        let compared = compare_runs(&base, &run(vec![few]), 0.05);
        assert_eq!(compared.reasons, ["a/m, 1 user against main: too few answers to compare TTFT"]);
    }

    #[test]
    fn searches_are_compared_by_the_rates_that_they_found() {
        let found = |target: &str, passes| FoundRate {
            target: target.to_owned(),
            attain: 0.9,
            passes: Some(passes),
            fails: Some(passes * 1.1),
            ..FoundRate::default()
        };
        let search = |passes| RunResult { found: vec![found("a/m", passes)], ..run(vec![stage("a/m", 1, 100.0, 0)]) };
        let rate = |one: &RunResult, two: &RunResult| verdicts(&compare_runs(one, two, 0.05));
        assert_eq!(rate(&search(10.0), &search(10.3)), [(ComparedFigure::Rate, LoadVerdict::Same)]);
        assert_eq!(rate(&search(10.0), &search(7.0)), [(ComparedFigure::Rate, LoadVerdict::Worse)]);
        let other = RunResult { slo: Some(LoadSlo { ttft_us: Some(1), ..LoadSlo::default() }), ..search(7.0) };
        assert_eq!(compare_runs(&search(10.0), &other, 0.05).reasons, ["a/m against main: another --slo"]);
    }

    #[test]
    fn a_doubtful_target_is_left_out_alone() {
        let requests = |us: i64| -> Vec<MeasuredRequest> {
            let one = |number| MeasuredRequest {
                number,
                end: RequestEnd::Answered,
                ttft_us: Some(us),
                e2e_us: Some(us),
                ..MeasuredRequest::default()
            };
            (0..50).map(one).collect()
        };
        let late = StageFigures { doubts: vec!["it woke late".to_owned()], ..stage("b/m", 10, 100.0, 0) };
        let stages = [stage("a/m", 10, 100.0, 0), late, stage("c/m", 10, 200.0, 0)];
        let all = [requests(100), requests(100), requests(200)];
        let compared = compare_targets(&stages, &all, 0.05);
        assert_eq!(compared.reasons, ["b/m, 10 users against a/m: not compared: not trusted: it woke late"]);
        let worse = LoadVerdict::Worse;
        assert_eq!(verdicts(&compared), [(ComparedFigure::Ttft, worse), (ComparedFigure::E2e, worse)]);
        assert_eq!((compared.comparisons[0].other.as_str(), compared.comparisons[0].pairs), ("c/m", Some(50)));
        let failing = [stage("a/m", 10, 100.0, 0), stage("b/m", 10, 100.0, 200)];
        let compared = compare_targets(&failing, &[requests(100), requests(100)], 0.05);
        assert_eq!(verdicts(&compared)[0], (ComparedFigure::Answered, LoadVerdict::Worse));
        let alone = compare_targets(&failing, &[requests(100), Vec::new()], 0.05);
        assert_eq!(verdicts(&alone), [(ComparedFigure::Answered, LoadVerdict::Worse)], "it needs no pairs");
        assert_eq!(alone.reasons.len(), 2, "{:?}", alone.reasons);
    }
}
