//! The sections of the page and their words. All text is plain: `page` escapes it.

use std::collections::BTreeMap;

use super::judged::JudgedCalls;
use super::page::{ChartLine, LINES_MAX, PageBlock, PageChart};
use crate::cli::text::{counted, mark, or_dash};
use photofinish_facts::estimate::cost::Cost;
use photofinish_history::report::probes::{LoadLevel, MeasuredLoad, ProbeReport, ProbedFigure, ProbedUpstream};
use photofinish_history::report::verdicts::{HostVerdicts, age};
use photofinish_history::store::VerdictRow;

pub const TITLE: &str = "Measured LLM providers";

/// What to do where nothing was measured.
pub const NOTHING: &str = "no probe and no benchmark is in the history of that time (--since). Send probes with `photofinish probe`, or a few \
                           times a day from the gateway with a table [probes]; measure under load with `photofinish bench`";

/// How it was measured, and what differs elsewhere.
const METHOD: [&str; 8] = [
    "A probe is one request of a fixed size to one upstream, sent the way of a client's request: same connections, same clock, \
     same definitions. It is streamed and read to its end. A ping before it opens the connection, so the handshake is in no TTFT; \
     the time of the ping itself is reported separately, as TTFT after idle. A probe of several requests at once is one sample: the median of \
     their figures.",
    "TTFT is the first token minus dispatch; headers, role chunks, comments and empty events are no token. tok/s is the speed of \
     decoding for one user, (tokens − those of the first event) / (last token − first token), by the token count that the provider \
     reports. End-to-end is the last token minus dispatch. An answer whose tokens the provider sent at once has no tok/s.",
    "A quantile is the smallest value that at least its share of the values does not exceed. A median is followed by its 95 % interval, \
     by ranks: it assumes no distribution, but independent probes. It is left out where the number of probes (n) cannot bear it: \
     below 6 for a median, 36 for p90, 72 for p95. A p99 needs 662 values. ~ marks a quantile with fewer than ten values beyond it.",
    "At 8 probes a day, 72 hours are 24 probes: the interval of the median then reaches from the 7th to the 18th value, and p5 and p95 \
     have none. They have one after 72 probes: 9 days.",
    "Failed probes are in no time and are counted by themselves; one of several requests fails if one of them does. So are answers \
     shorter than 80 % of the tokens that were asked for, whose times stay in. Probes that were skipped for the day's cap, or because \
     clients used the upstream, leave no row: only the metric probe_runs_total counts them.",
    "Artificial Analysis asks the same sizes (1k, 10k, 100k tokens) as often, and also reports medians of 72 hours. It counts the tokens of \
     every model with one tokenizer (o200k), so its tok/s differs where a provider's own count does, and it divides by the time after the \
     first chunk without taking out the tokens in it. Where it measures from differs from this place.",
    "MLPerf Endpoints reports p90, not medians: ttft_p90_ms, and tps_per_user as 1000 / tpot_p90_ms, at given concurrencies over 10 to 20 \
     minutes. The levels of load below are the nearest to it.",
    "Load: users wait for their answers (closed loop), or requests arrive at a rate whatever comes back (open loop). Goodput counts \
     requests that met every target. A level at which the client itself may have been the limit is marked as not trusted. n is the number of answered requests; the intervals count requests that \
     depend on each other as fewer.",
];

/// How the values of a figure are written.
type FigureText = fn(f64) -> String;
/// One figure of an upstream.
type FigureOf = fn(&ProbedUpstream) -> &ProbedFigure;

/// The whole page.
pub fn page(report: &ProbeReport) -> Vec<PageBlock> {
    let mut page = vec![PageBlock::Heading(1, TITLE.to_owned()), PageBlock::Paragraph(scope(report))];
    let mut models: Vec<&str> = report.upstreams.iter().map(|upstream| upstream.model.as_str()).collect();
    models.dedup();
    if !models.is_empty() {
        page.push(PageBlock::Heading(2, "TTFT, tokens per second, end-to-end".to_owned()));
    }
    for model in models {
        page.push(PageBlock::Heading(3, model.to_owned()));
        page.push(three_numbers(&of_model(report, model)));
    }
    if !report.upstreams.is_empty() {
        page.extend([PageBlock::Heading(2, "Spread".to_owned()), spread(report)]);
        let charts = charts(report, "medians", over_time);
        page.extend((!charts.is_empty()).then(|| PageBlock::Heading(2, "Over time".to_owned())));
        page.extend(charts);
        page.extend(by_hour(report));
    }
    page.extend(after_idle(report));
    page.extend(under_load(&report.loads));
    page.extend(counts(report));
    page.push(PageBlock::Heading(2, "Method".to_owned()));
    page.extend(METHOD.map(|text| PageBlock::Paragraph(text.to_owned())));
    page
}

