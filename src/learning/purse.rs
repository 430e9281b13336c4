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

#[derive(Debug, Default)]
struct Sums {
    reserved: f64,
    /// By ordinal: what each attempt cost that is over.
    paid: Vec<(usize, f64)>,
    /// Whom the client's response was bound to.
    winner: Option<usize>,
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

    /// The attempt of this ordinal ended and cost so much.
    pub fn paid(&self, ordinal: usize, cost: f64) {
        lock(&self.sums).paid.push((ordinal, cost));
    }

    /// The client's response is bound to this attempt; the latest stands.
    pub fn won(&self, ordinal: usize) {
        lock(&self.sums).winner = Some(ordinal);
    }

    /// What the client got: microseconds to its first token, and the tokens of the answer.
    pub fn finished(&self, client_ttft_us: Option<i64>, output_tokens: Option<i64>) {
        lock(&self.ledger).finished(client_ttft_us, output_tokens);
    }
}

impl Drop for Purse {
    /// One attempt would have been made anyhow: the winner, or else the first. The others are extra.
    fn drop(&mut self) {
        let Sums { reserved, paid, winner } = std::mem::take(&mut *lock(&self.sums));
        let first = paid.iter().map(|(ordinal, _)| *ordinal).min();
        let single = winner.filter(|winner| paid.iter().any(|(ordinal, _)| ordinal == winner)).or(first);
        let sum = |of_single: bool| {
            paid.iter()
                .filter(|(ordinal, _)| (Some(*ordinal) == single) == of_single)
                .map(|(_, cost)| cost)
                .sum::<f64>()
        };
        let extra = if self.keeps_budget { sum(false) } else { 0.0 };
        let mut ledger = lock(&self.ledger);
        match single {
            Some(_) => ledger.settle(sum(true), reserved, extra),
            None => ledger.give_back(reserved),
        }
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
        purse.paid(0, 10.0);
        purse.won(0);
        let loser = purse.clone();
        drop(purse);
        assert_eq!(lock(&ledger).terms().bucket, before);
        loser.paid(1, 0.25);
        drop(loser);
        // What was reserved comes back, what was spent goes, and the budget's share of the base is added.
        let settled = lock(&ledger).terms().bucket;
        assert!((settled - (before + 0.1 * 10.0 + 1.0 - 0.25)).abs() < 1e-9);
        let racing = Purse::new(ledger.clone(), false);
        racing.paid(0, 1.0);
        racing.paid(1, 7.0);
        drop(racing);
        assert!(lock(&ledger).terms().bucket > settled - 1.0, "what a race of all spends");
    }

    #[test]
    fn one_attempt_is_no_extra_whatever_becomes_of_the_race() {
        let settled = |paid: &[(usize, f64)], winner: Option<usize>| {
            let ledger: SharedLedger = Arc::new(Mutex::new(Ledger::new(0.5)));
            lock(&ledger).settle(10.0, 0.0, 0.0);
            assert!(lock(&ledger).reserve(500.0));
            let before = lock(&ledger).terms();
            let purse = Purse::new(ledger.clone(), true);
            paid.iter().for_each(|(ordinal, cost)| purse.paid(*ordinal, *cost));
            winner.into_iter().for_each(|winner| purse.won(winner));
            drop(purse);
            let after = lock(&ledger).terms();
            (((after.bucket - before.bucket) * 1e6).round() / 1e6, after.mean_cost)
        };
        let gone = settled(&[(1, 3.0), (0, 10.0), (2, 4.0)], None);
        assert_eq!(gone, (0.5 * 10.0 - 7.0, 10.0), "the client left while three ran: the first would have run anyhow");
        assert_eq!(settled(&[(0, 3.0), (1, 10.0)], Some(1)), (0.5 * 10.0 - 3.0, 10.0));
        assert_eq!(settled(&[(0, 10.0)], Some(7)), (0.5 * 10.0, 10.0), "the winner cost nothing that is known");
        assert_eq!(settled(&[], None), (0.0, 10.0), "nothing was billed, so it was no race of cost 0");
    }
}
