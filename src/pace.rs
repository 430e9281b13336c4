//! How long a task works at one go on what a provider sent. A provider can send faster than its bytes can be read, and then a
//! loop that reads while there is something never ends: the other tasks of its thread, timers and shutdown among them, wait.
//!
//! A loop over such bytes counts what it does and gives the others a turn ([`Pace`]); what cannot be cut into pieces, as the
//! JSON text of one large event, is worked on aside ([`aside`]). Not for what the gateway sends or stores itself.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, ready};

use tokio::runtime::{Handle, RuntimeFlavor};

/// Work in one turn, in bytes. Bytes are counted when they come and once more in their event, so a turn ends after 40 to 64 KiB:
/// some 50 µs of reading, or half a millisecond of translating.
const TURN: usize = 128 << 10;
/// What an event costs beside its bytes, in bytes.
const EVENT: usize = 256;
/// From so many bytes on, work in one piece is done aside: reading them takes about as long as moving a thread's tasks over.
const ASIDE: usize = 64 << 10;

/// Counts the work of one reader and says when it is the others' turn. The count goes over from poll to poll, so that a
/// reader which is polled again and again within one poll of its task gets no more than its turn.
#[derive(Debug, Default)]
pub struct Pace {
    /// In bytes, since the last turn of the others.
    worked: usize,
    rests: bool,
}

impl Pace {
    /// Bytes came.
    pub fn bytes(&mut self, bytes: usize) {
        self.worked = self.worked.saturating_add(bytes);
    }

    /// An event of so many bytes is worked on.
    pub fn event(&mut self, bytes: usize) {
        self.worked = self.worked.saturating_add(EVENT + bytes);
    }

    /// To be asked before each step of a loop. Pending when it is the others' turn; the task is woken behind them.
    #[inline]
    pub fn poll_proceed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.worked < TURN {
            self.rests = false;
            return Poll::Ready(());
        }
        self.rest(context)
    }

    fn rest(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.worked = 0;
        self.rests = true;
        // Wakes the task when the thread has looked at its sockets and timers too.
        ready!(pin!(tokio::task::yield_now()).poll(context));
        Poll::Ready(())
    }

    /// Whether the last answer was that it is the others' turn: a pause that is nobody's fault.
    pub fn rests(&self) -> bool {
        self.rests
    }
}

/// Does work on so many bytes that is one piece. If they are many, the other tasks of this thread go on elsewhere meanwhile.
pub fn aside<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    // A runtime of one thread has no elsewhere.
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
            let (mut pace, mut seen, mut turns) = (Pace::default(), 0_usize, 0);
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
        let mut pace = Pace::default();
        let endless = poll_fn(|context| -> Poll<()> {
            loop {
                ready!(pace.poll_proceed(context));
                pace.bytes(1 << 10);
            }
        });
        let beside = async {
            while turns.fetch_add(1, Ordering::Relaxed) < 100 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            () = endless => {}
            () = beside => {}
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

    /// One worker, and work that waits for another task: only if that goes on elsewhere does it end.
    #[test]
    fn other_tasks_go_on_beside_work_in_one_piece() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (tell, told) = std::sync::mpsc::sync_channel::<()>(1);
        let heavy = async move { aside(ASIDE, move || told.recv().is_ok()) };
        runtime.block_on(async {
            let heavy = runtime.spawn(heavy);
            let light = runtime.spawn(async move { tell.send(()).is_ok() });
            assert!(light.await.unwrap() && heavy.await.unwrap());
        });
    }
}
