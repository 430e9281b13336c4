//! Any JSON, on every surface, over upstreams of every dialect, is served or is a 400 in the surface's shape; never a 5xx, a broken
//! connection or a hang.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::harness::answer::{Response, read_response};
use crate::harness::gateway::{Setup, TestGateway};
use crate::harness::samples::conversation;
use crate::harness::surface::Surface;
use crate::support::{Dialect, FakeProvider, RawClient, Script};

/// A gateway over upstreams of every dialect, as `openai/m`, `responses/m`, …, that leaves out what a dialect cannot
/// express.
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

/// Sends requests one after the other on one connection while it is open.
struct Asker {
    client: RawClient,
}

impl Asker {
    async fn new(gateway: &TestGateway) -> Asker {
        Asker { client: RawClient::connect(gateway.addr()).await }
    }

    async fn ask(&mut self, path: &str, body: &str) -> Response {
        self.client.request("POST", path, &[("content-type", "application/json")], body).await;
        read_response(&mut self.client).await
    }
}

/// Checks that it is served, or refused as expected. `what` names the case.
fn assert_answered(path: &str, response: &Response, what: &str) {
    match response.status {
        200 => {}
        400 | 404 | 413 => {
            let answer = response.json();
            assert_eq!(answer["type"] == "error", path.starts_with("/v1/messages"), "{what}: {}", response.body);
            assert!(response.body.len() < 4_000, "{what}: {} bytes", response.body.len());
            if path.starts_with("/v1beta/") {
                assert!(answer["error"]["status"].is_string(), "{what}: {}", response.body);
                return;
            }
            if path.starts_with("/api/") {
                assert!(answer["error"].as_str().is_some_and(|said| !said.is_empty()), "{what}: {}", response.body);
                return;
            }
            let error = &answer["error"];
            assert!(error["type"].is_string(), "{what}: {}", response.body);
            assert!(error["message"].as_str().is_some_and(|said| !said.is_empty()), "{what}: {}", response.body);
        }
        status => panic!("{status} for {what}: {}", response.body),
    }
}

/// Adds the paths of all values in it, except itself.
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

/// Replaces every member at any depth by a value of each type; the dialect changes with each.
async fn takes_any_json(surface: Surface) {
    let (_fakes, gateway) = over_all("").await;
    let good = conversation(surface);
    let mut asker = Asker::new(&gateway).await;
    for dialect in DIALECTS {
        let mut body = good.clone();
        body["model"] = json!(format!("p-{}/m", dialect.name()));
        let path = surface.path_for(&format!("p-{}/m", dialect.name()), false);
        let response = asker.ask(&path, &body.to_string()).await;
        assert_eq!(response.status, 200, "{surface:?} over {dialect:?}: {}", response.body);
        assert_eq!(surface.whole_text(&response.json()), "hi");
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
            let path = surface.path_for(&format!("p-{}/m", dialect.name()), false);
            assert_answered(&path, &asker.ask(&path, &body.to_string()).await, &what);
        }
    }
    gateway.stop().await;
}

#[tokio::test]
async fn chat_takes_any_json() {
    takes_any_json(Surface::Chat).await;
}

#[tokio::test]
async fn responses_takes_any_json() {
    takes_any_json(Surface::Responses).await;
}

#[tokio::test]
async fn messages_takes_any_json() {
    takes_any_json(Surface::Messages).await;
}

#[tokio::test]
async fn ollama_takes_any_json() {
    takes_any_json(Surface::Ollama).await;
}

#[tokio::test]
async fn gemini_takes_any_json() {
    takes_any_json(Surface::Gemini).await;
}

