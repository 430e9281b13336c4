//! Answers that ended with a failure, and requests that the vendor would refuse.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::failure::FailureKind;
use crate::protocol::dialect::TranslationOptions;
use crate::protocol::error::of_frame;
use crate::protocol::frame::Frame;
use crate::protocol::gemini::{read, request};
use crate::protocol::neutral::{Conversation, Format, Losses, Tool};
use crate::protocol::sse::SseEvent;

fn event(data: &str) -> SseEvent {
    SseEvent { raw: Bytes::from(format!("data: {data}\n\n")) }
}

#[test]
fn an_answer_that_failed_is_an_error() {
    let text = json!([{ "text": "x" }]);
    for (reason, parts, fails) in [
        (json!("MALFORMED_FUNCTION_CALL"), json!([]), true),
        (json!("UNEXPECTED_TOOL_CALL"), text.clone(), true),
        (json!("OTHER"), json!([]), true),
        (json!(5), json!([]), true),
        (json!("OTHER"), text.clone(), false),
        (json!("STOP"), json!([]), false),
        (json!("MAX_TOKENS"), json!([]), false),
        (json!("SAFETY"), json!([]), false),
        (json!(null), text, false),
    ] {
        let data = json!({ "candidates": [{ "content": { "parts": parts }, "finishReason": reason,
            "finishMessage": "Malformed function call: x" }], "usageMetadata": { "promptTokenCount": 3 } });
        match read(&event(&data.to_string())) {
            Frame::Error { data, usage } => {
                assert!(fails && usage.is_some(), "{reason}");
                let facts = of_frame(&data);
                assert_eq!(facts.kind, FailureKind::InStreamError, "{reason}");
                assert!(facts.message.contains("the answer ended"), "{}", facts.message);
            }
            other => assert!(!fails, "{reason}: {other:?}"),
        }
    }
}

#[test]
fn functions_and_a_form_of_the_answer_are_not_for_older_models() {
    let tool = Tool { name: "f".to_owned(), ..Tool::default() };
    let write = |model: &str, tools: Vec<Tool>, format: Format| {
        let conversation = Conversation { tools, format: Some(format), ..Conversation::default() };
        let mut losses = Losses::default();
        let options = TranslationOptions::of_model(model);
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
