//! The end of an answer, held back because some vendors send events after it. Not for reading before the end: see `stream`.

use std::future::{Future, poll_fn};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;

use super::item::{ItemKind, StreamItem};
use super::stream::EventStream;
use photofinish_base::clock::Instant;
use photofinish_base::failure::Failure;

/// How long the end of an answer is held back for later events, such as a price. The end of the body has nearly always come
/// already.
const BEHIND_FOR: Duration = Duration::from_millis(100);
/// Bytes of later events that are passed on.
const BEHIND_MAX: usize = 64 << 10;

impl EventStream {
    /// Whether the next read yields first, so that other tasks run.
    pub fn is_due_to_rest(&self) -> bool {
        self.pace.is_due()
    }

    /// The next event of a winner; none once the stream has ended, complete or not. Events that a vendor sends right after its
    /// end are returned before that end.
    ///
    /// # Errors
    /// The failure that broke it. A complete answer cannot break.
    pub fn poll_served(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<StreamItem, Failure>>> {
        loop {
            let next = self.poll_last(context);
            let Some((_, left)) = &mut self.end else {
                match next {
                    Poll::Ready(Some(Ok(item))) if matches!(item.kind, ItemKind::Done) => self.hold_end(item),
                    next => return next,
                }
                continue;
            };
            match next {
                Poll::Ready(Some(Ok(item))) if item.size <= *left => {
                    *left -= item.size;
                    return Poll::Ready(Some(Ok(item)));
                }
                Poll::Pending if self.waits_behind(context) => return Poll::Pending,
                _ => return Poll::Ready(self.give_end()),
            }
        }
    }

    /// Holds back the last event.
    fn hold_end(&mut self, end: StreamItem) {
        self.end = Some((end, BEHIND_MAX));
        self.wait_for_more();
    }

    /// The answer is complete, but more may come soon.
    pub(super) fn wait_for_more(&mut self) {
        let now = Instant::now();
        self.complete_since.get_or_insert(now);
        self.set_timer(now + BEHIND_FOR);
    }

    /// From now on it waits only for the end of the body.
    pub(super) fn wait_for_end(&mut self) {
        let since = self.complete_since.unwrap_or_else(Instant::now);
        self.set_timer(since + self.read_out_for());
    }

    /// Whether to wait longer for events after the end.
    pub(super) fn waits_behind(&mut self, context: &mut Context<'_>) -> bool {
        let Some(timer) = &mut self.timer else { return false };
        let waits = timer.as_mut().poll(context).is_pending();
        if !waits {
            self.wait_for_end();
        }
        waits
    }

    /// The last event, with the end of a translation.
    fn give_end(&mut self) -> Option<Result<StreamItem, Failure>> {
        let (mut end, _) = self.end.take()?;
        if self.is_translated() {
            end.raw = Bytes::from([end.raw, self.ending()].concat());
        }
        Some(Ok(end))
    }

    /// Reads the rest of the body, only for its usage.
    pub(super) async fn read_behind(&mut self) {
        let rest = async { while let Some(Ok(_)) = poll_fn(|context| self.poll_item(context)).await {} };
        let _ = tokio::time::timeout(BEHIND_FOR, rest).await;
    }
}
