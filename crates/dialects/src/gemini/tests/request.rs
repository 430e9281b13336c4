//! Conversations written for Gemini, and what they lose.

use serde_json::{Value, json};

use crate::gemini::request;
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

fn user(words: &str) -> ConversationTurn {
    turn(Role::User, vec![text(words)])
}

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned(), ..ToolCall::default() }
}

fn result(id: &str, parts: Vec<MessagePart>) -> ToolResult {
    ToolResult { call_id: id.to_owned(), parts, ..ToolResult::default() }
}

/// The request, and its losses: those of meaning, and all.
fn write(conversation: &Conversation, model: &str) -> (Value, Vec<String>, Vec<String>) {
    let mut losses = Losses::default();
    let options = TranslationOptions::of_model(Dialect::Gemini, model);
    let body = request(conversation, &options, &mut losses);
    (body, losses.deciding().map(str::to_owned).collect::<Vec<_>>(), losses.names().map(str::to_owned).collect())
}

/// A request that loses nothing.
fn whole(conversation: &Conversation, model: &str) -> Value {
    let (body, _, lost) = write(conversation, model);
    assert_eq!(lost, Vec::<String>::new());
    body
}

fn contents(turns: Vec<ConversationTurn>, model: &str) -> Value {
    whole(&Conversation { turns, ..Conversation::default() }, model)["contents"].clone()
}

#[test]
fn a_conversation_with_everything_in_it() {
    let png = Source::Base64 { media_type: "image/png".to_owned(), data: "AAAA".to_owned() };
    let schema =
        json!({ "type": "object", "properties": { "x": { "type": "integer" } }, "additionalProperties": false });
    let conversation = Conversation {
        system: vec![text("Be brief."), text("Be kind.")],
        turns: vec![
            turn(
                Role::User,
                vec![text("What is it?"), MessagePart::Image(Image { source: png, detail: None, cache: None })],
            ),
            turn(Role::User, vec![text("Look it up.")]),
            turn(Role::Assistant, vec![text("Yes."), MessagePart::Call(call("c1", "look", "{\"x\":1}"))]),
            turn(Role::User, vec![MessagePart::Result(result("c1", vec![text("a "), text("cat")]))]),
        ],
        tools: vec![
            Tool {
                name: "look".to_owned(),
                description: Some("Looks.".to_owned()),
                parameters: Some(schema.clone()),
                ..Tool::default()
            },
            Tool {
                name: "now".to_owned(),
                parameters: Some(json!({ "type": "object", "properties": {} })),
                ..Tool::default()
            },
        ],
        tool_choice: Some(ToolChoice::Named("look".to_owned())),
        parallel_tool_calls: Some(true),
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
    };
    let expected = json!({
        "systemInstruction": { "parts": [{ "text": "Be brief." }, { "text": "Be kind." }] },
        "contents": [
            { "role": "user", "parts": [
                { "text": "What is it?" }, { "inlineData": { "mimeType": "image/png", "data": "AAAA" } }, { "text": "Look it up." }] },
            { "role": "model", "parts": [{ "text": "Yes." }, { "functionCall": { "name": "look", "args": { "x": 1 } } }] },
            { "role": "user", "parts": [{ "functionResponse": { "name": "look", "response": { "output": "a \ncat" } } }] },
        ],
        "tools": [{ "functionDeclarations": [
            { "name": "look", "description": "Looks.", "parametersJsonSchema": schema }, { "name": "now" }] }],
        "toolConfig": { "functionCallingConfig": { "mode": "ANY", "allowedFunctionNames": ["look"] } },
        "generationConfig": {
            "maxOutputTokens": 100, "temperature": 0.5, "topP": 0.9, "topK": 40, "frequencyPenalty": 0.25, "seed": 7,
            "stopSequences": ["END"],
        },
    });
    assert_eq!(whole(&conversation, "gemini-2.5-flash"), expected);
}

#[test]
fn results_stand_in_the_order_of_their_calls_and_media_behind_them() {
    let image = Image {
        source: Source::Base64 { media_type: "image/png".to_owned(), data: "AA".to_owned() },
        detail: None,
        cache: None,
    };
    let failed = ToolResult { is_error: true, ..result("c1", vec![text("no")]) };
    let unknown = ToolResult { name: Some("third".to_owned()), ..result("c9", vec![]) };
    let turns = vec![
        user("go"),
        turn(
            Role::Assistant,
            vec![MessagePart::Call(call("c1", "first", "")), MessagePart::Call(call("c2", "second", "{}"))],
        ),
        turn(Role::User, vec![MessagePart::Result(result("c2", vec![text("two"), MessagePart::Image(image)]))]),
        turn(Role::User, vec![MessagePart::Result(unknown)]),
        turn(Role::User, vec![MessagePart::Result(failed), text("and now?")]),
    ];
    let expected = json!([
        { "functionResponse": { "name": "first", "response": { "error": "no" } } },
        { "functionResponse": { "name": "second", "response": { "output": "two" } } },
        { "functionResponse": { "name": "third", "response": { "output": "" } } },
        { "inlineData": { "mimeType": "image/png", "data": "AA" } },
        { "text": "and now?" },
    ]);
    assert_eq!(contents(turns, "gemini-2.5-pro")[2]["parts"], expected);
}

