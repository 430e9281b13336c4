//! Conversations written for Ollama, and what they lose.

use serde_json::{Value, json};

use crate::ollama::request;
use photofinish_wire::conversation::{
    Audio, CacheHint, Conversation, ConversationTurn, Document, Effort, Format, Image, Losses, MessagePart, Reasoning,
    ReasoningPart, Role, Sampling, Source, Tool, ToolCall, ToolChoice, ToolResult,
};
use photofinish_wire::dialect::Dialect;
use photofinish_wire::quirks::TranslationOptions;

fn text(text: &str) -> MessagePart {
    MessagePart::Text { text: text.to_owned(), cache: None }
}

fn turn(role: Role, parts: Vec<MessagePart>) -> ConversationTurn {
    ConversationTurn { role, parts }
}

fn image(source: Source) -> MessagePart {
    MessagePart::Image(Image { source, detail: None, cache: None })
}

fn png(data: &str) -> MessagePart {
    image(Source::Base64 { media_type: "image/png".to_owned(), data: data.to_owned() })
}

/// The request, and its losses: those of meaning, and all.
fn write(conversation: &Conversation, model: &str) -> (Value, Vec<String>, Vec<String>) {
    let mut losses = Losses::default();
    let options = TranslationOptions::of_model(Dialect::Ollama, model);
    let body = request(conversation, &options, &mut losses);
    (body, losses.deciding().map(str::to_owned).collect::<Vec<_>>(), losses.names().map(str::to_owned).collect())
}

/// A request that loses nothing.
fn whole(conversation: &Conversation, model: &str) -> Value {
    let (body, _, lost) = write(conversation, model);
    assert!(lost.iter().all(|name| name == "response_format.json_schema.name"), "{lost:?}");
    body
}

fn schema() -> Value {
    json!({ "type": "object", "properties": { "x": { "type": "integer" } } })
}

fn everything() -> Conversation {
    let call = ToolCall {
        id: "c1".to_owned(),
        name: "look".to_owned(),
        arguments: "{\"x\":1}".to_owned(),
        ..ToolCall::default()
    };
    let result = ToolResult {
        call_id: "c1".to_owned(),
        parts: vec![text("a"), text("cat"), png("BB")],
        ..ToolResult::default()
    };
    Conversation {
        system: vec![text("Be brief."), text("Be kind.")],
        turns: vec![
            turn(Role::User, vec![text("What is it?"), png("AA")]),
            turn(
                Role::Assistant,
                vec![
                    MessagePart::Thinking(ReasoningPart { text: "hm".to_owned(), ..ReasoningPart::default() }),
                    text("Yes."),
                    MessagePart::Call(call),
                ],
            ),
            turn(Role::User, vec![MessagePart::Result(result), text("And?")]),
            turn(Role::System, vec![text("Now in French.")]),
        ],
        tools: vec![
            Tool {
                name: "look".to_owned(),
                description: Some("Looks.".to_owned()),
                parameters: Some(schema()),
                ..Tool::default()
            },
            Tool { name: "now".to_owned(), ..Tool::default() },
        ],
        tool_choice: Some(ToolChoice::Auto),
        parallel_tool_calls: Some(true),
        format: Some(Format::Schema {
            name: Some("cat".to_owned()),
            description: None,
            schema: schema(),
            strict: None,
        }),
        reasoning: Some(Reasoning { enabled: Some(true), ..Reasoning::default() }),
        sampling: Sampling {
            max_tokens: Some(100),
            temperature: Some(0.5),
            top_p: Some(0.9),
            top_k: Some(40),
            presence_penalty: Some(0.0),
            frequency_penalty: Some(0.25),
            seed: Some(7),
            n: Some(1),
            stop: vec!["END".to_owned()],
            ..Sampling::default()
        },
        ..Conversation::default()
    }
}

#[test]
fn a_conversation_with_everything_in_it() {
    let expected = json!({
        "model": "qwen3",
        "stream": true,
        "messages": [
            { "role": "system", "content": "Be brief.\nBe kind." },
            { "role": "user", "content": "What is it?", "images": ["AA"] },
            { "role": "assistant", "content": "Yes.", "thinking": "hm",
              "tool_calls": [{ "id": "c1", "function": { "name": "look", "arguments": { "x": 1 } } }] },
            { "role": "tool", "content": "a\ncat", "tool_name": "look", "tool_call_id": "c1", "images": ["BB"] },
            { "role": "user", "content": "And?" },
            { "role": "system", "content": "Now in French." },
        ],
        "tools": [
            { "type": "function", "function": { "name": "look", "description": "Looks.", "parameters": schema() } },
            { "type": "function", "function": { "name": "now", "parameters": { "type": "object", "properties": {} } } },
        ],
        "format": schema(),
        "think": true,
        "options": { "num_predict": 100, "temperature": 0.5, "top_p": 0.9, "top_k": 40, "seed": 7, "presence_penalty": 0.0,
                     "frequency_penalty": 0.25, "stop": ["END"] },
    });
    assert_eq!(whole(&everything(), "qwen3"), expected);
    assert_eq!(whole(&Conversation::default(), "m"), json!({ "model": "m", "stream": true, "messages": [] }));
}

