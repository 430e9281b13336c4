//! Chat requests, and their conversations.

use serde_json::{Value, json};

use super::super::conversation;
use photofinish_wire::conversation::*;

fn read(body: &Value) -> Conversation {
    conversation(body.to_string().as_bytes()).unwrap_or_else(|invalid| panic!("{body}: {invalid:?}"))
}

/// A request with one message and these members.
pub(super) fn with(members: &Value) -> Value {
    let mut body = json!({ "model": "m", "stream": true, "messages": [{ "role": "user", "content": "hi" }] });
    body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    body
}

fn text(text: &str) -> MessagePart {
    MessagePart::Text { text: text.into(), cache: None }
}

#[test]
fn messages_become_turns() {
    let read = read(&json!({ "messages": [
        { "role": "system", "content": "be brief" },
        { "role": "developer", "content": [{ "type": "text", "text": "be kind", "cache_control": { "type": "ephemeral", "ttl": "1h" } }] },
        { "role": "user", "content": [
            { "type": "text", "text": "look" },
            { "type": "image_url", "image_url": { "url": "https://x.test/a.png", "detail": "low" } },
            { "type": "image_url", "image_url": { "url": "data:image/PNG;base64,QUJD", "detail": "auto" } },
            { "type": "input_audio", "input_audio": { "data": "QQ==", "format": "wav" } },
            { "type": "file", "file": { "filename": "a.pdf", "file_data": "data:application/pdf;base64,QUJD" } },
            { "type": "file", "file": { "file_id": "file-1" } },
        ] },
        { "role": "assistant", "content": null, "refusal": null, "annotations": [], "audio": null,
          "reasoning_content": "hm", "tool_calls": [
            { "id": "a", "type": "function", "function": { "name": "f", "arguments": "{}" } },
            { "id": "b", "type": "custom", "custom": { "name": "g", "input": "raw" } },
        ] },
        { "role": "tool", "tool_call_id": "a", "content": "1" },
        { "role": "tool", "tool_call_id": "b", "content": [{ "type": "text", "text": "2" }] },
        { "role": "system", "content": "now in French" },
        { "role": "assistant", "content": "non", "refusal": "no" },
    ] }));
    assert!(read.losses.is_empty(), "{:?}", read.losses);
    let marked = MessagePart::Text { text: "be kind".into(), cache: Some(CacheHint { ttl: Some("1h".into()) }) };
    assert_eq!(read.system, [text("be brief"), marked]);
    let image = |source, detail: Option<&str>| {
        MessagePart::Image(Image { source, detail: detail.map(str::to_owned), cache: None })
    };
    let bytes = |media_type: &str| Source::Base64 { media_type: media_type.into(), data: "QUJD".into() };
    let document = |source, name: Option<&str>| {
        MessagePart::Document(Document { source, name: name.map(str::to_owned), cache: None })
    };
    let call = |id: &str, name: &str, arguments: &str, custom| {
        MessagePart::Call(ToolCall {
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
            custom,
            ..ToolCall::default()
        })
    };
    let result = |id: &str, name: &str, words, custom| {
        MessagePart::Result(ToolResult {
            call_id: id.into(),
            name: Some(name.into()),
            parts: vec![text(words)],
            custom,
            ..ToolResult::default()
        })
    };
    let thought = MessagePart::Thinking(ReasoningPart { text: "hm".into(), ..ReasoningPart::default() });
    let expected = [
        (
            Role::User,
            vec![
                text("look"),
                image(Source::Url("https://x.test/a.png".into()), Some("low")),
                image(bytes("image/png"), None),
                MessagePart::Audio(Audio { format: "wav".into(), data: "QQ==".into() }),
                document(bytes("application/pdf"), Some("a.pdf")),
                document(Source::File("file-1".into()), None),
            ],
        ),
        (Role::Assistant, vec![thought, call("a", "f", "{}", false), call("b", "g", "raw", true)]),
        (Role::User, vec![result("a", "f", "1", false), result("b", "g", "2", true)]),
        (Role::System, vec![text("now in French")]),
        (Role::Assistant, vec![text("non"), MessagePart::Refusal("no".into())]),
    ];
    assert_eq!(read.turns, expected.map(|(role, parts)| ConversationTurn { role, parts }));
}

#[test]
fn legacy_functions_are_calls_too() {
    let read = read(&json!({
        "functions": [{ "name": "f", "parameters": { "type": "object" } }], "function_call": { "name": "f" },
        "messages": [
            { "role": "user", "content": "hi" },
            { "role": "assistant", "content": null, "function_call": { "name": "f", "arguments": "{\"a\":1}" } },
            { "role": "function", "name": "f", "content": "done" },
        ],
    }));
    assert_eq!(read.tool_choice, Some(ToolChoice::Named("f".into())));
    let MessagePart::Call(call) = &read.turns[1].parts[0] else { panic!("{read:?}") };
    let MessagePart::Result(result) = &read.turns[2].parts[0] else { panic!("{read:?}") };
    assert_eq!((&call.id, call.name.as_str(), call.arguments.as_str()), (&result.call_id, "f", "{\"a\":1}"));
    assert!(!call.id.is_empty() && read.losses.is_empty());
    assert!(read.legacy_functions && read.parallel_tool_calls.is_none() && read.parallel_calls() == Some(false));
}

