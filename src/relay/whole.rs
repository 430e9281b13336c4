//! A whole answer for a client that did not ask to stream: the winner's stream, read to its end.

use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;

use super::END_GRACE;
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
pub async fn assemble(stream: &mut EventStream, prelude: Bytes, idle: Duration) -> Result<Bytes, Failure> {
    let mut assembly = Assembly::default();
    let mut size = prelude.len();
    add_all(&mut assembly, prelude);
    loop {
        let item = match tokio::time::timeout(idle, poll_fn(|context| stream.poll_item(context))).await {
            Err(_) => return Err(stream.fail(FailureKind::IdleTimeout, format!("no byte for {idle:?}"))),
            Ok(Some(Ok(item))) => item,
            Ok(Some(Err(_))) if stream.is_complete() => break,
            Ok(Some(Err(failure))) => return Err(failure),
            Ok(None) if stream.is_complete() => break,
            Ok(None) => return Err(stream.fail(FailureKind::Closed, "the provider ended it without a finish reason")),
        };
        size += item.raw.len();
        if size > ANSWER_MAX {
            return Err(stream.fail(FailureKind::TooLarge, format!("an answer of more than {ANSWER_MAX} bytes")));
        }
        match item.kind {
            Kind::Done => break,
            Kind::Error(facts) => return Err(stream.fail_with(facts)),
            Kind::Malformed => {}
            Kind::Other | Kind::Payload | Kind::UsageOnly => add(&mut assembly, &Event { raw: item.raw }),
        }
    }
    stream.won();
    Ok(Bytes::from(assembly.finish().to_string()))
}

/// Reads what stands behind the end, for a moment, so that the connection can be used again.
pub async fn read_out(mut stream: EventStream) {
    let rest = async { while let Some(Ok(_)) = poll_fn(|context| stream.poll_item(context)).await {} };
    // What does not end in time is cancelled with the stream.
    let _ = tokio::time::timeout(END_GRACE, rest).await;
}

/// The answer that an empty stream amounts to.
pub fn assemble_events(events: Bytes) -> Bytes {
    let mut assembly = Assembly::default();
    add_all(&mut assembly, events);
    Bytes::from(assembly.finish().to_string())
}

fn add_all(assembly: &mut Assembly, events: Bytes) {
    let mut scanner = Scanner::new(usize::MAX);
    scanner.push(events);
    while let Ok(Some(event)) = scanner.next_event() {
        add(assembly, &event);
    }
    scanner.finish().iter().for_each(|event| add(assembly, event));
}

fn add(assembly: &mut Assembly, event: &Event) {
    if let Some(data) = event.fields().data {
        assembly.add(&data);
    }
}
