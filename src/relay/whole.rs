//! A whole answer for a client that did not ask to stream: the winner's stream, read to its end.

use std::future::poll_fn;

use bytes::Bytes;

use crate::attempt::{EventStream, Kind};
use crate::failure::{Failure, FailureKind};
use crate::protocol::assemble::Assembly;
use crate::protocol::sse::{Event, Scanner};

/// Bytes of a stream that are put together.
const ANSWER_MAX: usize = 64 << 20;

/// Reads to the end and gives the answer as JSON.
///
/// # Errors
/// When the stream breaks. Nothing was delivered, so the race can go on.
pub async fn assemble(stream: &mut EventStream, prelude: Bytes) -> Result<Bytes, Failure> {
    let mut assembly = Assembly::default();
    let mut size = prelude.len();
    let mut taken = add_all(&mut assembly, prelude);
    while let Some(item) = poll_fn(|context| stream.poll_served(context)).await {
        let item = item?;
        size += item.raw.len();
        if size > ANSWER_MAX {
            return Err(stream.fail(FailureKind::TooLarge, format!("an answer of more than {ANSWER_MAX} bytes")));
        }
        match item.kind {
            Kind::Done => break,
            Kind::Error { facts, .. } => return Err(stream.fail_with(facts)),
            Kind::Malformed => {}
            Kind::Other | Kind::Payload | Kind::UsageOnly => taken &= add(&mut assembly, &Event { raw: item.raw }),
        }
    }
    if !taken {
        return Err(stream.fail(FailureKind::Malformed, "an event cannot be put together with the others"));
    }
    if !stream.is_complete() {
        return Err(stream.fail(FailureKind::Closed, "the provider ended it without a finish reason"));
    }
    stream.won();
    Ok(Bytes::from(assembly.finish().to_string()))
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