#[tokio::test]
async fn native_surfaces_take_any_json() {
    let fake = FakeProvider::answering(|request| {
        let asked = request.json();
        let vector = vec![0.5; asked["dimensions"].as_u64().unwrap_or(8) as usize];
        let inputs = asked["input"].as_array().map_or(1, Vec::len);
        let data = vec![json!({ "embedding": vector }); inputs];
        Script::status(200, &[], &json!({ "data": data, "input_tokens": 1 }).to_string())
    })
    .await;
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

/// The member with the prompt, and a tool's parameters, nested this deep.
fn nested(surface: Surface, depth: usize) -> [String; 3] {
    let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let objects = format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    let good = surface.body("MODEL", false).to_string();
    let open = good.strip_suffix('}').unwrap();
    let prompt = match surface {
        Surface::Responses => "input",
        Surface::Gemini => "contents",
        _ => "messages",
    };
    let tool = match surface {
        Surface::Chat | Surface::Ollama => {
            format!(r#"{{"type":"function","function":{{"name":"f","parameters":{objects}}}}}"#)
        }
        Surface::Responses => format!(r#"{{"type":"function","name":"f","parameters":{objects}}}"#),
        Surface::Messages => format!(r#"{{"name":"f","input_schema":{objects}}}"#),
        Surface::Gemini => format!(r#"{{"functionDeclarations":[{{"name":"f","parameters":{objects}}}]}}"#),
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
    for surface in Surface::ALL {
        for dialect in DIALECTS {
            // The deepest is refused before its upstream is known, so one native and one translated dialect are enough.
            let deepest = (dialect == surface.dialect() || dialect == Dialect::Gemini).then_some(100_000);
            for depth in [30, 126, 127, 128, 500].into_iter().chain(deepest) {
                for (number, body) in nested(surface, depth).into_iter().enumerate() {
                    let body = body.replace("MODEL", &format!("p-{}/m", dialect.name()));
                    let path = surface.path_for(&format!("p-{}/m", dialect.name()), false);
                    let response = asker.ask(&path, &body).await;
                    let what = format!("{surface:?} over {dialect:?}, {depth} deep, case {number}");
                    assert_answered(surface.path(), &response, &what);
                }
            }
        }
    }
    gateway.stop().await;
}

#[tokio::test]
async fn very_many_elements_of_any_kind_are_answered() {
    // Quadratic work on this many items would exceed the test's time limit.
    const MANY: usize = 200_000;
    let (_fakes, gateway) = over_all("").await;
    let mut asker = Asker::new(&gateway).await;
    let many = |one: &str, count: usize| {
        let mut list = one.to_owned();
        (1..count).for_each(|_| write!(list, ",{one}").unwrap());
        list
    };
    for surface in Surface::ALL {
        let tool = match surface {
            Surface::Chat | Surface::Ollama => r#"{"type":"function","function":{"name":"f"}}"#,
            Surface::Responses => r#"{"type":"function","name":"f","parameters":null,"strict":null}"#,
            Surface::Messages => r#"{"name":"f","input_schema":{"type":"object"}}"#,
            Surface::Gemini => r#"{"functionDeclarations":[{"name":"f"}]}"#,
        };
        for (dialect, members) in [
            (surface.dialect(), format!("\"tools\":[{}]", many("{}", MANY))),
            (Dialect::Gemini, format!("\"tools\":[{}]", many("{}", MANY))),
            (Dialect::Bedrock, format!("\"tools\":[{}]", many(tool, MANY / 20))),
            (Dialect::Gemini, format!("\"stop\":[{}]", many("\"\"", MANY))),
            (Dialect::Ollama, many("\"x_unknown\":1", MANY / 10)),
        ] {
            let good = surface.body(&format!("p-{}/m", dialect.name()), false).to_string();
            let body = format!("{},{members}}}", good.strip_suffix('}').unwrap());
            let path = surface.path_for(&format!("p-{}/m", dialect.name()), false);
            let response = asker.ask(&path, &body).await;
            assert_answered(surface.path(), &response, &format!("{surface:?} over {dialect:?}: {:.40}", members));
            assert!(response.headers.iter().all(|(_, value)| value.len() < 8_000), "{:?}", response.headers);
        }
    }
    gateway.stop().await;
}

#[tokio::test]
async fn an_image_above_the_limit_is_a_413() {
    let (fakes, gateway) = over_all("body_max = \"1MiB\"").await;
    let data = "A".repeat(2 << 20);
    let url = format!("data:image/png;base64,{data}");
    for (surface, content) in [
        (Surface::Chat, json!([{"type": "image_url", "image_url": {"url": url}}])),
        (Surface::Responses, json!([{"type": "input_image", "image_url": url}])),
        (
            Surface::Messages,
            json!([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}]),
        ),
    ] {
        let mut body = surface.body("p-anthropic/m", false);
        let prompt = if surface == Surface::Responses { "input" } else { "messages" };
        body[prompt] = json!([{"role": "user", "content": content}]);
        let response = read_response(&mut gateway.post(surface.path(), &body).await).await;
        assert_eq!(response.status, 413, "{}", response.body);
        assert!(surface.error(&response).1.contains("1MiB"), "{}", response.body);
    }
    gateway.stop().await;
    assert!(fakes.iter().all(|fake| fake.requests().is_empty()));
}