#[test]
fn earlier_thoughts_are_kept_with_what_proves_them() {
    let thoughts = |members: Value| {
        let mut message = json!({ "role": "assistant", "content": "x" });
        message.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let read = read(&json!({ "messages": [message] }));
        assert!(read.losses.is_empty(), "{:?}", read.losses);
        let parts = read.turns.into_iter().flat_map(|turn| turn.parts);
        let thoughts = parts.filter_map(|part| match part {
            MessagePart::Thinking(ReasoningPart { text, signature, redacted, id }) => {
                Some((text, signature, redacted, id))
            }
            _ => None,
        });
        thoughts.collect::<Vec<_>>()
    };
    let some = |text: &str| Some(text.to_owned());
    let plain = vec![("a".to_owned(), None, false, None)];
    for name in ["reasoning_content", "reasoning"] {
        assert_eq!(thoughts(json!({ name: "a" })), plain, "{name}");
    }
    let signed = |owner: &str| {
        let made = |data: &str| Some(format!("photofinish.{owner}.{data}"));
        vec![("a".to_owned(), made("s"), false, None), (String::new(), made("d"), true, None)]
    };
    let blocks = json!({ "reasoning_content": "a", "thinking_blocks": [
        { "type": "thinking", "thinking": "a", "signature": "s" }, { "type": "redacted_thinking", "data": "d" },
    ] });
    // A bare signature belongs to the vendor of its format.
    assert_eq!(thoughts(blocks), signed("anthropic"));
    let details = json!({ "reasoning": "a", "reasoning_details": [
        { "type": "reasoning.text", "text": "a", "signature": "s", "index": 0 },
        { "type": "reasoning.encrypted", "data": "d", "index": 1 },
    ] });
    assert_eq!(thoughts(details), signed("openai"));
    let summary = json!({ "reasoning_details": [
        { "type": "reasoning.summary", "summary": "a", "id": "rs_1" },
        { "type": "reasoning.encrypted", "data": "d", "id": "rs_1" },
    ] });
    assert_eq!(thoughts(summary), [("a".to_owned(), some("photofinish.openai.d"), false, some("rs_1"))]);
    let parts = json!({ "content": [
        { "type": "thinking", "thinking": [{ "type": "text", "text": "a" }] }, { "type": "text", "text": "x" },
    ] });
    assert_eq!(thoughts(parts), plain);
}

#[test]
fn options_are_read_under_all_their_names() {
    let read = read(&with(&json!({
        "max_tokens": 9, "max_completion_tokens": 7, "temperature": 0.5, "top_p": 1, "top_k": 40, "presence_penalty": 0.1,
        "frequency_penalty": 0, "seed": -3, "n": 2, "stop": ["a", "b"], "logprobs": true, "top_logprobs": 3,
        "logit_bias": { "50256": -100 }, "user": "u", "metadata": { "k": "v" }, "service_tier": "flex", "verbosity": "low",
        "reasoning_effort": "low", "response_format": { "type": "json_schema", "json_schema": {
            "name": "n", "description": "d", "schema": { "type": "object" }, "strict": true } },
    })));
    assert!(read.losses.is_empty(), "{:?}", read.losses);
    let sampling = Sampling {
        max_tokens: Some(7),
        temperature: Some(0.5),
        top_p: Some(1.0),
        top_k: Some(40),
        presence_penalty: Some(0.1),
        frequency_penalty: None,
        seed: Some(-3),
        n: Some(2),
        stop: vec!["a".into(), "b".into()],
        logprobs: Some(true),
        top_logprobs: Some(3),
        logit_bias: Some(json!({ "50256": -100 })),
    };
    assert_eq!(read.sampling, sampling);
    let schema = Format::Schema {
        name: Some("n".into()),
        description: Some("d".into()),
        schema: json!({ "type": "object" }),
        strict: Some(true),
    };
    assert_eq!(read.format, Some(schema));
    assert_eq!(
        (read.user.as_deref(), read.service_tier.as_deref(), read.verbosity.as_deref()),
        (Some("u"), Some("flex"), Some("low"))
    );
    assert_eq!(read.metadata.unwrap()["k"], "v");
}

#[test]
fn reasoning_is_asked_for_in_three_ways() {
    let none = Reasoning::default();
    let table = [
        (json!({ "reasoning_effort": "minimal" }), Reasoning { effort: Some(Effort::Minimal), ..none.clone() }),
        (
            json!({ "reasoning": { "max_tokens": 2000, "exclude": true } }),
            Reasoning { budget: Some(2_000), show: Some(false), ..none.clone() },
        ),
        (
            json!({ "reasoning": { "enabled": true, "effort": "high", "summary": "auto" } }),
            Reasoning { enabled: Some(true), effort: Some(Effort::High), show: Some(true), ..none.clone() },
        ),
        (
            json!({ "thinking": { "type": "enabled", "budget_tokens": 1024 } }),
            Reasoning { enabled: Some(true), budget: Some(1_024), ..none.clone() },
        ),
        (json!({ "thinking": { "type": "disabled" } }), Reasoning { enabled: Some(false), ..none }),
    ];
    for (members, expected) in table {
        assert_eq!(read(&with(&members)).reasoning, Some(expected), "{members}");
    }
}

