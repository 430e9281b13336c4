//! The cost of a decision of `adaptive` over five upstreams, of an observation and of a forecast. Not for the quality of decisions:
//! see `examples/routing`.

#![expect(clippy::expect_used, reason = "a measurement of something broken must not go on")]

mod upstreams;

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};

use photofinish_routing::forecast::{LatencyForecast, SendConditions};
use photofinish_routing::policy::adaptive;
use photofinish_routing::policy::question::{AdaptiveQuestion, AttemptView, CandidateForecast, Minimise};
use upstreams::{NOW, UPSTREAMS, candidate, learner, question};

/// Number of timed decisions, for quantiles.
const TIMED: usize = 50_000;

fn decisions(criterion: &mut Criterion) {
    let forecasts: Vec<LatencyForecast> = (0..UPSTREAMS).map(|upstream| learner(upstream).forecast()).collect();
    let candidates: Vec<CandidateForecast<'_>> = forecasts.iter().map(candidate).collect();
    let late = [AttemptView::waiting(0, 450_000)];
    let both = [late[0], AttemptView::waiting(1, 100_000)];
    let mut group = criterion.benchmark_group("routing");
    for (name, aim) in [
        ("ttft", Minimise::Ttft),
        ("completion", Minimise::Completion),
        ("goodput", Minimise::Goodput { ttft_us: 500_000, tpot_us: 25_000 }),
    ] {
        let question = question(&candidates, aim);
        let timer = AdaptiveQuestion { elapsed_us: 450_000, ..question };
        group.bench_function(format!("opening, {name}"), |bencher| {
            bencher.iter(|| adaptive::open(black_box(&question)));
        });
        group.bench_function(format!("timer, {name}"), |bencher| {
            bencher.iter(|| adaptive::next(black_box(&timer), black_box(&late)));
        });
        group.bench_function(format!("second timer, {name}"), |bencher| {
            bencher.iter(|| adaptive::next(black_box(&timer), black_box(&both)));
        });
        if aim == Minimise::Ttft {
            spread("opening", || {
                black_box(adaptive::open(black_box(&question)));
            });
            spread("timer", || {
                black_box(adaptive::next(black_box(&timer), black_box(&late)));
            });
        }
    }
    group.finish();
}

fn learning(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("learning");
    let mut learner = learner(0);
    let sent = SendConditions { uncached_tokens: 800.0, in_flight: 1 };
    group.bench_function("observation", |bencher| {
        bencher.iter(|| learner.first_token(black_box(sent), black_box(310_000), black_box(NOW)));
    });
    group.bench_function("outlook", |bencher| bencher.iter(|| black_box(&learner).forecast()));
    group.finish();
}

/// Times each call separately, so that slow ones are visible: a mean hides them.
fn spread(name: &str, mut decide: impl FnMut()) {
    let mut times: Vec<Duration> = (0..TIMED)
        .map(|_| {
            let begun = Instant::now();
            decide();
            begun.elapsed()
        })
        .collect();
    times.sort_unstable();
    let at = |share: usize| times.get(TIMED * share / 100).copied().expect("times");
    eprintln!("routing/{name}: p50 {:?}, p99 {:?} of {TIMED}, the clock's own time in it", at(50), at(99));
}

fn quick() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
}

criterion_group! {
    name = benches;
    config = quick();
    targets = decisions, learning
}
criterion_main!(benches);
