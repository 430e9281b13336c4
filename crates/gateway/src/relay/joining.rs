//! A broken answer and the answer that continues it, as one stream. Not for choosing who continues: see `rescued_body`.

use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};

use super::body::{BrokenOff, LastHandover, ShutdownWatch};
use crate::attempt::{EventStream, ItemKind};
use photofinish_base::failure::Failure;
use photofinish_wire::answer::rescue::JoinedAnswer;

/// The remaining state of the winner. Its owners declare it after their streams: rows of attempts are written before
/// the race's.
pub(super) struct WinnerRest<W> {
    pub broken: BrokenOff,
    pub ending: ShutdownWatch,
    pub include_usage: bool,
    pub watch: W,
}

pub(super) struct JoinedStreams<W> {
    pub stream: EventStream,
    /// The bytes up to its first payload.
    pub prelude: Option<Bytes>,
    pub joined: JoinedAnswer,
    pub upstream: String,
    pub candidate: usize,
    pub ordinal: usize,
    /// Some of its bytes were sent.
    pub began: bool,
    pub handed: LastHandover,
    pub rest: WinnerRest<W>,
}

/// The next step of a joined answer.
pub(super) enum RescueStep {
    Bytes(Bytes),
    /// The last bytes.
    Complete(Bytes),
    Heartbeat,
    Failed(Failure),
    /// It differs from the delivered part.
    Diverged,
    /// The gateway shuts down.
    Ending,
}

impl<W> JoinedStreams<W> {
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<RescueStep> {
        self.handed.notice_stall(&mut self.stream);
        loop {
            let (events, is_last) = match self.prelude.take() {
                Some(prelude) => (prelude, false),
                None => match self.stream.poll_served(context) {
                    Poll::Pending => return self.rest.ending.poll(context).map(|()| RescueStep::Ending),
                    Poll::Ready(Some(Err(failure))) => return Poll::Ready(RescueStep::Failed(failure)),
                    Poll::Ready(Some(Ok(item))) => match item.kind {
                        ItemKind::Error { facts, .. } => {
                            return Poll::Ready(RescueStep::Failed(self.stream.fail_with(facts)));
                        }
                        ItemKind::Heartbeat => return Poll::Ready(RescueStep::Heartbeat),
                        ItemKind::LeftOut => continue,
                        kind => (item.raw, matches!(kind, ItemKind::Done)),
                    },
                    Poll::Ready(None) if self.stream.is_complete() => (Bytes::new(), true),
                    Poll::Ready(None) => return Poll::Ready(RescueStep::Failed(self.stream.ended_too_early())),
                },
            };
            let mut out = BytesMut::new();
            let mut joined = self.joined.add(&events, &mut out);
            if is_last {
                joined = joined.and_then(|()| self.joined.end(&mut out));
            }
            match joined {
                Err(_) => return Poll::Ready(RescueStep::Diverged),
                Ok(()) if is_last => return Poll::Ready(RescueStep::Complete(out.freeze())),
                Ok(()) if !out.is_empty() => return Poll::Ready(RescueStep::Bytes(out.freeze())),
                Ok(()) => {}
            }
        }
    }
}
