//! The end of an answer, held back for what its vendor sends behind it.

use std::future::{Future, poll_fn};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;

use super::item::{ItemKind, StreamItem};
use super::stream::{EventStream, READ_OUT_FOR};
use crate::clock::Instant;
use crate::failure::Failure;

/// How long the end of an answer is held back for what a vendor sends behind it, its price for one. Nearly always the end of the
/// body is there already.
const BEHIND_FOR: Duration = Duration::from_millis(100);
/// Bytes of what is sent behind the end that go down.
const BEHIND_MAX: usize = 64 << 10;

impl EventStream {
    /// The next event of a winner; none once it is complete, or ended without being so. What a vendor sends right behind its
    /// end comes before that end.
    ///
    /// # Errors
    /// What broke it. Nothing can break what is complete.
    pub fn poll_served(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<StreamItem, Failure>>> {
        loop {
            let next = self.poll_next(context);
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
        let now = Instant::now();
        self.complete_since.get_or_insert(now);
        if let Some(timer) = &mut self.timer {
            timer.as_mut().reset(now + BEHIND_FOR);
        }
    }

    /// Whether to wait on for what comes behind the end.
    fn waits_behind(&mut self, context: &mut Context<'_>) -> bool {
        let Some(timer) = &mut self.timer else { return false };
        let waits = timer.as_mut().poll(context).is_pending();
        if !waits {
            // From now on only the end of the body is awaited.
            let since = self.complete_since.unwrap_or_else(Instant::now);
            timer.as_mut().reset(since + READ_OUT_FOR.min(self.idle));
        }
        waits
    }

    /// The last event, with what a translation tells at the end.
    fn give_end(&mut self) -> Option<Result<StreamItem, Failure>> {
        let (StreamItem { raw, kind, size }, _) = self.end.take()?;
        let raw = match self.is_translated() {
            true => Bytes::from([raw, self.ending()].concat()),
            false => raw,
        };
        Some(Ok(StreamItem { raw, kind, size }))
    }

    /// Reads what comes behind the end, for its usage alone.
    pub(super) async fn read_behind(&mut self) {
        let rest = async { while let Some(Ok(_)) = poll_fn(|context| self.poll_item(context)).await {} };
        let _ = tokio::time::timeout(BEHIND_FOR, rest).await;
    }
}
