//! What the default policy lets be known of each upstream, against the truth: worlds of four upstreams with known laws and prompts of
//! mixed sizes; also with laws that drift and with attempts that fail. How many requests until their medians
//! are known, whether the intervals hold, who is named the fastest, and what the looks cost. `docs/records/accuracy.md` has the figures of
//! 200 worlds.

use std::path::Path;

use super::tests::upstreams;
use super::{Dispatch, PlayedRace, Rehearsal, SimulatedRequest, SimulatedResponse, SimulatedUpstream, SimulatedWorld};
use photofinish_base::clock::SECOND_US;
use photofinish_config::{RaceSettings, parse};
use photofinish_facts::estimate::interval::{RankedQuantile, quantile};
use photofinish_facts::estimate::mix::SizeMix;
use photofinish_history::report::compare::{self, UpstreamComparison};
use photofinish_history::store::{LookRow, LookSeen};
use photofinish_routing::money::tariff::PromptTokens;

const UPSTREAMS: usize = 4;
const QUANTILES: [f64; 2] = [0.5, 0.95];
/// After this number of requests the figures are read.
const READ: [usize; 4] = [300, 1_000, 3_000, 20_000];
/// Draws of the truth.
const DRAWS: usize = 50_000;
/// A lead that must be named.
const LEAD: f64 = 0.15;
/// Worlds of the test that always runs.
const WORLDS: u64 = 8;

/// What happens in a world beside the laws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Steady,
    /// The times of each upstream rise and fall by half, each in its own rhythm.
    Drifts,
    /// One attempt in twenty fails before its first token.
    Fails,
}

const DRIFT: f64 = 0.4;
/// Requests from one crest to the next, of the upstream in the first place; each further one takes a third longer.
const CREST: f64 = 700.0;
const FAILURES: f64 = 0.05;

/// How one upstream answers: a beginning, a time for each token of the prompt, scatter, and stragglers.
#[derive(Clone, Copy, Debug)]
struct Law {
    start_ms: f64,
    per_token_ms: f64,
    sigma: f64,
    tail: f64,
    times: f64,
}

struct World {
    kind: Kind,
    laws: [Law; UPSTREAMS],
    upstreams: Vec<SimulatedUpstream>,
    sizes: Vec<f64>,
    outputs: Vec<u32>,
    seed: u64,
}

fn normal(draws: &mut fastrand::Rng) -> f64 {
    (-2.0 * (1.0 - draws.f64()).ln()).sqrt() * (std::f64::consts::TAU * draws.f64()).cos()
}

fn size(draws: &mut fastrand::Rng) -> f64 {
    (600.0 * (0.9 * normal(draws)).exp()).clamp(10.0, 14_000.0)
}

impl Law {
    fn new(draws: &mut fastrand::Rng) -> Law {
        Law {
            start_ms: 220.0 * (0.4 * normal(draws)).exp(),
            per_token_ms: 0.1 * (0.5 * normal(draws)).exp(),
            sigma: 0.15 + 0.2 * draws.f64(),
            tail: 0.005 + 0.025 * draws.f64(),
            times: 3.0 + 4.0 * draws.f64(),
        }
    }

    fn ms(&self, tokens: f64, draws: &mut fastrand::Rng) -> f64 {
        let tail = if draws.f64() < self.tail { self.times } else { 1.0 };
        (self.start_ms + self.per_token_ms * tokens) * (self.sigma * normal(draws)).exp() * tail
    }
}

impl World {
    fn new(kind: Kind, seed: u64, requests: usize) -> World {
        let mut draws = fastrand::Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let laws = std::array::from_fn(|_| Law::new(&mut draws));
        let sizes = (0..requests).map(|_| size(&mut draws)).collect();
        let outputs = (0..requests).map(|_| (150.0 * (0.9 * normal(&mut draws)).exp()).clamp(1.0, 4_000.0) as u32);
        let outputs = outputs.collect();
        World { kind, laws, upstreams: upstreams(UPSTREAMS), sizes, outputs, seed }
    }

    /// How much longer than by its law an upstream takes at this request.
    fn times(&self, request: usize, upstream: usize) -> f64 {
        let crests = request as f64 / (CREST * (1.0 + upstream as f64 / 3.0)) + self.seed as f64 * 0.37;
        if self.kind == Kind::Drifts { (DRIFT * (std::f64::consts::TAU * crests).sin()).exp() } else { 1.0 }
    }

    /// What this upstream takes for this request, the same whoever asks. None: it fails.
    fn ms(&self, request: usize, upstream: usize) -> Option<f64> {
        let mut draws = fastrand::Rng::with_seed(
            self.seed ^ ((request * UPSTREAMS + upstream) as u64).wrapping_mul(0xd134_2543_de82_ef95),
        );
        draws.u64(..);
        let ms = self.laws[upstream].ms(self.sizes[request], &mut draws) * self.times(request, upstream);
        (self.kind != Kind::Fails || draws.f64() >= FAILURES).then_some(ms)
    }

