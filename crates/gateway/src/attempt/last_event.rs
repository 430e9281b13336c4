//! The event that ends an answer, held back for a client that did not ask for usage: what servers say in it else, they say in the
//! usage chunk if they are asked for one (vLLM's `system_fingerprint`, llama.cpp's `timings`). Not for events after the end: see
//! `after_end`.

use std::task::{Context, Poll};

use bytes::Bytes;

use super::item::{ItemKind, LastEvent, StreamItem};
use super::stream::EventStream;
use photofinish_base::failure::Failure;
use photofinish_wire::Surface;
use photofinish_wire::dialects::openai::with_members_of;

impl EventStream {
    /// The client did not ask for the usage chunk, so what else it says is joined to the event before it. Returns the bytes up to
    /// the first payload, unless they are held back.
    pub fn join_usage_chunk(&mut self, prelude: Bytes) -> Bytes {
        if self.is_translated() || !matches!(self.surface(), Surface::Chat | Surface::Completions) {
            return prelude;
        }
        self.last = LastEvent::Awaited;
        if !self.is_complete() {
            return prelude;
        }
        self.hold_last(StreamItem::new(prelude, ItemKind::Other, 0));
        Bytes::new()
    }

    /// The next event of a winner, with the last one held back for at most 100 ms.
    pub(super) fn poll_last(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<StreamItem, Failure>>> {
        loop {
            match &self.last {
                LastEvent::Passed => return self.poll_next(context),
                LastEvent::Awaited => match self.poll_next(context) {
                    Poll::Ready(Some(Ok(item))) if self.may_be_last(&item) => self.hold_last(item),
                    next => return next,
                },
                LastEvent::Held(_) => match self.poll_next(context) {
                    Poll::Pending if self.waits_behind(context) => return Poll::Pending,
                    next => return Poll::Ready(self.release_last(next)),
                },
                LastEvent::Followed(_) => {
                    if let LastEvent::Followed(next) = std::mem::take(&mut self.last) {
                        return Poll::Ready(Some(*next));
                    }
                }
            }
        }
    }

    /// The bytes of an event that is still held back.
    pub(super) fn held_last(&mut self) -> Bytes {
        match std::mem::take(&mut self.last) {
            LastEvent::Held(item) => item.raw,
            _ => Bytes::new(),
        }
    }

    fn may_be_last(&self, item: &StreamItem) -> bool {
        let is_own = matches!(item.kind, ItemKind::Payload | ItemKind::Other);
        is_own && item.more.is_none() && self.end.is_none() && self.is_complete()
    }

    fn hold_last(&mut self, item: StreamItem) {
        self.last = LastEvent::Held(item);
        self.wait_for_more();
    }

    /// The event that was held back, joined with what came after it. During a race the stream may have been read to its end, so
    /// the one after it may be the last.
    fn release_last(&mut self, next: Poll<Option<Result<StreamItem, Failure>>>) -> Option<Result<StreamItem, Failure>> {
        let mut last = match std::mem::take(&mut self.last) {
            LastEvent::Held(last) => last,
            _ => return None,
        };
        self.wait_for_end();
        match next {
            Poll::Ready(Some(Ok(usage))) if matches!(usage.kind, ItemKind::UsageOnly) => {
                last.raw = with_members_of(last.raw, &usage.raw);
            }
            Poll::Ready(Some(Ok(next))) if self.may_be_last(&next) => self.hold_last(next),
            Poll::Ready(Some(next)) => self.last = LastEvent::Followed(Box::new(next)),
            Poll::Ready(None) | Poll::Pending => {}
        }
        Some(Ok(last))
    }
}
