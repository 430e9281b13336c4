//! An answer with reasoning, text and two tool calls, from each dialect to each surface; then the next turn with the results.

use serde_json::{Value, json};

use crate::harness::answer::read_response;
use crate::harness::gateway::assert_row;
use crate::harness::matrix::{Pair, rules};
use crate::harness::surface::Surface;
use crate::support::{Dialect, FakeProvider, Script, frame};

rules! { everywhere: a_tool_is_called_and_its_result_goes_back }

/// Reasons "hm", says "look", calls `f` with `{"x":1}` and `g` without arguments.
pub fn calling(dialect: Dialect) -> Script {
    match dialect {
        Dialect::OpenAi => openai(),
        Dialect::Responses => responses(),
        Dialect::Anthropic => anthropic(),
        Dialect::Gemini => gemini(),
        Dialect::Bedrock => bedrock(),
        Dialect::Ollama => ollama(),
    }
}

fn named(script: Script, events: &[Value]) -> Script {
    events.iter().fold(script, |script, event| {
        script.chunk(format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
    })
}

fn openai() -> Script {
    let call = |index: u64, id: &str, name: &str, arguments: &str| {
        let function = json!({"name": name, "arguments": arguments});
        json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]})
    };
    let more = |text: &str| json!({"tool_calls": [{"index": 0, "function": {"arguments": text}}]});
    Script::sse()
        .role()
        .delta(json!({"reasoning_content": "hm"}))
        .token("look")
        .delta(call(0, "c1", "f", ""))
        .delta(more("{\"x\":"))
        .delta(more("1}"))
        .delta(call(1, "c2", "g", "{}"))
        .finish("tool_calls")
        .usage(10, 2)
        .done()
        .end()
}

fn anthropic() -> Script {
    let usage = json!({"input_tokens": 10, "output_tokens": 1});
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "fake-model", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage});
    let mut events = vec![json!({"type": "message_start", "message": message})];
    let tool = |id: &str, name: &str| json!({"type": "tool_use", "id": id, "name": name, "input": {}});
    let part = |text: &str| json!({"type": "input_json_delta", "partial_json": text});
    let thought = json!({"type": "thinking", "thinking": "", "signature": ""});
    let blocks = [
        (
            thought,
            vec![
                json!({"type": "thinking_delta", "thinking": "hm"}),
                json!({"type": "signature_delta", "signature": "c2ln"}),
            ],
        ),
        (json!({"type": "text", "text": ""}), vec![json!({"type": "text_delta", "text": "look"})]),
        (tool("toolu_1", "f"), vec![part(""), part("{\"x\":"), part("1}")]),
        (tool("toolu_2", "g"), vec![part("")]),
    ];
    for (index, (block, deltas)) in blocks.into_iter().enumerate() {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        events.extend(
            deltas.into_iter().map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})),
        );
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    let delta = json!({"stop_reason": "tool_use", "stop_sequence": null});
    events.push(json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 2}}));
    events.push(json!({"type": "message_stop"}));
    named(Script::of(Dialect::Anthropic).open(), &events).end()
}

fn responses() -> Script {
    let whole = |status: &str, output: &[Value]| {
        let usage = json!({"input_tokens": 10, "output_tokens": 2, "total_tokens": 12});
        json!({"id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": "fake-model", "output": output,
            "usage": if status == "completed" { usage } else { Value::Null }})
    };
    let part = json!({"type": "output_text", "text": "look", "annotations": []});
    let call = |id: &str, call: &str, name: &str, arguments: &str| json!({"type": "function_call", "id": id, "call_id": call, "name": name, "arguments": arguments, "status": "completed"});
    let items = [
        json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]}),
        json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}),
        call("fc_1", "c1", "f", "{\"x\":1}"),
        call("fc_2", "c2", "g", "{}"),
    ];
    let mut events = vec![json!({"type": "response.created", "response": whole("in_progress", &[])})];
    for (index, item) in items.iter().enumerate() {
        let (mut begun, id) = (item.clone(), &item["id"]);
        let of = |name: &str| json!({"type": name, "item_id": id, "output_index": index});
        let inner = match item["type"].as_str() {
            Some("reasoning") => {
                begun["summary"] = json!([]);
                vec![("response.reasoning_summary_text.delta", "summary_index", "delta", "hm")]
            }
            Some("message") => {
                begun["content"] = json!([]);
                vec![("response.output_text.delta", "content_index", "delta", "look")]
            }
            _ => {
                begun["arguments"] = json!("");
                let arguments = item["arguments"].as_str().unwrap();
                vec![
                    ("response.function_call_arguments.delta", "x", "delta", arguments),
                    ("response.function_call_arguments.done", "x", "arguments", arguments),
                ]
            }
        };
        events.push(json!({"type": "response.output_item.added", "output_index": index, "item": begun}));
        for (name, place, member, text) in inner {
            let mut event = of(name);
            event[place] = json!(0);
            event[member] = json!(text);
            events.push(event);
        }
        events.push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
    }
    events.push(json!({"type": "response.completed", "response": whole("completed", &items)}));
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = json!(number);
    }
    named(Script::of(Dialect::Responses).open(), &events).end()
}

