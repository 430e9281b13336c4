//! An open loop through a gateway with the load generator of the library: every request leaves at a time that was drawn before,
//! whatever the earlier ones take, and its time counts from then. Every policy gets the same requests.

use std::f64::consts::TAU;
use std::net::SocketAddr;
use std::time::Duration;

use fastrand::Rng;
use serde_json::{Map, Value, json};

use crate::generator::{LocalGenerator, plan, target, workload};
use crate::ledger::Span;
use photofinish_base::clock::wall_micros;
use photofinish_lab::bench::block::Arrivals;
use photofinish_lab::bench::prompt::PromptMaker;
use photofinish_lab::bench::{BlockPlan, Load};

/// Median prompt in tokens; `PROMPT_SPREAD` is the standard deviation of its logarithm.
const PROMPT: f64 = 250.0;
const PROMPT_SPREAD: f64 = 0.6;
/// A prompt longer than a block of a cache would be cached the next time.
const PROMPT_MAX: f64 = 900.0;
/// The simulated provider counts one token per four bytes.
const TOKEN: &str = "word";

/// The requests of a run.
#[derive(Clone, Copy, Debug)]
pub struct Requests {
    /// Of arrivals and prompts.
    pub seed: u64,
    /// The first seed for the simulated providers' draws; each request has its own.
    pub first: u32,
    pub per_second: f64,
    pub length: Duration,
    pub most: usize,
    pub answer_tokens: u32,
}

/// A request as its client saw it.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Scheduled time after the beginning of the run.
    pub due: Duration,
    /// From the scheduled time to its first token. None: it failed.
    pub ttft: Option<Duration>,
}

/// Clients of one gateway.
pub struct Clients {
    local: LocalGenerator,
    requests: Requests,
}

impl Clients {
    pub async fn start(gateway: SocketAddr, requests: Requests) -> anyhow::Result<Clients> {
        let prompts = PromptMaker::new(workload(requests.answer_tokens), 0.0, requests.seed).given(requests.bodies());
        let local = LocalGenerator::start_with(&format!("http://{gateway}/v1"), None, prompts).await?;
        Ok(Clients { local, requests })
    }

    /// Sends all requests and waits for the last answer. The span covers the beginnings of all their races.
    pub async fn run(self) -> (Vec<Seen>, Span) {
        let Requests { seed, per_second, length, most, .. } = self.requests;
        let load = Load::Rate { per_second, arrivals: Arrivals::Poisson };
        let plan = BlockPlan { duration: length, requests: most, seed, ..plan(load) };
        let target = target(0, "sim/load");
        let from_us = wall_micros();
        let block = self.local.generator.run(&target, &plan, &mut |_| true).await;
        let span = Span { from_us, until_us: wall_micros() };
        self.local.alone.stop().await;
        let micros = |us: i64| Duration::from_micros(u64::try_from(us).unwrap_or(0));
        let seen = block.requests.iter().map(|request| Seen {
            due: micros(request.scheduled_us),
            ttft: request.client_ttft_us().filter(|_| request.is_answered()).map(micros),
        });
        (seen.collect(), span)
    }
}

impl Requests {
    /// More than will arrive, without their model.
    fn bodies(&self) -> Vec<Map<String, Value>> {
        let mut rng = Rng::with_seed(self.seed);
        let arrivals = 2.0 * self.per_second * self.length.as_secs_f64() + 100.0;
        let mut body = |seed: u32| {
            let normal = (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (TAU * rng.f64()).cos();
            let tokens = (PROMPT * (PROMPT_SPREAD * normal).exp()).min(PROMPT_MAX);
            let content = format!("{seed} {}", TOKEN.repeat(tokens as usize));
            let body = json!({"seed": seed, "messages": [{"role": "user", "content": content}]});
            body.as_object().cloned().unwrap_or_default()
        };
        (self.first..self.first.saturating_add(arrivals as u32)).map(&mut body).collect()
    }
}
