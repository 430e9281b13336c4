//! Counts of requests, and the times of the latest ones. A guard keeps them, so dropped requests count too.
//!
//! Not for the metrics of the gateway: see `metrics`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::clock::Instant;

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
    /// The request's `user` member, at most 64 characters: tests find their requests by it.
    pub user: Option<String>,
    pub end: RequestOutcome,
    /// When the request had been read.
    pub started: Instant,
    /// When the connection got the first token. None: no token, or an answer without streaming.
    pub first_token: Option<Instant>,
    /// When the connection got the last token so far.
    pub last_token: Option<Instant>,
    /// When the connection got the last part, or the client hung up.
    pub ended: Instant,
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    counts: watch::Sender<TallyCounts>,
    ended: Mutex<VecDeque<FinishedRequest>>,
}

impl Tally {
    /// Counts a request as started; it ends when the ticket is dropped.
    pub(super) fn start(self: &Arc<Tally>, user: Option<String>) -> Ticket {
        self.counts.send_modify(|counts| {
            counts.started += 1;
            counts.running += 1;
        });
        let now = Instant::now();
        let request = FinishedRequest {
            user,
            end: RequestOutcome::Cancelled,
            started: now,
            first_token: None,
            last_token: None,
            ended: now,
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

    /// Notes that the connection gets a token.
    pub(super) fn token(&mut self) {
        let now = Instant::now();
        self.request.first_token.get_or_insert(now);
        self.request.last_token = Some(now);
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
        self.tally.end(self.request.clone());
    }
}
