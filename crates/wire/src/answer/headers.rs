//! Reads a provider's response headers: remaining rate limits, usage, and the provider's own timings.
//!
//! Only names that a vendor documents or that a recording shows. The body takes precedence: see [`Usage::or`].

use std::time::Duration;

use http::HeaderMap;

use crate::answer::reset::Reset;
use crate::answer::usage::Usage;
use crate::stream::service_tier::ServiceTier;

/// The facts of the response headers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HeadFacts {
    /// The smallest value, if there are several limits (per minute, per day). Likewise the next one.
    pub remaining_requests: Option<i64>,
    pub remaining_tokens: Option<i64>,
    pub usage: Usage,
}

/// The unit of a rate-limit header.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LimitKind {
    Requests,
    Tokens,
}

/// Reads the response headers.
pub fn read(headers: &HeaderMap) -> HeadFacts {
    let mut facts = HeadFacts { usage: usage(headers), ..HeadFacts::default() };
    for (name, value) in headers {
        let Some(counted) = remaining(name.as_str()) else { continue };
        let Some(left) = value.to_str().ok().and_then(number) else { continue };
        let tightest = match counted {
            LimitKind::Requests => &mut facts.remaining_requests,
            LimitKind::Tokens => &mut facts.remaining_tokens,
        };
        // A fraction of a request is no request.
        *tightest = Some(tightest.map_or(left as i64, |before| before.min(left as i64)));
    }
    facts
}

/// Whether a header of this name gives the remainder of a rate limit.
pub fn is_remaining(name: &str) -> bool {
    remaining(name).is_some()
}

/// Whether a header of this name is only about rate limits. Uses the words of vendors.
pub fn is_about_rate_limits(name: &str) -> bool {
    let is_limit = |word: &str| matches!(word, "ratelimit" | "ratelimitbysize" | "tokenlimit");
    let is_known = |word: &str| {
        let counted = ["requests", "req", "tokens", "input", "output", "prompt", "generated", "query", "cost"];
        let known = ["limit", "remaining", "reset", "policy", "status", "unified", "fallback", "overage", "in", "use"];
        let span = ["per", "second", "minute", "hour", "day", "month", "5h", "7d"];
        is_limit(word)
            || matches!(word, "x" | "anthropic")
            || counted.contains(&word)
            || known.contains(&word)
            || span.contains(&word)
    };
    name.split('-').any(is_limit) && name.split('-').all(is_known)
}

/// `x-ratelimit-remaining-tokens-minute`, `anthropic-ratelimit-requests-remaining`, `ratelimit-remaining`: vendors use
/// the same words in any order. A name with an unknown word counts something else.
fn remaining(name: &str) -> Option<LimitKind> {
    let (mut is_limit, mut is_remaining, mut counted) = (false, false, LimitKind::Requests);
    for word in name.split('-') {
        match word {
            "ratelimit" => is_limit = true,
            "tokenlimit" => (is_limit, counted) = (true, LimitKind::Tokens),
            "remaining" => is_remaining = true,
            "tokens" => counted = LimitKind::Tokens,
            "x" | "anthropic" | "requests" | "req" | "input" | "output" | "prompt" | "generated" => {}
            "per" | "second" | "minute" | "hour" | "day" | "month" => {}
            _ => return None,
        }
    }
    (is_limit && is_remaining).then_some(counted)
}

/// Headers contain only what was known when they were sent. For a stream, OpenAI and Envoy send the time up to the
/// headers, TGI and Fireworks send none.
fn usage(headers: &HeaderMap) -> Usage {
    // Few headers: comparing them costs less than hashing a dozen names.
    let found = |name: &str| headers.iter().find(|(found, _)| *found == name).map(|(_, value)| value);
    let value = |name: &str| found(name)?.to_str().ok().and_then(number);
    let count = |name: &str| value(name).map(|count| count as i64);
    let micros = |name: &str, unit: f64| value(name).map(|time| (time * unit).round() as i64);
    // TGI's other headers have common names, so this one must be present too.
    let is_tgi = found("x-compute-type").is_some();
    let of_tgi = |value: Option<i64>| value.filter(|_| is_tgi);
    Usage {
        input_tokens: count("fireworks-prompt-tokens")
            .or(of_tgi(count("x-prompt-tokens")))
            .or(count("x-amzn-bedrock-input-token-count")),
        cached_input_tokens: count("fireworks-cached-prompt-tokens"),
        output_tokens: of_tgi(count("x-generated-tokens")),
        queue_us: of_tgi(micros("x-queue-time", 1e3)),
        total_us: micros("openai-processing-ms", 1e3)
            .or(micros("fireworks-server-processing-time", 1e6))
            .or(of_tgi(micros("x-total-time", 1e3)))
            .or(micros("x-envoy-upstream-service-time", 1e3)),
        tier: found("x-gemini-service-tier").and_then(|tier| tier.to_str().ok()).map(ServiceTier::of_name),
        ..Usage::default()
    }
}

