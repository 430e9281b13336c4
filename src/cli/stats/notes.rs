//! The words below the table: a few lines, or, with `--wide` and `--explain`, everything that was read and left out.
//!
//! Not for definitions: `--explain` and `docs/measurement.md` have them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;

use crate::cli::sheet::Sheet;
use crate::cli::text::{clean, counted, write_paragraph, write_paragraphs};
use photofinish_base::clock::wall_micros;
use photofinish_config::units::format_duration;
use photofinish_config::{Config, StoreAddress};
use photofinish_facts::estimate::class::Input;
use photofinish_facts::estimate::cost::{Cost, CostSum};
use photofinish_facts::estimate::goodput::SloTargets;
use photofinish_facts::record::LeftOutReason;
use photofinish_history::report::dimension::Dimension;
use photofinish_history::report::figures::{GroupFigures, TimeFigures};
use photofinish_history::report::question::{span, time};
use photofinish_history::report::stats::{Stats, StatsQuestion};
use photofinish_history::store::{AttemptFilter, Coverage, SourceFilter, set_aside_files};

/// Shares of a size of requests that differ by this much are mentioned.
const SIZES_DIFFER: f64 = 0.1;
/// Kinds of failures in the short notes; three fit a line.
const BRIEF_KINDS: usize = 3;

/// Instead of an empty table. `hour`: the whole hours that are left of the window. `width`: of the terminal; none for a
/// pipe.
pub(in crate::cli) fn write_nothing(
    store: &StoreAddress,
    filter: &AttemptFilter,
    (hour, attempts_running, coverage): (Option<(i64, i64)>, u64, &Coverage),
    width: Option<usize>,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let (what, advice) = if let Some(running) = running(attempts_running) {
        (format!("No attempts in {store} of races that have ended: {}.", wanted(filter)), running)
    } else if let Some((from_us, until_us)) = hour {
        let (from, until) = (time(from_us), time(until_us));
        let advice = format!("Rows of that time are gone, whole hours are left: ask --since {from} --until {until}.");
        (format!("No attempts in {store}: {}.", wanted(filter)), advice)
    } else if let Some(ahead) = ahead(coverage) {
        (format!("No attempts in {store}: {}.", wanted(filter)), ahead)
    } else if *filter == AttemptFilter::default() {
        let advice = "Send a request to `photofinish serve`; its rows are written 50 ms after its last attempt ends.";
        (format!("No attempts in {store} yet."), advice.to_owned())
    } else {
        let advice = "Ask for more: a longer --since, another --until, --model, --provider or --user, or none of them.";
        (format!("No attempts in {store}: {}.", wanted(filter)), advice.to_owned())
    };
    write_paragraph(&what, width, out)?;
    write_paragraph(&advice, width, out)
}

/// Rows of the window that may be in a damaged database.
pub(in crate::cli) fn set_aside(store: &StoreAddress, filter: &AttemptFilter) -> Option<String> {
    let aside =
        set_aside_files(store.file()?).pop().filter(|aside| filter.since.is_none_or(|since| since < aside.at_us))?;
    let (at, name) = (time(aside.at_us), aside.name);
    Some(format!("Rows before {at} may be missing: {name} was damaged, and was set aside with what it had."))
}

/// The window, what the figures are of, and the failures, a line each, then the marks and where to find more.
pub(super) fn write_brief(
    (question, config): (&StatsQuestion, &Config),
    answer: &Stats,
    marks: &str,
    width: Option<usize>,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let (from_us, until_us) = answer.span_us;
    let has_several = question.by.contains(&Dimension::Upstream) && answer.groups.len() > 1;
    let as_asked = if has_several { ", as asked" } else { "" };
    let window = format!("{}{as_asked}, {}", counted(answer.attempts, "attempt"), span(from_us, until_us));
    let has = |times: fn(&GroupFigures) -> &TimeFigures| answer.groups.iter().any(|figures| !times(figures).is_empty());
    let hides_whole = has(|figures| &figures.ttft) && has(|figures| &figures.whole);
    let lines = [
        Some(format!("{window}{}.", only(&answer.filter))),
        sizes(&answer.groups).filter(|_| has_several),
        failures(&answer.groups, BRIEF_KINDS),
        ahead(&answer.coverage),
        spent(answer),
        answer.cancelled.about_range(&answer.cost()[0], config),
        Some(format!(
            "{marks}more: {}--wide{}{}",
            if has_several { "--compare, " } else { "" },
            if hides_whole { " (has plain answers)" } else { "" },
            // With --compare the line would be too long.
            if has_several { "" } else { ", --explain" },
        )),
    ];
    lines.into_iter().flatten().try_for_each(|line| write_paragraph(&line, width, out))
}

