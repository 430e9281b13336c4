//! Upstreams of a request that are set aside: who is let through all the same where nobody else is left, and why the
//! rest are not started. For how long something is set aside, `routing::cooldown` decides.

use std::sync::Arc;
use std::time::Duration;

use super::{BreakerAdmission, Candidate, UpstreamHealth};
use crate::failure::{Failure, FailureKind, Phase};
use crate::protocol::request_translation::RequestTranslation;
use crate::routing::cooldown::{CooldownPeriod, CooldownReason};

/// Why an upstream is not started, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct CooldownState {
    pub wait: Duration,
    /// None where its breaker is open.
    pub why: Option<CooldownReason>,
}

/// One that could serve the request, and is set aside with all its keys.
pub struct CooledDown {
    pub runner: Candidate,
    pub request_translation: Arc<RequestTranslation>,
    pub held: CooldownPeriod,
}

/// Ends the line-up. Gives those who are not in it, by name.
pub fn finish(
    health: &UpstreamHealth,
    set_aside: Vec<CooledDown>,
    lineup: &mut BreakerAdmission<'_>,
) -> Vec<(String, CooldownState)> {
    let mut cooling = let_through(health, set_aside, lineup);
    cooling.extend(lineup.finish().into_iter().map(|(name, wait)| (name, CooldownState { wait, why: None })));
    cooling
}

/// Where nobody in the line-up is well, what was refused is asked again, one request at a time: a refusal may be over, and no
/// Retry-After says when. Gives the names of the rest.
fn let_through(
    health: &UpstreamHealth,
    set_aside: Vec<CooledDown>,
    lineup: &mut BreakerAdmission<'_>,
) -> Vec<(String, CooldownState)> {
    let nobody_is_well = !lineup.has_well();
    let mut rest = Vec::new();
    for CooledDown { mut runner, request_translation, held } in set_aside {
        let key = if nobody_is_well { health.let_through(&runner) } else { None };
        match key {
            Some(place) => {
                // The first is used where none is well.
                if !runner.keys.is_empty() {
                    runner.keys.rotate_left(place);
                }
                lineup.add_doubtful(runner, request_translation);
            }
            None => rest.push((runner.name, CooldownState { wait: held.wait, why: Some(held.why) })),
        }
    }
    rest
}

/// What is told of one that was not started.
pub fn cooling_down(cooling: CooldownState) -> Failure {
    let CooldownState { wait, why } = cooling;
    let why = match why {
        Some(CooldownReason::KeyRefused) => "the provider refused its key (401, unauthorized)",
        Some(CooldownReason::Forbidden) => "the provider gives it no access or no credit (402 or 403, forbidden)",
        Some(CooldownReason::NotFound) => "the provider does not have its model (404 or 501, not_found)",
        Some(CooldownReason::RateLimited) => "a rate limit of its model",
        Some(CooldownReason::AccountRateLimited) => "a rate limit of its account",
        Some(CooldownReason::Exhausted) => "its rate limit is used up",
        None => "it kept failing",
    };
    let mut failure =
        Failure::new(FailureKind::CoolingDown, Phase::Connect, format!("set aside for another {wait:.0?}: {why}"));
    failure.retry_after = Some(wait);
    failure
}
