//! Assembles a whole chat answer from a stream.
//!
//! Joins deltas like the OpenAI SDKs: strings grow, lists grow by `index`, unknown members are kept. Not on the hot
//! path: builds JSON values.

use std::collections::HashMap;

use indexmap::IndexMap;
use serde_json::{Map, Value};

use crate::answer::assemble::{AssembledChoice, ByChoice, ITEMS_MAX, grow_member, read, says};
use crate::answer::ends::End;
use crate::json::surrogates::words;
use crate::json::values::{PutMember, json, text};

/// Members of a message with its calls.
const CALLS: [&str; 2] = ["tool_calls", "function_call"];

/// Takes in the chunks of one chat stream.
pub type ChatAssembly = ByChoice<AssembledMessage>;

/// One choice: a message.
#[derive(Debug, Default)]
pub struct AssembledMessage {
    message: GrownMembers,
    finish_reason: Value,
    logprobs: Grown,
    /// All other members of the choice.
    rest: Map<String, Value>,
    /// The member of the message that alone grew by the last chunk, if it is a text.
    text: Option<String>,
}

impl AssembledChoice for AssembledMessage {
    const OBJECT: &str = "chat.completion";

    fn add(&mut self, members: &[(&str, &str)]) -> bool {
        let has_logprobs = members.iter().any(|(name, _)| *name == "logprobs");
        self.text = None;
        for (name, value) in members {
            let Some(value) = read(value) else { return false };
            match (*name, value) {
                ("delta", Value::Object(delta)) => {
                    self.text = GrownMembers::only_text(&delta).filter(|_| !has_logprobs).map(str::to_owned);
                    self.message.join(delta);
                }
                // A whole message in a chunk with deltas repeats them.
                ("delta" | "message", _) => {}
                ("finish_reason", reason) => self.finish_reason = reason,
                ("logprobs", logprobs) => self.logprobs.join(logprobs),
                (name, value) => grow_member(&mut self.rest, words(name), value),
            }
        }
        self.message.len_of("tool_calls") <= ITEMS_MAX
    }

    fn add_text(&mut self, text: &str) -> bool {
        if let Some(name) = &self.text {
            self.message.lengthen(name, text);
        }
        self.text.is_some()
    }

    fn finish(self, index: u64) -> Value {
        let mut joined = self.message.into_map();
        let role = joined.shift_remove("role").filter(|role| role != "").unwrap_or_else(|| Value::from("assistant"));
        // Some servers send `null` or an empty list with every delta of an answer without calls.
        joined.retain(|name, value| !CALLS.contains(&name.as_str()) || is_there(value));
        let calls = CALLS.into_iter().find(|name| joined.contains_key(*name));
        // Clients expect `content: null` in an answer that is only a tool call.
        let content = joined.shift_remove("content");
        let says_other = calls.is_some() || joined.get("refusal").is_some_and(is_there);
        let content = content.filter(|content| !(says_other && content == "")).unwrap_or(Value::Null);
        let mut message = Map::new();
        message.put("role", Some(role));
        message.put("content", Some(content));
        if let Some(Value::Array(calls)) = joined.get_mut("tool_calls") {
            for call in calls.iter_mut().filter_map(Value::as_object_mut) {
                call.shift_remove("index");
            }
        }
        let reason = match self.finish_reason {
            // Some providers send no finish reason. The stream was accepted as complete.
            Value::Null => calls.unwrap_or("stop").into(),
            // A client would wait for calls that never come.
            Value::String(reason) if calls.is_none() && End::of(&reason) == End::ToolCalls => "stop".into(),
            reason => reason,
        };
        message.extend(joined);
        let mut choice = Map::new();
        choice.put("index", Some(index));
        choice.put("message", Some(message));
        choice.put("logprobs", Some(self.logprobs.into_value()));
        choice.put("finish_reason", Some(reason));
        choice.extend(self.rest);
        Value::Object(choice)
    }

    fn says(choice: &Value) -> bool {
        let message = &choice["message"];
        let is_there = |name: &str| is_there(&message[name]);
        match &message["content"] {
            Value::Array(parts) if parts.iter().any(part_says) => true,
            content if says(content) => true,
            _ => ["tool_calls", "function_call", "refusal", "audio", "images"].into_iter().any(is_there),
        }
    }
}

