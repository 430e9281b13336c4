//! How much an attempt may buffer, and the account of what it does.

use bytes::Bytes;

use crate::budget::{Budget, BudgetFull};
use crate::failure::{Failure, FailureKind, Phase};

/// A request's body of so many bytes is accounted for. Smaller ones are not worth it: so many requests bound them.
const ACCOUNTED_MIN: usize = 64 << 10;

/// How much an attempt may buffer.
pub(super) struct Bounds {
    /// Bytes of one event.
    pub event_max: usize,
    /// Of all attempts together.
    pub budget: Budget,
}

/// A copy that was made for one upstream, with its memory leased.
pub(super) fn accounted(body: Bytes, budget: &Budget) -> Result<Bytes, Failure> {
    // One that is shared is accounted for by its owner.
    if body.len() < ACCOUNTED_MIN || !body.is_unique() {
        return Ok(body);
    }
    let mut lease = budget.lease();
    lease.cover(body.len()).map_err(|BudgetFull| no_memory(Phase::Connect))?;
    Ok(lease.hold(Vec::from(body)))
}

/// The failure of an attempt that there is no memory for.
pub(super) fn no_memory(phase: Phase) -> Failure {
    Failure::new(FailureKind::GatewayLimit, phase, "the memory for bodies and buffers is in use")
}
