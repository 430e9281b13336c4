//! Durations and sizes in text: `"600ms"`, `"32MiB"`. For the config, request headers and commands.
//!
//! Not for measured times: those are integer microseconds (`clock`).

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

/// The longest duration: 365 days.
pub const DURATION_MAX: Duration = Duration::from_secs(365 * 86_400);

/// The form of a duration, for messages.
pub const DURATION_EXPECTED: &str =
    "a number and a unit (ms, s, m, h or d), such as \"250ms\", \"1.5s\", \"10m\" or \"90d\", at most 365d";

/// The form of a size, for messages.
pub const BYTES_EXPECTED: &str =
    "a number of bytes, with or without a unit (B, KB, MB, GB, KiB, MiB or GiB), such as \"32MiB\" or 65536";

/// A regular expression that matches every duration, for the JSON Schema.
pub(super) const DURATION_PATTERN: &str = r"\d+(\.\d+)?\s*(ms|s|m|h|d)";

/// A regular expression that matches every size.
pub(super) const BYTES_PATTERN: &str = r"\d+(\.\d+)?\s*(B|[kK]B|MB|GB|KiB|MiB|GiB)?";

/// A text that is no duration or size. The message quotes the text: not for secrets.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{value} is not a {what}; expected {expected}")]
pub struct UnitError {
    /// The text, quoted.
    value: String,
    /// `duration` or `size`.
    what: &'static str,
    /// What would be right, with examples.
    pub expected: &'static str,
}

/// Reads a duration: a number, a decimal fraction if wanted, and a unit (`ms`, `s`, `m`, `h`, `d`).
///
/// # Errors
/// Without a unit, with another one, with a sign, or beyond [`DURATION_MAX`].
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let nanos = |unit: &str| match unit {
        "ms" => Some(1_000_000),
        "s" => Some(1_000_000_000),
        "m" => Some(60 * 1_000_000_000),
        "h" => Some(3_600 * 1_000_000_000),
        "d" => Some(86_400 * 1_000_000_000),
        _ => None,
    };
    scaled(text, nanos)
        .map(Duration::from_nanos)
        .filter(|duration| *duration <= DURATION_MAX)
        .ok_or_else(|| UnitError { value: quoted(text), what: "duration", expected: DURATION_EXPECTED })
}

/// Reads a number of bytes, with a unit (`KB` is 1000, `KiB` is 1024) or without one.
///
/// # Errors
/// With another unit, with a sign, with part of a byte, or beyond 64 bits.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    let bytes = |unit: &str| match unit {
        "" | "B" => Some(1),
        "KB" | "kB" => Some(1_000),
        "MB" => Some(1_000_000),
        "GB" => Some(1_000_000_000),
        "KiB" => Some(1 << 10),
        "MiB" => Some(1 << 20),
        "GiB" => Some(1 << 30),
        _ => None,
    };
    scaled(text, bytes).ok_or_else(|| UnitError { value: quoted(text), what: "size", expected: BYTES_EXPECTED })
}

/// The shortest form that [`parse_duration`] reads back as the same: `"600ms"`, `"1.5s"`, `"10m"`.
pub fn format_duration(duration: Duration) -> String {
    let (seconds, nanos) = (duration.as_secs(), duration.subsec_nanos());
    if nanos == 0 {
        return match seconds {
            0 => "0s".to_owned(),
            s if s % 86_400 == 0 => format!("{}d", s / 86_400),
            s if s % 3_600 == 0 => format!("{}h", s / 3_600),
            s if s % 60 == 0 => format!("{}m", s / 60),
            s => format!("{s}s"),
        };
    }
    if seconds > 0 { decimal(seconds, nanos, 9, "s") } else { decimal(0, nanos, 6, "ms") }
}

/// With the largest unit of 1024 that leaves no remainder: `"32MiB"`, `"1500B"`.
pub fn format_bytes(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(size, _)| bytes >= *size && bytes.is_multiple_of(*size)) {
        Some((size, unit)) => format!("{}{unit}", bytes / size),
        None => format!("{bytes}B"),
    }
}

