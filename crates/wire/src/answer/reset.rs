//! Reads when a rate limit ends, from the body of its error. Not for headers: see [`super::headers`]; both write times alike.

use std::time::Duration;

use serde_json::Value;

/// Maximum details of one error that are read.
pub const DETAILS_MAX: usize = 16;

/// From these values on, a number is a time since 1970, in seconds or in milliseconds, not a duration.
const EPOCH_SECONDS: f64 = 1e9;
const EPOCH_MILLIS: f64 = 1e12;
/// Vendors that write a time without its zone (Z.ai) mean that of Beijing: this much earlier by UTC.
const BEIJING_MS: i64 = 8 * 3_600_000;

/// When a limit ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    After(Duration),
    /// Milliseconds since 1970.
    At(i64),
    /// The same of a time that has no zone, as if it were UTC.
    AtSomewhere(i64),
}

impl Reset {
    /// Parses `6m0s`, `20ms`, seconds, a time since 1970, or a date.
    pub fn of(text: &str) -> Option<Reset> {
        match text.parse::<f64>() {
            Ok(number) => of_number(number),
            Err(_) => match text.parse::<jiff::Timestamp>() {
                Ok(at) => Some(Reset::At(at.as_millisecond())),
                Err(_) => lengths(text).filter(|(_, rest)| rest.is_empty()).and_then(|(seconds, _)| after(seconds)),
            },
        }
    }

    /// How long it is until then. `now_ms`: milliseconds since 1970. None: it is over.
    pub fn wait(self, now_ms: i64) -> Option<Duration> {
        let until = |at: i64| u64::try_from(at.saturating_sub(now_ms)).ok().map(Duration::from_millis);
        let wait = match self {
            Reset::After(wait) => Some(wait),
            Reset::At(at) => until(at),
            Reset::AtSomewhere(at) => until(at.saturating_sub(BEIJING_MS)).or_else(|| until(at)),
        };
        wait.filter(|wait| !wait.is_zero())
    }
}

fn of_number(number: f64) -> Option<Reset> {
    match number {
        endless if !endless.is_finite() => None,
        millis if millis >= EPOCH_MILLIS => Some(Reset::At(millis as i64)),
        seconds if seconds >= EPOCH_SECONDS => Some(Reset::At((seconds * 1e3) as i64)),
        seconds => after(seconds),
    }
}

fn after(seconds: f64) -> Option<Reset> {
    Duration::try_from_secs_f64(seconds).ok().map(Reset::After)
}

/// Parses numbers with units, such as `1m12.5s` or `2 hours and 5 minutes`. Returns seconds and what follows.
fn lengths(text: &str) -> Option<(f64, &str)> {
    let (mut rest, mut seconds) = (text, None);
    loop {
        let number = rest.trim_start_matches([' ', ',']);
        let number = number.strip_prefix("and ").unwrap_or(number);
        let Some((value, unit)) = number_at_start(number) else { break };
        let unit = unit.trim_start_matches(' ');
        let end = unit.find(|c: char| !c.is_alphabetic()).unwrap_or(unit.len());
        let Some(of_unit) = seconds_of(&unit[..end]) else { break };
        seconds = Some(seconds.unwrap_or(0.0) + value * of_unit);
        rest = &unit[end..];
    }
    seconds.map(|seconds| (seconds, rest))
}

fn number_at_start(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let end = text[..end].trim_end_matches('.').len();
    Some((text[..end].parse().ok()?, &text[end..]))
}

fn seconds_of(unit: &str) -> Option<f64> {
    Some(match unit {
        "d" | "day" | "days" => 86_400.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "ms" | "millisecond" | "milliseconds" => 1e-3,
        "us" | "µs" => 1e-6,
        "ns" => 1e-9,
        _ => return None,
    })
}

/// Members that say it; lower case, letters only. A number is seconds, or a time since 1970.
const MEMBERS: [&str; 14] = [
    // Google.
    "retrydelay",
    "quotaresetdelay",
    "quotaresettimestamp",
    // OpenAI's plans (ChatGPT).
    "resetsinseconds",
    "resetsat",
    // OpenRouter repeats the headers of its own upstream.
    "xratelimitreset",
    "retryafter",
    "retryafterseconds",
    "resetinseconds",
    "resetsin",
    "resetin",
    "resetafter",
    "resetat",
    "resettime",
];
/// Here a number is milliseconds.
const MEMBERS_MILLIS: [&str; 1] = ["retryafterms"];