/// The size of requests in which groups differ most.
fn sizes(groups: &[GroupFigures]) -> Option<String> {
    let share = |figures: &GroupFigures, place: usize| {
        let known: u64 = figures.inputs.iter().sum();
        (known > 0).then(|| figures.inputs[place] as f64 / known as f64)
    };
    let extremes = |place: usize| {
        let shares = groups.iter().filter_map(|figures| Some((share(figures, place)?, figures)));
        let most = shares.clone().max_by(|a, b| a.0.total_cmp(&b.0))?;
        let least = shares.min_by(|a, b| a.0.total_cmp(&b.0))?;
        (most.0 - least.0 >= SIZES_DIFFER).then_some((place, most, least))
    };
    let widest = (0..Input::COUNT)
        .filter_map(extremes)
        .max_by(|(_, most, least), (_, more, less)| (most.0 - least.0).total_cmp(&(more.0 - less.0)));
    widest.map(|(place, most, least)| {
        let part = |(share, figures): (f64, &GroupFigures)| {
            let keys: Vec<String> = figures.keys.iter().map(|key| clean(&key.text())).collect();
            format!("{:.0} % of those to {}", 100.0 * share, keys.join(" "))
        };
        format!("Requests of {} tokens are {}, {}.", Input::at(place as u8).name(), part(most), part(least))
    })
}

/// What the marks in this table mean.
pub(super) fn marks(sheet: &Sheet) -> String {
    let marks = [("~", "~ few samples"), (">", "> cut before it came"), ("–", "– not known")];
    let there = marks.into_iter().filter(|(mark, _)| mark.chars().all(|mark| sheet.has(mark)));
    let words: Vec<&str> = there.map(|(_, words)| words).collect();
    if words.is_empty() { String::new() } else { format!("{}; ", words.join(", ")) }
}

/// A paragraph each.
pub(super) fn write(
    (question, config): (&StatsQuestion, &Config),
    answer: &Stats,
    left_out: &[(LeftOutReason, u64)],
    width: Option<usize>,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let about_range = answer.cancelled.about_range(&answer.cost()[0], config);
    let paragraphs = paragraphs(question, answer).into_iter().chain(about_range);
    write_paragraphs(paragraphs.chain(not_raced(left_out)), width, out)
}

/// What all cost, and what racing cost of it.
fn spent(answer: &Stats) -> Option<String> {
    let [all, racing] = answer.cost();
    all.min_usd().filter(|_| all.cost() != Cost::ZERO)?;
    let share = racing.cost().share_of_sum(&all.without(&racing).cost());
    let percent = share.map(|(least, most)| [least, most].map(|share| format!("{:.0}", 100.0 * share)));
    let percent = percent.map_or(String::new(), |[least, most]| match least == most {
        true => format!(" ({least} %)"),
        false => format!(" ({least} to {most} %)"),
    });
    Some(format!("Cost: {all}, of it racing {racing}{percent}."))
}

/// Upstreams that races could not start.
fn not_raced(left_out: &[(LeftOutReason, u64)]) -> Option<String> {
    let reasons: Vec<String> = left_out.iter().map(|(reason, count)| format!("{} {count}", reason.as_str())).collect();
    (!reasons.is_empty()).then(|| format!("Upstreams left out of races: {}.", reasons.join(", ")))
}

