//! Conversations written as chat requests.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{conversation, request};
use photofinish_wire::conversation::*;
use photofinish_wire::quirks::TranslationOptions;
use photofinish_wire::quirks::{PastReasoning, Quirks};

fn of_quirks(quirks: Quirks) -> TranslationOptions {
    TranslationOptions { model: "m".to_owned(), quirks }
}

fn written(conversation: &Conversation) -> (Value, Vec<String>, bool) {
    let mut losses = Losses::default();
    let options = of_quirks(Quirks { past_reasoning: PastReasoning::Loop, ..Quirks::default() });
    let body = request(conversation, &options, &mut losses);
    (body, losses.names().map(str::to_owned).collect(), losses.keeps_settings())
}

fn text(text: &str) -> MessagePart {
    MessagePart::Text { text: text.into(), cache: None }
}

fn turn(role: Role, parts: Vec<MessagePart>) -> ConversationTurn {
    ConversationTurn { role, parts }
}

fn call(id: &str) -> MessagePart {
    MessagePart::Call(ToolCall { id: id.into(), name: "f".into(), ..ToolCall::default() })
}

fn result(id: &str, parts: Vec<MessagePart>) -> MessagePart {
    MessagePart::Result(ToolResult { call_id: id.into(), parts, ..ToolResult::default() })
}

fn thought(words: &str, signature: Option<&str>) -> MessagePart {
    MessagePart::Thinking(ReasoningPart {
        text: words.into(),
        signature: signature.map(str::to_owned),
        ..ReasoningPart::default()
    })
}

#[test]
fn results_follow_their_calls_and_their_images_come_behind() {
    let image = MessagePart::Image(Image {
        source: Source::Base64 { media_type: "image/png".into(), data: "QQ==".into() },
        detail: None,
        cache: None,
    });
    let (body, lost, _) = written(&Conversation {
        system: vec![text("be"), text("brief")],
        turns: vec![
            turn(Role::User, vec![text("one"), text("two")]),
            turn(Role::Assistant, vec![thought("old", Some("s")), text("ok")]),
            turn(Role::User, vec![text("go")]),
            turn(Role::Assistant, vec![thought("hm", None), text("now")]),
            turn(Role::Assistant, vec![call("a"), call("b")]),
            turn(Role::User, vec![text("by the way"), result("a", vec![text("1"), text("2")])]),
            turn(Role::User, vec![result("b", vec![image])]),
        ],
        ..Conversation::default()
    });
    let function = |id: &str| json!({ "id": id, "type": "function", "function": { "name": "f", "arguments": "{}" } });
    let expected = json!([
        { "role": "system", "content": "be\n\nbrief" },
        { "role": "user", "content": "one\n\ntwo" },
        { "role": "assistant", "content": "ok" },
        { "role": "user", "content": "go" },
        { "role": "assistant", "content": "now", "reasoning_content": "hm", "tool_calls": [function("a"), function("b")] },
        { "role": "tool", "tool_call_id": "a", "content": "1\n2" },
        { "role": "tool", "tool_call_id": "b", "content": "The result is attached in the next message of the user." },
        { "role": "user", "content": [
            { "type": "text", "text": "Attachments of the result of tool call b:" },
            { "type": "image_url", "image_url": { "url": "data:image/png;base64,QQ==" } },
        ] },
        { "role": "user", "content": "by the way" },
    ]);
    assert_eq!(body["messages"], expected);
    assert_eq!(lost, ["signature", "thinking"]);
}

#[test]
fn thoughts_go_back_only_to_who_takes_them() {
    let conversation = Conversation {
        turns: vec![
            turn(Role::User, vec![text("go")]),
            turn(Role::Assistant, vec![thought("hm", None), call("a")]),
            turn(Role::User, vec![result("a", vec![text("1")])]),
        ],
        ..Conversation::default()
    };
    let mut losses = Losses::default();
    let body = super::super::request(&conversation, &TranslationOptions::default(), &mut losses);
    assert!(body["messages"][1].get("reasoning_content").is_none(), "{body}");
    assert_eq!(losses.names().collect::<Vec<_>>(), ["thinking"]);
    assert_eq!(written(&conversation).0["messages"][1]["reasoning_content"], "hm");
}

