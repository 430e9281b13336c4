//! Reads the history on blocking threads, a few reads at a time, and only as long as the client waits.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;

use photofinish_base::shutdown::Shutdown;
use photofinish_gateway::proxy::Rejection;
use photofinish_history::recorder::Recorder;
use photofinish_history::store::{OpenError, ReadError, StoreReader};

/// Maximum number of concurrent reads.
const READS_MAX: usize = 4;
/// The maximum wait for a free read.
const WAIT_FOR: Duration = Duration::from_secs(5);

/// Answers questions to one database. Cheap to clone; all clones share one state.
#[derive(Clone)]
pub struct DatabaseReads {
    path: PathBuf,
    /// Told when the database cannot be read because it is damaged.
    recorder: Recorder,
    places: Arc<Semaphore>,
    shutdown: Shutdown,
}

/// Stops a read when it is dropped: with the request of a client that left, or at a shutdown.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl DatabaseReads {
    pub fn new(path: PathBuf, recorder: Recorder, shutdown: Shutdown) -> DatabaseReads {
        DatabaseReads { path, recorder, places: Arc::new(Semaphore::new(READS_MAX)), shutdown }
    }

    /// Opens the database and reads an answer.
    ///
    /// # Errors
    /// 500 or 503: too many reads are running, the gateway shuts down, or the history cannot be read.
    pub async fn read<T, F>(&self, read: F) -> Result<T, Rejection>
    where
        F: FnOnce(&StoreReader) -> Result<T, Rejection> + Send + 'static,
        T: Send + 'static,
    {
        let place = tokio::time::timeout(WAIT_FOR, self.places.clone().acquire_owned());
        let Ok(Ok(place)) = place.await else { return Err(Rejection::busy(READS_MAX, WAIT_FOR)) };
        let stop = StopOnDrop(Arc::default());
        let (path, recorder, stopped) = (self.path.clone(), self.recorder.clone(), stop.0.clone());
        let answer = self.shutdown.run_blocking(move || {
            // Held until the read has really ended.
            let _place = place;
            let reader = recorder.read_history(&path).map_err(|error| unopened(&error))?.stopped_by(stopped);
            read(&reader)
        });
        tokio::select! {
            biased;
            answer = answer => {
                answer.unwrap_or_else(|_| Err(Rejection::history("reading the history failed: see the log".into(), false)))
            }
            () = self.shutdown.cancelled() => Err(Rejection::shutting_down()),
        }
    }
}

fn unopened(error: &OpenError) -> Rejection {
    let passes = matches!(error, OpenError::Absent { .. } | OpenError::Locked { .. });
    Rejection::history(error.to_string(), passes)
}

/// The error of a failed read, for an operator.
pub(super) fn unread(error: ReadError) -> Rejection {
    Rejection::history(error.to_string(), !matches!(error, ReadError::Failed { .. }))
}
