//! Requests for any JSON object: every surface that can ask for one, over every dialect.

use bytes::Bytes;
use photofinish_dialects::SurfaceFormat as _;
use serde_json::{Value, json};

use crate::request::ApiRequest;
use crate::translate::request::RequestTranslation;
use photofinish_wire::dialect::{Dialect, PathCall, Surface};
use photofinish_wire::quirks::{Quirks, TranslationOptions};

/// Each surface that can ask for it, with its request and the name of the member.
fn asking() -> [(Surface, Value, &'static str); 5] {
    let chat = json!({"model": "m", "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "x"}]});
    let with = |mut body: Value, name: &str, value: Value| {
        body[name] = value;
        body
    };
    let json_object = json!({"type": "json_object"});
    [
        (Surface::Chat, with(chat.clone(), "response_format", json_object.clone()), "response_format"),
        (
            Surface::Responses,
            json!({"model": "m", "input": "x", "instructions": "be brief", "text": {"format": json_object}}),
            "text.format",
        ),
        (
            Surface::Gemini,
            json!({"contents": [{"role": "user", "parts": [{"text": "x"}]}], "systemInstruction": {"parts": [{"text": "be brief"}]},
                "generationConfig": {"responseMimeType": "application/json"}}),
            "generationConfig.responseMimeType",
        ),
        (Surface::OllamaChat, with(chat, "format", json!("json")), "format"),
        (
            Surface::OllamaGenerate,
            json!({"model": "m", "prompt": "x", "system": "be brief", "format": "json"}),
            "format",
        ),
    ]
}

fn translated(surface: Surface, body: &Value, dialect: Dialect, quirks: Quirks) -> (Value, Vec<String>, bool) {
    let conversation = surface.conversation(body.to_string().as_bytes()).unwrap();
    let options = TranslationOptions { model: "m".to_owned(), quirks };
    let translation = RequestTranslation::translated(surface, &conversation, dialect, &options).unwrap();
    let written = translation.body_for("m", photofinish_wire::AnswerForm::Plain).joined();
    let lost = translation.losses().names().map(str::to_owned).collect();
    (serde_json::from_slice(&written).unwrap(), lost, translation.losses().keeps_settings())
}

#[test]
fn what_a_dialect_has_no_member_for_is_asked_for_in_words() {
    for (surface, body, member) in asking() {
        for dialect in Dialect::ALL {
            if dialect == surface.dialect() {
                continue;
            }
            let (written, lost, keeps) = translated(surface, &body, dialect, Quirks::default());
            let own = match dialect {
                Dialect::OpenAi => &written["response_format"]["type"] == "json_object",
                Dialect::Responses => &written["text"]["format"]["type"] == "json_object",
                Dialect::Gemini => &written["generationConfig"]["responseMimeType"] == "application/json",
                Dialect::Ollama => &written["format"] == "json",
                Dialect::Anthropic | Dialect::Bedrock => false,
            };
            let system = written.to_string();
            let words = system.matches("Answer with one JSON object").count();
            let way = format!("{surface:?} over {dialect:?}: {written} {lost:?}");
            assert_eq!((own, words), if keeps { (true, 0) } else { (false, 1) }, "{way}");
            assert_eq!(keeps, !matches!(dialect, Dialect::Anthropic | Dialect::Bedrock), "{way}");
            assert_eq!(lost, if keeps { vec![] } else { vec![format!("{member}:in_words")] }, "{way}");
            // Behind what the client says, which stays.
            assert!(keeps || written["system"].to_string().contains("be brief"), "{way}");
        }
    }
}

#[test]
fn a_model_without_it_beside_tools_is_asked_in_words_too() {
    let mut body = asking()[0].1.clone();
    body["tools"] = json!([{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {}}}}}]);
    let quirks = Quirks { schemas_with_tools: false, ..Quirks::default() };
    let (written, lost, _) = translated(Surface::Chat, &body, Dialect::Gemini, quirks);
    assert_eq!(lost, ["response_format:in_words"]);
    assert!(written["systemInstruction"].to_string().contains("Answer with one JSON object"), "{written}");
}

#[test]
fn any_object_is_json_without_a_schema() {
    for (surface, body, _) in asking() {
        let call = PathCall { surface, model: "m".to_owned(), stream: false, listed: false };
        let call = (surface == Surface::Gemini).then_some(&call);
        let request = ApiRequest::parse_call(surface, Bytes::from(body.to_string()), call, false).unwrap();
        assert!(request.asks_json && !request.has_schema, "{surface:?}");
    }
    let both =
        r#"{"model":"m","messages":[{"role":"user","content":"x"}],"format":{"type":"object"},"options":{"seed":1}}"#;
    assert!(ApiRequest::parse(Surface::OllamaChat, Bytes::from(both)).unwrap().has_schema, "whatever follows");
}
