//! Turns, written as Converse messages, and the reported losses.

use super::*;

pub const CLAUDE: &str = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";
pub const OLD_CLAUDE: &str = "anthropic.claude-3-7-sonnet-20250219-v1:0";
pub const NEW_CLAUDE: &str = "us.anthropic.claude-opus-5";
pub const NOVA: &str = "us.amazon.nova-pro-v1:0";
pub const LLAMA: &str = "meta.llama3-8b-instruct-v1:0";

fn said(text: &str) -> MessagePart {
    MessagePart::Text { text: text.to_owned(), cache: None }
}

fn turn(role: Role, parts: Vec<MessagePart>) -> ConversationTurn {
    ConversationTurn { role, parts }
}

pub fn hello() -> Conversation {
    Conversation { turns: vec![turn(Role::User, vec![said("hello")])], ..Conversation::default() }
}

fn tool(name: &str) -> Tool {
    Tool { name: name.to_owned(), ..Tool::default() }
}

pub fn names(losses: &Losses) -> Vec<&str> {
    losses.names().collect()
}

#[test]
fn a_plain_request_is_short() {
    let (body, losses) = ask(LLAMA, &hello());
    assert_eq!(body, json!({ "messages": [{ "role": "user", "content": [{ "text": "hello" }] }] }));
    assert!(losses.is_empty());
}

#[test]
fn turns_alternate_and_system_stands_apart() {
    let image = |source| MessagePart::Image(Image { source, detail: None, cache: None });
    let png = Source::Base64 { media_type: "image/png".to_owned(), data: "AAAA".to_owned() };
    let conversation = Conversation {
        system: vec![said("be brief"), said(" ")],
        turns: vec![
            turn(Role::User, vec![said("look"), said(""), image(png)]),
            turn(Role::User, vec![image(Source::Url("https://x.test/a.png".to_owned()))]),
            turn(Role::User, vec![image(Source::Url("s3://bucket/a.webp".to_owned()))]),
            turn(Role::Assistant, vec![said("")]),
            turn(Role::User, vec![said("again")]),
            turn(Role::System, vec![said("be kind")]),
            turn(Role::Assistant, vec![MessagePart::Refusal("no".to_owned())]),
        ],
        ..Conversation::default()
    };
    let (body, losses) = ask(LLAMA, &conversation);
    assert_eq!(body["system"], json!([{ "text": "be brief" }, { "text": "be kind" }]));
    let user = json!([
        { "text": "look" },
        { "image": { "format": "png", "source": { "bytes": "AAAA" } } },
        { "image": { "format": "webp", "source": { "s3Location": { "uri": "s3://bucket/a.webp" } } } },
        { "text": "again" },
    ]);
    let assistant = json!([{ "text": "no" }]);
    let messages = json!([{ "role": "user", "content": user }, { "role": "assistant", "content": assistant }]);
    assert_eq!(body["messages"], messages);
    assert_eq!(losses.deciding().collect::<Vec<_>>(), ["messages[1].content[0]"]);
    assert_eq!(names(&losses), ["messages[1].content[0]", "messages[5].role"]);
}

#[test]
fn documents_are_bytes_with_a_name() {
    let document = |source, name: Option<&str>| {
        MessagePart::Document(Document { source, name: name.map(str::to_owned), cache: None })
    };
    let pdf = Source::Base64 { media_type: "application/pdf".to_owned(), data: "AAAA".to_owned() };
    let mut conversation = hello();
    conversation.turns[0].parts.extend([
        document(pdf, Some("a/b.pdf")),
        document(Source::Text("hi".to_owned()), None),
        document(Source::File("file_1".to_owned()), None),
    ]);
    let (body, losses) = ask(CLAUDE, &conversation);
    let content = &body["messages"][0]["content"];
    let expected = json!({ "document": { "format": "pdf", "name": "a b", "source": { "bytes": "AAAA" } } });
    assert_eq!(content[1], expected);
    let expected = json!({ "document": { "format": "txt", "name": "document", "source": { "bytes": "aGk=" } } });
    assert_eq!(content[2], expected);
    assert_eq!(losses.deciding().collect::<Vec<_>>(), ["messages[0].content[3]"]);
}

