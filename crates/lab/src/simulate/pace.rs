//! The random draws: which request fails, and when each token is due. Log-normal, as measured latencies roughly are, with a
//! heavier tail on demand.
//!
//! Not for what other requests add to these times: see `service`. Not for sending tokens: see `stream`.

use std::f64::consts::TAU;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fastrand::Rng;

use photofinish_config::config::{SimulatedFailure, Simulation};

/// The longest single wait.
const WAIT_MAX: Duration = Duration::from_secs(3600);
/// A request of the tail takes at least this many times as long.
const TAIL_TIMES: f64 = 2.0;
/// The exponent of the tail's Pareto distribution; measured exponents are about 1.1 to 1.3.
const TAIL_EXPONENT: f64 = 1.2;
/// An odd number with bits in all positions: it spreads seeds that are close to each other.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The draws of one simulator. One seed gives one sequence of failures and times; a request with its own seed is not
/// part of the sequence.
pub(super) struct RandomDraws {
    rng: Mutex<Rng>,
}

impl RandomDraws {
    pub(super) fn new(seed: Option<u64>) -> RandomDraws {
        RandomDraws { rng: Mutex::new(seed.map_or_else(Rng::new, Rng::with_seed)) }
    }

    /// The draws for the next request; `asked` is its own seed.
    pub(super) fn draw(
        &self,
        simulation: &Simulation,
        asked: Option<i64>,
    ) -> (Option<SimulatedFailure>, SimulatedPace) {
        let draw = |rng: &mut Rng| (rng.f64() < simulation.failures, rng.fork());
        let (fails, rng) = match simulation.seed.zip(asked) {
            Some((seed, asked)) => draw(&mut Rng::with_seed(seed.wrapping_mul(SPREAD) ^ asked.cast_unsigned())),
            None => draw(&mut self.rng.lock().unwrap_or_else(PoisonError::into_inner)),
        };
        let pace = SimulatedPace {
            ttft: simulation.ttft.as_secs_f64(),
            gap: 1.0 / simulation.tokens_per_second,
            jitter: simulation.jitter,
            tail: simulation.tail,
            rng,
        };
        (fails.then_some(simulation.failure), pace)
    }
}

/// The waits of one answer on an idle server: see `service` for the others. Each request has its own generator, so that concurrent streams do not mix.
pub(super) struct SimulatedPace {
    /// Median, in seconds.
    ttft: f64,
    /// Median seconds between tokens.
    gap: f64,
    jitter: f64,
    /// Share of first tokens that take far longer.
    tail: f64,
    rng: Rng,
}

impl SimulatedPace {
    /// From the request to the first token.
    pub(super) fn ttft(&mut self) -> Duration {
        let body = self.log_normal(self.ttft);
        // Without a tail there is no draw for it: a seed keeps its sequence.
        let times = if self.tail > 0.0 && self.rng.f64() < self.tail { self.pareto() } else { 1.0 };
        wait(body * times)
    }

    /// From one token to the next, for a request that runs alone.
    pub(super) fn gap(&mut self) -> Duration {
        wait(self.log_normal(self.gap))
    }

    /// A draw, in seconds like its median.
    fn log_normal(&mut self, median: f64) -> f64 {
        median * (self.jitter * self.normal()).exp()
    }

    fn pareto(&mut self) -> f64 {
        TAIL_TIMES * (1.0 - self.rng.f64()).powf(-1.0 / TAIL_EXPONENT)
    }

    /// Standard normal, by Box and Muller.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.rng.f64()).ln()).sqrt();
        radius * (TAU * self.rng.f64()).cos()
    }
}

/// A wait within bounds, whatever the draw was.
pub(super) fn wait(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).map_or(WAIT_MAX, |wait| wait.min(WAIT_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(simulation: &Simulation, count: usize) -> Vec<(Option<SimulatedFailure>, Duration, Duration)> {
        let draws = RandomDraws::new(simulation.seed);
        (0..count)
            .map(|_| draws.draw(simulation, None))
            .map(|(failure, mut pace)| (failure, pace.ttft(), pace.gap()))
            .collect()
    }

    #[test]
    fn one_seed_gives_one_sequence() {
        let simulation = Simulation { seed: Some(7), failures: 0.5, ..Simulation::default() };
        assert_eq!(draws(&simulation, 100), draws(&simulation, 100));
        assert_ne!(draws(&simulation, 100), draws(&Simulation { seed: Some(8), ..simulation }, 100));
    }

    /// Seeds in the files of users and in tests keep their meaning.
    #[test]
    fn a_seed_draws_what_it_has_always_drawn() {
        let simulation = Simulation { seed: Some(7), failures: 0.5, tail: 0.5, ..Simulation::default() };
        let drawn = draws(&simulation, 4).into_iter();
        let drawn: Vec<_> =
            drawn.map(|(fails, ttft, gap)| (fails.is_some(), ttft.as_micros(), gap.as_micros())).collect();
        let always =
            [(false, 318_268, 23_459), (false, 211_894, 19_879), (true, 977_942, 15_581), (false, 1_418_332, 19_921)];
        assert_eq!(drawn, always);
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
    fn a_request_with_a_seed_gets_the_same_whatever_came_before() {
        let simulation = Simulation { seed: Some(7), failures: 0.5, ..Simulation::default() };
        let (fresh, used) = (RandomDraws::new(simulation.seed), RandomDraws::new(simulation.seed));
        let ttft = |draws: &RandomDraws, asked| {
            let (failure, mut pace) = draws.draw(&simulation, asked);
            (failure, pace.ttft())
        };
        for asked in -5..5 {
            ttft(&used, None);
            assert_eq!(ttft(&fresh, Some(asked)), ttft(&used, Some(asked)));
            assert_ne!(ttft(&fresh, Some(asked)).1, ttft(&fresh, Some(asked + 1)).1);
        }
        let other = Simulation { seed: Some(8), ..simulation.clone() };
        assert_ne!(ttft(&fresh, Some(1)).1, fresh.draw(&other, Some(1)).1.ttft(), "two providers are not one");
    }

    #[test]
    fn a_tail_is_as_long_and_as_frequent_as_is_said() {
        let simulation = Simulation { seed: Some(4), jitter: 0.0, tail: 0.1, ..Simulation::default() };
        let mut times: Vec<f64> =
            draws(&simulation, 20_000).iter().map(|(_, ttft, _)| ttft.as_secs_f64() / 0.2).collect();
        times.sort_by(f64::total_cmp);
        let tail = &times[times.partition_point(|times| *times < 1.5)..];
        assert!((1_850..2_150).contains(&tail.len()), "{}", tail.len());
        assert!(tail[0] >= 2.0, "{}", tail[0]);
        let median = tail[tail.len() / 2];
        assert!((3.4..3.8).contains(&median), "{median}");
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
