//! Conversations written as requests.

use super::*;
use photofinish_wire::conversation::{
    CacheHint, ConversationTurn, Document, Effort, Format, Image, MessagePart, Reasoning, ReasoningPart, Role,
    Sampling, Source, Tool, ToolCall, ToolChoice, ToolResult,
};

fn text(text: &str) -> MessagePart {
    MessagePart::Text { text: text.to_owned(), cache: None }
}

fn names(losses: &Losses) -> (Vec<&str>, Vec<&str>) {
    let meaning: Vec<&str> = losses.deciding().collect();
    let hints = losses.names().skip(meaning.len()).collect();
    (meaning, hints)
}

/// Parts of every kind.
fn a_conversation() -> Conversation {
    let call = |id: &str, custom| {
        MessagePart::Call(ToolCall { id: id.to_owned(), name: "f".to_owned(), custom, ..ToolCall::default() })
    };
    let result = |id: &str, parts, custom| {
        MessagePart::Result(ToolResult { call_id: id.to_owned(), parts, custom, ..ToolResult::default() })
    };
    let image = |source| MessagePart::Image(Image { source, detail: None, cache: None });
    let png = Source::Base64 { media_type: "image/png".to_owned(), data: "AA".to_owned() };
    let document = |source, name: Option<&str>| {
        MessagePart::Document(Document { source, name: name.map(str::to_owned), cache: None })
    };
    let pdf = Source::Base64 { media_type: "application/pdf".to_owned(), data: "BB".to_owned() };
    let own = ReasoningPart {
        text: "hm".to_owned(),
        signature: Some("photofinish.responses.gAAA".to_owned()),
        id: Some("rs_1".to_owned()),
        redacted: false,
    };
    Conversation {
        system: vec![text("one"), text("two")],
        turns: vec![
            ConversationTurn {
                role: Role::User,
                parts: vec![
                    text("look"),
                    image(png.clone()),
                    document(pdf, None),
                    document(Source::Url("https://x/a.pdf".to_owned()), None),
                    document(Source::Text("words".to_owned()), Some("a.txt")),
                ],
            },
            ConversationTurn {
                role: Role::Assistant,
                parts: vec![MessagePart::Thinking(own), text("ok"), call("c1", false), call("c2", true), text("more")],
            },
            ConversationTurn {
                role: Role::User,
                parts: vec![
                    result("c1", vec![text("42")], false),
                    result("c2", vec![text("see"), image(png)], true),
                    text("go"),
                ],
            },
            ConversationTurn { role: Role::System, parts: vec![text("later")] },
        ],
        ..Conversation::default()
    }
}

#[test]
fn a_conversation_is_written_item_by_item() {
    let (request, losses) = request_of(&a_conversation());
    assert!(losses.is_empty(), "{losses:?}");
    let image = json!({ "type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "auto" });
    let said = |text: &str| json!({ "type": "output_text", "text": text, "annotations": [] });
    assert_eq!(
        request,
        json!({
            "model": "m", "instructions": "one\n\ntwo", "store": false, "stream": true,
            "input": [
                { "type": "message", "role": "user", "content": [
                    { "type": "input_text", "text": "look" },
                    image,
                    { "type": "input_file", "filename": "document.pdf", "file_data": "data:application/pdf;base64,BB" },
                    { "type": "input_file", "file_url": "https://x/a.pdf" },
                    { "type": "input_text", "text": "a.txt\n\nwords" },
                ] },
                { "type": "reasoning", "id": "rs_1", "summary": [{ "type": "summary_text", "text": "hm" }], "encrypted_content": "gAAA" },
                { "type": "message", "role": "assistant", "content": [said("ok")] },
                { "type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}" },
                { "type": "custom_tool_call", "call_id": "c2", "name": "f", "input": "" },
                { "type": "message", "role": "assistant", "content": [said("more")] },
                { "type": "function_call_output", "call_id": "c1", "output": "42" },
                { "type": "custom_tool_call_output", "call_id": "c2", "output": [{ "type": "input_text", "text": "see" }, image] },
                { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "go" }] },
                { "type": "message", "role": "system", "content": [{ "type": "input_text", "text": "later" }] },
            ],
        })
    );
}

