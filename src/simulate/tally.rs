//! What became of the chat requests: counts, and the latest of them with their times. Kept by a guard, so that a
//! request that was dropped is counted as well.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::clock::Instant;

/// How many ended requests are remembered.
const ENDED_MAX: usize = 4096;

/// `started` is the sum of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TallyCounts {
    pub started: u64,
    pub running: u64,
    /// Answered to the end.
    pub completed: u64,
    /// Given up because the client hung up.
    pub cancelled: u64,
    /// Failed as the simulation wanted, or refused as invalid.
    pub failed: u64,
}

/// How a chat request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    Completed,
    Cancelled,
    Failed,
}

/// A chat request that is over.
#[derive(Clone, Debug)]
pub struct FinishedRequest {
    /// The request's `user` member, at most 64 characters: by it a test finds a request of its own.
    pub user: Option<String>,
    pub end: RequestOutcome,
    /// When the request had been read.
    pub started: Instant,
    /// When the first token was given to the connection; none where there was none, and for an answer in one piece.
    pub first_token: Option<Instant>,
    /// The same for the last token so far.
    pub last_token: Option<Instant>,
    /// When the last piece was given to the connection, or the client's hang-up was seen.
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

/// A running request. Not `Clone`: two would count one request twice.
pub(super) struct Ticket {
    tally: Arc<Tally>,
    /// `Cancelled` until it is known better: what is dropped half-way was.
    request: FinishedRequest,
}

impl Ticket {
    pub(super) fn started(&self) -> Instant {
        self.request.started
    }

    /// A token is given to the connection.
    pub(super) fn token(&mut self) {
        let now = Instant::now();
        self.request.first_token.get_or_insert(now);
        self.request.last_token = Some(now);
    }

    /// The last piece is on its way.
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
