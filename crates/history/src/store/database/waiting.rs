//! Waits for the driver, which is asynchronous, on a thread that may block. Not for a task: a future that yields would wait for the worker that
//! it keeps.

use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Wake};
use std::thread::Thread;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

/// Sees when a socket is ready. The futures themselves run on the thread that waits.
static REACTOR: LazyLock<std::io::Result<Runtime>> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(1).thread_name("postgres").enable_all().build());

/// Between two looks whether to go on waiting.
const LOOK_EVERY: Duration = Duration::from_millis(20);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.unpark();
    }
}

/// Runs the future to its end, unless `stops` says why to give it up: it is asked every few milliseconds.
pub(in crate::store) fn wait<T, E: From<std::io::Error>>(
    future: impl Future<Output = Result<T, E>>,
    stops: impl Fn() -> Option<E>,
) -> Result<T, E> {
    let reactor = REACTOR.as_ref().map_err(|error| std::io::Error::new(error.kind(), error.to_string()))?;
    let _entered = reactor.enter();
    // Where a task blocks its own worker, the task's budget would never be renewed.
    let mut limited = pin!(tokio::task::unconstrained(async {
        let mut future = pin!(future);
        loop {
            if let Ok(done) = tokio::time::timeout(LOOK_EVERY, &mut future).await {
                return done;
            }
            if let Some(error) = stops() {
                return Err(error);
            }
        }
    }));
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(done) = limited.as_mut().poll(&mut context) {
            return done;
        }
        std::thread::park();
    }
}