    /// By upstream: the median and the 95th percentile of its law for the sizes and the moments of the first requests.
    fn truth(&self, requests: usize) -> [[f64; 2]; UPSTREAMS] {
        let mut draws = fastrand::Rng::with_seed(self.seed + 7);
        std::array::from_fn(|upstream| {
            let draw = |_| {
                let request = draws.usize(..requests);
                self.laws[upstream].ms(self.sizes[request], &mut draws) * self.times(request, upstream)
            };
            let mut all: Vec<f64> = (0..DRAWS).map(draw).collect();
            all.sort_by(f64::total_cmp);
            QUANTILES.map(|share| quantile(&all, share).unwrap())
        })
    }
}

impl SimulatedWorld for World {
    fn upstreams(&self) -> &[SimulatedUpstream] {
        &self.upstreams
    }

    fn prompt(&self, request: &SimulatedRequest, _: usize, _: i64) -> PromptTokens {
        PromptTokens { uncached: self.sizes[request.id], cached: 0.0 }
    }

    fn response(&mut self, dispatch: &Dispatch) -> SimulatedResponse {
        match self.ms(dispatch.request.id, dispatch.upstream) {
            Some(ms) => SimulatedResponse::Answers { ttft_us: (1e3 * ms) as i64, tpot_us: 10_000.0 },
            None => SimulatedResponse::Fails { after_us: 50_000 },
        }
    }
}

/// A run of one policy.
#[derive(Default)]
struct Run {
    /// Request and look.
    looks: Vec<(usize, LookRow)>,
    cost: Vec<f64>,
    ttft_us: Vec<i64>,
    sizes: Vec<f64>,
}

fn run(kind: Kind, seed: u64, requests: usize, lines: &str) -> Run {
    let settings: RaceSettings = parse(&format!("[race]\n{lines}"), Path::new("x"), &|_| None).unwrap().race;
    let mut world = World::new(kind, seed, requests);
    let known = World::new(kind, seed, requests);
    let asked = (0..requests).map(|id| SimulatedRequest {
        id,
        at_us: id as i64 * SECOND_US,
        output_tokens: known.outputs[id],
        whole: false,
    });
    let mut run =
        Run { cost: vec![0.0; requests], ttft_us: vec![0; requests], looks: Vec::new(), sizes: known.sizes.clone() };
    Rehearsal::new(settings, seed).run(asked, &mut world, &mut |race: &PlayedRace<'_>| {
        let id = race.request.id;
        run.cost[id] = race.attempts.iter().map(|attempt| attempt.cost).sum();
        // A request that all failed waits for long.
        run.ttft_us[id] = race.ttft_us.unwrap_or(10 * SECOND_US);
        let Some((look, upstream)) = race.look.and_then(|look| Some((look, look.upstream?))) else { return };
        let token = known.ms(id, upstream).map_or(LookSeen::Failed, |ms| LookSeen::Token((1e3 * ms) as i64));
        let seen = if look.started { token } else { LookSeen::Out };
        let (model, upstream) = ("m".to_owned(), known.upstreams[upstream].name.clone());
        let row = LookRow {
            model,
            upstream,
            weight: 1.0 / look.probability,
            started_at: race.request.at_us,
            prompt_tokens: known.sizes[id] as i64,
            streams: true,
            seen,
        };
        run.looks.push((id, row));
    });
    run.looks.sort_by_key(|(id, _)| *id);
    run
}

/// What is known after `requests`.
fn known(run: &Run, requests: usize) -> Vec<UpstreamComparison> {
    let mix = SizeMix::new(run.sizes[..requests].iter().map(|tokens| (*tokens, 1.0)));
    let looks: Vec<&LookRow> = run.looks.iter().filter(|(id, _)| *id < requests).map(|(_, look)| look).collect();
    compare::upstreams(&looks, &mix, &[])
}

/// Sums over worlds, of one number of requests.
#[derive(Clone, Debug, Default)]
struct Sum {
    all_medians: usize,
    leads: usize,
    named: usize,
    /// By quantile.
    told: [usize; 2],
    held: [usize; 2],
    errors: [Vec<f64>; 2],
    looks: usize,
}

impl Sum {
    fn add(&mut self, found: &[UpstreamComparison], truth: &[[f64; 2]; UPSTREAMS]) {
        let place = |one: &UpstreamComparison| one.upstream[2..].parse::<usize>().unwrap();
        let medians = found.iter().filter(|one| one.ttft[0].is_some()).count();
        self.all_medians += usize::from(medians == UPSTREAMS);
        self.looks += found.iter().map(|one| one.looks).sum::<usize>();
        let mut order: Vec<usize> = (0..UPSTREAMS).collect();
        order.sort_by(|one, other| truth[*one][0].total_cmp(&truth[*other][0]));
        if truth[order[1]][0] >= (1.0 + LEAD) * truth[order[0]][0] {
            self.leads += 1;
            self.named += usize::from(medians == UPSTREAMS && place(&found[0]) == order[0]);
        }
        for one in found {
            for (at, told) in one.ttft.iter().enumerate() {
                let Some(RankedQuantile { value, low, high }) = told else { continue };
                let right = 1e3 * truth[place(one)][at];
                self.told[at] += 1;
                self.held[at] += usize::from((*low..=*high).contains(&right));
                self.errors[at].push((value / right - 1.0).abs());
            }
        }
    }