#[test]
fn calls_of_other_models_need_a_word_in_place_of_a_signature() {
    let turns = |signature: Option<&str>| {
        let first = ToolCall { signature: signature.map(str::to_owned), ..call("a", "f", "{}") };
        vec![user("go"), turn(Role::Assistant, vec![MessagePart::Call(first), MessagePart::Call(call("b", "f", "{}"))])]
    };
    let signatures = |signature, model| {
        let contents = contents(turns(signature), model);
        let signature = |at: usize| contents[1]["parts"][at]["thoughtSignature"].as_str().map(str::to_owned);
        (signature(0), signature(1))
    };
    let skip = Some("skip_thought_signature_validator".to_owned());
    for strict in ["gemini-3-pro-preview", "models/gemini-3.1-pro", "gemini-flash-latest"] {
        assert_eq!(signatures(None, strict), (skip.clone(), None), "{strict}");
    }
    for lenient in ["gemini-2.5-flash", "gemini-2.0-flash", "gemma-3", "4711"] {
        assert_eq!(signatures(None, lenient), (None, None), "{lenient}");
    }
    for model in ["gemini-3-pro-preview", "gemini-2.5-flash"] {
        assert_eq!(signatures(Some("photofinish.gemini.sig"), model), (Some("sig".to_owned()), None));
    }
}

#[test]
fn only_gemini_s_own_thoughts_go_back() {
    let thinking = |text: &str, signature: Option<&str>| {
        MessagePart::Thinking(ReasoningPart {
            text: text.to_owned(),
            signature: signature.map(str::to_owned),
            ..ReasoningPart::default()
        })
    };
    let own = "photofinish.gemini.s1".to_owned();
    let turns =
        vec![user("go"), turn(Role::Assistant, vec![thinking("hm", Some(&own)), text("x"), thinking("", Some(&own))])];
    let expected = json!([
        { "text": "hm", "thoughtSignature": "s1", "thought": true }, { "text": "x" }, { "text": "", "thoughtSignature": "s1" },
    ]);
    assert_eq!(contents(turns, "gemini-3-pro")[1]["parts"], expected);
    for foreign in [thinking("hm", Some("s1")), thinking("hm", None)] {
        let turns = vec![user("a"), turn(Role::Assistant, vec![foreign]), user("b")];
        let (body, meaning, lost) = write(&Conversation { turns, ..Conversation::default() }, "gemini-3-pro");
        assert_eq!(body["contents"], json!([{ "role": "user", "parts": [{ "text": "a" }, { "text": "b" }] }]));
        assert_eq!((meaning.len(), lost), (0, vec!["thinking".to_owned()]));
    }
}

#[test]
fn sources_are_taken_or_told_to_be_lost() {
    let image = |source| MessagePart::Image(Image { source, detail: None, cache: None });
    let document = |source| MessagePart::Document(Document { source, name: None, cache: None });
    let url = |url: &str| Source::Url(url.to_owned());
    let one = |part: MessagePart, model: &str| {
        let turns = vec![turn(Role::User, vec![part])];
        let (body, meaning, _) = write(&Conversation { turns, ..Conversation::default() }, model);
        (body["contents"][0]["parts"][0].clone(), meaning)
    };
    let file = |media_type: Option<&str>, uri: &str| match media_type {
        Some(media_type) => json!({ "fileData": { "mimeType": media_type, "fileUri": uri } }),
        None => json!({ "fileData": { "fileUri": uri } }),
    };
    let pdf = Source::Base64 { media_type: "application/pdf".to_owned(), data: "AA".to_owned() };
    for (part, expected) in [
        (image(url("https://a.example/x.PNG?y=1.txt")), file(Some("image/png"), "https://a.example/x.PNG?y=1.txt")),
        (image(url("https://a.example/x")), file(None, "https://a.example/x")),
        (image(url("gs://b/x.jpg")), file(Some("image/jpeg"), "gs://b/x.jpg")),
        (document(url("https://a.example/x.pdf")), file(Some("application/pdf"), "https://a.example/x.pdf")),
        (document(pdf), json!({ "inlineData": { "mimeType": "application/pdf", "data": "AA" } })),
        (document(Source::Text("words".to_owned())), json!({ "text": "words" })),
        (MessagePart::Refusal("no".to_owned()), json!({ "text": "no" })),
        (
            MessagePart::Audio(Audio { format: "wav".to_owned(), data: "AA".to_owned() }),
            json!({ "inlineData": { "mimeType": "audio/wav", "data": "AA" } }),
        ),
    ] {
        assert_eq!(one(part, "gemini-2.5-flash"), (expected, vec![]));
    }
    for (part, model, lost) in [
        (image(url("https://a.example/x.png")), "gemini-2.0-flash", "image_url"),
        (image(url("ftp://a.example/x.png")), "gemini-2.5-flash", "image_url"),
        (image(Source::File("file-1".to_owned())), "gemini-2.5-flash", "file_id"),
        (document(Source::File("file-1".to_owned())), "gemini-2.5-flash", "file_id"),
        (document(url("data:x")), "gemini-2.5-flash", "document.url"),
    ] {
        assert_eq!(one(part, model), (Value::Null, vec![lost.to_owned()]), "{model} {lost}");
    }
}

