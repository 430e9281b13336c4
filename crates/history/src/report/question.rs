//! The common options of questions, on a command line or as a URL's query. Both are read by the same rules.
//!
//! Not for answering.

use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Args, Command};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::store::{AttemptFilter, SourceFilter};
use photofinish_base::clock::micros;
use photofinish_config::Config;
use photofinish_config::names::NamedChoice;
use photofinish_config::units::parse_duration;
use photofinish_facts::estimate::goodput::SloTargets;

/// The races of a question.
#[derive(Args, Clone, Debug, Default)]
pub struct RaceWindow {
    /// Only races begun since: an age (24h), a day (2026-01-31) or a time (2026-01-31T09:00:00Z), UTC.
    #[arg(long, value_name = "TIME", value_parser = moment, allow_hyphen_values = true)]
    pub since: Option<TimePoint>,
    /// Only races begun before, in the same forms.
    #[arg(long, value_name = "TIME", value_parser = moment, allow_hyphen_values = true)]
    pub until: Option<TimePoint>,
    /// Only requests for this model; an alias means its model.
    #[arg(long)]
    pub model: Option<String>,
    /// Only this provider.
    #[arg(long)]
    pub provider: Option<String>,
    /// Only requests of this user.
    #[arg(long)]
    pub user: Option<String>,
    /// Only requests of users who were in this team then.
    #[arg(long)]
    pub team: Option<String>,
    /// Who asked: clients, probes, benchmarks, or all. Other rows than those of clients are not rolled up.
    #[arg(long, default_value = "client", value_parser = choice::<SourceFilter>())]
    pub source: SourceFilter,
}

/// A point in time, as it was typed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TimePoint {
    /// This long before now.
    Ago(Duration),
    At(Timestamp),
}

/// A shorter window is given to the second; microseconds.
const SHORT_WINDOW_US: i64 = 600_000_000;
/// Most characters of an unknown name that an error repeats.
const SHOWN: usize = 64;

/// An error in a URL's query, for the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BadParameter {
    /// The parameter; none if several are wrong.
    pub name: Option<String>,
    /// Names the parameter, the value and the valid forms.
    pub message: String,
}

impl BadParameter {
    /// An error in the combination of valid parts.
    pub fn of_problem(problem: &str) -> BadParameter {
        let name = problem.strip_prefix("--").and_then(|text| text.split_whitespace().next());
        BadParameter { name: name.map(str::to_owned), message: problem.replace("--", "") }
    }
}

impl TimePoint {
    /// Microseconds since 1970, UTC, like `now_us`.
    pub fn micros(self, now_us: i64) -> i64 {
        match self {
            TimePoint::Ago(ago) => now_us.saturating_sub(micros(ago)),
            TimePoint::At(timestamp) => timestamp.as_microsecond(),
        }
    }
}

impl RaceWindow {
    /// Rows have the names of models, not their aliases.
    pub fn resolve_alias(&mut self, config: &Config) {
        let named = self.model.as_deref().and_then(|name| config.model(name));
        self.model = named.map(|model| model.name.clone()).or(self.model.take());
    }

    pub fn filter(&self, now_us: i64) -> AttemptFilter {
        AttemptFilter {
            since: self.since.map(|since| since.micros(now_us)),
            until: self.until.map(|until| until.micros(now_us)),
            model: self.model.clone(),
            provider: self.provider.clone(),
            user: self.user.clone(),
            team: self.team.clone(),
            source: self.source,
        }
    }

    /// An error in the combination of valid parts. The text begins with the option, as on a command line;
    /// [`BadParameter::of_problem`] rewrites it for URLs.
    pub fn problem(&self, now_us: i64) -> Option<String> {
        let [since, until] = [self.since, self.until].map(|moment| Some(moment?.micros(now_us)));
        match (since, until) {
            (Some(since), _) if since > now_us => {
                Some(format!("--since {} lies in the future; it must be before now", time(since)))
            }
            (Some(since), Some(until)) if since >= until => Some(format!(
                "--since must be before --until: {} is not before {}; such as --since 48h --until 24h",
                time(since),
                time(until)
            )),
            _ => None,
        }
    }
}

