//! Counts of requests, the times of the latest ones, and the truth file: what the simulator did for each request, as JSON Lines,
//! to compare a client's figures with. A guard keeps them, so dropped requests count too.
//!
//! Not for the metrics of the gateway: see `metrics`.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use tokio::sync::watch;

use super::request::ValidRequest;
use photofinish_base::clock::{self, Instant, micros_between};
use photofinish_base::shutdown::Shutdown;

/// Ended requests that are kept.
const ENDED_MAX: usize = 4096;

/// `started` is the sum of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TallyCounts {
    pub started: u64,
    pub running: u64,
    /// Answered to the end.
    pub completed: u64,
    /// Ended because the client hung up.
    pub cancelled: u64,
    /// Failed on purpose, or refused as invalid.
    pub failed: u64,
}

pub(super) struct Tally {
    counts: watch::Sender<TallyCounts>,
    ended: Mutex<VecDeque<FinishedRequest>>,
    started: Instant,
    truth: Option<Arc<TruthFile>>,
}

impl Tally {
    /// `started` is the zero of the truth file.
    pub(super) fn new(started: Instant, truth: Option<Arc<TruthFile>>) -> Tally {
        Tally { counts: watch::Sender::default(), ended: Mutex::default(), started, truth }
    }

    /// Counts a request as started; it ends when the ticket is dropped. None: the request is invalid.
    pub(super) fn start(self: &Arc<Tally>, number: u64, request: Option<&ValidRequest>) -> Ticket {
        self.counts.send_modify(|counts| {
            counts.started += 1;
            counts.running += 1;
        });
        let now = Instant::now();
        let request = FinishedRequest {
            number,
            user: request.and_then(|request| request.user.clone()),
            marker: request.filter(|_| self.truth.is_some()).and_then(ValidRequest::marker),
            end: RequestOutcome::Cancelled,
            started: now,
            began: None,
            first_token: None,
            last_token: None,
            ended: now,
            freed: None,
            tokens: 0,
            input_tokens: request.map_or(0, |request| request.prompt_tokens),
            cached_tokens: 0,
            events_us: Vec::new(),
        };
        Ticket { tally: Arc::clone(self), request }
    }

    pub(super) fn counts(&self) -> TallyCounts {
        *self.counts.borrow()
    }

    pub(super) async fn counts_are(&self, wanted: impl FnMut(&TallyCounts) -> bool) -> TallyCounts {
        let mut counts = self.counts.subscribe();
        // Cannot fail: the sender is `self`.
        counts.wait_for(wanted).await.map_or_else(|_| self.counts(), |counts| *counts)
    }

    pub(super) fn ended(&self) -> Vec<FinishedRequest> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    fn end(&self, request: FinishedRequest) {
        let end = request.end;
        if let Some(truth) = &self.truth {
            truth.record(&request, self.started);
        }
        let request = FinishedRequest { events_us: Vec::new(), ..request };
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.len() == ENDED_MAX {
            ended.pop_front();
        }
        ended.push_back(request);
        drop(ended);
        self.counts.send_modify(|counts| {
            counts.running -= 1;
            match end {
                RequestOutcome::Completed => counts.completed += 1,
                RequestOutcome::Cancelled => counts.cancelled += 1,
                RequestOutcome::Failed => counts.failed += 1,
            }
        });
    }
}

/// A running request. Not `Clone`: a copy would count it twice.
pub(super) struct Ticket {
    tally: Arc<Tally>,
    /// `Cancelled` until it ends otherwise: a request that is dropped midway was cancelled.
    request: FinishedRequest,
}

impl Ticket {
    pub(super) fn started(&self) -> Instant {
        self.request.started
    }

    /// Notes that a slot was free for it.
    pub(super) fn begin(&mut self, began: Instant, cached_tokens: u64) {
        self.request.began = Some(began);
        self.request.cached_tokens = cached_tokens;
    }

    /// Notes that the connection gets an event with this number of tokens.
    pub(super) fn event(&mut self, tokens: u32) {
        let now = Instant::now();
        self.request.first_token.get_or_insert(now);
        self.request.last_token = Some(now);
        self.request.tokens += tokens;
        if self.tally.truth.is_some() {
            self.request.events_us.push(micros_between(self.tally.started, now));
        }
    }

    /// Notes that the connection gets a whole answer.
    pub(super) fn whole(&mut self, tokens: u32) {
        self.request.tokens = tokens;
        self.end(RequestOutcome::Completed);
    }

    /// Notes that its slot is free for others.
    pub(super) fn free(&mut self, at: Instant) {
        self.request.freed = Some(at);
    }

    /// Notes that the connection gets the last part.
    pub(super) fn end(&mut self, end: RequestOutcome) {
        self.request.end = end;
        self.request.ended = Instant::now();
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.request.end == RequestOutcome::Cancelled {
            self.request.ended = Instant::now();
        }
        if self.request.began.is_some() {
            self.request.freed.get_or_insert(self.request.ended);
        }
        let request =
            FinishedRequest { events_us: std::mem::take(&mut self.request.events_us), ..self.request.clone() };
        self.tally.end(request);
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    Completed,
    Cancelled,
    Failed,
}

/// A request that has ended.
#[derive(Clone, Debug)]
pub struct FinishedRequest {
    /// Requests are counted from 1.
    pub number: u64,
    /// The request's `user` member, at most 64 characters: tests find their requests by it.
    pub user: Option<String>,
    /// The last `bench-…` in the prompt; only for a truth file.
    pub marker: Option<String>,
    pub end: RequestOutcome,
    /// When the request had been read.
    pub started: Instant,
    /// When a slot was free for it. None: it failed at once, or the client hung up before.
    pub began: Option<Instant>,
    /// When the connection got the first token. None: no token, or an answer without streaming.
    pub first_token: Option<Instant>,
    /// When the connection got the last token so far.
    pub last_token: Option<Instant>,
    /// When the connection got the last part, or the client hung up.
    pub ended: Instant,
    /// When its slot was free again: the last part was due, even if a timer fired late. None: it had no slot.
    pub freed: Option<Instant>,
    /// Tokens of each choice that the connection got.
    pub tokens: u32,
    /// Tokens of the prompt; 0 for a request that was refused as invalid.
    pub input_tokens: u64,
    /// Those of them that were in the prefix cache.
    pub cached_tokens: u64,
    /// When the connection got each event with tokens, in microseconds since the simulator's start; only for a truth file.
    pub(super) events_us: Vec<i64>,
}

impl FinishedRequest {
    /// The `x-request-id` of the answer.
    pub fn id(&self) -> String {
        request_id(self.number)
    }
}

pub(super) fn request_id(number: u64) -> String {
    format!("req-simulated-{number}")
}

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
