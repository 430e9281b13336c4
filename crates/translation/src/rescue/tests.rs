//! The delivered part of a broken answer, and its continuation, on every surface with the vendors' own events.

mod model_check;

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};

use super::{DeliveredAnswer, Diverged, JoinMethod, JoinedAnswer};
use photofinish_wire::client_error::ErrorShape;
use photofinish_wire::{Surface, Usage};

const TEXTS: [Surface; 4] = [Surface::Chat, Surface::Completions, Surface::Messages, Surface::Responses];

fn data(event: &Value) -> String {
    match event["type"].as_str() {
        Some(name) => format!("event: {name}\ndata: {event}\n\n"),
        None => format!("data: {event}\n\n"),
    }
}

/// The vendor's events up to the last token. `id` identifies the answer.
fn begun(surface: Surface, id: &str, tokens: &[&str]) -> String {
    let chunk = |object: &str, choice: Value| {
        data(&json!({"id": id, "object": object, "created": 17, "model": id, "choices": [choice]}))
    };
    let mut text = String::new();
    match surface {
        Surface::Messages => {
            let message = json!({"id": id, "type": "message", "role": "assistant", "model": id, "content": [], "usage": {"input_tokens": 5, "output_tokens": 1}});
            text += &data(&json!({"type": "message_start", "message": message}));
            text += &data(
                &json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            );
        }
        Surface::Responses => {
            let response = json!({"id": id, "object": "response", "created_at": 17, "status": "in_progress", "model": id, "output": [], "metadata": {"k": "v"}});
            let item =
                json!({"id": "msg_1", "type": "message", "status": "in_progress", "role": "assistant", "content": []});
            let part = json!({"type": "output_text", "text": "", "annotations": []});
            text += &data(&json!({"type": "response.created", "sequence_number": 0, "response": response}));
            text += &data(
                &json!({"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": item}),
            );
            text += &data(
                &json!({"type": "response.content_part.added", "sequence_number": 2, "item_id": "msg_1", "output_index": 0, "content_index": 0, "part": part}),
            );
        }
        _ => {}
    }
    for (number, token) in tokens.iter().enumerate() {
        text += &match surface {
            Surface::Chat => chunk("chat.completion.chunk", json!({"index": 0, "delta": {"content": token}})),
            Surface::Completions => chunk("text_completion", json!({"index": 0, "text": token})),
            Surface::Messages => data(
                &json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": token}}),
            ),
            _ => data(
                &json!({"type": "response.output_text.delta", "sequence_number": number + 3, "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": token}),
            ),
        };
    }
    text
}

/// The vendor's events after the last token.
fn finished(surface: Surface, id: &str) -> String {
    let usage = json!({"prompt_tokens": 7, "completion_tokens": 4, "total_tokens": 11});
    match surface {
        Surface::Messages => {
            data(&json!({"type": "content_block_stop", "index": 0}))
                + &data(
                    &json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"input_tokens": 7, "output_tokens": 4}}),
                )
                + &data(&json!({"type": "message_stop"}))
        }
        Surface::Responses => {
            let usage = json!({"input_tokens": 7, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 4, "total_tokens": 11});
            let response = json!({"id": id, "status": "completed", "model": id, "output": [], "usage": usage});
            data(&json!({"type": "response.completed", "sequence_number": 99, "response": response}))
        }
        _ => {
            data(&json!({"id": id, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))
                + &data(&json!({"id": id, "choices": [], "usage": usage}))
                + "data: [DONE]\n\n"
        }
    }
}

fn delivered(surface: Surface, events: &str) -> DeliveredAnswer {
    let mut delivered = DeliveredAnswer::new(surface, false);
    delivered.add(&Bytes::copy_from_slice(events.as_bytes()));
    delivered.read_up();
    delivered
}

/// Everything that the client gets.
fn joined(delivered: &DeliveredAnswer, way: JoinMethod, events: &str) -> Result<String, Diverged> {
    let (mut joined, mut out) = (JoinedAnswer::new(delivered, way, true), BytesMut::new());
    joined.add(&Bytes::copy_from_slice(events.as_bytes()), &mut out)?;
    joined.end(&mut out)?;
    Ok(String::from_utf8(out.to_vec()).unwrap())
}

