//! When each token of an answer is due: the random draws of a request, and what the requests of one simulator share: slots with a
//! queue, a speed that falls with load, the prefix cache and the stalls. Latencies are log-normal, as measured ones roughly are,
//! with a heavier tail on demand. Not for sending tokens: see `stream`.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::f64::consts::TAU;
use std::hash::{DefaultHasher, Hasher};
use std::mem;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::call::SimulatedCall;
use super::request::tokens_of;
use photofinish_base::clock::Instant;
use photofinish_config::{ServerStall, SimulatedFailure, Simulation};

/// The parts of a simulator that its requests compete for.
pub(super) struct SharedServer {
    clock: ServerClock,
    /// None: no limit. It gives its permits in the order of the requests for them.
    slots: Option<Arc<Semaphore>>,
    /// When the free slots became free; slots that were never taken are not in it.
    free_since: Mutex<BinaryHeap<Reverse<Instant>>>,
    /// Requests in service.
    running: AtomicU32,
    slowdown: f64,
    /// Input tokens per second; 0: input takes no time.
    prefill: f64,
    cache: Option<Mutex<PrefixCache>>,
    tokens_per_event: u32,
}

impl SharedServer {
    pub(super) fn new(simulation: &Simulation) -> SharedServer {
        let slots = usize::try_from(simulation.slots).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        SharedServer {
            clock: ServerClock::new(Instant::now(), simulation.stall),
            slots: (slots > 0).then(|| Arc::new(Semaphore::new(slots))),
            free_since: Mutex::default(),
            running: AtomicU32::new(0),
            slowdown: simulation.slowdown,
            prefill: simulation.prefill,
            cache: simulation.prefix_cache.then(Mutex::default),
            tokens_per_event: simulation.tokens_per_event.max(1),
        }
    }

    pub(super) fn started(&self) -> Instant {
        self.clock.started()
    }

    /// The end of the present stall; None if there is none.
    pub(super) fn stalled_until(&self, now: Instant) -> Option<Instant> {
        Some(self.clock.after(now, Duration::ZERO)).filter(|end| *end > now)
    }

    /// Waits for a slot. A request that arrived at `arrived` begins when a slot became free for it, even if a timer fired late:
    /// lateness of the machine does not add up in the queue.
    pub(super) async fn enter(self: &Arc<SharedServer>, arrived: Instant) -> Slot {
        let permit = match &self.slots {
            // Cannot fail: the semaphore is never closed.
            Some(slots) => Arc::clone(slots).acquire_owned().await.ok(),
            None => None,
        };
        let free_since = permit.as_ref().and_then(|_| self.free_slots().pop());
        let began = free_since.map_or(arrived, |Reverse(free_since)| free_since.max(arrived));
        self.running.fetch_add(1, Ordering::Relaxed);
        Slot { server: Arc::clone(self), permit, began, is_taken: true }
    }

    /// The tokens of this prompt that an earlier prompt left in the cache. From now on the whole prompt is in it.
    pub(super) fn cached_tokens(&self, prompt: &[u8]) -> Option<u64> {
        let cache = self.cache.as_ref()?;
        let bytes = cache.lock().unwrap_or_else(PoisonError::into_inner).take_in(prompt);
        Some(tokens_of(bytes))
    }

    fn prefill(&self, tokens: u64) -> Duration {
        if self.prefill > 0.0 { wait(tokens as f64 / self.prefill) } else { Duration::ZERO }
    }

    /// How many times as long a token takes as on an idle server.
    fn slowness(&self) -> f64 {
        let others = self.running.load(Ordering::Relaxed).saturating_sub(1);
        1.0 + self.slowdown * f64::from(others)
    }