/// A question, and two calls with their results.
fn with_tools() -> Conversation {
    let call = |id: &str, arguments: &str| {
        MessagePart::Call(ToolCall {
            id: id.to_owned(),
            name: "f".to_owned(),
            arguments: arguments.to_owned(),
            ..ToolCall::default()
        })
    };
    let result = |id: &str, parts, is_error| {
        MessagePart::Result(ToolResult { call_id: id.to_owned(), parts, is_error, ..ToolResult::default() })
    };
    let mut conversation = hello();
    conversation.turns.push(turn(Role::Assistant, vec![call("t1", r#"{"b":1,"a":[]}"#), call("t2", "")]));
    conversation.turns.push(turn(Role::User, vec![result("t1", vec![said("one")], false)]));
    conversation.turns.push(turn(Role::User, vec![result("t2", vec![], true)]));
    conversation
}

#[test]
fn calls_and_results_are_blocks() {
    let mut conversation = with_tools();
    conversation.tools = vec![Tool {
        description: Some("does f".to_owned()),
        parameters: Some(json!({ "properties": {} })),
        strict: Some(true),
        ..tool("f")
    }];
    conversation.tool_choice = Some(ToolChoice::Required);
    let (body, losses) = ask(CLAUDE, &conversation);
    let calls = json!([
        { "toolUse": { "toolUseId": "t1", "name": "f", "input": { "b": 1, "a": [] } } },
        { "toolUse": { "toolUseId": "t2", "name": "f", "input": {} } },
    ]);
    let results = json!([
        { "toolResult": { "toolUseId": "t1", "content": [{ "text": "one" }] } },
        { "toolResult": { "toolUseId": "t2", "content": [], "status": "error" } },
    ]);
    assert_eq!((&body["messages"][1]["content"], &body["messages"][2]["content"]), (&calls, &results));
    let schema = json!({ "json": { "properties": {}, "additionalProperties": false, "type": "object" } });
    let spec = json!({ "name": "f", "inputSchema": schema, "description": "does f", "strict": true });
    let config = json!({ "tools": [{ "toolSpec": spec }], "toolChoice": { "any": {} } });
    assert_eq!(body["toolConfig"], config);
    assert!(losses.is_empty());
    let (body, losses) = ask(LLAMA, &conversation);
    assert_eq!(body["toolConfig"]["tools"][0]["toolSpec"].get("strict"), None);
    assert_eq!(names(&losses), ["tool_choice", "messages[3].content[0].is_error", "tools[0].strict"]);
}

#[test]
fn turns_have_the_shape_that_is_taken() {
    let dot = json!({ "role": "user", "content": [{ "text": "." }] });
    for turns in [vec![], vec![turn(Role::System, vec![said("s")])], vec![turn(Role::User, vec![said(" ")])]] {
        assert_eq!(ask(CLAUDE, &Conversation { turns, ..Conversation::default() }).0["messages"], json!([dot]));
    }
    let mut conversation = with_tools();
    conversation.turns[0] = turn(Role::User, vec![]);
    let cache = Some(CacheHint::default());
    conversation.turns[2].parts.insert(0, MessagePart::Text { text: "so".to_owned(), cache });
    let (body, _) = ask(CLAUDE, &conversation);
    assert_eq!((&body["messages"][0], &body["messages"][1]["role"]), (&dot, &json!("assistant")));
    let kinds = |message: &Value| -> Vec<String> {
        let blocks = message["content"].as_array().unwrap();
        blocks.iter().map(|block| block.as_object().unwrap().keys().next().unwrap().clone()).collect()
    };
    assert_eq!(kinds(&body["messages"][2]), ["toolResult", "toolResult", "text", "cachePoint"]);
    let document = MessagePart::Document(Document { source: Source::Text("x".to_owned()), name: None, cache: None });
    let alone = Conversation { turns: vec![turn(Role::User, vec![document])], ..Conversation::default() };
    assert_eq!(kinds(&ask(CLAUDE, &alone).0["messages"][0]), ["document", "text"]);
}

#[test]
fn ids_that_are_taken_are_made_anew() {
    let mut conversation = with_tools();
    conversation.turns.extend_from_within(1..);
    let (body, _) = ask(CLAUDE, &conversation);
    let id = |at: usize, block: usize, kind: &str| &body["messages"][at]["content"][block][kind]["toolUseId"];
    assert_eq!([id(1, 0, "toolUse"), id(1, 1, "toolUse")], ["t1", "t2"]);
    assert_eq!([id(3, 0, "toolUse"), id(3, 1, "toolUse")], ["t1_1", "t2_2"]);
    assert_eq!([id(4, 0, "toolResult"), id(4, 1, "toolResult")], ["t1_1", "t2_2"]);
}

#[test]
fn the_choice_of_tools_is_told_or_lost() {
    let table: &[(Option<ToolChoice>, Value)] = &[
        (None, Value::Null),
        (Some(ToolChoice::Auto), Value::Null),
        (Some(ToolChoice::Required), json!({ "any": {} })),
        (Some(ToolChoice::Named("f".to_owned())), json!({ "tool": { "name": "f" } })),
    ];
    for (choice, expected) in table {
        let conversation = Conversation { tools: vec![tool("f")], tool_choice: choice.clone(), ..hello() };
        let (body, losses) = ask(CLAUDE, &conversation);
        assert_eq!((&body["toolConfig"]["toolChoice"], losses.is_empty()), (expected, true));
    }
    let none = Some(ToolChoice::None);
    let (body, losses) = ask(CLAUDE, &Conversation { tools: vec![tool("f")], tool_choice: none.clone(), ..hello() });
    assert_eq!((body.get("toolConfig"), losses.is_empty()), (None, true));
    let (body, losses) = ask(CLAUDE, &Conversation { tools: vec![tool("g")], tool_choice: none, ..with_tools() });
    assert_eq!(
        (&body["toolConfig"]["tools"][0]["toolSpec"]["name"], losses.deciding().collect::<Vec<_>>()),
        (&json!("g"), vec!["tool_choice"])
    );
    let (body, losses) = ask(CLAUDE, &with_tools());
    let specs = body["toolConfig"]["tools"].as_array().unwrap();
    assert_eq!((specs.len(), &specs[0]["toolSpec"]["name"]), (1, &json!("f")), "history with calls needs their names");
    assert_eq!((names(&losses), losses.keeps_settings()), (vec!["tools"], true));
    let custom =
        Conversation { tools: vec![Tool { custom: true, ..tool("f") }], parallel_tool_calls: Some(false), ..hello() };
    assert_eq!(ask(CLAUDE, &custom).1.deciding().collect::<Vec<_>>(), ["f", "parallel_tool_calls"]);
}

#[test]
fn only_claude_gets_its_own_reasoning_back() {
    let thinking = |signature: Option<&str>, redacted| {
        let text = if redacted { String::new() } else { "hm".to_owned() };
        MessagePart::Thinking(ReasoningPart { text, signature: signature.map(str::to_owned), redacted, id: None })
    };
    let parts = vec![
        thinking(Some("photofinish.anthropic.Erg="), false),
        thinking(Some("photofinish.anthropic.ZZZ"), true),
        thinking(None, false),
        thinking(Some("photofinish.responses.gAAAAx"), false),
        thinking(Some("photofinish.gemini.CiQx"), false),
        said("a"),
    ];
    let mut conversation = hello();
    conversation.turns.push(turn(Role::Assistant, parts));
    let (body, losses) = ask(CLAUDE, &conversation);
    let expected = json!([
        { "reasoningContent": { "reasoningText": { "text": "hm", "signature": "Erg=" } } },
        { "reasoningContent": { "redactedContent": "ZZZ" } },
        { "text": "a" },
    ]);
    assert_eq!(body["messages"][1]["content"], expected);
    assert_eq!(names(&losses), ["thinking"]);
    assert!(losses.keeps_settings());
    assert_eq!(ask(NOVA, &conversation).0["messages"][1]["content"], json!([{ "text": "a" }]));
}

#[test]
fn hints_to_cache_are_points() {
    let hint = |ttl: Option<&str>| Some(CacheHint { ttl: ttl.map(str::to_owned) });
    let text = |text: &str, cache| MessagePart::Text { text: text.to_owned(), cache };
    let conversation = Conversation {
        system: vec![text("s", hint(Some("1h")))],
        turns: vec![turn(Role::User, vec![text("a", hint(Some("5m"))), text("b", None)])],
        tools: vec![Tool { cache: hint(None), ..tool("f") }],
        ..Conversation::default()
    };
    let point = json!({ "cachePoint": { "type": "default" } });
    let (body, losses) = ask(CLAUDE, &conversation);
    assert_eq!(body["system"], json!([{ "text": "s" }, { "cachePoint": { "type": "default", "ttl": "1h" } }]));
    assert_eq!(body["messages"][0]["content"], json!([{ "text": "a" }, point, { "text": "b" }]));
    assert_eq!((&body["toolConfig"]["tools"][1], losses.is_empty()), (&point, true));
    let (body, losses) = ask(NOVA, &conversation);
    assert_eq!((&body["system"][1], &body["toolConfig"]["tools"][1]), (&point, &Value::Null));
    assert!(losses.is_empty(), "hints are dropped silently");
    let (body, losses) = ask(LLAMA, &conversation);
    assert!(!body.to_string().contains("cachePoint"));
    assert!(losses.is_empty());
}

#[test]
fn many_of_anything_take_no_long_time() {
    let document = || {
        MessagePart::Document(Document {
            source: Source::Text("x".to_owned()),
            name: Some("a".to_owned()),
            cache: None,
        })
    };
    let call = |number: usize| {
        MessagePart::Call(ToolCall { id: "i".to_owned(), name: format!("f{number}"), ..ToolCall::default() })
    };
    let conversation = Conversation {
        turns: vec![
            turn(Role::User, (0..20_000).map(|_| document()).collect()),
            turn(Role::Assistant, (0..20_000).map(call).collect()),
        ],
        ..Conversation::default()
    };
    let (body, _) = ask(CLAUDE, &conversation);
    assert_eq!(body["toolConfig"]["tools"].as_array().unwrap().len(), 20_000);
    assert_eq!(body["messages"][0]["content"][19_999]["document"]["name"], "a (20000)");
}

proptest::proptest! {
    /// Whatever text a conversation contains, ids and names are valid for Bedrock.
    #[test]
    fn any_text_makes_a_request(texts in proptest::collection::vec("\\PC{0,80}", 6), model in "\\PC{0,40}", error: bool) {
        let [id, name, arguments, said_text, title, signature] = texts.try_into().unwrap();
        let source = Source::Text(said_text.clone());
        let call = ToolCall { id: id.clone(), name: name.clone(), arguments, ..ToolCall::default() };
        let result = ToolResult { call_id: id.clone(), parts: vec![said(&said_text)], is_error: error, ..ToolResult::default() };
        let conversation = Conversation {
            system: vec![said(&title)],
            turns: vec![
                turn(Role::User, vec![MessagePart::Document(Document { source, name: Some(title), cache: None })]),
                turn(Role::Assistant, vec![
                    MessagePart::Thinking(ReasoningPart { signature: Some(signature), ..ReasoningPart::default() }),
                    MessagePart::Call(call),
                ]),
                turn(Role::User, vec![MessagePart::Result(result)]),
            ],
            ..Conversation::default()
        };
        for model in [model.as_str(), CLAUDE] {
            let (body, _) = ask(model, &conversation);
            let name = body["messages"][0]["content"][0]["document"]["name"].as_str().unwrap();
            proptest::prop_assert!(!name.is_empty() && name.is_ascii() && !name.contains("  "));
            let content = body["messages"][1]["content"].as_array().unwrap();
            let call = &content.last().unwrap()["toolUse"];
            let sent = call["toolUseId"].as_str().unwrap();
            proptest::prop_assert!((1..=64).contains(&sent.len()) && sent.chars().all(|c| c.is_ascii_graphic()));
            proptest::prop_assert_eq!(&call["toolUseId"], &body["messages"][2]["content"][0]["toolResult"]["toolUseId"]);
            proptest::prop_assert!(call["input"].is_object());
        }
    }
}