/// What `photofinish verify` found; nothing if it never ran.
pub fn verified(found: &[HostVerdicts], now_us: i64) -> Vec<PageBlock> {
    if found.is_empty() {
        return Vec::new();
    }
    let mut table = vec![["model", "host", "verified", "differs from the reference in"].map(str::to_owned).to_vec()];
    table.extend(found.iter().map(|host| {
        let one = |row: &VerdictRow| match row.detail.as_str() {
            "" => row.fact.clone(),
            detail => format!("{} ({detail})", row.fact),
        };
        let wrong: Vec<String> = host.wrong.iter().map(one).collect();
        let differs = if wrong.is_empty() { format!("nothing, in {} facts", host.said) } else { wrong.join("; ") };
        vec![host.model.clone(), host.host.clone(), age(host.at, now_us), differs]
    }));
    let about = "By photofinish verify: the newest verdict about each fact. A difference is no judgement of quality.";
    vec![PageBlock::Heading(2, "Facts".to_owned()), PageBlock::Paragraph(about.to_owned()), PageBlock::Table(table)]
}

/// Broken calls in the traffic of clients; nothing if no answer was checked.
pub(super) fn judged(found: &[JudgedCalls]) -> Vec<PageBlock> {
    if found.is_empty() {
        return Vec::new();
    }
    let mut table = vec![row(&["upstream", "checked answers", "broken", "share", "95 % bounds"])];
    table.extend(found.iter().map(|of| {
        let [share, low, high] = of.share.map(|share| format!("{:.1} %", 100.0 * share));
        vec![of.upstream.clone(), of.judged.to_string(), of.broken.to_string(), share, format!("{low} to {high}")]
    }));
    let about = "Answers to clients' requests with tools or a schema. Hosts got different requests, and losers are not checked.";
    vec![PageBlock::Heading(2, "Calls".to_owned()), PageBlock::Paragraph(about.to_owned()), PageBlock::Table(table)]
}

fn scope(report: &ProbeReport) -> String {
    let from = report.place.as_ref().map_or(String::new(), |place| format!(" From {place}."));
    let answered: usize = report.upstreams.iter().map(|upstream| upstream.answered).sum();
    let what = match report.upstreams[..] {
        [] => "no answered probe".to_owned(),
        _ => format!("{}, medians with their 95 % intervals", counted(answered as u64, "answered probe")),
    };
    format!(
        "{} to {} UTC: {what}.{from} Definitions {}, photofinish {}.",
        minutes(&report.since),
        minutes(&report.until),
        report.definitions,
        env!("CARGO_PKG_VERSION")
    )
}

/// The fastest first, by workload.
fn of_model<'r>(report: &'r ProbeReport, model: &str) -> Vec<&'r ProbedUpstream> {
    let mut of_model: Vec<&ProbedUpstream> =
        report.upstreams.iter().filter(|upstream| upstream.model == model).collect();
    let ttft = |upstream: &ProbedUpstream| upstream.ttft_ms.p50.unwrap_or(f64::INFINITY);
    of_model.sort_by(|a, b| a.workload.cmp(&b.workload).then(ttft(a).total_cmp(&ttft(b))));
    of_model
}

fn three_numbers(upstreams: &[&ProbedUpstream]) -> PageBlock {
    let mut rows = vec![row(&["upstream", "workload", "TTFT p50", "tok/s p50", "end-to-end p50", "n"])];
    rows.extend(upstreams.iter().map(|upstream| {
        vec![
            upstream.upstream.clone(),
            upstream.workload.clone(),
            median(&upstream.ttft_ms, duration),
            median(&upstream.tok_s, speed),
            median(&upstream.end_to_end_ms, duration),
            upstream.answered.to_string(),
        ]
    }));
    PageBlock::Table(rows)
}

/// With its interval if there is one.
fn median(figure: &ProbedFigure, shown: FigureText) -> String {
    let marked = figure.p50.map_or("", |_| mark(figure.samples as f64, 0.5));
    format!("{marked}{}", estimate([figure.p50, figure.p50_low, figure.p50_high], shown))
}

