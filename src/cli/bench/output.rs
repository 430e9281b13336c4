//! The result of a run in words and tables. Not for its JSON: `RunResult` is written as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::plan::{BenchPlan, Levels};
use super::verdict::RunVerdict;
use crate::cli::plot::{self, Plot, PlotLine, PlotUnit, XAxis};
use crate::cli::screen::ScreenSettings;
use crate::cli::sheet::{Sheet, SheetCell};
use crate::cli::text::{GREY, clean, counted, or_dash, write_paragraph};
use photofinish_base::clock::SECOND_US;
use photofinish_base::machine;
use photofinish_facts::estimate::cost::Cost;
use photofinish_facts::estimate::interval::insufficient_for_p99;
use photofinish_facts::estimate::survival::is_firm;
use photofinish_lab::bench::compare::{ComparedFigure, LoadComparison, LoadVerdict};
use photofinish_lab::bench::condition::{ConditionOutcome, DecidedCondition};
use photofinish_lab::bench::measured::{LoadSlo, RequestEnd};
use photofinish_lab::bench::result::{Curve, HELD_SHARE, RunResult};
use photofinish_lab::bench::search::{FoundRate, RateTrial, TrialVerdict};
use photofinish_lab::bench::stage::{Quantiles, StageFigures};
use photofinish_lab::bench::statistics::IntervalEstimate;

/// One stage in a line, when it has ended.
pub fn brief(stage: &StageFigures) -> String {
    let ttft = stage.client_ttft_ms.or(stage.ttft_ms);
    let mut parts = vec![
        match stage.count(RequestEnd::Answered) {
            1 => "1 answer".to_owned(),
            answers => format!("{answers} answers"),
        },
        format!("TTFT p50 {}", or_dash(ttft, |ttft| millis(ttft.p50.value))),
        format!("tok/s {}", or_dash(stage.tok_s, |tok_s| format!("{:.1}", tok_s.p50.value))),
    ];
    parts.extend((stage.failed() > 0).then(|| format!("{} failed", stage.failed())));
    parts.extend(stage.ended.clone());
    parts.extend((!stage.is_trusted()).then(|| format!("not trusted: {}", stage.doubts.join("; "))));
    clean(&format!("{}: {}", stage.name(), parts.join(", "))).to_string()
}

/// One trial of a search in a line.
pub fn trial(target: &str, trial: &RateTrial) -> String {
    let verdict = match trial.verdict {
        TrialVerdict::Pass => "passes",
        TrialVerdict::Fail => "fails",
        TrialVerdict::Undecided => "undecided",
    };
    let missed = trial.missed.filter(|_| trial.verdict == TrialVerdict::Fail);
    let missed = missed.map_or(String::new(), |target| format!(", {} is missed most", target.as_str()));
    let doubts =
        if trial.doubts.is_empty() { String::new() } else { format!("; not trusted: {}", trial.doubts.join("; ")) };
    format!(
        "{target}, {:.3}/s: {verdict}, {:.1} % of {} meet the targets{missed}{doubts}",
        trial.rate,
        trial.attainment * 100.0,
        trial.requests
    )
}

/// Everything, for people.
pub fn write(
    result: &RunResult,
    verdict: &RunVerdict,
    screen: ScreenSettings,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let width = screen.terminal();
    if !result.stages.is_empty() {
        table(&result.stages, screen).write(width, out)?;
        writeln!(out)?;
        draw_curves(result, screen, out)?;
    }
    let mut lines = Vec::new();
    lines.extend(result.slo.into_iter().flat_map(|slo| result.curves.iter().map(move |curve| held(curve, slo))));
    lines.extend(result.curves.iter().flat_map(curve));
    lines.extend(result.found.iter().map(|found| found_rate(found, result)));
    lines.extend(result.comparisons.iter().chain(&verdict.against).map(comparison));
    lines.extend(result.not_compared.iter().cloned());
    for stage in &result.stages {
        let name = format!("{}, {}", stage.target, load_name(stage));
        let said = stage.ended.iter().chain(&stage.notes);
        lines.extend(said.map(|text| format!("{name}: {text}")));
        if !stage.is_trusted() {
            lines.push(format!("{name}: NOT TRUSTED: {}", stage.doubts.join("; ")));
        }
    }
    lines.extend(verdict.conditions.iter().map(condition));
    lines.extend(verdict.undecided.iter().map(|why| format!("cannot be decided: {why}")));
    if result.is_priced() {
        lines.push(format!("cost: {}", result.cost));
    }
    lines.extend(result.cut_short.iter().map(|why| format!("cut short: {why}")));
    lines.push(format!("run {}, seed {}", result.run_id, result.seed));
    lines.iter().try_for_each(|line| write_paragraph(line, width, out))
}

