//! Five upstreams with much recorded data, for benchmarks of decisions.

use photofinish_routing::forecast::{LatencyForecast, Learner, SendConditions};
use photofinish_routing::money::CostBudget;
use photofinish_routing::policy::question::{AdaptiveQuestion, CandidateForecast, Minimise};

pub const SECOND: i64 = 1_000_000;
pub const NOW: i64 = 1_000 * SECOND;
pub const UPSTREAMS: u64 = 5;

/// A learner with a thousand observed attempts.
pub fn learner(upstream: u64) -> Learner {
    let mut learner = Learner::new();
    let mut draws = fastrand::Rng::with_seed(upstream);
    for second in 0..1_000 {
        let sent = SendConditions { uncached_tokens: draws.f64() * 4_000.0, in_flight: draws.u32(0..4) };
        let ttft_us = (200_000.0 + 20_000.0 * upstream as f64) * (0.5 + draws.f64() + 1.0 / (1.0 - draws.f64()) / 20.0);
        learner.launched(second * SECOND);
        learner.first_token(sent, ttft_us as i64, second * SECOND);
        learner.decoded(10_000.0 + 4_000.0 * draws.f64(), 200, sent.in_flight, second * SECOND);
    }
    learner
}

pub fn candidate(forecast: &LatencyForecast) -> CandidateForecast<'_> {
    let sent = SendConditions { uncached_tokens: 1_000.0, in_flight: 1 };
    CandidateForecast { forecast, sent, cost: 1.0, price: 1.0, domain: None, out: false, throttled: false }
}

/// A decision over these candidates at a request's arrival, with a tenth of the cost for extras.
pub fn question<'a>(candidates: &'a [CandidateForecast<'a>], aim: Minimise) -> AdaptiveQuestion<'a> {
    let mut cost_budget = CostBudget::new(0.1);
    (0..100).for_each(|_| cost_budget.settle(1.0, 0.0, 0.05));
    AdaptiveQuestion {
        candidates,
        aim,
        terms: cost_budget.terms(),
        p99_us: cost_budget.terms().p99_us,
        tpot_least_us: 20_000.0,
        us_per_cost: 0.0,
        max_running: 4,
        now: NOW,
        elapsed_us: 0,
    }
}
