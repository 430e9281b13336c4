//! Extreme worlds: upstreams that flap, that hang with long prompts, a clock that jumps, all slow at once. Attempts stay
//! few, and clients do not wait. Each world is one of a seed.

use super::*;

const MS: i64 = 1_000;
const SEEDS: std::ops::Range<u64> = 1..4;

/// Upstreams whose attempts end as a function says, for prompts as another one says.
struct Strange<'t> {
    upstreams: Vec<SimulatedUpstream>,
    tokens: &'t dyn Fn(usize) -> f64,
    truth: &'t dyn Fn(&Dispatch) -> SimulatedResponse,
}

impl SimulatedWorld for Strange<'_> {
    fn upstreams(&self) -> &[SimulatedUpstream] {
        &self.upstreams
    }

    fn prompt(&self, request: &SimulatedRequest, _: usize, _: i64) -> PromptTokens {
        PromptTokens { uncached: (self.tokens)(request.id), cached: 0.0 }
    }

    fn response(&mut self, dispatch: &Dispatch) -> SimulatedResponse {
        (self.truth)(dispatch)
    }
}

/// Two random upstreams, and of them the one with fewer attempts in flight.
struct ShorterOfTwo(fastrand::Rng);

impl Baseline for ShorterOfTwo {
    fn plan(&mut self, view: &OpeningView<'_>) -> Vec<(usize, StartRule)> {
        let mut able = view.able.to_vec();
        self.0.shuffle(&mut able);
        let two = able.len().min(2);
        able[..two].sort_by_key(|upstream| view.in_flight[*upstream]);
        let rule = |place| if place == 0 { StartRule::At(Duration::ZERO) } else { StartRule::AfterFailure };
        able.into_iter().enumerate().map(|(place, upstream)| (upstream, rule(place))).collect()
    }
}

/// An answer after about this long.
fn about(seed: u64, dispatch: &Dispatch, ms: f64) -> SimulatedResponse {
    let id = (dispatch.request.id * 16 + dispatch.upstream) as u64;
    let mut draws = fastrand::Rng::with_seed(1_000_003 * seed + id);
    let normal = (0..12).map(|_| draws.f64()).sum::<f64>() - 6.0;
    SimulatedResponse::Answers { ttft_us: (1e3 * ms * (0.2 * normal).exp()) as i64, tpot_us: 10_000.0 }
}

/// Of all races: the times in ms, sorted, those that failed at the end; attempts for a request; first attempts by upstream.
struct Outcome {
    ms: Vec<i64>,
    failed: usize,
    attempts: f64,
    first: [usize; 5],
}

impl Outcome {
    fn quantile_ms(&self, q: f64) -> i64 {
        self.ms[((self.ms.len() as f64 * q) as usize).min(self.ms.len() - 1)]
    }
}

fn play<'w>(
    rehearsal: Rehearsal<'w>,
    world: &'w mut Strange<'w>,
    requests: impl Iterator<Item = (usize, i64)>,
    from: usize,
) -> Outcome {
    let requests = requests.map(|(id, at_us)| SimulatedRequest { id, at_us, output_tokens: 20, whole: false });
    let (mut ms, mut attempts, mut first) = (Vec::new(), 0, [0; 5]);
    rehearsal.run(requests, world, &mut |race: &PlayedRace<'_>| {
        if race.request.id >= from {
            ms.push(race.ttft_us.map_or(i64::MAX, |ttft_us| ttft_us / MS));
            attempts += race.attempts.len();
            first[race.attempts[0].upstream] += 1;
        }
    });
    ms.sort_unstable();
    let failed = ms.iter().filter(|ms| **ms == i64::MAX).count();
    Outcome { attempts: attempts as f64 / ms.len() as f64, ms, failed, first }
}

const POLICIES: [&str; 4] = ["budget = 0.1", "budget = 0.02", "budget = 0.0", "policy = \"fallback\""];

fn played(
    lines: &str,
    seed: u64,
    tokens: &dyn Fn(usize) -> f64,
    truth: &dyn Fn(&Dispatch) -> SimulatedResponse,
    requests: impl Iterator<Item = (usize, i64)>,
) -> Outcome {
    let mut world = Strange { upstreams: upstreams(5), tokens, truth };
    play(Rehearsal::new(settings(lines), seed), &mut world, requests, 50)
}

#[test]
fn one_that_flaps_with_every_request_costs_few_attempts() {
    for (lines, seed) in POLICIES.into_iter().flat_map(|lines| SEEDS.map(move |seed| (lines, seed))) {
        let truth = |dispatch: &Dispatch| match (dispatch.upstream, dispatch.request.id % 4) {
            (0, 1) => SimulatedResponse::Fails { after_us: 20 * MS },
            (0, 3) => SimulatedResponse::Hangs,
            (0, _) => about(seed, dispatch, 100.0),
            _ => about(seed, dispatch, 300.0),
        };
        let outcome = played(lines, seed, &|_| 500.0, &truth, (0..600).map(|id| (id, id as i64 * SECOND_US)));
        assert!(outcome.attempts <= 2.0 && outcome.failed == 0, "{lines}, {seed}: {} attempts", outcome.attempts);
        assert!(outcome.quantile_ms(1.0) <= 3_000, "{lines}, {seed}: {} ms", outcome.quantile_ms(1.0));
    }
}