fn condition(decided: &DecidedCondition) -> String {
    let text = match decided.outcome {
        ConditionOutcome::Met => "does not hold",
        ConditionOutcome::Missed => "holds",
        ConditionOutcome::Undecided => "cannot be decided",
    };
    let why = decided.why.as_ref().map_or(String::new(), |why| format!(": {why}"));
    format!("{}: {text}{why}", decided.condition)
}

/// The users whose requests meet the targets, in a line.
fn held(curve: &Curve, slo: LoadSlo) -> String {
    let length = |us: i64| match us % SECOND_US {
        0 => format!("{} s", us / SECOND_US),
        _ => format!("{} ms", us as f64 / 1e3),
    };
    let targets = [
        slo.ttft_us.map(|us| format!("first token under {}", length(us))),
        slo.tpot_us.map(|us| format!("{} tok/s", (1e7 / us as f64).round() / 10.0)),
        slo.e2e_us.map(|us| format!("whole answer under {}", length(us))),
    ];
    let targets: Vec<String> = targets.into_iter().flatten().collect();
    let what = format!("{} for {:.0} %", targets.join(" and "), HELD_SHARE * 100.0);
    let users = |users: usize| counted(users as u64, "user");
    let (held, more) = match (curve.held_users, curve.too_many_users) {
        (Some(held), Some(more)) => (format!("holds {}", users(held)), format!("; {} are too many", users(more))),
        (Some(held), None) if Some(held) < curve.most_users => {
            (format!("holds {}", users(held)), "; whether more is unknown".to_owned())
        }
        (Some(held), None) => (format!("holds {}", users(held)), "; more were not tried".to_owned()),
        (None, Some(more)) => (format!("does not hold {}", users(more)), String::new()),
        (None, None) => ("it is unknown how many users it holds".to_owned(), String::new()),
    };
    format!("{}: {held}: {what}{more}", curve.target)
}

fn curve(curve: &Curve) -> impl Iterator<Item = String> {
    let target = &curve.target;
    let knee = match (curve.knee_users, curve.most_users) {
        (Some(users), _) => Some(format!(
            "{target}: the knee is at {users} users: from there, doubling them adds less than 10 % to the tokens of all"
        )),
        (None, Some(most)) if most > 1 => Some(format!("{target}: no knee up to {most} users")),
        _ => None,
    };
    let half =
        curve.half_speed_users.map(|users| format!("{target}: at {users} users, one has half the speed of one alone"));
    let drift = curve.drift.as_ref().map(|drift| format!("{target}: {drift}"));
    [knee, half, drift].into_iter().flatten()
}

/// Rows of the picture of the curves.
const CURVE_ROWS: u16 = 12;

/// How the speed of one user falls with their number, at the levels that count. A level that ran twice counts once.
fn draw_curves(result: &RunResult, screen: ScreenSettings, out: &mut impl io::Write) -> io::Result<()> {
    let speeds = |target: &str| -> BTreeMap<usize, f64> {
        let own = result.stages.iter().rev().filter(|stage| stage.target == target && stage.counts());
        own.filter_map(|stage| Some((stage.users?, stage.tok_s?.p50.value))).collect()
    };
    let curves: Vec<(&String, BTreeMap<usize, f64>)> = result.targets.iter().map(|name| (name, speeds(name))).collect();
    let levels: BTreeSet<usize> = curves.iter().flat_map(|(_, curve)| curve.keys().copied()).collect();
    if levels.len() < 2 {
        return Ok(());
    }
    let place = |users: &usize| levels.range(..users).count() as f64;
    let line = |(name, curve): &(&String, BTreeMap<usize, f64>)| PlotLine {
        name: (*name).clone(),
        points: curve.iter().map(|(users, speed)| (place(users), *speed)).collect(),
        open: Vec::new(),
    };
    let plot = Plot {
        title: "tok/s of one user",
        unit: PlotUnit::TokensPerSecond,
        x: XAxis::Classes { name: "users", labels: levels.iter().map(usize::to_string).collect() },
        lines: curves.iter().map(line).collect(),
    };
    plot::write(&plot, screen.width, screen.height.min(CURVE_ROWS), screen.colour, out)?;
    writeln!(out)
}

