//! The text frames of the Responses API over a WebSocket: what a client sends, and the frames of the gateway's own.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use serde_json::Value;

use super::writer::ResponsesWriter;
use crate::json::raw_members::{raw_members, written};
use crate::json::values::json;
use crate::stream::sse::{SseEvent, SseScanner};
use crate::translate::WritePieces as _;

/// A frame of a client.
pub enum ClientFrame {
    /// `response.create`: the request, as it is posted over HTTP for a stream.
    Create { body: String, generates: bool },
    /// `response.cancel`
    Cancel,
    /// What a client says for the server's sake.
    Told,
    /// None of these; the message for the client.
    Invalid(&'static str),
}

impl ClientFrame {
    pub fn read(text: &str) -> ClientFrame {
        let Some(mut members) = raw_members(text.as_bytes()) else {
            return ClientFrame::Invalid("the frame is no JSON object");
        };
        let kind = members.iter().rfind(|(name, _)| name == "type").map(|(_, kind)| kind.as_ref());
        match kind {
            Some(r#""response.create""#) => {}
            Some(r#""response.cancel""#) => return ClientFrame::Cancel,
            Some(r#""response.processed""#) => return ClientFrame::Told,
            _ => return ClientFrame::Invalid("the type of the frame is neither response.create nor response.cancel"),
        }
        let generates = !members.iter().any(|(name, value)| name == "generate" && value == "false");
        // A socket always streams, and waits for the answer.
        members.retain(|(name, _)| !matches!(name.as_ref(), "type" | "generate" | "stream" | "background"));
        members.push((Cow::Borrowed("stream"), Cow::Borrowed("true")));
        ClientFrame::Create { body: written(&members), generates }
    }
}

/// Whether an event may hold the whole response: only its first and its last ones do.
pub fn may_have_response(event: &SseEvent) -> bool {
    let name = event.fields().name;
    name.is_none_or(|name| !name.ends_with(b".delta"))
}

/// The error frame of a request that has no answer. `answer`: the body of an answer with this status over HTTP.
pub fn refusal(status: u16, answer: &[u8]) -> String {
    let said: Value = serde_json::from_slice(answer).unwrap_or_default();
    let error = match &said["error"] {
        Value::Null => json!({ "type": "server_error", "code": null, "message": "the request failed", "param": null }),
        error => error.clone(),
    };
    json!({ "type": "error", "status": status, "error": error }).to_string()
}

/// The error frame for what a client does on its socket.
pub fn misuse(message: &str) -> String {
    let error = json!({ "type": "invalid_request_error", "code": "invalid_frame", "message": message, "param": null });
    json!({ "type": "error", "status": 400, "error": error }).to_string()
}

/// The end of a response that its client cancels. `id`: empty if it had not begun.
pub fn cancelled(id: &str) -> String {
    let response = json!({ "id": id, "object": "response", "status": "cancelled", "output": [] });
    json!({ "type": "response.cancelled", "response": response }).to_string()
}

/// The events of a request that only makes its input known: a response without output.
pub fn known(model: &str) -> Vec<Bytes> {
    let mut out = BytesMut::new();
    ResponsesWriter::new(model, Arc::default()).end(&mut out);
    let mut scanner = SseScanner::new(usize::MAX);
    scanner.push(out.freeze());
    std::iter::from_fn(|| scanner.next_event().ok().flatten()).filter_map(|event| data(&event)).collect()
}

/// The data of an event. None: it has none, or its client needs none.
pub fn data(event: &SseEvent) -> Option<Bytes> {
    let data = event.fields().data?;
    (data.as_ref() != b"[DONE]").then(|| Bytes::from(data.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_a_request_over_http() {
        let ClientFrame::Create { body, generates } = ClientFrame::read(
            r#"{"type":"response.create","model":"m","generate":false,"stream":false,"input":[1.50]}"#,
        ) else {
            panic!("a request")
        };
        assert_eq!((body.as_str(), generates), (r#"{"model":"m","input":[1.50],"stream":true}"#, false));
        for (frame, invalid) in [
            (r#"{"type":"response.cancel"}"#, false),
            (r#"{"type":"response.processed"}"#, false),
            (r#"{"model":"m"}"#, true),
            (r#"{"type":"session.update"}"#, true),
            ("[]", true),
            ("", true),
        ] {
            assert_eq!(matches!(ClientFrame::read(frame), ClientFrame::Invalid(_)), invalid, "{frame}");
        }
    }

    #[test]
    fn own_frames_are_what_clients_read() {
        let refused: Value = serde_json::from_str(&refusal(429, br#"{"error":{"code":"x","message":"y"}}"#)).unwrap();
        assert_eq!((&refused["status"], &refused["error"]["code"]), (&json!(429), &json!("x")));
        let known = known("m");
        let kinds: Vec<Value> =
            known.iter().map(|event| serde_json::from_slice::<Value>(event).unwrap()["type"].clone()).collect();
        assert_eq!(kinds, ["response.created", "response.in_progress", "response.completed"]);
    }
}