fn events(text: &str) -> Vec<Value> {
    text.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect()
}

/// The text of all deltas.
fn said(surface: Surface, text: &str) -> String {
    let of = |event: &Value| {
        let text = match surface {
            Surface::Chat => &event["choices"][0]["delta"]["content"],
            Surface::Completions => &event["choices"][0]["text"],
            Surface::Messages => &event["delta"]["text"],
            _ if event["type"] == "response.output_text.delta" => &event["delta"],
            _ => &Value::Null,
        };
        text.as_str().unwrap_or_default().to_owned()
    };
    events(text).iter().map(of).collect()
}

#[test]
fn a_replay_is_joined_where_it_repeats_what_was_delivered() {
    use JoinMethod::{Prefix, Replay};

    /// Delivered text, the request to the other upstream, its answer, and the part that is sent.
    type Case = (&'static [&'static str], JoinMethod, &'static [&'static str], Result<&'static str, Diverged>);
    let table: &[Case] = &[
        (&["Hel", "lo"], Replay, &["Hello wor", "ld"], Ok(" world")),
        (&["Hel", "lo"], Replay, &["H", "e", "l", "l", "o", "!"], Ok("!")),
        (&["Hello"], Replay, &["Hello"], Ok("")),
        (&["Hello"], Replay, &["Hallo"], Err(Diverged)),
        (&["Hello"], Replay, &["Hell"], Err(Diverged)),
        (&["Hello"], Replay, &["Hello there", "…"], Ok(" there…")),
        (&["naï"], Replay, &["na", "ï", "ve"], Ok("ve")),
        (&["naï"], Replay, &["naí"], Err(Diverged)),
        (&["Hello "], Replay, &["Hello", "world"], Err(Diverged)),
        // After a prefix everything is new, except blanks that the prefix lacked.
        (&["Hello"], Prefix(5), &[" wor", "ld"], Ok(" world")),
        (&["Hello "], Prefix(5), &[" world"], Ok("world")),
        (&["Hello "], Prefix(5), &["world"], Ok("world")),
        (&["Hello \n"], Prefix(5), &[" \nworld"], Ok("world")),
        (&["Hello "], Prefix(5), &["\nworld"], Ok("\nworld")),
        (&["Hello"], Prefix(5), &[], Err(Diverged)),
        // One that starts over, says the last words again, or says nothing.
        (&["Hello my ", "dear friend"], Prefix(20), &["Hello my dear", " friend!"], Ok("!")),
        (&["Hello my ", "dear friend"], Prefix(20), &["dear ", "friend", "!"], Ok("dear friend!")),
        (&["Hello my ", "very dear friend"], Prefix(25), &["my very dear ", "friend", "!"], Ok("!")),
        (&["Hello my ", "dear friend"], Prefix(20), &["Hello my dear fri"], Err(Diverged)),
        (&["Hello"], Prefix(5), &[" ", "\n"], Err(Diverged)),
        (&["Hello"], Prefix(5), &[" "], Err(Diverged)),
    ];
    for surface in TEXTS {
        for (before, way, says, expected) in table {
            let mut delivered = delivered(surface, &begun(surface, "one", before));
            assert!(delivered.may_go_on(), "{surface:?}");
            assert_eq!(delivered.text(), before.concat());
            let got = joined(&delivered, *way, &(begun(surface, "two", says) + &finished(surface, "two")));
            let got = got.map(|out| said(surface, &out));
            assert_eq!(got, expected.map(str::to_owned), "{surface:?}: {before:?} {way:?} {says:?}");
        }
    }
}

