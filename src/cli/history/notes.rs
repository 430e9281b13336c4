//! The notes below the picture: its attempts, the definition of its figure, and what was left out.
//!
//! Not for drawing.

use std::io;
use std::time::Duration;

use crate::cli::screen::ScreenSettings;
use crate::cli::stats::notes::{ahead, list, moved, only, targets, wanted};
use crate::cli::text::{counted, write_paragraphs};
use photofinish_config::names::NamedChoice as _;
use photofinish_config::units::format_duration;
use photofinish_history::report::dimension::Dimension;
use photofinish_history::report::question::time;
use photofinish_history::report::series::{
    Metric, SERIES_MAX, SeriesDimension, SeriesPoint, SeriesQuestion, SeriesReport,
};

/// No point has a value or a bound, so that there is nothing to draw.
pub(super) fn is_unknown(answer: &SeriesReport) -> bool {
    let mut points = answer.lines.iter().flat_map(|line| &line.points);
    points.all(|point| point.value.is_none() && point.over.is_none())
}

/// Instead of a picture without a line.
pub(super) fn unknown(question: &SeriesQuestion, answer: &SeriesReport) -> String {
    let why = match question.metric {
        Metric::Cost => {
            ": no price is in the configuration, and no upstream reported a cost. Prices go into `upstreams`, as input_price and output_price"
        }
        Metric::ClientTtft => ": no client asked to stream",
        Metric::TokS => ": no answer had a token count and came in pieces",
        Metric::Ttft
        | Metric::Goodput
        | Metric::Failures
        | Metric::Requests
        | Metric::InputTokens
        | Metric::OutputTokens => "",
    };
    let attempts = counted(answer.attempts, "attempt");
    format!("Nothing to draw: {} is not known for any of {attempts}{}{why}.", figure(question), only(&answer.filter))
}

/// One paragraph each.
pub(super) fn write(
    question: &SeriesQuestion,
    answer: &SeriesReport,
    screen: ScreenSettings,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let classes = (question.by == SeriesDimension::Concurrency).then(|| Dimension::Concurrency.note()).flatten();
    let paragraphs = [
        Some(format!("{}: {}.", counted(answer.attempts, "attempt"), wanted(&answer.filter))),
        answer.every_us.map(|every_us| {
            format!(
                "Each point is at the start of its step of {}, UTC. A step without attempts is a gap; the window cuts the \
                 first and the last step.",
                length(every_us)
            )
        }),
        Some(definition(question)),
        pooled(question),
        classes.map(str::to_owned),
        thin(answer, question.quantile().unwrap_or(0.5)),
        bounds(answer),
        list(
            "Left out",
            &[
                (answer.running, "attempt", " of races that still run"),
                (answer.without_attempts, "request", " without an attempt"),
                (if question.metric == Metric::TokS { answer.without_speed } else { 0 }, "attempt", " without a usable tok/s"),
                (answer.without_verdict.round() as u64, "request", " without a TPOT"),
            ],
        ),
        left_out(answer),
        moved(answer.moved),
        ahead(&answer.coverage),
        histograms(answer),
    ];
    write_paragraphs(paragraphs.into_iter().flatten(), Some(screen.columns()), out)
}

/// What was read and what is left out, and where to find more.
pub(super) fn write_brief(answer: &SeriesReport, screen: ScreenSettings, out: &mut impl io::Write) -> io::Result<()> {
    let thin = thin_points(answer).map(|(thin, of)| {
        let longer = if answer.every_us.is_some() { ": try a longer --every" } else { "" };
        format!("; {thin} of {of} from few samples{longer}")
    });
    let attempts = counted(answer.attempts, "attempt");
    let lines = [
        Some(format!("{attempts}{}{}.", only(&answer.filter), thin.unwrap_or_default())),
        left_out(answer),
        ahead(&answer.coverage),
        Some("more: --explain".to_owned()),
    ];
    write_paragraphs(lines.into_iter().flatten(), Some(screen.columns()), out)
}

