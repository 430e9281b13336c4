//! Whole answers for clients that do not stream, assembled from an upstream's stream. Not for streamed answers: see `relay`.

use std::task::{Context, Poll, ready};

use bytes::Bytes;

use super::item::ItemKind;
use super::ready::ReadyAttempt;
use crate::budget::Lease;
use crate::failure::{Failure, FailureKind};
use crate::pace::aside;
use crate::protocol::Surface;
use crate::protocol::assemble::{Assemble, Whole};
use crate::protocol::framing::Framing;

/// Bytes of a stream that is assembled.
const ANSWER_MAX: usize = 64 << 20;

/// Assembles a whole answer.
pub struct Assembler {
    assembly: Box<dyn Assemble>,
    framing: Framing,
    /// Bytes so far.
    size: usize,
    /// Memory for the parts and for the whole.
    lease: Lease,
    /// False once an event did not fit the others.
    taken: bool,
}

impl Assembler {
    /// Begins with the prelude, which it takes. `lease` grows with the answer.
    pub fn new(ready: &mut ReadyAttempt, lease: Lease) -> Assembler {
        let surface = ready.stream.surface();
        let (mut assembly, framing) = (surface.assembly(), surface.framing());
        let prelude = std::mem::take(&mut ready.prelude);
        let size = prelude.len();
        let taken = add_all(&mut *assembly, framing, prelude);
        Assembler { assembly, framing, size, lease, taken }
    }

    /// Continues to read, and returns the answer as JSON at its end. The stream has then won. Do not poll again.
    ///
    /// # Errors
    /// The stream breaks or has no content. Nothing was delivered, so the race continues.
    pub fn poll(&mut self, ready: &mut ReadyAttempt, context: &mut Context<'_>) -> Poll<Result<Bytes, Failure>> {
        let stream = &mut ready.stream;
        let mut has_ended = false;
        while let Some(item) = ready!(stream.poll_served(context)) {
            let item = item?;
            self.size += item.size;
            stream.worked(&item);
            if self.size > ANSWER_MAX {
                let message = format!("an answer of more than {ANSWER_MAX} bytes");
                return Poll::Ready(Err(stream.fail(FailureKind::TooLarge, message)));
            }
            if self.lease.cover(2 * self.size).is_err() {
                let message = "the memory for bodies and buffers is in use";
                return Poll::Ready(Err(stream.fail(FailureKind::GatewayLimit, message)));
            }
            match item.kind {
                ItemKind::Error { facts, .. } => return Poll::Ready(Err(stream.fail_with(facts))),
                ItemKind::Malformed | ItemKind::Heartbeat => {}
                ItemKind::Other | ItemKind::Payload | ItemKind::UsageOnly | ItemKind::Done => {
                    self.taken &= add_all(&mut *self.assembly, self.framing, item.raw);
                }
            }
            has_ended = matches!(item.kind, ItemKind::Done);
            if has_ended {
                break;
            }
        }
        if !self.taken {
            let message = "an event cannot be put together with the others";
            return Poll::Ready(Err(stream.fail(FailureKind::Malformed, message)));
        }
        if !stream.is_complete() {
            return Poll::Ready(Err(stream.ended_too_early()));
        }
        if !has_ended {
            add_all(&mut *self.assembly, self.framing, stream.ending());
        }
        Poll::Ready(match aside(self.size, || self.assembly.finish()) {
            None => Err(stream.fail(FailureKind::Malformed, "the arguments of a tool call cannot be read")),
            Some(Whole { body, says_nothing: true }) => Err(ready.nothing_said(body)),
            Some(Whole { body, .. }) => {
                stream.won();
                Ok(body)
            }
        })
    }
}

/// The JSON answer of an empty stream.
pub fn assemble_events(surface: Surface, events: Bytes) -> Bytes {
    let mut assembly = surface.assembly();
    add_all(&mut *assembly, surface.framing(), events);
    assembly.finish().map(|whole| whole.body).unwrap_or_default()
}

/// False if an event could not be read.
fn add_all(assembly: &mut dyn Assemble, framing: Framing, events: Bytes) -> bool {
    // It builds a tree, which takes longer than reading in place.
    aside(events.len().saturating_mul(4), || {
        let mut scanner = framing.decoder(usize::MAX);
        scanner.push(events);
        let mut taken = true;
        while let Ok(Some(event)) = scanner.next_event() {
            taken &= assembly.add(&event);
        }
        scanner.finish().iter().fold(taken, |taken, event| taken & assembly.add(event))
    })
}
