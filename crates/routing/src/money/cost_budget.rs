//! The budget of one model: what extra attempts may still cost, and the price of time that follows.
//!
//! A bucket of `max(200 × budget, 20)` mean costs. A race adds `budget × its base cost`, an extra attempt takes its cost. So what
//! chosen extras cost is bounded over any interval: `budget · base + max(200 · budget, 20) · mean cost`. Rescues (`rescue`,
//! `charge`) are refused by their number alone. They come out of the same bucket and may leave a debt, which is paid before the next
//! hedge, within a thousand requests. Comparisons of a host in doubt are paid by `look_book` outside the bucket.
//!
//! Not for prices: the caller knows the cost of an attempt, in money or in tokens.

use super::look_book::LookBook;
use super::recent_sums::RecentSums;
use photofinish_base::clock::SECOND_US;

/// Capacity of the bucket in mean costs, times the budget.
const BURST: f64 = 200.0;
/// The least capacity in mean costs, at any budget: the longest waits come together, in an outage.
const BURST_LEAST: f64 = 20.0;
/// Requests within which the debt of a budget is paid back, and that the mean cost and the usual answer remember.
const OWED_FOR: f64 = 1_000.0;
/// Step of ln p99 for a request beyond it: the first one, and the least. In between it is the first one over the number of requests.
const STEP_FIRST: f64 = 2.0;
const STEP: f64 = 0.05;
/// The quantile after the first request, in what that one took.
const P99_FIRST: f64 = 3.0;
/// λ before anything was spent, µs.
const LAMBDA_US: f64 = 300_000.0;
/// How far the bucket's level moves ln λ, from full to empty.
const STEEPNESS: f64 = 3.0;
/// The level that λ is to hold on the average.
const LEVEL: f64 = 0.6;
/// Step of ln λ per race, for a level that is off by a whole bucket.
const LEANING: f64 = 0.02;
/// Bounds of ln λ, λ in µs.
const LN_LAMBDA: (f64, f64) = (6.9, 18.5);
/// The usual length of an answer before one was seen, tokens.
const ANSWER: f64 = 200.0;
/// Its p95 before one was seen.
const ANSWER_P95: f64 = 1_000.0;
/// The p99 of the client's TTFT before one was seen, and that of a plain answer, µs.
const P99_US: f64 = 2_000_000.0;
const WHOLE_P99_US: f64 = 20_000_000.0;

/// Rescues of ten seconds beyond half of the requests of that time: more would add to an overload that made the upstreams slow.
const RESCUES_BEYOND: f64 = 10.0;
/// Share of what the budget earns that is kept for revisits, and the most that is kept, in mean costs.
const FOR_REVISITS: f64 = 0.5;
const REVISITS_MOST: f64 = 2.0;

/// What was spent in the last hour.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SpentLately {
    /// On single attempts.
    pub base: f64,
    /// On extras that were chosen.
    pub extras: f64,
    /// On rescues.
    pub rescues: f64,
}

/// One model's bucket, and what is usual for its requests.
#[derive(Clone, Debug)]
pub struct CostBudget {
    /// Extra cost over base cost, at most.
    budget: f64,
    /// In the unit of the costs; below zero while something is owed. Of it [`CostBudget::free`] may be spent.
    bucket: f64,
    /// The most that running attempts may cost. Not taken out of the bucket yet: what is owed at most must bound what was spent, and
    /// not what comes back.
    reserved: f64,
    /// What the budget earned since the beginning, less what was spent: while the mean cost is still a guess, the bucket may have been
    /// filled by too large a one.
    balance: f64,
    /// What revisits may spend, whatever the bucket holds.
    for_revisits: f64,
    /// Mean base cost of a race, and the weight behind it.
    mean_cost: DecayedMean,
    answer_tokens: DecayedMean,
    /// 95 of 100 answers are shorter.
    answer_p95: TrackedQuantile,
    /// ln λ in µs at the bucket's usual level.
    ln_lambda: f64,
    /// Of the client's TTFT.
    ttft_p99: TrackedQuantile,
    /// Of the time to a plain answer.
    whole_p99: TrackedQuantile,
    /// Requests and rescues of ten seconds.
    rescues: RecentSums<10, 2>,
    /// Base cost, chosen extras and rescues of an hour.
    spent: RecentSums<60, 3>,
    looks: LookBook,
}

/// A quantile that follows what is seen.
#[derive(Clone, Copy, Debug)]
struct TrackedQuantile {
    /// What is below it: 0.99 of a p99.
    share: f64,
    /// ln of it, and the requests that it was learnt from.
    ln: f64,
    timed: f64,
}

