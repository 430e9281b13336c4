//! The headers with which an answer reports a caller's limits. Not for refusals: see `refusals::limited`.

use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};
use jiff::Timestamp;

use photofinish_limits::{LimitsLeft, RateLeft, usd};
use photofinish_wire::answer::headers::is_about_rate_limits;
use photofinish_wire::{Dialect, Surface};

const SECOND_US: i64 = 1_000_000;

/// Adds the headers that say what is left, as the vendor of this surface does. What a provider said of its own limits is not for it.
pub fn add(headers: &mut HeaderMap, left: LimitsLeft, surface: Surface) {
    let theirs: Vec<HeaderName> = headers.keys().filter(|name| is_about_rate_limits(name.as_str())).cloned().collect();
    theirs.into_iter().for_each(|name| {
        headers.remove(name);
    });
    let is_anthropic = surface.dialect() == Dialect::Anthropic;
    let mut put = |name: String, value: String| {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.insert(name, value);
        }
    };
    for (kind, rate) in [("requests", left.requests), ("tokens", left.tokens)] {
        let Some(RateLeft { per_minute, left, reset_us, .. }) = rate else { continue };
        let reset = if is_anthropic { instant(reset_us) } else { pause(reset_us) };
        for (what, value) in [("limit", per_minute.to_string()), ("remaining", left.to_string()), ("reset", reset)] {
            put(
                match is_anthropic {
                    true => format!("anthropic-ratelimit-{kind}-{what}"),
                    false => format!("x-ratelimit-{what}-{kind}"),
                },
                value,
            );
        }
    }
    left.budget.into_iter().for_each(|left| put("x-photofinish-budget-remaining-usd".to_owned(), usd(left)));
    if let Some((kind, near)) = left.near {
        put("x-photofinish-budget-warning".to_owned(), format!("{kind}: {near}"));
    }
}

/// As Anthropic writes it: `2026-11-27T07:40:00Z`, rounded up.
fn instant(after_us: i64) -> String {
    let at_us = Timestamp::now().as_microsecond().saturating_add(after_us);
    let seconds = at_us.div_euclid(SECOND_US) + i64::from(at_us.rem_euclid(SECOND_US) > 0);
    Timestamp::from_second(seconds).map_or_else(|_| String::new(), |at| at.to_string())
}

/// As OpenAI writes it: `6m0s`, `1.5s`, `20ms`.
fn pause(us: i64) -> String {
    let ms = us / 1_000 + i64::from(us % 1_000 > 0);
    let (minutes, ms) = (ms / 60_000, ms % 60_000);
    let seconds = ms as f64 / 1_000.0;
    match minutes {
        0 if ms < 1_000 => format!("{ms}ms"),
        0 => format!("{seconds}s"),
        minutes => format!("{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use photofinish_limits::{Calendar, NearEnd};

    #[test]
    fn pauses_are_exact() {
        let pauses = [0, 1, 20_000, 999_001, 1_500_000, 60_000_000, 61_500_000, 360_000_000];
        assert_eq!(pauses.map(pause), ["0ms", "1ms", "20ms", "1s", "1.5s", "1m0s", "1m1.5s", "6m0s"]);
    }

    #[test]
    fn the_callers_own_limits_replace_the_providers() {
        let rate = |left| Some(RateLeft { per_minute: 60, burst: 60, left, reset_us: 1_500_000 });
        let near = NearEnd { calendar: Calendar::Week, budget: 1_000_000_000, spent: 830_000_000, end_us: 0 };
        let left = LimitsLeft { requests: rate(5), tokens: None, budget: Some(2_500_000), near: Some(("user", near)) };
        for (surface, expected) in [
            (
                Surface::Chat,
                ["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"],
            ),
            (
                Surface::Messages,
                [
                    "anthropic-ratelimit-requests-limit",
                    "anthropic-ratelimit-requests-remaining",
                    "anthropic-ratelimit-requests-reset",
                ],
            ),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("x-ratelimit-remaining-tokens", HeaderValue::from_static("7"));
            headers.insert("anthropic-ratelimit-tokens-limit", HeaderValue::from_static("7"));
            headers.insert("x-request-id", HeaderValue::from_static("7"));
            add(&mut headers, left, surface);
            let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
            names.sort_unstable();
            let mut expected = expected.to_vec();
            expected.extend(["x-photofinish-budget-remaining-usd", "x-photofinish-budget-warning", "x-request-id"]);
            expected.sort_unstable();
            assert_eq!(names, expected);
            assert_eq!(headers["x-photofinish-budget-remaining-usd"], "0.0025");
            assert_eq!(headers["x-photofinish-budget-warning"], "user: 0.83 of 1 USD spent this week");
        }
    }
}
