//! The truth file: what the simulator did for each request, as JSON Lines, to compare a client's figures with. Not for what is
//! written: see `tally`.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use photofinish_base::clock::{self, Instant, micros_between};
use photofinish_base::shutdown::Shutdown;

use super::finished_request::{FinishedRequest, RequestOutcome};

/// How long lines wait in memory.
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// Bytes of lines in memory.
const LINES_MAX: usize = 64 * 1024 * 1024;

/// A file with one line per ended request. A write that fails ends it with a warning; the simulator goes on.
pub struct TruthFile {
    path: PathBuf,
    /// None: a write failed.
    file: Mutex<Option<File>>,
    lines: Mutex<Vec<u8>>,
}

/// The times are microseconds since the simulator's start, on its monotonic clock.
#[derive(Serialize)]
struct TruthLine<'a> {
    id: String,
    marker: Option<&'a str>,
    arrived_us: i64,
    began_us: Option<i64>,
    events_us: &'a [i64],
    ended_us: i64,
    freed_us: Option<i64>,
    end: &'static str,
    tokens: u32,
    input_tokens: u64,
    cached_tokens: u64,
}

impl TruthFile {
    /// Replaces an older file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(path: &Path) -> io::Result<Arc<TruthFile>> {
        let file = Mutex::new(Some(File::create(path)?));
        Ok(Arc::new(TruthFile { path: path.to_owned(), file, lines: Mutex::default() }))
    }

    /// Writes what there is, every second until the shutdown cancels.
    pub(super) fn begin(self: &Arc<TruthFile>, name: &str, started: Instant, shutdown: &Shutdown) {
        let started_at_us = clock::wall_micros() - micros_between(started, Instant::now());
        self.push(&json!({ "simulator": name, "started_at_us": started_at_us }));
        let (truth, tasks) = (Arc::clone(self), shutdown.clone());
        shutdown.spawn(async move {
            while tokio::time::timeout(FLUSH_EVERY, tasks.cancelled()).await.is_err() {
                let truth = Arc::clone(&truth);
                let _ = tasks.run_blocking(move || truth.flush()).await;
            }
        });
    }

    pub(super) fn record(&self, request: &FinishedRequest, started: Instant) {
        let since = |at: Instant| micros_between(started, at);
        self.push(&TruthLine {
            id: request.id(),
            marker: request.marker.as_deref(),
            arrived_us: since(request.started),
            began_us: request.began.map(since),
            events_us: &request.events_us,
            ended_us: since(request.ended),
            freed_us: request.freed.map(since),
            end: match request.end {
                RequestOutcome::Completed => "completed",
                RequestOutcome::Cancelled => "cancelled",
                RequestOutcome::Failed => "failed",
            },
            tokens: request.tokens,
            input_tokens: request.input_tokens,
            cached_tokens: request.cached_tokens,
        });
    }

    /// Writes all lines that wait. It blocks.
    pub fn flush(&self) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = std::mem::take(&mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner));
        let Some(open) = file.as_mut() else { return };
        if let Err(error) = open.write_all(&lines) {
            tracing::warn!(path = %self.path.display(), %error, "the truth file ends here: it cannot be written");
            *file = None;
        }
    }

    /// Lines beyond the bound are lost: the disk is slower than the requests.
    fn push(&self, line: &impl Serialize) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() < LINES_MAX && serde_json::to_writer(&mut *lines, line).is_ok() {
            lines.push(b'\n');
        }
    }
}
