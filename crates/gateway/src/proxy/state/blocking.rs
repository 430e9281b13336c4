//! Work in proportion to a request's size: in place for a small request, on blocking threads for a large one, so that
//! other requests do not wait. Not for background work: see `shutdown`.

use std::sync::{Arc, Weak};

use tokio::sync::Semaphore;

use crate::proxy::refusals::rejection::Rejection;
use photofinish_base::clock::Instant;
use photofinish_base::shutdown::Shutdown;

/// Bytes of a body that is processed in place. Translating this much takes 1 to 3 ms; another thread costs 0.03 ms.
pub(crate) const INLINE_MAX: usize = 64 << 10;
/// Larger bodies may take seconds: they leave one thread to smaller ones.
const HUGE: usize = 4 << 20;

/// The threads: one per core, at least two.
#[derive(Debug)]
pub struct BlockingPool {
    places: Arc<Semaphore>,
    /// Threads for huge bodies: all but one.
    huge: Arc<Semaphore>,
    shutdown: Shutdown,
}

/// Whether the client still waits for the work. Long work checks it between its steps.
pub struct StillWanted(Option<Weak<()>>);

impl StillWanted {
    /// For work that no client waits for, and for work that is over soon.
    pub fn anyhow() -> StillWanted {
        StillWanted(None)
    }

    /// # Errors
    /// The client has left, so no client sees the error.
    pub fn check(&self) -> Result<(), Rejection> {
        let has_left = self.0.as_ref().is_some_and(|waiting| waiting.strong_count() == 0);
        if has_left { Err(Rejection::shutting_down()) } else { Ok(()) }
    }
}

impl BlockingPool {
    pub fn new(shutdown: Shutdown) -> BlockingPool {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let (places, huge) = (cores.max(2), cores.max(2) - 1);
        BlockingPool { places: Arc::new(Semaphore::new(places)), huge: Arc::new(Semaphore::new(huge)), shutdown }
    }

    /// Does the work for a body of this many bytes. Dropping the future drops work that has not begun.
    ///
    /// # Errors
    /// 503 if it is not done by `until`, or the gateway shuts down.
    pub async fn run<T: Send + 'static>(
        &self,
        bytes: usize,
        until: Instant,
        work: impl FnOnce(&StillWanted) -> T + Send + 'static,
    ) -> Result<T, Rejection> {
        if bytes <= INLINE_MAX {
            return Ok(work(&StillWanted(None)));
        }
        // Boxed, so that the future of a small request stays small.
        Box::pin(self.run_elsewhere(bytes, until, work)).await
    }

    async fn run_elsewhere<T: Send + 'static>(
        &self,
        bytes: usize,
        until: Instant,
        work: impl FnOnce(&StillWanted) -> T + Send + 'static,
    ) -> Result<T, Rejection> {
        let done = async {
            let huge = if bytes > HUGE { self.huge.clone().acquire_owned().await.ok() } else { None };
            let place = self.places.clone().acquire_owned().await.ok();
            let waiting = Arc::new(());
            let wanted = StillWanted(Some(Arc::downgrade(&waiting)));
            let done = self.shutdown.run_blocking(move || {
                let _places = (huge, place);
                work(&wanted)
            });
            let done = done.await;
            drop(waiting);
            done
        };
        tokio::select! {
            done = tokio::time::timeout_at(until, done) => match done {
                Ok(Ok(done)) => Ok(done),
                Ok(Err(ended)) => match ended.try_into_panic() {
                    // As if the work had panicked here.
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_) => Err(Rejection::shutting_down()),
                },
                Err(_) => Err(Rejection::too_slow()),
            },
            () = self.shutdown.cancelled() => Err(Rejection::shutting_down()),
        }
    }
}

/// Bytes that a parsed JSON value takes in addition to its text: its name, its place in the object, and the value itself.
const VALUE_BYTES: usize = 160;

/// Memory to translate a body: parsed once, and written once per dialect, one at a time.
pub fn translation_bytes(body: &[u8]) -> usize {
    let values = memchr::memchr3_iter(b',', b'[', b'{', body).count();
    2 * (body.len() + values * VALUE_BYTES)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(600)
    }

    #[tokio::test]
    async fn a_small_body_stays_where_it_is_and_a_large_one_does_not() {
        let heavy = BlockingPool::new(Shutdown::new());
        let here = std::thread::current().id();
        let thread = |_: &StillWanted| std::thread::current().id();
        assert_eq!(heavy.run(INLINE_MAX, soon(), thread).await.unwrap(), here);
        assert_ne!(heavy.run(INLINE_MAX + 1, soon(), thread).await.unwrap(), here);
    }

    #[tokio::test]
    async fn work_that_nobody_waits_for_is_not_begun() {
        let heavy = Arc::new(BlockingPool::new(Shutdown::new()));
        let begun = Arc::new(AtomicUsize::new(0));
        let (release, held) = mpsc::channel::<()>();
        let held = Arc::new(std::sync::Mutex::new(held));
        let places = heavy.huge.available_permits();
        let start = || {
            let (heavy, begun, held) = (heavy.clone(), begun.clone(), held.clone());
            heavy.shutdown.clone().spawn(async move {
                heavy
                    .run(HUGE + 1, soon(), move |_| {
                        begun.fetch_add(1, Ordering::SeqCst);
                        held.lock().unwrap().recv().unwrap();
                    })
                    .await
                    .is_ok()
            })
        };
        let running: Vec<_> = (0..places).map(|_| start()).collect();
        while begun.load(Ordering::SeqCst) < places {
            tokio::task::yield_now().await;
        }
        let waiting = start();
        tokio::task::yield_now().await;
        waiting.abort();
        assert!(waiting.await.is_err());
        // A smaller body still has a thread.
        assert!(heavy.run(INLINE_MAX + 1, soon(), |_| ()).await.is_ok());
        running.iter().for_each(|_| release.send(()).unwrap());
        for task in running {
            assert!(task.await.unwrap());
        }
        assert_eq!(begun.load(Ordering::SeqCst), places);
    }

    #[tokio::test]
    async fn who_waits_too_long_is_told() {
        let heavy = BlockingPool::new(Shutdown::new());
        let _all =
            heavy.places.clone().acquire_many_owned(u32::try_from(heavy.places.available_permits()).unwrap()).await;
        let late = heavy.run(INLINE_MAX + 1, Instant::now(), |_| ()).await.unwrap_err();
        assert_eq!(late.status(), http::StatusCode::SERVICE_UNAVAILABLE);
    }

    #[test]
    fn many_small_values_take_more_than_their_letters() {
        assert_eq!(translation_bytes(b"\"a long text without any values in it\""), 2 * 38);
        assert_eq!(translation_bytes(b"[0,0,0]"), 2 * (7 + 3 * VALUE_BYTES));
    }
}
