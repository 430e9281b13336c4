//! Makes decisions over five upstreams and does nothing else: for counting instructions and allocations with valgrind.
//!
//! `decisions COUNT open|next`: the number of decisions, at a request's arrival or at a timer. Subtract two runs with
//! different counts, so that the start of the process does not count (`docs/benchmarks.md`).

#[path = "../benches/upstreams/mod.rs"]
mod upstreams;

use std::hint::black_box;
use std::io::{self, Write};

use photofinish_routing::forecast::LatencyForecast;
use photofinish_routing::policy::adaptive;
use photofinish_routing::policy::question::{AdaptiveQuestion, AttemptView, CandidateForecast, Minimise};
use upstreams::{UPSTREAMS, candidate, learner, question};

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [count, what] = arguments.as_slice() else {
        return Err(io::Error::other("wanted: COUNT open|next"));
    };
    let count: usize = count.parse().map_err(io::Error::other)?;
    let forecasts: Vec<LatencyForecast> = (0..UPSTREAMS).map(|upstream| learner(upstream).forecast()).collect();
    let candidates: Vec<CandidateForecast<'_>> = forecasts.iter().map(candidate).collect();
    let question = question(&candidates, Minimise::Ttft);
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