#[test]
fn what_chat_cannot_say_is_told() {
    let cached = Some(CacheHint::default());
    let document = |source| MessagePart::Document(Document { source, name: Some("t".into()), cache: None });
    let image = |source| MessagePart::Image(Image { source, detail: None, cache: None });
    let signed = MessagePart::Call(ToolCall { id: "a".into(), signature: Some("s".into()), ..ToolCall::default() });
    let failed = MessagePart::Result(ToolResult { call_id: "a".into(), is_error: true, ..ToolResult::default() });
    for (role, part, name, decides) in [
        (Role::User, document(Source::Url("https://x.test/a.pdf".into())), Some("document_url"), true),
        (Role::User, document(Source::File("f".into())), Some("file_id"), true),
        (Role::User, image(Source::File("f".into())), Some("file_id"), true),
        (Role::User, document(Source::Text("words".into())), None, false),
        (Role::User, MessagePart::Text { text: "x".into(), cache: cached }, None, false),
        (Role::User, failed, Some("is_error"), false),
        (Role::Assistant, image(Source::Url("https://x.test/a.png".into())), Some("image"), true),
        (Role::Assistant, signed, Some("thought_signature"), false),
        (Role::Assistant, MessagePart::Refusal("no".into()), None, false),
    ] {
        let (body, lost, keeps) =
            written(&Conversation { turns: vec![turn(role, vec![part])], ..Conversation::default() });
        assert_eq!((lost.first().map(String::as_str), !keeps), (name, decides), "{body}");
    }
    let (body, ..) = written(&Conversation {
        turns: vec![turn(Role::User, vec![document(Source::Text("words".into()))])],
        ..Conversation::default()
    });
    assert_eq!(body["messages"][0]["content"], "t\n\nwords");
    let (body, lost, keeps) = written(&Conversation {
        user: Some("u".repeat(65)),
        metadata: json!({ "k": "v" }).as_object().cloned(),
        service_tier: Some("standard_only".into()),
        ..Conversation::default()
    });
    assert_eq!((lost, keeps), (["service_tier"].map(str::to_owned).into(), true), "{body}");
}

#[test]
fn options_have_their_names() {
    let (body, lost, _) = written(&Conversation {
        tools: vec![
            Tool {
                name: "f".into(),
                parameters: Some(json!({ "type": "object", "additionalProperties": false })),
                strict: Some(true),
                ..Tool::default()
            },
            Tool {
                name: "g".into(),
                custom: true,
                format: Some(json!({ "type": "grammar", "syntax": "lark", "definition": "x" })),
                ..Tool::default()
            },
        ],
        tool_choice: Some(ToolChoice::Named("g".into())),
        parallel_tool_calls: Some(false),
        format: Some(Format::Schema { name: None, description: None, schema: json!({}), strict: None }),
        sampling: Sampling { max_tokens: Some(5), stop: vec!["x".into()], top_k: Some(4), ..Sampling::default() },
        user: Some("u".into()),
        ..Conversation::default()
    });
    let expected = json!({
        "model": "m", "messages": [],
        "tools": [
            { "type": "function", "function": { "name": "f", "parameters": { "type": "object", "additionalProperties": false }, "strict": true } },
            { "type": "custom", "custom": { "name": "g", "format": {
                "type": "grammar", "grammar": { "definition": "x", "syntax": "lark" } } } },
        ],
        "tool_choice": { "type": "custom", "custom": { "name": "g" } },
        "parallel_tool_calls": false,
        "response_format": { "type": "json_schema", "json_schema": { "name": "answer", "schema": {} } },
        "max_tokens": 5, "top_k": 4, "stop": ["x"], "user": "u",
    });
    assert_eq!((body, lost), (expected, vec![]));
    let limited =
        Conversation { sampling: Sampling { max_tokens: Some(5), ..Sampling::default() }, ..Conversation::default() };
    let options = of_quirks(Quirks { max_completion_tokens: true, ..Quirks::default() });
    let body = request(&limited, &options, &mut Losses::default());
    assert_eq!((&body["max_completion_tokens"], body.get("max_tokens")), (&json!(5), None));
}

#[test]
fn a_later_system_turn_is_a_reminder_where_the_vendor_takes_none() {
    let conversation = Conversation {
        system: vec![text("Be kind.")],
        turns: vec![turn(Role::User, vec![text("Hi")]), turn(Role::System, vec![text("In French.")])],
        ..Conversation::default()
    };
    for (system_turns, role, content, lost) in [
        (None, "system", "In French.", None),
        (Some(true), "system", "In French.", None),
        (Some(false), "user", "<system-reminder>\nIn French.\n</system-reminder>", Some("messages[2].role")),
    ] {
        let mut losses = Losses::default();
        let options = of_quirks(Quirks { system_turns, ..Quirks::default() });
        let body = request(&conversation, &options, &mut losses);
        let roles: Vec<&str> =
            body["messages"].as_array().unwrap().iter().filter_map(|it| it["role"].as_str()).collect();
        assert_eq!(roles, ["system", "user", role]);
        assert_eq!(body["messages"][2]["content"], content);
        assert_eq!(losses.names().next(), lost);
        assert!(losses.keeps_settings());
    }
}