#[test]
fn thinking_is_a_switch_but_for_gpt_oss() {
    let reasoning = |enabled, effort| Reasoning { enabled, effort, ..Reasoning::default() };
    for (reasoning, switch, level) in [
        (reasoning(None, None), Value::Null, Value::Null),
        (reasoning(Some(true), None), json!(true), Value::Null),
        (reasoning(Some(false), None), json!(false), json!("low")),
        (reasoning(None, Some(Effort::None)), json!(false), json!("low")),
        (reasoning(None, Some(Effort::Minimal)), json!(true), json!("low")),
        (reasoning(Some(true), Some(Effort::Medium)), json!(true), json!("medium")),
        (reasoning(None, Some(Effort::XHigh)), json!(true), json!("high")),
    ] {
        let conversation = Conversation { reasoning: Some(reasoning.clone()), ..Conversation::default() };
        assert_eq!(whole(&conversation, "qwen3:4b")["think"], switch, "{reasoning:?}");
        assert_eq!(whole(&conversation, "gpt-oss:120b")["think"], level, "{reasoning:?}");
    }
    let budget = Reasoning { enabled: Some(true), budget: Some(10_000), ..Reasoning::default() };
    let conversation = Conversation { reasoning: Some(budget), ..Conversation::default() };
    let (body, _, lost) = write(&conversation, "gpt-oss");
    assert_eq!((body["think"].as_str(), lost), (Some("high"), vec!["thinking.budget_tokens".to_owned()]));
}

#[test]
fn tools_are_named_unless_none_may_be_called() {
    let conversation = |tool_choice| Conversation {
        tools: vec![Tool { name: "f".to_owned(), ..Tool::default() }],
        tool_choice: Some(tool_choice),
        parallel_tool_calls: Some(false),
        ..Conversation::default()
    };
    let (body, meaning, _) = write(&conversation(ToolChoice::None), "m");
    assert_eq!((body.get("tools"), meaning.len()), (None, 0));
    for choice in [ToolChoice::Required, ToolChoice::Named("f".to_owned())] {
        let (body, meaning, _) = write(&conversation(choice), "m");
        assert_eq!(
            (body["tools"].as_array().map(Vec::len), meaning),
            (Some(1), vec!["tool_choice".to_owned(), "parallel_tool_calls".to_owned()])
        );
    }
    let unused = Conversation { tools: vec![], ..conversation(ToolChoice::Required) };
    assert_eq!(whole(&unused, "m").get("tools"), None);
}

#[test]
fn formats_are_a_word_or_a_schema() {
    let format =
        |format| whole(&Conversation { format: Some(format), ..Conversation::default() }, "m")["format"].clone();
    assert_eq!(format(Format::Text), Value::Null);
    assert_eq!(format(Format::Json), json!("json"));
}

#[test]
fn what_cannot_be_said_is_told() {
    let document = |source| MessagePart::Document(Document { source, name: Some("x".to_owned()), cache: None });
    let redacted = ReasoningPart { redacted: true, signature: Some("x".to_owned()), ..ReasoningPart::default() };
    let failed = ToolResult { is_error: true, cache: Some(CacheHint::default()), ..ToolResult::default() };
    let detailed =
        Image { source: Source::Url("https://a.example/x".to_owned()), detail: Some("high".to_owned()), cache: None };
    let conversation = Conversation {
        turns: vec![
            turn(
                Role::User,
                vec![
                    MessagePart::Image(detailed),
                    image(Source::File("f".to_owned())),
                    document(Source::Base64 { media_type: "application/pdf".to_owned(), data: "AA".to_owned() }),
                    document(Source::Text("words".to_owned())),
                    MessagePart::Audio(Audio { format: "wav".to_owned(), data: "AA".to_owned() }),
                    MessagePart::Result(failed),
                ],
            ),
            turn(Role::Assistant, vec![MessagePart::Thinking(redacted), MessagePart::Refusal("no".to_owned())]),
        ],
        tools: vec![Tool { custom: true, ..Tool::default() }, Tool { strict: Some(true), ..Tool::default() }],
        sampling: Sampling { n: Some(2), ..Sampling::default() },
        user: Some("u".to_owned()),
        ..Conversation::default()
    };
    let (body, meaning, lost) = write(&conversation, "m");
    assert_eq!(meaning, ["image_url", "file_id", "document", "input_audio", "tools[0]", "n"]);
    assert_eq!(lost[6..], ["image_url.detail", "document.title", "is_error", "thinking", "tools.strict"]);
    let expected = json!([
        { "role": "user", "content": "words" }, { "role": "tool", "content": "" }, { "role": "assistant", "content": "no" },
    ]);
    assert_eq!(body["messages"], expected);
    assert_eq!(body["tools"].as_array().map(Vec::len), Some(1));
}
