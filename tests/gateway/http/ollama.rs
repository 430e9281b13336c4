//! Ollama's requests other than chats: prompts, vectors, lists, versions, loading; and invalid requests.

use serde_json::{Value, json};

use crate::harness::answer::{Response, read_response};
use crate::harness::gateway::{Setup, TestGateway, assert_row};
use crate::support::{Dialect, FakeProvider, RawClient, Script};

const GENERATE: &str = "/api/generate";
const OLLAMA: &str = "dialect = \"ollama\"";

async fn asked(gateway: &TestGateway, path: &str, body: &Value) -> Response {
    read_response(&mut gateway.post(path, body).await).await
}

async fn get(gateway: &TestGateway, path: &str) -> Response {
    let mut client = RawClient::connect(gateway.addr()).await;
    client.request("GET", path, &[], "").await;
    read_response(&mut client).await
}

#[tokio::test]
async fn a_prompt_streams_unless_told_otherwise_and_a_native_answer_is_untouched() {
    let lines = concat!(
        r#"{"model":"x","created_at":"t","response":"one","done":false,"odd":[1]}"#,
        "\n",
        r#"{"model":"x","created_at":"t","response":" two","done":false}"#,
        "\n",
        r#"{"model":"x","created_at":"u","response":"","done":true,"done_reason":"stop","context":[1,2],"prompt_eval_count":3,"eval_count":2}"#,
        "\n",
    );
    let answer = || Script::new().head(200, &[("content-type", "application/x-ndjson")]).chunk(lines).end();
    let fake = FakeProvider::start(vec![answer(), answer()]).await;
    let gateway = Setup::new().provider("a", &fake, OLLAMA).start().await;
    let ask = json!({"model": "m", "prompt": "p", "options": {"num_ctx": 1}, "x_odd": [1]});
    let streamed = asked(&gateway, GENERATE, &ask).await;
    assert_eq!((streamed.status, streamed.header("content-type")), (200, "application/x-ndjson"));
    assert_eq!(streamed.body, lines);
    let mut whole = ask.clone();
    whole["stream"] = json!(false);
    let whole = asked(&gateway, GENERATE, &whole).await.json();
    assert_eq!(
        (&whole["response"], &whole["context"], &whole["odd"]),
        (&json!("one two"), &json!([1, 2]), &json!([1]))
    );
    let up = fake.request(0).await;
    let expected = json!({"model": "m", "prompt": "p", "options": {"num_ctx": 1}, "x_odd": [1], "stream": true});
    assert_eq!((up.path.as_str(), up.json()), ("/v1/api/generate", expected));
    let rows = gateway.stop().await;
    assert_row!(&rows.races[0], json!({"api": "ollama_generate", "stream": 1, "outcome": "ok"}));
    assert_row!(&rows.races[1], json!({"api": "ollama_generate", "stream": 0, "outcome": "ok"}));
    assert_row!(rows.of(0)[0], json!({"outcome": "won", "input_tokens": 3, "output_tokens": 2}));
}

