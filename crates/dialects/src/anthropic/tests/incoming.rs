//! Incoming requests: those that the vendor would refuse, the resulting conversation, and the losses.

use super::*;
use photofinish_wire::conversation::{
    CacheHint, Document, Effort, Format, Image, MessagePart, Reasoning, ReasoningPart, Role, Source, Tool, ToolCall,
    ToolChoice, ToolResult,
};

fn read_body(members: Value) -> Conversation {
    conversation_of(&body(members)).unwrap()
}

fn losses_of(members: Value) -> (Vec<String>, Vec<String>) {
    let losses = read_body(members).losses;
    let meaning = losses.deciding().map(str::to_owned).collect::<Vec<_>>();
    let hints = losses.names().skip(meaning.len()).map(str::to_owned).collect();
    (meaning, hints)
}

fn text_part(text: &str) -> MessagePart {
    MessagePart::Text { text: text.to_owned(), cache: None }
}

fn image(source: Source) -> MessagePart {
    MessagePart::Image(Image { source, detail: None, cache: None })
}

fn document(source: Source, name: Option<&str>) -> MessagePart {
    MessagePart::Document(Document { source, name: name.map(str::to_owned), cache: None })
}

fn base64(media_type: &str, data: &str) -> Source {
    Source::Base64 { media_type: media_type.to_owned(), data: data.to_owned() }
}

#[test]
fn every_block_becomes_a_part() {
    let hint = Some(CacheHint { ttl: Some("1h".to_owned()) });
    let read = conversation_of(&json!({
        "model": "m", "max_tokens": 100,
        "system": [{ "type": "text", "text": "Be brief.", "cache_control": { "type": "ephemeral", "ttl": "1h" } }],
        "messages": [
            { "role": "user", "content": [
                { "type": "text", "text": "See:" },
                { "type": "image", "source": { "type": "url", "url": "https://e.x/a.png" } },
                { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "iVBO" } },
                { "type": "document", "source": { "type": "base64", "media_type": "application/pdf", "data": "JVBE" }, "title": "A" },
                { "type": "document", "source": { "type": "content", "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }] } },
                { "type": "document", "source": { "type": "file", "file_id": "file_1" } },
            ] },
            { "role": "assistant", "content": [
                { "type": "thinking", "thinking": "hm", "signature": "EqQB" },
                { "type": "redacted_thinking", "data": "EtgB" },
                { "type": "tool_use", "id": "toolu_1", "name": "get", "input": { "a": 1 } },
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "toolu_1", "is_error": true, "content": [{ "type": "text", "text": "no" }] },
                { "type": "tool_result", "tool_use_id": "toolu_9" },
            ] },
            { "role": "system", "content": "Now in French." },
        ],
    }))
    .unwrap();
    assert!(read.losses.is_empty());
    assert_eq!(read.system, [MessagePart::Text { text: "Be brief.".to_owned(), cache: hint }]);
    let expected = [
        text_part("See:"),
        image(Source::Url("https://e.x/a.png".to_owned())),
        image(base64("image/png", "iVBO")),
        document(base64("application/pdf", "JVBE"), Some("A")),
        document(Source::Text("a\n\nb".to_owned()), None),
        document(Source::File("file_1".to_owned()), None),
    ];
    assert_eq!(read.turns[0].parts, expected);
    let expected = [
        MessagePart::Thinking(ReasoningPart {
            text: "hm".to_owned(),
            signature: Some("photofinish.anthropic.EqQB".to_owned()),
            ..ReasoningPart::default()
        }),
        MessagePart::Thinking(ReasoningPart {
            signature: Some("photofinish.anthropic.EtgB".to_owned()),
            redacted: true,
            ..ReasoningPart::default()
        }),
        MessagePart::Call(ToolCall {
            id: "toolu_1".to_owned(),
            name: "get".to_owned(),
            arguments: "{\"a\":1}".to_owned(),
            ..ToolCall::default()
        }),
    ];
    assert_eq!(read.turns[1].parts, expected);
    let result = |id: &str| ToolResult { call_id: id.to_owned(), ..ToolResult::default() };
    let expected = [
        MessagePart::Result(ToolResult {
            name: Some("get".to_owned()),
            parts: vec![text_part("no")],
            is_error: true,
            ..result("toolu_1")
        }),
        MessagePart::Result(result("toolu_9")),
    ];
    assert_eq!(read.turns[2].parts, expected);
    assert_eq!((read.turns[3].role, &read.turns[3].parts), (Role::System, &vec![text_part("Now in French.")]));
}