/// For clap: one of the names of an enum, each with its explanation.
pub fn choice<T: NamedChoice + Send + Sync + 'static>() -> impl TypedValueParser<Value = T> {
    let values = T::VARIANTS.iter().map(|one| PossibleValue::new(one.name()).help(one.about().trim()));
    PossibleValuesParser::new(values)
        .try_map(|name| T::VARIANTS.iter().copied().find(|one| one.name() == name).ok_or("unknown"))
}

/// A time for people, to the second.
pub fn time(at_us: i64) -> String {
    Timestamp::from_microsecond(at_us).map(|at| format!("{at:.0}")).unwrap_or_else(|_| "the beginning".to_owned())
}

/// A window for people: `2026-01-31 09:00 to 09:30 UTC`, to the second where it is short.
pub fn span(from_us: i64, until_us: i64) -> String {
    let at = |us: i64| Timestamp::from_microsecond(us).map(|at| at.to_zoned(TimeZone::UTC));
    let (Ok(from), Ok(until)) = (at(from_us), at(until_us)) else {
        return format!("{} to {}", time(from_us), time(until_us));
    };
    let clock = if until_us.saturating_sub(from_us) < SHORT_WINDOW_US { "%H:%M:%S" } else { "%H:%M" };
    let day_and_clock = format!("%Y-%m-%d {clock}");
    let end = if from.date() == until.date() { clock } else { &day_and_clock };
    format!("{} to {} UTC", from.strftime(&day_and_clock), until.strftime(end))
}

/// Reads the pairs of a URL's query as command-line options: `("since", "24h")` as `--since 24h`.
///
/// # Errors
/// Names the parameter, the value and the valid forms.
pub fn from_pairs<Q: Args>(pairs: &[(String, String)]) -> Result<Q, BadParameter> {
    let command = Q::augment_args(Command::new("query").no_binary_name(true).disable_help_flag(true));
    let mut line = Vec::new();
    for (name, value) in pairs {
        let argument = command.get_arguments().find(|argument| argument.get_long() == Some(name));
        let Some(argument) = argument else { return Err(unexpected(name, &command)) };
        match (!argument.get_action().takes_values(), value.as_str()) {
            (false, value) => line.push(format!("--{name}={value}")),
            (true, "true" | "1" | "") => line.push(format!("--{name}")),
            (true, "false" | "0") => {}
            (true, value) => {
                let message = format!("invalid value '{value}' for '{name}': expected true or false");
                return Err(BadParameter { name: Some(name.clone()), message });
            }
        }
    }
    let matches = command.try_get_matches_from(line).map_err(|error| said(&error))?;
    Q::from_arg_matches(&matches).map_err(|error| said(&error))
}

fn unexpected(name: &str, command: &Command) -> BadParameter {
    let valid: Vec<&str> = command.get_arguments().filter_map(Arg::get_long).collect();
    let shown: String = name.chars().take(SHOWN).collect();
    let dots = if shown.len() < name.len() { "…" } else { "" };
    BadParameter {
        name: Some(name.to_owned()).filter(|name| !name.is_empty()),
        message: format!("unexpected parameter '{shown}{dots}'; expected one of {}", valid.join(", ")),
    }
}

/// The words of clap without its frame, for a client that typed no dashes.
fn said(error: &clap::Error) -> BadParameter {
    let text = error.render().to_string();
    let text = text.split("\n\nUsage:").next().unwrap_or_default().split("\n\nFor more").next().unwrap_or_default();
    let words: Vec<&str> = text.trim_start_matches("error: ").split_whitespace().collect();
    let message = words.join(" ").replace("'--", "'").replace(" argument '", " parameter '");
    // Several values are on lines of their own.
    let message = if error.kind() == ErrorKind::ArgumentConflict { message.replace(" --", " ") } else { message };
    let name = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(option)) => option.trim_start_matches('-').split([' ', '=', '<']).next(),
        _ => None,
    };
    BadParameter { name: name.filter(|name| !name.is_empty()).map(str::to_owned), message }
}