fn spread(report: &ProbeReport) -> PageBlock {
    let mut rows = vec![row(&["upstream", "workload", "figure", "p5", "p25", "p50", "p75", "p95", "p95 lies in", "n"])];
    for upstream in &report.upstreams {
        let figures: [(&str, &ProbedFigure, FigureText); 3] = [
            ("TTFT", &upstream.ttft_ms, duration),
            ("tok/s", &upstream.tok_s, speed),
            ("end-to-end", &upstream.end_to_end_ms, duration),
        ];
        for (name, figure, shown) in figures {
            let at = |value: Option<f64>, p: f64| {
                or_dash(value, |value| format!("{}{}", mark(figure.samples as f64, p), shown(value)))
            };
            let interval = figure.p95_low.zip(figure.p95_high);
            rows.push(vec![
                upstream.upstream.clone(),
                upstream.workload.clone(),
                name.to_owned(),
                at(figure.p5, 0.05),
                at(figure.p25, 0.25),
                at(figure.p50, 0.5),
                at(figure.p75, 0.75),
                at(figure.p95, 0.95),
                or_dash(interval, |(low, high)| format!("{} to {}", shown(low), shown(high))),
                figure.samples.to_string(),
            ]);
        }
    }
    PageBlock::Table(rows)
}

/// The points of one figure of a report.
type Points = fn(&ProbeReport, &ProbedFigure) -> Vec<(f64, f64)>;