    fn free_slots(&self) -> std::sync::MutexGuard<'_, BinaryHeap<Reverse<Instant>>> {
        self.free_since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right of one request to be served. Dropping it frees the slot.
pub(super) struct Slot {
    server: Arc<SharedServer>,
    permit: Option<OwnedSemaphorePermit>,
    began: Instant,
    is_taken: bool,
}

impl Slot {
    fn leave(&mut self, at: Instant) {
        if !std::mem::take(&mut self.is_taken) {
            return;
        }
        self.server.running.fetch_sub(1, Ordering::Relaxed);
        if let Some(permit) = self.permit.take() {
            self.server.free_slots().push(Reverse(at));
            drop(permit);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.leave(Instant::now());
    }
}

/// The service of one request: when each event is due.
pub(super) struct Service {
    slot: Slot,
    pace: SimulatedPace,
    /// Tokens of the prompt that the server has to read.
    uncached_tokens: u64,
}

impl Service {
    pub(super) fn new(slot: Slot, pace: SimulatedPace, uncached_tokens: u64) -> Service {
        Service { slot, pace, uncached_tokens }
    }

    pub(super) fn began(&self) -> Instant {
        self.slot.began
    }

    /// When the first event is due.
    pub(super) fn first(&mut self) -> Instant {
        let server = &self.slot.server;
        server.clock.after(self.slot.began, self.pace.ttft() + server.prefill(self.uncached_tokens))
    }

    /// When an event with `tokens` is due, after one that was due at `due`.
    pub(super) fn next(&mut self, due: Instant, tokens: u32) -> Instant {
        let alone = (0..tokens).fold(Duration::ZERO, |sum, _| sum.saturating_add(self.pace.gap()));
        let slowness = self.slot.server.slowness();
        let work = if slowness > 1.0 { wait(alone.as_secs_f64() * slowness) } else { alone };
        self.slot.server.clock.after(due, work)
    }

    /// The tokens of the next event if `left` remain.
    pub(super) fn event_tokens(&self, left: u32) -> u32 {
        left.min(self.slot.server.tokens_per_event)
    }

    pub(super) fn stalled_until(&self, now: Instant) -> Option<Instant> {
        self.slot.server.stalled_until(now)
    }

    /// Frees the slot, as of the moment when the last event was due.
    pub(super) fn end(&mut self, due: Instant) {
        self.slot.leave(due);
    }
}

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