#[test]
fn the_client_sees_one_answer() {
    for surface in TEXTS {
        let before = begun(surface, "one", &["Hel", "lo"]);
        let mut delivered = delivered(surface, &before);
        let spent = Usage { input_tokens: Some(5), output_tokens: Some(1), ..Usage::default() };
        delivered.spent(spent);
        let after = joined(
            &delivered,
            JoinMethod::Replay,
            &(begun(surface, "two", &["Hello", " you"]) + &finished(surface, "two")),
        );
        let after = after.unwrap();
        assert!(!after.contains("\"two\""), "{surface:?}: {after}");
        let events = events(&(before + &after));
        let last = events.last().unwrap();
        match surface {
            Surface::Messages => {
                let indices: Vec<&Value> =
                    events.iter().map(|event| &event["index"]).filter(|at| !at.is_null()).collect();
                assert_eq!(indices, vec![&json!(0); 5], "{after}");
                let usage = &events[events.len() - 2]["usage"];
                assert_eq!((&usage["input_tokens"], &usage["output_tokens"]), (&json!(12), &json!(5)));
                assert_eq!(last["type"], "message_stop");
            }
            Surface::Responses => {
                for (number, event) in events.iter().enumerate() {
                    assert_eq!(event["sequence_number"], number, "{after}");
                }
                let response = &last["response"];
                assert_eq!((&response["id"], &response["metadata"]["k"]), (&json!("one"), &json!("v")));
                assert_eq!(response["output"][0]["content"][0]["text"], "Hello you");
                assert_eq!((&response["output"][0]["id"], &response["created_at"]), (&json!("msg_1"), &json!(17)));
                assert_eq!(response["usage"]["output_tokens"], 5);
            }
            _ => {
                assert!(events.iter().all(|event| event["id"] == "one" && event["created"] == 17), "{after}");
                let finish = &events[events.len() - 2]["choices"][0]["finish_reason"];
                assert_eq!((finish, &last["usage"]["completion_tokens"]), (&json!("stop"), &json!(5)));
                assert!(after.ends_with("data: [DONE]\n\n"));
            }
        }
    }
}

#[test]
fn a_call_may_follow_but_none_that_was_begun_is_gone_on_with() {
    let before = begun(Surface::Chat, "one", &["I look."]);
    let call = data(
        &json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "f", "arguments": "{\"a\":1}"}}]}}]}),
    );
    let finish = data(&json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}));
    let all = delivered(Surface::Chat, &before);
    let after = joined(&all, JoinMethod::Replay, &(before.clone() + &call + &finish)).unwrap();
    assert!(after.contains("{\\\"a\\\":1}") && after.contains("\"finish_reason\":\"tool_calls\""), "{after}");
    // It may not begin before everything was repeated.
    assert_eq!(joined(&all, JoinMethod::Replay, &(begun(Surface::Chat, "two", &["I"]) + &call)), Err(Diverged));
    assert!(!delivered(Surface::Chat, &(before + &call)).may_go_on());
}