/// For each model and workload one of TTFT and one of tok/s; several where there are many upstreams.
fn charts(report: &ProbeReport, what: &str, points: Points) -> Vec<PageBlock> {
    let same = |a: &ProbedUpstream, b: &ProbedUpstream| a.model == b.model && a.workload == b.workload;
    let mut charts = Vec::new();
    for group in report.upstreams.chunk_by(same).flat_map(|group| group.chunks(LINES_MAX)) {
        let Some(first) = group.first() else { continue };
        let figures: [(&str, &'static str, FigureOf); 2] =
            [("TTFT", "ms", |upstream| &upstream.ttft_ms), ("tok/s", "", |upstream| &upstream.tok_s)];
        for (name, unit, figure) in figures {
            let line =
                |upstream: &ProbedUpstream| ChartLine::new(upstream.upstream.clone(), points(report, figure(upstream)));
            let lines: Vec<ChartLine> = group.iter().map(line).filter(|line| !line.points.is_empty()).collect();
            if !lines.is_empty() {
                let title = format!("{name} of {}, {}, {what}", first.model, first.workload);
                charts.push(PageBlock::Chart(PageChart { title, unit, lines, marks: ends(report, what) }));
            }
        }
    }
    charts
}

fn ends(report: &ProbeReport, what: &str) -> Vec<(f64, String)> {
    let (from, to) = match what {
        BY_HOUR => ("00:00".to_owned(), "23:00 UTC".to_owned()),
        _ => (minutes(&report.since), format!("{} UTC", minutes(&report.until))),
    };
    vec![(0.0, from), (1.0, to)]
}

fn over_time(report: &ProbeReport, figure: &ProbedFigure) -> Vec<(f64, f64)> {
    let (first_us, length_us) = (report.since_us as f64, (report.until_us - report.since_us).max(1) as f64);
    let place = |start_us: i64| ((start_us as f64 - first_us) / length_us).clamp(0.0, 1.0);
    figure.steps.iter().map(|step| (place(step.start_us), step.p50)).collect()
}

const BY_HOUR: &str = "medians by hour of the day";

fn by_hour(report: &ProbeReport) -> Vec<PageBlock> {
    let points = |_: &ProbeReport, figure: &ProbedFigure| -> Vec<(f64, f64)> {
        figure.by_hour.iter().map(|hour| (hour.hour as f64 / 23.0, hour.p50)).collect()
    };
    let charts = charts(report, BY_HOUR, points);
    if charts.is_empty() {
        return Vec::new();
    }
    let mut rows = vec![row(&["upstream", "workload", "best hour", "TTFT p50", "n", "worst hour", "TTFT p50", "n"])];
    for upstream in &report.upstreams {
        let hours = &upstream.ttft_ms.by_hour;
        let (Some(best), Some(worst)) =
            (hours.iter().min_by(|a, b| a.p50.total_cmp(&b.p50)), hours.iter().max_by(|a, b| a.p50.total_cmp(&b.p50)))
        else {
            continue;
        };
        let cells = [best, worst].map(|hour| {
            let shown = format!("{}{}", mark(hour.samples as f64, 0.5), duration(hour.p50));
            [format!("{:02}:00", hour.hour), shown, hour.samples.to_string()]
        });
        rows.push(
            [upstream.upstream.clone(), upstream.workload.clone()]
                .into_iter()
                .chain(cells.into_iter().flatten())
                .collect(),
        );
    }
    let heading = PageBlock::Heading(2, "By hour of the day, UTC".to_owned());
    [heading, PageBlock::Table(rows)].into_iter().chain(charts).collect()
}

/// What the pings before the probes show.
fn after_idle(report: &ProbeReport) -> Vec<PageBlock> {
    if report.pings.is_empty() {
        return Vec::new();
    }
    let mut rows = vec![row(&["upstream", "model", "TTFT p50", "n", "failed", "failures"])];
    rows.extend(report.pings.iter().map(|pings| {
        let marked = pings.ttft_p50_ms.map_or("", |_| mark(pings.samples as f64, 0.5));
        let ttft = estimate([pings.ttft_p50_ms, pings.ttft_p50_low_ms, pings.ttft_p50_high_ms], duration);
        vec![
            pings.upstream.clone(),
            pings.model.clone(),
            format!("{marked}{ttft}"),
            pings.samples.to_string(),
            pings.failed.to_string(),
            kinds(&pings.failures),
        ]
    }));
    let about = "Of the pings that open the connection before each probe: with the handshake. After a failed one nothing more is sent.";
    vec![
        PageBlock::Heading(2, "TTFT after idle".to_owned()),
        PageBlock::Paragraph(about.to_owned()),
        PageBlock::Table(rows),
    ]
}

fn kinds(failures: &BTreeMap<String, usize>) -> String {
    let failures: Vec<String> = failures.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    failures.join(", ")
}

fn counts(report: &ProbeReport) -> Vec<PageBlock> {
    if report.upstreams.is_empty() && report.pings.is_empty() && report.skipped.is_empty() {
        return Vec::new();
    }
    let mut rows = vec![row(&["upstream", "workload", "answered", "failed", "short", "cost", "failures"])];
    rows.extend(report.upstreams.iter().map(|upstream| {
        vec![
            upstream.upstream.clone(),
            upstream.workload.clone(),
            upstream.answered.to_string(),
            upstream.failed.to_string(),
            upstream.short.to_string(),
            upstream.cost.to_string(),
            kinds(&upstream.failures),
        ]
    }));
    let mut blocks = vec![PageBlock::Heading(2, "Failures, short answers and cost".to_owned()), PageBlock::Table(rows)];
    if !report.skipped.is_empty() {
        let skipped: Vec<String> = report.skipped.iter().map(|(model, count)| format!("{model} {count}")).collect();
        blocks
            .push(PageBlock::Paragraph(format!("Not sent, since no upstream could take it: {}.", skipped.join(", "))));
    }
    let all = report.cost;
    blocks.push(PageBlock::Paragraph(format!("All probes of the window, with their pings: {all}.")));
    blocks
}

/// The last benchmarks: their levels, and the highest rates that pass.
fn under_load(loads: &[MeasuredLoad]) -> Vec<PageBlock> {
    if loads.is_empty() {
        return Vec::new();
    }
    let mut blocks = vec![PageBlock::Heading(2, "Under load".to_owned())];
    for load in loads {
        blocks.push(PageBlock::Heading(3, format!("{}, {}", load.target, load.workload)));
        blocks.push(PageBlock::Paragraph(about_run(load)));
        if !load.levels.is_empty() {
            blocks.push(levels(load));
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
    let cost = if load.cost == Cost::default() { String::new() } else { format!(" It cost {}.", load.cost) };
    format!("Run {}{label}, {} UTC.{machine}{trust}{cost}", load.run_id, minutes(&load.started))
}

fn levels(load: &MeasuredLoad) -> PageBlock {
    let mut rows = vec![row(&[
        "target",
        "load",
        "n",
        "TTFT p50",
        "TTFT p99",
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
            level.ttft_p99_insufficient.map_or_else(|| or_dash(level.ttft_p99_ms, duration), |why| why.to_string()),
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

/// `2026-01-02T03:04:05Z` as `2026-01-02 03:04`.
fn minutes(time: &str) -> String {
    time.get(..16).unwrap_or(time).replace('T', " ")
}

fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

/// A value with its 95 % interval, if there is one.
fn estimate([value, low, high]: [Option<f64>; 3], shown: impl Fn(f64) -> String) -> String {
    let interval = low.zip(high).map_or(String::new(), |(low, high)| format!(" ({} to {})", shown(low), shown(high)));
    or_dash(value, |value| format!("{}{interval}", shown(value)))
}

fn duration(ms: f64) -> String {
    if ms < 999.5 { format!("{ms:.0} ms") } else { format!("{:.2} s", ms / 1e3) }
}

fn speed(tok_s: f64) -> String {
    if tok_s < 99.95 { format!("{tok_s:.1}") } else { format!("{tok_s:.0}") }
}
