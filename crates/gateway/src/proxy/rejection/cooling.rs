//! The answer if every upstream cools down.

use super::{FailedUpstream, Rejection};
use photofinish_routing::health::{CooldownState, cooling_down};
use photofinish_routing::routing::cooldown::CooldownReason;

/// No upstream is available now. If one of them refused the key, the model or the account, waiting does not help, and
/// the answer says so.
pub fn all_cooling_down(cooling: Vec<(String, CooldownState)>) -> Rejection {
    let is_refused = |(_, cooling): &&(String, CooldownState)| cooling.why.is_some_and(CooldownReason::is_refusal);
    let any_refused = cooling.iter().any(|cooling| is_refused(&cooling));
    // An upstream without this call is left alone for a while, like one without the model.
    let lacks_call = cooling.iter().any(|(_, cooling)| cooling.why == Some(CooldownReason::NotFound));
    let limits = cooling.iter().filter(|cooling| !is_refused(cooling));
    let wait = limits.map(|(_, cooling)| cooling.wait).min();
    let failed: Vec<FailedUpstream> = cooling
        .into_iter()
        .map(|(upstream, cooling)| FailedUpstream { upstream, failure: cooling_down(cooling) })
        .collect();
    let mut rejection = match any_refused {
        true => Rejection::refused(&failed, wait),
        false => Rejection::cooling_down(&failed, wait.unwrap_or_default()),
    };
    rejection.0.unspoken = lacks_call;
    rejection
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::StatusCode;

    use super::*;

    #[test]
    fn a_refusal_is_told_as_such_and_a_rate_limit_as_a_429() {
        let limit = |seconds| (Some(CooldownReason::RateLimited), seconds);
        let account = |seconds| (Some(CooldownReason::AccountRateLimited), seconds);
        let [key, access, model] =
            [CooldownReason::KeyRefused, CooldownReason::Forbidden, CooldownReason::NotFound].map(|why| (Some(why), 9));
        type Row<'a> = (&'a [(Option<CooldownReason>, u64)], StatusCode, Option<&'a str>);
        let table: &[Row<'_>] = &[
            (&[limit(7)], StatusCode::TOO_MANY_REQUESTS, Some("7")),
            (&[limit(7), account(3)], StatusCode::TOO_MANY_REQUESTS, Some("3")),
            (&[key], StatusCode::BAD_GATEWAY, None),
            (&[access], StatusCode::BAD_GATEWAY, None),
            (&[model], StatusCode::BAD_GATEWAY, None),
            (&[limit(20), key], StatusCode::BAD_GATEWAY, Some("20")),
        ];
        for (cooling_upstreams, status, retry_after) in table {
            let cooling = cooling_upstreams.iter().map(|(why, seconds)| {
                ("a/m".to_owned(), CooldownState { wait: Duration::from_secs(*seconds), why: *why })
            });
            let answer = all_cooling_down(cooling.collect()).into_response();
            let told = answer.headers().get("retry-after").map(|value| value.to_str().unwrap());
            assert_eq!((answer.status(), told), (*status, *retry_after), "{cooling_upstreams:?}");
        }
    }
}