#[test]
fn tools_and_the_choice_among_them() {
    let function = json!({ "type": "function", "function": {
        "name": "f", "description": "d", "parameters": { "type": "object" }, "strict": true }, "cache_control": { "type": "ephemeral" } });
    let custom = json!({ "type": "custom", "custom": { "name": "g", "format": {
        "type": "grammar", "grammar": { "syntax": "lark", "definition": "x" } } } });
    let tools = json!([function, custom]);
    let read_one = read(&with(&json!({ "tools": tools, "parallel_tool_calls": false })));
    let expected = [
        Tool {
            name: "f".into(),
            description: Some("d".into()),
            parameters: Some(json!({ "type": "object" })),
            strict: Some(true),
            cache: Some(CacheHint::default()),
            ..Tool::default()
        },
        Tool {
            name: "g".into(),
            custom: true,
            format: Some(json!({ "type": "grammar", "syntax": "lark", "definition": "x" })),
            ..Tool::default()
        },
    ];
    assert_eq!((read_one.tools.as_slice(), read_one.parallel_tool_calls), (&expected[..], Some(false)));
    for (choice, expected, lost) in [
        (json!("auto"), ToolChoice::Auto, None),
        (json!("none"), ToolChoice::None, None),
        (json!("required"), ToolChoice::Required, None),
        (json!({ "type": "function", "function": { "name": "f" } }), ToolChoice::Named("f".into()), None),
        (json!({ "type": "custom", "custom": { "name": "g" } }), ToolChoice::Named("g".into()), None),
        (
            json!({ "type": "allowed_tools", "allowed_tools": { "mode": "required", "tools": [] } }),
            ToolChoice::Required,
            Some("tool_choice.allowed_tools"),
        ),
    ] {
        let read = read(&with(&json!({ "tools": tools, "tool_choice": choice })));
        assert_eq!(read.tool_choice, Some(expected), "{choice}");
        assert_eq!(read.losses.deciding().next(), lost, "{choice}");
    }
    assert_eq!(read(&with(&json!({ "tool_choice": "auto", "parallel_tool_calls": true }))).tool_choice, None);
}

#[test]
fn what_has_no_place_is_told() {
    let names = |members: Value| {
        let losses = read(&with(&members)).losses;
        let meaning = losses.deciding().collect::<Vec<_>>().len();
        (losses.names().map(str::to_owned).collect::<Vec<_>>(), meaning)
    };
    for nothing in [
        json!({ "store": false, "n": 1, "logprobs": false, "logit_bias": {}, "modalities": ["text"], "top_logprobs": 0 }),
        json!({ "odd": null, "seed": null, "tools": null, "audio": null, "min_p": 0, "repetition_penalty": 1.0, "top_k": -1 }),
        json!({ "stream_options": { "include_usage": true }, "parallel_tool_calls": true, "service_tier": "auto", "metadata": {} }),
        json!({ "response_format": { "type": "text" } }),
    ] {
        assert_eq!(names(nothing.clone()), (vec![], 0), "{nothing}");
    }
    for (members, name, decides) in [
        (json!({ "odd": 1 }), "odd", true),
        (json!({ "modalities": ["text", "audio"] }), "modalities", true),
        (json!({ "web_search_options": {} }), "web_search_options", true),
        (json!({ "min_p": 0.1 }), "min_p", true),
        (json!({ "tools": [{ "type": "web_search" }] }), "web_search", true),
        (json!({ "reasoning": { "odd": 1 } }), "reasoning.odd", true),
        (json!({ "messages": [{ "role": "user", "content": "x", "name": "Ann" }] }), "messages.name", false),
        (json!({ "messages": [{ "role": "assistant", "audio": { "id": "a" } }] }), "messages[0].audio", true),
        (
            json!({ "messages": [{ "role": "assistant", "content": "x", "annotations": [{}] }] }),
            "messages[0].annotations",
            false,
        ),
        (
            json!({ "messages": [{ "role": "user", "content": [{ "type": "image_url", "image_url": { "url": "u", "odd": "x" } }] }] }),
            "messages[0].content[0].image_url.odd",
            true,
        ),
        (
            json!({ "tools": [{ "type": "function", "function": { "name": "f", "odd": 1 } }] }),
            "tools[0].function.odd",
            false,
        ),
        (json!({ "store": true }), "store", false),
        (json!({ "prediction": { "type": "content", "content": "x" } }), "prediction", false),
        (json!({ "prompt_cache_key": "k" }), "prompt_cache_key", false),
        (json!({ "user": "a", "safety_identifier": "b" }), "safety_identifier", false),
    ] {
        let lost = names(members.clone());
        // A tool that cannot be translated is reported with its members.
        assert_eq!((lost.0.first().map(String::as_str), lost.1 > 0), (Some(name), decides), "{members}");
    }
}
