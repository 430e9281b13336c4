//! The text frames of the Responses API over a WebSocket: what a client sends, and the frames of the gateway's own.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::BytesMut;
use memchr::memmem;
use serde_json::Value;

use super::writer::ResponsesWriter;
use photofinish_wire::conversation::WritePieces as _;
use photofinish_wire::json::raw_members::{RawMembers, raw_members, written};
use photofinish_wire::json::values::json;
use photofinish_wire::stream::sse::{SseEvent, SseScanner};

/// A frame of a client.
pub enum ClientFrame<'a> {
    /// `response.create`
    Create(CreateFrame<'a>),
    /// `response.cancel`
    Cancel,
    /// What a client says for the server's sake.
    Acknowledged,
    /// None of these; the message for the client.
    Invalid(&'static str),
}

pub struct CreateFrame<'a> {
    members: RawMembers<'a>,
    pub generates: bool,
}

impl CreateFrame<'_> {
    /// The request, as it is posted over HTTP for a stream.
    pub fn body(&self) -> String {
        written(&self.members)
    }
}

impl ClientFrame<'_> {
    pub fn read(text: &[u8]) -> ClientFrame<'_> {
        let Some(mut members) = raw_members(text) else {
            return ClientFrame::Invalid("the frame is no JSON object");
        };
        let kind = members.iter().rfind(|(name, _)| name == "type").map(|(_, kind)| kind.as_ref());
        match kind {
            Some(r#""response.create""#) => {}
            Some(r#""response.cancel""#) => return ClientFrame::Cancel,
            Some(r#""response.processed""#) => return ClientFrame::Acknowledged,
            _ => return ClientFrame::Invalid("the type of the frame is neither response.create nor response.cancel"),
        }
        let generates = !members.iter().any(|(name, value)| name == "generate" && value == "false");
        // A socket always streams.
        members.retain(|(name, _)| !matches!(name.as_ref(), "type" | "generate" | "stream"));
        members.push((Cow::Borrowed("stream"), Cow::Borrowed("true")));
        ClientFrame::Create(CreateFrame { members, generates })
    }
}

/// The status of an error within an answer, which began with a 200.
const FAILED_LATER: u16 = 500;

/// Whether an event may hold the whole response: only its first and its last ones do.
pub fn may_have_response(event: &SseEvent) -> bool {
    let name = event.fields().name;
    name.is_none_or(|name| !name.ends_with(b".delta"))
}

/// The error frame of a request that has no answer. `answer`: the body of an answer with this status over HTTP.
pub fn refusal(status: u16, answer: &[u8]) -> String {
    error_frame(status, &serde_json::from_slice(answer).unwrap_or_default())
}

/// `said`: the body of an answer, or the event in a stream, which has no object for the error. Codex waits on if a code is a number.
fn error_frame(status: u16, said: &Value) -> String {
    let mut error = match &said["error"] {
        error if error.is_object() => error.clone(),
        error => {
            let message = [&said["message"], error].into_iter().find_map(Value::as_str).unwrap_or("the request failed");
            json!({ "type": "server_error", "code": said["code"], "message": message, "param": said["param"] })
        }
    };
    if let Some(code) = error.get_mut("code").filter(|code| code.is_number()) {
        *code = Value::from(code.to_string());
    }
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
pub fn known(model: &str) -> Vec<String> {
    let mut out = BytesMut::new();
    ResponsesWriter::new(model, Arc::default()).end(&mut out);
    let mut scanner = SseScanner::new(usize::MAX);
    scanner.push(out.freeze());
    std::iter::from_fn(|| scanner.next_event().ok().flatten()).filter_map(|event| frame(&event)).collect()
}

/// An event as a frame. None: it has no data, or its client needs none. An error has the form of [`refusal`].
pub fn frame(event: &SseEvent) -> Option<String> {
    let data = event.fields().data?;
    let text = String::from_utf8_lossy(&data);
    let said = || serde_json::from_str::<Value>(&text).ok().filter(|said| said["type"] == "error");
    let may_be_error = may_have_response(event) && memmem::find(&data, b"error").is_some();
    match may_be_error.then(said).flatten() {
        Some(said) => Some(error_frame(FAILED_LATER, &said)),
        None => (text != "[DONE]").then(|| text.into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_a_request_over_http() {
        let ClientFrame::Create(frame) = ClientFrame::read(
            br#"{"type":"response.create","model":"m","generate":false,"stream":false,"input":[1.50]}"#,
        ) else {
            panic!("a request")
        };
        assert_eq!((frame.body().as_str(), frame.generates), (r#"{"model":"m","input":[1.50],"stream":true}"#, false));
        for (frame, invalid) in [
            (r#"{"type":"response.cancel"}"#, false),
            (r#"{"type":"response.processed"}"#, false),
            (r#"{"model":"m"}"#, true),
            (r#"{"type":"session.update"}"#, true),
            ("[]", true),
            ("", true),
        ] {
            assert_eq!(matches!(ClientFrame::read(frame.as_bytes()), ClientFrame::Invalid(_)), invalid, "{frame}");
        }
    }

    #[test]
    fn own_frames_are_what_clients_read() {
        let refused: Value = serde_json::from_str(&refusal(429, br#"{"error":{"code":"x","message":"y"}}"#)).unwrap();
        assert_eq!((&refused["status"], &refused["error"]["code"]), (&json!(429), &json!("x")));
        for (body, code, message) in [
            (r#"{"error":{"code":400,"message":"y","type":"BadRequestError","param":null}}"#, json!("400"), "y"),
            (r#"{"code":"invalid-argument","error":"z"}"#, json!("invalid-argument"), "z"),
            (r#"{"object":"error","message":"w"}"#, Value::Null, "w"),
        ] {
            let refused: Value = serde_json::from_str(&refusal(400, body.as_bytes())).unwrap();
            assert_eq!((&refused["error"]["code"], &refused["error"]["message"]), (&code, &json!(message)), "{body}");
        }
        let late =
            SseEvent { raw: "event: error\ndata: {\"type\":\"error\",\"code\":\"x\",\"message\":\"y\"}\n\n".into() };
        let late: Value = serde_json::from_str(&frame(&late).unwrap()).unwrap();
        assert_eq!(
            (&late["status"], &late["error"]["code"]),
            (&json!(500), &json!("x")),
            "one form, whenever it comes"
        );
        let known = known("m");
        let kinds: Vec<Value> =
            known.iter().map(|event| serde_json::from_str::<Value>(event).unwrap()["type"].clone()).collect();
        assert_eq!(kinds, ["response.created", "response.in_progress", "response.completed"]);
    }
}