impl TrackedQuantile {
    fn new(share: f64, before: f64) -> TrackedQuantile {
        TrackedQuantile { share, ln: before.ln(), timed: 0.0 }
    }

    fn add(&mut self, seen: i64) {
        if seen <= 0 {
            return;
        }
        let ln = (seen as f64).ln();
        self.timed += 1.0;
        if self.timed == 1.0 {
            self.ln = ln + P99_FIRST.ln();
        }
        let step = (STEP_FIRST / self.timed).max(STEP);
        self.ln += if ln > self.ln { step * self.share } else { -step * (1.0 - self.share) };
    }
}

/// The budget's state and the usual request, as a decision reads them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetSnapshot {
    /// Price of a mean single attempt in µs of request time: an extra attempt must save its share of it.
    pub lambda_us: f64,
    /// Mean cost of a race's single attempt; 0 when all is free, or before anything is known.
    pub mean_cost: f64,
    /// p99 of the client's TTFT, µs.
    pub p99_us: f64,
    /// p99 of the time to a plain answer, µs.
    pub whole_p99_us: f64,
    /// Tokens of a usual answer.
    pub answer_tokens: f64,
    /// Content of the bucket, in the unit of the costs. Infinite before the first cost.
    pub bucket: f64,
    /// Capacity of the bucket.
    pub capacity: f64,
    /// Extra cost over base cost, at most.
    pub budget: f64,
}

#[derive(Clone, Copy, Debug)]
struct DecayedMean {
    value: f64,
    weight: f64,
}

impl CostBudget {
    /// `budget`: extra cost over base cost, at most; 0.1 is a tenth.
    pub fn new(budget: f64) -> CostBudget {
        let nothing = DecayedMean { value: 0.0, weight: 0.0 };
        let answer_tokens = DecayedMean { value: ANSWER, weight: 1.0 };
        CostBudget {
            budget: budget.max(0.0),
            bucket: 0.0,
            reserved: 0.0,
            balance: 0.0,
            for_revisits: 0.0,
            mean_cost: nothing,
            answer_tokens,
            ln_lambda: LAMBDA_US.ln(),
            answer_p95: TrackedQuantile::new(0.95, ANSWER_P95),
            ttft_p99: TrackedQuantile::new(0.99, P99_US),
            whole_p99: TrackedQuantile::new(0.99, WHOLE_P99_US),
            rescues: RecentSums::new(SECOND_US),
            spent: RecentSums::new(60 * SECOND_US),
            looks: LookBook::new(budget),
        }
    }

    /// A request arrived.
    pub fn requested(&mut self, now_us: i64) {
        self.rescues.add(now_us, [1.0, 0.0]);
    }

    pub fn looks(&mut self) -> &mut LookBook {
        &mut self.looks
    }

    /// A cost as a share of what a single attempt costs on the average; 0 before that is known.
    pub(super) fn of_mean(&self, cost: f64) -> f64 {
        if self.mean_cost.value > 0.0 { cost / self.mean_cost.value } else { 0.0 }
    }

    /// Counts one more rescue, unless there are too many. One that `must` start is never refused.
    pub fn rescue(&mut self, must: bool, now_us: i64) -> bool {
        let [requests, rescues] = self.rescues.sums(now_us);
        let may = must || rescues < RESCUES_BEYOND + requests / 2.0;
        if may {
            self.rescues.add(now_us, [0.0, 1.0]);
        }
        may
    }

    /// A race that began at `began_us` has ended.
    pub fn spent(&mut self, began_us: i64, SpentLately { base, extras, rescues }: SpentLately) {
        self.spent.add(began_us, [base, extras, rescues]);
    }

    /// What the races cost that began within the last hour.
    pub fn spent_lately(&self, now_us: i64) -> SpentLately {
        let [base, extras, rescues] = self.spent.sums(now_us);
        SpentLately { base, extras, rescues }
    }

    /// Keeps the content of the bucket, up to the new capacity.
    pub fn set_budget(&mut self, budget: f64) {
        self.budget = budget.max(0.0);
        self.bucket = self.bucket.min(self.capacity());
    }

    /// Reserves an extra's cost; false, and nothing is reserved, if the bucket does not hold it.
    pub fn reserve(&mut self, cost: f64) -> bool {
        self.first_cost(cost);
        // What is kept for revisits is in the bucket too. Without a budget there is no extra, even for nothing.
        let holds = self.budget > 0.0 && (cost <= self.free() - self.for_revisits || cost <= 0.0);
        if holds {
            self.charge(cost);
        }
        holds
    }