/// For clap.
pub fn moment(text: &str) -> Result<TimePoint, String> {
    let at = |date: Date| date.to_zoned(TimeZone::UTC).map(|zoned| TimePoint::At(zoned.timestamp()));
    if let Ok(ago) = parse_duration(text) {
        return Ok(TimePoint::Ago(ago));
    }
    if let Ok(timestamp) = text.parse::<Timestamp>() {
        return Ok(TimePoint::At(timestamp));
    }
    match text.parse::<Date>().and_then(at) {
        Ok(moment) if text.len() == "2026-01-31".len() => Ok(moment),
        _ => Err(
            "expected how long ago (such as 90m, 24h or 7d; at most 365d), a day (2026-01-31), or a time with Z or an \
                  offset (2026-01-31T09:00:00Z, 2026-01-31T09:00:00+01:00)"
                .to_owned(),
        ),
    }
}

/// For clap.
pub fn whole_number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "expected a whole number, 0 or more".to_owned())
}

/// For clap: a duration above 0.
pub fn positive_duration(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text).map_err(|error| error.to_string())?;
    if duration.is_zero() { Err("it must be more than 0".to_owned()) } else { Ok(duration) }
}

/// For clap.
pub fn slo(text: &str) -> Result<SloTargets, String> {
    const EXPECTED: &str = "expected ttft=DURATION, tpot=DURATION or both, such as ttft=1s,tpot=50ms";
    let mut slo = SloTargets { ttft_us: None, tpot_ms: None };
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
        assert_eq!(moment("24h"), Ok(TimePoint::Ago(Duration::from_secs(86_400))));
        let new_year = TimePoint::At(Timestamp::from_second(1_767_225_600).unwrap());
        assert_eq!(moment("2026-01-01"), Ok(new_year));
        assert_eq!(moment("2026-01-01T01:00:00+01:00"), Ok(new_year));
        for wrong in ["", "soon", "24", "-1h", "2026-13-01", "2026-01-01T09:00", "500d", "1w", "2026-02-30"] {
            let expected = moment(wrong).unwrap_err();
            assert!(
                expected.contains("at most 365d") && expected.contains("with Z or an offset"),
                "{wrong}: {expected}"
            );
        }
        assert_eq!(slo("tpot=50ms,ttft=1s"), Ok(SloTargets { ttft_us: Some(1_000_000), tpot_ms: Some(50.0) }));
        assert_eq!(slo("ttft=250ms"), Ok(SloTargets { ttft_us: Some(250_000), tpot_ms: None }));
        for wrong in ["", "ttft", "ttft=1", "e2e=1s", "ttft=1s,ttft=2s", "ttft=1s,"] {
            assert!(slo(wrong).is_err(), "{wrong}");
        }
    }

    fn asked(pairs: &[(&str, &str)]) -> Result<RaceWindow, BadParameter> {
        let pairs: Vec<_> = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        from_pairs(&pairs)
    }

    #[test]
    fn a_url_is_read_as_a_command_line() {
        let window = asked(&[("since", "24h"), ("model", "--a b")]).unwrap();
        assert_eq!((window.since, window.model.as_deref()), (Some(moment("24h").unwrap()), Some("--a b")));
        for (pairs, words) in [
            (vec![("since", "soon")], vec!["'since", "soon", "2026-01-31"]),
            (vec![("sinse", "1h")], vec!["unexpected", "'sinse'", "since, until, model, provider, user, team"]),
            (vec![("since=1h&until", "1h")], vec!["'since=1h&until'"]),
            (vec![("model", "a"), ("model", "b")], vec!["'model", "multiple times"]),
        ] {
            let error = asked(&pairs).unwrap_err();
            assert_eq!(error.name.as_deref(), Some(pairs[0].0));
            let error = error.message;
            assert!(words.iter().all(|word| error.contains(word)) && !error.contains("--"), "{error}");
        }
    }
}
