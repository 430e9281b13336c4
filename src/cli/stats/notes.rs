//! The words below the figures: what they are of, how they are defined and what was left out.

use std::io;
use std::path::Path;

use jiff::Timestamp;

use super::group::Dimension;
use super::options::Options;
use super::table::write_wrapped;
use crate::config::units::format_duration;
use crate::store::{ATTEMPTS_MAX, AttemptFilter};

/// Longer lines are hard to read.
const WIDTH: usize = 110;

/// What the notes tell of.
pub(super) struct Notes<'a> {
    pub options: &'a Options,
    pub filter: &'a AttemptFilter,
    /// How many were read.
    pub attempts: usize,
    /// What goodput is counted over; microseconds since 1970, UTC.
    pub span_us: (i64, i64),
    /// Requests that no attempt was started for.
    pub without_attempts: i64,
    /// Attempts that generated something, but whose tok/s is not known.
    pub without_speed: usize,
    /// Requests that could not be judged.
    pub without_verdict: usize,
    /// Groups below `--min-samples`.
    pub too_small: usize,
}

/// Instead of an empty table.
pub(super) fn write_nothing(path: &Path, filter: &AttemptFilter, out: &mut impl io::Write) -> io::Result<()> {
    if *filter == AttemptFilter::default() {
        writeln!(out, "No attempts in {} yet.", path.display())?;
        return writeln!(
            out,
            "Send a request to `photofinish serve`; each attempt is a row some 50 ms after it ended."
        );
    }
    writeln!(out, "No attempts in {}: {}.", path.display(), wanted(filter))?;
    writeln!(out, "Ask for more: a longer --since, another --until, --model, --provider or --user, or none of them.")
}

impl Notes<'_> {
    /// A paragraph each.
    pub(super) fn write(&self, width: Option<usize>, out: &mut impl io::Write) -> io::Result<()> {
        for paragraph in self.paragraphs() {
            let words: Vec<String> = paragraph.split(' ').map(str::to_owned).collect();
            write_wrapped(&words, " ", "", width.unwrap_or(WIDTH).min(WIDTH), out)?;
        }
        Ok(())
    }

    fn paragraphs(&self) -> Vec<String> {
        let mut notes = vec![format!("{}: {}.", counted(self.attempts, "attempt"), wanted(self.filter))];
        if self.attempts == ATTEMPTS_MAX {
            notes.push(format!("Older ones were left out: this reads the newest {ATTEMPTS_MAX} only."));
        }
        if self.too_small > 0 {
            let (groups, least) = (counted(self.too_small, "group"), self.options.min_samples);
            notes.push(format!("Left out: {groups} of fewer than {least} attempts (--min-samples)."));
        }
        notes.extend(self.options.by.iter().filter_map(|dimension| dimension.note()).map(str::to_owned));
        notes.push(
            "TTFT: first token − the attempt's own dispatch, estimated (Kaplan–Meier) with the censored attempts, which \
             were cut off before their first token. \"> x\": cut off too often to say more. TTFT n: first tokens that \
             were seen."
                .to_owned(),
        );
        notes.push(self.speed());
        notes.push("failures: failed, failed midway, timed out, refused.".to_owned());
        notes.push(self.goodput());
        notes.push(
            "cost: of all attempts; extra: of the losers among them. \"≥\", \"≤\": at least, at most; \"±\": bounds of \
             both kinds. –: not known (no prices)."
                .to_owned(),
        );
        notes.push("~: from fewer than 10/(1−p) samples (p5: 10/p).".to_owned());
        notes
    }

    fn speed(&self) -> String {
        let mut speed =
            "tok/s: 1 / TPOT, the time per output token after the first, by the provider's own count; p5 is the \
                         slow end. tok/s n: attempts that both are from."
                .to_owned();
        if self.without_speed > 0 {
            let left_out = counted(self.without_speed, "attempt");
            speed += &format!(
                " Left out: {left_out} with a token but without a usable count, with a burst, or with several choices."
            );
        }
        speed
    }

    fn goodput(&self) -> String {
        let slo = &self.options.slo;
        let ttft = slo.ttft_us.map(|us| format!("client TTFT ≤ {}", short(us as f64 / 1e6)));
        let tpot = slo.tpot_ms.map(|ms| format!("TPOT ≤ {}", short(ms / 1e3)));
        let targets: Vec<String> = [ttft, tpot].into_iter().flatten().collect();
        let by_time = self.options.by.iter().any(|by| matches!(by, Dimension::Hour | Dimension::Weekday));
        let mut goodput = format!(
            "goodput: requests that finished well with {}, per second of {}{}; attained: the same as a share of the requests, which are those that the group answered, and those that it \
             tried and nobody answered. Requests that the client left count neither way.",
            targets.join(" and "),
            span(self.span_us),
            if by_time { " in that hour or on that weekday" } else { "" },
        );
        if self.without_verdict > 0 {
            let left_out = counted(self.without_verdict, "request");
            goodput += &format!(" Left out: {left_out} in time, but of unknown TPOT.");
        }
        if self.without_attempts > 0 {
            let count = usize::try_from(self.without_attempts).unwrap_or(usize::MAX);
            let left_out = counted(count, "request");
            goodput += &format!(
                " In no group: {left_out} without an attempt (rejected by the gateway, or all upstreams cooling down)."
            );
        }
        goodput
    }
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("{count} {what}") } else { format!("{count} {what}s") }
}

fn short(seconds: f64) -> String {
    std::time::Duration::try_from_secs_f64(seconds).map(format_duration).unwrap_or_default()
}

fn span((from_us, until_us): (i64, i64)) -> String {
    format!("{} to {}", time(from_us), time(until_us))
}

fn time(at_us: i64) -> String {
    Timestamp::from_microsecond(at_us).map(|at| format!("{at:.0}")).unwrap_or_else(|_| "the beginning".to_owned())
}

fn wanted(filter: &AttemptFilter) -> String {
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
