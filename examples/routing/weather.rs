//! The speed of the upstreams over time, the same for every request of one second: daily waves, slow drift, a shared
//! factor, degradations and brown-outs.

use std::f64::consts::TAU;

use crate::draws::{exponential, normal, stream};
use crate::recipe::Climate;

/// The weather of one upstream. Seconds count from the beginning of the world.
#[derive(Clone, Debug)]
pub struct Weather {
    /// For each second, the logarithm of the factor on the queue and on reading the prompt.
    level: Vec<f32>,
    /// For each second, the logarithm of the factor on the time between tokens.
    decode: Vec<f32>,
    brown_outs: Vec<BrownOut>,
}

/// A period in which this share of the attempts fails or hangs.
#[derive(Clone, Copy, Debug)]
pub struct BrownOut {
    from: usize,
    to: usize,
    pub share: f64,
    pub hangs: bool,
}

const DAY_S: f64 = 86_400.0;
const HOUR_S: f64 = 3_600.0;

impl Weather {
    /// The weather of all upstreams of a world. They share a part of it.
    pub fn of_all(climate: &Climate, upstreams: usize, seconds: usize, seed: u64) -> Vec<Weather> {
        let common = drift(&mut stream(seed, 10, 0), seconds, climate.level_tau_s, 1.0);
        let mut surges = vec![0.0; seconds];
        let draws = &mut stream(seed, 11, 0);
        for (from, to) in spells(draws, seconds, climate.surge_every_h * HOUR_S, climate.surge_for_s) {
            surges[from..to].fill(climate.surge.ln() as f32);
        }
        let one = |upstream| Weather::of_one(climate, upstream, upstreams, seconds, seed, (&common, &surges));
        (0..upstreams).map(one).collect()
    }

    fn of_one(
        climate: &Climate,
        upstream: usize,
        upstreams: usize,
        seconds: usize,
        seed: u64,
        (common, surges): (&[f32], &[f32]),
    ) -> Weather {
        let number = upstream as u64;
        let own = drift(&mut stream(seed, 12, number), seconds, climate.level_tau_s, 1.0);
        let [shared, alone] = [climate.correlation.sqrt(), (1.0 - climate.correlation).sqrt()];
        let phase = upstream as f64 / upstreams as f64;
        let mut level: Vec<f32> = (0..seconds)
            .map(|second| {
                let wave = climate.diurnal * (TAU * (second as f64 / DAY_S + phase)).sin();
                let drifted = shared * f64::from(common[second]) + alone * f64::from(own[second]);
                (wave + climate.level_sd * drifted) as f32 + surges[second]
            })
            .collect();
        let draws = &mut stream(seed, 13, number);
        for (from, to) in spells(draws, seconds, climate.degraded_every_h * HOUR_S, climate.degraded_for_s) {
            level[from..to].iter_mut().for_each(|level| *level += climate.degraded.ln() as f32);
        }
        let draws = &mut stream(seed, 14, number);
        let brown_outs = spells(draws, seconds, climate.brown_out_every_h * HOUR_S, climate.brown_out_for_s);
        let kinds = &mut stream(seed, 15, number);
        let brown_outs = brown_outs.into_iter().map(|(from, to)| BrownOut {
            from,
            to,
            share: 0.25 + 0.75 * kinds.f64(),
            hangs: kinds.f64() < 0.35,
        });
        let brown_outs = brown_outs.collect();
        let decode = drift(&mut stream(seed, 16, number), seconds, 900.0, climate.decode_sd);
        Weather { level, decode, brown_outs }
    }

    pub fn level(&self, at_us: i64) -> f64 {
        f64::from(self.level[second(at_us).min(self.level.len() - 1)])
    }

    pub fn decode(&self, at_us: i64) -> f64 {
        f64::from(self.decode[second(at_us).min(self.decode.len() - 1)])
    }

    pub fn brown_out(&self, at_us: i64) -> Option<BrownOut> {
        let now = second(at_us);
        self.brown_outs.iter().copied().find(|brown_out| (brown_out.from..brown_out.to).contains(&now))
    }

    /// Slows the upstream down by this factor in that time, in addition to everything else.
    pub fn slow_down(&mut self, from_us: i64, to_us: i64, factor: f64) {
        let to = second(to_us).min(self.level.len());
        self.level[second(from_us).min(to)..to].iter_mut().for_each(|level| *level += factor.ln() as f32);
    }

    /// Slows reading and writing down every hour: by each factor for ten minutes, one after the other.
    pub fn slow_every_hour(&mut self, factors: [f64; 2]) {
        for (second, (level, decode)) in self.level.iter_mut().zip(&mut self.decode).enumerate() {
            let factor = match second / 600 % 6 {
                2 => factors[0].ln() as f32,
                3 => factors[1].ln() as f32,
                _ => continue,
            };
            (*level, *decode) = (*level + factor, *decode + factor);
        }
    }

    /// The upstream sends nothing in that time.
    pub fn hang(&mut self, from_us: i64, to_us: i64) {
        self.brown_outs.insert(0, BrownOut { from: second(from_us), to: second(to_us), share: 1.0, hangs: true });
    }
}

fn second(at_us: i64) -> usize {
    usize::try_from(at_us / 1_000_000).unwrap_or(0)
}

/// An Ornstein–Uhlenbeck process, a value for each second.
fn drift(draws: &mut fastrand::Rng, seconds: usize, tau_s: f64, sd: f64) -> Vec<f32> {
    let keep = (-1.0 / tau_s).exp();
    let fresh = (1.0 - keep * keep).sqrt();
    let mut value = normal(draws);
    let mut values = Vec::with_capacity(seconds);
    for _ in 0..seconds {
        values.push((sd * value) as f32);
        value = keep * value + fresh * normal(draws);
    }
    values
}

/// Random periods, by their mean distance and length in seconds.
fn spells(draws: &mut fastrand::Rng, seconds: usize, every_s: f64, for_s: f64) -> Vec<(usize, usize)> {
    let mut spells = Vec::new();
    let mut at = exponential(draws, every_s);
    while at < seconds as f64 {
        let to = at + for_s * (0.5 + draws.f64());
        spells.push((at as usize, (to as usize).min(seconds)));
        at = to + exponential(draws, every_s);
    }
    spells
}