fn table(stages: &[StageFigures], screen: ScreenSettings) -> Sheet {
    let open = stages.iter().any(|stage| stage.is_open_loop());
    let judged = stages.iter().any(|stage| stage.attainment.is_some());
    let priced = stages.iter().any(|stage| stage.per_million != Cost::default());
    let mut heads = vec!["target", "load", "n", "TTFT p50", "p95"];
    heads.extend(if open { &["from schedule p50", "p99", "send lag p99"][..] } else { &["p99"] });
    heads.extend(["TPOT p50", "tok/s p50", "p5", "tok/s all", "e2e p50", "answers/s", "failed"]);
    heads.extend(judged.then_some("good"));
    heads.extend(priced.then_some("USD/M"));
    let row = |stage: &StageFigures| -> Vec<SheetCell> {
        let mut cells = vec![
            clean(&stage.target).to_string(),
            load_name(stage),
            stage.requests().to_string(),
            or_dash(stage.ttft_ms, |ttft| estimate(&ttft, &ttft.p50, 0.5)),
            or_dash(stage.ttft_ms, |ttft| estimate(&ttft, &ttft.p95, 0.95)),
        ];
        if open {
            let client = stage.client_ttft_ms;
            cells.push(or_dash(client, |ttft| estimate(&ttft, &ttft.p50, 0.5)));
            cells.push(or_dash(client, p99));
            cells.push(or_dash(stage.lag_p99_ms, |ms| figure_or_count(stage.requests(), || millis(ms))));
        } else {
            cells.push(or_dash(stage.ttft_ms, p99));
        }
        cells.extend([
            or_dash(stage.tpot_ms, |tpot| millis(tpot.p50.value)),
            or_dash(stage.tok_s, |tok_s| format!("{:.1}", tok_s.p50.value)),
            or_dash(stage.tok_s, |tok_s| format!("{}{:.1}", mark(tok_s.n, 0.05), tok_s.p5)),
            or_dash(stage.tok_s_all, |tokens| format!("{tokens:.0}")),
            or_dash(stage.e2e_ms, |e2e| millis(e2e.p50.value)),
            format!("{:.2}", stage.answers_per_second),
            failed(stage),
        ]);
        if judged {
            cells.push(or_dash(stage.attainment, |share| format!("{:.1} %", share.value * 100.0)));
        }
        if priced {
            let known = Some(stage.per_million).filter(|cost| *cost != Cost::default());
            cells.push(or_dash(known, |cost| cost.to_string()));
        }
        let grey = (screen.colour && !stage.is_trusted()).then_some(GREY);
        cells.into_iter().map(|text| SheetCell { text, colour: grey }).collect()
    };
    Sheet { heads: heads.into_iter().map(str::to_owned).collect(), names: 2, rows: stages.iter().map(row).collect() }
}

fn failed(stage: &StageFigures) -> String {
    match (stage.failed(), stage.count(RequestEnd::Dropped)) {
        (0, _) => "0".to_owned(),
        (failed, 0) => failed.to_string(),
        (failed, dropped) => format!("{failed} ({dropped} dropped)"),
    }
}

/// The load in words, with a mark where the stage is not trusted.
fn load_name(stage: &StageFigures) -> String {
    let mark = if stage.is_trusted() { "" } else { " (?)" };
    format!("{}{mark}", or_dash(stage.load(), |load| load.to_string()))
}

