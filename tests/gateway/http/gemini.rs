//! Gemini's surface: its paths and keys, answers as lists, token counts, lists of models; and requests that are wrong.

use serde_json::{Value, json};

use crate::harness::answer::{Response, read_response};
use crate::harness::gateway::{Setup, TestGateway, assert_row};
use crate::support::{Dialect, FakeProvider, RawClient, Script};

const GEMINI: &str = "dialect = \"gemini\"";
const GENERATE: &str = "/v1beta/models/m:generateContent";

async fn sent(gateway: &TestGateway, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
    let mut client = RawClient::connect(gateway.addr()).await;
    client.request(method, path, headers, body).await;
    read_response(&mut client).await
}

fn hello() -> Value {
    json!({"contents": [{"role": "user", "parts": [{"text": "hello"}]}]})
}

#[tokio::test]
async fn a_native_request_and_its_answer_are_untouched() {
    let script = || Script::of(Dialect::Gemini).whole_stream(&["one", " two"]);
    let fake = FakeProvider::answering(move |_| script()).await;
    let gateway = Setup::new().provider("a", &fake, GEMINI).start().await;
    let body = r#" { "contents":[{"parts":[{"text":"caf\u00e9"}]}],"x_odd" : [1], "generation_config":{"topK":1.0} } "#;
    let path = "/v1beta/models/m:streamGenerateContent?alt=sse";
    let streamed = sent(&gateway, "POST", path, &[], body).await;
    assert_eq!((streamed.status, streamed.body.as_bytes()), (200, &script().body()[..]));
    let up = fake.request(0).await;
    assert_eq!(up.path, "/v1/models/m:streamGenerateContent?alt=sse");
    assert_eq!(String::from_utf8_lossy(&up.body), body);
    let version_1 = sent(&gateway, "POST", "/v1/models/m:streamGenerateContent?alt=sse", &[], body).await;
    assert_eq!(version_1.body, streamed.body, "the path without `beta`");
    // Without `alt=sse` the answer is a list.
    let listed = sent(&gateway, "POST", "/v1beta/models/m:streamGenerateContent", &[], body).await;
    assert_eq!((listed.status, listed.header("content-type")), (200, "application/json"));
    let listed = listed.json();
    assert_eq!(listed[0]["candidates"][0]["content"]["parts"], json!([{"text": "one two"}]), "{listed}");
    assert_eq!(listed.as_array().map(Vec::len), Some(1));
    let rows = gateway.stop().await;
    assert_row!(&rows.races[0], json!({"api": "gemini", "stream": 1, "model": "m", "outcome": "ok"}));
    assert_row!(&rows.races[2], json!({"api": "gemini", "stream": 0, "outcome": "ok"}));
}

#[tokio::test]
async fn a_token_may_be_in_a_header_or_in_the_query() {
    let fake = FakeProvider::answering(|_| Script::of(Dialect::Gemini).whole_stream(&["hi"])).await;
    let gateway = Setup::new().provider("a", &fake, GEMINI).table("[users.ann]\ntoken = \"ann-token/1\"").start().await;
    let body = hello().to_string();
    let query = format!("{GENERATE}?key=ann-token%2F1");
    for (path, headers, status) in [
        (GENERATE, &[("x-goog-api-key", "ann-token/1")][..], 200),
        (&query, &[], 200),
        (GENERATE, &[], 401),
        (GENERATE, &[("x-goog-api-key", "wrong")], 401),
        ("/v1beta/models/m:generateContent?key=wrong", &[], 401),
    ] {
        let response = sent(&gateway, "POST", path, headers, &body).await;
        assert_eq!(response.status, status, "{path} {headers:?}: {}", response.body);
        if status == 401 {
            let error = &response.json()["error"];
            assert_eq!((&error["code"], &error["status"]), (&json!(401), &json!("UNAUTHENTICATED")), "{error}");
        }
    }
    let models = sent(&gateway, "GET", "/v1beta/models?key=ann-token%2F1", &[], "").await;
    assert_eq!(models.json()["models"][0]["name"], "models/m", "{}", models.body);
    let model = sent(&gateway, "GET", "/v1beta/models/m?key=ann-token%2F1", &[], "").await;
    assert_eq!(model.json()["supportedGenerationMethods"][0], "generateContent", "{}", model.body);
    // Google's libraries ask under `/v1` unless they are given another API version.
    for (beta, version_1) in [("/v1beta/models", "/v1/models"), ("/v1beta/models/m", "/v1/models/m")] {
        let beta = sent(&gateway, "GET", &format!("{beta}?key=ann-token%2F1"), &[], "").await;
        let asked = sent(&gateway, "GET", version_1, &[("x-goog-api-key", "ann-token/1")], "").await;
        assert_eq!((asked.status, asked.body), (200, beta.body), "{version_1}");
    }
    let unknown = sent(&gateway, "GET", "/v1/models/nobody", &[("x-goog-api-key", "ann-token/1")], "").await;
    assert_eq!((unknown.status, &unknown.json()["error"]["status"]), (404, &json!("NOT_FOUND")), "{}", unknown.body);
    let up = fake.request(0).await;
    assert!(!format!("{up:?}").contains("ann"), "the token stays here");
    gateway.stop().await;
}