    /// The call of one of these tools, broken with this probability. Without a call there is no draw: a seed keeps its sequence.
    pub(super) fn call(&mut self, tools: &str, broken: f64) -> Option<SimulatedCall> {
        let call = SimulatedCall::of(tools)?;
        Some(if self.rng.f64() < broken { call.broken(&mut self.rng) } else { call })
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

/// Bytes of a block: 16 tokens.
const BLOCK: usize = 64;
/// Blocks in one generation, so that two hold 2,097,152 tokens at most.
const GENERATION_MAX: usize = 65_536;

/// The blocks in use lately. When the younger generation is full, the older one is forgotten.
#[derive(Default)]
pub(super) struct PrefixCache {
    young: HashSet<u64>,
    old: HashSet<u64>,
}

impl PrefixCache {
    /// Puts a prompt into the cache. Returns the bytes at its beginning that were there before: whole blocks only, and never the
    /// last byte, since a server has to read something to answer.
    pub(super) fn take_in(&mut self, prompt: &[u8]) -> usize {
        let mut hasher = DefaultHasher::new();
        let (mut found, mut is_prefix) = (0, true);
        for block in prompt[..prompt.len().saturating_sub(1)].chunks_exact(BLOCK) {
            hasher.write(block);
            let hash = hasher.finish();
            is_prefix = is_prefix && self.knows(hash);
            found += if is_prefix { BLOCK } else { 0 };
            if self.young.len() == GENERATION_MAX {
                self.old = mem::take(&mut self.young);
            }
            self.young.insert(hash);
        }
        found
    }

    fn knows(&self, hash: u64) -> bool {
        self.young.contains(&hash) || self.old.contains(&hash)
    }
}

/// Knows when the server pauses.
#[derive(Clone, Copy)]
pub(super) struct ServerClock {
    started: Instant,
    stall: Option<ServerStall>,
}

impl ServerClock {
    pub(super) fn new(started: Instant, stall: Option<ServerStall>) -> ServerClock {
        ServerClock { started, stall }
    }

    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// When `work` that begins at `from` is done. Without work it is the end of the stall at `from`, or `from` itself.
    pub(super) fn after(&self, from: Instant, work: Duration) -> Instant {
        let Some(ServerStall { length, every }) = self.stall else { return from + work };
        let (length, every) = (length.as_nanos(), every.as_nanos());
        let since = (from - self.started).as_nanos();
        // The stall with number k ≥ 1 lasts from k × every on, and begins after every + (k − 1) × (every − length) of work.
        let before = match since / every {
            0 => 0,
            begun => (begun - 1) * length + (since % every).min(length),
        };
        let worked = since - before + work.as_nanos();
        let stalls = worked.checked_sub(every).map_or(0, |further| 1 + further / (every - length));
        self.started + nanos(worked + stalls * length)
    }
}

fn nanos(nanos: u128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
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

#[cfg(test)]
mod prefix_cache_tests {
    use super::*;

    #[test]
    fn the_common_beginning_is_found_in_whole_blocks() {
        let mut cache = PrefixCache::default();
        let text: Vec<u8> = (0..1_000_u32).map(|at| (at % 251) as u8).collect();
        assert_eq!(cache.take_in(&text), 0);
        assert_eq!(cache.take_in(&text), 960, "15 whole blocks");
        assert_eq!(cache.take_in(&text[..640]), 576, "the last byte is always read");
        assert_eq!(cache.take_in(&text[..641]), 640);
        let mut other_end = text.clone();
        other_end[400] ^= 1;
        assert_eq!(cache.take_in(&other_end), 384);
        let mut other_start = text.clone();
        other_start[0] ^= 1;
        assert_eq!(cache.take_in(&other_start), 0, "the same blocks after another beginning");
        assert_eq!((cache.take_in(b""), cache.take_in(b"hi")), (0, 0));
    }

    #[test]
    fn it_forgets_what_is_long_unused_and_stays_small() {
        let mut cache = PrefixCache::default();
        let prompt = |number: u32| number.to_le_bytes().repeat(5 * BLOCK);
        assert_eq!(cache.take_in(&prompt(0)), 0);
        for number in 1..10_000 {
            cache.take_in(&prompt(number));
            assert!(cache.young.len() <= GENERATION_MAX && cache.old.len() <= GENERATION_MAX);
            if number % 2_000 == 0 {
                assert!(cache.take_in(&prompt(1)) > 0, "in use");
            }
        }
        assert_eq!(cache.take_in(&prompt(0)), 0);
    }
}

#[cfg(test)]
mod server_clock_tests {
    use proptest::prelude::*;

    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn work_waits_for_the_end_of_each_stall() {
        let start = Instant::now();
        let clock = ServerClock::new(start, Some(ServerStall { length: 2 * S, every: 20 * S }));
        for (from, work, until) in [
            (0, 5, 5),
            (0, 19, 19),
            // What is due at the moment of a stall waits for its end.
            (0, 20, 22),
            (18, 3, 23),
            // Nothing is done in a stall.
            (20, 0, 22),
            (21, 1, 23),
            (22, 18, 42),
            (22, 17, 39),
            (0, 38, 42),
            (0, 56, 62),
            (41, 30, 74),
        ] {
            assert_eq!(clock.after(start + from * S, work * S) - start, until * S, "{work} s of work from {from} s on");
        }
        let without = ServerClock::new(start, None);
        assert_eq!(without.after(start + 20 * S, 3 * S) - start, 23 * S);
    }

    proptest! {
        /// Work in two parts ends when the same work in one part does, and never inside a stall.
        #[test]
        fn parts_of_work_add_up(length in 1_u64..50, more in 1_u64..50, from in 0_u64..500, a in 0_u64..300, b in 0_u64..300) {
            let ms = Duration::from_millis;
            let every = length + more;
            let start = Instant::now();
            let clock = ServerClock::new(start, Some(ServerStall { length: ms(length), every: ms(every) }));
            let first = clock.after(start + ms(from), ms(a));
            prop_assert_eq!(clock.after(first, ms(b)), clock.after(start + ms(from), ms(a + b)));
            let at = u64::try_from((first - start).as_millis()).unwrap();
            prop_assert!(at < every || at % every >= length, "{} is in a stall of {} every {}", at, length, every);
        }
    }
}
