//! How much an attempt may buffer, and the account of it.

use bytes::Bytes;

use photofinish_base::budget::{Budget, BudgetFull};
use photofinish_base::failure::{Failure, FailureKind, Phase};

/// Request bodies of at least this many bytes are accounted for. The number of requests bounds smaller ones.
const ACCOUNTED_MIN: usize = 64 << 10;

/// How much an attempt may buffer.
pub(super) struct Bounds {
    /// Bytes of one event.
    pub event_max: usize,
    /// Memory of all attempts together.
    pub budget: Budget,
}

/// A body made for one upstream, with its memory leased.
pub(super) fn accounted(body: Bytes, budget: &Budget) -> Result<Bytes, Failure> {
    // The owner accounts for a shared body.
    if body.len() < ACCOUNTED_MIN || !body.is_unique() {
        return Ok(body);
    }
    let mut lease = budget.lease();
    lease.cover(body.len()).map_err(|BudgetFull| no_memory(Phase::Connect))?;
    Ok(lease.hold(Vec::from(body)))
}

/// The failure of an attempt without memory.
pub(super) fn no_memory(phase: Phase) -> Failure {
    Failure::new(FailureKind::GatewayLimit, phase, "the memory for bodies and buffers is in use")
}
