//! The only place that spawns tasks, and the signal that ends them.
//!
//! Phases, in order: *draining* (no new connections; running work continues), *cancelled* (running work ends itself and
//! records that), then [`Shutdown::finished`] waits until every task has ended. Not for the recorder's writer: it must
//! outlive every task that records, and its owner joins it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tokio_util::task::TaskTracker;

/// Cheap to clone; all clones share one state.
#[derive(Clone, Debug, Default)]
pub struct Shutdown(Arc<ShutdownState>);

/// The flags repeat the states of the tokens, readable without their locks.
#[derive(Debug, Default)]
struct ShutdownState {
    draining: CancellationToken,
    is_draining: AtomicBool,
    cancelled: CancellationToken,
    is_cancelled: AtomicBool,
    tasks: TaskTracker,
}

impl Shutdown {
    pub fn new() -> Shutdown {
        Shutdown::default()
    }

    /// Spawns a task that [`Shutdown::finished`] waits for.
    pub fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        // Boxed: the runtime has four kilobytes of code for each type of task.
        let task: Pin<Box<dyn Future<Output = F::Output> + Send>> = Box::pin(task);
        self.0.tasks.spawn(task)
    }

    /// Runs blocking work on a thread for such work. [`Shutdown::finished`] waits for it too, so it must end soon after
    /// the cancel.
    pub fn run_blocking<F, T>(&self, work: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let work: Box<dyn FnOnce() -> T + Send> = Box::new(work);
        self.0.tasks.spawn_blocking(work)
    }

    /// No new connections from now on.
    pub fn drain(&self) {
        self.0.is_draining.store(true, Ordering::Release);
        self.0.draining.cancel();
    }

    /// Asks all running work to end now. Implies draining.
    pub fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::Release);
        self.drain();
        self.0.cancelled.cancel();
    }

    pub fn is_draining(&self) -> bool {
        self.0.is_draining.load(Ordering::Acquire)
    }

    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::Acquire)
    }

    /// Resolves once draining began.
    pub fn draining(&self) -> WaitForCancellationFutureOwned {
        self.0.draining.clone().cancelled_owned()
    }

    /// Resolves once all work must end. Owned, so that a response body can hold it.
    pub fn cancelled(&self) -> WaitForCancellationFutureOwned {
        self.0.cancelled.clone().cancelled_owned()
    }

    /// Waits until every spawned task has ended, at most `limit`; true if all did.
    pub async fn finished(&self, limit: Duration) -> bool {
        self.0.tasks.close();
        tokio::time::timeout(limit, self.0.tasks.wait()).await.is_ok()
    }

    /// How many spawned tasks still run.
    pub fn running(&self) -> usize {
        self.0.tasks.len()
    }
}

/// Runs hyper's own tasks, including those of HTTP/2 streams.
impl<F> hyper::rt::Executor<F> for Shutdown
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, task: F) {
        self.spawn(task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_phases_follow_each_other() {
        let shutdown = Shutdown::new();
        let waiting = shutdown.cancelled();
        let task = shutdown.spawn(waiting);
        shutdown.drain();
        assert!(shutdown.is_draining() && !shutdown.is_cancelled());
        assert!(!shutdown.finished(Duration::from_secs(1)).await, "a task that waits for the cancel still runs");
        shutdown.cancel();
        assert!(shutdown.finished(Duration::from_secs(1)).await);
        assert!(task.is_finished());
    }
}
