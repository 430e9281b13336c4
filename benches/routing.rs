//! The cost of a decision of `adaptive` over five upstreams, of an observation, of a forecast and of the limits of a caller. Not for the quality of decisions:
//! see `examples/routing`.

#![expect(clippy::expect_used, reason = "a measurement of something broken must not go on")]

mod upstreams;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};

use photofinish_config::{Budget, Config, IssuedKey, Limits, Permit, Rate, Team, User, UserRole, parse};
use photofinish_limits::{AttemptCost, LimitClock, UsageBook, admit};
use photofinish_routing::forecast::{LatencyForecast, SendConditions};
use photofinish_routing::policy::adaptive;
use photofinish_routing::policy::question::{AdaptiveQuestion, AttemptView, CandidateForecast, Minimise};
use upstreams::{NOW, UPSTREAMS, candidate, learner, question};

/// As the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
            spread("opening", || (), |()| adaptive::open(black_box(&question)));
            spread("timer", || (), |()| adaptive::next(black_box(&timer), black_box(&late)));
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

/// The gate: a request of a caller who was found begins and starts an attempt, at four levels with every limit. Then it settles.
fn limits(_: &mut Criterion) {
    let book = UsageBook::default();
    let rate = |per_minute| Some(Rate { per_minute, burst: per_minute });
    let budget = Budget { day: Some(1 << 60), month: Some(1 << 60), ..Budget::default() };
    let limits = Limits { rpm: rate(1 << 29), tpm: rate(1 << 39), streams: Some(1 << 19), budget, ..Limits::default() };
    let config = Config { limits: Arc::new(limits.clone()), ..config() };
    let team = Team { name: "team".to_owned(), limits: config.limits.clone() };
    let config = Config { teams: [("team".to_owned(), Arc::new(team))].into(), ..config };
    let users: Vec<User> = (0..KEYS).map(|number| user(&config, number)).collect();
    let now = LimitClock { us: 1, wall_us: NOW };
    let cost = AttemptCost { usual: 1_000, max: 2_000, ..AttemptCost::default() };
    let pass = |user: &User| {
        let levels = book.levels(&config, Some(user));
        let (admission, _) = admit(levels, 500, &[cost, cost], now).expect("enough is left");
        admission.reserve("p/m", 0, |_| cost)
    };
    users.iter().for_each(|user| drop(pass(user)));
    let mut number = 0;
    // As the door makes it of a key.
    let mut found = || {
        number = (number + 7_919) % KEYS;
        users[number].clone()
    };
    spread("gate, 100,000 keys", &mut found, |user| pass(&user));
    spread("settling, 100,000 keys", || pass(&found()), drop);
    let unlimited = Config { limits: Arc::default(), ..config.clone() };
    let free = User { team: None, key: None, limits: Arc::default(), ..user(&config, 0) };
    spread("gate without limits", || (), |()| book.levels(&unlimited, Some(&free)).is_empty());
    std::thread::scope(|scope| {
        for _ in 1..64 {
            scope.spawn(|| (0..TIMED / 10).for_each(|_| drop(pass(&users[0]))));
        }
        spread("gate, one key, 64 threads", || (), |()| pass(&users[0]));
    });
}

const KEYS: usize = 100_000;

fn config() -> Config {
    let text = "[providers.p]\nbase_url = \"http://127.0.0.1:9\"\n[models.m]\nupstreams = [\"p/m\"]";
    parse(text, Path::new("config.toml"), &|_| None).expect("a valid configuration")
}

/// A user of the team with a key, both with every limit.
fn user(config: &Config, number: usize) -> User {
    User {
        name: format!("user-{}", number % 1_000),
        token_sha256: [0; 32],
        role: UserRole::User,
        overrides: Permit::Usual,
        keys: BTreeMap::new(),
        team: Some("team".to_owned()),
        limits: config.limits.clone(),
        key: Some(Arc::new(IssuedKey { id: format!("key-{number}"), first: None, limits: config.limits.clone() })),
    }
}

/// Times each call separately, so that slow ones are visible: a mean hides them.
fn spread<I, T>(name: &str, mut prepare: impl FnMut() -> I, mut decide: impl FnMut(I) -> T) {
    let mut times: Vec<Duration> = (0..TIMED)
        .map(|_| {
            let prepared = prepare();
            let begun = Instant::now();
            let decided = black_box(decide(prepared));
            let took = begun.elapsed();
            drop(decided);
            took
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
    targets = decisions, learning, limits
}
criterion_main!(benches);
