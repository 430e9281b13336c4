//! Requests of Gemini's clients, and the events and whole answers that they get.

use crate::SurfaceFormat as _;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use bytes::BytesMut;
use serde_json::{Value, json};

use crate::gemini::{GeminiReader, GeminiWriter, without_reasoning};
use photofinish_wire::Surface;
use photofinish_wire::answer::usage::Usage;
use photofinish_wire::client_error::ErrorShape;
use photofinish_wire::conversation::sample::with_ends;
use photofinish_wire::conversation::signature::RemovedReasoning;
use photofinish_wire::conversation::{
    AnswerPiece, Conversation, Effort, FinishReason, Format, InTurn, MessagePart, ReadPieces as _, Reasoning, Role,
    Source, ToolChoice, WritePieces as _,
};
use photofinish_wire::stream::sse::{SseEvent, SseScanner};

fn read(members: Value) -> Conversation {
    let mut body = json!({ "contents": [{ "parts": [{ "text": "x" }] }] });
    body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    Surface::Gemini.conversation(body.to_string().as_bytes()).unwrap()
}

fn contents(contents: Value) -> Conversation {
    read(json!({ "contents": contents }))
}

/// Names of all losses, and how many decide the answer.
fn losses(conversation: &Conversation) -> (Vec<&str>, usize) {
    (conversation.losses.names().collect(), conversation.losses.deciding().collect::<Vec<_>>().len())
}

