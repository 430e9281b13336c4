//! The whole chat answer from its stream.
//!
//! Joins deltas like the OpenAI SDKs: strings grow, lists grow by `index`, unknown members are kept. Calls grow by
//! themselves: see [`super::growing_calls`].

use serde_json::Value;

use super::growing_calls::GrowingCalls;
use photofinish_wire::answer::ends::End;
use photofinish_wire::answer::growing::{
    Growing, GrowingForm, GrownAnswer, GrownPart, MemberPlace, Rule, Whole, delta_rule, members, says, with,
};
use photofinish_wire::json::values::{PutMember, json};

/// How the answer grows, with the calls of each choice by its place: its `tool_calls`, and the `function_call` of old
/// requests.
#[derive(Default)]
pub struct ChatWhole(Vec<[GrowingCalls; 2]>);

impl GrowingForm for ChatWhole {
    fn add(&mut self, text: &str, _name: &[u8], answer: &mut GrownAnswer) -> Option<()> {
        answer.grow_listed(text, "choices", chunk_rule, |answer, at, name, raw| match name {
            "delta" => self.delta(raw, at, answer),
            // A whole message in a chunk with deltas repeats them.
            "message" => Some(()),
            name => answer.grow(MemberPlace::Part(at), name, raw, choice_rule(name)),
        })
    }

    fn finish(&mut self, mut answer: GrownAnswer) -> Option<Whole> {
        let mut calls = std::mem::take(&mut self.0);
        let choices = answer.lay_out(|at, choice| {
            let calls = calls.get_mut(at).map(std::mem::take).unwrap_or_default();
            finished_choice(choice, calls)
        })?;
        let says_nothing = !choices.iter().any(|choice| message_says(&choice["message"]));
        Some(Whole::new(&with_choices("chat.completion", choices, answer), says_nothing))
    }
}

impl ChatWhole {
    fn delta(&mut self, raw: &str, at: usize, answer: &mut GrownAnswer) -> Option<()> {
        if self.0.len() <= at {
            self.0.resize_with(at + 1, Default::default);
        }
        let [tools, legacy] = &mut self.0[at];
        for (name, raw) in members(raw)? {
            let grew = match &*name {
                "tool_calls" => tools.add(raw)?,
                // There is only one.
                "function_call" if raw == "null" => false,
                "function_call" => legacy.add(&format!("[{{\"index\":0,\"function\":{raw}}}]"))?,
                name => {
                    answer.grow(MemberPlace::Inside(at), name, raw, delta_rule(name))?;
                    continue;
                }
            };
            if grew {
                // Its place.
                answer.grow(MemberPlace::Inside(at), &name, "null", Rule::First)?;
                answer.growing = Growing::Other;
            }
        }
        Some(())
    }
}

/// How members of a chunk grow.
pub fn chunk_rule(name: &str) -> Rule {
    match name {
        // Padding fills an event, not an answer.
        "object" | "obfuscation" => Rule::Drop,
        // Some vendors give every chunk its own id. The first one names the answer.
        "id" | "created" | "model" => Rule::First,
        _ => Rule::Last,
    }
}

/// How members of a choice grow.
pub fn choice_rule(name: &str) -> Rule {
    match name {
        "finish_reason" => Rule::Last,
        "logprobs" => Rule::Extend,
        _ => Rule::Pieces,
    }
}

/// A whole answer with these choices.
pub fn with_choices(object: &str, choices: Vec<Value>, answer: GrownAnswer) -> Value {
    let empty =
        json!({ "id": null, "object": object, "created": null, "model": null, "choices": choices, "usage": null });
    let mut whole = with(empty, answer.members);
    whole.as_object_mut().into_iter().for_each(|members| members.retain(|_, value| !value.is_null()));
    whole
}

/// None if its calls cannot be separated.
fn finished_choice(choice: GrownPart, [tools, legacy]: [GrowingCalls; 2]) -> Option<Value> {
    let (mut joined, mut called) = (choice.inside.into_map(), None);
    let legacy = legacy.finish()?.pop().map(|mut call| call["function"].take()).unwrap_or_default();
    for (name, value) in [("function_call", legacy), ("tool_calls", tools.finish()?.into())] {
        if is_there(&value) {
            joined.insert(name.to_owned(), value);
            called = Some(name);
        } else {
            joined.shift_remove(name);
        }
    }
    let role = joined.shift_remove("role").filter(|role| role != "").unwrap_or_else(|| Value::from("assistant"));
    // Clients expect `content: null` in an answer that is only a tool call.
    let says_other = called.is_some() || joined.get("refusal").is_some_and(is_there);
    let content = joined.shift_remove("content").filter(|content| !(says_other && content == ""));
    let mut message = json!({ "role": role, "content": (content.unwrap_or_default()) });
    joined.into_iter().for_each(|(name, value)| message.put(&name, Some(value)));
    // Some providers send no finish reason. The stream was accepted as complete.
    let reason = called.unwrap_or("stop");
    let empty = json!({ "index": (choice.index), "message": message, "logprobs": null, "finish_reason": reason });
    let mut finished = with(empty, choice.members);
    // A client would wait for calls that never come.
    if called.is_none() && finished["finish_reason"].as_str().is_some_and(|reason| End::of(reason) == End::ToolCalls) {
        finished["finish_reason"] = "stop".into();
    }
    Some(finished)
}

