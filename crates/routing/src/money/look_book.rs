//! What a model's looks may still cost, what one costs, and how many each upstream had lately. Not for the draw: see `policy::look`.

use std::collections::HashMap;

use super::recent_sums::RecentSums;
use photofinish_base::clock::DAY_US;

/// Share of the budget's money that looks may spend.
const OF_BUDGET: f64 = 0.2;
/// The most that is saved for them, mean requests. As the bucket of the budget, which has twenty at least and pays them too, it is full at the
/// start: then the first looks come soon, also where the prompt is most of what a request costs.
const SAVED_MOST: f64 = 12.0;
/// The same for comparisons of a host that breaks answers, outside the budget: the cost of as many whole answers as distinguish four hosts.
const SAVED_FOR_DOUBT: f64 = 40.0;
/// Requests in which what is saved is spent, at the most.
const SPENT_IN: f64 = 30.0;
/// Requests that the usual cost of a look remembers.
const REMEMBERED: f64 = 1_000.0;
/// The least cost of a look that differs from none, as a share of a usual one.
const LEAST: f64 = 0.01;
/// Upstreams whose looks are counted.
const COUNTED_MAX: usize = 256;

/// Of one model. Costs are shares of what a single attempt costs on the average.
#[derive(Clone, Debug)]
pub struct LookBook {
    /// A dear look may leave a debt.
    saved: f64,
    /// What comparisons may still spend, outside the budget.
    for_doubt: f64,
    /// Mean cost of a look at a request, and the weight behind it.
    usual: f64,
    /// Mean over requests of √(usual / cost), so that dear requests are drawn less often and all of them as often as is wanted.
    cheapness: f64,
    weight: f64,
    /// By upstream: those of the last week.
    taken: HashMap<String, RecentSums<7, 1>>,
}

impl LookBook {
    pub(super) fn new(budget: f64) -> LookBook {
        let saved = if budget > 0.0 { SAVED_MOST } else { 0.0 };
        let for_doubt = if budget > 0.0 { SAVED_FOR_DOUBT } else { 0.0 };
        LookBook { saved, for_doubt, usual: 0.0, cheapness: 0.0, weight: 0.0, taken: HashMap::new() }
    }

    /// A race ended; `base` is the cost of its single attempt.
    pub(super) fn earn(&mut self, budget: f64, base: f64) {
        let earned = OF_BUDGET * budget * base;
        self.saved = (self.saved + earned).min(SAVED_MOST);
        self.for_doubt = (self.for_doubt + earned).min(SAVED_FOR_DOUBT);
    }

    /// A request at which a paid look would cost so much. Returns how much likelier than usual it is to be drawn: cheap ones are.
    pub(crate) fn asked(&mut self, cost: f64) -> f64 {
        self.weight = self.weight * (1.0 - 1.0 / REMEMBERED) + 1.0;
        self.usual += (cost - self.usual) / self.weight;
        if self.usual <= 0.0 {
            return 1.0;
        }
        let cheap = (cost / self.usual).max(LEAST).sqrt().recip();
        self.cheapness += (cheap - self.cheapness) / self.weight;
        cheap / self.cheapness
    }

    /// Share of the requests that what is saved pays a look for. It begins with what one costs.
    pub(crate) fn affordable(&self) -> f64 {
        match self.usual {
            usual if usual <= 0.0 => 1.0,
            usual if self.saved < usual => 0.0,
            usual => (self.saved / usual / SPENT_IN).min(1.0),
        }
    }

    /// Whether what is saved for comparisons pays one.
    pub(crate) fn affords_comparison(&self) -> bool {
        self.for_doubt > 0.0 && self.for_doubt >= self.usual
    }

    /// A comparison that would not have started otherwise.
    pub(crate) fn spend_on_doubt(&mut self, cost: f64) {
        self.for_doubt -= cost;
    }

    /// A look that would not have started otherwise.
    pub(crate) fn spend(&mut self, cost: f64) {
        self.saved -= cost;
    }

    /// A look at this upstream begins.
    pub fn took(&mut self, upstream: &str, now_us: i64) {
        if let Some(taken) = self.taken.get_mut(upstream) {
            taken.add(now_us, [1.0]);
        } else if self.taken.len() < COUNTED_MAX {
            let mut taken = RecentSums::new(DAY_US);
            taken.add(now_us, [1.0]);
            self.taken.insert(upstream.to_owned(), taken);
        }
    }

    /// Looks at it within the last week.
    pub(crate) fn taken(&self, upstream: &str, now_us: i64) -> f64 {
        self.taken.get(upstream).map_or(0.0, |taken| taken.sums(now_us)[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_of_the_budget_pays_for_looks_and_cheap_requests_are_likelier() {
        let mut book = LookBook::new(0.1);
        assert_eq!(book.asked(0.5), 1.0, "the first is usual");
        assert!((book.affordable() - 24.0 / SPENT_IN).abs() < 1e-9, "what 24 cost is saved: {book:?}");
        book.spend(11.6);
        assert_eq!(book.affordable(), 0.0, "less than one costs");
        (0..50).for_each(|_| book.earn(0.1, 1.0));
        assert!((book.affordable() - 1.4 / 0.5 / SPENT_IN).abs() < 1e-9, "{book:?}");
        (0..1_000).for_each(|_| book.earn(0.1, 1.0));
        assert!((book.saved - SAVED_MOST).abs() < 1e-9);
        let (mut cheap, mut dear) = (0.0, 0.0);
        for _ in 0..2_000 {
            cheap = book.asked(0.1);
            dear = book.asked(0.9);
        }
        assert!((cheap / dear - 3.0).abs() < 0.1 && ((cheap + dear) / 2.0 - 1.0).abs() < 0.01, "{cheap} {dear}");
        let mut free = LookBook::new(0.1);
        assert_eq!((free.asked(0.0), free.affordable()), (1.0, 1.0));
        let mut none = LookBook::new(0.0);
        none.asked(0.5);
        none.earn(0.0, 1.0);
        assert!(none.affordable() == 0.0 && !none.affords_comparison());
        let mut doubt = LookBook::new(0.1);
        doubt.spend_on_doubt(SAVED_FOR_DOUBT);
        assert!(!doubt.affords_comparison() && doubt.saved == SAVED_MOST);
        (0..100).for_each(|_| doubt.earn(0.1, 1.0));
        doubt.asked(1.9);
        assert!(doubt.affords_comparison(), "it earns a fiftieth of the bill: {doubt:?}");
    }

    #[test]
    fn a_week_is_counted_and_the_names_are_bounded() {
        let mut book = LookBook::new(0.1);
        (0..20).for_each(|day| book.took("a/m", day * DAY_US));
        assert_eq!((book.taken("a/m", 19 * DAY_US), book.taken("b/m", 0)), (7.0, 0.0));
        (0..1_000).for_each(|n| book.took(&n.to_string(), 0));
        assert_eq!(book.taken.len(), COUNTED_MAX);
    }
}