#[tokio::test]
async fn a_prompt_is_translated() {
    let fake = FakeProvider::answering(|_| Script::of(Dialect::Anthropic).whole_stream(&["hi"])).await;
    let gateway = Setup::new().provider("a", &fake, "dialect = \"anthropic\"").start().await;
    let ask = json!({"model": "m:latest", "system": "s", "prompt": "p", "options": {"num_predict": 5, "seed": 1}});
    let streamed = asked(&gateway, GENERATE, &ask).await;
    let said: String = streamed
        .events()
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["response"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!((said.as_str(), streamed.header("x-photofinish-dropped")), ("hi", "options.seed"), "{}", streamed.body);
    let up = fake.request(0).await.json();
    assert_eq!(
        (&up["system"], &up["max_tokens"], &up["messages"][0]["content"]),
        (&json!("s"), &json!(5), &json!("p"))
    );
    gateway.stop().await;
}

#[tokio::test]
async fn vectors_come_from_upstreams_of_the_dialect() {
    let body = json!({"model": "e", "embeddings": [[0.5, 1]], "prompt_eval_count": 2});
    let answer = body.to_string();
    let fake = FakeProvider::answering(move |_| Script::status(200, &[], &answer)).await;
    let other = FakeProvider::start(vec![]).await;
    let setup = Setup::new().provider("a", &fake, OLLAMA).provider("b", &other, "dialect = \"anthropic\"");
    let gateway = setup.start().await;
    let ask = json!({"model": "m", "input": ["x"], "truncate": true});
    let response = asked(&gateway, "/api/embed", &ask).await;
    assert_eq!((response.status, response.json()), (200, body));
    assert_eq!((fake.request(0).await.path.as_str(), fake.request(0).await.json()), ("/v1/api/embed", ask));
    let none = asked(&gateway, "/api/embed", &json!({"model": "b/m", "input": "x"})).await;
    assert!(
        none.status == 400 && none.json()["error"].as_str().unwrap().contains("b speaks anthropic"),
        "{}",
        none.body
    );
    let rows = gateway.stop().await;
    assert_row!(&rows.races[0], json!({"api": "ollama_embed", "stream": 0, "attempts": 1}));
}

#[tokio::test]
async fn a_request_without_a_prompt_loads_nothing_and_asks_nobody() {
    let fake = FakeProvider::start(vec![]).await;
    let gateway = Setup::new().provider("a", &fake, OLLAMA).start().await;
    for (path, body, reason) in [
        ("/api/chat", json!({"model": "m", "messages": []}), "load"),
        ("/api/chat", json!({"model": "m"}), "load"),
        ("/api/chat", json!({"model": "m", "messages": [], "keep_alive": "10m"}), "load"),
        ("/api/chat", json!({"model": "m", "messages": [], "keep_alive": 0}), "unload"),
        ("/api/chat", json!({"model": "m", "messages": [], "keep_alive": "0s"}), "unload"),
        (GENERATE, json!({"model": "m"}), "load"),
        (GENERATE, json!({"model": "m", "prompt": "", "keep_alive": -1}), "load"),
        (GENERATE, json!({"model": "m", "keep_alive": 0, "stream": false}), "unload"),
    ] {
        let response = asked(&gateway, path, &body).await;
        let answer = response.json();
        assert_eq!(
            (response.status, &answer["done"], &answer["done_reason"]),
            (200, &json!(true), &json!(reason)),
            "{body}"
        );
        assert!(answer["response"] == "" || answer["message"]["content"] == "", "{answer}");
    }
    let unknown = asked(&gateway, GENERATE, &json!({"model": "nobody-knows"})).await;
    assert_eq!(unknown.status, 404, "{}", unknown.body);
    gateway.stop().await;
    assert!(fake.requests().is_empty());
}

#[tokio::test]
async fn what_is_wrong_is_a_text_in_error() {
    let fake = FakeProvider::start(vec![]).await;
    let gateway = Setup::new().provider("a", &fake, OLLAMA).server("body_max = \"64KiB\"").start().await;
    for (path, body, status, words) in [
        ("/api/chat", json!({"messages": [{"role": "user", "content": "x"}]}).to_string(), 400, "`model` is missing"),
        (GENERATE, json!({"prompt": "x"}).to_string(), 400, "`model` is missing"),
        ("/api/embed", json!({"input": "x"}).to_string(), 400, "`model` is missing"),
        ("/api/embed", json!({"model": "m"}).to_string(), 400, "'input'"),
        ("/api/chat", json!({"model": "m", "messages": "x"}).to_string(), 400, "'messages'"),
        ("/api/chat", json!({"model": "m", "options": "x", "messages": [{}]}).to_string(), 400, "'options'"),
        ("/api/chat", json!({"model": "m", "format": 1, "messages": [{}]}).to_string(), 400, "'format'"),
        ("/api/chat", json!({"model": "m", "stream": "yes", "messages": [{}]}).to_string(), 400, "`stream`"),
        (GENERATE, json!({"model": 7, "prompt": "x"}).to_string(), 400, "`model` must be a string"),
        (GENERATE, json!({"model": "nobody-knows", "prompt": "x"}).to_string(), 404, "nobody-knows"),
        (GENERATE, "{".to_owned(), 400, "JSON"),
        (GENERATE, String::new(), 400, "JSON"),
        ("/api/show", "{}".to_owned(), 400, "model"),
        ("/api/show", "x".to_owned(), 400, "model"),
        ("/api/chat", " ".repeat(65 << 10), 413, "64KiB"),
    ] {
        let mut client = RawClient::connect(gateway.addr()).await;
        client.request("POST", path, &[], &body).await;
        let response = read_response(&mut client).await;
        let said = response.json()["error"].as_str().unwrap_or_default().to_owned();
        assert!(
            response.status == status && said.contains(words),
            "{path} {body:.60}: {} {}",
            response.status,
            response.body
        );
    }
    for (method, path, status, allow) in
        [("GET", "/api/chat", 405, "POST"), ("POST", "/api/tags", 405, "GET"), ("DELETE", "/api/delete", 404, "")]
    {
        let mut client = RawClient::connect(gateway.addr()).await;
        client.request(method, path, &[], "").await;
        let refused = read_response(&mut client).await;
        assert_eq!((refused.status, refused.header("allow")), (status, allow), "{method} {path}");
        assert!(refused.json()["error"].is_string(), "{method} {path}: {}", refused.body);
    }
    gateway.stop().await;
    assert!(fake.requests().is_empty());
}

#[tokio::test]
async fn models_are_listed_and_shown() {
    let fake = FakeProvider::start(vec![]).await;
    let model = "[models.wide]\nupstreams = [{ upstream = \"a/x\", context = 9000 }, { upstream = \"a/y\", context = 8000 }]\n\
                 aliases = [\"llama3.3\"]";
    let gateway = Setup::new().provider("a", &fake, OLLAMA).table(model).start().await;
    let tags = get(&gateway, "/api/tags").await.json();
    let mut names: Vec<&str> =
        tags["models"].as_array().unwrap().iter().map(|model| model["model"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["llama3.3", "m", "wide"]);
    assert!(tags["models"][0]["details"]["family"].is_string() && tags["models"][0]["size"].is_number(), "{tags}");
    let running = get(&gateway, "/api/ps").await.json();
    assert_eq!(running["models"].as_array().map(Vec::len), Some(3), "none has to be loaded");
    assert!(
        running["models"][0]["expires_at"].is_string() && running["models"][0]["size_vram"].is_number(),
        "{running}"
    );
    let show = asked(&gateway, "/api/show", &json!({"model": "llama3.3:latest"})).await.json();
    let family = show["model_info"]["general.architecture"].as_str().unwrap();
    assert_eq!(show["model_info"][format!("{family}.context_length")], 8_000, "what all upstreams take");
    assert!(show["capabilities"].as_array().unwrap().contains(&json!("tools")), "{show}");
    let old = asked(&gateway, "/api/show", &json!({"name": "m"})).await;
    assert_eq!(old.status, 200, "the former name of the member: {}", old.body);
    let version = get(&gateway, "/api/version").await.json();
    assert_eq!(version["version"].as_str().unwrap().split('.').count(), 3);
    gateway.stop().await;
}