/// The targets of goodput.
pub(in crate::cli) fn targets(slo: &SloTargets) -> String {
    let ttft = slo.ttft_us.map(|us| format!("client TTFT ≤ {}", short(us as f64 / 1e6)));
    let tpot = slo.tpot_ms.map(|ms| format!("TPOT ≤ {}", short(ms / 1e3)));
    [ttft, tpot].into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

fn paragraphs(question: &StatsQuestion, answer: &Stats) -> Vec<String> {
    let (from_us, until_us) = answer.span_us;
    let attempts = counted(answer.attempts, "attempt");
    let of = only(&answer.filter);
    let window = format!("{attempts}, {} to {}{of}.", time(from_us), time(until_us));
    let notes = [
        Some(format!("{window} Goodput: {}.", targets(&question.slo))),
        Some(MARKS.to_owned()),
        source(question, answer),
        left_out(answer),
        failures(&answer.groups, usize::MAX),
    ];
    notes.into_iter().flatten().collect()
}

const MARKS: &str = "~ few samples, > cut off too often to say more, – not known, a–b bounds. Definitions: --explain.";

/// Where the figures come from, if not simply from the rows of the window.
fn source(question: &StatsQuestion, answer: &Stats) -> Option<String> {
    let rolled_up = answer.coverage.rolled_until.map(|until_us| {
        let exact = if question.exact { "" } else { " (--exact reads rows)" };
        format!("Before {} from roll-ups, times to 1.6 %{exact}.", time(until_us))
    });
    joined([rolled_up, moved(answer.whole_hours), ahead(&answer.coverage)])
}

fn left_out(answer: &Stats) -> Option<String> {
    let of_cost = |count: fn(&CostSum) -> u64| answer.groups.iter().map(|figures| count(&figures.cost)).sum::<u64>();
    let parts = [
        (answer.running, "attempt", " of races that still run"),
        (answer.without_attempts, "request", " without an attempt"),
        (answer.without_speed, "attempt", " without a usable tok/s"),
        (answer.without_verdict.round() as u64, "request", " without a TPOT"),
    ];
    let costs = [
        (of_cost(CostSum::unpriced), "attempt", " without a price"),
        (of_cost(CostSum::open), "attempt", " without an upper bound"),
    ];
    joined([list("Left out", &parts), spent(answer), list("Cost not known", &costs)])
}

pub(in crate::cli) fn list(head: &str, parts: &[(u64, &str, &str)]) -> Option<String> {
    let parts = parts.iter().filter(|(count, ..)| *count > 0);
    let parts: Vec<String> = parts.map(|(count, what, why)| counted(*count, what) + why).collect();
    (!parts.is_empty()).then(|| format!("{head}: {}.", parts.join("; ")))
}

/// By kind, the most frequent first, of all groups together; `--json` has them by group.
fn failures(groups: &[GroupFigures], kinds: usize) -> Option<String> {
    let mut counts = BTreeMap::<&str, u64>::new();
    for (kind, count) in groups.iter().flat_map(|figures| &figures.failure_kinds) {
        *counts.entry(kind.as_str()).or_default() += count;
    }
    let mut counts: Vec<(&str, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    let shown: Vec<String> = counts.iter().take(kinds).map(|(kind, count)| format!("{kind} {count}")).collect();
    let more = if shown.len() < counts.len() { ", …" } else { "." };
    (!shown.is_empty()).then(|| format!("Failures by kind: {}{more}", shown.join(", ")))
}

fn joined(parts: impl IntoIterator<Item = Option<String>>) -> Option<String> {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

/// Why the window is not the requested one.
pub(in crate::cli) fn moved(whole_hours: Option<(i64, i64)>) -> Option<String> {
    let (from_us, until_us) = whole_hours?;
    let (from, until) = (time(from_us), time(until_us.min(wall_micros())));
    Some(format!("Rows at an end of the window are gone; whole hours were read: {from} to {until}."))
}

/// What is dated after now.
pub(in crate::cli) fn ahead(coverage: &Coverage) -> Option<String> {
    let until = time(coverage.ahead_until?);
    Some(format!("Left out: attempts dated after now, up to {until}: a clock was ahead."))
}

/// Attempts of races without an end.
pub(in crate::cli) fn running(attempts: u64) -> Option<String> {
    let attempts = (attempts > 0).then(|| counted(attempts, "attempt"))?;
    Some(format!("Left out: {attempts} of races that still run."))
}

fn short(seconds: f64) -> String {
    std::time::Duration::try_from_secs_f64(seconds).map(format_duration).unwrap_or_default()
}

pub(in crate::cli) fn wanted(filter: &AttemptFilter) -> String {
    let races = match (filter.since, filter.until) {
        (None, None) => "all races".to_owned(),
        (Some(since), None) => format!("races begun since {}", time(since)),
        (None, Some(until)) => format!("races begun before {}", time(until)),
        (Some(since), Some(until)) => format!("races begun since {} and before {}", time(since), time(until)),
    };
    races + &only(filter)
}

/// What the attempts were narrowed to, with a comma in front.
pub(in crate::cli) fn only(filter: &AttemptFilter) -> String {
    let named = [("model", &filter.model), ("provider", &filter.provider), ("user", &filter.user)];
    let named = named.iter().filter_map(|(what, value)| Some(format!(", {what} {}", value.as_ref()?)));
    let source = (filter.source != SourceFilter::Client).then(|| format!(", source {}", filter.source.as_str()));
    named.chain(source).collect()
}
