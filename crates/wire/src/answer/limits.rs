//! Reads rate limits from response headers: when an exhausted limit resets, and whether it is the account's.
//!
//! Not for `retry-after`, which is read where it is obeyed.

use std::time::Duration;

use http::HeaderMap;

use super::headers::is_remaining;
use super::reset::Reset;

/// The time until the last exhausted limit resets, as far as the headers show it. `now_ms`: milliseconds since 1970.
pub fn exhausted_for(headers: &HeaderMap, now_ms: i64) -> Option<Duration> {
    let reset = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        let name = name.as_str();
        // A rate below one per request is not zero.
        let is_zero = value.to_str().is_ok_and(|value| value.trim().parse() == Ok(0.0));
        if !is_zero || !is_remaining(name) {
            return None;
        }
        let reset = headers.get(name.replace("remaining", "reset"))?.to_str().ok()?;
        Reset::of(reset.trim())?.wait(now_ms)
    };
    headers.iter().filter_map(reset).max()
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

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    const NOW_MS: i64 = 1_790_000_000_000;

    fn wait(pairs: &[(&'static str, &'static str)]) -> Option<f64> {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        exhausted_for(&pairs.iter().map(pair).collect(), NOW_MS).map(|wait| (wait.as_secs_f64() * 1e6).round() / 1e6)
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