#[test]
fn reasoning_is_an_effort() {
    let none = Reasoning::default();
    for (reasoning, effort, lost) in [
        (
            Reasoning { enabled: Some(false), effort: Some(Effort::High), ..none.clone() },
            None,
            Some("reasoning_effort"),
        ),
        (Reasoning { enabled: Some(false), ..none.clone() }, None, Some("reasoning_effort")),
        (Reasoning { effort: Some(Effort::None), ..none.clone() }, Some("none"), None),
        (Reasoning { effort: Some(Effort::Minimal), ..none.clone() }, Some("minimal"), None),
        (Reasoning { budget: Some(31_999), ..none.clone() }, Some("high"), Some("budget_tokens")),
        (Reasoning { effort: Some(Effort::Max), ..none.clone() }, Some("max"), None),
        (Reasoning { budget: Some(1_024), ..none.clone() }, Some("low"), Some("budget_tokens")),
        (Reasoning { enabled: Some(true), ..none.clone() }, Some("medium"), None),
        (Reasoning { show: Some(true), ..none.clone() }, None, None),
        (Reasoning { encrypted: true, ..none }, None, Some("reasoning.encrypted_content")),
    ] {
        let (body, losses, keeps) =
            written(&Conversation { reasoning: Some(reasoning.clone()), ..Conversation::default() });
        assert_eq!(body.get("reasoning_effort").and_then(Value::as_str), effort, "{reasoning:?}");
        assert_eq!((losses.first().map(String::as_str), keeps), (lost, true), "{reasoning:?}");
    }
}

#[test]
fn openai_itself_lacks_what_other_servers_have() {
    let sampling = |stops: usize| Sampling { top_k: Some(4), stop: vec!["x".into(); stops], ..Sampling::default() };
    let own = of_quirks(Quirks { max_completion_tokens: true, ..Quirks::default() });
    for (options, stops, lost, written) in [
        (TranslationOptions::default(), 5, &[][..], 5),
        (own.clone(), 4, &["top_k"], 4),
        (own.clone(), 5, &["top_k", "stop"], 4),
    ] {
        let mut losses = Losses::default();
        let conversation = Conversation { sampling: sampling(stops), ..Conversation::default() };
        let body = request(&conversation, &options, &mut losses);
        assert_eq!(losses.deciding().collect::<Vec<_>>(), lost);
        assert_eq!((body["stop"].as_array().unwrap().len(), body.get("top_k").is_none()), (written, !lost.is_empty()));
    }
    let most = Reasoning { effort: Some(Effort::Max), ..Reasoning::default() };
    let conversation = Conversation { reasoning: Some(most), ..Conversation::default() };
    assert_eq!(request(&conversation, &own, &mut Losses::default())["reasoning_effort"], "xhigh");
}

#[test]
fn strict_is_sent_only_for_what_fits_it() {
    let open = json!({ "type": "object", "properties": { "a": {} }, "additionalProperties": false });
    let tool = Tool { name: "f".into(), parameters: Some(open.clone()), strict: Some(true), ..Tool::default() };
    let format = Format::Schema { name: None, description: None, schema: open, strict: Some(true) };
    let (body, lost, keeps) =
        written(&Conversation { tools: vec![tool], format: Some(format), ..Conversation::default() });
    assert_eq!(body["tools"][0]["function"]["strict"], false);
    assert_eq!(body["response_format"]["json_schema"]["strict"], false);
    assert_eq!((lost, keeps), (vec!["strict".to_owned()], true));
}

#[test]
fn a_system_message_stands_behind_the_results() {
    let (body, lost, _) = written(&Conversation {
        turns: vec![
            turn(Role::User, vec![text("go")]),
            turn(Role::Assistant, vec![call("a")]),
            turn(Role::System, vec![text("now")]),
            turn(Role::User, vec![result("a", vec![text("1")])]),
        ],
        ..Conversation::default()
    });
    let roles: Vec<&str> =
        body["messages"].as_array().unwrap().iter().filter_map(|message| message["role"].as_str()).collect();
    assert_eq!((roles, lost), (vec!["user", "assistant", "tool", "system"], vec![]));
}

