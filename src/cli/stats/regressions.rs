//! `photofinish stats --regressions` in words: what is worse, and what was compared.
//!
//! Not for the tests: `estimate::regression`.

use std::io;

use crate::cli::text::write_paragraph as paragraph;
use photofinish_facts::estimate::regression::{Finding, Thresholds};
use photofinish_history::report::incidents::{name, words};
use photofinish_history::report::question::time;
use photofinish_history::report::regressions::{Regression, Regressions, RegressionsQuestion, TooFew};

/// One line for each finding, and one for what was compared. `explain`: also what they mean. `width`: of the terminal.
pub(super) fn write(
    question: &RegressionsQuestion,
    answer: &Regressions,
    explain: bool,
    width: Option<usize>,
    out: &mut impl io::Write,
) -> io::Result<()> {
    for found in &answer.findings {
        paragraph(&worse(found), width, out)?;
    }
    if !answer.findings.is_empty() {
        writeln!(out)?;
    }
    paragraph(&compared(question, answer), width, out)?;
    if !answer.too_few.is_empty() {
        paragraph(&not_compared(&answer.too_few), width, out)?;
    }
    for incident in &answer.incidents {
        let what = words(incident, answer.now.1);
        paragraph(&format!("Incident: {}: {what}.", name(incident)), width, out)?;
    }
    match (explain, answer.findings.is_empty()) {
        (true, _) => explained(answer, width, out),
        (false, false) => paragraph("more: --explain", width, out),
        (false, true) => Ok(()),
    }
}

/// What the findings mean.
fn explained(answer: &Regressions, width: Option<usize>, out: &mut impl io::Write) -> io::Result<()> {
    if !answer.findings.is_empty() {
        paragraph(
            "p: the chance that at least one figure is reported although none has changed; at most 0.001. Attempts are compared \
             within their hour and input class; TTFT includes censored attempts (log-rank).",
            width,
            out,
        )?;
    }
    if answer.findings.iter().any(|found| matches!(found.finding, Finding::Ttft { shift: None, .. })) {
        paragraph(
            "Hazard ratio: of attempts that have waited equally long, how often the first token comes next, now over before. It \
             is not the factor by which the wait is longer.",
            width,
            out,
        )?;
    }
    Ok(())
}

fn worse(found: &Regression) -> String {
    format!(
        "{}: {}; {}; {}, {} before.",
        found.upstream,
        found.words(),
        found.chance(),
        counted(found.attempts_now, "attempt"),
        thousands(found.attempts_before),
    )
}

fn compared(question: &RegressionsQuestion, answer: &Regressions) -> String {
    let window = &question.window;
    let only = [("model", &window.model), ("provider", &window.provider), ("user", &window.user)];
    let only = only.iter().filter_map(|(what, value)| Some(format!(", {what} {}", value.as_deref()?)));
    let until = window.until.map(|_| format!(" and before {}", time(answer.now.1))).unwrap_or_default();
    let when = format!("since {}{until}{}", time(answer.now.0), only.collect::<String>());
    if answer.upstreams == 0 {
        let none = if answer.too_few.is_empty() { "no attempts" } else { "too few attempts" };
        return format!("Nothing to compare: {none} {when}.");
    }
    let found = if answer.findings.is_empty() { "No regressions" } else { "Compared" };
    format!(
        "{found}: {}, {} {when}, against {} in the same hours of the 7 days before.",
        counted(answer.upstreams as u64, "upstream"),
        counted(answer.attempts_now, "attempt"),
        thousands(answer.attempts_before),
    )
}

fn not_compared(too_few: &[TooFew]) -> String {
    let each = too_few.iter().map(|of| {
        format!("{} ({}, {} before)", of.upstream, thousands(of.attempts_now), thousands(of.attempts_before))
    });
    format!(
        "Not compared, for want of {} attempts now and before in the same hours and input classes: {}.",
        Thresholds::default().events_min,
        each.collect::<Vec<_>>().join(", ")
    )
}

fn counted(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {what}{plural}", thousands(count))
}

fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests;
