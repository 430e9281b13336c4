//! Requests of the surface: the parts that are read, lost and refused.

use super::*;
use photofinish_wire::conversation::{
    ConversationTurn, Document, Effort, Format, Image, MessagePart, Reasoning, ReasoningPart, Role, Source, ToolCall,
    ToolChoice, ToolResult,
};

fn text(text: &str) -> MessagePart {
    MessagePart::Text { text: text.to_owned(), cache: None }
}

fn source(media_type: &str, data: &str) -> Source {
    Source::Base64 { media_type: media_type.to_owned(), data: data.to_owned() }
}

fn image(source: Source, detail: Option<&str>) -> MessagePart {
    MessagePart::Image(Image { source, detail: detail.map(str::to_owned), cache: None })
}

fn file(source: Source, name: Option<&str>) -> MessagePart {
    MessagePart::Document(Document { source, name: name.map(str::to_owned), cache: None })
}

fn call(id: &str, name: &str, arguments: &str, custom: bool) -> MessagePart {
    let (id, name, arguments) = (id.to_owned(), name.to_owned(), arguments.to_owned());
    MessagePart::Call(ToolCall { id, name, arguments, custom, ..ToolCall::default() })
}

fn result(id: &str, name: &str, said: &str, custom: bool) -> MessagePart {
    let (call_id, name) = (id.to_owned(), Some(name.to_owned()));
    MessagePart::Result(ToolResult { call_id, name, parts: vec![text(said)], custom, ..ToolResult::default() })
}

fn losses(body: &Value) -> (Vec<String>, Vec<String>) {
    let losses = conversation_of(body).losses;
    let meaning = losses.deciding().map(str::to_owned).collect::<Vec<_>>();
    let hints = losses.names().skip(meaning.len()).map(str::to_owned).collect();
    (meaning, hints)
}

#[test]
fn a_string_is_what_the_user_says() {
    let read = conversation_of(&json!({ "model": "m", "input": "hi", "instructions": "be brief" }));
    assert_eq!(read.system, [text("be brief")]);
    assert_eq!(read.turns, [ConversationTurn { role: Role::User, parts: vec![text("hi")] }]);
    assert!(read.losses.is_empty());
}

