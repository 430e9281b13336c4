//! The money of one race: reservations of its extra attempts, and the cost of all its attempts. Settled when the last attempt has
//! reported, at the latest on drop. Not for prices, which are `tariff`'s.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{BudgetSnapshot, CostBudget, LookBook, SpentLately};

/// A model's cost budget, shared by its requests.
pub type SharedCostBudget = Arc<Mutex<CostBudget>>;

/// The money of one race. Shared by its attempts; not `Clone`: it settles once.
pub struct RaceBudget {
    cost_budget: SharedCostBudget,
    /// A larger one that pays too: a lower budget of a request's own must not be spent in addition to the model's.
    within: Option<SharedCostBudget>,
    /// Its policy keeps within a budget. Races of other policies spend without owing anything.
    keeps_budget: bool,
    sums: Mutex<RaceCosts>,
}

#[derive(Debug, Default)]
struct RaceCosts {
    reserved: f64,
    /// Ordinal and cost of each finished attempt.
    paid: Vec<(usize, f64)>,
    /// The attempt that the client got.
    winner: Option<usize>,
    /// Ordinals of the extras that were chosen.
    chosen: Vec<usize>,
    /// Ordinal and expected cost, as a share of a mean attempt, of the one that started only to be compared.
    compared: Option<(usize, f64)>,
    began_us: i64,
}

impl RaceBudget {
    pub fn new(cost_budget: SharedCostBudget, keeps_budget: bool) -> RaceBudget {
        RaceBudget { cost_budget, within: None, keeps_budget, sums: Mutex::default() }
    }

    /// What this race spends comes out of `larger` too.
    pub fn within(mut self, larger: Option<SharedCostBudget>) -> RaceBudget {
        self.within = larger;
        self
    }

    pub fn terms(&self) -> BudgetSnapshot {
        lock(&self.cost_budget).terms()
    }

    /// A cost as a share of what a single attempt of its model costs on the average.
    pub(crate) fn of_mean(&self, cost: f64) -> f64 {
        lock(&self.cost_budget).of_mean(cost)
    }

    /// Asks or changes what is known of its model's looks.
    pub(crate) fn looks<A>(&self, with: impl FnOnce(&mut LookBook) -> A) -> A {
        with(lock(&self.cost_budget).looks())
    }

    /// Reserves an extra attempt. False: the budget does not allow it.
    pub fn reserve(&self, cost: f64) -> bool {
        if !lock(&self.cost_budget).reserve(cost) {
            return false;
        }
        if self.within.as_ref().is_some_and(|larger| !lock(larger).reserve(cost)) {
            lock(&self.cost_budget).give_back(cost);
            return false;
        }
        lock(&self.sums).reserved += cost;
        true
    }

    /// The race begins.
    pub fn requested(&self, now_us: i64) {
        self.paying().for_each(|cost_budget| lock(cost_budget).requested(now_us));
        lock(&self.sums).began_us = now_us;
    }

    /// Counts a rescue. False: there are too many of them. One that `must` start is never refused.
    pub fn rescue(&self, must: bool, now_us: i64) -> bool {
        self.paying().all(|cost_budget| lock(cost_budget).rescue(must, now_us))
    }

    /// Reserves a revisit, as far as the part of the budget that is kept for them pays for it.
    pub fn revisit(&self, cost: f64) -> bool {
        let pays = self.paying().all(|cost_budget| lock(cost_budget).revisit(cost));
        if pays {
            lock(&self.sums).reserved += cost;
        }
        pays
    }

    /// The attempt of this ordinal is a chosen extra.
    pub fn chose(&self, ordinal: usize) {
        lock(&self.sums).chosen.push(ordinal);
    }

    /// The attempt of this ordinal started only to be compared, and this was spent on it: see [`LookBook::spend_on_doubt`].
    pub(crate) fn compares(&self, ordinal: usize, expected: f64) {
        lock(&self.sums).compared = Some((ordinal, expected));
    }

    /// Charges a start that is never refused.
    pub fn charge(&self, cost: f64) {
        self.paying().for_each(|cost_budget| lock(cost_budget).charge(cost));
        lock(&self.sums).reserved += cost;
    }

