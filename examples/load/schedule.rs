//! When requests arrive and what they contain, drawn once from a seed: every policy gets the same requests.

use std::f64::consts::TAU;
use std::time::Duration;

use fastrand::Rng;

/// Median prompt in tokens; `PROMPT_SPREAD` is the standard deviation of its logarithm.
const PROMPT: f64 = 250.0;
const PROMPT_SPREAD: f64 = 0.6;
/// A prompt longer than a block of a cache would be cached the next time.
const PROMPT_MAX: f64 = 900.0;
/// The simulated provider counts one token per four bytes.
const BYTES_PER_TOKEN: usize = 4;

/// One scheduled request.
#[derive(Clone, Copy, Debug)]
pub struct Planned {
    /// Time after the beginning of the run.
    pub due: Duration,
    /// The seed for the simulated providers' draws: the same for every policy.
    pub seed: u32,
    prompt_tokens: usize,
}

/// Requests of a Poisson process until `length` is over, with seeds from `first` on.
pub fn poisson(seed: u64, first: u32, rate: f64, length: Duration) -> Vec<Planned> {
    let mut rng = Rng::with_seed(seed);
    let mut at = 0.0;
    let next = |seed: u32| {
        at += -(1.0 - rng.f64()).ln() / rate;
        let normal = (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (TAU * rng.f64()).cos();
        let tokens = (PROMPT * (PROMPT_SPREAD * normal).exp()).min(PROMPT_MAX);
        Planned { due: Duration::from_secs_f64(at), seed, prompt_tokens: tokens as usize }
    };
    (first..).map(next).take_while(|planned| planned.due < length).collect()
}

impl Planned {
    /// A chat request for an answer of this many tokens.
    pub fn body(&self, answer_tokens: u32) -> String {
        let seed = self.seed;
        let prompt = "word".repeat(self.prompt_tokens * BYTES_PER_TOKEN / 4);
        format!(
            r#"{{"model":"load","stream":true,"max_tokens":{answer_tokens},"seed":{seed},"messages":[{{"role":"user","content":"{seed} {prompt}"}}]}}"#
        )
    }
}
