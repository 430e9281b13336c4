//! One translation serves all models of equal demands: the name of a model changes nothing else.

use photofinish_dialects::DialectFormat as _;
use photofinish_dialects::SurfaceFormat as _;
use serde_json::{Value, json};

use photofinish_wire::dialect::{Dialect, Surface};

use photofinish_wire::conversation::Losses;
use photofinish_wire::quirks::TranslationOptions;

/// Names of models with different options, and some with equal ones.
const MODELS: [&str; 22] = [
    "claude-3-7-sonnet-20250219",
    "claude-3-haiku",
    "claude-sonnet-4-20250514",
    "claude-sonnet-4-0",
    "claude-opus-4-1-20250805",
    "claude-opus-4-8",
    "claude-opus-5",
    "glm-5.1",
    "gemini-2.0-flash",
    "gemini-2.5-flash",
    "gemini-2.5-pro",
    "gemini-3-pro",
    "gemini-3-flash",
    "gemma-3-27b-it",
    "anthropic.claude-3-haiku-20240307-v1:0",
    "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "us.amazon.nova-pro-v1:0",
    "global.amazon.nova-2-lite-v1:0",
    "openai.gpt-oss-120b-1:0",
    "meta.llama3-8b-instruct-v1:0",
    "llama-3.3-70b",
    "gpt-5",
];

/// Requests whose translation depends on the model.
fn requests() -> Vec<Value> {
    let user = json!({ "role": "user", "content": [
        { "type": "text", "text": "Who is first?" },
        { "type": "image_url", "image_url": { "url": "data:image/png;base64,aGk=" } },
    ] });
    let call = json!({ "role": "assistant", "reasoning_content": "hm", "tool_calls": [
        { "id": "call_1", "type": "function", "function": { "name": "f", "arguments": "{\"a\":1}" } },
    ] });
    let result = json!({ "role": "tool", "tool_call_id": "call_1", "content": "ok" });
    let late = json!({ "role": "developer", "content": "Be brief." });
    let schema = json!({ "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"], "additionalProperties": false });
    let tools = json!([{ "type": "function", "function": { "name": "f", "strict": true, "parameters": schema } }]);
    let messages = json!([{ "role": "system", "content": "Be kind." }, user, call, result, late, user]);
    let mut requests = vec![
        json!({ "model": "m", "messages": messages }),
        json!({ "model": "m", "messages": messages, "tools": tools, "tool_choice": "required", "temperature": 0.5, "top_p": 0.5, "max_tokens": 50_000 }),
        json!({ "model": "m", "messages": messages, "tools": tools, "tool_choice": { "type": "function", "function": { "name": "f" } } }),
        json!({ "model": "m", "messages": messages, "response_format": { "type": "json_schema", "json_schema": { "name": "s", "schema": schema } } }),
        json!({ "model": "m", "messages": messages, "temperature": 1.5, "stop": ["x"], "seed": 1, "max_completion_tokens": 10 }),
    ];
    for effort in ["none", "minimal", "low", "high", "xhigh"] {
        requests.push(json!({ "model": "m", "messages": messages, "tools": tools, "reasoning_effort": effort, "temperature": 0.5 }));
    }
    requests
}

#[test]
fn models_of_equal_demands_are_sent_the_same() {
    let mut shared = 0;
    for body in requests() {
        let conversation = Surface::Chat.conversation(body.to_string().as_bytes()).unwrap();
        for dialect in Dialect::ALL {
            let sent = |model: &str| {
                let mut losses = Losses::default();
                let options = TranslationOptions::of_model(dialect, model);
                let mut request = dialect.request(&conversation, &options, &mut losses);
                // The model's name does not count.
                request.as_object_mut().unwrap().remove("model");
                (request, format!("{losses:?}"))
            };
            let all = MODELS.map(sent);
            for (one, first) in MODELS.iter().zip(&all) {
                for (other, second) in MODELS.iter().zip(&all) {
                    let quirks = |model: &str| TranslationOptions::of_model(dialect, model).quirks;
                    if one != other && quirks(one) == quirks(other) {
                        assert_eq!(first, second, "{dialect:?}: {one} and {other}");
                        shared += 1;
                    }
                }
            }
        }
    }
    assert!(shared > 100, "the table has models that share a translation: {shared}");
}
