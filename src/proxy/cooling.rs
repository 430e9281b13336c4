//! Upstreams of a request that are set aside: who is let through all the same where nobody else is left, and what a client is
//! told of the rest. For how long something is set aside, `routing::cooldown` decides.

use std::sync::Arc;
use std::time::Duration;

use super::breakers::Lineup;
use super::field::Runner;
use super::gateway::Gateway;
use super::rejection::{Failed, Rejection};
use crate::failure::{Failure, FailureKind, Phase};
use crate::protocol::upward::Upward;
use crate::routing::cooldown::{Aside, Held};

/// Why an upstream is not started, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Cooling {
    pub wait: Duration,
    /// None where its breaker is open.
    pub why: Option<Aside>,
}

/// One that could serve the request, and is set aside with all its keys.
pub struct SetAside {
    pub runner: Runner,
    pub upward: Arc<Upward>,
    pub held: Held,
}

/// Ends the line-up. Gives those who are not in it, by name.
pub fn finish(gateway: &Gateway, set_aside: Vec<SetAside>, lineup: &mut Lineup<'_>) -> Vec<(String, Cooling)> {
    let mut cooling = let_through(gateway, set_aside, lineup);
    cooling.extend(lineup.finish().into_iter().map(|(name, wait)| (name, Cooling { wait, why: None })));
    cooling
}

/// Where nobody in the line-up is well, what was refused is asked again, one request at a time: a refusal may be over, and no
/// Retry-After says when. Gives the names of the rest.
fn let_through(gateway: &Gateway, set_aside: Vec<SetAside>, lineup: &mut Lineup<'_>) -> Vec<(String, Cooling)> {
    let nobody_is_well = !lineup.has_well();
    let mut rest = Vec::new();
    for SetAside { mut runner, upward, held } in set_aside {
        let key = if nobody_is_well { gateway.let_through(&runner) } else { None };
        match key {
            Some(place) => {
                // The first is used where none is well.
                if !runner.keys.is_empty() {
                    runner.keys.rotate_left(place);
                }
                lineup.add_doubtful(runner, upward);
            }
            None => rest.push((runner.name, Cooling { wait: held.wait, why: Some(held.why) })),
        }
    }
    rest
}

/// Nobody may be asked. Where a refusal is among the reasons no wait is known to help, and the client is told of that.
pub fn rejection(cooling: Vec<(String, Cooling)>) -> Rejection {
    let is_refused = |(_, cooling): &&(String, Cooling)| cooling.why.is_some_and(Aside::is_refusal);
    let any_refused = cooling.iter().any(|cooling| is_refused(&cooling));
    let limits = cooling.iter().filter(|cooling| !is_refused(cooling));
    let wait = limits.map(|(_, cooling)| cooling.wait).min();
    let failed: Vec<Failed> =
        cooling.into_iter().map(|(upstream, cooling)| Failed { upstream, failure: cooling_down(cooling) }).collect();
    match any_refused {
        true => Rejection::refused(&failed, wait),
        false => Rejection::cooling_down(&failed, wait.unwrap_or_default()),
    }
}

/// What is told of one that was not started.
pub fn cooling_down(cooling: Cooling) -> Failure {
    let Cooling { wait, why } = cooling;
    let why = match why {
        Some(Aside::KeyRefused) => "the provider refused its key (401, unauthorized)",
        Some(Aside::Forbidden) => "the provider gives it no access or no credit (402 or 403, forbidden)",
        Some(Aside::NotFound) => "the provider does not have its model (404 or 501, not_found)",
        Some(Aside::RateLimited) => "a rate limit of its model",
        Some(Aside::AccountRateLimited) => "a rate limit of its account",
        Some(Aside::Exhausted) => "its rate limit is used up",
        None => "it kept failing",
    };
    let mut failure =
        Failure::new(FailureKind::CoolingDown, Phase::Connect, format!("set aside for another {wait:.0?}: {why}"));
    failure.retry_after = Some(wait);
    failure
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    #[test]
    fn a_refusal_is_told_as_such_and_a_rate_limit_as_a_429() {
        let limit = |seconds| (Some(Aside::RateLimited), seconds);
        let account = |seconds| (Some(Aside::AccountRateLimited), seconds);
        let [key, access, model] = [Aside::KeyRefused, Aside::Forbidden, Aside::NotFound].map(|why| (Some(why), 9));
        type Row<'a> = (&'a [(Option<Aside>, u64)], StatusCode, Option<&'a str>);
        let table: &[Row<'_>] = &[
            (&[limit(7)], StatusCode::TOO_MANY_REQUESTS, Some("7")),
            (&[limit(7), account(3)], StatusCode::TOO_MANY_REQUESTS, Some("3")),
            (&[key], StatusCode::BAD_GATEWAY, None),
            (&[access], StatusCode::BAD_GATEWAY, None),
            (&[model], StatusCode::BAD_GATEWAY, None),
            (&[limit(20), key], StatusCode::BAD_GATEWAY, Some("20")),
        ];
        for (aside, status, retry_after) in table {
            let cooling = aside
                .iter()
                .map(|(why, seconds)| ("a/m".to_owned(), Cooling { wait: Duration::from_secs(*seconds), why: *why }));
            let answer = rejection(cooling.collect()).into_response();
            let told = answer.headers().get("retry-after").map(|value| value.to_str().unwrap());
            assert_eq!((answer.status(), told), (*status, *retry_after), "{aside:?}");
        }
    }
}
