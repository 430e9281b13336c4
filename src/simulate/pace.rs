//! The draws: which request fails, and when each token is due. Log-normal, as measured latencies roughly are.

use std::f64::consts::TAU;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fastrand::Rng;

use crate::config::{SimulatedFailure, Simulation};

/// No single wait is longer.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// Shared by the requests of one simulator. One seed gives one sequence of failures and times.
pub(super) struct Draws {
    rng: Mutex<Rng>,
}

impl Draws {
    pub(super) fn new(seed: Option<u64>) -> Draws {
        Draws { rng: Mutex::new(seed.map_or_else(Rng::new, Rng::with_seed)) }
    }

    /// What the next request gets.
    pub(super) fn draw(&self, simulation: &Simulation) -> (Option<SimulatedFailure>, Pace) {
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        let fails = rng.f64() < simulation.failures;
        let pace = Pace {
            ttft: simulation.ttft.as_secs_f64(),
            gap: 1.0 / simulation.tokens_per_second,
            jitter: simulation.jitter,
            rng: rng.fork(),
        };
        (fails.then_some(simulation.failure), pace)
    }
}

/// The waits of one answer. Each request has its own generator, so that streams that run at once do not mix.
pub(super) struct Pace {
    /// Seconds, the median.
    ttft: f64,
    /// Seconds between tokens, the median.
    gap: f64,
    jitter: f64,
    rng: Rng,
}

impl Pace {
    /// From the request to the first token.
    pub(super) fn ttft(&mut self) -> Duration {
        self.log_normal(self.ttft)
    }

    /// From one token to the next.
    pub(super) fn gap(&mut self) -> Duration {
        self.log_normal(self.gap)
    }

    /// From the request to the last of `tokens`.
    pub(super) fn whole(&mut self, tokens: u32) -> Duration {
        (1..tokens).fold(self.ttft(), |sum, _| sum.saturating_add(self.gap()))
    }

    fn log_normal(&mut self, median: f64) -> Duration {
        let seconds = median * (self.jitter * self.normal()).exp();
        Duration::try_from_secs_f64(seconds).map_or(WAIT_MAX, |wait| wait.min(WAIT_MAX))
    }

    /// Standard normal, by Box and Muller.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.rng.f64()).ln()).sqrt();
        radius * (TAU * self.rng.f64()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(simulation: &Simulation, count: usize) -> Vec<(Option<SimulatedFailure>, Duration, Duration)> {
        let draws = Draws::new(simulation.seed);
        (0..count)
            .map(|_| draws.draw(simulation))
            .map(|(failure, mut pace)| (failure, pace.ttft(), pace.gap()))
            .collect()
    }

    #[test]
    fn one_seed_gives_one_sequence() {
        let simulation = Simulation { seed: Some(7), failures: 0.5, ..Simulation::default() };
        assert_eq!(draws(&simulation, 100), draws(&simulation, 100));
        assert_ne!(draws(&simulation, 100), draws(&Simulation { seed: Some(8), ..simulation }, 100));
    }

    #[test]
    fn the_median_and_the_spread_are_those_asked_for() {
        let simulation = Simulation { seed: Some(1), jitter: 0.5, ..Simulation::default() };
        let mut times: Vec<f64> = draws(&simulation, 10_001).iter().map(|(_, ttft, _)| ttft.as_secs_f64()).collect();
        times.sort_by(f64::total_cmp);
        let quantile = |q: usize| times[10_000 * q / 100];
        assert!((0.195..0.205).contains(&quantile(50)), "{}", quantile(50));
        // One standard deviation up: a factor of e^0.5.
        assert!((0.315..0.345).contains(&quantile(84)), "{}", quantile(84));
    }

    #[test]
    fn without_jitter_every_wait_is_exact() {
        let simulation = Simulation { jitter: 0.0, tokens_per_second: 40.0, ..Simulation::default() };
        for (failure, ttft, gap) in draws(&simulation, 10) {
            assert_eq!((failure, ttft, gap), (None, Duration::from_millis(200), Duration::from_millis(25)));
        }
    }

    #[test]
    fn the_share_of_failures_is_the_one_asked_for() {
        let simulation = Simulation { seed: Some(3), failures: 0.25, ..Simulation::default() };
        let failed = draws(&simulation, 10_000).iter().filter(|(failure, ..)| failure.is_some()).count();
        assert!((2_350..2_650).contains(&failed), "{failed}");
        let never = Simulation { failures: 0.0, ..simulation.clone() };
        assert!(draws(&never, 1_000).iter().all(|(failure, ..)| failure.is_none()));
        let always = Simulation { failures: 1.0, ..simulation };
        assert!(draws(&always, 1_000).iter().all(|(failure, ..)| failure.is_some()));
    }

    #[test]
    fn no_setting_makes_a_wait_endless() {
        for (tokens_per_second, jitter) in [(0.0, 0.2), (f64::NAN, 0.0), (-1.0, 0.0), (1.0, f64::INFINITY)] {
            let simulation = Simulation { tokens_per_second, jitter, ..Simulation::default() };
            assert!(draws(&simulation, 10).iter().all(|(_, ttft, gap)| ttft.max(gap) <= &WAIT_MAX));
        }
    }
}
