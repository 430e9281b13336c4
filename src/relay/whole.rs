//! A whole answer for a client that did not ask to stream: the winner's stream, read to its end.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use crate::attempt::{EventStream, Kind};
use crate::failure::{Failure, FailureKind};
use crate::protocol::assemble::Assembly;
use crate::protocol::sse::{Event, Scanner};

/// Bytes of a stream that are put together.
const ANSWER_MAX: usize = 64 << 20;

/// A whole answer in the making.
pub struct Assembler {
    assembly: Assembly,
    /// Bytes so far.
    size: usize,
    /// False once an event could not be put together with the others.
    taken: bool,
}

impl Assembler {
    /// Begins with `prelude`, which ends with the first payload.
    pub fn new(prelude: Bytes) -> Assembler {
        let mut assembly = Assembly::default();
        let size = prelude.len();
        let taken = add_all(&mut assembly, prelude);
        Assembler { assembly, size, taken }
    }

    /// Reads on, and gives the answer as JSON at its end. The stream has won then. Not to be called again.
    ///
    /// # Errors
    /// When the stream breaks. Nothing was delivered, so the race can go on.
    pub fn poll(&mut self, stream: &mut EventStream, context: &mut Context<'_>) -> Poll<Result<Bytes, Failure>> {
        while let Some(item) = ready!(stream.poll_served(context)) {
            let item = item?;
            self.size += item.raw.len();
            if self.size > ANSWER_MAX {
                let message = format!("an answer of more than {ANSWER_MAX} bytes");
                return Poll::Ready(Err(stream.fail(FailureKind::TooLarge, message)));
            }
            match item.kind {
                Kind::Done => break,
                Kind::Error { facts, .. } => return Poll::Ready(Err(stream.fail_with(facts))),
                Kind::Malformed => {}
                Kind::Other | Kind::Payload | Kind::UsageOnly => {
                    self.taken &= add(&mut self.assembly, &Event { raw: item.raw });
                }
            }
        }
        if !self.taken {
            let message = "an event cannot be put together with the others";
            return Poll::Ready(Err(stream.fail(FailureKind::Malformed, message)));
        }
        if !stream.is_complete() {
            return Poll::Ready(Err(stream.ended_too_early()));
        }
        stream.won();
        Poll::Ready(Ok(Bytes::from(std::mem::take(&mut self.assembly).finish().to_string())))
    }
}

/// Reads to the end and gives the answer as JSON.
///
/// # Errors
/// When the stream breaks. Nothing was delivered, so the race can go on.
pub async fn assemble(stream: &mut EventStream, prelude: Bytes) -> Result<Bytes, Failure> {
    let mut assembler = Assembler::new(prelude);
    poll_fn(|context| assembler.poll(stream, context)).await
}

/// The answer that an empty stream amounts to.
pub fn assemble_events(events: Bytes) -> Bytes {
    let mut assembly = Assembly::default();
    add_all(&mut assembly, events);
    Bytes::from(assembly.finish().to_string())
}

/// False if one of them could not be read.
fn add_all(assembly: &mut Assembly, events: Bytes) -> bool {
    let mut scanner = Scanner::new(usize::MAX);
    scanner.push(events);
    let mut taken = true;
    while let Ok(Some(event)) = scanner.next_event() {
        taken &= add(assembly, &event);
    }
    scanner.finish().iter().fold(taken, |taken, event| taken & add(assembly, event))
}

fn add(assembly: &mut Assembly, event: &Event) -> bool {
    match event.fields().data {
        Some(data) if data.trim_ascii() != b"[DONE]" && !data.trim_ascii().is_empty() => assembly.add(&data),
        _ => true,
    }
}