#[test]
fn thinking_is_a_budget_or_a_level() {
    let reasoning = |enabled, effort, budget, show| Reasoning { enabled, effort, budget, show, encrypted: false };
    let effort = |effort| reasoning(None, Some(effort), None, None);
    let table: &[(Reasoning, &str, Value)] = &[
        (effort(Effort::Low), "gemini-2.5-flash", json!({ "includeThoughts": true, "thinkingBudget": 1_024 })),
        (effort(Effort::Max), "gemini-2.5-flash", json!({ "includeThoughts": true, "thinkingBudget": 24_576 })),
        (effort(Effort::None), "gemini-2.5-flash", json!({ "thinkingBudget": 0 })),
        (effort(Effort::None), "gemini-2.5-pro", json!({ "thinkingBudget": 128 })),
        (
            reasoning(Some(true), None, Some(50), None),
            "gemini-2.5-pro",
            json!({ "includeThoughts": true, "thinkingBudget": 128 }),
        ),
        (
            reasoning(Some(true), None, Some(u64::MAX), Some(false)),
            "gemini-2.5-pro",
            json!({ "includeThoughts": false, "thinkingBudget": 32_768 }),
        ),
        (
            reasoning(Some(true), None, Some(100), None),
            "gemini-2.5-flash-lite",
            json!({ "includeThoughts": true, "thinkingBudget": 512 }),
        ),
        (
            reasoning(Some(true), None, None, None),
            "gemini-2.5-flash",
            json!({ "includeThoughts": true, "thinkingBudget": -1 }),
        ),
        (
            effort(Effort::Medium),
            "gemini-3-flash-preview",
            json!({ "includeThoughts": true, "thinkingLevel": "MEDIUM" }),
        ),
        (effort(Effort::Medium), "gemini-3-pro-preview", json!({ "includeThoughts": true, "thinkingLevel": "HIGH" })),
        (
            effort(Effort::Medium),
            "gemini-3.1-pro-preview",
            json!({ "includeThoughts": true, "thinkingLevel": "MEDIUM" }),
        ),
        (
            effort(Effort::Minimal),
            "gemini-3-flash-preview",
            json!({ "includeThoughts": true, "thinkingLevel": "MINIMAL" }),
        ),
        (effort(Effort::Minimal), "gemini-4-hydrogen", json!({ "includeThoughts": true, "thinkingLevel": "LOW" })),
        (reasoning(Some(false), None, None, None), "gemini-3-pro-preview", json!({ "thinkingLevel": "LOW" })),
        (
            reasoning(None, None, Some(20_000), Some(true)),
            "gemini-3.1-pro",
            json!({ "includeThoughts": true, "thinkingLevel": "HIGH" }),
        ),
        (reasoning(None, None, None, Some(true)), "gemini-3.1-pro", json!({ "includeThoughts": true })),
        (reasoning(None, None, None, None), "gemini-3.1-pro", Value::Null),
        (effort(Effort::None), "gemini-2.0-flash", Value::Null),
    ];
    for (reasoning, model, expected) in table {
        let conversation =
            Conversation { turns: vec![user("x")], reasoning: Some(reasoning.clone()), ..Conversation::default() };
        assert_eq!(
            whole(&conversation, model)["generationConfig"]["thinkingConfig"],
            *expected,
            "{model} {reasoning:?}"
        );
    }
    let conversation = Conversation { reasoning: Some(effort(Effort::High)), ..Conversation::default() };
    assert_eq!(write(&conversation, "gemini-2.0-flash").2, ["reasoning"]);
}

