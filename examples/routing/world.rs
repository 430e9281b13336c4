//! A world with all its draws: when each request arrives, and what each upstream does with it. One draw per request and
//! upstream, so that every policy meets the same conditions. Not for the parameters, which are in `recipe`.

use std::collections::HashMap;
use std::time::Duration;

use photofinish_lab::rehearse::{Dispatch, SimulatedRequest, SimulatedResponse, SimulatedUpstream, SimulatedWorld};
use photofinish_routing::money::tariff::PromptTokens;

use crate::draws::{exponential, normal, stream};
use crate::recipe::{Recipe, Traffic, Upstream};
use crate::weather::Weather;

const SECOND_US: f64 = 1e6;
/// An upstream keeps a prompt in its cache for this long.
const CACHED_FOR_US: i64 = 300_000_000;
const TAIL_MAX_MS: f64 = 60_000.0;
/// The provider in every upstream's name.
pub const PROVIDER: &str = "made-up";
/// Tokens of the answers that a queued attempt waits for.
const ANSWER: f64 = 200.0;
const DAY_US: i64 = 86_400_000_000;
/// When the daily outage begins, if the climate has one; microseconds after the start of the day.
const OUTAGE_FROM_US: i64 = 50_000_000_000;
const OUTAGE_FOR_US: i64 = 1_200_000_000;

/// Shared by all policies; immutable.
#[derive(Clone, Debug)]
pub struct World {
    pub recipe: Recipe,
    pub requests: Vec<SimulatedRequest>,
    pub weather: Vec<Weather>,
    pub upstreams: Vec<SimulatedUpstream>,
    inputs: Vec<Input>,
    seed: u64,
    /// Delay of its requests and weather against the draws, microseconds.
    later_us: i64,
}

/// One request's input.
#[derive(Clone, Copy, Debug)]
struct Input {
    tokens: f64,
    /// The conversation that it continues, and the share of it that existed before.
    conversation: Option<(usize, f64)>,
}

impl World {
    pub fn new(recipe: Recipe, seed: u64) -> World {
        let seconds = (recipe.days * 86_400.0).ceil().max(1.0);
        let mut drawn = match recipe.traffic {
            Traffic::Chat { prompt, output } => chats(&recipe, seconds, seed, prompt, output),
            Traffic::Agents => agents(&recipe, seconds, seed),
        };
        drawn.sort_by_key(|(request, _)| request.at_us);
        drawn.iter_mut().enumerate().for_each(|(id, (request, _))| request.id = id);
        let (requests, inputs) = drawn.into_iter().unzip();
        let mut weather = Weather::of_all(&recipe.climate, recipe.upstreams.len(), seconds as usize, seed);
        outages(&mut weather, recipe.climate.outage, recipe.days);
        weather.iter_mut().for_each(|weather| weather.slow_every_hour(recipe.climate.slow));
        let first_token = Duration::from_secs(recipe.first_token_s);
        let upstream = |upstream: &Upstream| SimulatedUpstream {
            name: format!("{PROVIDER}/{}", upstream.name),
            tariff: upstream.tariff,
            domain: upstream.domain,
            weight: 1.0,
            tier: 1,
            in_flight_max: None,
            first_token,
        };
        let upstreams = recipe.upstreams.iter().map(upstream).collect();
        World { recipe, requests, weather, upstreams, inputs, seed, later_us: 0 }
    }

    /// The same requests after a pause; each upstream has changed by then.
    pub fn after_pause(&self, pause_us: i64) -> World {
        let mut later = self.clone();
        later.later_us = pause_us;
        later.requests.iter_mut().for_each(|request| request.at_us += pause_us);
        later.recipe.upstreams.rotate_left(2);
        later
    }

    /// A request's input for an upstream without its conversation.
    pub fn prompt(&self, id: usize) -> PromptTokens {
        PromptTokens { uncached: self.inputs[id].tokens, cached: 0.0 }
    }

