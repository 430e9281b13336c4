//! What `photofinish stats` takes on the command line, read into values that cannot be wrong. No figures.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::group::Dimension;
use crate::clock::{micros, wall_micros};
use crate::config::units::parse_duration;
use crate::history::goodput::Slo;

/// Which attempts, in which groups, and how they are shown.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Only races begun since then: so long ago (24h), a day (2026-01-31) or a time (2026-01-31T09:00:00Z), UTC.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub since: Option<Moment>,
    /// Only races begun before then, written likewise.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub until: Option<Moment>,
    /// Only requests for this model, as the app asked for it.
    #[arg(long)]
    pub model: Option<String>,
    /// Only this provider.
    #[arg(long)]
    pub provider: Option<String>,
    /// Only requests of this user.
    #[arg(long)]
    pub user: Option<String>,
    /// One group for each of these, or, with commas between, for each combination.
    #[arg(long, value_name = "DIMENSION", value_enum, value_delimiter = ',', default_value = "upstream")]
    pub by: Vec<Dimension>,
    /// What a request must keep to count as goodput: the client's time to first token, the time per output token, or both.
    #[arg(long, value_name = "TARGETS", value_parser = slo, default_value = "ttft=1s,tpot=50ms")]
    pub slo: Slo,
    /// Leave out groups of fewer attempts.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub min_samples: usize,
    /// An array of objects, for programs.
    #[arg(long)]
    pub json: bool,
    /// Comma-separated values, with the names of --json in the first line.
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

/// A point in time, as it was typed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Moment {
    /// So long before now.
    Ago(Duration),
    At(Timestamp),
}

impl Moment {
    /// Microseconds since 1970, UTC, like `now_us`.
    pub fn micros(self, now_us: i64) -> i64 {
        match self {
            Moment::Ago(ago) => now_us.saturating_sub(micros(ago)),
            Moment::At(timestamp) => timestamp.as_microsecond(),
        }
    }
}

impl Options {
    /// What is wrong with the options together, though each is right.
    pub fn problem(&self) -> Option<String> {
        let now_us = wall_micros();
        let [since, until] = [self.since, self.until].map(|moment| Some(moment?.micros(now_us)));
        let time = |at_us| Timestamp::from_microsecond(at_us).map(|at| format!("{at:.0}")).unwrap_or_default();
        match (since, until) {
            (Some(since), _) if since > now_us => {
                return Some(format!("--since {} lies in the future; it must be before now", time(since)));
            }
            (Some(since), Some(until)) if since >= until => {
                return Some(format!(
                    "--since must be before --until: {} is not before {}; such as --since 48h --until 24h",
                    time(since),
                    time(until)
                ));
            }
            _ => {}
        }
        let again = |(at, dimension): &(usize, &Dimension)| self.by[..*at].contains(dimension);
        let (_, twice) = self.by.iter().enumerate().find(again)?;
        Some(format!("--by has {} twice; name each dimension once", twice.name()))
    }
}

fn moment(text: &str) -> Result<Moment, String> {
    let at = |date: Date| date.to_zoned(TimeZone::UTC).map(|zoned| Moment::At(zoned.timestamp()));
    if let Ok(ago) = parse_duration(text) {
        return Ok(Moment::Ago(ago));
    }
    if let Ok(timestamp) = text.parse::<Timestamp>() {
        return Ok(Moment::At(timestamp));
    }
    match text.parse::<Date>().and_then(at) {
        Ok(moment) if text.len() == "2026-01-31".len() => Ok(moment),
        _ => Err("expected how long ago (such as 90m, 24h or 7d), a day (2026-01-31) or a time (2026-01-31T09:00:00Z)"
            .to_owned()),
    }
}

fn slo(text: &str) -> Result<Slo, String> {
    const EXPECTED: &str = "expected ttft=DURATION, tpot=DURATION or both, such as ttft=1s,tpot=50ms";
    let mut slo = Slo { ttft_us: None, tpot_ms: None };
    for target in text.split(',') {
        let (name, limit) = target.split_once('=').ok_or(EXPECTED)?;
        let limit = parse_duration(limit).map_err(|error| error.to_string())?;
        match name.trim() {
            "ttft" if slo.ttft_us.is_none() => slo.ttft_us = Some(micros(limit)),
            "tpot" if slo.tpot_ms.is_none() => slo.tpot_ms = Some(limit.as_secs_f64() * 1e3),
            "ttft" | "tpot" => return Err(format!("{} is there twice", name.trim())),
            _ => return Err(EXPECTED.to_owned()),
        }
    }
    Ok(slo)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_targets_are_read() {
        assert_eq!(moment("24h"), Ok(Moment::Ago(Duration::from_secs(86_400))));
        let new_year = Moment::At(Timestamp::from_second(1_767_225_600).unwrap());
        assert_eq!(moment("2026-01-01"), Ok(new_year));
        assert_eq!(moment("2026-01-01T01:00:00+01:00"), Ok(new_year));
        for wrong in ["", "soon", "24", "-1h", "2026-13-01", "2026-01-01T09:00", "500d"] {
            assert!(moment(wrong).is_err(), "{wrong}");
        }
        assert_eq!(slo("tpot=50ms,ttft=1s"), Ok(Slo { ttft_us: Some(1_000_000), tpot_ms: Some(50.0) }));
        assert_eq!(slo("ttft=250ms"), Ok(Slo { ttft_us: Some(250_000), tpot_ms: None }));
        for wrong in ["", "ttft", "ttft=1", "e2e=1s", "ttft=1s,ttft=2s", "ttft=1s,"] {
            assert!(slo(wrong).is_err(), "{wrong}");
        }
    }
}
