//! Answers that ended with a failure, and requests that the vendor would refuse.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::gemini::{read, request};
use photofinish_base::failure::FailureKind;
use photofinish_wire::answer::ends::End;
use photofinish_wire::answer::error::of_end;
use photofinish_wire::conversation::{Conversation, Format, Losses, Tool};
use photofinish_wire::dialect::Dialect;
use photofinish_wire::quirks::TranslationOptions;
use photofinish_wire::stream::frame::Frame;
use photofinish_wire::stream::sse::SseEvent;

fn event(data: &str) -> SseEvent {
    SseEvent { raw: Bytes::from(format!("data: {data}\n\n")) }
}

#[test]
fn an_answer_that_failed_is_known_by_its_end() {
    for (reason, fails) in [
        (json!("MALFORMED_FUNCTION_CALL"), true),
        (json!("UNEXPECTED_TOOL_CALL"), true),
        (json!("OTHER"), true),
        (json!(5), true),
        (json!("STOP"), false),
        (json!("MAX_TOKENS"), false),
        (json!("SAFETY"), false),
        (json!("a word of next year"), false),
        (json!(null), false),
    ] {
        let data = json!({ "candidates": [{ "content": { "parts": [{ "text": "x" }] }, "finishReason": reason,
            "finishMessage": "Malformed function call: x" }], "usageMetadata": { "promptTokenCount": 3 } });
        let event = event(&data.to_string());
        let Frame::Chunk(chunk) = read(&event) else { panic!("{reason}") };
        let word = chunk.finish_reason.unwrap_or_default();
        assert_eq!(End::of(&word) == End::BrokenOff, fails, "{reason}");
        if fails {
            let facts = of_end(&word, data.to_string().as_bytes());
            assert_eq!(facts.kind, FailureKind::InStreamError, "{reason}");
            assert!(facts.message.contains("the answer ended with"), "{}", facts.message);
            assert!(facts.message.contains("Malformed function call: x"), "{}", facts.message);
        }
    }
}

#[test]
fn functions_and_a_form_of_the_answer_are_not_for_older_models() {
    let tool = Tool { name: "f".to_owned(), ..Tool::default() };
    let write = |model: &str, tools: Vec<Tool>, format: Format| {
        let conversation = Conversation { tools, format: Some(format), ..Conversation::default() };
        let mut losses = Losses::default();
        let options = TranslationOptions::of_model(Dialect::Gemini, model);
        let body: Value = request(&conversation, &options, &mut losses);
        (
            body["generationConfig"]["responseMimeType"].is_string(),
            losses.deciding().map(str::to_owned).collect::<Vec<_>>(),
        )
    };
    for model in ["gemini-2.5-flash", "models/gemini-2.0-flash", "gemma-3-27b-it"] {
        assert_eq!(write(model, vec![tool.clone()], Format::Json), (false, vec!["response_format".to_owned()]));
        assert_eq!(write(model, vec![], Format::Json), (true, vec![]));
        assert_eq!(write(model, vec![tool.clone()], Format::Text), (false, vec![]));
    }
    assert_eq!(write("gemini-3-pro-preview", vec![tool], Format::Json), (true, vec![]));
}

#[test]
fn a_schema_of_the_answer_has_its_name_in_it() {
    let schema = json!({ "type": "object", "properties": { "x": { "type": "integer" } } });
    let format =
        Format::Schema { name: Some("cat".to_owned()), description: None, schema: schema.clone(), strict: Some(true) };
    let conversation = Conversation { format: Some(format), ..Conversation::default() };
    let mut losses = Losses::default();
    let body = request(&conversation, &TranslationOptions::default(), &mut losses);
    let mut wanted = schema;
    wanted["title"] = json!("cat");
    let expected = json!({ "responseMimeType": "application/json", "responseJsonSchema": wanted });
    assert_eq!((&body["generationConfig"], losses.is_empty()), (&expected, true));
}