#[test]
fn a_system_prompt_alone_is_the_input() {
    let conversation = Conversation { system: vec![text("be brief")], ..Conversation::default() };
    let written = request(&conversation, &TranslationOptions::default(), &mut Losses::default());
    let content = json!([{ "type": "input_text", "text": "be brief" }]);
    assert_eq!(written["input"], json!([{ "type": "message", "role": "system", "content": content }]));
    assert_eq!(written.get("instructions"), None);
}

#[test]
fn options_have_their_places() {
    let conversation = Conversation {
        tools: vec![
            Tool { name: "f".to_owned(), description: Some("d".to_owned()), ..Tool::default() },
            Tool {
                name: "patch".to_owned(),
                custom: true,
                format: Some(json!({ "type": "grammar", "grammar": { "syntax": "lark", "definition": "x" } })),
                ..Tool::default()
            },
        ],
        tool_choice: Some(ToolChoice::Named("patch".to_owned())),
        parallel_tool_calls: Some(false),
        format: Some(Format::Schema {
            name: None,
            description: Some("d".to_owned()),
            schema: json!({ "type": "object", "additionalProperties": false }),
            strict: Some(true),
        }),
        reasoning: Some(Reasoning { budget: Some(4_096), enabled: Some(true), ..Reasoning::default() }),
        sampling: Sampling { max_tokens: Some(100), temperature: Some(0.5), top_p: Some(0.9), ..Sampling::default() },
        user: Some("who".to_owned()),
        metadata: json!({ "a": "b" }).as_object().cloned(),
        service_tier: Some("flex".to_owned()),
        verbosity: Some("low".to_owned()),
        ..Conversation::default()
    };
    let (request, losses) = request_of(&conversation);
    assert!(losses.is_empty(), "{losses:?}");
    assert_eq!(
        request,
        json!({
            "model": "m", "input": [], "store": false, "stream": true,
            "tools": [
                { "type": "function", "name": "f", "description": "d", "parameters": { "type": "object", "properties": {}, "additionalProperties": false }, "strict": false },
                { "type": "custom", "name": "patch", "format": { "type": "grammar", "syntax": "lark", "definition": "x" } },
            ],
            "tool_choice": { "type": "custom", "name": "patch" }, "parallel_tool_calls": false,
            "text": { "verbosity": "low", "format": { "type": "json_schema", "name": "response", "description": "d", "schema": { "type": "object", "additionalProperties": false }, "strict": true } },
            "reasoning": { "effort": "medium", "summary": "auto" }, "include": ["reasoning.encrypted_content"],
            "max_output_tokens": 100, "temperature": 0.5, "top_p": 0.9, "safety_identifier": "who",
            "metadata": { "a": "b" }, "service_tier": "flex",
        })
    );
}

