//! The printed result, whole: `golden.txt`.

use std::io::Write as _;

use super::*;
use crate::cli::screen::PIPED;
use photofinish_facts::estimate::cost::Cost;
use photofinish_lab::bench::block::Arrivals;
use photofinish_lab::bench::measured::SloTarget;
use photofinish_lab::bench::stage::{StageEnd, quantiles};
use photofinish_lab::bench::statistics::share_estimate;

fn stage(target: &str, answered: u16, ms: f64) -> StageFigures {
    let near = |value: f64| quantiles((0..answered).map(move |n| value * (1.0 + f64::from(n % 7) / 100.0)));
    StageFigures {
        target: target.to_owned(),
        seconds: 30.0,
        ends: [(RequestEnd::Answered, usize::from(answered))].into(),
        failed_share: Some(share_estimate(0.0, f64::from(answered))),
        ttft_ms: near(ms),
        tpot_ms: near(20.0),
        tok_s: near(50.0),
        tok_s_all: Some(50.0 * f64::from(answered) / 30.0),
        e2e_ms: near(ms + 2_000.0),
        answers_per_second: f64::from(answered) / 30.0,
        ..StageFigures::default()
    }
}

fn users(target: &str, users: usize, answered: u16, ms: f64) -> StageFigures {
    StageFigures { users: Some(users), ..stage(target, answered, ms) }
}

fn trial(rate: f64, share: f64) -> StageFigures {
    let all = (rate * 100.0) as u16;
    StageFigures {
        request_rate: Some(rate),
        arrivals: Some(Arrivals::Constant),
        client_ttft_ms: quantiles((0..all).map(|n| 120.0 + f64::from(n % 9))),
        lag_p99_ms: Some(0.2),
        attainment: Some(share_estimate(share, f64::from(all))),
        ..stage("a/m", all, 120.0)
    }
}

fn run(targets: &[&str], stages: Vec<StageFigures>) -> RunResult {
    RunResult {
        run_id: "0190".to_owned(),
        targets: targets.iter().map(|target| (*target).to_owned()).collect(),
        seed: 7,
        stages,
        ..RunResult::default()
    }
}

fn comparison(
    figure: ComparedFigure,
    ratio: (f64, f64, f64),
    pairs: Option<usize>,
    verdict: LoadVerdict,
) -> LoadComparison {
    LoadComparison {
        figure,
        base: if pairs.is_some() { "a/m" } else { "main" }.to_owned(),
        other: if pairs.is_some() { "b/m" } else { "a/m" }.to_owned(),
        load: "10 users".to_owned(),
        pairs,
        ratio: IntervalEstimate { value: ratio.0, low: Some(ratio.1), high: Some(ratio.2) },
        margin: 0.05,
        verdict,
    }
}

fn condition(text: &str, outcome: ConditionOutcome, why: Option<&str>) -> DecidedCondition {
    DecidedCondition { condition: text.to_owned(), outcome, why: why.map(str::to_owned) }
}

fn curves() -> (RunResult, RunVerdict) {
    let doubtful =
        StageFigures { doubts: vec!["the client woke late: p99 9.9 ms".to_owned()], ..users("b/m", 10, 80, 300.0) };
    let died = StageFigures {
        ends: [(RequestEnd::Answered, 40), (RequestEnd::Failed, 100), (RequestEnd::Dropped, 2)].into(),
        notes: vec!["failed: 100 reset".to_owned()],
        ended: Some("it answers no more: reset".to_owned()),
        ended_by: Some(StageEnd::Failing),
        ..users("b/m", 50, 40, 300.0)
    };
    let stages = vec![
        users("a/m", 1, 20, 100.0),
        users("b/m", 1, 20, 110.0),
        users("a/m", 10, 180, 150.0),
        doubtful,
        StageFigures { per_million: Cost::exactly(0.6), ..users("a/m", 50, 190, 900.0) },
        died,
    ];
    let curve = |target: &str, knee_users, most_users| Curve {
        target: target.to_owned(),
        knee_users,
        most_users,
        ..Curve::default()
    };
    let drift = Some("tok/s is -40 % when the first level is run again: the server drifted".to_owned());
    let result = RunResult {
        curves: vec![
            Curve { half_speed_users: Some(50), drift, ..curve("a/m", Some(10), Some(50)) },
            curve("b/m", None, Some(50)),
            curve("c/m", None, Some(1)),
        ],
        comparisons: vec![
            comparison(ComparedFigure::Ttft, (1.1, 1.06, 1.14), Some(18), LoadVerdict::Worse),
            comparison(ComparedFigure::TokS, (1.0, 0.98, 1.02), Some(18), LoadVerdict::Same),
            comparison(ComparedFigure::E2e, (0.97, 0.8, 1.2), Some(18), LoadVerdict::CannotTell { more: 120 }),
        ],
        not_compared: vec![
            "b/m, 10 users against a/m: not compared: not trusted: the client woke late: p99 9.9 ms".to_owned(),
        ],
        cost: Cost::between(0.01, Some(0.02)),
        cut_short: Some("b/m, 50 users: it answers no more: reset".to_owned()),
        ..run(&["a/m", "b/m"], stages)
    };
    let verdict = RunVerdict {
        conditions: vec![
            condition("ttft_p50>1s", ConditionOutcome::Met, None),
            condition(
                "ttft_p50>800ms",
                ConditionOutcome::Missed,
                Some("a/m, 50 users: 927.000 ms (918.000 to 936.000)"),
            ),
            condition(
                "failures>1%",
                ConditionOutcome::Undecided,
                Some("b/m, 10 users: not trusted: the client woke late: p99 9.9 ms"),
            ),
        ],
        against: vec![
            comparison(ComparedFigure::Answered, (0.5, 0.4, 0.6), None, LoadVerdict::Worse),
            comparison(ComparedFigure::Ttft, (0.8, 0.7, 0.9), None, LoadVerdict::Better),
        ],
        undecided: vec!["a/m, 50 users: main did not measure it".to_owned()],
    };
    (result, verdict)
}