/// Whether a member has content.
fn is_there(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::String(text) => !text.trim().is_empty(),
        _ => true,
    }
}

/// Mistral streams lists of parts: thoughts are reasoning; parts that are neither text nor thought are media.
fn part_says(part: &Value) -> bool {
    match part["type"].as_str() {
        Some("thinking") => false,
        Some("text") | None => says(&part["text"]),
        Some(_) => true,
    }
}

// JSON that grows by deltas: strings get longer, objects get members, lists get items, and an item with an `index`
// grows the item of that index. Members and items are looked up, not searched for, because a provider decides how many
// there are.

/// Members that name something and so do not grow.
const NAMES: [&str; 8] = ["role", "id", "type", "index", "name", "format", "signature", "mime_type"];
/// Members that are a function with its arguments. Its name may come in pieces.
const CALLED: [&str; 3] = ["function", "custom", "function_call"];

/// A growing value. A value that came once is stored unchanged; joining takes it apart, one level deep.
#[derive(Debug)]
pub(super) enum Grown {
    Plain(Value),
    Object(GrownMembers),
    List(List),
}

/// Members of an object in order of first occurrence.
#[derive(Debug, Default)]
pub(super) struct GrownMembers(IndexMap<String, Grown>);

#[derive(Debug, Default)]
pub(super) struct List {
    items: Vec<Grown>,
    /// The position of the item that grows under an `index`.
    places: HashMap<u64, usize>,
}

/// Adds a piece of a function's name. Some vendors cut names, others repeat the whole name with every piece of the
/// arguments.
fn lengthen_name(name: &mut String, piece: &str) {
    if name != piece {
        name.push_str(piece);
    }
}

impl Default for Grown {
    fn default() -> Grown {
        Grown::Plain(Value::Null)
    }
}

impl Grown {
    /// A first list may already contain several pieces of one item.
    fn new(value: Value) -> Grown {
        match value {
            Value::Array(items) => Grown::List(List::joined(items)),
            other => Grown::Plain(other),
        }
    }

    pub fn join(&mut self, value: Value) {
        self.open();
        match (&mut *self, value) {
            (_, Value::Null) => {}
            (before @ Grown::Plain(Value::Null), value) => *before = Grown::new(value),
            (Grown::Plain(Value::String(before)), Value::String(text)) => before.push_str(&text),
            (Grown::List(before), Value::Array(items)) => items.into_iter().for_each(|item| before.join(item)),
            // Mistral switches from a list of parts to plain text within one stream.
            (Grown::List(parts), Value::String(text)) => parts.join(text_part(text)),
            (Grown::Plain(Value::String(text)), Value::Array(items)) => {
                let first = (!text.is_empty()).then(|| text_part(std::mem::take(text)));
                let mut parts = List { items: first.map(Grown::Plain).into_iter().collect(), ..List::default() };
                items.into_iter().for_each(|item| parts.join(item));
                *self = Grown::List(parts);
            }
            (Grown::Object(before), Value::Object(members)) => before.join(members),
            (before, value) => *before = Grown::Plain(value),
        }
    }

    /// Makes a plain object or list growable.
    fn open(&mut self) {
        match self {
            Grown::Plain(Value::Object(members)) => {
                let members = std::mem::take(members).into_iter();
                *self = Grown::Object(GrownMembers(members.map(|(name, value)| (name, Grown::Plain(value))).collect()));
            }
            Grown::Plain(Value::Array(items)) => {
                let items = std::mem::take(items);
                let mut list = List::default();
                items.into_iter().for_each(|item| list.push(index_of(&item), Grown::Plain(item)));
                *self = Grown::List(list);
            }
            _ => {}
        }
    }

    /// Adds the piece of a name that this value has.
    fn lengthen_name(&mut self, more: &Value) {
        let piece = more.get("name").and_then(Value::as_str).unwrap_or_default();
        self.open();
        let Grown::Object(GrownMembers(members)) = self else { return };
        if let Some(Grown::Plain(Value::String(name))) = members.get_mut("name") {
            lengthen_name(name, piece);
        }
    }

