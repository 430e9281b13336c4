//! Random histories for the comparison: requests, upstreams, and the result of every attempt. Not for running them.

use std::path::Path;
use std::time::Duration;

use crate::rehearse::{Dispatch, SimulatedRequest, SimulatedResponse, SimulatedUpstream, SimulatedWorld};
use photofinish_base::clock::SECOND_US;
use photofinish_config::{Config, parse};
use photofinish_routing::money::tariff::{PromptTokens, Tariff};

const REQUESTS: usize = 40;
/// The rehearsal's first moment: any whole second.
pub const BEGIN_US: i64 = 1_000 * SECOND_US;

/// A made-up history of requests and upstreams; all times are whole milliseconds.
#[derive(Clone)]
pub struct Scenario {
    pub seed: u64,
    pub config: String,
    pub upstreams: Vec<SimulatedUpstream>,
    pub requests: Vec<SimulatedRequest>,
    /// By request: bytes of its body, a multiple of four.
    pub bytes: Vec<usize>,
    /// By request, then upstream.
    pub responses: Vec<Vec<SimulatedResponse>>,
}

impl Scenario {
    pub fn new(policy: &str, seed: u64) -> Scenario {
        let mut draws = fastrand::Rng::with_seed(seed);
        let count = draws.usize(2..5);
        let domains: Vec<bool> = (0..count).map(|_| draws.u8(0..3) == 0).collect();
        let failing = draws.usize(0..2 * count);
        let weights: Vec<f64> = (0..count).map(|_| f64::from(draws.u32(1..5))).collect();
        let tiers: Vec<u32> = (0..count).map(|_| if draws.u8(0..4) == 0 { 2 } else { 1 }).collect();
        let most: Vec<Option<u32>> = (0..count).map(|_| (draws.u8(0..4) == 0).then_some(1)).collect();
        let config =
            config_text(policy, &domains, &UpstreamTable { weights: &weights, tiers: &tiers, most: &most }, &mut draws);
        let medians: Vec<f64> = (0..count).map(|_| 80.0 + 250.0 * draws.f64()).collect();
        let mut at_us = BEGIN_US;
        let (mut requests, mut bytes, mut responses) = (Vec::new(), Vec::new(), Vec::new());
        for id in 0..REQUESTS {
            at_us += draws.i64(150..2_500) * 1_000;
            let output_tokens = draws.u32(2..6);
            requests.push(SimulatedRequest { id, at_us, output_tokens, whole: false });
            bytes.push(4 * draws.usize(100..4_000));
            responses.push(
                (0..count).map(|upstream| response(&mut draws, medians[upstream], upstream == failing)).collect(),
            );
        }
        let upstream = |place: usize| SimulatedUpstream {
            name: format!("p{place}/m"),
            tariff: Tariff { input: 1.0, cached: 1.0, output: 1.0, billed_on: false },
            domain: domains[place].then_some(7),
            weight: weights[place],
            tier: tiers[place],
            in_flight_max: most[place],
            first_token: Duration::from_secs(2),
        };
        Scenario { seed, config, upstreams: (0..count).map(upstream).collect(), requests, bytes, responses }
    }

    pub fn config(&self) -> Config {
        parse(&self.config, Path::new("x"), &|_| None).unwrap()
    }

    /// The draws for the driver of a request: the next values of this generator.
    pub fn draws(&self, request: usize) -> u64 {
        self.seed ^ (request as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// What the upstreams of the model set, by place.
struct UpstreamTable<'a> {
    weights: &'a [f64],
    tiers: &'a [u32],
    most: &'a [Option<u32>],
}

fn config_text(policy: &str, domains: &[bool], table: &UpstreamTable<'_>, draws: &mut fastrand::Rng) -> String {
    let optimise = ["ttft", "completion"][draws.usize(0..2)];
    let hedge_after = ["1s", "150ms"][draws.usize(0..2)];
    let budget = [0.0, 0.1, 2.0][draws.usize(0..3)];
    let max_attempts = draws.usize(1..5);
    let look = [0.0, 0.3][draws.usize(0..2)];
    let mut text = format!(
        "[race]\nretries = 0\npolicy = \"{policy}\"\noptimise = \"{optimise}\"\nhedge_after = \"{hedge_after}\"\nbudget = {budget:.1}\n\
         max_attempts = {max_attempts}\nlook = {look:.1}\naudit = 0.0\ndrains = {{ running = 0 }}\nbreaker = {{ failures = 2, open = \"5s\" }}\n\
         timeouts = {{ first_token = \"2s\", total = \"9s\" }}\n"
    );
    for (place, domain) in domains.iter().enumerate() {
        let domain = if *domain { "domain = \"east\"\n" } else { "" };
        text += &format!("[providers.p{place}]\nbase_url = \"http://p{place}.test/v1\"\napi_key = \"k\"\n{domain}");
    }
    let upstream = |place: usize| {
        let (weight, tier) = (table.weights[place], table.tiers[place]);
        let most = table.most[place].map(|most| format!(", in_flight_max = {most}")).unwrap_or_default();
        format!("{{ upstream = \"p{place}/m\", weight = {weight:.1}, tier = {tier}{most} }}")
    };
    let upstreams: Vec<String> = (0..domains.len()).map(upstream).collect();
    text + &format!("[models.m]\nupstreams = [{}]\n", upstreams.join(", "))
}

fn response(draws: &mut fastrand::Rng, median_ms: f64, failing: bool) -> SimulatedResponse {
    let (luck, scatter, tail) = (draws.f64(), draws.f64() + draws.f64() - 1.0, draws.f64());
    let (after_us, retry_after_us) = (draws.i64(5..200) * 1_000, Some(draws.i64(1..4) * SECOND_US));
    let stretch = if tail < 0.08 { 6.0 } else { 1.0 };
    match luck {
        luck if luck < if failing { 0.6 } else { 0.06 } => SimulatedResponse::Fails { after_us },
        luck if luck > 0.95 => SimulatedResponse::Limited { after_us, retry_after_us },
        luck if luck > 0.92 => SimulatedResponse::Hangs,
        _ => {
            let ttft_ms = (median_ms * (0.7 * scatter).exp() * stretch).round() as i64;
            SimulatedResponse::Answers { ttft_us: ttft_ms * 1_000, tpot_us: f64::from(draws.u32(5..40)) * 1e3 }
        }
    }
}

impl SimulatedWorld for Scenario {
    fn upstreams(&self) -> &[SimulatedUpstream] {
        &self.upstreams
    }

    fn prompt(&self, request: &SimulatedRequest, _: usize, _: i64) -> PromptTokens {
        PromptTokens { uncached: self.bytes[request.id] as f64 / 4.0, cached: 0.0 }
    }

    fn response(&mut self, dispatch: &Dispatch) -> SimulatedResponse {
        self.responses[dispatch.request.id][dispatch.upstream]
    }
}
