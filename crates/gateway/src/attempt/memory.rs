//! The account of what a stream holds: an event that is not complete yet, a large one while it is read, and what is made of it until
//! its client has taken it. Not for requests: see `bounds`.

use bytes::Bytes;

use super::stream::EventStream;
use photofinish_base::failure::{Failure, FailureKind};
use photofinish_wire::SseEvent;

/// Bytes that a stream may buffer without accounting for them: normal traffic needs no more.
const UNACCOUNTED: usize = 64 << 10;
/// Copies of an event while it is translated: a tree, the pieces made of it, and what is written from them.
const TRANSLATION_COPIES: usize = 3;

impl EventStream {
    /// Accounts for this many held bytes.
    ///
    /// # Errors
    /// There is no memory for them. The failure is already recorded.
    pub(super) fn hold(&mut self, bytes: usize) -> Result<(), Failure> {
        if bytes > UNACCOUNTED && self.lease.cover(bytes).is_err() {
            return Err(self.fail(FailureKind::GatewayLimit, "the memory for bodies and buffers is in use"));
        }
        Ok(())
    }

    /// This many bytes are no longer held.
    pub(super) fn let_go(&mut self, bytes: usize) {
        // A whole answer is still in memory.
        if bytes > UNACCOUNTED && self.body.is_some() {
            self.lease.settle(0);
        }
    }

    /// Whether an event counts by itself. A whole answer is counted already.
    pub(super) fn is_large(&self, event: &SseEvent) -> bool {
        event.raw.len() > UNACCOUNTED && self.body.is_some()
    }

    /// A large event, counted for as long as any part of it is held.
    ///
    /// # Errors
    /// There is no memory to read it.
    pub(super) fn admitted(&mut self, event: SseEvent) -> Result<SseEvent, Failure> {
        let copies = if self.is_translated() { TRANSLATION_COPIES } else { 1 };
        self.hold(event.raw.len().saturating_mul(1 + copies))?;
        Ok(SseEvent { raw: self.counted(event.raw) })
    }

    /// Counts large bytes for as long as they are held: a client may be slow to take them.
    pub(super) fn counted(&self, raw: Bytes) -> Bytes {
        if raw.len() <= UNACCOUNTED { raw } else { self.lease.another(raw.len()).hold(raw) }
    }
}