#[test]
fn items_become_turns() {
    let read = conversation_of(&json!({ "model": "m", "input": [
        { "role": "developer", "content": "rules" },
        { "type": "message", "role": "user", "content": [
            { "type": "input_text", "text": "look" },
            { "type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "low" },
            { "type": "input_image", "image_url": "https://x/y.png", "detail": "auto" },
            { "type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,BBBB" },
            { "type": "input_file", "file_url": "https://x/a.pdf" },
            { "type": "input_file", "file_id": "file-1" },
        ] },
        { "type": "reasoning", "id": "rs_1", "summary": [{ "type": "summary_text", "text": "a" }, { "type": "summary_text", "text": "b" }], "encrypted_content": "gAAA" },
        { "type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": [{ "type": "output_text", "text": "ok", "annotations": [] }, { "type": "refusal", "refusal": "no" }] },
        { "type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}" },
        { "type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "***" },
        { "type": "function_call_output", "call_id": "c1", "output": "42" },
        { "type": "custom_tool_call_output", "call_id": "c2", "output": [{ "type": "input_text", "text": "done" }] },
        { "role": "system", "content": "later" },
        { "role": "user", "content": "go" },
    ] }));
    assert!(read.losses.is_empty());
    assert_eq!(read.system, [text("rules")]);
    let thinking = ReasoningPart {
        text: "a\n\nb".to_owned(),
        signature: Some("photofinish.responses.gAAA".to_owned()),
        redacted: false,
        id: Some("rs_1".to_owned()),
    };
    let turns = [
        (
            Role::User,
            vec![
                text("look"),
                image(source("image/png", "AAAA"), Some("low")),
                image(Source::Url("https://x/y.png".to_owned()), None),
                file(source("application/pdf", "BBBB"), Some("a.pdf")),
                file(Source::Url("https://x/a.pdf".to_owned()), None),
                file(Source::File("file-1".to_owned()), None),
            ],
        ),
        (
            Role::Assistant,
            vec![
                MessagePart::Thinking(thinking),
                text("ok"),
                MessagePart::Refusal("no".to_owned()),
                call("c1", "f", "{}", false),
                call("c2", "patch", "***", true),
            ],
        ),
        (Role::User, vec![result("c1", "f", "42", false), result("c2", "patch", "done", true)]),
        (Role::System, vec![text("later")]),
        (Role::User, vec![text("go")]),
    ];
    assert_eq!(read.turns, turns.map(|(role, parts)| ConversationTurn { role, parts }));
}

#[test]
fn what_is_not_known_of_an_item_is_told() {
    let read = conversation_of(&json!({ "model": "m", "parallel_tool_calls": true, "input": [
        { "role": "user", "id": "msg_1", "status": "completed", "content": [
            { "type": "input_text", "text": "a" }, { "type": "input_text", "text": "b", "wanted": 1, "odd": null },
        ] },
        { "type": "message", "role": "assistant", "phase": "final", "content": [
            { "type": "output_text", "text": "a", "annotations": [], "logprobs": [] },
        ] },
        { "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "namespace": "n" },
        { "type": "function_call_output", "call_id": "c", "output": [{ "type": "input_text", "text": "a", "x": {}, "y": 2 }] },
    ] }));
    let names: Vec<&str> = read.losses.names().collect();
    assert_eq!(names, ["input[0].content[1].wanted", "input[3].output[0].y"]);
    assert!(read.losses.keeps_settings());
    assert_eq!(read.parallel_tool_calls, None, "the default");
}

#[test]
fn options_are_kept() {
    let read = conversation_of(&json!({
        "model": "m", "input": [], "stream": true, "store": false, "temperature": 0.5, "top_p": 1, "max_output_tokens": 50,
        "parallel_tool_calls": false, "user": "old", "safety_identifier": "who", "metadata": { "a": "b" },
        "service_tier": "flex", "tool_choice": { "type": "function", "name": "f" }, "truncation": "disabled",
        "background": false, "top_logprobs": 0, "previous_response_id": null, "prompt": null,
        "include": ["reasoning.encrypted_content"], "reasoning": { "effort": "high", "summary": "auto" },
        "text": { "verbosity": "low", "format": { "type": "json_schema", "name": "n", "schema": { "type": "object" }, "strict": true } },
        "tools": [
            { "type": "function", "name": "f", "description": "d", "parameters": { "type": "object" }, "strict": false },
            { "type": "custom", "name": "patch", "format": { "type": "grammar", "syntax": "lark", "definition": "x" } },
            { "type": "custom", "name": "free", "format": { "type": "text" } },
        ],
    }));
    assert!(read.losses.is_empty(), "{:?}", read.losses);
    assert_eq!(
        (read.sampling.temperature, read.sampling.top_p, read.sampling.max_tokens, read.sampling.top_logprobs),
        (Some(0.5), Some(1.0), Some(50), None)
    );
    assert_eq!((read.parallel_tool_calls, read.user.as_deref()), (Some(false), Some("who")));
    assert_eq!((read.service_tier.as_deref(), read.verbosity.as_deref()), (Some("flex"), Some("low")));
    assert_eq!(read.tool_choice, Some(ToolChoice::Named("f".to_owned())));
    let reasoning = Reasoning { effort: Some(Effort::High), show: Some(true), encrypted: true, ..Reasoning::default() };
    assert_eq!(read.reasoning, Some(reasoning));
    let Some(Format::Schema { name, strict, .. }) = &read.format else { panic!("no schema") };
    assert_eq!((name.as_deref(), *strict), (Some("n"), Some(true)));
    assert_eq!(read.tools.iter().map(|tool| tool.custom).collect::<Vec<_>>(), [false, true, true]);
    assert_eq!((&read.tools[1].format.as_ref().unwrap()["syntax"], &read.tools[2].format), (&json!("lark"), &None));
}

#[test]
fn what_cannot_be_carried_over_is_named() {
    let table = [
        (json!({ "previous_response_id": "resp_1" }), vec!["previous_response_id"], vec![]),
        (json!({ "conversation": "conv_1" }), vec!["conversation"], vec![]),
        (json!({ "prompt": { "id": "p" } }), vec!["prompt"], vec![]),
        (json!({ "background": true, "truncation": "auto" }), vec!["background"], vec!["truncation"]),
        (json!({ "seed": 1, "whatever": {} }), vec!["seed", "whatever"], vec![]),
        (json!({ "seed": null }), vec![], vec![]),
        (json!({ "store": true, "prompt_cache_key": "k" }), vec![], vec!["prompt_cache_key"]),
        (json!({ "client_metadata": {}, "max_tool_calls": 3 }), vec![], vec!["client_metadata", "max_tool_calls"]),
        (json!({ "include": ["file_search_call.results"] }), vec![], vec!["include[0]"]),
        (
            json!({ "tools": [{ "type": "function", "name": "f" }, { "type": "web_search" }, { "type": "mcp" }] }),
            vec!["mcp", "web_search"],
            vec![],
        ),
        (
            json!({ "tools": [{ "type": "function", "name": "f", "defer_loading": true, "x": false }] }),
            vec![],
            vec!["tools[0].defer_loading"],
        ),
        (json!({ "tool_choice": { "type": "allowed_tools" } }), vec!["allowed_tools"], vec![]),
        (
            json!({ "input": [{ "role": "user", "content": "x" }, { "type": "local_shell_call", "id": "l" }, { "id": "msg_1" }] }),
            vec!["local_shell_call", "item_reference"],
            vec![],
        ),
        (
            json!({ "input": [{ "role": "system", "content": [{ "type": "input_image", "file_id": "f" }] }] }),
            vec!["input[0].content"],
            vec![],
        ),
    ];
    for (members, meaning, hints) in table {
        let mut body = json!({ "model": "m", "input": "x" });
        body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(losses(&body), (owned(meaning), owned(hints)), "{members}");
    }
}

fn assert_wrong(table: &[(Value, &str, &str)]) {
    for (body, message, param) in table {
        let invalid = conversation(body.to_string().as_bytes()).unwrap_err();
        assert_eq!((invalid.message.as_str(), invalid.param.as_deref()), (*message, Some(*param)));
    }
}

#[test]
fn what_is_wrong_is_said_as_the_vendor_says_it() {
    let table = [
        (json!({ "input": "x" }), "Missing required parameter: 'model'.", "model"),
        (
            json!({ "model": null, "input": "x" }),
            "Invalid type for 'model': expected a string, but got null instead.",
            "model",
        ),
        (json!({ "model": "m" }), "Missing required parameter: 'input'.", "input"),
        (
            json!({ "model": "m", "input": 7 }),
            "Invalid type for 'input': expected one of a string or array of objects, but got an integer instead.",
            "input",
        ),
        (
            json!({ "model": "m", "input": "x", "temperature": "hot" }),
            "Invalid type for 'temperature': expected a decimal, but got a string instead.",
            "temperature",
        ),
        (
            json!({ "model": "m", "input": "x", "max_output_tokens": 1.5 }),
            "Invalid type for 'max_output_tokens': expected an integer, but got a decimal number instead.",
            "max_output_tokens",
        ),
        (
            json!({ "model": "m", "input": ["x"] }),
            "Invalid type for 'input[0]': expected an object, but got a string instead.",
            "input[0]",
        ),
        (
            json!({ "model": "m", "input": [{ "role": "tool", "content": "x" }] }),
            "Invalid value: 'tool'. Supported values are: 'assistant', 'system', 'developer', and 'user'.",
            "input[0].role",
        ),
        (
            json!({ "model": "m", "input": [{ "role": "user" }] }),
            "Missing required parameter: 'input[0].content'.",
            "input[0].content",
        ),
        (
            json!({ "model": "m", "input": [{ "role": "assistant", "content": [{ "type": "input_text", "text": "x" }] }] }),
            "Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'.",
            "input[0].content[0].type",
        ),
        (
            json!({ "model": "m", "input": [{ "role": "user", "content": [{ "type": "input_image" }] }] }),
            "Missing required parameter: 'input[0].content[0].image_url'.",
            "input[0].content[0].image_url",
        ),
    ];
    assert_wrong(&table);
    let url = json!({ "model": "m", "input": [{ "role": "user", "content": [{ "type": "input_image", "image_url": "secret" }] }] });
    let invalid = conversation(url.to_string().as_bytes()).unwrap_err();
    assert!(!invalid.message.contains("secret") && invalid.param.as_deref() == Some("input[0].content[0].image_url"));
}

#[test]
fn what_is_wrong_behind_the_messages_is_said_likewise() {
    let table = [
        (
            json!({ "model": "m", "input": [{ "type": "function_call", "call_id": "c", "name": "f" }] }),
            "Missing required parameter: 'input[0].arguments'.",
            "input[0].arguments",
        ),
        (
            json!({ "model": "m", "input": "x", "tools": [{ "type": "function" }] }),
            "Missing required parameter: 'tools[0].name'.",
            "tools[0].name",
        ),
        (
            json!({ "model": "m", "input": "x", "reasoning": { "effort": "huge" } }),
            "Invalid value: 'huge'. Supported values are: 'none', 'minimal', 'low', 'medium', 'high', and 'xhigh'.",
            "reasoning.effort",
        ),
        (
            json!({ "model": "m", "input": "x", "text": { "format": { "type": "json_schema", "name": "n" } } }),
            "Missing required parameter: 'text.format.schema'.",
            "text.format.schema",
        ),
        (
            json!({ "model": "m", "input": "x", "tool_choice": "any" }),
            "Invalid value: 'any'. Supported values are: 'none', 'auto', and 'required'.",
            "tool_choice",
        ),
    ];
    assert_wrong(&table);
}

#[test]
fn the_top_level_of_what_goes_up_untouched_is_checked() {
    let check_of = |body: Value| {
        let texts: Vec<(String, String)> =
            body.as_object().unwrap().iter().map(|(name, value)| (name.clone(), value.to_string())).collect();
        let member = |name: &str| texts.iter().find(|(at, _)| at == name).map(|(_, text)| text.as_str());
        check(&member).map_err(|invalid| invalid.param.unwrap())
    };
    assert_eq!(check_of(json!({ "model": "m", "input": "x", "tools": null, "anything": 1 })), Ok(()));
    assert_eq!(check_of(json!({ "model": "m", "previous_response_id": "r" })), Ok(()));
    assert_eq!(check_of(json!({ "model": "m", "input": [{}] })), Ok(()));
    for (body, param) in [
        (json!({ "input": "x" }), "model"),
        (json!({ "model": "m", "input": null }), "input"),
        (json!({ "model": "m", "input": {} }), "input"),
        (json!({ "model": "m", "input": "x", "stream": "yes" }), "stream"),
        (json!({ "model": "m", "input": "x", "top_logprobs": 1.5 }), "top_logprobs"),
    ] {
        assert_eq!(check_of(body), Err(param.to_owned()));
    }
}

#[test]
fn what_codex_sends_is_carried_over() {
    let body = json!({
        "model": "gpt-5-codex", "instructions": "You are Codex.", "stream": true, "store": false, "tool_choice": "auto",
        "parallel_tool_calls": true, "include": ["reasoning.encrypted_content"], "prompt_cache_key": "0199",
        "reasoning": { "effort": "medium", "summary": "auto" }, "text": { "verbosity": "medium" },
        "tools": [
            { "type": "function", "name": "shell", "description": "Runs", "strict": false, "parameters": { "type": "object" } },
            { "type": "custom", "name": "apply_patch", "description": "Edits", "format": { "type": "grammar", "syntax": "lark", "definition": "x" } },
        ],
        "input": [
            { "type": "message", "role": "developer", "content": [{ "type": "input_text", "text": "sandbox" }] },
            { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "fix it" }] },
            { "type": "reasoning", "summary": [], "content": null, "encrypted_content": "photofinish.gemini.sig" },
            { "type": "custom_tool_call", "status": "completed", "call_id": "c1", "name": "apply_patch", "input": "***" },
            { "type": "custom_tool_call_output", "call_id": "c1", "output": "ok" },
        ],
    });
    let read = conversation_of(&body);
    assert_eq!(losses(&body), (vec![], vec!["prompt_cache_key".to_owned()]));
    assert_eq!(read.system, [text("You are Codex."), text("sandbox")]);
    assert_eq!(read.verbosity, None, "the default");
    let [_, assistant, results] = &read.turns[..] else { panic!("turns: {:?}", read.turns) };
    let signed = ReasoningPart { signature: Some("photofinish.gemini.sig".to_owned()), ..ReasoningPart::default() };
    assert_eq!(assistant.parts, [MessagePart::Thinking(signed), call("c1", "apply_patch", "***", true)]);
    assert_eq!(results.parts, [result("c1", "apply_patch", "ok", true)]);
}

#[test]
fn thoughts_go_back_to_whom_they_came_from() {
    let read = |encrypted: &str, summary: Value| {
        let item = json!({ "type": "reasoning", "summary": summary, "encrypted_content": encrypted });
        let call = json!({ "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}" });
        conversation_of(&json!({ "model": "m", "input": [item, call] })).turns.remove(0).parts
    };
    let summary = || json!([{ "type": "summary_text", "text": "hm" }]);
    let MessagePart::Thinking(signed) = &read("photofinish.gemini.sig", summary())[0] else { panic!("no thoughts") };
    assert_eq!(
        (signed.signature.as_deref(), signed.text.as_str(), signed.redacted, &signed.id),
        (Some("photofinish.gemini.sig"), "hm", false, &None)
    );
    let MessagePart::Thinking(hidden) = &read("photofinish.anthropic.redacted.data", json!([]))[0] else {
        panic!("no thoughts")
    };
    assert_eq!((hidden.signature.as_deref(), hidden.redacted), (Some("photofinish.anthropic.data"), true));
    let MessagePart::Thinking(own) = &read("gAAA", json!([]))[0] else { panic!("no thoughts") };
    assert_eq!(
        (own.signature.as_deref(), own.redacted, own.id.as_deref()),
        (Some("photofinish.responses.gAAA"), true, None)
    );
    let [MessagePart::Call(call)] = &read("photofinish.gemini.call.sig", json!([]))[..] else { panic!("no call") };
    assert_eq!(call.signature.as_deref(), Some("photofinish.gemini.sig"));
}