fn definition(question: &SeriesQuestion) -> String {
    let about = question.metric.about().split_whitespace().collect::<Vec<&str>>().join(" ");
    let targets = (question.metric == Metric::Goodput).then(|| format!(": {}", targets(&question.slo())));
    let open =
        if question.metric == Metric::Ttft { " ^: cut off too often to say more than \"above this\"." } else { "" };
    format!("{}: {}{}.{open}", figure(question), about.trim_end_matches('.'), targets.unwrap_or_default())
}

/// Several upstreams in one line.
fn pooled(question: &SeriesQuestion) -> Option<String> {
    let pools =
        question.metric == Metric::Ttft && matches!(question.by, SeriesDimension::Model | SeriesDimension::User);
    pools.then(|| "A line pools the attempts at all upstreams: it is of the mixture, not of any provider.".to_owned())
}

fn thin(answer: &SeriesReport, share: f64) -> Option<String> {
    let (thin, points) = thin_points(answer)?;
    let least = (10.0 / share.min(1.0 - share) - 1e-6).ceil();
    let longer = if answer.every_us.is_some() { "; a longer --every makes fewer of them" } else { "" };
    Some(format!("Thin: {thin} of {points}, from fewer than {least} effective samples each{longer}."))
}

/// How many points rest on few samples, and how many there are, in words; none if there are no thin ones.
fn thin_points(answer: &SeriesReport) -> Option<(usize, String)> {
    let with_value = || points(answer).filter(|point| point.value.is_some());
    let thin = with_value().filter(|point| !point.firm).count();
    (thin > 0).then(|| (thin, counted(with_value().count() as u64, "point")))
}

/// For costs.
fn bounds(answer: &SeriesReport) -> Option<String> {
    let costs = || points(answer).filter_map(|point| point.cost);
    let ranges = costs().filter(|cost| cost.is_range()).count() as u64;
    let unpriced = costs().filter(|cost| cost.cost_usd_min.is_none()).count() as u64;
    let kinds = [("lower bounds of a range", ranges), ("not known and not drawn (no prices)", unpriced)];
    let there = kinds.iter().filter(|(_, count)| *count > 0);
    let parts: Vec<String> = there.map(|(what, count)| format!("{what}: {count}")).collect();
    (!parts.is_empty()).then(|| format!("Points that are {}.", parts.join("; ")))
}

/// Series beyond the limit.
pub(super) fn left_out(answer: &SeriesReport) -> Option<String> {
    let (series, attempts) = answer.left_out;
    let attempts = counted(attempts, "attempt");
    (series > 0).then(|| format!("Left out: {series} more series of {attempts}; the {SERIES_MAX} with most are there."))
}

fn histograms(answer: &SeriesReport) -> Option<String> {
    let until = time(answer.coverage.rolled_until?);
    let rest = match answer.whole_hours as u64 {
        0 => "--exact reads rows".to_owned(),
        points => format!("{} of a whole hour, because rows are gone", counted(points, "point")),
    };
    Some(format!("Before {until} from roll-ups, times to 1.6 % ({rest})."))
}

fn points(answer: &SeriesReport) -> impl Iterator<Item = &SeriesPoint> {
    answer.lines.iter().flat_map(|line| &line.points)
}

/// The length of a step for people.
pub(super) fn length(us: i64) -> String {
    format_duration(Duration::from_micros(us.unsigned_abs()))
}

/// The name of the metric for people, with its quantile: `TTFT p95`.
pub(super) fn figure(question: &SeriesQuestion) -> String {
    let name = match question.metric {
        Metric::Ttft => "TTFT",
        Metric::ClientTtft => "client TTFT",
        Metric::TokS => "tok/s",
        Metric::Goodput => "goodput",
        Metric::Failures => "failures",
        Metric::Cost => "cost",
        Metric::Requests => "requests",
        Metric::InputTokens => "tokens of prompts",
        Metric::OutputTokens => "tokens generated",
    };
    match question.quantile() {
        // In percent, without digits from rounding.
        Some(share) => format!("{name} p{}", (share * 1e8).round() / 1e6),
        None => name.to_owned(),
    }
}