    /// The text of a member.
    fn text(&self, name: &str) -> Option<&str> {
        match self {
            Grown::Plain(value) => value.get(name)?.as_str(),
            Grown::Object(GrownMembers(members)) => match members.get(name)? {
                Grown::Plain(value) => value.as_str(),
                _ => None,
            },
            Grown::List(_) => None,
        }
    }

    pub fn into_value(self) -> Value {
        match self {
            Grown::Plain(value) => value,
            Grown::Object(members) => Value::Object(members.into_map()),
            Grown::List(list) => list.items.into_iter().map(Grown::into_value).collect(),
        }
    }

    fn is_empty_or_null(&self) -> bool {
        matches!(self, Grown::Plain(Value::Null))
            || matches!(self, Grown::Plain(Value::String(text)) if text.is_empty())
    }

    /// The `type` of a content part that grows; none for others.
    fn part_type(&self) -> Option<&str> {
        self.text("type").filter(|kind| is_part(kind))
    }
}

impl GrownMembers {
    pub fn join(&mut self, from: Map<String, Value>) {
        for (name, value) in from {
            match self.0.get_mut(&name) {
                None => {
                    // An empty list of calls in the first delta does not count.
                    if !(name == "tool_calls" && value.as_array().is_some_and(Vec::is_empty)) {
                        self.0.insert(name, Grown::new(value));
                    }
                }
                Some(before) if NAMES.contains(&name.as_str()) => {
                    if before.is_empty_or_null() {
                        *before = Grown::Plain(value);
                    }
                }
                Some(before) => {
                    if CALLED.contains(&name.as_str()) {
                        before.lengthen_name(&value);
                    }
                    before.join(value);
                }
            }
        }
    }

    /// The only one of these members that would grow if they came again, and it is a text.
    pub fn only_text(members: &Map<String, Value>) -> Option<&str> {
        let mut grow = members.iter().filter(|(name, value)| !NAMES.contains(&name.as_str()) && grows(value));
        match (grow.next(), grow.next()) {
            (Some((name, Value::String(_))), None) => Some(name),
            _ => None,
        }
    }

    /// Appends to a text that came before.
    pub fn lengthen(&mut self, name: &str, text: &str) {
        match self.0.get_mut(name) {
            Some(Grown::Plain(Value::String(before))) => before.push_str(text),
            Some(before) => before.join(Value::from(text)),
            None => {}
        }
    }

    /// Items of a list member.
    pub fn len_of(&self, name: &str) -> usize {
        match self.0.get(name) {
            Some(Grown::List(list)) => list.items.len(),
            Some(Grown::Plain(Value::Array(items))) => items.len(),
            _ => 0,
        }
    }

    pub fn into_map(self) -> Map<String, Value> {
        self.0.into_iter().map(|(name, value)| (name, value.into_value())).collect()
    }
}

impl List {
    fn joined(items: Vec<Value>) -> List {
        let mut list = List { items: Vec::with_capacity(items.len()), places: HashMap::new() };
        items.into_iter().for_each(|item| list.join(item));
        list
    }

    /// An item with an `index` grows the item of that index. A content part grows the last item if it has the same
    /// type.
    fn join(&mut self, item: Value) {
        let index = index_of(&item);
        let same = match index {
            Some(index) => {
                if self.places.get(&index).is_some_and(|at| is_another_call(&self.items[*at], &item)) {
                    self.places.remove(&index);
                }
                self.places.get(&index).and_then(|at| self.items.get_mut(*at))
            }
            None => {
                let kind = item.get("type").and_then(Value::as_str).filter(|kind| is_part(kind));
                self.items.last_mut().filter(|before| kind.is_some() && before.part_type() == kind)
            }
        };
        match (same, item) {
            (Some(before), Value::Object(members)) => {
                before.open();
                match before {
                    Grown::Object(before) => before.join(members),
                    _ => self.push(index, Grown::new(Value::Object(members))),
                }
            }
            (_, item) => self.push(index, Grown::new(item)),
        }
    }