fn gemini() -> Script {
    let chunk = |part: Value, finish: Value| {
        let candidate = json!({"content": {"role": "model", "parts": [part]}, "finishReason": finish, "index": 0});
        let usage = json!({"promptTokenCount": 10, "candidatesTokenCount": 2});
        json!({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "fake-model", "responseId": "r"})
    };
    Script::of(Dialect::Gemini)
        .open()
        .event(chunk(json!({"text": "hm", "thought": true}), Value::Null))
        .event(chunk(json!({"text": "look"}), Value::Null))
        .event(chunk(json!({"functionCall": {"name": "f", "args": {"x": 1}}, "thoughtSignature": "c2ln"}), Value::Null))
        .event(chunk(json!({"functionCall": {"name": "g", "args": {}}}), json!("STOP")))
        .end()
}

fn bedrock() -> Script {
    let delta = |index: u64, delta: Value| ("contentBlockDelta", json!({"contentBlockIndex": index, "delta": delta}));
    let start = |index: u64, id: &str, name: &str| {
        (
            "contentBlockStart",
            json!({"contentBlockIndex": index, "start": {"toolUse": {"toolUseId": id, "name": name}}}),
        )
    };
    let stop = |index: u64| ("contentBlockStop", json!({"contentBlockIndex": index}));
    let frames = [
        delta(0, json!({"reasoningContent": {"text": "hm"}})),
        delta(0, json!({"reasoningContent": {"signature": "c2ln"}})),
        stop(0),
        delta(1, json!({"text": "look"})),
        stop(1),
        start(2, "t1", "f"),
        delta(2, json!({"toolUse": {"input": "{\"x\":"}})),
        delta(2, json!({"toolUse": {"input": "1}"}})),
        stop(2),
        start(3, "t2", "g"),
        stop(3),
        ("messageStop", json!({"stopReason": "tool_use"})),
        ("metadata", json!({"usage": {"inputTokens": 10, "outputTokens": 2, "totalTokens": 12}})),
    ];
    let script = Script::of(Dialect::Bedrock).open().role();
    frames.iter().fold(script, |script, (name, payload)| script.chunk(frame(name, payload))).end()
}

fn ollama() -> Script {
    let line = |message: Value, done: bool| {
        let line = json!({"model": "fake-model", "created_at": "2026-01-01T00:00:00Z", "message": message, "done": done,
            "done_reason": if done { json!("stop") } else { Value::Null }, "prompt_eval_count": 10, "eval_count": 2});
        format!("{line}\n")
    };
    let call = |name: &str, arguments: Value| {
        let calls = json!([{"function": {"name": name, "arguments": arguments}}]);
        json!({"role": "assistant", "content": "", "tool_calls": calls})
    };
    Script::of(Dialect::Ollama)
        .open()
        .chunk(line(json!({"role": "assistant", "content": "", "thinking": "hm"}), false))
        .chunk(line(json!({"role": "assistant", "content": "look"}), false))
        .chunk(line(call("f", json!({"x": 1})), false))
        .chunk(line(call("g", json!({})), false))
        .chunk(line(json!({"role": "assistant", "content": ""}), true))
        .end()
}

/// A call in the surface's answer: id, name, arguments.
fn calls(surface: Surface, answer: &Value) -> Vec<(String, String, Value)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let parsed = |value: &Value| serde_json::from_str(value.as_str().unwrap_or_default()).unwrap_or_default();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    match surface {
        Surface::Chat => list(&answer["choices"][0]["message"]["tool_calls"])
            .iter()
            .map(|call| (text(&call["id"]), text(&call["function"]["name"]), parsed(&call["function"]["arguments"])))
            .collect(),
        Surface::Responses => list(&answer["output"])
            .iter()
            .filter(|item| item["type"] == "function_call")
            .map(|call| (text(&call["call_id"]), text(&call["name"]), parsed(&call["arguments"])))
            .collect(),
        Surface::Messages => list(&answer["content"])
            .iter()
            .filter(|block| block["type"] == "tool_use")
            .map(|call| (text(&call["id"]), text(&call["name"]), call["input"].clone()))
            .collect(),
        Surface::Gemini => list(&answer["candidates"][0]["content"]["parts"])
            .iter()
            .map(|part| &part["functionCall"])
            .filter(|call| call.is_object())
            .map(|call| (text(&call["id"]), text(&call["name"]), call["args"].clone()))
            .collect(),
        Surface::Ollama => list(&answer["message"]["tool_calls"])
            .iter()
            .map(|call| (text(&call["id"]), text(&call["function"]["name"]), call["function"]["arguments"].clone()))
            .collect(),
    }
}

