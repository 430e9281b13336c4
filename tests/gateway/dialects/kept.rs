//! What must reach the client whole: numbers of any size, characters that a server cuts, names that it cuts, and the legacy form
//! of a call.

use serde_json::{Value, json};

use super::tool_calls::calling;
use crate::harness::answer::read_response;
use crate::harness::gateway::Setup;
use crate::harness::matrix::Pair;
use crate::harness::surface::Surface;
use crate::support::{Dialect, FakeProvider, Script};

const BEGUN: &str =
    r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"fake-model","choices":[{"index":0,"delta":"#;

/// A chunk of chat with this delta, as it is written.
fn chunk(delta: &str) -> String {
    format!("data: {BEGUN}{delta},\"finish_reason\":null}}]}}\n\n")
}

fn chat(deltas: &[&str], finish: &str) -> Script {
    let script = deltas.iter().fold(Script::sse().role(), |script, delta| script.chunk(chunk(delta)));
    script.finish(finish).done().end()
}

#[tokio::test]
async fn a_character_that_is_cut_between_two_events_is_whole() {
    // The middle is one emoji after another, so that events differ in their text alone.
    let texts = ["hi ", "\\ud83d", "\\ude00", "\\ud83d\\ude00", " a", "\\ud83d", "\\ude00!"];
    let deltas: Vec<String> = texts.iter().map(|text| format!("{{\"content\":\"{text}\"}}")).collect();
    let script = chat(&deltas.iter().map(String::as_str).collect::<Vec<_>>(), "stop");
    for surface in [Surface::Chat, Surface::Messages, Surface::Responses, Surface::Ollama, Surface::Gemini] {
        let fake = FakeProvider::start(vec![script.clone(), script.clone()]).await;
        let pair = Pair { surface, dialect: Dialect::OpenAi };
        let gateway = pair.over(&[&fake]).start().await;
        let whole = read_response(&mut pair.whole(&gateway).await).await.json();
        assert_eq!(surface.whole_text(&whole), "hi \u{1f600}\u{1f600} a\u{1f600}!", "{surface:?}");
        let streamed = read_response(&mut pair.streaming(&gateway).await).await;
        if surface == Surface::Chat {
            assert!(streamed.body.contains("\"\\ud83d\""), "untranslated, it is as it came: {}", streamed.body);
        } else {
            assert_eq!(surface.streamed_text(&streamed), "hi \u{1f600}\u{1f600} a\u{1f600}!", "{surface:?}");
        }
        gateway.stop().await;
    }
}

/// Fragments of calls, and the `index` that each has to have.
fn numbered_calls() -> Vec<(Vec<String>, Vec<i32>)> {
    let call = |index: &str, id: &str, name: &str, arguments: &str| {
        format!(r#"{{{index}"id":"{id}","type":"function","function":{{"name":"{name}","arguments":{arguments:?}}}}}"#)
    };
    let more = |index: &str, arguments: &str| format!(r#"{{{index}"function":{{"arguments":{arguments:?}}}}}"#);
    vec![
        // Right, and so not a byte is changed.
        (vec![call(r#""index":1,"#, "a", "f", "{}"), call(r#""index":2,"#, "b", "g", "{}")], vec![1, 2]),
        (
            vec![
                call(r#""index":0,"#, "a", "f", "{"),
                more(r#""index":0,"#, "}"),
                call(r#""index":0,"#, "b", "g", "{"),
                more(r#""index":0,"#, "}"),
            ],
            vec![0, 0, 1, 1],
        ),
        (vec![call("", "a", "f", "{"), more("", "}"), call("", "b", "g", "{}")], vec![0, 0, 1]),
        (vec![call("", "a", "f", "{}") + "," + &call("", "b", "f", "{}")], vec![0, 1]),
        // A text or a fraction, which strict clients do not take.
        (
            vec![
                call(r#""index":"0","#, "a", "f", "{"),
                more(r#""index":"0","#, r#""x":"#),
                more(r#""index":"0","#, "1"),
                more(r#""index":"0","#, "}"),
            ],
            vec![0, 0, 0, 0],
        ),
        (vec![call(r#""index":1.0,"#, "a", "f", "{}")], vec![1]),
        (vec![call("", "", "f", r#"{"x":1e3}"#), call("", "", "f", r#"{"x":2}"#)], vec![0, 1]),
        // Fragments that differ in their text alone.
        (
            vec![
                call(r#""index":0,"#, "a", "f", "{"),
                more(r#""index":0,"#, r#""x":"#),
                more(r#""index":0,"#, "1"),
                more(r#""index":0,"#, "}"),
                call(r#""index":0,"#, "b", "g", "{"),
                more(r#""index":0,"#, r#""y":"#),
                more(r#""index":0,"#, "2"),
                more(r#""index":0,"#, "}"),
            ],
            vec![0, 0, 0, 0, 1, 1, 1, 1],
        ),
        (
            vec![
                call("", "a", "f", "{"),
                more("", r#""x":"#),
                more("", "1"),
                more("", "}"),
                call("", "b", "g", "{"),
                more("", "}"),
            ],
            vec![0, 0, 0, 0, 1, 1],
        ),
    ]
}

/// Clients of a stream know calls by their `index` alone.
#[tokio::test]
async fn calls_come_down_under_numbers_of_their_own() {
    for (fragments, numbers) in numbered_calls() {
        let deltas: Vec<String> = fragments.iter().map(|list| format!(r#"{{"tool_calls":[{list}]}}"#)).collect();
        let deltas: Vec<&str> = deltas.iter().map(String::as_str).collect();
        let fake = FakeProvider::start(vec![chat(&deltas, "tool_calls")]).await;
        let gateway = Setup::over(&[&fake]).start().await;
        let response = read_response(&mut gateway.streaming().await).await;
        let events: Vec<Value> =
            response.events().iter().filter_map(|event| serde_json::from_str(event).ok()).collect();
        let calls = events
            .iter()
            .flat_map(|event| event["choices"][0]["delta"]["tool_calls"].as_array().cloned().unwrap_or_default());
        let (found, rest): (Vec<Value>, Vec<Value>) =
            calls.map(|mut call| (call["index"].take(), call["function"]["arguments"].take())).unzip();
        assert_eq!(found, numbers, "{}", response.body);
        let sent: Vec<String> = fragments
            .iter()
            .flat_map(|list| serde_json::from_str::<Vec<Value>>(&format!("[{list}]")).unwrap())
            .map(|call| call["function"]["arguments"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(rest, sent, "{}", response.body);
        if numbers == [1, 2] {
            assert!(fragments.iter().all(|fragment| response.body.contains(fragment)), "{}", response.body);
        }
        assert_eq!(gateway.stop().await.one("a")["outcome"], "won");
    }
}

/// What is no call beside a call without a number harms neither the call nor the stream.
#[tokio::test]
async fn a_list_of_calls_may_have_what_is_no_call() {
    let call = r#"{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}"#;
    for rest in [r#""x""#, "7", "null", "[]", "{}"] {
        let lists = [format!("[{call},{rest}]"), format!("[{rest},{call}]"), format!("[{rest}]")];
        let first = format!(r#"{{"tool_calls":[{call}]}}"#);
        for list in lists {
            let fake =
                FakeProvider::start(vec![chat(&[&first, &format!(r#"{{"tool_calls":{list}}}"#)], "tool_calls")]).await;
            let gateway = Setup::over(&[&fake]).start().await;
            let response = read_response(&mut gateway.streaming().await).await;
            assert!(response.body.ends_with("data: [DONE]\n\n"), "{list}: {}", response.body);
            gateway.stop().await;
        }
    }
}

#[tokio::test]
async fn numbers_of_a_call_s_arguments_keep_their_text() {
    let arguments = r#"{"wei":25000000000000000000000,"rate":1e3,"share":0.10}"#;
    let quoted = json!(arguments);
    let delta = format!(
        r#"{{"tool_calls":[{{"index":0,"id":"c1","type":"function","function":{{"name":"f","arguments":{quoted}}}}}]}}"#
    );
    for surface in [Surface::Messages, Surface::Ollama, Surface::Gemini] {
        let fake = FakeProvider::start(vec![chat(&[&delta], "tool_calls"), chat(&[&delta], "tool_calls")]).await;
        let pair = Pair { surface, dialect: Dialect::OpenAi };
        let gateway = pair.over(&[&fake]).start().await;
        let whole = read_response(&mut pair.whole(&gateway).await).await.body;
        assert!(whole.contains(arguments), "{surface:?}: {whole}");
        let streamed = read_response(&mut pair.streaming(&gateway).await).await.body;
        assert!(streamed.replace('\\', "").contains(arguments), "{surface:?}: {streamed}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn an_untranslated_whole_answer_keeps_numbers_and_joins_names() {
    let part = |function: &str| format!(r#"{{"tool_calls":[{{"index":0,"id":"c1","function":{function}}}]}}"#);
    let deltas = [
        part(r#"{"name":"get_"}"#),
        part(r#"{"name":"weather","arguments":""}"#),
        part(r#"{"arguments":"{}"}"#),
        r#"{"own":{"wei":25000000000000000000000,"rate":1e3}}"#.to_owned(),
    ];
    let script = chat(&deltas.each_ref().map(String::as_str), "tool_calls");
    let fake = FakeProvider::start(vec![script.clone(), script]).await;
    let gateway = Setup::new().provider("a", &fake, "").start().await;
    let pair = Pair { surface: Surface::Chat, dialect: Dialect::OpenAi };
    let whole = read_response(&mut pair.whole(&gateway).await).await.body;
    assert!(whole.contains(r#"{"wei":25000000000000000000000,"rate":1e3}"#), "{whole}");
    assert!(whole.contains(r#"{"name":"get_weather","arguments":"{}"}"#), "{whole}");
    gateway.stop().await;
}

fn with_functions(stream: bool, messages: &[Value]) -> Value {
    let schema = json!({"type": "object", "properties": {"x": {"type": "integer"}}});
    let functions = ["f", "g"].map(|name| json!({"name": name, "parameters": schema}));
    let asked = json!({"role": "user", "content": "hello"});
    let messages: Vec<&Value> = [&asked].into_iter().chain(messages).collect();
    json!({"model": "m", "stream": stream, "functions": functions, "messages": messages})
}

#[tokio::test]
async fn a_client_that_lists_functions_gets_a_function_call() {
    let expected = json!({"name": "f", "arguments": "{\"x\":1}"});
    for dialect in [Dialect::Responses, Dialect::Anthropic, Dialect::Gemini, Dialect::Bedrock, Dialect::Ollama] {
        let pair = Pair { surface: Surface::Chat, dialect };
        let fake = FakeProvider::start(vec![calling(dialect), calling(dialect), pair.stream(&["done"])]).await;
        let gateway = pair.over(&[&fake]).start().await;
        let path = Surface::Chat.path();
        let answer = read_response(&mut gateway.post(path, &with_functions(false, &[])).await).await.json();
        let choice = &answer["choices"][0];
        assert_eq!(choice["message"]["function_call"]["name"], "f", "{dialect:?}: {answer}");
        let arguments = choice["message"]["function_call"]["arguments"].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(arguments).unwrap(), json!({"x": 1}), "{dialect:?}: {answer}");
        assert_eq!(
            (&choice["finish_reason"], &choice["message"]["tool_calls"]),
            (&json!("function_call"), &Value::Null)
        );

        let streamed = read_response(&mut gateway.post(path, &with_functions(true, &[])).await).await;
        assert!(!streamed.body.contains("tool_calls"), "{dialect:?}: {}", streamed.body);
        let (mut called, mut reason) = (json!({"name": "", "arguments": ""}), Value::Null);
        for chunk in streamed.events().iter().filter_map(|event| serde_json::from_str::<Value>(event).ok()) {
            for name in ["name", "arguments"] {
                let more = chunk["choices"][0]["delta"]["function_call"][name].as_str().unwrap_or_default();
                called[name] = json!(called[name].as_str().unwrap().to_owned() + more);
            }
            reason = if chunk["choices"][0]["finish_reason"].is_null() {
                reason
            } else {
                chunk["choices"][0]["finish_reason"].clone()
            };
        }
        assert_eq!((&called, &reason), (&expected, &json!("function_call")), "{dialect:?}: {}", streamed.body);

        let result = json!({"role": "function", "name": "f", "content": "result of f"});
        let next = with_functions(false, &[choice["message"].clone(), result]);
        let done = read_response(&mut gateway.post(path, &next).await).await;
        assert_eq!(Surface::Chat.whole_text(&done.json()), "done", "{dialect:?}: {}", done.body);
        let up = String::from_utf8(fake.request(2).await.body.to_vec()).unwrap();
        assert!(up.contains("result of f"), "{dialect:?}: {up}");
        let one_at_a_time = ["\"parallel_tool_calls\":false", "\"disable_parallel_tool_use\":true"];
        let says = matches!(dialect, Dialect::Responses | Dialect::Anthropic);
        assert_eq!(one_at_a_time.iter().any(|member| up.contains(member)), says, "{dialect:?}: {up}");
        gateway.stop().await;
    }
}

/// Streams of forms that are in no document, whose text is `SAID` for a client of the vendor.
const UNUSUAL_FORMS: [(Dialect, &str, &[&str]); 7] = [
    (
        Dialect::Ollama,
        "text after the end's reason",
        &[
            r#"{"model":"m","message":{"role":"assistant","content":"SA"},"done":false,"done_reason":"stop"}"#,
            r#"{"model":"m","message":{"role":"assistant","content":"ID"},"done":true,"done_reason":"stop"}"#,
        ],
    ),
    (
        Dialect::Gemini,
        "parts as an object",
        &[
            r#"{"candidates":[{"content":{"role":"model","parts":{"text":"SA"}}}]}"#,
            r#"{"candidates":[{"content":{"role":"model","parts":{"text":"ID"}},"finishReason":"STOP"}]}"#,
        ],
    ),
    (
        Dialect::Gemini,
        "a finish reason in each event",
        &[
            r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"SA"}]},"finishReason":"STOP"}]}"#,
            r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"ID"}]},"finishReason":"STOP"}]}"#,
        ],
    ),
    (
        Dialect::OpenAi,
        "a finish reason in each event",
        &[
            r#"{"id":"c","choices":[{"index":0,"delta":{"content":"SA"},"finish_reason":"stop"}]}"#,
            r#"{"id":"c","choices":[{"index":0,"delta":{"content":"ID"},"finish_reason":"stop"}]}"#,
            "[DONE]",
        ],
    ),
    (
        Dialect::Responses,
        "content as a text",
        &[
            r#"{"type":"response.created","response":{"id":"r","model":"m","status":"in_progress","output":[]}}"#,
            r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"a","role":"assistant","content":[{"type":"output_text","text":"SA"}]}}"#,
            r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"message","id":"b","role":"assistant","content":"ID"}}"#,
            r#"{"type":"response.completed","response":{"id":"r","model":"m","status":"completed"}}"#,
        ],
    ),
    (
        Dialect::Responses,
        "content as a text alone",
        &[
            r#"{"type":"response.created","response":{"id":"r","model":"m","status":"in_progress","output":[]}}"#,
            r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"b","role":"assistant","content":"SAID"}}"#,
            r#"{"type":"response.completed","response":{"id":"r","model":"m","status":"completed"}}"#,
        ],
    ),
    (
        Dialect::Anthropic,
        "content in the start",
        &[
            r#"{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"SA"}],"usage":{"input_tokens":1,"output_tokens":1}}}"#,
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"ID"}}"#,
            r#"{"type":"content_block_stop","index":1}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}"#,
            r#"{"type":"message_stop"}"#,
        ],
    ),
];

/// All of what the upstream wrote arrives, or an error.
#[tokio::test]
async fn unusual_forms_lose_no_text() {
    let mut wrong = Vec::new();
    for (dialect, what, events) in UNUSUAL_FORMS {
        let end = if dialect == Dialect::Ollama { "\n" } else { "\n\n" };
        let begin = if dialect == Dialect::Ollama { "" } else { "data: " };
        let framed = |script: Script, event: &&str| script.chunk(format!("{begin}{event}{end}"));
        let script = events.iter().fold(Script::of(dialect).open(), framed).end();
        for surface in [Surface::Chat, Surface::Messages, Surface::Responses, Surface::Ollama, Surface::Gemini] {
            let pair = Pair { surface, dialect };
            let fake = FakeProvider::start(vec![script.clone(), script.clone()]).await;
            let gateway = pair.over(&[&fake]).start().await;
            let whole = read_response(&mut pair.whole(&gateway).await).await;
            if surface.dialect() != dialect && surface.whole_text(&whole.json()) != "SAID" {
                wrong.push(format!("{dialect:?}, {what}, to {surface:?}, whole: {}", whole.body));
            }
            let streamed = read_response(&mut pair.streaming(&gateway).await).await;
            if surface.dialect() != dialect && surface.streamed_text(&streamed) != "SAID" {
                wrong.push(format!("{dialect:?}, {what}, to {surface:?}, streamed: {}", streamed.body));
            }
            let outcomes: Vec<Value> =
                gateway.stop().await.attempts.iter().map(|attempt| attempt["outcome"].clone()).collect();
            if outcomes != ["won", "won"] {
                wrong.push(format!("{dialect:?}, {what}, to {surface:?}: {outcomes:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A call that has no list around it.
#[tokio::test]
async fn a_call_without_brackets_arrives() {
    let line = r#"{"model":"m","message":{"role":"assistant","content":"","tool_calls":{"function":{"name":"f","arguments":{"x":7391}}}},"done":true,"done_reason":"stop"}"#;
    let script = Script::of(Dialect::Ollama).open().chunk(format!("{line}\n")).end();
    for surface in [Surface::Chat, Surface::Messages, Surface::Responses, Surface::Ollama, Surface::Gemini] {
        let pair = Pair { surface, dialect: Dialect::Ollama };
        let fake = FakeProvider::start(vec![script.clone(), script.clone()]).await;
        let gateway = pair.over(&[&fake]).start().await;
        for response in [&mut pair.whole(&gateway).await, &mut pair.streaming(&gateway).await] {
            let body = read_response(response).await.body;
            assert!(body.contains("7391") && body.contains("\"f\""), "{surface:?}: {body}");
        }
        assert_eq!(gateway.stop().await.attempts[0]["outcome"], "won", "{surface:?}");
    }
}
