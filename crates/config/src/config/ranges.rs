//! Values of options and parameters, for clap: numbers and durations within bounds.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use super::units::{format_duration, parse_duration};

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
