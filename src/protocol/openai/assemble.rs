//! A whole answer out of a stream: what a client that did not ask to stream gets.
//!
//! Deltas are joined the way the OpenAI SDKs join them: strings grow, lists grow by `index`, what is not known is kept.
//! Off the hot path, so it builds JSON values.

use serde_json::{Map, Value};

use crate::protocol::assemble::{ByChoice, Choice};

/// Members of a choice, of a delta or of a tool call that name a thing and so do not grow.
const NAMES: [&str; 8] = ["role", "id", "type", "index", "name", "format", "signature", "mime_type"];

/// Takes in the chunks of one chat stream.
pub type Assembly = ByChoice<Message>;

/// One choice: a message.
#[derive(Debug, Default)]
pub struct Message {
    message: Map<String, Value>,
    finish_reason: Value,
    logprobs: Value,
    /// Whatever else stands beside the delta.
    rest: Map<String, Value>,
}

impl Choice for Message {
    const OBJECT: &str = "chat.completion";

    fn add(&mut self, members: Map<String, Value>) {
        let has_delta = members.contains_key("delta");
        for (name, value) in members {
            match (name.as_str(), value) {
                ("delta", Value::Object(delta)) => join_members(&mut self.message, delta),
                // A server that does not stream puts the whole message where the delta belongs.
                ("message", Value::Object(message)) if !has_delta => join_members(&mut self.message, message),
                ("delta" | "message" | "index", _) | (_, Value::Null) => {}
                ("finish_reason", reason) => self.finish_reason = reason,
                ("logprobs", logprobs) => join(&mut self.logprobs, logprobs),
                (_, value) => {
                    self.rest.insert(name, value);
                }
            }
        }
    }

    fn finish(mut self, index: u64) -> Value {
        let mut message = Map::new();
        let role =
            self.message.shift_remove("role").filter(|role| role != "").unwrap_or_else(|| Value::from("assistant"));
        message.insert("role".to_owned(), role);
        // An answer that is only a tool call has `content: null`, which clients expect to find.
        let content = self.message.shift_remove("content");
        let has_calls = self.message.contains_key("tool_calls")
            || self.message.contains_key("function_call")
            || self.message.contains_key("refusal");
        let content = content.filter(|content| !(has_calls && content == "")).unwrap_or(Value::Null);
        message.insert("content".to_owned(), content);
        if let Some(Value::Array(calls)) = self.message.get_mut("tool_calls") {
            for call in calls.iter_mut().filter_map(Value::as_object_mut) {
                call.shift_remove("index");
            }
        }
        message.extend(self.message);
        let mut choice = Map::new();
        choice.insert("index".to_owned(), Value::from(index));
        choice.insert("message".to_owned(), Value::Object(message));
        choice.insert("logprobs".to_owned(), self.logprobs);
        choice.insert("finish_reason".to_owned(), self.finish_reason);
        choice.extend(self.rest);
        Value::Object(choice)
    }
}

fn join_members(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (name, value) in from {
        match into.get_mut(&name) {
            None => {
                // An empty list of calls in the first delta is no list of calls.
                if !(name == "tool_calls" && value.as_array().is_some_and(Vec::is_empty)) {
                    into.insert(name, in_order(value));
                }
            }
            Some(before) if NAMES.contains(&name.as_str()) => {
                if before.is_null() || before == "" {
                    *before = value;
                }
            }
            Some(before) => join(before, value),
        }
    }
}

fn join(before: &mut Value, value: Value) {
    match (before, value) {
        (_, Value::Null) => {}
        (before @ Value::Null, value) => *before = in_order(value),
        (Value::String(before), Value::String(text)) => before.push_str(&text),
        (Value::Array(before), Value::Array(items)) => items.into_iter().for_each(|item| join_item(before, item)),
        // Mistral goes over from a list of parts to plain text within one stream.
        (Value::Array(parts), Value::String(text)) => join_item(parts, text_part(text)),
        (before @ Value::String(_), Value::Array(items)) => {
            let text = before.as_str().unwrap_or_default().to_owned();
            let mut parts = if text.is_empty() { Vec::new() } else { vec![text_part(text)] };
            items.into_iter().for_each(|item| join_item(&mut parts, item));
            *before = Value::Array(parts);
        }
        (Value::Object(before), Value::Object(members)) => join_members(before, members),
        (before, value) => *before = value,
    }
}

/// An item with an `index` grows the one of that index; a content part grows a last one of its own type.
fn join_item(items: &mut Vec<Value>, item: Value) {
    let same = match item.get("index").filter(|index| index.is_u64()) {
        Some(index) => items.iter_mut().find(|before| before.get("index") == Some(index)),
        None => items
            .last_mut()
            .filter(|before| is_part(before) && is_part(&item) && before.get("type") == item.get("type")),
    };
    match (same, item) {
        (Some(Value::Object(before)), Value::Object(members)) => join_members(before, members),
        (_, item) => items.push(in_order(item)),
    }
}

/// A first value that is itself a list may already hold pieces of one thing.
fn in_order(value: Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut joined = Vec::with_capacity(items.len());
            items.into_iter().for_each(|item| join_item(&mut joined, item));
            Value::Array(joined)
        }
        other => other,
    }
}

fn is_part(value: &Value) -> bool {
    matches!(value.get("type").and_then(Value::as_str), Some("text" | "thinking"))
}

