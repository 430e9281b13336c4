//! Answers without tokens, which arrive all at once: embeddings and token counts. Each becomes one event.

use std::borrow::Cow;

use bytes::{BufMut, Bytes, BytesMut};

use super::PayloadKind;
use super::assemble::{Assemble, Whole};
use super::frame::{Chunk, Frame, Payload};
use super::json::{InvalidJson, Json, unescape};
use super::sse::SseEvent;

/// The event of an answer. None if the body is an error or not an object.
pub fn event(body: &[u8]) -> Option<Bytes> {
    let text = std::str::from_utf8(body).ok()?;
    let mut good = text.trim_start().starts_with('{');
    let mut json = Json::new(text);
    let walked = json.object(|name, json| {
        good &= !(name == "error" && json.skip()? != "null");
        if name != "error" {
            json.skip()?;
        }
        Ok(())
    });
    if !good || walked.is_err() {
        return None;
    }
    let mut event = BytesMut::with_capacity(body.len() + 8);
    event.put_slice(b"data: ");
    // JSON strings contain no bare line ends, so these are white space.
    event.extend(text.trim().bytes().map(|byte| if byte == b'\n' || byte == b'\r' { b' ' } else { byte }));
    event.put_slice(b"\n\n");
    Some(event.freeze())
}

/// The content of the event: the whole answer.
pub fn read(event: &SseEvent) -> Frame<'_> {
    let fields = event.fields();
    let Some(Cow::Borrowed(data)) = fields.data else { return Frame::KeepAlive };
    match std::str::from_utf8(data).map_err(|_| InvalidJson).and_then(chunk) {
        Ok(chunk) => Frame::Chunk(chunk),
        Err(InvalidJson) => Frame::Malformed,
    }
}

fn chunk(text: &str) -> Result<Chunk<'_>, InvalidJson> {
    let mut chunk = Chunk {
        payload: Some(Payload { kind: PayloadKind::Whole, chars: u32::try_from(text.len()).unwrap_or(u32::MAX) }),
        finish_reason: Some(Cow::Borrowed("stop")),
        choices: 1,
        finished: 1,
        ..Chunk::default()
    };
    Json::new(text).object(|name, json| {
        match name {
            "usage" => chunk.usage = json.some()?.map(Cow::Borrowed),
            "model" => chunk.model = json.string_or_skip()?.and_then(unescape),
            // A token count is the answer, not the usage of the attempt.
            _ => drop(json.skip()?),
        }
        Ok(())
    })?;
    Ok(chunk)
}

/// Returns the original answer.
#[derive(Default)]
pub struct WholeAssembly {
    body: Bytes,
}

impl Assemble for WholeAssembly {
    fn add(&mut self, event: &SseEvent) -> bool {
        if let Some(data) = event.fields().data {
            self.body = Bytes::copy_from_slice(&data);
        }
        true
    }

    fn finish(&mut self) -> Option<Whole> {
        Some(Whole { body: std::mem::take(&mut self.body), says_nothing: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_one_event_and_comes_back_as_it_was() {
        let body =
            "{\n \"data\": [{\"embedding\": [0.1, 2]}],\n \"model\": \"e\", \"usage\": {\"prompt_tokens\": 3}}\n";
        let event = SseEvent { raw: event(body.as_bytes()).unwrap() };
        let Frame::Chunk(chunk) = read(&event) else { panic!("no chunk") };
        assert_eq!((chunk.model.as_deref(), chunk.usage.as_deref()), (Some("e"), Some("{\"prompt_tokens\": 3}")));
        assert!(chunk.payload.is_some() && chunk.finished == chunk.choices);
        let mut assembly = WholeAssembly::default();
        assert!(assembly.add(&event));
        let value: serde_json::Value = serde_json::from_slice(&assembly.finish().unwrap().body).unwrap();
        assert_eq!(value, serde_json::from_str::<serde_json::Value>(body).unwrap());
    }

    #[test]
    fn an_error_is_no_answer() {
        for body in ["{\"error\":{\"message\":\"no\"}}", "[]", "", "{", "no", "{\"error\":\"no\",\"data\":[]}"] {
            assert_eq!(event(body.as_bytes()), None, "{body}");
        }
        assert!(event(b"{\"error\":null,\"data\":[]}").is_some());
    }
}