#[test]
fn an_answer_in_pieces_is_one_turn_again() {
    let signature = STANDARD.encode("photofinish.anthropic.c2ln");
    let again = URL_SAFE.encode("photofinish.anthropic.call.x");
    let read = contents(json!([
        { "role": "user", "parts": [{ "text": "a" }, { "text": "b" }] },
        { "role": "model", "parts": [{ "text": "h", "thought": true }] },
        { "role": "model", "parts": [{ "text": "m", "thought": true }] },
        { "role": "model", "parts": [{ "text": "", "thought": true, "thoughtSignature": signature }] },
        { "role": "model", "parts": [{ "text": "lo" }] },
        { "role": "model", "parts": [{ "text": "ok" }] },
        { "role": "model", "parts": [
            { "functionCall": { "name": "f", "args": { "x": 1 } }, "thoughtSignature": again },
            { "functionCall": { "id": "own", "name": "g" }, "thoughtSignature": "Z2VtaW5p" } ] },
        { "role": "user", "parts": [
            { "functionResponse": { "id": "own", "name": "g", "response": { "output": "second" } } },
            { "functionResponse": { "name": "f", "response": { "error": "first" } } } ] },
        { "role": "user", "parts": [{ "functionResponse": { "name": "f", "response": { "of": "no call" } } }] },
    ]));
    let roles: Vec<Role> = read.turns.iter().map(|turn| turn.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::User, Role::User]);
    assert_eq!(read.turns[0].parts.len(), 2, "the user's parts stay apart");
    let said = read.turns[1].parts.as_slice();
    let [MessagePart::Thinking(thought), MessagePart::Text { text, .. }, MessagePart::Call(f), MessagePart::Call(g)] =
        said
    else {
        panic!("{said:?}")
    };
    assert_eq!((thought.text.as_str(), text.as_str()), ("hm", "look"));
    assert_eq!(thought.signature.as_deref(), Some("photofinish.anthropic.c2ln"), "it is unwrapped");
    assert_eq!((f.id.as_str(), f.arguments.as_str()), ("call_0", r#"{"x":1}"#));
    assert_eq!(f.signature.as_deref(), Some("photofinish.anthropic.x"), "in any alphabet");
    assert_eq!((g.id.as_str(), g.signature.as_deref()), ("own", Some("photofinish.gemini.Z2VtaW5p")));
    let results: Vec<(&str, bool)> = read.turns[2]
        .parts
        .iter()
        .filter_map(|part| match part {
            MessagePart::Result(result) => Some((result.call_id.as_str(), result.is_error)),
            _ => None,
        })
        .collect();
    assert_eq!(results, [("own", false), ("call_0", true)]);
    assert_eq!(losses(&read), (vec!["contents[8].parts[0].functionResponse.name"], 0));
}

#[test]
fn a_result_that_stands_twice_is_read_once_and_by_its_own_call() {
    let result =
        |id: &str, said: &str| json!({ "functionResponse": { "id": id, "name": "f", "response": { "output": said } } });
    let read = contents(json!([
        { "role": "model", "parts": [{ "functionCall": { "id": "a", "name": "f" } }, { "functionCall": { "id": "b", "name": "f" } }] },
        { "role": "user", "parts": [result("a", "one"), result("a", "one"), result("b", "two"), result("b", "two")] },
    ]));
    let results = read.turns[1].parts.iter().map(|part| match part {
        MessagePart::Result(result) => (result.call_id.as_str(), result.parts.clone()),
        other => panic!("{other:?}"),
    });
    let said = |said: &str| vec![MessagePart::Text { text: said.to_owned(), cache: None }];
    assert_eq!(results.collect::<Vec<_>>(), [("a", said("one")), ("b", said("two"))]);
    assert_eq!((read.turns.len(), losses(&read)), (2, (vec![], 0)));
}

#[test]
fn media_are_read_by_their_type() {
    let read = contents(json!([{ "parts": [
        { "inline_data": { "mime_type": "image/PNG", "data": "aGk=" } },
        { "inlineData": { "mimeType": "audio/mpeg", "data": "aGk=" } },
        { "inlineData": { "mimeType": "application/pdf", "data": "aGk=" } },
        { "fileData": { "mimeType": "image/jpeg", "fileUri": "https://example.com/a.jpg" } },
        { "fileData": { "fileUri": "gs://bucket/a.pdf" } },
        { "inlineData": { "mimeType": "video/mp4", "data": "aGk=" } },
        { "executableCode": { "code": "1" } },
    ] }]));
    let kinds: Vec<&str> = read.turns[0]
        .parts
        .iter()
        .map(|part| match part {
            MessagePart::Image(image) if matches!(image.source, Source::Base64 { .. }) => "image",
            MessagePart::Image(_) => "image by address",
            MessagePart::Audio(audio) => {
                if audio.format == "mp3" {
                    "mp3"
                } else {
                    "audio"
                }
            }
            MessagePart::Document(document) if matches!(document.source, Source::File(_)) => "file",
            MessagePart::Document(_) => "document",
            _ => "other",
        })
        .collect();
    assert_eq!(kinds, ["image", "mp3", "document", "image by address", "file"]);
    assert_eq!(losses(&read), (vec!["video/mp4", "contents[0].parts[6].executableCode"], 2));
}

#[test]
fn a_list_of_one_may_lack_its_brackets() {
    let tools = json!([{ "functionDeclarations": [{ "name": "f" }] }]);
    let listed = read(
        json!({ "contents": [{ "parts": [{ "text": "x" }] }], "tools": tools, "systemInstruction": { "parts": [{ "text": "s" }] } }),
    );
    let single = read(json!({
        "contents": { "parts": { "text": "x" } }, "system_instruction": { "parts": { "text": "s" } },
        "tools": { "function_declarations": { "name": "f" } },
    }));
    assert_eq!(single, listed);
    assert_eq!((single.turns.len(), single.tools.len(), single.system.len()), (1, 1, 1));
    let member = |name: &str| (name == "tools").then_some("{}").or((name == "contents").then_some("[{}]"));
    assert!(crate::gemini::check(&member, false).is_ok());
}

#[test]
fn options_have_both_spellings() {
    for config in [
        json!({ "generationConfig": { "maxOutputTokens": 9, "topP": 0.9, "topK": 5.0, "stopSequences": ["a"], "seed": 7,
            "candidateCount": 2, "thinkingConfig": { "thinkingBudget": 1024, "includeThoughts": true } } }),
        json!({ "generation_config": { "max_output_tokens": 9, "top_p": 0.9, "top_k": 5, "stop_sequences": ["a"], "seed": 7,
            "candidate_count": 2, "thinking_config": { "thinking_budget": 1024, "include_thoughts": true } } }),
    ] {
        let read = read(config);
        let sampling = &read.sampling;
        assert_eq!((sampling.max_tokens, sampling.top_p, sampling.top_k), (Some(9), Some(0.9), Some(5)));
        assert_eq!((sampling.seed, sampling.n, sampling.stop.as_slice()), (Some(7), Some(2), &["a".to_owned()][..]));
        let reasoning = Reasoning { budget: Some(1024), show: Some(true), ..Reasoning::default() };
        assert_eq!((read.reasoning.as_ref(), losses(&read)), (Some(&reasoning), (vec![], 0)));
    }
    let thinks = |config: Value| read(json!({ "generationConfig": { "thinkingConfig": config } })).reasoning;
    assert_eq!(thinks(json!({ "thinkingBudget": 0 })).and_then(|reasoning| reasoning.enabled), Some(false));
    assert_eq!(thinks(json!({ "thinkingBudget": -1 })).and_then(|reasoning| reasoning.enabled), Some(true));
    assert_eq!(thinks(json!({ "thinkingLevel": "LOW" })).and_then(|reasoning| reasoning.effort), Some(Effort::Low));
    assert_eq!(thinks(json!({})), None);
    let plain = json!({ "responseModalities": ["TEXT"], "responseMimeType": "text/plain", "presencePenalty": 0 });
    assert_eq!(losses(&read(json!({ "generationConfig": plain }))), (vec![], 0));
    let lost = read(json!({
        "cachedContent": "c", "labels": { "a_b": "c" }, "safetySettings": [{}], "tools": [{ "googleSearch": {} }],
        "generationConfig": { "responseModalities": ["IMAGE"], "speechConfig": { "languageCode": "de" } },
    }));
    let meaning =
        ["googleSearch", "generationConfig.responseModalities", "generationConfig.speechConfig", "cachedContent"];
    assert_eq!(losses(&lost), ([&meaning[..], &["labels", "safetySettings"]].concat(), 4));
}

#[test]
fn tools_and_schemas_become_json_schema() {
    let schema = json!({ "type": "OBJECT", "nullable": true, "propertyOrdering": ["a_b"], "properties": {
        "a_b": { "type": "ARRAY", "minItems": "1", "items": { "type": "STRING", "enum": ["X"] } } } });
    let expected = json!({ "type": ["object", "null"], "properties": {
        "a_b": { "type": "array", "minItems": 1, "items": { "type": "string", "enum": ["X"] } } } });
    let read = read(json!({
        "tools": [{ "function_declarations": [{ "name": "f", "description": "d", "parameters": schema }] }],
        "toolConfig": { "functionCallingConfig": { "mode": "ANY", "allowedFunctionNames": ["f"] } },
        "generationConfig": { "responseMimeType": "application/json", "responseSchema": schema },
    }));
    assert_eq!(read.tools[0].parameters.as_ref(), Some(&expected));
    assert_eq!(read.tool_choice, Some(ToolChoice::Named("f".into())));
    assert!(matches!(&read.format, Some(Format::Schema { schema, .. }) if *schema == expected));
    let choice = |calling: Value| {
        let read = self::read(json!({ "toolConfig": { "functionCallingConfig": calling } }));
        (read.tool_choice.clone(), losses(&read).1)
    };
    assert_eq!(choice(json!({ "mode": "AUTO" })), (None, 0));
    assert_eq!(choice(json!({ "mode": "NONE" })), (Some(ToolChoice::None), 0));
    assert_eq!(choice(json!({ "mode": "ANY" })), (Some(ToolChoice::Required), 0));
    let two = json!({ "mode": "ANY", "allowedFunctionNames": ["f", "g"] });
    assert_eq!(choice(two), (Some(ToolChoice::Required), 1), "no other dialect restricts the choice to some");
}

#[test]
fn what_is_wrong_is_named() {
    for (body, words) in [
        (json!({}), "contents is not specified"),
        (json!({ "contents": 1 }), "'contents'"),
        (json!({ "contents": [1] }), "'contents[0]'"),
        (json!({ "contents": [{ "role": "bot", "parts": [] }] }), "'bot'"),
        (json!({ "contents": [{ "parts": [{ "text": 1 }] }] }), "'contents[0].parts[0].text'"),
        (json!({ "contents": [{ "parts": [{ "functionCall": {} }] }] }), "functionCall.name"),
        (json!({ "contents": [{ "parts": [{ "inlineData": { "data": "x" } }] }] }), "inlineData.mimeType"),
        (json!({ "contents": [], "generationConfig": { "temperature": "x" } }), "generationConfig.temperature"),
        (json!({ "contents": [], "generationConfig": { "responseMimeType": "text/x.enum" } }), "application/json"),
        (json!({ "contents": [], "generationConfig": { "thinkingConfig": { "thinkingLevel": "MUCH" } } }), "'MUCH'"),
        (json!({ "contents": [], "tools": [{ "functionDeclarations": [{}] }] }), "functionDeclarations[0].name"),
    ] {
        let said = Surface::Gemini.conversation(body.to_string().as_bytes()).unwrap_err().message;
        assert!(said.contains(words), "{body}: {said}");
    }
}

fn answer() -> Vec<AnswerPiece> {
    let call = |call: u32, name: &str| {
        let (id, signature) = (format!("c{call}"), (call == 0).then(|| "photofinish.gemini.Z2Vt".to_owned()));
        AnswerPiece::Call { index: 0, call, id, name: name.into(), custom: false, signature }
    };
    let arguments = |call: u32, text: &str| AnswerPiece::Arguments { index: 0, call, text: text.into() };
    vec![
        AnswerPiece::Start { id: Some("r".into()), model: Some("real".into()) },
        AnswerPiece::Thinking { index: 0, block: 0, text: "hm".into() },
        AnswerPiece::Signature { index: 0, block: 0, signature: "photofinish.anthropic.c2ln".into() },
        AnswerPiece::Text { index: 0, text: "lo".into() },
        AnswerPiece::Text { index: 0, text: "ok".into() },
        call(0, "f"),
        arguments(0, "{\"x\""),
        arguments(0, ":1}"),
        call(1, "g"),
        AnswerPiece::Finish { index: 0, finish: FinishReason::ToolCalls },
        AnswerPiece::Usage(Usage {
            input_tokens: Some(3),
            cached_input_tokens: Some(1),
            output_tokens: Some(5),
            reasoning_tokens: Some(2),
            ..Usage::default()
        }),
    ]
}

fn written() -> Vec<SseEvent> {
    let (mut writer, mut out) = (InTurn::new(GeminiWriter::new("asked")), BytesMut::new());
    with_ends(&answer()).into_iter().for_each(|piece| writer.write(piece, &mut out));
    writer.end(&mut out);
    let mut scanner = SseScanner::new(usize::MAX);
    scanner.push(out.freeze());
    std::iter::from_fn(|| scanner.next_event().unwrap()).collect()
}

#[test]
fn an_answer_is_events_that_gemini_s_reader_understands() {
    let (mut reader, mut pieces) = (GeminiReader::default(), Vec::new());
    for event in written() {
        reader.read(&event, &mut pieces);
    }
    let texts: String = pieces
        .iter()
        .filter_map(|piece| match piece {
            AnswerPiece::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(texts, "look");
    assert_eq!(pieces[0], AnswerPiece::Start { id: Some("r".into()), model: Some("real".into()) });
    assert!(pieces.contains(&AnswerPiece::Finish { index: 0, finish: FinishReason::ToolCalls }), "{pieces:#?}");
    let called: Vec<(&str, Option<&str>)> = pieces
        .iter()
        .filter_map(|piece| match piece {
            AnswerPiece::Call { name, signature, .. } => Some((name.as_str(), signature.as_deref())),
            _ => None,
        })
        .collect();
    assert_eq!(called, [("f", Some("photofinish.gemini.Z2Vt")), ("g", None)]);
    let usage = pieces.iter().rev().find_map(|piece| match piece {
        AnswerPiece::Usage(usage) => Some((usage.input_tokens, usage.output_tokens, usage.reasoning_tokens)),
        _ => None,
    });
    assert_eq!(usage, Some((Some(3), Some(5), Some(2))));
}

#[test]
fn events_become_a_whole_answer() {
    let mut growing = Surface::Gemini.growing();
    assert!(written().iter().all(|event| growing.add(event)));
    let whole = growing.finish().unwrap();
    let answer: Value = serde_json::from_slice(&whole.body).unwrap();
    let signature = STANDARD.encode("photofinish.anthropic.c2ln");
    assert_eq!(
        answer["candidates"][0]["content"],
        json!({ "role": "model", "parts": [
            { "text": "hm", "thought": true },
            { "text": "", "thought": true, "thoughtSignature": signature },
            { "text": "look" },
            { "functionCall": { "id": "c0", "name": "f", "args": { "x": 1 } }, "thoughtSignature": "Z2Vt" },
            { "functionCall": { "id": "c1", "name": "g", "args": {} } },
        ] })
    );
    let metadata = json!({ "promptTokenCount": 3, "cachedContentTokenCount": 1, "candidatesTokenCount": 3,
        "thoughtsTokenCount": 2, "totalTokenCount": 8 });
    assert_eq!((&answer["candidates"][0]["finishReason"], &answer["usageMetadata"]), (&json!("STOP"), &metadata));
    assert_eq!((&answer["responseId"], &answer["modelVersion"]), (&json!("r"), &json!("real")));
    assert!(!whole.says_nothing);
    let mut thought = Surface::Gemini.growing();
    let event = r#"data: {"candidates":[{"content":{"parts":[{"text":"hm","thought":true}]}}]}"#;
    assert!(thought.add(&SseEvent { raw: format!("{event}\n\n").into() }));
    assert!(thought.finish().unwrap().says_nothing);
    assert!(!Surface::Gemini.growing().add(&SseEvent { raw: "data: {\n\n".into() }));
}

#[test]
fn foreign_signatures_do_not_go_up_to_gemini() {
    let foreign = STANDARD.encode("photofinish.anthropic.c2ln");
    let body = |signature: &str| {
        json!({ "contents": [{ "role": "model", "parts": [
            { "text": "hm", "thought": true, "thoughtSignature": signature },
            { "text": "said", "thoughtSignature": signature },
            { "functionCall": { "name": "f" }, "thoughtSignature": signature },
        ] }] })
        .to_string()
    };
    let cleaned = without_reasoning(body(&foreign).as_bytes(), RemovedReasoning::Foreign).unwrap();
    let cleaned: Value = serde_json::from_slice(&cleaned).unwrap();
    assert_eq!(
        cleaned["contents"][0]["parts"],
        json!([
            { "text": "said" },
            { "functionCall": { "name": "f" }, "thoughtSignature": "skip_thought_signature_validator" },
        ])
    );
    assert_eq!(without_reasoning(body("Z2Vt").as_bytes(), RemovedReasoning::Foreign), None, "its own");
    assert!(without_reasoning(body("Z2Vt").as_bytes(), RemovedReasoning::All).is_some());
    assert_eq!(without_reasoning(br#"{"contents":[]}"#, RemovedReasoning::All), None);
}

#[test]
fn an_error_names_status_and_reason() {
    for (status, name) in [
        (400, "INVALID_ARGUMENT"),
        (401, "UNAUTHENTICATED"),
        (403, "PERMISSION_DENIED"),
        (404, "NOT_FOUND"),
        (429, "RESOURCE_EXHAUSTED"),
        (500, "INTERNAL"),
        (502, "UNAVAILABLE"),
        (503, "UNAVAILABLE"),
        (504, "DEADLINE_EXCEEDED"),
    ] {
        let error = ErrorShape { status, kind: "k", code: "c", message: "no", param: None, attempts: None };
        let shape = Surface::Gemini.error(&error);
        assert_eq!((&shape["error"]["code"], &shape["error"]["status"]), (&json!(status), &json!(name)));
        assert_eq!(shape["error"]["details"][0]["reason"], "c");
        assert_eq!(Surface::Gemini.error_event(&error), format!("data: {shape}\n\n"));
    }
}