fn search() -> (RunResult, RunVerdict) {
    let found = FoundRate {
        target: "a/m".to_owned(),
        attain: 0.9,
        passes: Some(4.0),
        fails: Some(4.4),
        first_missed: Some(SloTarget::Ttft),
        trials: Vec::new(),
    };
    let late = StageFigures { doubts: vec!["requests left late: send lag p99 2.1 ms".to_owned()], ..trial(4.4, 0.5) };
    let result = RunResult {
        slo: Some(LoadSlo { ttft_us: Some(500_000), ..LoadSlo::default() }),
        found: vec![
            found,
            FoundRate { target: "b/m".to_owned(), attain: 0.9, passes: Some(9.0), ..FoundRate::default() },
        ],
        ..run(&["a/m", "b/m"], vec![trial(4.0, 0.98), late, trial(4.4, 0.5)])
    };
    let rate = LoadComparison {
        load: "search".to_owned(),
        ..comparison(ComparedFigure::Rate, (1.0, 0.9, 1.3), None, LoadVerdict::CannotTell { more: 0 })
    };
    let verdict = RunVerdict {
        conditions: vec![condition("rate<4", ConditionOutcome::Met, None)],
        against: vec![rate],
        undecided: vec!["b/m: no rate was found that fails".to_owned()],
    };
    (result, verdict)
}

#[test]
fn the_whole_text() {
    let mut out = Vec::new();
    for (result, verdict) in [curves(), search()] {
        write(&result, &verdict, PIPED, &mut out).unwrap();
        writeln!(out).unwrap();
    }
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text, include_str!("golden.txt"), "{text}");
}

#[test]
fn the_users_that_are_held_are_one_line() {
    let slo = LoadSlo { ttft_us: Some(500_000), tpot_us: Some(50_000), e2e_us: None };
    let line = |held_users, too_many_users, most| {
        let target = "a/m".to_owned();
        let curve = Curve { target, held_users, too_many_users, most_users: Some(most), ..Curve::default() };
        held(&curve, slo)
    };
    let what = "first token under 500 ms and 20 tok/s for 90 %";
    assert_eq!(line(Some(4), Some(8), 8), format!("a/m: holds 4 users: {what}; 8 users are too many"));
    assert_eq!(line(Some(4), None, 8), format!("a/m: holds 4 users: {what}; whether more is unknown"));
    assert_eq!(line(Some(8), None, 8), format!("a/m: holds 8 users: {what}; more were not tried"));
    assert_eq!(line(None, Some(1), 1), format!("a/m: does not hold 1 user: {what}"));
    assert_eq!(line(None, None, 1), format!("a/m: it is unknown how many users it holds: {what}"));
    let whole = LoadSlo { e2e_us: Some(10_000_000), ..LoadSlo::default() };
    let curve = Curve { held_users: Some(1), most_users: Some(1), ..Curve::default() };
    assert!(held(&curve, whole).contains("holds 1 user: whole answer under 10 s for 90 %"));
}

#[test]
fn a_narrow_terminal_is_not_exceeded() {
    let (result, verdict) = curves();
    let mut out = Vec::new();
    write(&result, &verdict, ScreenSettings { width: 72, piped: false, ..PIPED }, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.lines().all(|line| line.chars().count() <= 72), "{text}");
}