#[tokio::test]
async fn tokens_are_counted_by_the_vendor_or_estimated() {
    let fake = FakeProvider::answering(|_| Script::status(200, &[], r#"{"totalTokens":31}"#)).await;
    let other = FakeProvider::start(vec![]).await;
    let setup = Setup::new().provider("a", &fake, GEMINI).provider("b", &other, "dialect = \"anthropic\"");
    let gateway = setup.start().await;
    let body = hello().to_string();
    let counted = sent(&gateway, "POST", "/v1beta/models/a/m:countTokens", &[], &body).await;
    assert_eq!((counted.status, counted.json()), (200, json!({"totalTokens": 31})), "{}", counted.body);
    assert_eq!(fake.request(0).await.path, "/v1/models/m:countTokens");
    let estimated = sent(&gateway, "POST", "/v1beta/models/b/m:countTokens", &[], &body).await;
    assert_eq!((estimated.status, estimated.header("x-photofinish-estimate")), (200, "bytes/4"));
    assert!(estimated.json()["totalTokens"].as_u64() > Some(5), "{}", estimated.body);
    let rows = gateway.stop().await;
    assert_row!(&rows.races[0], json!({"api": "gemini_count_tokens", "attempts": 1}));
}

#[tokio::test]
async fn embeddings_go_to_the_vendor_under_its_name_and_over_other_dialects() {
    let own = r#"{"embedding":{"values":[1,-2]},"x_odd":1}"#;
    let fake = FakeProvider::answering(move |_| Script::status(200, &[], own)).await;
    let openai =
        r#"{"data":[{"index":0,"embedding":[1,-2]},{"index":1,"embedding":[3,0]}],"usage":{"prompt_tokens":3}}"#;
    let other = FakeProvider::answering(move |_| Script::status(200, &[], openai)).await;
    let setup = Setup::new().provider("a", &fake, GEMINI).provider("b", &other, "dialect = \"openai\"");
    let gateway = setup.start().await;
    let content = |text: &str| json!({"model": "models/x", "content": {"parts": [{"text": text}]}, "taskType": "RETRIEVAL_QUERY"});
    let one = sent(&gateway, "POST", "/v1beta/models/a/g:embedContent", &[], &content("hi").to_string()).await;
    assert_eq!((one.status, one.body.as_str()), (200, own));
    let up = fake.request(0).await;
    let mut named = content("hi");
    named["model"] = json!("models/g");
    assert_eq!((up.path.as_str(), up.json()), ("/v1/models/g:embedContent", named));
    let two = json!({"requests": [content("hi"), content("ho")]}).to_string();
    let both = sent(&gateway, "POST", "/v1beta/models/b/e:batchEmbedContents", &[], &two).await;
    let expected = json!({"embeddings": [{"values": [1.0, -2.0]}, {"values": [3.0, 0.0]}], "usageMetadata": {"promptTokenCount": 3}});
    assert_eq!((both.status, both.json()), (200, expected), "{}", both.body);
    assert_eq!(both.header("x-photofinish-dropped"), "taskType");
    let up = other.request(0).await;
    assert_eq!((up.path.as_str(), up.json()), ("/v1/embeddings", json!({"input": ["hi", "ho"], "model": "e"})));
    let rows = gateway.stop().await;
    assert_row!(&rows.races[0], json!({"api": "gemini_embed", "outcome": "ok"}));
    assert_row!(&rows.races[1], json!({"api": "gemini_embed_batch", "outcome": "ok"}));
    assert_row!(rows.one("b"), json!({"outcome": "won", "input_tokens": 3}));
}

#[tokio::test]
async fn what_is_wrong_is_said_in_the_vendor_s_shape() {
    let fake = FakeProvider::start(vec![]).await;
    let gateway = Setup::new().provider("a", &fake, GEMINI).server("body_max = \"64KiB\"").start().await;
    let hello = hello().to_string();
    let huge = " ".repeat(65 << 10);
    for (path, body, status, name, words) in [
        ("/v1beta/models/m:embedContent", "{}", 400, "INVALID_ARGUMENT", "'content'"),
        ("/v1beta/models/m:batchEmbedContents", "{}", 400, "INVALID_ARGUMENT", "'requests'"),
        ("/v1beta/models/m:predict", hello.as_str(), 404, "NOT_FOUND", ":batchEmbedContents"),
        ("/v1beta/models/m:generate", &hello, 404, "NOT_FOUND", ":streamGenerateContent"),
        ("/v1beta/models/m", &hello, 404, "NOT_FOUND", ":countTokens"),
        ("/v1beta/tunedModels/m:generateContent", &hello, 404, "NOT_FOUND", "nothing at"),
        ("/v1beta/models/nobody:generateContent", &hello, 404, "NOT_FOUND", "nobody"),
        (GENERATE, "{}", 400, "INVALID_ARGUMENT", "contents is not specified"),
        (GENERATE, r#"{"contents":[]}"#, 400, "INVALID_ARGUMENT", "contents is not specified"),
        (GENERATE, r#"{"contents":"x"}"#, 400, "INVALID_ARGUMENT", "'contents'"),
        (GENERATE, r#"{"contents":[{}],"generationConfig":1}"#, 400, "INVALID_ARGUMENT", "'generationConfig'"),
        (GENERATE, "{", 400, "INVALID_ARGUMENT", "JSON"),
        (GENERATE, "", 400, "INVALID_ARGUMENT", "JSON"),
        (GENERATE, &huge, 413, "INVALID_ARGUMENT", "64KiB"),
        ("/v1beta/models/m:countTokens", "{}", 400, "INVALID_ARGUMENT", "contents is not specified"),
    ] {
        let response = sent(&gateway, "POST", path, &[], body).await;
        let error = response.json()["error"].clone();
        let what = format!("{path} {body:.40}: {}", response.body);
        assert_eq!(
            (response.status, &error["code"], &error["status"]),
            (status, &json!(status), &json!(name)),
            "{what}"
        );
        assert!(error["message"].as_str().unwrap().contains(words), "{what}");
        let reason = error["details"][0]["reason"].as_str().unwrap();
        assert!(!reason.is_empty(), "{what}");
    }
    gateway.stop().await;
    assert!(fake.requests().is_empty());
}