fn message_says(message: &Value) -> bool {
    match &message["content"] {
        Value::Array(parts) if parts.iter().any(part_says) => true,
        content if says(content) => true,
        _ => ["tool_calls", "function_call", "refusal", "audio", "images"].iter().any(|name| is_there(&message[*name])),
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
    use super::*;
    use crate::SurfaceFormat as _;
    use photofinish_wire::Surface;
    use photofinish_wire::answer::growing::{CHOICES_MAX, GrowingAnswer, ITEMS_MAX};
    use photofinish_wire::stream::sse::SseEvent;

    fn add(growing: &mut GrowingAnswer, chunk: &str) -> bool {
        growing.add(&SseEvent { raw: format!("data: {chunk}\n\n").into() })
    }

    fn answer(mut growing: GrowingAnswer) -> Value {
        serde_json::from_slice(&growing.finish().unwrap().body).unwrap()
    }

    fn assemble(chunks: &[Value]) -> Value {
        let mut growing = Surface::Chat.growing();
        assert!(chunks.iter().all(|chunk| add(&mut growing, &chunk.to_string())));
        answer(growing)
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
    fn a_call_keeps_what_its_fragments_have_beside_it() {
        let signed = json!({"google":{"thought_signature":"s"}});
        let deltas = [
            json!({"content":null,"tool_calls":[
                {"index":0,"function":{"name":"f","arguments":""},"odd":{"t":"a"}},
                {"index":1,"id":"b","type":"custom","custom":{"name":"g","input":"x"}}]}),
            json!({"tool_calls":[{"index":0,"id":"late","type":"function","function":{"arguments":{"a":1},"more":"m"},"odd":{"t":"b"}}]}),
            json!({"refusal":null,"tool_calls":[{"index":1,"custom":{"input":"y"},"extra_content":signed},{"index":2}]}),
        ];
        let message = message(&deltas);
        let calls = json!([
            {"id":"late","type":"function","function":{"name":"f","arguments":"{\"a\":1}","more":"m"},"odd":{"t":"ab"}},
            {"id":"b","type":"custom","custom":{"name":"g","input":"xy"},"extra_content":signed},
        ]);
        let expected = json!({"role":"assistant","content":null,"tool_calls":calls,"refusal":null});
        assert_eq!(message.to_string(), expected.to_string(), "in this order");
    }

    #[test]
    fn a_call_without_a_name_is_no_answer() {
        let mut growing = Surface::Chat.growing();
        let nameless = json!({"content":"a","tool_calls":[{"index":0,"id":"c","function":{"arguments":"{}"}}]});
        assert!(add(&mut growing, &delta(0, nameless).to_string()));
        assert_eq!(growing.finish(), None);
        let empty = json!({"content":"a","tool_calls":[{"index":0,"function":{"name":"","arguments":""}}],"function_call":{"name":"","arguments":""}});
        assert_eq!(message(&[empty]), json!({"role":"assistant","content":"a"}));
    }

    #[test]
    fn arguments_come_in_however_many_fragments() {
        let call = |arguments: &str| json!({"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":arguments}}]});
        let deltas: Vec<Value> = (0..20_000).map(|_| call("1")).collect();
        let arguments = &message(&deltas)["tool_calls"][0]["function"]["arguments"];
        assert_eq!(arguments.as_str().map(str::len), Some(20_000));
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
        let mut growing = Surface::Chat.growing();
        for choice in [
            r#""token_ids":[58],"prompt_token_ids":null,"kept":[{"a":1}]"#,
            r#""token_ids":[49, 7],"logprobs":{"content":[{"token":"a","logprob":-0.12345678901234567891}]}"#,
            r#""token_ids":null,"kept":[{"a":2}]"#,
            r#""token_ids":[87],"finish_reason":"stop""#,
        ] {
            assert!(add(&mut growing, &chunk(choice)));
        }
        let choice = &answer(growing)["choices"][0];
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
        let call = |index: usize| json!({"choices":[{"index":0,"delta":{"tool_calls":[{"index":index,"id":format!("c{index}")}]}}]});
        let mut growing = Surface::Chat.growing();
        assert!((0..ITEMS_MAX).rev().all(|index| add(&mut growing, &call(index).to_string())));
        assert!(add(&mut growing, &call(7).to_string()), "more of one that is there");
        assert!(!add(&mut growing, &call(ITEMS_MAX).to_string()));
        let mut growing = Surface::Chat.growing();
        let most = CHOICES_MAX as u64;
        assert!((0..most).all(|index| add(&mut growing, &delta(index, json!({})).to_string())));
        assert!(!add(&mut growing, &delta(most, json!({})).to_string()));
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
        assert_eq!(both["choices"][0]["message"]["content"], "y", "a running total next to the delta is not added");
    }

    #[test]
    fn the_halves_of_a_character_are_joined() {
        let mut growing = Surface::Chat.growing();
        assert!(add(&mut growing, r#"{"choices":[{"delta":{"content":"hey \\u00e9 \ud83d"}}]}"#));
        assert!(add(&mut growing, r#"{"choices":[{"delta":{"content":"\ude00 you \ud83d\ude00"}}]}"#));
        assert!(!add(&mut growing, "{\"choices\":"), "what is no JSON is refused");
        let answer = answer(growing);
        assert_eq!(answer["choices"][0]["message"]["content"], "hey \\u00e9 \u{1f600} you \u{1f600}");
    }

    proptest::proptest! {
        #[test]
        fn never_panics(bytes in "[\\[\\]{}\":,a-z0-9]{0,60}") {
            let mut growing = Surface::Chat.growing();
            add(&mut growing, &bytes);
            add(&mut growing, &format!(r#"{{"choices":[{{"index":0,"delta":{{"content":{bytes}}}}}]}}"#));
            growing.finish();
        }
    }
}
