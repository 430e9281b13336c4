//! Writes audio as a part of a message of its own. The vendor's events for audio name no item, so it stays open to the end.

use bytes::BytesMut;
use serde_json::Value;

use crate::dialects::responses::numbered::Numbered;
use crate::dialects::responses::output::sound_part;
use crate::json::values::json;

/// The message with the audio.
#[derive(Debug)]
pub(super) struct OpenSound {
    /// `output_index`
    index: usize,
    /// The item's id.
    id: String,
    /// Base64, so far.
    data: String,
    transcript: String,
}

impl OpenSound {
    /// Writes the begin of the message.
    pub fn open(index: usize, id: String, numbered: &mut Numbered, out: &mut BytesMut) -> OpenSound {
        let sound = OpenSound { index, id, data: String::new(), transcript: String::new() };
        let item =
            json!({ "id": sound.id, "type": "message", "status": "in_progress", "role": "assistant", "content": [] });
        numbered.emit("response.output_item.added", json!({ "output_index": index, "item": item }), out);
        sound.part("response.content_part.added", sound_part("", ""), numbered, out);
        sound
    }

    pub fn more(&mut self, data: &str, transcript: &str, numbered: &mut Numbered, out: &mut BytesMut) {
        for (delta, kind) in [(data, "response.audio.delta"), (transcript, "response.audio.transcript.delta")] {
            if !delta.is_empty() {
                numbered.emit(kind, json!({ "delta": delta }), out);
            }
        }
        self.data.push_str(data);
        self.transcript.push_str(transcript);
    }

    /// Writes the end of the part, and returns the finished message with its `output_index`.
    pub fn close(self, numbered: &mut Numbered, out: &mut BytesMut) -> (usize, Value) {
        let ends = [(&self.data, "response.audio.done"), (&self.transcript, "response.audio.transcript.done")];
        for (_, kind) in ends.into_iter().filter(|(all, _)| !all.is_empty()) {
            numbered.emit(kind, json!({}), out);
        }
        let part = sound_part(&self.data, &self.transcript);
        self.part("response.content_part.done", part.clone(), numbered, out);
        let item = json!({
            "id": self.id, "type": "message", "status": "completed", "role": "assistant", "content": [part],
        });
        (self.index, item)
    }

    fn part(&self, kind: &str, part: Value, numbered: &mut Numbered, out: &mut BytesMut) {
        let place = json!({ "item_id": self.id, "output_index": self.index, "content_index": 0, "part": part });
        numbered.emit(kind, place, out);
    }
}
