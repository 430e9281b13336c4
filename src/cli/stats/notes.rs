//! The words below the figures: what they are of, how they are defined and what was left out.

use std::io;
use std::path::Path;

use super::table::write_wrapped;
use crate::cli::plot::{clean, fitted};
use crate::clock::wall_micros;
use crate::config::units::format_duration;
use crate::failure::FailureKind;
use crate::history::cost::CostSum;
use crate::history::goodput::SloTargets;
use crate::report::dimension::Dimension;
use crate::report::figures::GroupFigures;
use crate::report::question::time;
use crate::report::stats::{Stats, StatsQuestion};
use crate::store::AttemptFilter;

/// Longer lines are hard to read.
const WIDTH: usize = 110;

/// Instead of an empty table. The hour: of which only the whole is left. `width`: of the terminal, if it is for one.
pub(in crate::cli) fn write_nothing(
    path: &Path,
    filter: &AttemptFilter,
    (hour, attempts_running): (Option<(i64, i64)>, u64),
    width: Option<usize>,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let path = path.display();
    if let Some(running) = running(attempts_running) {
        write_paragraph(&format!("No attempts in {path} of races that have ended: {}.", wanted(filter)), width, out)?;
        return write_paragraph(&running, width, out);
    }
    if let Some((from_us, until_us)) = hour {
        let (from, until) = (time(from_us), time(until_us));
        write_paragraph(&format!("No attempts in {path}: {}.", wanted(filter)), width, out)?;
        let advice =
            format!("Rows of that time are no longer kept, only whole hours: ask --since {from} --until {until}.");
        return write_paragraph(&advice, width, out);
    }
    let (what, advice) = if *filter == AttemptFilter::default() {
        let advice =
            "Send a request to `photofinish serve`; its attempts are rows some 50 ms after the last of them ended.";
        (format!("No attempts in {path} yet."), advice)
    } else {
        let advice = "Ask for more: a longer --since, another --until, --model, --provider or --user, or none of them.";
        (format!("No attempts in {path}: {}.", wanted(filter)), advice)
    };
    write_paragraph(&what, width, out)?;
    write_paragraph(advice, width, out)
}

/// In lines that a terminal of `width` has room for, a longer word being cut; in one line where it is for no terminal.
pub(super) fn write_paragraph(text: &str, width: Option<usize>, out: &mut impl io::Write) -> io::Result<()> {
    let width = width.map_or(usize::MAX, |width| width.min(WIDTH));
    write_cut(text, width, width, out)
}

fn write_cut(text: &str, word: usize, width: usize, out: &mut impl io::Write) -> io::Result<()> {
    let words: Vec<String> = clean(text).split(' ').map(|text| fitted(text, word)).collect();
    write_wrapped(&words, " ", "", width, out)
}

/// A paragraph each.
pub(super) fn write(
    question: &StatsQuestion,
    answer: &Stats,
    width: Option<usize>,
    out: &mut impl io::Write,
) -> io::Result<()> {
    write_paragraphs(paragraphs(question, answer), width, out)
}

/// Each in lines that `width` has room for, if there is one, and that can be read well.
pub(in crate::cli) fn write_paragraphs(
    paragraphs: impl IntoIterator<Item = String>,
    width: Option<usize>,
    out: &mut impl io::Write,
) -> io::Result<()> {
    for paragraph in paragraphs {
        // Piped it is wrapped too, but nothing is cut.
        write_cut(&paragraph, width.unwrap_or(usize::MAX), width.unwrap_or(WIDTH).min(WIDTH), out)?;
    }
    Ok(())
}

