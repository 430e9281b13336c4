//! Bounds how long a task works on a provider's bytes before other tasks run. A provider can send faster than the
//! gateway reads. A loop that reads as long as there is data would then never end, and the other tasks of its thread
//! would wait, including timers and shutdown.
//!
//! A loop over such bytes counts its work and yields ([`YieldPace`]). Work that cannot be split, such as parsing the
//! JSON of one large event, goes through [`aside`]. Not for data that the gateway itself sends or stores.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, ready};

use tokio::runtime::{Handle, RuntimeFlavor};

/// Work between two yields, in bytes. Bytes count once when they are read and once with their event, so a turn ends
/// after 40 to 64 KiB: about 50 µs of reading, or half a millisecond of translating.
const TURN: usize = 128 << 10;
/// The cost of an event in addition to its bytes, in bytes.
const EVENT: usize = 256;
/// Unsplittable work on at least this many bytes runs aside. Reading that many takes about as long as moving a thread's
/// tasks.
const ASIDE: usize = 64 << 10;

/// Counts the work of one reader and decides when to yield. The count is kept between polls, so a reader that is polled
/// many times within one poll of its task still gets only one turn.
#[derive(Debug, Default)]
pub struct YieldPace {
    /// Work since the last yield, in bytes.
    worked: usize,
    rests: bool,
}

impl YieldPace {
    /// Bytes were read.
    pub fn bytes(&mut self, bytes: usize) {
        self.worked = self.worked.saturating_add(bytes);
    }

    /// An event of this many bytes is processed.
    pub fn event(&mut self, bytes: usize) {
        self.worked = self.worked.saturating_add(EVENT + bytes);
    }

    /// Call before each step of a loop. Pending when it is time to yield; the task is woken after the others have run.
    #[inline]
    pub fn poll_proceed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.is_due() {
            self.rests = false;
            return Poll::Ready(());
        }
        self.rest(context)
    }

    fn rest(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.worked = 0;
        self.rests = true;
        // This wakes the task only after the thread has polled its sockets and timers too.
        ready!(pin!(tokio::task::yield_now()).poll(context));
        Poll::Ready(())
    }

    /// Whether the next call yields.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.worked >= TURN
    }

    /// Whether the last call yielded. The pause is then the gateway's, not the provider's.
    pub fn rests(&self) -> bool {
        self.rests
    }
}

/// Runs work on this many bytes that cannot be split. If there are many bytes, the other tasks of this thread move to
/// another thread for that time.
pub fn aside<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    // A single-threaded runtime has no other thread.
    let has_others = || Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    if bytes >= ASIDE && has_others() { tokio::task::block_in_place(work) } else { work() }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[tokio::test]
    async fn the_others_have_a_turn_within_so_many_bytes_and_events() {
        for (event, most) in [(0, TURN / EVENT), (TURN / 4, 4), (TURN * 9, 1)] {
            let (mut pace, mut seen, mut turns) = (YieldPace::default(), 0_usize, 0);
            while turns < 5 {
                let proceeds = poll_fn(|context| Poll::Ready(pace.poll_proceed(context).is_ready())).await;
                assert_eq!(pace.rests(), !proceeds);
                if proceeds {
                    pace.event(event);
                    seen += 1;
                } else {
                    turns += 1;
                }
            }
            assert!(seen <= 5 * most && seen >= 5 * (most / 2).max(1), "{seen} events of {event} bytes in five turns");
        }
    }

    #[tokio::test]
    async fn a_task_beside_an_endless_loop_runs() {
        let turns = AtomicU64::new(0);
        let mut pace = YieldPace::default();
        let endless = poll_fn(|context| -> Poll<()> {
            loop {
                ready!(pace.poll_proceed(context));
                pace.bytes(1 << 10);
            }
        });
        let other = async {
            while turns.fetch_add(1, Ordering::Relaxed) < 100 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            () = endless => {}
            () = other => {}
        }
        assert_eq!(turns.into_inner(), 101);
    }

    #[test]
    fn work_in_one_piece_is_done_on_every_kind_of_runtime() {
        assert_eq!(aside(ASIDE, || 1), 1);
        for mut builder in [tokio::runtime::Builder::new_current_thread(), tokio::runtime::Builder::new_multi_thread()]
        {
            let runtime = builder.worker_threads(1).build().unwrap();
            assert_eq!(runtime.block_on(async { aside(ASIDE, || 2) }), 2);
        }
    }

    /// One worker runs work that waits for another task. It ends only if that task moves to another thread.
    #[test]
    fn other_tasks_go_on_beside_work_in_one_piece() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (sender, receiver) = std::sync::mpsc::sync_channel::<()>(1);
        let heavy = async move { aside(ASIDE, move || receiver.recv().is_ok()) };
        runtime.block_on(async {
            let heavy = runtime.spawn(heavy);
            let light = runtime.spawn(async move { sender.send(()).is_ok() });
            assert!(light.await.unwrap() && heavy.await.unwrap());
        });
    }
}