/// A quantile with half its interval in per cent; `~` where the sample is small for it.
fn estimate(of: &Quantiles, estimate: &IntervalEstimate, p: f64) -> String {
    let width = estimate.half_width().map_or(String::new(), |share| format!(" ±{:.0} %", share * 100.0));
    format!("{}{}{width}", mark(of.n, p), millis(estimate.value))
}

/// With the reason where it is left out.
fn p99(of: Quantiles) -> String {
    figure_or_count(of.n, || or_dash(of.p99, |p99| estimate(&of, &p99, 0.99)))
}

fn figure_or_count(n: usize, p99: impl Fn() -> String) -> String {
    insufficient_for_p99(n).map_or_else(p99, |why| why.to_string())
}

fn mark(n: usize, p: f64) -> &'static str {
    if is_firm(n as f64, p) { "" } else { "~" }
}

fn millis(ms: f64) -> String {
    match ms {
        ms if ms >= 10_000.0 => format!("{:.1} s", ms / 1e3),
        ms if ms >= 100.0 => format!("{ms:.0} ms"),
        ms => format!("{ms:.1} ms"),
    }
}

fn found_rate(found: &FoundRate, result: &RunResult) -> String {
    let share = found.attain * 100.0;
    let slo = result.slo.map_or(String::new(), |slo| slo.to_string());
    let text = match (found.passes, found.fails) {
        (Some(low), Some(high)) => format!("≥ {low:.3}/s passes, ≤ {high:.3}/s fails"),
        (Some(low), None) => format!("≥ {low:.3}/s passes; no rate was found that fails"),
        (None, Some(high)) => format!("≤ {high:.3}/s fails; no rate was found that passes"),
        (None, None) => "undecided: no rate passes or fails for certain".to_owned(),
    };
    let missed = found.first_missed.map_or(String::new(), |target| format!("; {} breaks first", target.as_str()));
    let open: Vec<String> = found.undecided().iter().map(|rate| format!("{rate:.3}/s")).collect();
    let open = match open.as_slice() {
        [] => String::new(),
        open => format!("; undecided: {} (a longer --duration decides more)", open.join(", ")),
    };
    format!("{}: {share:.0} % of the requests meet {slo} at once: {text}{missed}{open}", found.target)
}

fn comparison(found: &LoadComparison) -> String {
    let off = (found.ratio.value - 1.0) * 100.0;
    let margin = found.margin * 100.0;
    let verdict = match found.verdict {
        LoadVerdict::Better => "better".to_owned(),
        LoadVerdict::Worse => "worse".to_owned(),
        LoadVerdict::Same => format!("the same within {margin:.0} %"),
        LoadVerdict::CannotTell { .. } if found.figure == ComparedFigure::Rate => {
            "cannot tell: a longer --duration might".to_owned()
        }
        LoadVerdict::CannotTell { more } => format!("cannot tell: about {more} more requests of each would"),
    };
    let between = match (found.ratio.low, found.ratio.high) {
        (Some(low), Some(high)) => format!(" ({:+.1} to {:+.1} %)", (low - 1.0) * 100.0, (high - 1.0) * 100.0),
        _ => String::new(),
    };
    let pairs = found.pairs.map_or(String::new(), |pairs| format!(", {pairs} pairs"));
    format!(
        "{} against {}, {}: {} {off:+.1} %{between}{pairs}: {verdict}",
        found.other,
        found.base,
        found.load,
        found.figure.label()
    )
}

/// How an open and a closed loop differ, and what bounds an open one.
pub fn hint(plan: &BenchPlan) -> Option<String> {
    if matches!(plan.levels, Levels::Users(_)) {
        let text = "closed loop: each user waits for its answer, so a slow server gets fewer requests; --request-rate shows queues";
        return Some(text.to_owned());
    }
    let (allowed, limit) = (plan.in_flight_allowed(), machine::descriptors());
    (allowed < plan.in_flight_max).then(|| {
        format!("at most {allowed} requests in flight: the limit is {limit} file descriptors (ulimit -n); arrivals beyond are dropped")
    })
}

#[cfg(test)]
mod tests;