/// The request, with tools.
fn asking(surface: Surface, stream: bool) -> Value {
    let mut body = surface.body("m", stream);
    let schema = json!({"type": "object", "properties": {"x": {"type": "integer"}}});
    body["tools"] = ["f", "g"]
        .map(|name| match surface {
            Surface::Chat | Surface::Ollama => {
                json!({"type": "function", "function": {"name": name, "parameters": schema}})
            }
            Surface::Responses => json!({"type": "function", "name": name, "parameters": schema, "strict": false}),
            Surface::Messages => json!({"name": name, "input_schema": schema}),
            Surface::Gemini => json!({"functionDeclarations": [{"name": name, "parametersJsonSchema": schema}]}),
        })
        .into();
    body
}

/// The next turn: the whole answer, and the results.
fn answering(surface: Surface, answer: &Value) -> Value {
    let mut body = asking(surface, false);
    let results = calls(surface, answer).into_iter().map(|(id, name, _)| (id, format!("result of {name}")));
    match surface {
        Surface::Chat => {
            let messages = body["messages"].as_array_mut().unwrap();
            messages.push(answer["choices"][0]["message"].clone());
            messages.extend(results.map(|(id, said)| json!({"role": "tool", "tool_call_id": id, "content": said})));
        }
        Surface::Responses => {
            let mut input = vec![json!({"role": "user", "content": "hello"})];
            input.extend(answer["output"].as_array().unwrap().iter().cloned());
            input.extend(
                results.map(|(id, said)| json!({"type": "function_call_output", "call_id": id, "output": said})),
            );
            body["input"] = json!(input);
        }
        Surface::Messages => {
            let results: Vec<Value> =
                results.map(|(id, said)| json!({"type": "tool_result", "tool_use_id": id, "content": said})).collect();
            let messages = body["messages"].as_array_mut().unwrap();
            messages.push(json!({"role": "assistant", "content": answer["content"]}));
            messages.push(json!({"role": "user", "content": results}));
        }
        Surface::Gemini => {
            let results: Vec<Value> = results
                .map(|(id, said)| {
                    let name = said.rsplit(' ').next().unwrap().to_owned();
                    json!({"functionResponse": {"id": id, "name": name, "response": {"output": said}}})
                })
                .collect();
            let contents = body["contents"].as_array_mut().unwrap();
            contents.push(answer["candidates"][0]["content"].clone());
            contents.push(json!({"role": "user", "parts": results}));
        }
        Surface::Ollama => {
            let messages = body["messages"].as_array_mut().unwrap();
            messages.push(answer["message"].clone());
            messages.extend(results.map(|(id, said)| json!({"role": "tool", "tool_call_id": id, "content": said})));
        }
    }
    body
}

async fn a_tool_is_called_and_its_result_goes_back(pair: Pair) {
    let Pair { surface, dialect } = pair;
    let fake = FakeProvider::start(vec![calling(dialect), calling(dialect), pair.stream(&["done"])]).await;
    let gateway = pair.over(&[&fake]).start().await;
    let streamed = read_response(&mut gateway.post(&surface.path_for("m", true), &asking(surface, true)).await).await;
    surface.assert_complete(&streamed);
    assert_eq!(surface.streamed_text(&streamed), "look", "{}", streamed.body);
    assert!(streamed.body.contains("hm"), "{}", streamed.body);

    let response = read_response(&mut gateway.post(surface.path(), &asking(surface, false)).await).await;
    assert_eq!(response.status, 200, "{}", response.body);
    let answer = response.json();
    assert_eq!(surface.whole_text(&answer), "look", "{answer}");
    assert!(response.body.contains("hm"), "the thought is there: {answer}");
    let found = calls(surface, &answer);
    let named: Vec<(&str, &Value)> = found.iter().map(|(_, name, arguments)| (name.as_str(), arguments)).collect();
    assert_eq!(named, [("f", &json!({"x": 1})), ("g", &json!({}))], "{answer}");
    let has_ids = !found[0].0.is_empty() && !found[1].0.is_empty() && found[0].0 != found[1].0;
    // This provider sends none, and the answer is as it came.
    let sends_ids =
        !matches!((surface, dialect), (Surface::Ollama, Dialect::Ollama) | (Surface::Gemini, Dialect::Gemini));
    assert!(has_ids || !sends_ids, "{answer}");
    let finish = match surface {
        Surface::Chat => "tool_calls",
        Surface::Responses => "completed",
        Surface::Messages => "tool_use",
        Surface::Ollama => "stop",
        Surface::Gemini => "STOP",
    };
    assert_eq!((surface.whole_finish(&answer), surface.whole_usage(&answer)), (finish, (10, 2)), "{answer}");

    let response = read_response(&mut gateway.post(surface.path(), &answering(surface, &answer)).await).await;
    assert_eq!(response.status, 200, "{}", response.body);
    assert_eq!(surface.whole_text(&response.json()), "done");
    let up = String::from_utf8(fake.request(2).await.body.to_vec()).unwrap();
    for part in ["look", "result of f", "result of g"] {
        assert!(up.contains(part), "{part} is not in {up}");
    }
    let rows = gateway.stop().await;
    for row in &rows.attempts[..2] {
        assert_row!(row, json!({"outcome": "won", "first_kind": "reasoning", "input_tokens": 10, "output_tokens": 2}));
        assert!(!row["first_answer_us"].is_null(), "{row:#?}");
    }
}
