//! Requests of Ollama's clients, and the lines and whole answers that they get.

use crate::SurfaceFormat as _;
use bytes::BytesMut;
use serde_json::{Value, json};

use crate::ollama::{OllamaForm, OllamaWriter};
use photofinish_wire::Surface;
use photofinish_wire::answer::usage::Usage;
use photofinish_wire::client_error::ErrorShape;
use photofinish_wire::conversation::sample::with_ends;
use photofinish_wire::conversation::{
    AnswerPiece, Conversation, Effort, FinishReason, Format, InTurn, MessagePart, Reasoning, Role, Source,
    WritePieces as _,
};
use photofinish_wire::stream::sse::SseEvent;

fn read(surface: Surface, members: &Value) -> Conversation {
    surface.conversation(members.to_string().as_bytes()).unwrap()
}

fn chat(members: &Value) -> Conversation {
    let mut body = json!({ "model": "m", "messages": [{ "role": "user", "content": "x" }] });
    body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    read(Surface::OllamaChat, &body)
}

fn refused(surface: Surface, body: &Value) -> String {
    surface.conversation(body.to_string().as_bytes()).unwrap_err().message
}

/// Names of all losses, and how many decide the answer.
fn losses(conversation: &Conversation) -> (Vec<&str>, usize) {
    (conversation.losses.names().collect(), conversation.losses.deciding().collect::<Vec<_>>().len())
}