#[test]
fn thinking_that_is_off_is_not_asked_for() {
    let reasoning = |reasoning: Reasoning| {
        let (request, _) = request_of(&Conversation { reasoning: Some(reasoning), ..Conversation::default() });
        (request["reasoning"].clone(), request["include"].clone())
    };
    let (effort, show) = (|effort| Some(effort), Some(true));
    let asked = || json!(["reasoning.encrypted_content"]);
    for (given, wanted, include) in [
        (Reasoning { enabled: Some(false), ..Reasoning::default() }, Value::Null, Value::Null),
        (
            Reasoning { enabled: Some(false), budget: Some(5_000), show, ..Reasoning::default() },
            Value::Null,
            Value::Null,
        ),
        (
            Reasoning { enabled: Some(false), effort: effort(Effort::None), ..Reasoning::default() },
            json!({ "effort": "none" }),
            Value::Null,
        ),
        (Reasoning { effort: effort(Effort::Max), ..Reasoning::default() }, json!({ "effort": "xhigh" }), asked()),
        (Reasoning { budget: Some(31_999), ..Reasoning::default() }, json!({ "effort": "high" }), asked()),
        (Reasoning { budget: Some(0), ..Reasoning::default() }, Value::Null, Value::Null),
        (
            Reasoning { enabled: Some(true), show: Some(false), ..Reasoning::default() },
            json!({ "effort": "medium" }),
            asked(),
        ),
        (Reasoning { show, ..Reasoning::default() }, json!({ "summary": "auto" }), asked()),
    ] {
        assert_eq!(reasoning(given.clone()), (wanted, include), "{given:?}");
    }
}

#[test]
fn strict_is_sent_only_for_what_fits_it() {
    let open = json!({ "type": "object", "properties": { "a": {} }, "additionalProperties": false });
    let tool = Tool { name: "f".into(), parameters: Some(open.clone()), strict: Some(true), ..Tool::default() };
    let format = Format::Schema { name: None, description: None, schema: open, strict: Some(true) };
    let (request, losses) =
        request_of(&Conversation { tools: vec![tool], format: Some(format), ..Conversation::default() });
    assert_eq!((&request["tools"][0]["strict"], &request["text"]["format"]["strict"]), (&json!(false), &json!(false)));
    assert_eq!(names(&losses), (vec![], vec!["strict"]));
}

#[test]
fn nothing_is_said_of_calls_where_there_are_no_tools() {
    let (request, losses) = request_of(&Conversation {
        tool_choice: Some(ToolChoice::Auto),
        parallel_tool_calls: Some(false),
        ..Conversation::default()
    });
    assert_eq!((request.get("tool_choice"), request.get("parallel_tool_calls")), (None, None));
    assert!(losses.is_empty());
}

#[test]
fn what_the_vendor_lacks_is_named() {
    let sampling = Sampling {
        top_k: Some(3),
        presence_penalty: Some(0.5),
        frequency_penalty: Some(0.0),
        seed: Some(1),
        n: Some(2),
        stop: vec!["x".to_owned()],
        logprobs: Some(true),
        top_logprobs: Some(0),
        logit_bias: Some(json!({ "1": 2 })),
        max_tokens: Some(1),
        ..Sampling::default()
    };
    let cache = Some(CacheHint::default());
    let foreign = ReasoningPart { signature: Some("photofinish.gemini.other".to_owned()), ..ReasoningPart::default() };
    let result = ToolResult { call_id: "c".to_owned(), is_error: true, ..ToolResult::default() };
    let lost = Image { source: Source::File("f".to_owned()), detail: None, cache: cache.clone() };
    let turn = |role, part| ConversationTurn { role, parts: vec![part] };
    let conversation = Conversation {
        turns: vec![
            turn(Role::User, MessagePart::Text { text: "x".to_owned(), cache }),
            turn(Role::Assistant, MessagePart::Thinking(foreign)),
            turn(Role::User, MessagePart::Result(result)),
            turn(Role::User, MessagePart::Image(lost)),
        ],
        user: Some("w".repeat(65)),
        metadata: json!({ "a": 1 }).as_object().cloned(),
        service_tier: Some("standard_only".to_owned()),
        sampling,
        ..Conversation::default()
    };
    let (request, losses) = request_of(&conversation);
    let (meaning, hints) = names(&losses);
    assert_eq!(meaning, ["file_id", "top_k", "presence_penalty", "seed", "stop", "n", "logprobs", "logit_bias"]);
    assert_eq!(hints, ["reasoning", "is_error", "max_tokens", "service_tier"]);
    assert_eq!(request["max_output_tokens"], 16);
    assert_eq!(request["input"].as_array().unwrap().len(), 2);
    let fine = Sampling { n: Some(1), logprobs: Some(false), logit_bias: Some(json!({})), ..Sampling::default() };
    assert!(request_of(&Conversation { sampling: fine, ..Conversation::default() }).1.is_empty());
}