    /// Reserves the cost of a revisit; false, and nothing is reserved, if too little is kept for them.
    pub fn revisit(&mut self, cost: f64) -> bool {
        let pays = self.budget > 0.0 && cost <= self.for_revisits;
        if pays {
            self.for_revisits -= cost;
            self.charge(cost);
        }
        pays
    }

    /// Reserves the cost of an attempt that is never refused. What the bucket lacks is owed.
    pub fn charge(&mut self, cost: f64) {
        self.first_cost(cost);
        self.reserved += cost.max(0.0);
    }

    /// A race ended: what a single attempt costs, what was reserved for its extras, and what they really cost.
    pub fn settle(&mut self, base: f64, reserved: f64, spent: f64) {
        self.first_cost(base);
        self.mean_cost.add(base.max(0.0));
        self.looks.earn(self.budget, self.of_mean(base.max(0.0)));
        self.give_back(reserved);
        let earned = self.budget * base.max(0.0) - spent;
        // A debt is forgotten with the costs that it was made at: cheap requests must not pay off dear ones for hours.
        let owed_most = OWED_FOR * self.budget * self.mean_cost.value;
        self.balance = ((self.balance + earned) * (1.0 - 1.0 / OWED_FOR)).max(-owed_most);
        self.bucket = (self.bucket + earned).min(self.capacity() + self.balance.min(0.0)).max(-owed_most);
        let kept = self.for_revisits + FOR_REVISITS * self.budget * base.max(0.0);
        self.for_revisits = kept.min(REVISITS_MOST * self.mean_cost.value);
        let (least, most) = LN_LAMBDA;
        self.ln_lambda = (self.ln_lambda + LEANING * (LEVEL - self.level())).clamp(least, most);
    }

    /// Cost of a single attempt before the start. Fills the bucket: earlier spending is not known.
    pub fn remember(&mut self, base: f64) {
        self.first_cost(base);
        self.mean_cost.add(base.max(0.0));
        self.bucket = self.capacity();
    }

    /// A race without any bill ended: returns the reservation and learns nothing.
    pub fn give_back(&mut self, reserved: f64) {
        self.reserved = (self.reserved - reserved).max(0.0);
    }

    /// The client's TTFT, µs, and the tokens of its answer.
    pub fn finished(&mut self, client_ttft_us: Option<i64>, output_tokens: Option<i64>) {
        client_ttft_us.into_iter().for_each(|ttft_us| self.ttft_p99.add(ttft_us));
        if let Some(tokens) = output_tokens.filter(|tokens| *tokens > 0) {
            self.answer_tokens.add(tokens as f64);
            self.answer_p95.add(tokens);
        }
    }

    /// What 95 of 100 answers are shorter than, in tokens.
    pub fn answer_p95(&self) -> f64 {
        self.answer_p95.ln.exp()
    }

    /// A plain answer took so long, µs.
    pub fn took_whole(&mut self, us: i64) {
        self.whole_p99.add(us);
    }

    pub fn terms(&self) -> BudgetSnapshot {
        let known = self.mean_cost.weight > 0.0;
        BudgetSnapshot {
            lambda_us: (self.ln_lambda + STEEPNESS * (LEVEL - self.level())).exp(),
            mean_cost: self.mean_cost.value,
            p99_us: self.ttft_p99.ln.exp(),
            whole_p99_us: self.whole_p99.ln.exp(),
            answer_tokens: self.answer_tokens.value,
            bucket: if known || self.budget <= 0.0 { self.free() } else { f64::INFINITY },
            capacity: self.capacity(),
            budget: self.budget,
        }
    }

    /// How full the bucket is, 0..1.
    fn level(&self) -> f64 {
        let capacity = self.capacity();
        if capacity > 0.0 { (self.free() / capacity).clamp(0.0, 1.0) } else { LEVEL }
    }

    /// What the bucket holds beyond reservations.
    fn free(&self) -> f64 {
        self.bucket - self.reserved
    }

    fn capacity(&self) -> f64 {
        if self.budget > 0.0 { (BURST * self.budget).max(BURST_LEAST) * self.mean_cost.value } else { 0.0 }
    }

    /// The first cost that is heard of is the mean until there is a better one, and fills the bucket.
    fn first_cost(&mut self, cost: f64) {
        if self.mean_cost.weight <= 0.0 && cost > 0.0 {
            self.mean_cost = DecayedMean { value: cost, weight: 1.0 };
            self.bucket = self.capacity();
        }
    }
}

