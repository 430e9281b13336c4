//! Parts of a response's output: message parts and calls.

use crate::json::values::json;
use serde_json::Value;

/// The kind of a message part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputText {
    Text,
    Refusal,
}

/// An open call.
#[derive(Debug)]
pub(super) struct OutputCall {
    /// `output_index`
    pub index: usize,
    /// The item's id.
    pub id: String,
    pub call_id: String,
    pub namespace: Option<String>,
    pub name: String,
    /// So far. Plain text for a custom tool.
    pub arguments: String,
    pub custom: bool,
}

impl OutputCall {
    /// The item in its current state.
    pub fn item(&self, status: &str) -> Value {
        let (kind, name) = if self.custom { ("custom_tool_call", "input") } else { ("function_call", "arguments") };
        let mut item = json!({
            "id": self.id, "type": kind, "status": status, "call_id": self.call_id, "name": self.name,
        });
        item[name] = Value::from(self.arguments.as_str());
        if let Some(namespace) = &self.namespace {
            item["namespace"] = Value::from(namespace.as_str());
        }
        item
    }
}

/// Generated audio, in Base64.
pub(super) fn sound_part(data: &str, transcript: &str) -> Value {
    json!({ "type": "output_audio", "data": data, "transcript": transcript })
}

pub(super) fn part_of(said: OutputText, text: &str) -> Value {
    match said {
        OutputText::Text => json!({ "type": "output_text", "annotations": [], "logprobs": [], "text": text }),
        OutputText::Refusal => json!({ "type": "refusal", "refusal": text }),
    }
}