#[test]
fn what_nobody_else_can_go_on_with() {
    let chat = |delta: Value| data(&json!({"id": "one", "choices": [{"index": 0, "delta": delta}]}));
    let text = |index: u32| data(&json!({"id": "one", "choices": [{"index": index, "delta": {"content": "x"}}]}));
    let block = |content: Value| data(&json!({"type": "content_block_start", "index": 1, "content_block": content}));
    let delta = |delta: Value| data(&json!({"type": "content_block_delta", "index": 1, "delta": delta}));
    let thinking = block(json!({"type": "thinking", "thinking": "", "signature": ""}));
    let thought = delta(json!({"type": "thinking_delta", "thinking": "hm"}));
    let sign = delta(json!({"type": "signature_delta", "signature": "c2ln"}));
    let stop = data(&json!({"type": "content_block_stop", "index": 1}));
    let start = data(&json!({"type": "message_start", "message": {"id": "one", "model": "m"}}));
    let (messages, responses) = (begun(Surface::Messages, "one", &["a"]), begun(Surface::Responses, "one", &["a"]));
    let closed = data(&json!({"type": "content_block_stop", "index": 0}));
    let table = [
        // A call that is held is not delivered.
        (Surface::Chat, String::new(), true),
        (Surface::Chat, text(0), true),
        (Surface::Chat, text(0) + &text(1), false),
        (Surface::Chat, text(0) + &chat(json!({"refusal": "no"})), false),
        (
            Surface::Chat,
            text(0)
                + &chat(json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}}]})),
            false,
        ),
        (Surface::Chat, text(0) + &chat(json!({"function_call": {"name": "f", "arguments": "{"}})), false),
        (Surface::Chat, text(0) + &chat(json!({"audio": {"data": "AA=="}})), false),
        (Surface::Chat, text(0) + &chat(json!({"reasoning_content": "hm"})), false),
        (Surface::Chat, chat(json!({"reasoning_content": "hm"})), true),
        (Surface::Chat, chat(json!({"reasoning_content": "hm"})) + &text(0), true),
        (
            Surface::Chat,
            chat(json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "c2ln"}]})) + &text(0),
            false,
        ),
        (Surface::Messages, messages.clone(), true),
        (Surface::Messages, messages.clone() + &closed, true),
        (Surface::Messages, start.clone() + &thinking + &thought, false),
        (Surface::Messages, start + &thinking + &thought + &sign + &stop, false),
        (
            Surface::Messages,
            messages.clone() + &closed + &block(json!({"type": "tool_use", "id": "t", "name": "f", "input": {}})),
            false,
        ),
        (
            Surface::Messages,
            messages + &closed + &block(json!({"type": "server_tool_use", "id": "t", "name": "f"})),
            false,
        ),
        (Surface::Responses, responses.clone(), true),
        (
            Surface::Responses,
            responses
                + &data(
                    &json!({"type": "response.output_item.added", "output_index": 1, "item": {"type": "reasoning"}}),
                ),
            false,
        ),
        (Surface::Responses, data(&json!({"type": "response.output_text.delta", "delta": "a"})), false),
    ];
    for (surface, events, may) in table {
        assert_eq!(delivered(surface, &events).may_go_on(), may, "{surface:?}: {events}");
    }
}

#[test]
fn reasoning_is_repeated_only_where_there_is_no_text_yet() {
    let think = |id: &str, thought: &str| {
        data(&json!({"id": id, "choices": [{"index": 0, "delta": {"reasoning_content": thought}}]}))
    };
    let text = |text: &str| begun(Surface::Chat, "two", &[text]);
    let in_it = delivered(Surface::Chat, &think("one", "let me"));
    let after = joined(&in_it, JoinMethod::Replay, &(think("two", "let me see") + &text("yes"))).unwrap();
    assert!(after.contains(r#""reasoning_content":" see""#) && said(Surface::Chat, &after) == "yes", "{after}");
    assert_eq!(joined(&in_it, JoinMethod::Replay, &think("two", "let us")), Err(Diverged));
    assert_eq!(joined(&in_it, JoinMethod::Replay, &text("yes")), Err(Diverged));
    let behind = delivered(Surface::Chat, &(think("one", "let me") + &text("ye")));
    let after = joined(&behind, JoinMethod::Replay, &(think("two", "otherwise") + &text("yes"))).unwrap();
    assert!(!after.contains("otherwise") && said(Surface::Chat, &after) == "s", "{after}");
}

#[test]
fn what_is_too_long_is_not_gone_on_with() {
    let mut delivered = delivered(Surface::Chat, &begun(Surface::Chat, "one", &["x"]));
    let long = "y".repeat(1 << 19);
    for _ in 0..2 {
        assert!(delivered.may_go_on());
        delivered.add(&Bytes::from(begun(Surface::Chat, "one", &[&long])));
        delivered.read_up();
    }
    assert!(!delivered.may_go_on() && delivered.bytes() == 0);
}

#[test]
fn an_error_goes_on_from_what_was_written() {
    let error = ErrorShape { status: 500, kind: "server_error", code: "c", message: "m", param: None, attempts: None };
    let mut delivered = delivered(Surface::Responses, &begun(Surface::Responses, "one", &["a"]));
    let events = events(std::str::from_utf8(&delivered.error_event(&error)).unwrap());
    let numbers: Vec<&Value> = events.iter().map(|event| &event["sequence_number"]).collect();
    assert_eq!((numbers, &events[1]["response"]["id"]), (vec![&json!(4), &json!(5)], &json!("one")));
}