    /// The result of this dispatch. Pure: an oracle may call it.
    pub fn response(&self, dispatch: &Dispatch) -> SimulatedResponse {
        let upstream = &self.recipe.upstreams[dispatch.upstream];
        let climate = &self.recipe.climate;
        let weather = &self.weather[dispatch.upstream];
        let at_us = dispatch.at_us - self.later_us;
        let draws = &mut stream(self.seed, 1_000 + dispatch.upstream as u64, dispatch.request.id as u64);
        let [hang, error, brown_out, after, stall] = [(); 5].map(|()| draws.f64());
        let (body, tail, pace) = (normal(draws), (draws.f64(), draws.f64()), normal(draws));
        let fails = SimulatedResponse::Fails { after_us: (1e3 * (30.0 + 400.0 * after)) as i64 };
        if dispatch.in_flight >= upstream.limit {
            return SimulatedResponse::Limited {
                after_us: (1e3 * upstream.network_ms) as i64,
                retry_after_us: Some(2_000_000),
            };
        }
        match weather.brown_out(at_us) {
            Some(now) if brown_out < now.share => return if now.hangs { SimulatedResponse::Hangs } else { fails },
            _ if hang < climate.hangs => return SimulatedResponse::Hangs,
            _ if error < climate.errors => return fails,
            _ => {}
        }
        let tpot_ms = upstream.tpot_ms * (weather.decode(at_us) + 0.08 * pace).exp();
        let crowd = 1.0 + (f64::from(dispatch.in_flight) / upstream.room).powf(1.5);
        let level = (weather.level(at_us) + upstream.sigma * body).exp();
        let busy_ms = upstream.queue_ms + dispatch.prompt.uncached / upstream.prefill;
        let queued = f64::from((dispatch.in_flight + 1).saturating_sub(upstream.slots)) / f64::from(upstream.slots);
        let queued_ms = queued * (busy_ms * level + ANSWER * tpot_ms);
        let ttft_ms = upstream.network_ms + busy_ms * level * crowd + straggle(upstream, tail) + queued_ms;
        let slow = 1.0 + f64::from(dispatch.in_flight) / (2.0 * upstream.room);
        let stalled_ms = if stall < 0.005 { 100.0 * (1.0 + 9.0 * after) / upstream.tpot_ms } else { 0.0 };
        SimulatedResponse::Answers {
            ttft_us: (1e3 * ttft_ms) as i64,
            tpot_us: 1e3 * tpot_ms * slow * (1.0 + 0.1 * stalled_ms),
        }
    }
}

/// Every day the next `count` upstreams hang together.
fn outages(weather: &mut [Weather], count: usize, days: f64) {
    let upstreams = weather.len();
    for day in 0..days.ceil() as usize {
        let from_us = day as i64 * DAY_US + OUTAGE_FROM_US;
        for place in 0..count.min(upstreams) {
            weather[(day + place) % upstreams].hang(from_us, from_us + OUTAGE_FOR_US);
        }
    }
}

/// The extra time of a straggler, milliseconds.
fn straggle(upstream: &Upstream, (whether, how_much): (f64, f64)) -> f64 {
    if whether >= upstream.tail {
        return 0.0;
    }
    (upstream.tail_ms * (1.0 - how_much).powf(-1.0 / upstream.tail_exponent)).min(TAIL_MAX_MS)
}

/// One run through a world: the caches of the upstreams depend on the choices of the policy.
#[derive(Debug)]
pub struct Play<'w> {
    pub world: &'w World,
    /// By conversation and upstream: the tokens that it has read, and when.
    cached: HashMap<(usize, usize), (f64, i64)>,
}

impl<'w> Play<'w> {
    pub fn new(world: &'w World) -> Play<'w> {
        Play { world, cached: HashMap::new() }
    }
}

impl SimulatedWorld for Play<'_> {
    fn upstreams(&self) -> &[SimulatedUpstream] {
        &self.world.upstreams
    }

