//! Makes decisions over five upstreams and does nothing else: for counting instructions and allocations with valgrind.
//!
//! `decisions COUNT open|next`: the number of decisions, at a request's arrival or at a timer. Subtract two runs with
//! different counts, so that the start of the process does not count (`docs/benchmarks.md`).

#[path = "../benches/upstreams/mod.rs"]
mod upstreams;

use std::hint::black_box;
use std::io::{self, Write};

use photofinish::routing::adaptive::{
    self, AdaptiveQuestion, AttemptView, CandidateForecast, CostBudget, LatencyForecast, Minimise,
};
use upstreams::{NOW, UPSTREAMS, candidate, learner};

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [count, what] = arguments.as_slice() else {
        return Err(io::Error::other("wanted: COUNT open|next"));
    };
    let count: usize = count.parse().map_err(io::Error::other)?;
    let forecasts: Vec<LatencyForecast> = (0..UPSTREAMS).map(|upstream| learner(upstream).forecast()).collect();
    let candidates: Vec<CandidateForecast<'_>> = forecasts.iter().map(candidate).collect();
    let mut cost_budget = CostBudget::new(0.1);
    (0..100).for_each(|_| cost_budget.settle(1.0, 0.0, 0.05));
    let (aim, terms) = (Minimise::Ttft, cost_budget.terms());
    let question = AdaptiveQuestion {
        candidates: &candidates,
        aim,
        terms,
        us_per_cost: 0.0,
        max_running: 4,
        now: NOW,
        elapsed_us: 0,
        draw: 1.0,
    };
    let timer = AdaptiveQuestion { elapsed_us: 450_000, ..question };
    let late = [AttemptView::waiting(0, 450_000)];
    for _ in 0..count {
        if what == "open" {
            black_box(adaptive::open(black_box(&question)));
        } else {
            black_box(adaptive::next(black_box(&timer), black_box(&late)));
        }
    }
    writeln!(io::stdout(), "{count} decisions")
}
