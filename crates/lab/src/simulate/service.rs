//! What the requests of one simulator share: its slots with their queue, the speed that falls with load, the prefix cache and the
//! stalls. Not for the draws of one request: see `pace`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use photofinish_base::clock::Instant;
use photofinish_config::config::Simulation;

use super::pace::{SimulatedPace, wait};
use super::prefix_cache::PrefixCache;
use super::request::tokens_of;
use super::server_clock::ServerClock;

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

    /// Waits for a slot. A request that arrived at `arrived` begins when a slot became free for it, even if a timer told so late:
    /// lateness of the machine does not add up in the queue.
    pub(super) async fn enter(self: &Arc<SharedServer>, arrived: Instant) -> Slot {
        let permit = match &self.slots {
            // Cannot fail: nobody closes it.
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

    /// When an event with so many tokens is due, after one that was due at `due`.
    pub(super) fn next(&mut self, due: Instant, tokens: u32) -> Instant {
        let alone = (0..tokens).fold(Duration::ZERO, |sum, _| sum.saturating_add(self.pace.gap()));
        let slowness = self.slot.server.slowness();
        let work = if slowness > 1.0 { wait(alone.as_secs_f64() * slowness) } else { alone };
        self.slot.server.clock.after(due, work)
    }

    /// The tokens of the next event, if so many are left.
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
