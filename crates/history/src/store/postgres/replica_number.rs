//! Which of several gateways on a database this process is: its rows say so. Not for what the gateways exchange: see `replicas`.

use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;

/// 0 before it is known.
static NUMBER: AtomicI64 = AtomicI64::new(0);

/// The number of the serving gateway of this process. None: it does not serve, or has reported nothing yet.
pub(in crate::store) fn number() -> Option<i32> {
    i32::try_from(NUMBER.load(Relaxed)).ok().filter(|number| *number > 0)
}

pub(in crate::store) fn set_number(number: i64) {
    NUMBER.store(number, Relaxed);
}
