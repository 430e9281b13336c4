//! The surfaces without translation (completions, embeddings, token counts), and authentication of Messages clients.

use serde_json::{Value, json};

use crate::harness::answer::{ending, read_response, silent};
use crate::harness::gateway::{Setup, assert_row};
use crate::support::{Dialect, FakeProvider, Gate, Script};

const COMPLETIONS: &str = "/v1/completions";
const EMBEDDINGS: &str = "/v1/embeddings";
const MESSAGES: &str = "/v1/messages";
const COUNT: &str = "/v1/messages/count_tokens";

fn json_answer(body: &Value) -> Script {
    Script::status(200, &[], &body.to_string())
}

fn completion(text: &str, finish: Value) -> String {
    let choice = json!({"text": text, "index": 0, "logprobs": null, "finish_reason": finish});
    json!({"id": "cmpl-fake", "object": "text_completion", "created": 1, "model": "fake-model", "choices": [choice]})
        .to_string()
}

fn completions() -> Script {
    let (a, b, last) = (completion("one ", Value::Null), completion("two", Value::Null), completion("", json!("stop")));
    Script::sse().event(a).event(b).event(last).usage(3, 2).done().end()
}

#[tokio::test]
async fn a_completion_is_raced_to_its_first_token() {
    let slow = FakeProvider::start(vec![Script::sse().event(completion("", Value::Null)).until_closed()]).await;
    let quick = FakeProvider::start(vec![completions()]).await;
    let gateway = Setup::over(&[&slow, &quick]).start().await;
    let ask = json!({"model": "m", "prompt": "say", "stream": true, "echo": false, "x_odd": [1]});
    let mut client = gateway.post(COMPLETIONS, &ask).await;
    slow.request(0).await;
    let response = read_response(&mut client).await;
    assert_eq!((response.status, response.upstream()), (200, "b/m"), "{}", response.body);
    let texts: Vec<Value> = response.events().iter().filter_map(|event| serde_json::from_str(event).ok()).collect();
    let said: String = texts.iter().filter_map(|event| event["choices"][0]["text"].as_str()).collect();
    assert!(said == "one two" && response.is_done() && !response.body.contains("usage"), "{}", response.body);
    slow.closed(0).await;
    let up = quick.request(0).await;
    assert_eq!(up.path, COMPLETIONS);
    let options = json!({"include_usage": true});
    let expected =
        json!({"model": "m", "prompt": "say", "stream": true, "echo": false, "x_odd": [1], "stream_options": options});
    assert_eq!(up.json(), expected);
    let rows = gateway.stop().await;
    assert_row!(&rows.races[0], json!({"api": "completions", "stream": 1, "winner": 1}));
    assert_eq!(ending(rows.one("a")), json!({"outcome": "lost", "ttft_event": 0, "censor_cause": "lost"}));
    assert_row!(
        rows.one("b"),
        json!({"outcome": "won", "first_kind": "text", "input_tokens": 3, "output_tokens": 2, "finish_reason": "stop"})
    );
}