#[test]
fn messages_become_turns() {
    let read = read(
        Surface::OllamaChat,
        &json!({ "model": "m", "messages": [
            { "role": "system", "content": "s" },
            { "role": "user", "content": "look", "images": ["iVBORxx", "/9j/xx", "zzzz", "data:image/gif;base64,R0"] },
            { "role": "assistant", "content": "", "thinking": "hm", "tool_calls": [
                { "function": { "index": 0, "name": "f", "arguments": { "x": 1 } } },
                { "id": "own", "function": { "name": "g", "arguments": "{\"y\":2}" } } ] },
            { "role": "tool", "tool_name": "g", "content": "second" },
            { "role": "tool", "content": "first" },
            { "role": "tool", "content": "of no call" },
            { "role": "assistant", "content": "done" },
        ] }),
    );
    assert_eq!(read.system.len(), 1);
    let roles: Vec<Role> = read.turns.iter().map(|turn| turn.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::User, Role::User, Role::Assistant]);
    let types: Vec<&str> = read.turns[0]
        .parts
        .iter()
        .filter_map(|part| match part {
            MessagePart::Image(image) => match &image.source {
                Source::Base64 { media_type, .. } => Some(media_type.as_str()),
                _ => None,
            },
            _ => None,
        })
        .collect();
    assert_eq!(types, ["image/png", "image/jpeg", "image/png", "image/gif"]);
    let called: Vec<(&str, &str, &str)> = read.turns[1]
        .parts
        .iter()
        .filter_map(|part| match part {
            MessagePart::Call(call) => Some((call.id.as_str(), call.name.as_str(), call.arguments.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(called, [("call_0", "f", r#"{"x":1}"#), ("own", "g", r#"{"y":2}"#)]);
    assert!(matches!(&read.turns[1].parts[0], MessagePart::Thinking(thought) if thought.text == "hm"));
    let answered: Vec<&str> = read.turns[2]
        .parts
        .iter()
        .filter_map(|part| match part {
            MessagePart::Result(result) => Some(result.call_id.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(answered, ["own", "call_0"], "by name, then in order");
    assert_eq!(losses(&read), (vec!["messages[5].role"], 0));
}

#[test]
fn a_prompt_is_one_question() {
    let body = json!({ "model": "m", "system": "s", "prompt": "p", "images": ["iVBORxx"], "think": "high" });
    let read_one = read(Surface::OllamaGenerate, &body);
    assert_eq!((read_one.system.len(), read_one.turns.len(), read_one.turns[0].parts.len()), (1, 1, 2));
    assert_eq!(read_one.reasoning.and_then(|reasoning| reasoning.effort), Some(Effort::High));
    let raw = json!({ "model": "m", "prompt": "p", "raw": true, "suffix": "x", "template": "t", "context": [1] });
    assert_eq!(losses(&read(Surface::OllamaGenerate, &raw)), (vec!["suffix", "template", "raw", "context"], 4));
    let nothing = json!({ "model": "m", "prompt": "p", "raw": false, "suffix": "", "template": "", "context": null });
    assert_eq!(losses(&read(Surface::OllamaGenerate, &nothing)), (vec![], 0));
}

#[test]
fn options_have_all_their_forms() {
    let options = chat(&json!({ "options": {
        "num_predict": 9, "temperature": 0.5, "top_p": 0.9, "top_k": 5, "seed": 7, "stop": "a", "presence_penalty": 1.5,
        "frequency_penalty": 0, "num_ctx": 4096, "num_gpu": 1, "repeat_penalty": 1.0, "min_p": 0.0 } }));
    let sampling = &options.sampling;
    assert_eq!((sampling.max_tokens, sampling.top_k, sampling.seed), (Some(9), Some(5), Some(7)));
    assert_eq!((sampling.temperature, sampling.top_p), (Some(0.5), Some(0.9)));
    assert_eq!((sampling.presence_penalty, sampling.frequency_penalty), (Some(1.5), None));
    assert_eq!(sampling.stop, ["a"]);
    assert_eq!(losses(&options), (vec!["options.num_ctx", "options.num_gpu"], 0));
    for unlimited in [-1, -2, 0] {
        assert_eq!(chat(&json!({ "options": { "num_predict": unlimited } })).sampling.max_tokens, None);
    }
    assert_eq!(losses(&chat(&json!({ "options": { "repeat_penalty": 1.1 } }))), (vec!["options.repeat_penalty"], 1));
    for kept in [json!("5m"), json!(0), json!(-1), json!("24h"), json!(300)] {
        assert_eq!(losses(&chat(&json!({ "keep_alive": kept }))), (vec!["keep_alive"], 0));
    }
    assert_eq!(
        losses(&chat(&json!({ "keep_alive": null, "options": null, "tools": null, "format": null }))),
        (vec![], 0)
    );
}

#[test]
fn formats_and_thinking_have_all_their_forms() {
    let schema = json!({ "type": "object" });
    for (format, expected) in [
        (json!(""), None),
        (json!(null), None),
        (json!("json"), Some(Format::Json)),
        (schema.clone(), Some(Format::Schema { name: None, description: None, schema, strict: None })),
    ] {
        assert_eq!(chat(&json!({ "format": format })).format, expected, "{format}");
    }
    let thinks = |think: Value| chat(&json!({ "think": think })).reasoning;
    let (on, off) = (Some(true), Some(false));
    assert_eq!(thinks(json!(true)), Some(Reasoning { enabled: on, show: on, ..Reasoning::default() }));
    assert_eq!(thinks(json!(false)), Some(Reasoning { enabled: off, ..Reasoning::default() }));
    assert_eq!(thinks(json!("low")), Some(Reasoning { effort: Some(Effort::Low), show: on, ..Reasoning::default() }));
    assert_eq!(thinks(json!(null)), None);
}

#[test]
fn what_is_wrong_is_named() {
    let with = |members: Value| {
        let mut body = json!({ "model": "m", "messages": [{ "role": "user", "content": "x" }] });
        body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        body
    };
    for (members, words) in [
        (json!({ "format": "xml" }), "Invalid value: 'xml'. Supported values are: 'json' and 'a JSON schema'."),
        (json!({ "format": 1 }), "'format': expected one of a string or object"),
        (json!({ "think": "much" }), "'low', 'medium', and 'high'"),
        (json!({ "think": 1 }), "'think': expected one of a boolean or string"),
        (json!({ "options": [] }), "'options': expected an object"),
        (json!({ "options": { "stop": 1 } }), "'options.stop'"),
        (json!({ "options": { "temperature": "hot" } }), "'options.temperature'"),
        (json!({ "messages": [1] }), "'messages[0]': expected an object"),
        (json!({ "messages": [{ "role": "bot", "content": "x" }] }), "'bot'"),
        (json!({ "messages": [{ "content": "x" }] }), "Missing required parameter: 'messages[0].role'"),
        (json!({ "messages": [{ "role": "user", "content": ["x"] }] }), "'messages[0].content': expected a string"),
        (json!({ "messages": [{ "role": "user", "images": "x" }] }), "'messages[0].images'"),
        (json!({ "tools": [{ "type": "function" }] }), "'tools[0].function'"),
    ] {
        let said = refused(Surface::OllamaChat, &with(members.clone()));
        assert!(said.contains(words), "{members}: {said}");
    }
    assert!(refused(Surface::OllamaGenerate, &json!({ "model": "m", "prompt": 1 })).contains("'prompt'"));
}

fn written(form: OllamaForm, pieces: Vec<AnswerPiece>) -> Vec<Value> {
    let (mut writer, mut out) = (InTurn::new(OllamaWriter::new(form, "asked")), BytesMut::new());
    with_ends(&pieces).into_iter().for_each(|piece| writer.write(piece, &mut out));
    writer.end(&mut out);
    let text = std::str::from_utf8(&out).unwrap();
    assert!(text.ends_with('\n'));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn call(call: u32, name: &str) -> AnswerPiece {
    AnswerPiece::Call { index: 0, call, id: format!("c{call}"), name: name.into(), custom: false, signature: None }
}

fn arguments(call: u32, text: &str) -> AnswerPiece {
    AnswerPiece::Arguments { index: 0, call, text: text.into() }
}

fn answer() -> Vec<AnswerPiece> {
    vec![
        AnswerPiece::Start { id: None, model: Some("real".into()) },
        AnswerPiece::Thinking { index: 0, block: 0, text: "hm".into() },
        AnswerPiece::Text { index: 0, text: "lo".into() },
        AnswerPiece::Text { index: 0, text: "ok".into() },
        call(0, "f"),
        arguments(0, "{\"x\""),
        call(1, "g"),
        arguments(0, ":1}"),
        arguments(1, ""),
        AnswerPiece::Finish { index: 0, finish: FinishReason::Length },
        AnswerPiece::Usage(Usage { input_tokens: Some(3), output_tokens: Some(2), ..Usage::default() }),
    ]
}

#[test]
fn an_answer_is_lines() {
    let lines = written(OllamaForm::Chat, answer());
    assert!(lines.iter().all(|line| line["model"] == "real" && line["created_at"].is_string()), "{lines:#?}");
    let messages: Vec<&Value> = lines.iter().map(|line| &line["message"]).collect();
    let f = json!([{ "id": "c0", "function": { "name": "f", "arguments": { "x": 1 } } }]);
    let g = json!([{ "id": "c1", "function": { "name": "g", "arguments": {} } }]);
    assert_eq!(
        messages,
        [
            &json!({ "role": "assistant", "content": "", "thinking": "hm" }),
            &json!({ "role": "assistant", "content": "lo" }),
            &json!({ "role": "assistant", "content": "ok" }),
            &json!({ "role": "assistant", "content": "", "tool_calls": f }),
            &json!({ "role": "assistant", "content": "", "tool_calls": g }),
            &json!({ "role": "assistant", "content": "" }),
        ]
    );
    let (last, others) = lines.split_last().unwrap();
    assert!(others.iter().all(|line| line["done"] == false));
    assert_eq!((&last["done"], &last["done_reason"]), (&json!(true), &json!("length")));
    assert_eq!((&last["prompt_eval_count"], &last["eval_count"]), (&json!(3), &json!(2)));
    for time in ["total_duration", "prompt_eval_duration", "eval_duration"] {
        assert!(last[time].as_u64() > Some(0), "clients divide by it: {last}");
    }
}

#[test]
fn a_completion_has_its_text_at_the_top_level() {
    let lines = written(OllamaForm::Generate, answer());
    let said: String = lines.iter().filter_map(|line| line["response"].as_str()).collect();
    assert_eq!((said.as_str(), &lines[0]["thinking"], lines.len()), ("look", &json!("hm"), 6));
    assert!(lines.iter().all(|line| line.get("message").is_none()));
}

#[test]
fn lines_become_a_whole_answer() {
    for (surface, form) in [(Surface::OllamaChat, OllamaForm::Chat), (Surface::OllamaGenerate, OllamaForm::Generate)] {
        let mut growing = surface.growing();
        for line in written(form, answer()) {
            assert!(growing.add(&SseEvent { raw: format!("{line}\n").into() }));
        }
        assert!(growing.add(&SseEvent { raw: "\n".into() }), "a blank line");
        let whole = growing.finish().unwrap();
        let whole_answer: Value = serde_json::from_slice(&whole.body).unwrap();
        let message = if form == OllamaForm::Chat { &whole_answer["message"] } else { &whole_answer };
        let said = if form == OllamaForm::Chat { &message["content"] } else { &message["response"] };
        assert_eq!((said, &message["thinking"]), (&json!("look"), &json!("hm")));
        assert_eq!(message["tool_calls"].as_array().map(Vec::len), Some(2));
        assert_eq!((&whole_answer["done"], &whole_answer["eval_count"]), (&json!(true), &json!(2)));
        assert!(!whole.says_nothing);
    }
    let mut growing = Surface::OllamaChat.growing();
    let thought = r#"{"message":{"role":"assistant","content":"","thinking":"hm"},"done":true}"#;
    assert!(growing.add(&SseEvent { raw: thought.into() }));
    assert!(growing.finish().unwrap().says_nothing);
    assert!(!Surface::OllamaChat.growing().add(&SseEvent { raw: "{".into() }));
}

#[test]
fn an_error_is_a_text() {
    let error = ErrorShape { status: 400, kind: "k", code: "c", message: "no", param: Some("p"), attempts: None };
    let expected = json!({ "error": "p: no", "type": "k", "code": "c" });
    assert_eq!(Surface::OllamaChat.error(&error), expected);
    assert_eq!(Surface::OllamaChat.error_event(&error), format!("{expected}\n"));
    let own = json!({ "error": "model not found" }).to_string();
    assert_eq!(Surface::OllamaGenerate.error_event_of(404, own.as_bytes()), format!("{own}\n"));
    for (line, is_error) in [(own.as_str(), true), (r#"{"done":false}"#, false), (r#"{"error":""}"#, false)] {
        let event = SseEvent { raw: line.to_owned().into() };
        assert_eq!(Surface::OllamaChat.sees_error(&event), is_error, "{line}");
    }
}
