//! Candidates of one request that cool down: which of them start anyway if no other is left, and why the rest do not. Not for
//! how long a cool-down lasts: see `routing::cooldown`.

use std::sync::Arc;

use super::{BreakerAdmission, Candidate, CooldownState, UpstreamHealth};
use crate::routing::cooldown::{CooldownPeriod, CooldownReason};
use photofinish_base::failure::{Failure, FailureKind, Phase};
use photofinish_wire::RequestTranslation;

/// A candidate whose keys all cool down.
struct CooledDown {
    candidate: Candidate,
    request_translation: Arc<RequestTranslation>,
    held: CooldownPeriod,
}

/// Admits those of `offered` that may start. Returns the names of the others.
pub fn admit(
    health: &UpstreamHealth,
    offered: Vec<(Candidate, Arc<RequestTranslation>)>,
    admission: &mut BreakerAdmission<'_>,
) -> Vec<(String, CooldownState)> {
    let mut cooled_down = Vec::new();
    for (candidate, request_translation) in offered {
        match health.held(&candidate) {
            Some(held) => cooled_down.push(CooledDown { candidate, request_translation, held }),
            None => admission.add(candidate, request_translation),
        }
    }
    let mut cooling = let_through(health, cooled_down, admission);
    cooling.extend(admission.finish());
    cooling
}

/// If no candidate is healthy, refused ones are tried again, one request at a time: a refusal may be over, and it has no
/// Retry-After. Returns the names of the rest.
fn let_through(
    health: &UpstreamHealth,
    cooled_down: Vec<CooledDown>,
    admission: &mut BreakerAdmission<'_>,
) -> Vec<(String, CooldownState)> {
    let nobody_is_well = !admission.has_well();
    let mut rest = Vec::new();
    for CooledDown { mut candidate, request_translation, held } in cooled_down {
        let key = if nobody_is_well { health.let_through(&candidate) } else { None };
        match key {
            Some(place) => {
                // The first key is used if all cool down.
                if !candidate.keys.is_empty() {
                    candidate.keys.rotate_left(place);
                }
                admission.add_doubtful(candidate, request_translation);
            }
            None => rest.push((candidate.name, CooldownState { wait: held.wait, why: Some(held.why) })),
        }
    }
    rest
}

/// The failure that a client sees for a candidate that was not started.
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
        Failure::new(FailureKind::CoolingDown, Phase::Connect, format!("cooling down for another {wait:.0?}: {why}"));
    failure.retry_after = Some(wait);
    failure
}