#[tokio::test]
async fn a_whole_completion_is_put_together() {
    let fake = FakeProvider::start(vec![completions()]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    let response = read_response(&mut gateway.post(COMPLETIONS, &json!({"model": "m", "prompt": "say"})).await).await;
    let answer = response.json();
    assert_eq!((&answer["object"], &answer["choices"][0]["text"]), (&json!("text_completion"), &json!("one two")));
    assert_eq!((&answer["choices"][0]["finish_reason"], &answer["usage"]["total_tokens"]), (&json!("stop"), &json!(5)));
    gateway.stop().await;
}

fn embeddings() -> Value {
    let data = json!([{"object": "embedding", "index": 0, "embedding": [0.25, -1e-3]}]);
    json!({"object": "list", "data": data, "model": "fake-model", "usage": {"prompt_tokens": 3, "total_tokens": 3}})
}

#[tokio::test]
async fn the_first_whole_embedding_wins() {
    let begun = Gate::new();
    let body = embeddings().to_string();
    let length = body.len().to_string();
    let headers = [("content-type", "application/json"), ("content-length", length.as_str())];
    let half = Script::new().head(200, &headers).raw(&body[..20]).reached(&begun).until_closed();
    let slow = FakeProvider::start(vec![half]).await;
    let mut quick = Script::new().wait(&begun);
    quick.steps.extend(json_answer(&embeddings()).steps);
    let quick = FakeProvider::start(vec![quick]).await;
    let hanging = FakeProvider::start(vec![silent()]).await;
    let gateway = Setup::over(&[&slow, &quick, &hanging]).start().await;
    let ask = json!({"model": "m", "input": ["hello"], "encoding_format": "float", "x_odd": {"a": 1}});
    let mut client = gateway.post(EMBEDDINGS, &ask).await;
    hanging.request(0).await;
    let response = read_response(&mut client).await;
    assert_eq!((response.status, response.upstream(), response.json()), (200, "b/m", embeddings()));
    assert_eq!(response.header("content-type"), "application/json");
    slow.closed(0).await;
    hanging.closed(0).await;
    let up = quick.request(0).await;
    assert_eq!((up.path.as_str(), up.json()), (EMBEDDINGS, ask), "neither `stream` nor its options");
    let rows = gateway.stop().await;
    assert_row!(&rows.races[0], json!({"api": "embeddings", "stream": 0, "winner": 1, "attempts": 3}));
    assert_row!(rows.one("b"), json!({"outcome": "won", "first_kind": "whole", "input_tokens": 3}));
    for loser in ["a", "c"] {
        assert_eq!(ending(rows.one(loser)), json!({"outcome": "lost", "ttft_event": 0, "censor_cause": "lost"}));
    }
}

#[tokio::test]
async fn embeddings_fall_back() {
    let error = json!({"error": {"message": "The server is overloaded", "type": "overloaded_error"}});
    let a = FakeProvider::start(vec![json_answer(&error)]).await;
    let b = FakeProvider::start(vec![Script::status(500, &[], "{}")]).await;
    let c = FakeProvider::start(vec![json_answer(&embeddings())]).await;
    let gateway = Setup::over(&[&a, &b, &c]).race("policy = \"fallback\"").start().await;
    let response = read_response(&mut gateway.post(EMBEDDINGS, &json!({"model": "m", "input": "hello"})).await).await;
    assert_eq!((response.status, response.upstream()), (200, "c/m"), "{}", response.body);
    let rows = gateway.stop().await;
    assert_eq!(
        ending(rows.one("a")),
        json!({"outcome": "failed", "failure": "overloaded", "failure_phase": "first_token"})
    );
    assert_eq!(
        ending(rows.one("b")),
        json!({"outcome": "failed", "failure": "server_error", "failure_phase": "headers"})
    );
}

const OF_OPENAI: &str =
    r#"{"data":[{"index":0,"embedding":[1,-2]}],"model":"e","usage":{"prompt_tokens":3,"total_tokens":3}}"#;

#[tokio::test]
async fn embeddings_come_over_every_dialect_that_has_them() {
    let gemini = r#"{"embeddings":[{"values":[1,-2]}]}"#;
    let titan = r#"{"embedding":[1,-2],"inputTextTokenCount":5}"#;
    let ollama = r#"{"model":"o","embeddings":[[1,-2]],"prompt_eval_count":4}"#;
    let gemini_request =
        json!({"model": "models/g", "content": {"parts": [{"text": "hello"}]}, "outputDimensionality": 2});
    for (dialect, model, path, body, sent, tokens) in [
        ("gemini", "g", "/v1/models/g:batchEmbedContents", gemini, json!({"requests": [gemini_request]}), None),
        (
            "bedrock",
            "amazon.titan-embed-text-v2:0",
            "/v1/model/amazon.titan-embed-text-v2%3A0/invoke",
            titan,
            json!({"inputText": "hello", "dimensions": 2}),
            Some(5),
        ),
        (
            "ollama",
            "o",
            "/v1/api/embed",
            ollama,
            json!({"input": ["hello"], "truncate": false, "dimensions": 2, "model": "o"}),
            Some(4),
        ),
    ] {
        let fake = FakeProvider::start(vec![Script::status(200, &[], body)]).await;
        let lines = if dialect == "bedrock" {
            "dialect = \"bedrock\"\nregion = \"r\""
        } else {
            &format!("dialect = \"{dialect}\"")
        };
        let table = format!("[models.e]\nupstreams = [\"a/{model}\"]");
        let gateway = Setup::new().provider("a", &fake, lines).model(&table).start().await;
        let ask = json!({"model": "e", "input": "hello", "encoding_format": "base64", "dimensions": 2, "user": "u"});
        let response = read_response(&mut gateway.post(EMBEDDINGS, &ask).await).await;
        assert_eq!(response.json()["data"][0]["embedding"], "AACAPwAAAMA=", "{dialect}: {}", response.body);
        assert_eq!(
            (response.header("x-photofinish-dropped"), response.header("content-type")),
            ("", "application/json"),
            "a hint is dropped silently"
        );
        let up = fake.request(0).await;
        assert_eq!((up.path.as_str(), up.json()), (path, sent), "{dialect}");
        let rows = gateway.stop().await;
        assert_row!(rows.one("a"), json!({"outcome": "won", "dialect": dialect, "input_tokens": tokens}), "{dialect}");
    }
    let fake = FakeProvider::start(vec![
        Script::status(200, &[], OF_OPENAI),
        Script::status(400, &[], "{\"error\":{\"message\":\"bad input\"}}"),
    ])
    .await;
    let gateway = Setup::over(&[&fake]).start().await;
    let ask = json!({"model": "m:latest", "input": "hello", "keep_alive": "5m"});
    let response = read_response(&mut gateway.post("/api/embed", &ask).await).await;
    assert_eq!(response.json(), json!({"model": "e", "embeddings": [[1.0, -2.0]], "prompt_eval_count": 3}));
    let up = fake.request(0).await;
    assert_eq!((up.path.as_str(), up.json()), (EMBEDDINGS, json!({"input": ["hello"], "model": "m"})));
    let response = read_response(&mut gateway.post("/api/embed", &ask).await).await;
    assert_eq!((response.status, &response.json()["error"]), (400, &json!("bad input")), "in Ollama's words");
    let rows = gateway.stop().await;
    assert_row!(rows.of(0)[0], json!({"outcome": "won", "input_tokens": 3}));
}

#[tokio::test]
async fn the_older_call_of_ollamas_has_one_embedding() {
    let fake = FakeProvider::answering(|_| Script::status(200, &[], OF_OPENAI)).await;
    let own = FakeProvider::answering(|_| Script::status(200, &[], r#"{"embedding":[0.5]}"#)).await;
    let gateway = Setup::new().provider("a", &fake, "").provider("b", &own, "dialect = \"ollama\"").start().await;
    for (model, embedding, number) in [("a/m", json!([1.0, -2.0]), &fake), ("b/m", json!([0.5]), &own)] {
        let ask = json!({"model": model, "prompt": "hello"});
        let response = read_response(&mut gateway.post("/api/embeddings", &ask).await).await;
        assert_eq!(response.json(), json!({"embedding": embedding}), "{}", response.body);
        number.request(0).await;
    }
    assert_eq!(fake.request(0).await.json(), json!({"input": ["hello"], "model": "m"}));
    let up = own.request(0).await;
    assert_eq!((up.path.as_str(), up.json()), ("/v1/api/embeddings", json!({"model": "m", "prompt": "hello"})));
    let rows = gateway.stop().await;
    assert_row!(&rows.races[0], json!({"api": "ollama_embeddings", "outcome": "ok"}));
}

#[tokio::test]
async fn what_embeddings_lose_follows_lossy() {
    let native = FakeProvider::start(vec![json_answer(&embeddings())]).await;
    let ollama = FakeProvider::start(vec![]).await;
    let setup = Setup::new().provider("a", &ollama, "dialect = \"ollama\"").provider("b", &native, "");
    let gateway = setup.start().await;
    let post = async |ask: Value| read_response(&mut gateway.post(EMBEDDINGS, &ask).await).await;
    let whole = post(json!({"model": "m", "input": "hello", "x_odd": 1})).await;
    assert_eq!((whole.upstream(), whole.header("x-photofinish-left-out")), ("b/m", "a/m"));
    let tokens = post(json!({"model": "a/m", "input": [1, 2]})).await;
    assert!(tokens.status == 400 && tokens.body.contains("only upstreams of the dialect openai"), "{}", tokens.body);
    let headers = [("x-photofinish-lossy", "refuse")];
    let ask = json!({"model": "a/m", "input": "hello", "x_odd": 1});
    let refused = read_response(&mut gateway.request(EMBEDDINGS, &headers, &ask).await).await;
    assert_eq!((refused.status, refused.error_code().as_str()), (400, "photofinish_not_translatable"));
    gateway.stop().await;
    assert!(ollama.requests().is_empty());
}

#[tokio::test]
async fn a_surface_that_no_upstream_speaks_is_a_400_that_lists_dialects() {
    let fake = FakeProvider::start(vec![]).await;
    let gateway = Setup::new().provider("a", &fake, "dialect = \"anthropic\"").start().await;
    for (path, ask) in
        [(EMBEDDINGS, json!({"model": "m", "input": "hello"})), (COMPLETIONS, json!({"model": "m", "prompt": "hello"}))]
    {
        let response = read_response(&mut gateway.post(path, &ask).await).await;
        assert_eq!(
            (response.status, response.error_code().as_str()),
            (400, "photofinish_no_upstream"),
            "{}",
            response.body
        );
        assert!(response.body.contains("a speaks anthropic") && response.body.contains(path), "{}", response.body);
    }
    let rows = gateway.stop().await;
    assert!(rows.attempts.is_empty() && fake.requests().is_empty());
}

fn counted() -> Value {
    json!({"model": "m", "system": "be brief", "messages": [{"role": "user", "content": "hello"}]})
}

#[tokio::test]
async fn a_count_is_one_attempt_and_not_raced() {
    let a = FakeProvider::start(vec![json_answer(&json!({"input_tokens": 42}))]).await;
    let b = FakeProvider::start(vec![]).await;
    let native = "dialect = \"anthropic\"";
    let gateway = Setup::new().race("audit = 1.0").provider("a", &a, native).provider("b", &b, native).start().await;
    let response = read_response(&mut gateway.post(COUNT, &counted()).await).await;
    assert_eq!((response.status, response.json()), (200, json!({"input_tokens": 42})));
    assert_eq!((response.upstream(), response.header("x-photofinish-estimate")), ("a/m", ""));
    let up = a.request(0).await;
    assert_eq!((up.path.as_str(), up.json()), (COUNT, counted()), "as it came");
    let rows = gateway.stop().await;
    assert!(b.requests().is_empty());
    assert_row!(&rows.races[0], json!({"api": "count_tokens", "attempts": 1, "outcome": "ok"}));
    assert_row!(
        rows.one("a"),
        json!({"outcome": "won", "first_token_us": null, "ttft_obs_us": null, "ttft_event": null, "input_tokens": null, "output_tokens": null})
    );
}

#[tokio::test]
async fn a_count_that_fails_is_asked_of_the_next() {
    let a = FakeProvider::start(vec![Script::status(529, &[], "{}")]).await;
    let b = FakeProvider::start(vec![json_answer(&json!({"input_tokens": 42}))]).await;
    let native = "dialect = \"anthropic\"";
    let gateway = Setup::new().provider("a", &a, native).provider("b", &b, native).start().await;
    let response = read_response(&mut gateway.post(COUNT, &counted()).await).await;
    assert_eq!((response.status, response.upstream()), (200, "b/m"), "{}", response.body);
    let rows = gateway.stop().await;
    assert_row!(rows.one("a"), json!({"outcome": "failed", "failure": "overloaded"}));
    assert_row!(rows.one("b"), json!({"outcome": "won", "start_reason": "fallback"}));
}

#[tokio::test]
async fn if_no_upstream_counts_tokens_the_count_is_a_marked_estimate() {
    let fake = FakeProvider::start(vec![]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    let response = read_response(&mut gateway.post(COUNT, &counted()).await).await;
    assert_eq!(response.status, 200, "{}", response.body);
    let tokens = response.json()["input_tokens"].as_u64().unwrap();
    assert!((4..40).contains(&tokens) && !response.header("x-photofinish-estimate").is_empty(), "{response:#?}");
    let rows = gateway.stop().await;
    assert!(fake.requests().is_empty() && rows.attempts.is_empty());
    assert_row!(
        &rows.races[0],
        json!({"api": "count_tokens", "attempts": 0, "winner": null, "outcome": "ok", "http_status": 200})
    );
}

#[tokio::test]
async fn messages_is_called_as_its_clients_call_it() {
    let fake = FakeProvider::answering(|_| Script::of(Dialect::Anthropic).whole_stream(&["hi"])).await;
    let keys = "dialect = \"anthropic\"\napi_key = \"sk-provider\"";
    let tables = "[users.ann]\ntoken = \"ann-token\"\n[models.m]\nupstreams = [\"a/claude-x\"]";
    let gateway = Setup::new().provider("a", &fake, keys).model(tables).start().await;
    let ask = json!({"model": "m", "max_tokens": 9, "stream": true, "messages": [{"role": "user", "content": "x"}]});
    let cases: [&[(&str, &str)]; 4] = [
        &[("x-api-key", "ann-token"), ("anthropic-version", "2023-06-01")],
        &[
            ("authorization", "Bearer ann-token"),
            ("anthropic-version", "2023-01-01"),
            ("anthropic-beta", "tools-1,x-2"),
        ],
        &[
            ("x-api-key", "ann-token"),
            ("anthropic-version", "2099-12-31"),
            ("anthropic-dangerous-direct-browser-access", "true"),
        ],
        &[("x-api-key", "ann-token")],
    ];
    for (number, headers) in cases.into_iter().enumerate() {
        let response = read_response(&mut gateway.request(&format!("{MESSAGES}?beta=true"), headers, &ask).await).await;
        assert_eq!((response.status, response.upstream()), (200, "a/claude-x"), "{}", response.body);
        let up = fake.request(number).await;
        assert_eq!(up.path.split('?').next(), Some(MESSAGES));
        assert_eq!((up.header("x-api-key"), up.header("authorization")), (Some("sk-provider"), None));
        let sent = |name: &str| headers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        assert_eq!(up.header("anthropic-version"), Some(sent("anthropic-version").unwrap_or("2023-06-01")));
        assert_eq!(up.header("anthropic-beta"), sent("anthropic-beta"));
        assert!(up.headers.iter().all(|(_, value)| !value.contains("ann-token")), "{:?}", up.headers);
    }
    let rows = gateway.stop().await;
    assert!(rows.races.iter().all(|race| race["caller"] == "ann" && race["api"] == "messages"));
}

#[tokio::test]
async fn a_client_s_token_goes_to_no_upstream_of_another_dialect() {
    let fakes = [
        FakeProvider::answering(|_| Script::stream(&["hi"])).await,
        FakeProvider::answering(|_| Script::of(Dialect::Gemini).whole_stream(&["hi"])).await,
        FakeProvider::answering(|_| Script::of(Dialect::Ollama).whole_stream(&["hi"])).await,
    ];
    let [chat, gemini, ollama] = &fakes;
    let gateway = Setup::new()
        .provider("a", chat, "api_key = \"sk-a\"")
        .provider("b", gemini, "dialect = \"gemini\"\napi_key = \"sk-b\"")
        .provider("c", ollama, "dialect = \"ollama\"")
        .table("[users.ann]\ntoken = \"ann-token\"")
        .start()
        .await;
    for model in ["a/m", "b/m", "c/m"] {
        let ask = json!({"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]});
        let response = read_response(&mut gateway.request(MESSAGES, &[("x-api-key", "ann-token")], &ask).await).await;
        assert_eq!(response.status, 200, "{}", response.body);
    }
    gateway.stop().await;
    for (fake, key) in fakes.iter().zip([Some("sk-a"), Some("sk-b"), None]) {
        let up = fake.request(0).await;
        assert!(up.headers.iter().all(|(_, value)| !value.contains("ann-token")), "{:?}", up.headers);
        assert_eq!(up.headers.iter().any(|(_, value)| value.contains("sk-")), key.is_some(), "{:?}", up.headers);
        assert!(key.is_none_or(|key| up.headers.iter().any(|(_, value)| value.contains(key))), "{:?}", up.headers);
    }
}