#[test]
fn tools_are_declared_and_chosen() {
    let tool = |parameters: Option<Value>| Tool { name: "f".to_owned(), parameters, ..Tool::default() };
    let declared = |parameters: Option<Value>| {
        let conversation = Conversation { tools: vec![tool(parameters)], ..Conversation::default() };
        whole(&conversation, "gemini-3-pro")["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"].clone()
    };
    for nothing in [
        None,
        Some(json!({})),
        Some(json!(null)),
        Some(
            json!({ "type": "object", "properties": {}, "required": [], "additionalProperties": false, "$schema": "x" }),
        ),
    ] {
        assert_eq!(declared(nothing), Value::Null);
    }
    for something in [
        json!({ "type": "object", "additionalProperties": true }),
        json!({ "$ref": "#/$defs/a", "$defs": {} }),
        json!({ "type": "object", "properties": { "a": {} }, "$schema": "x" }),
    ] {
        assert_eq!(declared(Some(something.clone())), something);
    }
    let config = |choice: ToolChoice| {
        let conversation =
            Conversation { tools: vec![tool(None)], tool_choice: Some(choice), ..Conversation::default() };
        whole(&conversation, "gemini-3-pro")["toolConfig"]["functionCallingConfig"].clone()
    };
    assert_eq!(config(ToolChoice::Auto), Value::Null);
    assert_eq!(config(ToolChoice::None), json!({ "mode": "NONE" }));
    assert_eq!(config(ToolChoice::Required), json!({ "mode": "ANY" }));
    let unused = Conversation { tool_choice: Some(ToolChoice::Required), ..Conversation::default() };
    assert_eq!(whole(&unused, "gemini-3-pro").get("toolConfig"), None);
}

#[test]
fn a_system_prompt_alone_is_what_the_user_says_and_late_ones_keep_their_place() {
    let alone = Conversation { system: vec![text("a")], ..Conversation::default() };
    assert_eq!(whole(&alone, "gemini-3-pro"), json!({ "contents": [{ "role": "user", "parts": [{ "text": "a" }] }] }));
    let turns = vec![turn(Role::Assistant, vec![text("b"), text("")]), turn(Role::System, vec![text("c")]), user("d")];
    let expected = json!([
        { "role": "model", "parts": [{ "text": "b" }] }, { "role": "user", "parts": [{ "text": "c" }, { "text": "d" }] },
    ]);
    assert_eq!(contents(turns, "gemini-3-pro"), expected);
}

#[test]
fn json_is_asked_for_without_a_schema_too() {
    let format = |format| {
        let conversation = Conversation { format: Some(format), ..Conversation::default() };
        whole(&conversation, "gemini-3-pro").get("generationConfig").cloned()
    };
    assert_eq!(format(Format::Text), None);
    assert_eq!(format(Format::Json), Some(json!({ "responseMimeType": "application/json" })));
}

#[test]
fn what_cannot_be_said_is_told() {
    let cache = Some(CacheHint::default());
    let image = Image { source: Source::Url("gs://b/x".to_owned()), detail: Some("low".to_owned()), cache: None };
    let document = Document { source: Source::Text("x".to_owned()), name: Some("x.txt".to_owned()), cache: None };
    let custom = Tool { name: "g".to_owned(), custom: true, ..Tool::default() };
    let conversation = Conversation {
        turns: vec![turn(
            Role::User,
            vec![
                MessagePart::Text { text: "x".to_owned(), cache },
                MessagePart::Image(image),
                MessagePart::Document(document),
            ],
        )],
        tools: vec![Tool { name: "f".to_owned(), strict: Some(true), ..Tool::default() }, custom],
        parallel_tool_calls: Some(false),
        sampling: Sampling {
            n: Some(2),
            seed: Some(1 << 40),
            stop: (0..6).map(|n| n.to_string()).collect(),
            ..Sampling::default()
        },
        user: Some("u".to_owned()),
        ..Conversation::default()
    };
    let (body, meaning, lost) = write(&conversation, "gemini-2.5-flash");
    assert_eq!(meaning, ["tools[1]", "parallel_tool_calls", "seed", "stop", "n"]);
    assert_eq!(lost[5..], ["image_url.detail", "document.title", "tools.strict"]);
    assert_eq!(body["generationConfig"], json!({ "stopSequences": ["0", "1", "2", "3", "4"] }));
    assert_eq!(body["tools"][0]["functionDeclarations"], json!([{ "name": "f" }]));
    let silent = Conversation {
        tool_choice: Some(ToolChoice::None),
        tools: vec![Tool::default()],
        parallel_tool_calls: Some(false),
        ..Conversation::default()
    };
    assert_eq!(write(&silent, "gemini-2.5-flash").1, Vec::<String>::new());
}
