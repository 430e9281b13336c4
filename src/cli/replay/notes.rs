//! The notes below the table: which requests, how they were replayed, how much rests on draws, and what no replay can know. Not
//! for the figures.

use super::table::{share, text};
use photofinish_config::config::{ModelConfig, Policy};
use photofinish_history::report::question::{span, time};
use photofinish_lab::replay::{ENOUGH, FIGURES, PastRequests, PlayedHistory, REQUESTS_MAX, ReplayFigure};

use crate::cli::text::counted;

/// An upstream is mentioned if a larger share of its times is longer than any observation.
const MUCH: f64 = 0.05;
/// Fewer stretches of time say little about how figures differ from one to the next.
const STRETCHES: usize = 10;
/// A smaller load slope is not worth a word.
const SLOPE: f64 = 0.05;

/// Instead of a table: no upstream was watched enough.
pub(super) fn nothing_to_tell(model: &ModelConfig, past: &PastRequests) -> String {
    let watched = left_out(past);
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
        format!("Left out: {requests} that went up plain, for want of a first token to play.")
    })
}

/// A line about the requests, one about the marks and other models, and where to find more.
pub(super) fn brief(report: &PlayedHistory, is_wide: bool) -> Vec<String> {
    let answer = &report.answer;
    let requests = counted(answer.requests as u64, "request");
    let (from_us, until_us) = answer.span_us;
    let guess = has_guess(report).then(|| "~ a guess: longer than any row was watched.".to_owned());
    let second: Vec<String> = guess.into_iter().chain(plain(&report.past)).chain(others(report)).collect();
    let lines = [
        format!("{requests} for {}, {}.", report.model.name, span(from_us, until_us)),
        second.join(" "),
        if is_wide { "more: --explain" } else { "more: --wide, --explain" }.to_owned(),
    ];
    lines.into_iter().filter(|line| !line.is_empty()).collect()
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
    let mut notes = vec![requests(report), how(report), as_it_was(report), draws()];
    notes.extend(unknown(report));
    notes.push(assumed(report));
    notes.push(cost(report));
    notes.extend(weighted(report));
    notes.extend(retries(report));
    notes.extend(left(report));
    notes
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
        text += &format!(" (only the newest {REQUESTS_MAX} of all models are read)");
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

fn how(report: &PlayedHistory) -> String {
    let answer = &report.answer;
    let mut text = format!(
        "Each policy is played {} times over, with what is not known drawn anew (--seed {}), and each figure is their mean. Below it: where it lies \
         with a probability of 90 %, over the draws and over {} stretches of time drawn again and again; how far it is from what was recorded; and \
         where that lies.",
        answer.draws, report.question.seed, answer.blocks
    );
    if answer.blocks < STRETCHES {
        text += " So few stretches make the intervals rough, and rather too narrow.";
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

fn draws() -> String {
    "seen, cut, failed, never tried: what the rows know of an upstream, in shares of the requests. What was seen is played as it was. \
     One that was cut goes on for a time drawn from what the upstream usually takes beyond that; one that was never tried gets a draw by size, load and what \
     the upstream did within minutes. beyond: the share of its times that is longer than it was ever watched for. drawn: the share of a policy's \
     answers whose time is such a draw."
        .to_owned()
}

/// Upstream by upstream, what is assumed and not known.
fn unknown(report: &PlayedHistory) -> Vec<String> {
    let answer = &report.answer;
    let mut notes = Vec::new();
    let beyond = answer.counts.iter().zip(&answer.expected).filter(|(_, expected)| expected.unknown() > MUCH);
    let beyond: Vec<String> =
        beyond.map(|(counts, expected)| format!("{} ({})", counts.upstream, share(expected.unknown()))).collect();
    if !beyond.is_empty() {
        notes.push(format!(
            "Cannot be known: the slow end of {}, which was always cut before (beyond). A usual tail stands in for it: p95 and p99 of a policy \
             that relies on it are a guess. Audits (`audit`) would tell.",
            beyond.join(", ")
        ));
    }
    if has_guess(report) {
        notes.push(
            "~: a guess. More of the policy's answers than lie beyond this figure have times that no row ever watched for so long."
                .to_owned(),
        );
    }
    if !report.past.left_out.is_empty() {
        notes.push(format!("Left out, watched in fewer than {ENOUGH} requests: {}.", left_out(&report.past)));
    }
    if report.past.strangers > 0 {
        let strangers = counted(report.past.strangers, "attempt");
        notes.push(format!("Left out too: {strangers} at upstreams that the model no longer lists."));
    }
    notes
}

fn assumed(report: &PlayedHistory) -> String {
    let slopes = report.answer.counts.iter().zip(&report.answer.expected);
    let slopes = slopes.filter(|(_, expected)| expected.load_slope() > SLOPE);
    let slopes: Vec<String> =
        slopes.map(|(counts, expected)| format!("{} {:.2}", counts.upstream, expected.load_slope())).collect();
    let load = if slopes.is_empty() {
        "no effect of our own load on TTFT shows in the rows, so none is played".to_owned()
    } else {
        format!(
            "the effect of our own load on TTFT is played as learned ({}; 1 means four times as slow next to three others)",
            slopes.join(", ")
        )
    };
    format!(
        "Cannot be known either: what an upstream does under more load than it had; {load}. Rate limits that a busier upstream would have \
         met. Slowness that several upstreams share within one request: draws are apart, so a hedge with drawn times looks a little too good. \
         Slow spells of an upstream while nobody tried it."
    )
}

fn cost(report: &PlayedHistory) -> String {
    let past = &report.past;
    if !past.priced {
        return "cost: in tokens, for no upstream of this model has a price; in every row by the same count."
            .to_owned();
    }
    let (usd, attempts) = past.said;
    format!(
        "cost: of all attempts, in every row by the present prices, a cut attempt with its prompt and what it had written. The rows themselves say {} \
         for {} of {} attempts.",
        text(ReplayFigure::Cost, usd, true),
        attempts,
        past.attempts
    )
}

fn weighted(report: &PlayedHistory) -> Option<String> {
    let is_asked = report.question.policy.contains(&Policy::Weighted) || report.model.race.policy == Policy::Weighted;
    let weights = || report.model.upstreams.iter().map(|upstream| upstream.weight);
    let uneven = weights().any(|weight| Some(weight) != weights().next());
    (is_asked && uneven).then(|| "weighted: played with equal weights, which the model's are not.".to_owned())
}

fn retries(report: &PlayedHistory) -> Option<String> {
    let retries = report.model.race.retries;
    (retries > 0).then(|| {
        format!(
            "retries: played without, though the model has {retries}: no row tells how an upstream would have answered a moment later."
        )
    })
}

fn left(report: &PlayedHistory) -> Option<String> {
    let few = report.answer.counted < 1_000;
    few.then(|| format!("p99 of {} rests on few of them.", counted(report.answer.counted as u64, "request")))
}

fn left_out(past: &PastRequests) -> String {
    past.left_out.iter().map(|(name, watched)| format!("{name} {watched}")).collect::<Vec<_>>().join(", ")
}