fn text_part(text: String) -> Value {
    serde_json::json!({ "type": "text", "text": text })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn assemble(chunks: &[Value]) -> Value {
        let mut assembly = Assembly::default();
        assert!(chunks.iter().all(|chunk| assembly.add_data(chunk.to_string().as_bytes())));
        assembly.answer()
    }

    fn delta(index: u64, delta: Value) -> Value {
        json!({ "choices": [{ "index": index, "delta": delta, "finish_reason": null }] })
    }

    fn message(deltas: &[Value]) -> Value {
        let chunks: Vec<Value> = deltas.iter().map(|value| delta(0, value.clone())).collect();
        assemble(&chunks)["choices"][0]["message"].clone()
    }

    #[test]
    fn text_grows_and_the_envelope_is_kept() {
        let answer = assemble(&[
            json!({"id":"c1","object":"chat.completion.chunk","created":7,"model":"m","system_fingerprint":"fp","service_tier":null,"provider":"P",
                   "choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}),
            json!({"id":"c1","choices":[{"index":0,"delta":{"content":"Hel"},"finish_reason":null}]}),
            json!({"id":"c2","choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"stop","content_filter_results":{"x":1}}]}),
            json!({"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2},"citations":["u"]}),
        ]);
        assert_eq!(
            answer,
            json!({"id":"c1","object":"chat.completion","created":7,"model":"m",
                "choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},"logprobs":null,"finish_reason":"stop","content_filter_results":{"x":1}}],
                "usage":{"prompt_tokens":1,"completion_tokens":2},"system_fingerprint":"fp","provider":"P","citations":["u"]})
        );
    }

    #[test]
    fn tool_calls_grow_by_index() {
        let message = message(&[
            json!({"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]}),
            json!({"tool_calls":[{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":"{"}}]}),
            json!({"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":"}},{"index":1,"id":"b","type":"function","function":{"arguments":"}"}}]}),
            json!({"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}),
        ]);
        assert_eq!(
            message,
            json!({"role":"assistant","content":null,"tool_calls":[
                {"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},
                {"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]})
        );
    }

    #[test]
    fn several_choices_and_logprobs() {
        let answer = assemble(&[
            delta(1, json!({"content":"b"})),
            json!({"choices":[{"index":0,"delta":{"content":"a"},"logprobs":{"content":[{"token":"a"}],"refusal":null}}]}),
            json!({"choices":[{"index":0,"delta":{"content":"a"},"logprobs":{"content":[{"token":"a2"}]},"finish_reason":"length"}]}),
        ]);
        assert_eq!(answer["choices"][0]["message"]["content"], "aa");
        assert_eq!(answer["choices"][0]["logprobs"], json!({"content":[{"token":"a"},{"token":"a2"}],"refusal":null}));
        assert_eq!(answer["choices"][1]["message"]["content"], "b");
        assert_eq!(
            (answer["choices"][0]["finish_reason"].as_str(), answer["choices"][1]["finish_reason"].as_str()),
            (Some("length"), None)
        );
    }

    #[test]
    fn reasoning_refusal_audio_and_unknown_fields() {
        let message = message(&[
            json!({"role":"assistant","content":"","reasoning_content":"hm","odd":{"k":"a","n":1}}),
            json!({"reasoning_content":"m","refusal":"n","odd":{"k":"b","n":2}}),
            json!({"refusal":"o","audio":{"id":"x","data":"AA","transcript":"h"}}),
            json!({"audio":{"data":"BB","transcript":"i","expires_at":9}}),
        ]);
        assert_eq!(
            message,
            json!({"role":"assistant","content":null,"reasoning_content":"hmm","odd":{"k":"ab","n":2},"refusal":"no",
                   "audio":{"id":"x","data":"AABB","transcript":"hi","expires_at":9}})
        );
    }

    #[test]
    fn content_parts_grow_by_type() {
        let message = message(&[
            json!({"role":"assistant","content":""}),
            json!({"content":[{"type":"thinking","thinking":[{"type":"text","text":"a"}]}]}),
            json!({"content":[{"type":"thinking","thinking":[{"type":"text","text":"b"}]}]}),
            json!({"content":[{"type":"text","text":"c"}]}),
            json!({"content":"d"}),
        ]);
        assert_eq!(
            message["content"],
            json!([{"type":"thinking","thinking":[{"type":"text","text":"ab"}]},{"type":"text","text":"cd"}])
        );
    }

    #[test]
    fn a_whole_message_in_a_stream_is_taken() {
        let answer = assemble(&[
            json!({"choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}]}),
        ]);
        assert_eq!(answer["choices"][0]["message"]["content"], "x");
        let both = assemble(&[json!({"choices":[{"index":0,"message":{"content":"xy"},"delta":{"content":"y"}}]})]);
        assert_eq!(both["choices"][0]["message"]["content"], "y", "a running total beside the delta is not added");
    }

    #[test]
    fn half_a_character_loses_no_text() {
        let mut assembly = Assembly::default();
        assert!(assembly.add_data(br#"{"choices":[{"delta":{"content":"hey \\u00e9 \ud83d"}}]}"#));
        assert!(assembly.add_data(br#"{"choices":[{"delta":{"content":"\ude00 you \ud83d\ude00"}}]}"#));
        assert!(!assembly.add_data(b"{\"choices\":"), "what is no JSON is told");
        let answer = assembly.answer();
        assert_eq!(answer["choices"][0]["message"]["content"], "hey \\u00e9 \u{fffd}\u{fffd} you \u{1f600}");
    }

    proptest::proptest! {
        #[test]
        fn never_panics(bytes in "[\\[\\]{}\":,a-z0-9]{0,60}") {
            let mut assembly = Assembly::default();
            assembly.add_data(bytes.as_bytes());
            assembly.add_data(format!(r#"{{"choices":[{{"index":0,"delta":{{"content":{bytes}}}}}]}}"#).as_bytes());
            assembly.answer();
        }
    }
}