fn number(text: &str) -> Option<f64> {
    // Beyond 2^53 it is not a count. Some vendors send -1 for "no limit".
    text.trim().parse().ok().filter(|value| (0.0..9e15).contains(value))
}

// Reads rate limits from response headers: when an exhausted limit resets, and whether it is the account's.
//
// Not for `retry-after`, which is read where it is obeyed.

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
    use super::*;
    use http::{HeaderName, HeaderValue};

    fn facts(pairs: &[(&'static str, &'static str)]) -> HeadFacts {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        read(&pairs.iter().map(pair).collect())
    }

    #[test]
    fn what_is_left_is_read_under_every_vendor_s_names() {
        for (vendor, headers, requests, tokens) in [
            (
                "OpenAI",
                &[("x-ratelimit-remaining-requests", "9999"), ("x-ratelimit-remaining-tokens", "49999989")][..],
                Some(9_999),
                Some(49_999_989),
            ),
            (
                "Cerebras",
                &[("x-ratelimit-remaining-requests-day", "14399"), ("x-ratelimit-remaining-tokens-minute", "59000")],
                Some(14_399),
                Some(59_000),
            ),
            (
                "Mistral",
                &[("x-ratelimit-remaining-req-minute", "4"), ("x-ratelimit-remaining-tokens-minute", "9000")],
                Some(4),
                Some(9_000),
            ),
            (
                "Together",
                &[("x-ratelimit", "false"), ("x-ratelimit-remaining", "59"), ("x-tokenlimit-remaining", "3000")],
                Some(59),
                Some(3_000),
            ),
            (
                "Anthropic",
                &[
                    ("anthropic-ratelimit-requests-remaining", "50"),
                    ("anthropic-ratelimit-tokens-remaining", "80000"),
                    ("anthropic-ratelimit-input-tokens-remaining", "60000"),
                    ("anthropic-ratelimit-output-tokens-remaining", "20000"),
                ],
                Some(50),
                Some(20_000),
            ),
            (
                "DigitalOcean",
                &[
                    ("x-ratelimit-remaining-tokens-per-day", "900000"),
                    ("x-ratelimit-remaining-tokens-per-minute", "1500"),
                ],
                None,
                Some(1_500),
            ),
            ("the standard", &[("ratelimit-remaining", "7.0"), ("ratelimit-limit", "10")], Some(7), None),
            (
                "no rate limit",
                &[
                    ("x-ratelimit-limit-requests", "1"),
                    ("x-ratelimit-reset-tokens", "2"),
                    ("x-ratelimit-remaining-images", "3"),
                    ("x-ratelimit-remaining-tokens", "-1"),
                    ("x-ratelimit-remaining-requests", "many"),
                    ("x-remaining", "4"),
                ],
                None,
                None,
            ),
        ] {
            let facts = facts(headers);
            assert_eq!((facts.remaining_requests, facts.remaining_tokens), (requests, tokens), "{vendor}");
        }
    }

    #[test]
    fn times_and_counts_are_read_in_each_vendor_s_unit() {
        let none = Usage::default();
        for (headers, usage) in [
            (
                &[("openai-processing-ms", "517"), ("x-envoy-upstream-service-time", "600")][..],
                Usage { total_us: Some(517_000), ..none },
            ),
            (&[("x-envoy-upstream-service-time", "173")], Usage { total_us: Some(173_000), ..none }),
            (&[("x-gemini-service-tier", "priority")], Usage { tier: Some(ServiceTier::Priority), ..none }),
            (
                &[
                    ("fireworks-prompt-tokens", "20"),
                    ("fireworks-cached-prompt-tokens", "8"),
                    ("fireworks-server-processing-time", "0.125"),
                ],
                Usage { input_tokens: Some(20), cached_input_tokens: Some(8), total_us: Some(125_000), ..none },
            ),
            (
                &[
                    ("x-compute-type", "gpu+optimized"),
                    ("x-prompt-tokens", "14"),
                    ("x-generated-tokens", "100"),
                    ("x-queue-time", "3"),
                    ("x-total-time", "900"),
                ],
                Usage {
                    input_tokens: Some(14),
                    output_tokens: Some(100),
                    queue_us: Some(3_000),
                    total_us: Some(900_000),
                    ..none
                },
            ),
            (&[("x-total-time", "900"), ("x-queue-time", "3"), ("x-generated-tokens", "100")], none),
            (&[("openai-processing-ms", "soon"), ("fireworks-prompt-tokens", "NaN")], none),
        ] {
            assert_eq!(facts(headers).usage, usage, "{headers:?}");
        }
    }
}

#[cfg(test)]
mod limits_tests {
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
