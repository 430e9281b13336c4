//! An attempt that may win. Not for reaching that point: see `exchange`.

use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::stream::EventStream;
use crate::race::{CutReason, HeldAttempt};
use photofinish_base::clock::Instant;
use photofinish_base::failure::Failure;

/// An attempt whose first token has arrived, or its whole answer if the client does not stream.
pub struct ReadyAttempt {
    pub status: StatusCode,
    /// The upstream's headers, unchanged.
    pub headers: HeaderMap,
    /// A rate limit is used up for this long.
    pub exhausted_for: Option<Duration>,
    /// The bytes up to the end of the first event with payload.
    pub prelude: Bytes,
    pub stream: EventStream,
    /// When the first token was seen.
    pub at: Instant,
    /// The assembled answer. The stream then has nothing more that a client needs.
    pub whole: Option<Bytes>,
    /// Its request left out the reasoning of earlier turns.
    pub without_reasoning: bool,
    /// Members that the upstream refused, and that its request left out.
    pub without_members: Vec<String>,
}

impl HeldAttempt for ReadyAttempt {
    fn poll_held(&mut self, context: &mut Context<'_>) -> Poll<Failure> {
        self.stream.read_ahead(context)
    }

    fn cut(&mut self, cut: CutReason) {
        match cut {
            CutReason::Lost => self.stream.lost(),
            CutReason::Late | CutReason::Deadline => {
                self.stream.time_out();
            }
        }
    }
}