    fn push(&mut self, index: Option<u64>, item: Grown) {
        if let Some(index) = index {
            self.places.entry(index).or_insert(self.items.len());
        }
        self.items.push(item);
    }
}

/// Whether joining this value a second time changes anything.
fn grows(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

/// Some vendors number every call 0. A name with another id starts a new call.
fn is_another_call(before: &Grown, item: &Value) -> bool {
    let (before, now) = (before.text("id").unwrap_or_default(), text(item, "id").unwrap_or_default());
    let is_named =
        ["function", "custom"].iter().any(|kind| item.get(*kind).is_some_and(|call| text(call, "name").is_some()));
    is_named && !before.is_empty() && !now.is_empty() && before != now
}

fn index_of(item: &Value) -> Option<u64> {
    item.get("index").and_then(Value::as_u64)
}

fn is_part(kind: &str) -> bool {
    matches!(kind, "text" | "thinking")
}

fn text_part(text: String) -> Value {
    json!({ "type": "text", "text": text })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn assemble(chunks: &[Value]) -> Value {
        let mut assembly = ChatAssembly::default();
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
            json!({"id":"c1","choices":[{"index":0,"delta":{"content":"Hel"},"finish_reason":null}],"obfuscation":"q1"}),
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
    fn a_name_may_come_in_pieces_and_again() {
        let call = |id: &str, function: Value| json!({"tool_calls":[{"index":0,"id":id,"type":"function","function":function}]});
        let pieces =
            |id: &str, name: &str| json!({"id":id,"type":"function","function":{"name":name,"arguments":"{}"}});
        for (deltas, expected) in [
            (
                vec![call("a", json!({"name":"get_"})), call("", json!({"name":"weather","arguments":"{}"}))],
                json!([pieces("a", "get_weather")]),
            ),
            (
                vec![call("a", json!({"name":"f","arguments":"{"})), call("a", json!({"name":"f","arguments":"}"}))],
                json!([pieces("a", "f")]),
            ),
            // Some vendors number every call 0.
            (
                vec![
                    call("a", json!({"name":"f","arguments":"{}"})),
                    call("b", json!({"name":"g","arguments":"{"})),
                    call("b", json!({"arguments":"}"})),
                ],
                json!([pieces("a", "f"), pieces("b", "g")]),
            ),
        ] {
            assert_eq!(message(&deltas)["tool_calls"], expected, "{deltas:?}");
        }
        let legacy = [
            json!({"content":"","function_call":{"name":"get_"}}),
            json!({"function_call":{"name":"weather","arguments":"{}"}}),
        ];
        let chunks = legacy.map(|value| delta(0, value));
        let choice = assemble(&chunks)["choices"][0].clone();
        let function = json!({"name":"get_weather","arguments":"{}"});
        assert_eq!(choice["message"], json!({"role":"assistant","content":null,"function_call":function}));
        assert_eq!(choice["finish_reason"], "function_call");
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
            (Some("length"), Some("stop"))
        );
    }

    #[test]
    fn only_calls_end_an_answer_with_calls() {
        let ended = |delta: Value, reason: Value| {
            let answer = assemble(&[json!({"choices":[{"index":0,"delta":delta,"finish_reason":reason}]})]);
            let choice = &answer["choices"][0];
            (choice["finish_reason"].clone(), choice["message"].clone())
        };
        let said = json!({"role":"assistant","content":"a"});
        // Snowflake sends null with every delta; others an empty list, or the word alone.
        for delta in [
            json!({"content":"a","tool_calls":null}),
            json!({"content":"a","tool_calls":[],"function_call":null}),
            json!({"content":"a"}),
        ] {
            for reason in [Value::Null, json!("tool_calls"), json!("function_call"), json!("stop")] {
                assert_eq!(ended(delta.clone(), reason), (json!("stop"), said.clone()), "{delta}");
            }
        }
        let empty = json!({"role":"assistant","content":"","refusal":null});
        assert_eq!(ended(json!({"content":"","refusal":null}), json!("length")), (json!("length"), empty));
        let call =
            json!({"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]});
        assert_eq!(ended(call.clone(), Value::Null).0, "tool_calls");
        assert_eq!(ended(call, json!("stop")).0, "stop", "as the server says");
    }

    #[test]
    fn numbers_that_come_in_pieces_are_one_list() {
        let chunk = |choice: &str| format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"a"}},{choice}}}]}}"#);
        let mut assembly = ChatAssembly::default();
        for choice in [
            r#""token_ids":[58],"prompt_token_ids":null,"kept":[{"a":1}]"#,
            r#""token_ids":[49, 7],"logprobs":{"content":[{"token":"a","logprob":-0.12345678901234567891}]}"#,
            r#""token_ids":null,"kept":[{"a":2}]"#,
            r#""token_ids":[87],"finish_reason":"stop""#,
        ] {
            assert!(assembly.add_data(chunk(choice).as_bytes()));
        }
        let choice = &assembly.answer()["choices"][0];
        assert_eq!(choice["token_ids"], json!([58, 49, 7, 87]));
        assert_eq!(choice["kept"], json!([{"a": 2}]), "a list of objects comes whole");
        // Every digit is kept.
        assert_eq!(choice["logprobs"]["content"][0]["logprob"].to_string(), "-0.12345678901234567891");
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
    fn an_answer_has_so_many_calls_at_most_and_choices() {
        let call = |index: usize| json!({"choices":[{"index":0,"delta":{"tool_calls":[{"index":index,"id":"c"}]}}]});
        let mut assembly = ChatAssembly::default();
        assert!((0..ITEMS_MAX).rev().all(|index| assembly.add_data(call(index).to_string().as_bytes())));
        assert!(assembly.add_data(call(7).to_string().as_bytes()), "more of one that is there");
        assert!(!assembly.add_data(call(ITEMS_MAX).to_string().as_bytes()));
        let mut assembly = ChatAssembly::default();
        let most = crate::answer::assemble::CHOICES_MAX as u64;
        assert!((0..most).all(|index| assembly.add_data(delta(index, json!({})).to_string().as_bytes())));
        assert!(!assembly.add_data(delta(most, json!({})).to_string().as_bytes()));
    }

    #[test]
    fn items_grow_by_index_in_whatever_order_and_depth() {
        let message = message(&[
            json!({"d":[{"index":2,"t":"a","in":[{"index":5,"t":"x"},{"index":5,"t":"y"}]},{"index":0,"t":"b"},{"no":1}]}),
            json!({"d":[{"index":0,"t":"c"},{"index":2,"t":"d","in":[{"index":5,"t":"z"},{"index":4}]},{"index":2},7]}),
        ]);
        assert_eq!(
            message["d"],
            json!([{"index":2,"t":"ad","in":[{"index":5,"t":"xz"},{"index":5,"t":"y"},{"index":4}]},{"index":0,"t":"bc"},{"no":1},7])
        );
    }

    #[test]
    fn a_whole_message_is_not_taken_beside_deltas() {
        let both = assemble(&[json!({"choices":[{"index":0,"message":{"content":"xy"},"delta":{"content":"y"}}]})]);
        assert_eq!(both["choices"][0]["message"]["content"], "y", "a running total beside the delta is not added");
    }

    #[test]
    fn the_halves_of_a_character_are_joined() {
        let mut assembly = ChatAssembly::default();
        assert!(assembly.add_data(br#"{"choices":[{"delta":{"content":"hey \\u00e9 \ud83d"}}]}"#));
        assert!(assembly.add_data(br#"{"choices":[{"delta":{"content":"\ude00 you \ud83d\ude00"}}]}"#));
        assert!(!assembly.add_data(b"{\"choices\":"), "what is no JSON is told");
        let answer = assembly.answer();
        assert_eq!(answer["choices"][0]["message"]["content"], "hey \\u00e9 \u{1f600} you \u{1f600}");
    }

    proptest::proptest! {
        #[test]
        fn never_panics(bytes in "[\\[\\]{}\":,a-z0-9]{0,60}") {
            let mut assembly = ChatAssembly::default();
            assembly.add_data(bytes.as_bytes());
            assembly.add_data(format!(r#"{{"choices":[{{"index":0,"delta":{{"content":{bytes}}}}}]}}"#).as_bytes());
            assembly.answer();
        }
    }
}