/// `"1.5s"` times the scale of its unit. Not by `f64`, which is off in the last digit and accepts `inf` and `1e9`.
fn scaled(text: &str, scale_of: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let scale = u128::from(scale_of(unit.trim_start())?);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let ten_to = 10_u128.checked_pow(u32::try_from(fraction.len()).ok().filter(|digits| *digits <= 12)?)?;
    let whole = u128::from(whole.parse::<u64>().ok()?) * scale;
    let fraction = u128::from(fraction.parse::<u64>().ok()?) * scale;
    if fraction % ten_to != 0 {
        return None;
    }
    u64::try_from(whole.checked_add(fraction / ten_to)?).ok()
}

/// `whole` and the `nanos` beyond it in a unit of 10^`digits` nanoseconds, without trailing zeros.
fn decimal(whole: u64, nanos: u32, digits: usize, unit: &str) -> String {
    let scale = 10_u64.pow(u32::try_from(digits).unwrap_or(9));
    let (whole, fraction) = (whole + u64::from(nanos) / scale, u64::from(nanos) % scale);
    let fraction = format!("{fraction:0digits$}");
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{whole}{point}{fraction}{unit}")
}

/// In quotes, at most 40 characters, without control characters.
fn quoted(text: &str) -> String {
    let dots = if text.chars().nth(40).is_some() { "…" } else { "" };
    format!("\"{}{dots}\"", text.chars().take(40).collect::<String>().escape_debug())
}

pub fn within<N: FromStr + PartialOrd + Display>(text: &str, range: RangeInclusive<N>) -> Result<N, String> {
    // What is not a number is in no range.
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("expected a number from {} to {}", range.start(), range.end()))
}

pub fn duration_within(text: &str, range: RangeInclusive<Duration>) -> Result<Duration, String> {
    bounded(parse_duration(text).map_err(|error| error.to_string())?, range)
}

pub fn bounded(duration: Duration, range: RangeInclusive<Duration>) -> Result<Duration, String> {
    let [least, most] = [*range.start(), *range.end()].map(format_duration);
    if range.contains(&duration) { Ok(duration) } else { Err(format!("expected {least} to {most}")) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations() {
        let cases = [
            ("600ms", 600_000),
            ("1.5s", 1_500_000),
            ("10m", 600_000_000),
            ("2h", 7_200_000_000),
            ("90d", 7_776_000_000_000),
            ("0s", 0),
            (" 3 s ", 3_000_000),
            ("0.25ms", 250),
            ("365d", 31_536_000_000_000),
        ];
        for (text, micros) in cases {
            assert_eq!(parse_duration(text), Ok(Duration::from_micros(micros)), "{text}");
        }
        for text in [
            "", "10", "s", "-1s", "+1s", "1e3s", "infs", "NaNs", "1.2.3s", "1.s", ".5s", "366d", "1 year", "p95",
            "1s2s",
        ] {
            let error = parse_duration(text).unwrap_err().to_string();
            assert!(error.contains(&format!("\"{text}\"")) && error.contains("250ms"), "{error}");
        }
    }

    #[test]
    fn sizes() {
        let cases = [("32MiB", 32 << 20), ("64KB", 64_000), ("1024", 1024), ("1.5 KiB", 1536), ("0", 0), ("7B", 7)];
        for (text, bytes) in cases {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "MiB", "-1", "1.5", "1TiB", "1e9", "99999999999999999999"] {
            assert!(parse_bytes(text).unwrap_err().to_string().contains("32MiB"), "{text}");
        }
    }

    #[test]
    fn shortest_forms() {
        for text in ["0s", "600ms", "1.5s", "30s", "90s", "10m", "2h", "90d", "0.25ms", "61.001s"] {
            assert_eq!(format_duration(parse_duration(text).unwrap()), text);
        }
        assert_eq!(format_bytes(32 << 20), "32MiB");
        assert_eq!(format_bytes(1500), "1500B");
        assert_eq!(format_bytes(0), "0B");
    }

    #[test]
    fn a_long_text_is_quoted_in_part() {
        let error = parse_duration(&"x".repeat(10_000)).unwrap_err().to_string();
        assert!(error.len() < 250, "{error}");
    }

    proptest! {
        #[test]
        fn what_is_formatted_is_read_back(micros in 0_u64..=31_536_000_000_000) {
            let duration = Duration::from_micros(micros);
            prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            let _ = parse_duration(&text);
            let _ = parse_bytes(&text);
        }
    }
}
