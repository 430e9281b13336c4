//! Any JSON, on every surface, over upstreams of every dialect: it is served or it is a 400 in the surface's shape; never a 5xx, a
//! broken connection or a hang.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::harness::answer::{Heard, hear};
use crate::harness::gateway::{Setup, TestGateway};
use crate::harness::surface::Called;
use crate::support::{Dialect, FakeProvider, RawClient, Script};

/// A gateway over upstreams of every dialect, as `openai/m`, `responses/m`, …, that leaves out what cannot be said.
async fn over_all(more: &str) -> (Vec<FakeProvider>, TestGateway) {
    let (mut fakes, mut setup) = (Vec::new(), Setup::new().race("lossy = \"drop\"").server(more));
    for dialect in DIALECTS {
        let fake = FakeProvider::answering(move |_| Script::of(dialect).whole_stream(&["hi"])).await;
        setup = setup.provider(&format!("p-{}", dialect.name()), &fake, &format!("dialect = \"{}\"", dialect.name()));
        fakes.push(fake);
    }
    (fakes, setup.start().await)
}

const DIALECTS: [Dialect; 6] =
    [Dialect::OpenAi, Dialect::Responses, Dialect::Anthropic, Dialect::Gemini, Dialect::Bedrock, Dialect::Ollama];

/// One after the other on one connection, as long as it stands.
struct Asker {
    client: RawClient,
}

impl Asker {
    async fn new(gateway: &TestGateway) -> Asker {
        Asker { client: RawClient::connect(gateway.addr()).await }
    }

    async fn ask(&mut self, path: &str, body: &str) -> Heard {
        self.client.request("POST", path, &[("content-type", "application/json")], body).await;
        hear(&mut self.client).await
    }
}

/// It is served, or refused as it should be. `what` tells which it was.
fn assert_answered(path: &str, heard: &Heard, what: &str) {
    match heard.status {
        200 => {}
        400 | 404 | 413 => {
            let answer = heard.json();
            assert_eq!(answer["type"] == "error", path.starts_with("/v1/messages"), "{what}: {}", heard.body);
            let error = &answer["error"];
            assert!(error["type"].is_string(), "{what}: {}", heard.body);
            assert!(error["message"].as_str().is_some_and(|said| !said.is_empty()), "{what}: {}", heard.body);
            assert!(heard.body.len() < 4_000, "{what}: {} bytes", heard.body.len());
        }
        status => panic!("{status} for {what}: {}", heard.body),
    }
}

/// A request with something of everything.
fn rich(called: Called) -> Value {
    let schema = json!({"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]});
    let image = "data:image/png;base64,aGk=";
    match called {
        Called::Chat => json!({
            "model": "m", "stream": false, "temperature": 0.5, "top_p": 0.9, "max_completion_tokens": 9, "stop": ["a"],
            "reasoning_effort": "low", "parallel_tool_calls": true, "n": 1, "user": "u", "metadata": {"k": "v"},
            "messages": [
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": [
                    {"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": image, "detail": "low"}}]},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"x\":\"1\"}"}}]},
                {"role": "tool", "tool_call_id": "c1", "content": "done"},
            ],
            "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": schema, "strict": true}}],
            "tool_choice": {"type": "function", "function": {"name": "f"}},
            "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema, "strict": true}},
        }),
        Called::Responses => json!({
            "model": "m", "stream": false, "temperature": 0.5, "top_p": 0.9, "max_output_tokens": 9, "store": false,
            "instructions": "be brief", "reasoning": {"effort": "low", "summary": "auto"}, "parallel_tool_calls": true,
            "input": [
                {"type": "message", "role": "user", "content": [
                    {"type": "input_text", "text": "look"}, {"type": "input_image", "image_url": image, "detail": "low"}]},
                {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "t"}], "encrypted_content": "e"},
                {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{\"x\":\"1\"}"},
                {"type": "function_call_output", "call_id": "c1", "output": "done"},
            ],
            "tools": [{"type": "function", "name": "f", "description": "d", "parameters": schema, "strict": true}],
            "tool_choice": {"type": "function", "name": "f"}, "include": ["reasoning.encrypted_content"],
            "text": {"format": {"type": "json_schema", "name": "s", "schema": schema, "strict": true}},
        }),
        Called::Messages => json!({
            "model": "m", "stream": false, "temperature": 0.5, "top_p": 0.9, "top_k": 5, "max_tokens": 2_000,
            "stop_sequences": ["a"], "system": [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
            "metadata": {"user_id": "u"}, "thinking": {"type": "enabled", "budget_tokens": 1_024},
            "messages": [
                {"role": "user", "content": [
                    {"type": "text", "text": "look"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
                    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}, "title": "t"}]},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                    {"type": "tool_use", "id": "c1", "name": "f", "input": {"x": "1"}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "done"}], "is_error": false}]},
            ],
            "tools": [{"name": "f", "description": "d", "input_schema": schema}], "tool_choice": {"type": "tool", "name": "f"},
        }),
    }
}

