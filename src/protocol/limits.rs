//! Reads rate limits from response headers: when an exhausted limit resets, and whether it is the account's.
//!
//! Not for `retry-after`, which is read where it is obeyed.

use std::time::Duration;

use http::HeaderMap;

use super::headers::is_remaining;

/// From these values on, a number is a time since 1970, in seconds or in milliseconds, not a duration.
const EPOCH_SECONDS: f64 = 1e9;
const EPOCH_MILLIS: f64 = 1e12;

/// The time until the last exhausted limit resets, as far as the headers show it. `now_s`: seconds since 1970.
pub fn exhausted_for(headers: &HeaderMap, now_s: f64) -> Option<Duration> {
    let reset = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        let name = name.as_str();
        // A rate below one per request is not zero.
        let is_zero = value.to_str().is_ok_and(|value| value.trim().parse() == Ok(0.0));
        if !is_zero || !is_remaining(name) {
            return None;
        }
        let reset = headers.get(name.replace("remaining", "reset"))?.to_str().ok()?;
        length(reset.trim(), now_s)
    };
    headers.iter().filter_map(reset).max().filter(|wait| !wait.is_zero())
}

/// Headers that name the scope of a limit, such as `x-ratelimit-type: UserByModelByDay`.
const SCOPES: [&str; 2] = ["x-ratelimit-scope", "x-ratelimit-type"];
/// Values of such a header that mean a whole account.
const ACCOUNTS: [&str; 8] = ["account", "organization", "org", "workspace", "team", "project", "user", "global"];

/// Whether the limit applies to the whole account. None: no header shows it.
pub fn names_account(headers: &HeaderMap) -> Option<bool> {
    let scope = SCOPES.iter().find_map(|name| headers.get(*name)?.to_str().ok())?.to_ascii_lowercase();
    if scope.contains("model") || scope.contains("deployment") {
        return Some(false);
    }
    ACCOUNTS.iter().any(|account| scope.starts_with(account)).then_some(true)
}

/// Parses `6m0s`, `20ms`, seconds, a time since 1970, or a date.
fn length(text: &str, now_s: f64) -> Option<Duration> {
    let seconds = match text.parse::<f64>() {
        Ok(number) if number >= EPOCH_MILLIS => number / 1e3 - now_s,
        Ok(number) if number >= EPOCH_SECONDS => number - now_s,
        Ok(number) => number,
        Err(_) => match text.parse::<jiff::Timestamp>() {
            Ok(at) => at.as_millisecond() as f64 / 1e3 - now_s,
            Err(_) => units(text)?,
        },
    };
    Duration::try_from_secs_f64(seconds).ok()
}

/// Parses numbers with units.
fn units(text: &str) -> Option<f64> {
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').filter(|digits| *digits > 0)?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        seconds += number
            * match &rest[..unit] {
                "d" => 86_400.0,
                "h" => 3_600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 1e-3,
                "us" | "µs" => 1e-6,
                "ns" => 1e-9,
                _ => return None,
            };
        rest = &rest[unit..];
    }
    (!text.is_empty()).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    const NOW: f64 = 1_790_000_000.0;

    fn wait(pairs: &[(&'static str, &'static str)]) -> Option<f64> {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        exhausted_for(&pairs.iter().map(pair).collect(), NOW).map(|wait| (wait.as_secs_f64() * 1e6).round() / 1e6)
    }

    #[test]
    fn some_headers_say_whose_a_limit_is() {
        for (name, value, expected) in [
            ("x-ratelimit-type", "UserByModelByDay", Some(false)),
            ("x-ratelimit-type", "UserConcurrentRequests", Some(true)),
            ("x-ratelimit-scope", "organization", Some(true)),
            ("x-ratelimit-scope", "model", Some(false)),
            ("x-ratelimit-scope", "shared", None),
            ("x-ratelimit-limit-requests", "account", None),
        ] {
            let headers = HeaderMap::from_iter([(HeaderName::from_static(name), HeaderValue::from_static(value))]);
            assert_eq!(names_account(&headers), expected, "{name}: {value}");
        }
    }

    #[test]
    fn what_is_used_up_has_room_again_at_its_reset() {
        let requests = |left, reset| [("x-ratelimit-remaining-requests", left), ("x-ratelimit-reset-requests", reset)];
        for (reset, seconds) in [
            ("1s", Some(1.0)),
            ("6m0s", Some(360.0)),
            ("20ms", Some(0.02)),
            ("1h2m3.5s", Some(3_723.5)),
            ("7", Some(7.0)),
            ("1790000030", Some(30.0)),
            ("1790000030500", Some(30.5)),
            ("2026-09-21T13:33:25Z", None),
            ("2026-09-21T14:13:25Z", Some(5.0)),
            ("1790000000", None),
            ("0s", None),
            ("-3", None),
            ("soon", None),
            ("5x", None),
            ("s", None),
            ("", None),
            ("NaN", None),
            ("1e400", None),
        ] {
            assert_eq!(wait(&requests("0", reset)), seconds, "{reset}");
        }
        assert_eq!(wait(&requests("1", "60s")), None);
        assert_eq!(wait(&[("x-ratelimit-remaining-requests", "0")]), None, "no reset");
        assert_eq!(wait(&[("cards-remaining", "0"), ("cards-reset", "9s")]), None, "something else");
        let anthropic = [
            ("anthropic-ratelimit-input-tokens-remaining", "0"),
            ("anthropic-ratelimit-input-tokens-reset", "2026-09-21T14:13:30Z"),
        ];
        let both: Vec<_> = anthropic.into_iter().chain(requests("0", "4s")).collect();
        assert_eq!(wait(&both), Some(10.0), "the later of two");
    }
}