#[test]
fn one_that_hangs_with_long_prompts_serves_short_ones_and_delays_no_other_for_long() {
    for (lines, seed) in POLICIES.into_iter().flat_map(|lines| SEEDS.map(move |seed| (lines, seed))) {
        let is_long = |id: usize| id % 10 == 7;
        let truth = |dispatch: &Dispatch| match (dispatch.upstream, is_long(dispatch.request.id)) {
            (0, true) => SimulatedResponse::Hangs,
            (0, false) => about(seed, dispatch, 100.0),
            (_, true) => about(seed, dispatch, 900.0),
            (_, false) => about(seed, dispatch, 300.0),
        };
        let tokens = |id: usize| if is_long(id) { 20_000.0 } else { 500.0 };
        let outcome = played(lines, seed, &tokens, &truth, (0..1_000).map(|id| (id, id as i64 * SECOND_US)));
        assert!(outcome.attempts <= 1.5 && outcome.failed == 0, "{lines}, {seed}: {} attempts", outcome.attempts);
        assert!(outcome.quantile_ms(1.0) <= 10_000, "{lines}, {seed}: {} ms", outcome.quantile_ms(1.0));
        assert!(outcome.first[0] * 2 > outcome.ms.len(), "{lines}, {seed}: {:?}", outcome.first);
    }
}

#[test]
fn a_clock_that_jumps_ahead_changes_nothing_for_clients() {
    for (lines, seed) in POLICIES.into_iter().flat_map(|lines| SEEDS.map(move |seed| (lines, seed))) {
        let mut draws = fastrand::Rng::with_seed(seed);
        let mut at_us = 0;
        // Now and then by minutes, hours and weeks.
        let times: Vec<(usize, i64)> = (0..600)
            .map(|id| {
                at_us += if draws.u8(..) < 8 { HOUR_US * draws.i64(0..500) } else { SECOND_US };
                (id, at_us)
            })
            .collect();
        let truth = |dispatch: &Dispatch| about(seed, dispatch, 200.0 + 50.0 * dispatch.upstream as f64);
        let outcome = played(lines, seed, &|_| 500.0, &truth, times.into_iter());
        assert!(outcome.attempts <= 1.5 && outcome.failed == 0, "{lines}, {seed}: {} attempts", outcome.attempts);
        assert!(outcome.quantile_ms(1.0) <= 1_500, "{lines}, {seed}: {} ms", outcome.quantile_ms(1.0));
    }
}

#[test]
fn when_all_are_slow_the_shorter_queue_wins_and_no_storm_starts() {
    const SLOTS: f64 = 14.0;
    let mut p99_ms = [[0; 2]; 3];
    for seed in SEEDS {
        // Three times, and then five times as slow, in reading and in writing.
        let slower = |at_us: i64| match at_us / SECOND_US {
            300..600 => 3.0,
            600..900 => 5.0,
            _ => 1.0,
        };
        let truth = |dispatch: &Dispatch| {
            let slower = slower(dispatch.at_us);
            if dispatch.in_flight >= 42 {
                return SimulatedResponse::Limited { after_us: 20 * MS, retry_after_us: Some(2_000_000) };
            }
            let queue_ms = (f64::from(dispatch.in_flight) + 1.0 - SLOTS).max(0.0) / SLOTS * 3_000.0 * slower;
            let SimulatedResponse::Answers { ttft_us, .. } =
                about(seed, dispatch, (240.0 + 20.0 * dispatch.upstream as f64) * slower)
            else {
                return SimulatedResponse::Hangs;
            };
            SimulatedResponse::Answers { ttft_us: ttft_us + (1e3 * queue_ms) as i64, tpot_us: 140_000.0 * slower }
        };
        let requests = || (0..5_400).map(|id| (id, id as i64 * SECOND_US * 2 / 9));
        let mut world = Strange { upstreams: upstreams(5), tokens: &|_| 500.0, truth: &truth };
        let baseline: Box<dyn Baseline> = Box::new(ShorterOfTwo(fastrand::Rng::with_seed(seed)));
        let other = play(
            Rehearsal { baseline: Some(baseline), ..Rehearsal::new(settings(""), seed) },
            &mut world,
            requests(),
            50,
        );
        for (lines, p99_ms) in ["budget = 0.1", "budget = 0.02", "budget = 0.0"].into_iter().zip(&mut p99_ms) {
            let outcome = played(lines, seed, &|_| 500.0, &truth, requests());
            p99_ms[0] += outcome.quantile_ms(0.99);
            p99_ms[1] += other.quantile_ms(0.99);
            assert!(outcome.failed <= other.failed, "{lines}, {seed}: {} {}", outcome.failed, other.failed);
            assert!(outcome.attempts <= 2.0, "{lines}, {seed}: {} attempts", outcome.attempts);
        }
    }
    assert!(p99_ms.iter().all(|[own, other]| own <= other), "10, 2 and 0 per cent: {p99_ms:?}");
}