    fn prompt(&self, request: &SimulatedRequest, upstream: usize, at_us: i64) -> PromptTokens {
        let input = self.world.inputs[request.id];
        let cached = input.conversation.and_then(|(conversation, before)| {
            let (tokens, read_us) = self.cached.get(&(conversation, upstream))?;
            (at_us - read_us < CACHED_FOR_US).then_some(tokens.min(before))
        });
        let cached = cached.unwrap_or(0.0);
        PromptTokens { uncached: input.tokens - cached, cached }
    }

    fn response(&mut self, dispatch: &Dispatch) -> SimulatedResponse {
        let response = self.world.response(dispatch);
        let input = self.world.inputs[dispatch.request.id];
        if let (Some((conversation, _)), SimulatedResponse::Answers { .. }) = (input.conversation, response) {
            self.cached.insert((conversation, dispatch.upstream), (input.tokens, dispatch.at_us));
        }
        response
    }
}

fn chats(
    recipe: &Recipe,
    seconds: f64,
    seed: u64,
    prompt: (f64, f64),
    output: (f64, f64),
) -> Vec<(SimulatedRequest, Input)> {
    let draws = &mut stream(seed, 1, 0);
    let mut drawn = Vec::new();
    for at_us in arrivals(draws, recipe.rate, seconds) {
        let tokens = (prompt.0 * (prompt.1 * normal(draws)).exp()).clamp(10.0, 14_000.0).round();
        let output_tokens = (output.0 * (output.1 * normal(draws)).exp()).clamp(1.0, 4_000.0) as u32;
        let request = SimulatedRequest { id: 0, at_us, output_tokens, whole: false };
        drawn.push((request, Input { tokens, conversation: None }));
    }
    drawn
}

fn agents(recipe: &Recipe, seconds: f64, seed: u64) -> Vec<(SimulatedRequest, Input)> {
    const TURNS: f64 = 15.0;
    let draws = &mut stream(seed, 2, 0);
    let mut drawn = Vec::new();
    for (conversation, began_us) in arrivals(draws, recipe.rate / TURNS, seconds).into_iter().enumerate() {
        let (mut at_us, mut tokens, mut before) = (began_us, 2_000.0 + 2_000.0 * draws.f64(), 0.0);
        let turns = 1.0 + exponential(draws, TURNS - 1.0);
        for _ in 0..turns as usize {
            let output_tokens = (90.0 * (0.9 * normal(draws)).exp()).clamp(1.0, 1_500.0) as u32;
            let request = SimulatedRequest { id: 0, at_us, output_tokens, whole: false };
            if at_us as f64 >= seconds * SECOND_US {
                break;
            }
            drawn.push((request, Input { tokens, conversation: Some((conversation, before)) }));
            before = tokens;
            tokens += f64::from(output_tokens) + (400.0 * (0.8 * normal(draws)).exp()).round();
            at_us += (SECOND_US * (6.0 + exponential(draws, 12.0))) as i64;
        }
    }
    drawn
}

/// Random arrivals; over a whole day or more, two to three times as many at noon as at midnight.
fn arrivals(draws: &mut fastrand::Rng, rate: f64, seconds: f64) -> Vec<i64> {
    const DAY_S: f64 = 86_400.0;
    let wave = if seconds < DAY_S { 0.0 } else { 0.4 };
    let mut times = Vec::new();
    let mut at_s = 0.0;
    loop {
        at_s += exponential(draws, 1.0 / (rate * (1.0 + wave)));
        if at_s >= seconds {
            return times;
        }
        let wanted = 1.0 - wave * (std::f64::consts::TAU * at_s / DAY_S).cos();
        if draws.f64() * (1.0 + wave) < wanted {
            times.push((at_s * SECOND_US) as i64);
        }
    }
}
