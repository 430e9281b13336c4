//! When requests come and what they ask, drawn once from a seed: every policy gets the very same ones.

use std::f64::consts::TAU;
use std::time::Duration;

use fastrand::Rng;

/// Tokens of the prompt in the middle, and how far they spread (standard deviation of the logarithm).
const PROMPT: f64 = 250.0;
const PROMPT_SPREAD: f64 = 0.6;
/// A prompt that is longer than a block of a cache would be known the next time.
const PROMPT_MAX: f64 = 900.0;
/// The simulated provider counts a token every four bytes.
const BYTES_PER_TOKEN: usize = 4;

/// One request to come.
#[derive(Clone, Copy, Debug)]
pub struct Planned {
    /// After the beginning of the run.
    pub due: Duration,
    /// Tells the simulated providers what to draw for it: the same for every policy.
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
    /// A chat request for an answer of so many tokens.
    pub fn body(&self, answer_tokens: u32) -> String {
        let seed = self.seed;
        let prompt = "word".repeat(self.prompt_tokens * BYTES_PER_TOKEN / 4);
        format!(
            r#"{{"model":"load","stream":true,"max_tokens":{answer_tokens},"seed":{seed},"messages":[{{"role":"user","content":"{seed} {prompt}"}}]}}"#
        )
    }
}
