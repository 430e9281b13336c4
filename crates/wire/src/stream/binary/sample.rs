//! Makes frames. Only for tests.

use bytes::BytesMut;

use super::{SseEvent, write, write_event};

/// A frame with any headers.
pub fn frame(headers: &[(&str, &str)], payload: &str) -> Vec<u8> {
    let mut out = BytesMut::new();
    write(headers, payload.as_bytes(), &mut out);
    out.to_vec()
}

pub fn event(name: &str, payload: &str) -> SseEvent {
    let mut out = BytesMut::new();
    write_event(name, payload.as_bytes(), &mut out);
    SseEvent { raw: out.freeze() }
}

pub fn exception(name: &str, payload: &str) -> SseEvent {
    let headers = [(":exception-type", name), (":content-type", "application/json"), (":message-type", "exception")];
    SseEvent { raw: frame(&headers, payload).into() }
}