/// Items as an app writes them.
fn an_item() -> impl Strategy<Value = Value> {
    let text = "\\PC{0,12}";
    prop_oneof![
        (text, proptest::sample::select(vec!["user", "system", "developer"]))
            .prop_map(|(text, role)| json!({ "role": role, "content": text })),
        (text, any::<bool>()).prop_map(|(text, low)| {
            let detail = if low { "low" } else { "auto" };
            json!({ "type": "message", "role": "user", "content": [
                { "type": "input_text", "text": text },
                { "type": "input_image", "image_url": "data:image/gif;base64,AAAA", "detail": detail },
            ] })
        }),
        text.prop_map(|text| json!({ "role": "assistant", "content": [{ "type": "output_text", "text": text }] })),
        (text, "[a-z]{1,3}").prop_map(|(text, id)| json!({
            "type": "function_call", "call_id": id, "name": "f", "arguments": text,
        })),
        (text, "[a-z]{1,3}").prop_map(|(text, id)| json!({
            "type": "custom_tool_call", "call_id": id, "name": "g", "input": text,
        })),
        (text, "[a-z]{1,3}", any::<bool>()).prop_map(|(text, id, custom)| {
            let kind = if custom { "custom_tool_call_output" } else { "function_call_output" };
            json!({ "type": kind, "call_id": id, "output": text })
        }),
        (text, "[a-z]{1,3}").prop_map(|(text, id)| json!({
            "type": "reasoning", "id": id, "summary": [{ "type": "summary_text", "text": text }], "encrypted_content": "gAAA",
        })),
    ]
}

proptest! {
    /// A request that is read, written and read again has the same meaning.
    #[test]
    fn nothing_changes_on_the_way_through(
        items in proptest::collection::vec(an_item(), 0..12),
        effort in proptest::option::of(proptest::sample::select(vec!["none", "low", "xhigh"])),
        temperature in proptest::option::of(0.0..2.0_f64),
        tokens in proptest::option::of(16..9_999_u64),
    ) {
        let body = json!({
            "model": "m", "input": items, "temperature": temperature, "max_output_tokens": tokens, "store": false,
            "reasoning": { "effort": effort }, "tools": [{ "type": "function", "name": "f", "parameters": { "type": "object", "additionalProperties": false }, "strict": true }],
        });
        let first = conversation_of(&body);
        prop_assert!(first.losses.is_empty());
        let (request, losses) = request_of(&first);
        prop_assert!(losses.is_empty());
        let mut second = conversation_of(&request);
        // The written request asks for encrypted reasoning, which the first did not.
        if let (Some(second), Some(first)) = (&mut second.reasoning, &first.reasoning) {
            second.encrypted = first.encrypted;
        }
        // Several system prompts became one.
        let prompts: Vec<&str> = first.system.iter().filter_map(|part| match part {
            MessagePart::Text { text, .. } => Some(text.as_str()),
            _ => None,
        }).collect();
        let joined = prompts.join("\n\n");
        let expected = if joined.is_empty() { Vec::new() } else { vec![text(&joined)] };
        prop_assert_eq!(&second.system, &expected);
        let (mut first, mut second) = (first, second);
        (first.echo, second.echo) = Default::default();
        for conversation in [&mut first, &mut second] {
            conversation.system.clear();
            for part in conversation.turns.iter_mut().flat_map(|turn| &mut turn.parts) {
                match part {
                    // Empty arguments become an empty object.
                    MessagePart::Call(call) if call.arguments.is_empty() && !call.custom => call.arguments.push_str("{}"),
                    _ => {}
                }
            }
        }
        prop_assert_eq!(first, second);
    }
}
