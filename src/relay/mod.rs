//! The relay: the winner's events become the client's answer.
//!
//! A streaming client gets a [`RelayBody`] (in a [`RescuedBody`], where others are to go on with what breaks off), which polls the winner's body when the server has room: no task, no channel,
//! and a dropped connection drops the winner. A client that does not stream gets what [`assemble`], or an [`Assembler`],
//! puts together.

mod body;
mod rescued_body;
mod whole;

pub use body::{RelayBody, RelayObserver};
pub use rescued_body::{Continuation, RESCUED, RescueCandidates, RescuedBody};
pub use whole::{Assembler, assemble_events};

use bytes::{Bytes, BytesMut};

use crate::attempt::EventStream;
use crate::failure::Failure;
use crate::pace::aside;
use crate::protocol::client_error::ErrorShape;
use crate::protocol::frame::Frame;
use crate::protocol::openai;
use crate::protocol::sse::SseScanner;

/// Whole events, without the chunks that only `include_usage` brings.
pub fn without_usage(events: Bytes) -> Bytes {
    aside(events.len(), || {
        let mut scanner = SseScanner::new(usize::MAX);
        scanner.push(events);
        let mut kept = BytesMut::new();
        while let Ok(Some(event)) = scanner.next_event() {
            if !matches!(openai::read(&event), Frame::Chunk(chunk) if chunk.usage_only) {
                kept.extend_from_slice(&event.raw);
            }
        }
        kept.freeze()
    })
}

/// The event that ends a broken stream, in the dialect that was called.
fn error_event(stream: &mut EventStream, failure: &Failure) -> Bytes {
    broken_off(failure, |error| stream.error_event(error))
}

fn broken_off(failure: &Failure, write: impl FnOnce(&ErrorShape<'_>) -> Bytes) -> Bytes {
    write(&ErrorShape {
        status: 500,
        kind: "server_error",
        code: "photofinish_stream_broken",
        message: &format!("the answer broke off: {}", failure.message),
        param: None,
        attempts: None,
    })
}
