//! Requests that would wait long: for upstreams that hang, and at models that are slow.

use super::*;

/// Five upstreams with a median of 300 ms each; in some seconds the first three hang.
struct Outage {
    upstreams: Vec<SimulatedUpstream>,
    seconds: std::ops::Range<i64>,
}

impl SimulatedWorld for Outage {
    fn upstreams(&self) -> &[SimulatedUpstream] {
        &self.upstreams
    }

    fn prompt(&self, _: &SimulatedRequest, _: usize, _: i64) -> PromptTokens {
        PromptTokens { uncached: 500.0, cached: 0.0 }
    }

    fn response(&mut self, dispatch: &Dispatch) -> SimulatedResponse {
        if dispatch.upstream < 3 && self.seconds.contains(&(dispatch.at_us / SECOND_US)) {
            return SimulatedResponse::Hangs;
        }
        let mut draws = fastrand::Rng::with_seed((dispatch.request.id * 5 + dispatch.upstream) as u64);
        let normal = (0..12).map(|_| draws.f64()).sum::<f64>() - 6.0;
        let ttft_ms = (300.0 + 10.0 * dispatch.upstream as f64) * (0.2 * normal).exp();
        SimulatedResponse::Answers { ttft_us: (1e3 * ttft_ms) as i64, tpot_us: 10_000.0 }
    }
}

#[test]
fn no_request_waits_for_hung_upstreams_at_any_budget() {
    for lines in ["policy = \"adaptive\"\nbudget = 0.02", "policy = \"adaptive\"\nbudget = 0.1", "policy = \"rule\""] {
        // 2,000 requests a day, and three of five hang for twenty minutes.
        let mut world = Outage { upstreams: upstreams(5), seconds: 12_000..13_200 };
        let requests = (0..400).map(|id| SimulatedRequest {
            id,
            at_us: id as i64 * 43 * SECOND_US,
            output_tokens: 20,
            whole: false,
        });
        let mut late = Vec::new();
        Rehearsal::new(settings(lines), 1).run(requests, &mut world, &mut |outcome: &PlayedRace<'_>| {
            let healthy = outcome.attempts.iter().find(|attempt| attempt.first_token_us.is_some());
            if outcome.request.id >= 100 && healthy.is_none_or(|attempt| attempt.after_us > 10 * 340_000) {
                late.push((outcome.request.id, outcome.ttft_us, outcome.reasons.text()));
            }
        });
        assert_eq!(late, [], "{lines}");
    }
}

/// First tokens after 6 to 15 seconds.
struct Slow(Vec<SimulatedUpstream>);

impl SimulatedWorld for Slow {
    fn upstreams(&self) -> &[SimulatedUpstream] {
        &self.0
    }

    fn prompt(&self, _: &SimulatedRequest, _: usize, _: i64) -> PromptTokens {
        PromptTokens { uncached: 500.0, cached: 0.0 }
    }

    fn response(&mut self, dispatch: &Dispatch) -> SimulatedResponse {
        let mut draws = fastrand::Rng::with_seed((dispatch.request.id * 5 + dispatch.upstream) as u64);
        let ttft_s = 6.0 + 2.0 * dispatch.upstream as f64 + 3.0 * draws.f64();
        SimulatedResponse::Answers { ttft_us: (1e6 * ttft_s) as i64, tpot_us: 10_000.0 }
    }
}

#[test]
fn a_learned_hedge_soon_knows_that_a_model_is_slow() {
    let mut world = Slow(upstreams(4));
    world.0.iter_mut().for_each(|upstream| upstream.first_token = Duration::from_secs(60));
    let mut attempts = vec![0; 40];
    let requests =
        (0..40).map(|id| SimulatedRequest { id, at_us: id as i64 * 30 * SECOND_US, output_tokens: 20, whole: false });
    let settings = settings("policy = \"hedge\"\nhedge_after = \"p95\"");
    Rehearsal::new(settings, 1).run(requests, &mut world, &mut |outcome: &PlayedRace<'_>| {
        attempts[outcome.request.id] = outcome.attempts.len();
    });
    let later: usize = attempts[10..].iter().sum();
    assert!(later <= 36, "30 requests: {attempts:?}");
}