#[test]
fn options_are_read() {
    let read = read_body(json!({
        "max_tokens": 9000, "temperature": 0.5, "top_p": 0.9, "top_k": 40, "stop_sequences": ["END"], "stream": true,
        "tools": [
            { "name": "get", "description": "Gets.", "input_schema": { "type": "object" }, "strict": true, "cache_control": { "type": "ephemeral" } },
            { "type": "custom", "name": "now", "input_schema": { "type": "object", "properties": {} } },
        ],
        "tool_choice": { "type": "tool", "name": "get", "disable_parallel_tool_use": true },
        "thinking": { "type": "enabled", "budget_tokens": 2048 },
        "output_config": { "format": { "type": "json_schema", "schema": { "type": "object" } } },
        "metadata": { "user_id": "u" }, "service_tier": "standard_only",
    }));
    assert!(read.losses.is_empty(), "{:?}", read.losses);
    let sampling = &read.sampling;
    assert_eq!(
        (sampling.max_tokens, sampling.temperature, sampling.top_p, sampling.top_k),
        (Some(9000), Some(0.5), Some(0.9), Some(40))
    );
    assert_eq!(sampling.stop, ["END"]);
    let tools = [
        Tool {
            name: "get".to_owned(),
            description: Some("Gets.".to_owned()),
            parameters: Some(json!({ "type": "object" })),
            strict: Some(true),
            cache: Some(CacheHint::default()),
            ..Tool::default()
        },
        Tool {
            name: "now".to_owned(),
            parameters: Some(json!({ "type": "object", "properties": {} })),
            ..Tool::default()
        },
    ];
    assert_eq!(read.tools, tools);
    assert_eq!((read.tool_choice, read.parallel_tool_calls), (Some(ToolChoice::Named("get".to_owned())), Some(false)));
    let thinks = Reasoning { enabled: Some(true), budget: Some(2048), show: Some(true), encrypted: true, effort: None };
    assert_eq!(read.reasoning, Some(thinks));
    assert!(matches!(read.format, Some(Format::Schema { strict: Some(true), .. })));
    assert_eq!((read.user.as_deref(), read.service_tier.as_deref()), (Some("u"), Some("default")));
}

#[test]
fn thinking_is_read_in_all_its_forms() {
    let reasoning = |members: Value| read_body(members).reasoning;
    assert_eq!(reasoning(json!({})), None);
    let off = Reasoning { enabled: Some(false), ..Reasoning::default() };
    assert_eq!(reasoning(json!({ "thinking": { "type": "disabled" } })), Some(off));
    let adaptive = Reasoning {
        enabled: Some(true),
        effort: Some(Effort::XHigh),
        show: Some(false),
        encrypted: true,
        budget: None,
    };
    let members =
        json!({ "thinking": { "type": "adaptive", "display": "omitted" }, "output_config": { "effort": "xhigh" } });
    assert_eq!(reasoning(members), Some(adaptive));
    let effort = Reasoning { effort: Some(Effort::Low), ..Reasoning::default() };
    assert_eq!(reasoning(json!({ "output_config": { "effort": "low" } })), Some(effort));
    for (name, choice) in [("auto", ToolChoice::Auto), ("any", ToolChoice::Required), ("none", ToolChoice::None)] {
        let read = read_body(json!({ "tool_choice": { "type": name } }));
        assert_eq!((read.tool_choice, read.parallel_tool_calls), (Some(choice), None));
    }
}

