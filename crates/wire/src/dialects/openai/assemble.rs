//! Assembles a whole chat answer from a stream.
//!
//! Joins deltas like the OpenAI SDKs: strings grow, lists grow by `index`, unknown members are kept. Not on the hot
//! path: builds JSON values.

use serde_json::{Map, Value};

use super::grown::{Grown, GrownMembers};
use crate::answer::assemble::{AssembledChoice, ByChoice, ITEMS_MAX, grow_member, read, says};
use crate::answer::ends::End;
use crate::json::surrogates::words;
use crate::json::values::PutMember;

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
                // A whole message beside deltas repeats them.
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