    fn error(&self, at: usize) -> f64 {
        let mut all = self.errors[at].clone();
        all.sort_by(f64::total_cmp);
        quantile(&all, 0.5).unwrap_or(f64::NAN)
    }
}

fn percentile(values: &[i64], share: f64) -> f64 {
    let mut all: Vec<f64> = values.iter().map(|us| *us as f64).collect();
    all.sort_by(f64::total_cmp);
    quantile(&all, share).unwrap()
}

/// `lines`: the policy.
fn measured(kind: Kind, worlds: u64, requests: usize, lines: &str) -> (Vec<Sum>, [f64; 2]) {
    let mut sums = vec![Sum::default(); READ.len()];
    let (mut cost, mut p99, mut until) = ([0.0; 2], [0.0; 2], Vec::new());
    let mut waits = [Vec::new(), Vec::new()];
    for seed in 1..=worlds {
        let world = World::new(kind, seed, requests);
        let looked = run(kind, seed, requests, lines);
        let policy = lines.lines().next().unwrap();
        let without = run(kind, seed, requests, &format!("{policy}\nlook = 0.0"));
        for (place, run) in [&looked, &without].into_iter().enumerate() {
            cost[place] += run.cost.iter().sum::<f64>();
            p99[place] += percentile(&run.ttft_us, 0.99);
            waits[place].extend(run.ttft_us.iter().copied());
        }
        for (sum, count) in sums.iter_mut().zip(READ).filter(|(_, count)| *count <= requests) {
            sum.add(&known(&looked, count), &world.truth(count));
        }
        let all = |count: &usize| {
            let found = known(&looked, *count);
            found.len() == UPSTREAMS && found.iter().all(|one| one.ttft[0].is_some())
        };
        until.push((10..=requests).step_by(10).find(all).unwrap_or(usize::MAX) as f64);
    }
    until.sort_by(f64::total_cmp);
    let added = [cost[0] / cost[1] - 1.0, percentile(&waits[0], 0.99) / percentile(&waits[1], 0.99) - 1.0];
    eprintln!("{worlds} worlds, {kind:?}, {lines}");
    let shares = [0.5, 0.9, 0.95].map(|share| quantile(&until, share).unwrap());
    eprintln!("requests until all four medians are known: p50, p90, p95 of worlds: {shares:?}");
    eprintln!("looks cost {:.2} %, p99 {:+.2} %", 100.0 * added[0], 100.0 * added[1]);
    for (sum, count) in sums.iter().zip(READ).filter(|(_, count)| *count <= requests) {
        eprintln!(
            "after {count}: {:.1} looks; all medians in {}; fastest named in {} of {}; p50 held {} of {}, error {:.3}; \
             p95 known {}, held {}, error {:.3}",
            sum.looks as f64 / worlds as f64,
            sum.all_medians,
            sum.named,
            sum.leads,
            sum.held[0],
            sum.told[0],
            sum.error(0),
            sum.told[1],
            sum.held[1],
            sum.error(1)
        );
    }
    (sums, added)
}

/// `PHOTOFINISH_WORLDS` sets the number of worlds.
#[test]
#[ignore = "takes minutes; prints the table of docs/records/accuracy.md"]
fn figures_of_two_hundred_worlds() {
    let worlds = std::env::var("PHOTOFINISH_WORLDS").map_or(200, |worlds| worlds.parse().unwrap());
    for lines in ["policy = \"adaptive\"", "policy = \"race\""] {
        measured(Kind::Steady, worlds, 3_000, lines);
    }
}

#[test]
#[ignore = "takes a minute; prints a table of docs/records/accuracy.md"]
fn figures_of_seven_models_under_three_policies() {
    for kind in [Kind::Steady, Kind::Drifts, Kind::Fails] {
        for lines in ["policy = \"adaptive\"", "policy = \"race\"", "policy = \"hedge\"\nlook = 0.02"] {
            measured(kind, 7, 20_000, lines);
        }
    }
}

#[test]
fn every_median_is_known_soon_and_looks_cost_little() {
    for lines in ["policy = \"adaptive\"", "policy = \"race\""] {
        let (sums, [cost, p99]) = measured(Kind::Steady, WORLDS, 1_000, lines);
        let [early, late, ..] = &sums[..] else { panic!("four numbers of requests") };
        assert!(early.all_medians + 2 >= WORLDS as usize, "{lines}: {early:?}");
        assert!(late.all_medians == WORLDS as usize && late.named + 1 >= late.leads, "{lines}: {late:?}");
        assert!(late.held[0] * 100 >= late.told[0] * 85 && late.error(0) < 0.08, "{lines}: {late:?}");
        assert!(cost <= 0.02 && p99 <= 0.04, "{lines}: {cost} {p99}");
    }
}