/// Of goodput.
pub(in crate::cli) fn targets(slo: &SloTargets) -> String {
    let ttft = slo.ttft_us.map(|us| format!("client TTFT ≤ {}", short(us as f64 / 1e6)));
    let tpot = slo.tpot_ms.map(|ms| format!("TPOT ≤ {}", short(ms / 1e3)));
    [ttft, tpot].into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

fn paragraphs(question: &StatsQuestion, answer: &Stats) -> Vec<String> {
    let mut notes = vec![format!("{}: {}.", counted(answer.attempts, "attempt"), wanted(&answer.filter))];
    if let Some(rolled_until) = answer.rolled_until {
        notes.push(format!(
            "Before {} out of hourly and daily histograms: counts and costs are exact, times are told to 1.6 %; where most \
             attempts were cut off, an estimate may fall on a neighbouring time.{}",
            time(rolled_until),
            if question.exact { "" } else { " --exact reads rows, as far as they are kept." }
        ));
    }
    notes.extend(moved(answer.whole_hours));
    notes.extend(running(answer.running));
    if answer.too_small > 0 {
        let (groups, least) = (counted(answer.too_small as u64, "group"), question.min_samples);
        notes.push(format!("Left out: {groups} of fewer than {least} attempts (--min-samples)."));
    }
    notes.push(failures(answer));
    notes.extend(question.by.iter().filter_map(|dimension| dimension.note()).map(str::to_owned));
    notes.push(
        "TTFT: first token − the attempt's own dispatch, estimated (Kaplan–Meier) with the censored attempts, which \
         were cut off before their first token. \"> x\": cut off too often to say more. TTFT n: first tokens that \
         were seen."
            .to_owned(),
    );
    notes.extend(weights(question));
    notes.push(speed(answer));
    notes.push(goodput(question, answer));
    if !question.by.contains(&Dimension::Upstream) {
        notes.push(
            "client TTFT: of clients that asked to stream. gain, of groups of one model: what the best upstream alone would \
             have given (estimated), less that; negative where it cost time."
                .to_owned(),
        );
    }
    notes.push(costs(answer));
    notes.push("~: from fewer than 10/(1−p) effective samples (p5: 10/p).".to_owned());
    notes
}

fn costs(answer: &Stats) -> String {
    let mut costs = "cost: of all attempts; extra: of the losers among them, so what racing cost. \"a–b\", \"≥\", \"≤\": between, at \
                     least, at most."
        .to_owned();
    let of_all = |count: fn(&CostSum) -> u64| answer.groups.iter().map(|figures| count(&figures.cost)).sum::<u64>();
    let unpriced = of_all(CostSum::unpriced);
    if unpriced > 0 {
        costs += &format!(" No price: {}, which count as 0 in a lower bound.", counted(unpriced, "attempt"));
    }
    let uncounted = of_all(CostSum::uncounted);
    if uncounted > 0 {
        costs +=
            &format!(" No counts: {} with a price, whose tokens nobody told or bounds.", counted(uncounted, "attempt"));
    }
    let is_unknown = |figures: &GroupFigures| figures.cost.usd().is_none() || figures.extra_cost.usd().is_none();
    if answer.groups.iter().any(is_unknown) {
        costs += " –: not known.";
    }
    costs
}

/// Why the window is not the one that was asked for.
pub(in crate::cli) fn moved(whole_hours: Option<(i64, i64)>) -> Option<String> {
    let (from_us, until_us) = whole_hours?;
    let (from, until) = (time(from_us), time(until_us.min(wall_micros())));
    Some(format!("Rows are no longer kept at an end of that window, so it is of whole hours: from {from} to {until}."))
}

/// Attempts that do not count yet.
pub(in crate::cli) fn running(attempts: u64) -> Option<String> {
    let attempts = (attempts > 0).then(|| counted(attempts, "attempt"))?;
    Some(format!("Left out: {attempts} of races that still run."))
}

/// Of which kind they were, group by group where there are some.
fn failures(answer: &Stats) -> String {
    let mut failures = "failures: failed, failed midway, timed out, refused.".to_owned();
    let kinds = |kinds: &[(FailureKind, u64)]| {
        kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect::<Vec<_>>().join(", ")
    };
    let groups = answer.groups.iter().filter(|figures| !figures.failure_kinds.is_empty());
    let of_group = groups.map(|figures| {
        let keys: Vec<String> = figures.keys.iter().map(|key| key.text()).collect();
        format!("{}: {}", keys.join(" "), kinds(&figures.failure_kinds))
    });
    let of_groups: Vec<String> = of_group.collect();
    if !of_groups.is_empty() {
        failures += &format!(" By kind: {}.", of_groups.join("; "));
    }
    failures
}

fn weights(question: &StatsQuestion) -> Option<String> {
    let half_life = question
        .half_life
        .map(|half_life| format!("Times count half as much for each {} of their age.", format_duration(half_life)));
    let strata = (!question.strata.is_empty()).then(|| {
        "TTFT is estimated by stratum, and the estimates are put together by the strata's shares of attempts."
            .to_owned()
    });
    let all: Vec<String> = [half_life, strata].into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join(" "))
}

fn speed(answer: &Stats) -> String {
    let mut speed =
        "tok/s: 1 / TPOT, the time per output token after the first, by the provider's own count; p5 is the \
                     slow end. tok/s n: attempts that both are from."
            .to_owned();
    if answer.without_speed > 0 {
        let left_out = counted(answer.without_speed, "attempt");
        speed += &format!(
            " Left out: {left_out} with a token but without a usable count, with a burst, or with several choices."
        );
    }
    speed
}

fn goodput(question: &StatsQuestion, answer: &Stats) -> String {
    let by_time = question.by.iter().any(|by| matches!(by, Dimension::Hour | Dimension::Weekday));
    let (from_us, until_us) = answer.span_us;
    let mut goodput = format!(
        "goodput: requests that finished well with {}, per second of {} to {}{}; attained: the same as a share of the \
         requests, which are those that the group answered, and those that it tried and nobody answered. Requests that \
         the client left count neither way.",
        targets(&question.slo),
        time(from_us),
        time(until_us),
        if by_time { " in that hour or on that weekday" } else { "" },
    );
    if answer.without_verdict > 0.0 {
        let left_out = counted(answer.without_verdict.round() as u64, "request");
        goodput += &format!(" Left out: {left_out} in time, but of unknown TPOT.");
    }
    if answer.without_attempts > 0 {
        let left_out = counted(answer.without_attempts, "request");
        goodput += &format!(
            " In no group: {left_out} without an attempt (rejected by the gateway, or all upstreams cooling down)."
        );
    }
    goodput
}

pub(in crate::cli) fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("{count} {what}") } else { format!("{count} {what}s") }
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
    let only = [("model", &filter.model), ("provider", &filter.provider), ("user", &filter.user)];
    only.iter().fold(races, |text, (what, value)| match value {
        Some(value) => format!("{text}, {what} {value}"),
        None => text,
    })
}
