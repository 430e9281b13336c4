//! The money of one race: what its extra attempts reserve, and what all of them cost in the end. Settled when the last of
//! them has told, at the latest when it is dropped.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::routing::adaptive::{Ledger, Terms};

/// A model's ledger, shared by its requests.
pub type SharedLedger = Arc<Mutex<Ledger>>;

/// One race's. Shared by its attempts; not `Clone`: it settles once.
pub struct Purse {
    ledger: SharedLedger,
    /// Its policy keeps within a budget: what others spend is nothing that such a one owes.
    keeps_budget: bool,
    sums: Mutex<Sums>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    reserved: f64,
    /// What attempts beside the one that served cost.
    extra: f64,
    /// What the one that served cost.
    base: f64,
}

impl Purse {
    pub fn new(ledger: SharedLedger, keeps_budget: bool) -> Purse {
        Purse { ledger, keeps_budget, sums: Mutex::default() }
    }

    pub fn terms(&self) -> Terms {
        lock(&self.ledger).terms()
    }

    /// For an attempt beside one that runs. False: the bucket does not hold it.
    pub fn reserve(&self, cost: f64) -> bool {
        let reserved = lock(&self.ledger).reserve(cost);
        if reserved {
            lock(&self.sums).reserved += cost;
        }
        reserved
    }

    /// An attempt ended and cost so much; `served`: it is what the client got.
    pub fn paid(&self, cost: f64, served: bool) {
        let mut sums = lock(&self.sums);
        if served {
            sums.base += cost;
        } else {
            sums.extra += cost;
        }
    }

    /// What the client got: microseconds to its first token, and the tokens of the answer.
    pub fn finished(&self, client_ttft_us: Option<i64>, output_tokens: Option<i64>) {
        lock(&self.ledger).finished(client_ttft_us, output_tokens);
    }
}

impl Drop for Purse {
    fn drop(&mut self) {
        let Sums { reserved, extra, base } = *lock(&self.sums);
        let extra = if self.keeps_budget { extra } else { 0.0 };
        lock(&self.ledger).settle(base, reserved, extra);
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_race_is_settled_when_the_last_attempt_is_over() {
        let ledger: SharedLedger = Arc::new(Mutex::new(Ledger::new(0.1)));
        let purse = Arc::new(Purse::new(ledger.clone(), true));
        assert!(purse.reserve(1.0), "the first cost that is heard of fills the bucket");
        let before = lock(&ledger).terms().bucket;
        purse.paid(10.0, true);
        let loser = purse.clone();
        drop(purse);
        assert_eq!(lock(&ledger).terms().bucket, before);
        loser.paid(0.25, false);
        drop(loser);
        // What was reserved comes back, what was spent goes, and the budget's share of the base is added.
        let settled = lock(&ledger).terms().bucket;
        assert!((settled - (before + 0.1 * 10.0 + 1.0 - 0.25)).abs() < 1e-9);
        let racing = Purse::new(ledger.clone(), false);
        racing.paid(1.0, true);
        racing.paid(7.0, false);
        drop(racing);
        assert!(lock(&ledger).terms().bucket > settled - 1.0, "what a race of all spends");
    }
}
