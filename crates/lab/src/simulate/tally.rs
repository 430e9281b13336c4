//! Counts of requests, and the times of the latest ones. A guard keeps them, so dropped requests count too.
//!
//! Not for the metrics of the gateway: see `metrics`. Not for writing the times to a file: see `truth`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use photofinish_base::clock::{Instant, micros_between};

use super::finished_request::{FinishedRequest, RequestOutcome};
use super::request::ValidRequest;
use super::truth::TruthFile;

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

    /// Notes that the connection gets an event with so many tokens.
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
