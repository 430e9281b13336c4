//! The section about the last benchmarks: their levels as a table and as curves. Not for probes: see `words`.

use super::cells::{duration, estimate, minutes, row, speed};
use super::page::{ChartLine, LINES_MAX, PageBlock, PageChart};
use crate::cli::text::{amount, counted, or_dash};
use photofinish_history::report::probes::{LoadLevel, MeasuredLoad};

/// Marks below an axis are at least so far apart, as a share of it.
const MARKS_APART: f64 = 0.07;

/// What is drawn of a level, by its name and unit.
type LoadCurve = (&'static str, &'static str, fn(&LoadLevel) -> Option<f64>);
const CURVES: [LoadCurve; 4] = [
    ("TTFT p50", "ms", |level| level.ttft_p50_ms),
    ("tok/s of one", "", |level| level.tok_s_p50),
    ("tok/s of all", "", |level| level.tok_s_all),
    ("goodput", "/s", |level| level.goodput_per_s),
];
/// The axis: users, or arrivals per second.
type LoadOf = fn(&LoadLevel) -> Option<f64>;

pub fn blocks(loads: &[MeasuredLoad]) -> Vec<PageBlock> {
    if loads.is_empty() {
        return Vec::new();
    }
    let mut blocks = vec![PageBlock::Heading(2, "Under load".to_owned())];
    for load in loads {
        blocks.push(PageBlock::Heading(3, format!("{}, {}", load.target, load.workload)));
        blocks.push(PageBlock::Paragraph(about_run(load)));
        if !load.levels.is_empty() {
            blocks.push(levels(load));
            blocks.extend(curves(load));
        }
        for found in &load.found {
            let rate = |rate: Option<f64>| or_dash(rate, |rate| format!("{rate:.1}/s"));
            let missed =
                found.first_missed.as_ref().map_or(String::new(), |missed| format!(" {missed} is missed first."));
            let share = or_dash(found.attain, |share| format!("{:.0} %", share * 100.0));
            blocks.push(PageBlock::Paragraph(format!(
                "{}: {} passes, {} fails, where {share} of the requests had to meet every target.{missed}",
                found.target,
                rate(found.passes_per_s),
                rate(found.fails_per_s)
            )));
        }
    }
    blocks
}

fn about_run(load: &MeasuredLoad) -> String {
    let label = load.label.as_ref().map_or(String::new(), |label| format!(" ({label})"));
    let machine = load.machine.as_ref().map_or(String::new(), |machine| format!(" On {machine}."));
    let trust = match load.trust.as_deref() {
        Some("trusted") => " The client was fast enough.".to_owned(),
        Some(doubt) => format!(" Doubtful: {doubt}."),
        None => String::new(),
    };
    let cost = load.cost_usd.map_or(String::new(), |usd| format!(" It cost ${}.", amount(usd, usd)));
    format!("Run {}{label}, {} UTC.{machine}{trust}{cost}", load.run_id, minutes(&load.started))
}

fn levels(load: &MeasuredLoad) -> PageBlock {
    let mut rows = vec![row(&[
        "target",
        "load",
        "n",
        "TTFT p50",
        "tok/s of one",
        "tok/s of all",
        "end-to-end p50",
        "goodput",
        "in time",
        "trusted",
    ])];
    rows.extend(load.levels.iter().map(|level| {
        vec![
            level.target.clone(),
            load_of(level),
            or_dash(level.answered, |answered| answered.to_string()),
            estimate([level.ttft_p50_ms, level.ttft_p50_low_ms, level.ttft_p50_high_ms], duration),
            estimate([level.tok_s_p50, level.tok_s_p50_low, level.tok_s_p50_high], speed),
            or_dash(level.tok_s_all, speed),
            estimate([level.end_to_end_p50_ms, level.end_to_end_p50_low_ms, level.end_to_end_p50_high_ms], duration),
            or_dash(level.goodput_per_s, |goodput| format!("{goodput:.2}/s")),
            estimate([level.attainment, level.attainment_low, level.attainment_high], |share| {
                format!("{:.1} %", share * 100.0)
            }),
            if level.trusted { "yes" } else { "no" }.to_owned(),
        ]
    }));
    PageBlock::Table(rows)
}

fn load_of(level: &LoadLevel) -> String {
    match (level.users, level.request_rate) {
        (Some(users), _) => counted(users, "user"),
        (None, Some(rate)) => format!("{rate}/s"),
        (None, None) => String::new(),
    }
}

/// For users, and for arrivals per second, one chart of each figure; several where there are many targets.
fn curves(load: &MeasuredLoad) -> Vec<PageBlock> {
    let mut targets: Vec<&str> = Vec::new();
    for level in &load.levels {
        if !targets.contains(&level.target.as_str()) {
            targets.push(&level.target);
        }
    }
    let axes: [(&str, LoadOf); 2] = [
        ("users at once", |level| level.users.map(|users| users as f64)),
        ("arrivals per second", |level| level.request_rate.filter(|_| level.users.is_none())),
    ];
    let mut charts = Vec::new();
    for (axis, of_level) in axes {
        for targets in targets.chunks(LINES_MAX) {
            charts.extend(CURVES.iter().filter_map(|curve| chart(load, targets, curve, (axis, of_level))));
        }
    }
    charts
}

/// None: no target has two levels.
fn chart(
    load: &MeasuredLoad,
    targets: &[&str],
    (figure, unit, value): &LoadCurve,
    (axis, of_level): (&str, LoadOf),
) -> Option<PageBlock> {
    let points_of = |target: &&str| {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for level in load.levels.iter().filter(|level| level.in_curve && level.target == **target) {
            let Some(point) = of_level(level).zip(value(level)) else { continue };
            // The first level runs again at the end, to show a drift.
            if points.iter().all(|known| known.0 != point.0) {
                points.push(point);
            }
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        ((*target).to_owned(), points)
    };
    let lines: Vec<(String, Vec<(f64, f64)>)> =
        targets.iter().map(points_of).filter(|(_, points)| points.len() > 1).collect();
    let mut loads: Vec<f64> = lines.iter().flat_map(|(_, points)| points).map(|point| point.0).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    let (least, most) = (*loads.first()?, *loads.last()?);
    let place = |load: f64| (load - least) / (most - least);
    let on_axis = |points: Vec<(f64, f64)>| points.into_iter().map(|(load, value)| (place(load), value)).collect();
    Some(PageBlock::Chart(PageChart {
        title: format!("{figure} over {axis}"),
        unit,
        lines: lines.into_iter().map(|(name, points)| ChartLine::new(name, on_axis(points))).collect(),
        marks: marks(&loads, place),
    }))
}

/// Both ends, and between them each level for which there is room.
fn marks(loads: &[f64], place: impl Fn(f64) -> f64) -> Vec<(f64, String)> {
    let mut marks: Vec<(f64, String)> = Vec::new();
    for (at, load) in loads.iter().enumerate() {
        let (x, is_last) = (place(*load), at + 1 == loads.len());
        let has_room = |(before, _): &(f64, String)| x - before >= MARKS_APART && 1.0 - x >= MARKS_APART;
        if is_last || marks.last().is_none_or(has_room) {
            marks.push((x, load.to_string()));
        }
    }
    marks
}
