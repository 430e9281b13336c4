//! The relay: the body of a streamed answer, made of the winner's events. Not for whole answers: see `attempt`.
//!
//! The server polls a [`RelayBody`] when it has room, and that polls the winner's body: no task, no channel, and a dropped
//! connection drops the winner. A [`RescuedBody`] continues an answer that broke off with another upstream.

mod body;
mod rescued_body;

pub use body::{RelayBody, RelayObserver};
pub use rescued_body::{Continuation, RESCUED, RescueCandidates, RescuedBody};

use bytes::{Bytes, BytesMut};

use crate::attempt::EventStream;
use photofinish_base::failure::Failure;
use photofinish_base::pace::aside;
use photofinish_dialects::openai;
use photofinish_wire::client_error::ErrorShape;
use photofinish_wire::stream::frame::Frame;
use photofinish_wire::stream::sse::SseScanner;

/// Complete events, without the usage chunks that `include_usage` adds. What else these say is joined to the event before.
pub fn without_usage(events: Bytes) -> Bytes {
    aside(events.len(), || {
        let mut scanner = SseScanner::new(usize::MAX);
        scanner.push(events);
        let mut kept = BytesMut::new();
        while let Ok(Some(event)) = scanner.next_event() {
            match openai::read(&event) {
                Frame::Chunk(chunk) if chunk.usage_only => {
                    kept = openai::with_members_of(kept.freeze(), &event.raw).into();
                }
                _ => kept.extend_from_slice(&event.raw),
            }
        }
        kept.freeze()
    })
}

/// The code of the event that ends a broken stream.
pub const STREAM_BROKEN: &str = "photofinish_stream_broken";

/// The event that ends a broken stream, in the caller's dialect.
fn error_event(stream: &mut EventStream, failure: &Failure) -> Bytes {
    broken_off(failure, |error| stream.error_event(error))
}

fn broken_off(failure: &Failure, write: impl FnOnce(&ErrorShape<'_>) -> Bytes) -> Bytes {
    write(&ErrorShape {
        status: 500,
        kind: "server_error",
        code: STREAM_BROKEN,
        message: &format!("the answer broke off: {}", failure.message),
        param: None,
        attempts: None,
    })
}