#[test]
fn what_only_this_vendor_can_do_is_lost_by_its_name() {
    let user =
        |block: Value| json!({ "messages": [{ "role": "user", "content": [{ "type": "text", "text": "x" }, block] }] });
    let meaning: &[(Value, &str)] = &[
        (json!({ "tools": [{ "type": "web_search_20250305", "name": "web_search" }] }), "web_search"),
        (json!({ "tools": [{ "type": "bash_20250124", "name": "bash" }] }), "bash"),
        (json!({ "mcp_servers": [{ "type": "url" }] }), "mcp_servers"),
        (json!({ "container": "c" }), "container"),
        (json!({ "a_beta_member": false }), "a_beta_member"),
        (json!({ "output_config": { "task_budget": 7 } }), "output_config.task_budget"),
        (
            user(json!({ "type": "search_result", "source": "s", "title": "t", "content": [] })),
            "messages[0].content[1]",
        ),
        (user(json!({ "type": "container_upload", "file_id": "f" })), "messages[0].content[1]"),
        (
            user(json!({ "type": "document", "source": { "type": "text", "data": "x" }, "context": "c" })),
            "messages[0].content[1].context",
        ),
        (
            user(json!({ "type": "document", "source": { "type": "content", "content": [{ "type": "image" }] } })),
            "messages[0].content[1].source.content",
        ),
        (
            user(json!({ "type": "tool_result", "tool_use_id": "a", "content": [{ "type": "tool_reference" }] })),
            "messages[0].content[1].content[0]",
        ),
        (
            json!({ "messages": [{ "role": "assistant", "content": [{ "type": "server_tool_use" }] }] }),
            "messages[0].content[0]",
        ),
        (json!({ "messages": [{ "role": "user", "content": "x", "odd": "more text" }] }), "messages[0].odd"),
    ];
    for (members, name) in meaning {
        assert_eq!(losses_of(members.clone()), (vec![(*name).to_owned()], vec![]), "{members}");
    }
    let forms: &[(Value, &str)] = &[
        (
            json!({ "tools": [{ "name": "f", "input_schema": {}, "allowed_callers": ["code_execution_20250825"] }] }),
            "tools[0].allowed_callers",
        ),
        (json!({ "context_management": { "edits": [{ "type": "clear_tool_uses_20250919" }] } }), "context_management"),
        (
            user(
                json!({ "type": "document", "source": { "type": "text", "data": "x" }, "citations": { "enabled": true } }),
            ),
            "messages[0].content[1].citations",
        ),
        (json!({ "messages": [{ "role": "user", "content": "x", "odd": 1 }] }), "messages[0].odd"),
        (json!({ "inference_geo": "us" }), "inference_geo"),
        (
            json!({ "context_management": { "edits": [{ "type": "clear_thinking_20251015", "keep": "all" }] } }),
            "context_management",
        ),
        (
            json!({ "tools": [{ "name": "f", "input_schema": {}, "eager_input_streaming": true }] }),
            "tools[0].eager_input_streaming",
        ),
    ];
    for (members, name) in forms {
        assert_eq!(losses_of(members.clone()), (vec![], vec![(*name).to_owned()]), "{members}");
    }
    let hints = json!({ "cache_control": { "type": "ephemeral" }, "metadata": { "user_id": "u", "team": "t" } });
    assert_eq!(losses_of(hints), (vec![], vec![]));
    let nothing = json!({ "mcp_servers": [], "container": null, "betas": null, "tools": [{ "name": "f", "input_schema": {}, "allowed_callers": ["direct"], "type": null }] });
    assert_eq!(losses_of(nothing), (vec![], vec![]));
}

fn any_json() -> impl proptest::strategy::Strategy<Value = Value> {
    use proptest::prelude::*;
    let words = prop::sample::select(vec![
        "text",
        "image",
        "document",
        "tool_use",
        "tool_result",
        "thinking",
        "redacted_thinking",
        "user",
        "assistant",
        "system",
        "base64",
        "url",
        "content",
        "enabled",
        "adaptive",
        "json_schema",
        "auto",
        "tool",
        "photofinish.gemini.call.x",
        "",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        words.prop_map(Value::from),
    ];
    let names = prop::sample::select(vec![
        "type",
        "role",
        "content",
        "text",
        "source",
        "media_type",
        "data",
        "url",
        "id",
        "name",
        "input",
        "tool_use_id",
        "thinking",
        "signature",
        "budget_tokens",
        "input_schema",
        "cache_control",
        "citations",
        "format",
        "schema",
    ]);
    leaf.prop_recursive(5, 64, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((names.clone(), inner), 0..6)
                .prop_map(|members| members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    })
}

proptest::proptest! {
    /// No JSON makes the reader panic, nor the writers of its result.
    #[test]
    fn never_panics(
        name in proptest::sample::select(super::super::conversation::READ.to_vec()),
        value in any_json(),
        blocks in any_json(),
        role in proptest::sample::select(vec!["user", "assistant", "system"]),
    ) {
        for body in [body(json!({ name: value })), content(role, json!([blocks])), content(role, blocks), value] {
            if let Ok(conversation) = conversation_of(&body) {
                request_for("claude-opus-4-6", &conversation);
            }
        }
    }
}

#[test]
fn what_an_agent_adds_becomes_text_or_goes() {
    let body = json!({ "model": "m", "max_tokens": 9,
        "system": [{ "type": "text", "text": "x-anthropic-billing-header: cch=1;" }, { "type": "text", "text": "s" }],
        "messages": [
            { "role": "user", "content": "x" },
            { "role": "assistant", "content": [{ "type": "tool_use", "id": "a", "name": "ToolSearch", "input": {} }] },
            { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "a",
                "content": [{ "type": "tool_reference", "tool_name": "TaskList" }] }] } ] });
    let read = read_body(body);
    assert_eq!((read.system.len(), read.losses.is_empty()), (1, true), "{:?}", read.losses);
    let MessagePart::Result(result) = &read.turns[2].parts[0] else { panic!("a result") };
    assert_eq!(result.parts, [MessagePart::Text { text: "TaskList can be called now.".to_owned(), cache: None }]);
}
