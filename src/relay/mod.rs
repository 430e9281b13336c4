//! The relay: the winner's events become the client's answer.
//!
//! A streaming client gets a [`RelayBody`], which polls the winner's body when the server has room: no task, no channel,
//! and a dropped connection drops the winner. A client that does not stream gets [`assemble`].

mod body;
mod whole;

pub use body::{RelayBody, Watch};
pub use whole::{assemble, assemble_events, read_out};

use std::time::Duration;

use bytes::Bytes;

use crate::failure::Failure;

/// How long the end of the upstream's body is awaited after `[DONE]`, so that its connection can be used again.
const END_GRACE: Duration = Duration::from_secs(1);
/// The end of a stream.
const DONE: &[u8] = b"data: [DONE]\n\n";

/// The event that ends a broken stream, in the dialect that was called.
fn error_event(failure: &Failure) -> Bytes {
    let error = serde_json::json!({
        "error": {
            "message": format!("the answer broke off: {}", failure.message),
            "type": "server_error",
            "param": null,
            "code": "photofinish_stream_broken",
        }
    });
    Bytes::from(format!("data: {error}\n\n"))
}