    /// The attempt of this ordinal ended, and its cost.
    pub fn paid(&self, ordinal: usize, cost: f64) {
        lock(&self.sums).paid.push((ordinal, cost));
    }

    /// The client gets this attempt; a later call replaces an earlier one.
    pub fn won(&self, ordinal: usize) {
        lock(&self.sums).winner = Some(ordinal);
    }

    /// The client's TTFT in microseconds, and the tokens of the answer.
    pub fn finished(&self, client_ttft_us: Option<i64>, output_tokens: Option<i64>) {
        self.paying().for_each(|cost_budget| lock(cost_budget).finished(client_ttft_us, output_tokens));
    }

    /// The client got a plain answer after this many microseconds.
    pub fn took_whole(&self, us: i64) {
        self.paying().for_each(|cost_budget| lock(cost_budget).took_whole(us));
    }

    fn paying(&self) -> impl Iterator<Item = &SharedCostBudget> {
        std::iter::once(&self.cost_budget).chain(&self.within)
    }
}

impl Drop for RaceBudget {
    /// One attempt would have been made anyhow: the winner, or else the first. The others are extra.
    fn drop(&mut self) {
        let RaceCosts { reserved, mut paid, winner, chosen, compared, began_us } =
            std::mem::take(&mut *lock(&self.sums));
        if let Some((ordinal, expected)) = compared {
            // If it won, the budget pays for what ran at the same time.
            let is_compared = |of: usize| of == ordinal && winner != Some(ordinal);
            let cost: f64 = paid.iter().filter(|(of, _)| is_compared(*of)).map(|(_, cost)| cost).sum();
            paid.retain(|(of, _)| !is_compared(*of));
            let mut cost_budget = lock(&self.cost_budget);
            let more = cost_budget.of_mean(cost) - expected;
            cost_budget.looks().spend_on_doubt(more);
        }
        let first = paid.iter().map(|(ordinal, _)| *ordinal).min();
        let single = winner.filter(|winner| paid.iter().any(|(ordinal, _)| ordinal == winner)).or(first);
        let sum = |of_single: bool| {
            paid.iter()
                .filter(|(ordinal, _)| (Some(*ordinal) == single) == of_single)
                .map(|(_, cost)| cost)
                .sum::<f64>()
        };
        let extra = if self.keeps_budget { sum(false) } else { 0.0 };
        // If the chosen extra won, it is what the attempt before it cost.
        let of_chosen = paid.iter().filter(|(ordinal, _)| chosen.contains(ordinal)).map(|(_, cost)| cost).sum::<f64>();
        let extras = of_chosen.min(sum(false));
        let spent = SpentLately { base: sum(true), extras, rescues: sum(false) - extras };
        for mut cost_budget in self.paying().map(|cost_budget| lock(cost_budget)) {
            match single {
                Some(_) => {
                    cost_budget.settle(sum(true), reserved, extra);
                    cost_budget.spent(began_us, spent);
                }
                None => cost_budget.give_back(reserved),
            }
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_race_is_settled_when_the_last_attempt_is_over() {
        let cost_budget: SharedCostBudget = Arc::new(Mutex::new(CostBudget::new(0.1)));
        let race_budget = Arc::new(RaceBudget::new(cost_budget.clone(), true));
        assert!(race_budget.reserve(1.0), "the first cost that is heard of fills the bucket");
        let before = lock(&cost_budget).terms().bucket;
        race_budget.paid(0, 10.0);
        race_budget.won(0);
        let loser = race_budget.clone();
        drop(race_budget);
        assert_eq!(lock(&cost_budget).terms().bucket, before);
        loser.paid(1, 0.25);
        drop(loser);
        // Adds the budget's share of the base, returns the reservation, takes the spending.
        let settled = lock(&cost_budget).terms().bucket;
        assert!((settled - (before + 0.1 * 10.0 + 1.0 - 0.25)).abs() < 1e-9);
        let racing = RaceBudget::new(cost_budget.clone(), false);
        racing.paid(0, 1.0);
        racing.paid(1, 7.0);
        drop(racing);
        assert!(lock(&cost_budget).terms().bucket > settled - 1.0, "what a race of all spends");
    }

    #[test]
    fn a_comparison_is_paid_beside_the_budget() {
        let left = |winner: usize| {
            let cost_budget: SharedCostBudget = Arc::new(Mutex::new(CostBudget::new(0.1)));
            lock(&cost_budget).settle(10.0, 0.0, 50.0);
            let before = lock(&cost_budget).terms().bucket;
            let race_budget = RaceBudget::new(cost_budget.clone(), true);
            race_budget.looks(|looks| looks.spend_on_doubt(36.0));
            race_budget.compares(1, 0.5);
            race_budget.paid(0, 10.0);
            race_budget.paid(1, 30.0);
            race_budget.won(winner);
            drop(race_budget);
            let bucket = lock(&cost_budget).terms().bucket - before;
            // A look usually costs so much of what is left.
            let affords = |cost: f64| {
                let mut looks = lock(&cost_budget).looks().clone();
                looks.asked(cost);
                looks.affords_comparison()
            };
            (bucket.round(), affords(0.0), affords(2.0))
        };
        assert_eq!(left(0), (1.0, true, false), "three mean costs of the forty, and not the half that was expected");
        assert_eq!(left(1), (-7.0, true, true), "it served the client: the other one was the extra");
    }

    #[test]
    fn a_lower_budget_is_spent_within_the_larger_one() {
        let budget = |share: f64| -> SharedCostBudget { Arc::new(Mutex::new(CostBudget::new(share))) };
        let bucket = |cost_budget: &SharedCostBudget| lock(cost_budget).terms().bucket;
        let (models, own) = (budget(0.1), budget(0.05));
        lock(&models).settle(1.0, 0.0, 0.0);
        let race = |own: &SharedCostBudget| RaceBudget::new(own.clone(), true).within(Some(models.clone()));
        // Buckets begin full: with one of its own for each request, each could start an extra attempt.
        let mut begun = Vec::new();
        while begun.len() < 100 {
            let one = race(&budget(0.05));
            if !one.reserve(1.0) {
                break;
            }
            begun.push(one);
        }
        assert_eq!(begun.len(), 19, "twenty mean costs, less what is kept for revisits");
        let (refused, left) = (race(&own), bucket(&models));
        assert!(!refused.reserve(1.0) && bucket(&own) == 20.0, "the own bucket gets back what the larger one refuses");
        refused.charge(1.0);
        refused.paid(0, 1.0);
        refused.paid(1, 3.0);
        drop(refused);
        assert!((bucket(&models) - (left + 0.1 - 3.0)).abs() < 1e-9 && bucket(&own) < 20.0 - 2.9);
        begun.clear();
        assert!((bucket(&models) - (left + 19.0 + 0.1 - 3.0)).abs() < 1e-9, "no bill: the reservations come back");
    }

    #[test]
    fn one_attempt_is_no_extra_whatever_becomes_of_the_race() {
        let settled = |paid: &[(usize, f64)], winner: Option<usize>| {
            let cost_budget: SharedCostBudget = Arc::new(Mutex::new(CostBudget::new(0.5)));
            lock(&cost_budget).settle(10.0, 0.0, 0.0);
            lock(&cost_budget).settle(10.0, 0.0, 500.0);
            let before = lock(&cost_budget).terms();
            let race_budget = RaceBudget::new(cost_budget.clone(), true);
            paid.iter().for_each(|(ordinal, cost)| race_budget.paid(*ordinal, *cost));
            winner.into_iter().for_each(|winner| race_budget.won(winner));
            drop(race_budget);
            let after = lock(&cost_budget).terms();
            (((after.bucket - before.bucket) * 1e6).round() / 1e6, after.mean_cost)
        };
        let gone = settled(&[(1, 3.0), (0, 10.0), (2, 4.0)], None);
        assert_eq!(gone, (0.5 * 10.0 - 7.0, 10.0), "the client left while three ran: the first would have run anyhow");
        assert_eq!(settled(&[(0, 3.0), (1, 10.0)], Some(1)), (0.5 * 10.0 - 3.0, 10.0));
        assert_eq!(settled(&[(0, 10.0)], Some(7)), (0.5 * 10.0, 10.0), "the winner cost nothing that is known");
        assert_eq!(settled(&[], None), (0.0, 10.0), "nothing was billed, so it was no race of cost 0");
    }
}