impl DecayedMean {
    fn add(&mut self, value: f64) {
        self.weight = self.weight * (1.0 - 1.0 / OWED_FOR) + 1.0;
        self.value += (value - self.value) / self.weight;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BUDGET: f64 = 0.1;

    #[test]
    fn a_first_cost_far_above_the_mean_buys_no_burst_of_its_own() {
        let (mut cost_budget, mut base, mut extra) = (CostBudget::new(BUDGET), 50.0, 0.0);
        cost_budget.settle(base, 0.0, 0.0);
        for _ in 0..200 {
            let spent = f64::from(u8::from(cost_budget.reserve(1.0)));
            cost_budget.settle(1.0, spent, spent);
            (base, extra) = (base + 1.0, extra + spent);
        }
        let most = BUDGET * base + cost_budget.capacity();
        // What was spent before the mean was known cannot be taken back; without a balance it would be 200.
        assert!(extra > 20.0 && extra <= 1.25 * most, "{extra} of {most}");
    }

    #[test]
    fn the_first_cost_fills_the_bucket() {
        let mut cost_budget = CostBudget::new(BUDGET);
        assert!(cost_budget.terms().bucket.is_infinite());
        assert!(cost_budget.reserve(2.0));
        let terms = cost_budget.terms();
        assert!((terms.capacity - 40.0).abs() < 1e-9 && (terms.bucket - 38.0).abs() < 1e-9, "{terms:?}");
        assert!(!cost_budget.reserve(39.0) && cost_budget.reserve(28.0) && !cost_budget.reserve(10.1));
        cost_budget.settle(2.0, 30.0, 10.0);
        assert!(
            (cost_budget.terms().bucket - 30.2).abs() < 0.01,
            "what was not spent comes back, and a tenth of the base"
        );
    }

    #[test]
    fn no_budget_buys_nothing_and_what_is_free_is_free() {
        let mut none = CostBudget::new(0.0);
        none.settle(1.0, 0.0, 0.0);
        assert!(!none.reserve(0.001) && none.terms().bucket <= 0.0);
        let mut free = CostBudget::new(BUDGET);
        free.settle(0.0, 0.0, 0.0);
        assert!(free.reserve(0.0) && !none.reserve(0.0), "without a budget there is no extra, not even a free one");
        let mut less = CostBudget::new(0.2);
        less.settle(1.0, 0.0, 0.0);
        less.set_budget(0.1);
        assert!((less.terms().bucket - 20.0).abs() < 1e-9);
    }

    #[test]
    fn what_replaces_a_failed_attempt_is_never_refused_but_owed() {
        let mut cost_budget = CostBudget::new(0.02);
        cost_budget.settle(1.0, 0.0, 0.0);
        (0..30).for_each(|_| cost_budget.charge(1.0));
        assert!((cost_budget.terms().bucket + 10.0).abs() < 1e-9, "twenty at any budget, and ten that are owed");
        (0..400).for_each(|_| cost_budget.settle(1.0, 0.0, 0.0));
        assert!(!cost_budget.reserve(1.0), "no hedge before the debt is paid");
    }

    #[test]
    fn what_a_rescue_did_not_cost_earns_nothing_when_it_comes_back() {
        let mut cost_budget = CostBudget::new(0.01);
        (0..100).for_each(|_| cost_budget.settle(1.0, 0.0, 0.0));
        cost_budget.settle(1.0, 0.0, 20.0);
        // A dear one runs while cheap requests come and go, and costs nothing extra.
        cost_budget.charge(80.0);
        (0..10).for_each(|_| cost_budget.settle(1.0, 0.0, 0.0));
        cost_budget.settle(80.0, 80.0, 0.0);
        let bucket = cost_budget.terms().bucket;
        assert!(bucket <= 0.01 * (11.0 + 80.0) + 1e-9, "{bucket}");
    }

    #[test]
    fn a_debt_is_paid_back_within_a_thousand_requests() {
        let mut cost_budget = CostBudget::new(0.02);
        cost_budget.settle(1.0, 0.0, 0.0);
        for _ in 0..500 {
            cost_budget.charge(1.0);
            cost_budget.settle(1.0, 1.0, 1.0);
        }
        assert!(cost_budget.terms().bucket < -19.0, "{:?}", cost_budget.terms());
        (0..1_400).for_each(|_| cost_budget.settle(1.0, 0.0, 0.0));
        assert!(cost_budget.reserve(1.0), "{:?}", cost_budget.terms());
    }

    #[test]
    fn rescues_are_refused_beyond_half_of_the_requests_and_ten() {
        let mut cost_budget = CostBudget::new(0.0);
        let begun = |second: i64| 1_000_000_000 + second * SECOND_US;
        (0..40).for_each(|request| cost_budget.requested(begun(request / 4)));
        let rescued = (0..100).filter(|_| cost_budget.rescue(false, begun(9))).count();
        assert_eq!(rescued, 30, "ten, and half of forty");
        assert!(cost_budget.rescue(true, begun(9)), "nothing else runs for this client");
        assert!(!cost_budget.rescue(false, begun(18)) && cost_budget.rescue(false, begun(19)), "ten seconds later");
        cost_budget.spent(begun(0), SpentLately { base: 10.0, extras: 1.0, rescues: 2.0 });
        assert_eq!(cost_budget.spent_lately(begun(3_500)).rescues, 2.0);
        assert_eq!(cost_budget.spent_lately(begun(3_700)), SpentLately::default());
    }

    #[test]
    fn lambda_rises_as_the_bucket_empties_and_with_time() {
        let mut cost_budget = CostBudget::new(BUDGET);
        cost_budget.settle(1.0, 0.0, 0.0);
        let full = cost_budget.terms().lambda_us;
        assert!(cost_budget.reserve(14.5));
        let empty = cost_budget.terms().lambda_us;
        assert!(empty > 5.0 * full, "{full} {empty}");
        (0..100).for_each(|_| cost_budget.settle(1.0, 0.0, 0.1));
        assert!(cost_budget.terms().lambda_us > empty, "while it stays empty");
    }

    #[test]
    fn p99_and_answers_are_tracked() {
        let mut cost_budget = CostBudget::new(BUDGET);
        let mut draws = fastrand::Rng::with_seed(1);
        for _ in 0..30_000 {
            cost_budget.finished(Some((draws.f64() * 1e6) as i64), Some(100));
        }
        let terms = cost_budget.terms();
        assert!(
            (900_000.0..1_100_000.0).contains(&terms.p99_us) && (terms.answer_tokens - 100.0).abs() < 5.0,
            "{terms:?}"
        );
        cost_budget.finished(Some(0), Some(0));
        cost_budget.finished(None, None);
        assert_eq!(cost_budget.terms(), terms);
    }

    #[test]
    fn hedges_leave_what_is_kept_for_revisits() {
        let mut cost_budget = CostBudget::new(BUDGET);
        (0..200).for_each(|_| cost_budget.settle(1.0, 0.0, 0.0));
        assert!(!cost_budget.reserve(18.1) && cost_budget.reserve(18.0));
        assert!(!cost_budget.revisit(2.1) && cost_budget.revisit(2.0), "twenty in all, the bound over any interval");
        assert!(!cost_budget.revisit(0.1) && !cost_budget.reserve(0.1));
    }

    proptest! {
        #[test]
        fn what_is_chosen_is_bounded_over_any_interval(
            races in prop::collection::vec((0.1_f64..8.0, 0.0_f64..80.0, 0.0_f64..1.0, 0..4, 0_usize..20), 1..400),
            budget in 0.005_f64..0.5,
        ) {
            let mut cost_budget = CostBudget::new(budget);
            let mut sums = vec![(0.0, 0.0)];
            let mut most_mean: f64 = 0.0;
            let mut running: Vec<(usize, f64, f64, f64)> = Vec::new();
            for (place, (base, extra, used, kind, lasts)) in races.into_iter().enumerate() {
                let extra = if kind == 0 { extra } else { extra / 10.0 };
                let is_chosen = match kind {
                    0 => { cost_budget.charge(extra); false }
                    1 => cost_budget.revisit(extra),
                    _ => cost_budget.reserve(extra),
                };
                let reserved = if is_chosen || kind == 0 { extra } else { 0.0 };
                running.push((place + lasts, base, reserved, reserved * used));
                let (bases, extras) = sums[sums.len() - 1];
                sums.push((bases, extras + if is_chosen { extra * used } else { 0.0 }));
                most_mean = most_mean.max(cost_budget.terms().mean_cost);
                let (ended, still): (Vec<_>, Vec<_>) = running.into_iter().partition(|(until, ..)| *until <= place);
                running = still;
                for (_, base, reserved, spent) in ended {
                    cost_budget.settle(base, reserved, spent);
                    most_mean = most_mean.max(cost_budget.terms().mean_cost);
                    let (bases, extras) = sums[sums.len() - 1];
                    sums.push((bases + base, extras));
                }
            }
            for (begin, from) in sums.iter().enumerate() {
                for to in &sums[begin..] {
                    let bound = budget * (to.0 - from.0) + (BURST * budget).max(BURST_LEAST) * most_mean;
                    prop_assert!(to.1 - from.1 <= bound + 1e-6);
                }
            }
        }
    }
}
