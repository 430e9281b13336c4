//! The request headers that override the plan for one request. They are written as in the config.

use std::time::Duration;

use http::HeaderMap;

use super::rejection::{Rejection, quoted};
use crate::config::units::parse_duration;
use crate::config::{MAX_ATTEMPTS, Policy, RaceSettings};

const POLICY: &str = "x-photofinish-policy";
const UPSTREAMS: &str = "x-photofinish-upstreams";
const HEDGE_AFTER: &str = "x-photofinish-hedge-after";
const ATTEMPTS: &str = "x-photofinish-max-attempts";

/// What the headers say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    policy: Option<Policy>,
    /// Upstreams with commas between, not yet looked up.
    pub upstreams: Option<String>,
    hedge_after: Option<Duration>,
    max_attempts: Option<usize>,
}

/// # Errors
/// 400 that names the header.
pub fn read(headers: &HeaderMap) -> Result<Overrides, Rejection> {
    let text = |name: &'static str| match headers.get(name).map(|value| value.to_str()) {
        None => Ok(None),
        Some(_) if headers.get_all(name).iter().count() > 1 => {
            Err(Rejection::header(name, "it is sent more than once"))
        }
        Some(Ok(text)) => Ok(Some(text.trim())),
        Some(Err(_)) => Err(Rejection::header(name, "expected visible ASCII characters")),
    };
    let policy = text(POLICY)?
        .map(|name| Policy::from_name(name).ok_or_else(|| Rejection::header(POLICY, &expected_policy(name))))
        .transpose()?;
    let hedge_after = text(HEDGE_AFTER)?
        .map(|value| parse_duration(value).map_err(|error| Rejection::header(HEDGE_AFTER, &error.to_string())))
        .transpose()?;
    let max_attempts = text(ATTEMPTS)?
        .map(|value| attempts(value).ok_or_else(|| Rejection::header(ATTEMPTS, &expected_attempts(value))))
        .transpose()?;
    let upstreams = text(UPSTREAMS)?.map(str::to_owned);
    Ok(Overrides { policy, upstreams, hedge_after, max_attempts })
}

impl Overrides {
    /// The settings of this one request.
    pub fn apply(&self, settings: &RaceSettings) -> RaceSettings {
        RaceSettings {
            policy: self.policy.unwrap_or(settings.policy),
            hedge_after: self.hedge_after.unwrap_or(settings.hedge_after),
            max_attempts: self.max_attempts.unwrap_or(settings.max_attempts),
            ..settings.clone()
        }
    }

    /// The name of the header that lists upstreams.
    pub const fn upstreams_header() -> &'static str {
        UPSTREAMS
    }
}

fn attempts(value: &str) -> Option<usize> {
    value.parse().ok().filter(|attempts| (1..=MAX_ATTEMPTS).contains(attempts))
}

fn expected_attempts(value: &str) -> String {
    format!("{} is not a whole number from 1 to {MAX_ATTEMPTS}", quoted(value))
}

fn expected_policy(name: &str) -> String {
    let names: Vec<&str> = Policy::ALL.iter().map(|policy| policy.as_str()).collect();
    format!("{} is none of {}", quoted(name), names.join(", "))
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn good_values_are_read_and_bad_ones_named() {
        let good =
            read(&headers(&[(POLICY, "hedge"), (HEDGE_AFTER, "300ms"), (ATTEMPTS, "2"), (UPSTREAMS, "a/b, c/d")]))
                .unwrap();
        assert_eq!(
            (good.policy, good.hedge_after, good.max_attempts),
            (Some(Policy::Hedge), Some(Duration::from_millis(300)), Some(2))
        );
        assert_eq!(read(&HeaderMap::new()).unwrap(), Overrides::default());
        for (name, value) in [
            (POLICY, "fastest"),
            (HEDGE_AFTER, "soon"),
            (HEDGE_AFTER, "p95"),
            (ATTEMPTS, "0"),
            (ATTEMPTS, "17"),
            (ATTEMPTS, "x"),
        ] {
            let rejection = read(&headers(&[(name, value)])).unwrap_err();
            assert!(rejection.message().contains(name), "{name}: {value}: {}", rejection.message());
        }
        let mut twice = headers(&[(ATTEMPTS, "2")]);
        twice.append(ATTEMPTS, HeaderValue::from_static("2"));
        assert!(read(&twice).unwrap_err().message().contains("more than once"));
    }
}
