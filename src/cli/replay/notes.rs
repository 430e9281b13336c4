//! The notes below the table: which requests, how they were replayed, how much rests on draws, and what no replay can know. Not
//! for the figures.

use super::table::share;
use photofinish_config::ModelConfig;
use photofinish_history::report::question::{span, time};
use photofinish_lab::replay::{ENOUGH, FIGURES, PastCounts, PastRequests, PlayedHistory};

use crate::cli::text::counted;

/// An upstream is mentioned if a larger share of its times is longer than any observation.
const MUCH: f64 = 0.05;
/// The method, and what no replay can know.
const EXPLAIN: &str = include_str!("../help/replay-explain.txt");

/// Instead of a table: of no upstream enough is known.
pub(super) fn too_little(model: &ModelConfig, past: &PastRequests) -> String {
    let watched = little_known(past);
    let watched = if watched.is_empty() { watched } else { format!(" ({watched})") };
    let text = format!(
        "Too little history of {}: {}, and a replay needs an upstream that was asked in at least {ENOUGH} of them{watched}. Send more \
         requests, or ask for a longer window.",
        model.name,
        counted(past.requests() as u64, "request"),
    );
    [Some(text), plain(past)].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Requests that went up plain.
fn plain(past: &PastRequests) -> Option<String> {
    (past.plain > 0).then(|| {
        let requests = counted(past.plain, "request");
        format!("Left out: {requests} that went up plain: they have no first token to play.")
    })
}

/// A line about the requests, one about the marks and other models, and where to find more.
pub(super) fn brief(report: &PlayedHistory, is_wide: bool) -> Vec<String> {
    let answer = &report.answer;
    let requests = counted(answer.requests as u64, "request");
    let (from_us, until_us) = answer.span_us;
    let without = report.answer.rows.iter().filter(|row| !row.little_known.is_empty()).map(|row| {
        let is_little_known = |(name, _): &&(String, u64)| row.little_known.contains(name);
        let attempts: Vec<String> = report
            .past
            .little_known
            .iter()
            .filter(is_little_known)
            .map(|(name, tried)| format!("{name}: {tried} of {ENOUGH}"))
            .collect();
        format!(
            "{} has no figure, because it would ask what too little is known of (attempts): {}.",
            row.name,
            attempts.join(", ")
        )
    });
    let guess = has_guess(report).then(|| "≈ a guess: longer than any row was watched.".to_owned());
    let second: Vec<String> = guess.into_iter().chain(plain(&report.past)).chain(others(report)).collect();
    let first = format!("{requests} for {}, {}.", report.model.name, span(from_us, until_us));
    let more = if is_wide { "more: --explain" } else { "more: --wide, --explain" }.to_owned();
    let lines = [first].into_iter().chain(without).chain([second.join(" "), more]);
    lines.filter(|line| !line.is_empty()).collect()
}

fn has_guess(report: &PlayedHistory) -> bool {
    report.answer.rows.iter().any(|row| FIGURES.iter().any(|figure| row.is_guess(*figure)))
}

/// Models that have requests too.
fn others(report: &PlayedHistory) -> Option<String> {
    let others: Vec<String> = report.others.iter().map(|(name, requests)| format!("{name} ({requests})")).collect();
    (!others.is_empty()).then(|| format!("Other models with requests: {}; --model asks for one.", others.join(", ")))
}

pub(super) fn paragraphs(report: &PlayedHistory) -> Vec<String> {
    let method = EXPLAIN.split("\n\n").map(|paragraph| paragraph.trim().replace('\n', " "));
    [requests(report), as_it_was(report)].into_iter().chain(unknown(report)).chain(method).collect()
}

fn requests(report: &PlayedHistory) -> String {
    let answer = &report.answer;
    let (from_us, until_us) = answer.span_us;
    let mut text = format!(
        "{} for {}, begun from {} to {}",
        counted(answer.requests as u64, "request"),
        report.model.name,
        time(from_us),
        time(until_us)
    );
    if report.cut {
        text += &format!(" (only the newest {} of all models are read)", report.question.newest);
    }
    text += &format!(". The first {} are played and not counted: policies learn from them.", answer.warm_up);
    if report.past.gone > 0 {
        let gone = counted(report.past.gone, "request");
        text += &format!(" Nor is what the client left before an answer, or a shutdown ended: {gone}.");
    }
    if let Some(plain) = plain(&report.past) {
        text += &format!(" {plain}");
    }
    if let Some(others) = others(report) {
        text += &format!(" {others}");
    }
    text
}

fn as_it_was(report: &PlayedHistory) -> String {
    let policy = report.model.race.policy.as_str();
    match &report.as_it_was {
        Ok(()) => format!(
            "\"{policy}, replayed\" is what was done, played by the same method: where it differs from what was recorded, that is the \
             method's error, unless the model's settings were others then."
        ),
        Err(shares) => format!(
            "What was done is not replayed: the model's policy is {policy}, and the requests were steered by others ({shares})."
        ),
    }
}

/// Upstream by upstream, what is assumed and not known.
fn unknown(report: &PlayedHistory) -> Vec<String> {
    let answer = &report.answer;
    let mut notes = Vec::new();
    let is_known = |counts: &PastCounts| report.past.little_known.iter().all(|(name, _)| *name != counts.upstream);
    let known = answer.counts.iter().zip(&answer.expected).filter(|(counts, _)| is_known(counts));
    let beyond = known.filter(|(_, expected)| expected.unknown() > MUCH);
    let beyond: Vec<String> =
        beyond.map(|(counts, expected)| format!("{} ({})", counts.upstream, share(expected.unknown()))).collect();
    if !beyond.is_empty() {
        notes.push(format!(
            "Cannot be known: the slow end of {}, which was always cut before (beyond). A usual tail replaces it: p95 and p99 of a policy \
             that relies on it are a guess. Audits (`audit`) would show it.",
            beyond.join(", ")
        ));
    }
    if !report.past.little_known.is_empty() {
        notes.push(format!(
            "Too little known, fewer than {ENOUGH} attempts: {}. A policy that would ask such an upstream in more than one request of twenty \
             has no figure; the one that was in force is replayed without it.",
            little_known(&report.past)
        ));
    }
    if report.past.strangers > 0 {
        let strangers = counted(report.past.strangers, "attempt");
        notes.push(format!("Left out too: {strangers} at upstreams that the model no longer lists."));
    }
    notes
}

fn little_known(past: &PastRequests) -> String {
    past.little_known.iter().map(|(name, watched)| format!("{name} {watched}")).collect::<Vec<_>>().join(", ")
}
