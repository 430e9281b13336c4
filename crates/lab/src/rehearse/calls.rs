//! How soon the default policy finds the host that always wins and breaks calls, what that costs, and how often it accuses one of equal
//! hosts. `docs/records/accuracy.md` has the figures.

use std::path::Path;

use super::tests::upstreams;
use super::{Dispatch, PlayedRace, Rehearsal, SimulatedRequest, SimulatedResponse, SimulatedUpstream, SimulatedWorld};
use photofinish_base::clock::SECOND_US;
use photofinish_config::{RaceSettings, parse};
use photofinish_routing::money::tariff::PromptTokens;

const UPSTREAMS: usize = 4;

/// Four hosts, the first the quickest by far. By host: the share of its answers that it breaks.
struct Hosts {
    upstreams: Vec<SimulatedUpstream>,
    broken: [f64; UPSTREAMS],
    /// Whether requests have tools.
    judged: bool,
    seed: u64,
}

impl Hosts {
    /// The same for the same request, whoever asks.
    fn draws(&self, request: usize, upstream: usize) -> fastrand::Rng {
        let place = (request * UPSTREAMS + upstream) as u64;
        let mut draws = fastrand::Rng::with_seed((self.seed << 40) ^ place.wrapping_mul(0xd134_2543_de82_ef95));
        draws.u64(..);
        draws
    }
}

fn normal(draws: &mut fastrand::Rng) -> f64 {
    (0..12).map(|_| draws.f64()).sum::<f64>() - 6.0
}

impl SimulatedWorld for Hosts {
    fn upstreams(&self) -> &[SimulatedUpstream] {
        &self.upstreams
    }

    fn prompt(&self, request: &SimulatedRequest, _: usize, _: i64) -> PromptTokens {
        let tokens = 600.0 * (0.9 * normal(&mut self.draws(request.id, 0))).exp();
        PromptTokens { uncached: tokens, cached: 0.0 }
    }

    fn response(&mut self, dispatch: &Dispatch) -> SimulatedResponse {
        let mut draws = self.draws(dispatch.request.id, dispatch.upstream);
        let times = if draws.f64() < 0.02 { 5.0 } else { 1.0 };
        let median_ms = [200.0, 300.0, 330.0, 360.0][dispatch.upstream];
        let ttft_ms = median_ms * (0.2 * normal(&mut draws)).exp() * times;
        SimulatedResponse::Answers { ttft_us: (1e3 * ttft_ms) as i64, tpot_us: 10_000.0 }
    }

    fn breaks(&self, request: &SimulatedRequest, upstream: usize) -> Option<bool> {
        let mut draws = self.draws(1_000_000 + request.id, upstream);
        self.judged.then(|| draws.f64() < self.broken[upstream])
    }
}

/// What became of a history.
struct Found {
    /// After how many requests one of the hosts in question was called worse.
    after: Option<usize>,
    /// What all of them cost, until then or in all.
    cost: f64,
    others: usize,
}

/// `suspects`: how many of the hosts, from the first on, may be found. The first one found ends the count.
fn history(seed: u64, requests: usize, broken: Option<[f64; UPSTREAMS]>, suspects: usize) -> Found {
    let settings: RaceSettings = parse("[race]\npolicy = \"adaptive\"", Path::new("x"), &|_| None).unwrap().race;
    let (judged, broken) = (broken.is_some(), broken.unwrap_or_default());
    let mut world = Hosts { upstreams: upstreams(UPSTREAMS), broken, judged, seed };
    let names: Vec<String> = world.upstreams.iter().take(suspects).map(|upstream| upstream.name.clone()).collect();
    let lengths = |id: usize| (150.0 * (0.9 * normal(&mut world.draws(id, 1))).exp()).clamp(1.0, 4_000.0) as u32;
    let asked: Vec<SimulatedRequest> = (0..requests)
        .map(|id| SimulatedRequest { id, at_us: 20 * id as i64 * SECOND_US, output_tokens: lengths(id), whole: false })
        .collect();
    let rehearsal = Rehearsal::new(settings, seed);
    let learning = rehearsal.learning.clone();
    let mut found = Found { after: None, cost: 0.0, others: 0 };
    rehearsal.run(asked, &mut world, &mut |race: &PlayedRace<'_>| {
        found.cost += race.attempts.iter().map(|attempt| attempt.cost).sum::<f64>();
        if found.after.is_some() {
            return;
        }
        found.others += race.look.filter(|look| look.started && look.upstream != Some(0)).map_or(0, |_| 1);
        if names.iter().any(|name| learning.quality().why_worse("", name).is_some()) {
            found.after = Some(race.request.id + 1);
        }
    });
    found
}

fn quantile(all: &mut [usize], share: f64) -> usize {
    all.sort_unstable();
    all[((all.len() - 1) as f64 * share) as usize]
}

fn print_found(runs: u64, requests: usize, broken: [f64; UPSTREAMS]) -> usize {
    let found: Vec<Found> = (1..=runs).map(|seed| history(seed, requests, Some(broken), 1)).collect();
    let mut after: Vec<usize> = found.iter().map(|found| found.after.unwrap_or(usize::MAX)).collect();
    let mut others: Vec<usize> = found.iter().map(|found| found.others).collect();
    let (half, most) = (quantile(&mut after, 0.5), quantile(&mut after, 0.9));
    let looks = quantile(&mut others, 0.5);
    eprintln!("{broken:?}: found after {half} requests (nine of ten histories: {most}), with {looks} looks at others");
    half
}

#[test]
fn the_host_that_always_wins_is_soon_found() {
    let half = print_found(20, 300, [0.15, 0.01, 0.01, 0.01]);
    assert!(half <= 100, "{half}");
}

#[test]
#[ignore = "takes minutes; prints the figures of docs/records/accuracy.md"]
fn broken_calls_measured() {
    for share in [0.1, 0.15, 0.3] {
        print_found(200, 2_000, [share, 0.01, 0.01, 0.01]);
    }
    for share in [0.02, 0.05, 0.1, 0.2] {
        let all: Vec<Found> = (1..=100).map(|seed| history(seed, 5_000, Some([share; 4]), UPSTREAMS)).collect();
        let wrong = all.iter().filter(|found| found.after.is_some()).count();
        let cost: f64 = all.iter().map(|found| found.cost).sum();
        let without: f64 = (1..=100).map(|seed| history(seed, 5_000, None, 0).cost).sum();
        eprintln!("equal hosts, {share}: {wrong} of 100 accuse one; the bill {:+.2} %", 100.0 * (cost / without - 1.0));
    }
}