/// Messages with only one form in chat.
fn any_messages() -> impl Strategy<Value = Value> {
    let words = "[a-zé \\n\"]{1,12}";
    let part = prop_oneof![
        words.prop_map(|url| json!({ "type": "image_url", "image_url": { "url": format!("https://{url}") } })),
        Just(json!({ "type": "image_url", "image_url": { "url": "data:image/png;base64,QQ==", "detail": "low" } })),
        Just(
            json!({ "type": "file", "file": { "filename": "a.pdf", "file_data": "data:application/pdf;base64,QQ==" } })
        ),
        Just(json!({ "type": "input_audio", "input_audio": { "data": "QQ==", "format": "mp3" } })),
    ];
    let user = prop_oneof![
        words.prop_map(Value::from),
        (words, part).prop_map(|(text, part)| json!([{ "type": "text", "text": text }, part])),
    ];
    let answer = (words, proptest::collection::vec((words, any::<bool>()), 0..3), any::<bool>());
    let exchange = (user, answer).prop_map(|(user, (text, calls, speaks))| {
        let mut messages = vec![json!({ "role": "user", "content": user })];
        let mut answer = json!({ "role": "assistant", "content": null });
        if speaks || calls.is_empty() {
            answer["content"] = Value::from(text);
        }
        let mut results = Vec::new();
        for (at, (input, custom)) in calls.iter().enumerate() {
            let id = format!("call_{at}");
            let call = match custom {
                true => json!({ "id": id, "type": "custom", "custom": { "name": "g", "input": input } }),
                false => json!({ "id": id, "type": "function", "function": { "name": "f", "arguments": "{\"a\":1}" } }),
            };
            if answer.get("tool_calls").is_none() {
                answer["tool_calls"] = json!([]);
            }
            answer["tool_calls"].as_array_mut().unwrap().push(call);
            results.push(json!({ "role": "tool", "tool_call_id": id, "content": input }));
        }
        messages.push(answer);
        messages.extend(results);
        messages
    });
    let system = proptest::option::of(words.prop_map(|text| json!({ "role": "developer", "content": text })));
    (system, proptest::collection::vec(exchange, 1..4))
        .prop_map(|(system, exchanges)| system.into_iter().chain(exchanges.into_iter().flatten()).collect::<Value>())
}

fn any_options() -> impl Strategy<Value = Vec<Value>> {
    let option = prop_oneof![
        (1_u64..9).prop_map(|n| json!({ "n": n, "max_tokens": n, "top_logprobs": n, "logprobs": true })),
        (0.0_f64..1.0)
            .prop_map(|x| json!({ "temperature": x, "top_p": x, "presence_penalty": x, "frequency_penalty": -x })),
        any::<i32>().prop_map(|seed| json!({ "seed": seed, "top_k": 1 + (seed & 7), "logit_bias": { "1": 2 } })),
        Just(json!({ "stop": "x", "user": "u", "verbosity": "high", "service_tier": "priority" })),
        Just(
            json!({ "tools": [{ "type": "function", "function": { "name": "f", "parameters": { "type": "object" } } }],
            "tool_choice": { "type": "function", "function": { "name": "f" } }, "parallel_tool_calls": false })
        ),
        Just(json!({ "tools": [{ "type": "custom", "custom": { "name": "g" } }], "tool_choice": "required" })),
        Just(json!({ "response_format": { "type": "json_object" }, "reasoning_effort": "minimal" })),
        Just(
            json!({ "response_format": { "type": "json_schema", "json_schema": { "name": "n", "schema": { "a": [] } } } })
        ),
    ];
    proptest::collection::vec(option, 0..4)
}

proptest! {
    #[test]
    fn what_is_read_and_written_means_the_same(messages in any_messages(), options in any_options()) {
        let mut body = json!({ "model": "m", "messages": messages });
        for option in options {
            body.as_object_mut().unwrap().extend(option.as_object().unwrap().clone());
        }
        let read = conversation(body.to_string().as_bytes()).unwrap();
        let (again, lost, _) = written(&read);
        prop_assert!(lost.is_empty() && read.losses.is_empty(), "{:?}", lost);
        prop_assert_eq!(conversation(again.to_string().as_bytes()).unwrap(), read, "{}", again);
    }

    /// Everything that can be read can be written, and the vendor accepts the messages.
    #[test]
    fn what_was_read_can_be_written(content in super::any_json(), result in super::any_json()) {
        let call = json!({ "id": "a", "type": "function", "function": { "name": "f", "arguments": "" } });
        let body = json!({ "messages": [
            { "role": "user", "content": content },
            { "role": "assistant", "content": content, "reasoning_details": content, "images": content, "tool_calls": [call] },
            { "role": "tool", "tool_call_id": "a", "content": result },
        ] });
        if let Ok(read) = conversation(body.to_string().as_bytes()) {
            let (again, ..) = written(&read);
            prop_assert!(conversation(again.to_string().as_bytes()).is_ok(), "{}", again);
        }
    }
}