/// The places of all values in it, itself left out.
fn places(value: &Value, at: &str, all: &mut Vec<String>) {
    let members: Vec<(String, &Value)> = match value {
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(values) => values.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    for (name, value) in members {
        let place = format!("{at}/{name}");
        all.push(place.clone());
        places(value, &place, all);
    }
}

fn odd_values() -> Vec<Value> {
    let long = "x".repeat(5_000);
    vec![
        Value::Null,
        json!(true),
        json!(-1),
        json!(1.5e300),
        json!(""),
        json!(long),
        json!("\u{0}\u{7f}\u{ffff}\u{10ffff}"),
        json!([]),
        json!({}),
        json!([null, [{}], "x"]),
        json!({"type": "nobody_knows", "": {"": []}}),
        json!([{"type": 7}]),
    ]
}

/// Every member at any depth, replaced by a value of each type; the dialect changes with each.
async fn takes_any_json(called: Called) {
    let (_fakes, gateway) = over_all("").await;
    let good = rich(called);
    let mut asker = Asker::new(&gateway).await;
    for dialect in DIALECTS {
        let mut body = good.clone();
        body["model"] = json!(format!("p-{}/m", dialect.name()));
        let heard = asker.ask(called.path(), &body.to_string()).await;
        assert_eq!(heard.status, 200, "{called:?} over {dialect:?}: {}", heard.body);
        assert_eq!(called.whole_text(&heard.json()), "hi");
    }
    let mut all = Vec::new();
    places(&good, "", &mut all);
    let mut turn = 0;
    for place in all {
        for value in odd_values() {
            turn += 1;
            let dialect = DIALECTS[turn % DIALECTS.len()];
            let mut body = good.clone();
            body["model"] = json!(format!("p-{}/m", dialect.name()));
            *body.pointer_mut(&place).unwrap() = value.clone();
            let what = format!("{place} = {:.60} over {dialect:?}", value.to_string());
            assert_answered(called.path(), &asker.ask(called.path(), &body.to_string()).await, &what);
        }
    }
    gateway.stop().await;
}

#[tokio::test]
async fn chat_takes_any_json() {
    takes_any_json(Called::Chat).await;
}

#[tokio::test]
async fn responses_takes_any_json() {
    takes_any_json(Called::Responses).await;
}

#[tokio::test]
async fn messages_takes_any_json() {
    takes_any_json(Called::Messages).await;
}

#[tokio::test]
async fn what_is_not_translated_takes_any_json_too() {
    let fake =
        FakeProvider::answering(|_| Script::status(200, &[], r#"{"object":"list","data":[],"input_tokens":1}"#)).await;
    let gateway = Setup::new().provider("a", &fake, "dialect = [\"openai\", \"anthropic\"]").start().await;
    let mut asker = Asker::new(&gateway).await;
    for (path, good) in [
        (
            "/v1/embeddings",
            json!({"model": "m", "input": ["x"], "dimensions": 8, "encoding_format": "float", "user": "u"}),
        ),
        (
            "/v1/messages/count_tokens",
            json!({"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": []}),
        ),
    ] {
        assert_eq!(asker.ask(path, &good.to_string()).await.status, 200);
        let mut all = Vec::new();
        places(&good, "", &mut all);
        for place in all {
            for value in odd_values() {
                let mut body = good.clone();
                *body.pointer_mut(&place).unwrap() = value.clone();
                let what = format!("{path}: {place} = {:.60}", value.to_string());
                assert_answered(path, &asker.ask(path, &body.to_string()).await, &what);
            }
        }
    }
    gateway.stop().await;
}

/// The member that holds the prompt, and one that holds what a tool takes, as deep as said.
fn nested(called: Called, depth: usize) -> [String; 3] {
    let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let objects = format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    let good = called.body("MODEL", false).to_string();
    let open = good.strip_suffix('}').unwrap();
    let prompt = if called == Called::Responses { "input" } else { "messages" };
    let tool = match called {
        Called::Chat => format!(r#"{{"type":"function","function":{{"name":"f","parameters":{objects}}}}}"#),
        Called::Responses => format!(r#"{{"type":"function","name":"f","parameters":{objects}}}"#),
        Called::Messages => format!(r#"{{"name":"f","input_schema":{objects}}}"#),
    };
    [
        format!("{{\"model\":\"MODEL\",\"max_tokens\":5,\"{prompt}\":{deep}}}"),
        format!("{open},\"tools\":[{tool}]}}"),
        format!("{open},\"x_unknown\":{objects}}}"),
    ]
}

#[tokio::test]
async fn deep_nesting_is_bounded() {
    let (_fakes, gateway) = over_all("").await;
    let mut asker = Asker::new(&gateway).await;
    for called in Called::ALL {
        for dialect in DIALECTS {
            for depth in [30, 126, 127, 128, 500, 100_000] {
                for (number, body) in nested(called, depth).into_iter().enumerate() {
                    let body = body.replace("MODEL", &format!("p-{}/m", dialect.name()));
                    let heard = asker.ask(called.path(), &body).await;
                    let what = format!("{called:?} over {dialect:?}, {depth} deep, case {number}");
                    assert_answered(called.path(), &heard, &what);
                }
            }
        }
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_million_of_anything_is_answered() {
    let (_fakes, gateway) = over_all("").await;
    let mut asker = Asker::new(&gateway).await;
    let many = |one: &str, count: usize| {
        let mut list = one.to_owned();
        (1..count).for_each(|_| write!(list, ",{one}").unwrap());
        list
    };
    for called in Called::ALL {
        let tool = match called {
            Called::Chat => r#"{"type":"function","function":{"name":"f"}}"#,
            Called::Responses => r#"{"type":"function","name":"f","parameters":null,"strict":null}"#,
            Called::Messages => r#"{"name":"f","input_schema":{"type":"object"}}"#,
        };
        for (dialect, members) in [
            (called.dialect(), format!("\"tools\":[{}]", many("{}", 1_000_000))),
            (Dialect::Gemini, format!("\"tools\":[{}]", many("{}", 1_000_000))),
            (Dialect::Bedrock, format!("\"tools\":[{}]", many(tool, 20_000))),
            (Dialect::Gemini, format!("\"stop\":[{}]", many("\"\"", 1_000_000))),
            (Dialect::Ollama, many("\"x_unknown\":1", 50_000)),
        ] {
            let good = called.body(&format!("p-{}/m", dialect.name()), false).to_string();
            let body = format!("{},{members}}}", good.strip_suffix('}').unwrap());
            let heard = asker.ask(called.path(), &body).await;
            assert_answered(called.path(), &heard, &format!("{called:?} over {dialect:?}: {:.40}", members));
            assert!(heard.headers.iter().all(|(_, value)| value.len() < 8_000), "{:?}", heard.headers);
        }
    }
    gateway.stop().await;
}

#[tokio::test]
async fn an_image_above_the_limit_is_a_413() {
    let (fakes, gateway) = over_all("body_max = \"1MiB\"").await;
    let data = "A".repeat(2 << 20);
    let url = format!("data:image/png;base64,{data}");
    for (called, content) in [
        (Called::Chat, json!([{"type": "image_url", "image_url": {"url": url}}])),
        (Called::Responses, json!([{"type": "input_image", "image_url": url}])),
        (
            Called::Messages,
            json!([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}]),
        ),
    ] {
        let mut body = called.body("p-anthropic/m", false);
        let prompt = if called == Called::Responses { "input" } else { "messages" };
        body[prompt] = json!([{"role": "user", "content": content}]);
        let heard = hear(&mut gateway.post(called.path(), &body).await).await;
        assert_eq!(heard.status, 413, "{}", heard.body);
        assert!(called.error(&heard).1.contains("1MiB"), "{}", heard.body);
    }
    gateway.stop().await;
    assert!(fakes.iter().all(|fake| fake.requests().is_empty()));
}