/// When the limit ends, by the members of an error or else by its message: the latest of several times.
pub fn reset(value: &Value, error: &Value, message: &str) -> Option<Reset> {
    let details = error.get("details").and_then(Value::as_array).into_iter().flatten().take(DETAILS_MAX);
    let metadata = |value: &Value| value.get("metadata").cloned();
    let inner: Vec<Value> = details.clone().chain([error]).filter_map(metadata).collect();
    let headers = inner.iter().filter_map(|inner| inner.get("headers"));
    let objects = [value, error].into_iter().chain(details).chain(&inner).chain(headers);
    let found = objects.filter_map(Value::as_object).flatten().filter_map(|(name, value)| of_member(name, value));
    // Their order only matters within one kind: no vendor mixes them.
    let length = |reset: &Reset| match *reset {
        Reset::After(wait) => i64::try_from(wait.as_millis()).unwrap_or(i64::MAX),
        Reset::At(at) | Reset::AtSomewhere(at) => at,
    };
    found.max_by_key(length).or_else(|| of_message(message))
}

fn of_member(name: &str, value: &Value) -> Option<Reset> {
    let name: String = name.chars().filter(char::is_ascii_alphabetic).map(|c| c.to_ascii_lowercase()).collect();
    let number = |value: &Value| value.as_f64().or_else(|| value.as_str()?.parse().ok());
    if MEMBERS_MILLIS.contains(&name.as_str()) {
        return after(number(value)? / 1e3);
    }
    if !MEMBERS.contains(&name.as_str()) {
        return None;
    }
    match value {
        Value::Number(number) => of_number(number.as_f64()?),
        Value::String(text) => Reset::of(text.trim()).or_else(|| date(text.trim())),
        // A duration as an object of protocol buffers.
        Value::Object(_) => after(number(value.get("seconds")?)?),
        _ => None,
    }
}

/// Phrases before the length of a wait or its end; lower case.
const PHRASES: [&str; 14] = [
    "try again in ",
    "try again after ",
    "try again at ",
    "retry in ",
    "retry after ",
    "retry at ",
    "please wait ",
    "reset in ",
    "resets in ",
    "reset after ",
    "resets after ",
    "reset at ",
    "resets at ",
    "available again in ",
];
const ABOUT: [&str; 4] = ["about ", "approximately ", "another ", "at least "];

fn of_message(message: &str) -> Option<Reset> {
    let lower = message.to_ascii_lowercase();
    PHRASES.iter().find_map(|phrase| {
        let at = lower.find(phrase)? + phrase.len();
        let skipped = ABOUT.iter().find(|about| lower[at..].starts_with(**about)).map_or(0, |about| about.len());
        of_words(&message[at + skipped..], &lower[at + skipped..])
    })
}

/// `lower` is the same text in lower case.
fn of_words(text: &str, lower: &str) -> Option<Reset> {
    if let Some(at) = date(text) {
        return Some(at);
    }
    if let Some((seconds, _)) = lengths(lower) {
        return after(seconds);
    }
    // A bare number is seconds, unless something else is counted.
    let (number, rest) = number_at_start(lower)?;
    let is_bare = !rest.trim_start().starts_with(|c: char| c.is_alphanumeric() || matches!(c, '-' | '/' | ':' | '%'));
    is_bare.then(|| of_number(number)).flatten()
}

/// A date and a time of day at the start of the text, with or without a zone.
fn date(text: &str) -> Option<Reset> {
    const LENGTH: usize = "2026-08-17 02:56:15".len();
    let local: jiff::civil::DateTime = text.get(..LENGTH)?.parse().ok()?;
    let rest = &text[LENGTH..];
    let fraction = rest.strip_prefix('.').map_or(0, |digits| 1 + digits.bytes().take_while(u8::is_ascii_digit).count());
    let zone = rest[fraction..].trim_start();
    let as_utc = local.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_millisecond();
    if ["Z", "z", "UTC", "GMT"].iter().any(|utc| zone.starts_with(utc)) {
        return Some(Reset::At(as_utc));
    }
    let Some(offset) = zone.get(..6).filter(|zone| zone.starts_with(['+', '-'])) else {
        return Some(Reset::AtSomewhere(as_utc));
    };
    let (hours, minutes) = (offset.get(1..3)?.parse::<i64>().ok()?, offset.get(4..6)?.parse::<i64>().ok()?);
    let ahead = (hours * 60 + minutes) * 60_000;
    Some(Reset::At(if offset.starts_with('-') { as_utc + ahead } else { as_utc - ahead }))
}
