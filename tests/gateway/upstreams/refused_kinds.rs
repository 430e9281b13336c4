//! An upstream that refuses each request of a kind, while another one answers them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::answer::{Response, read_response};
use crate::harness::gateway::{Setup, TestGateway};
use crate::support::{FakeProvider, RawClient, Request, Script, soon};

const REFUSAL: &str = r#"{"error":{"message":"function tools are not supported here","code":"no_tools_here"}}"#;

fn ask(has_tools: bool) -> Value {
    let tool = json!({"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}});
    let mut body = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "x"}]});
    if has_tools {
        body["tools"] = json!([tool]);
    }
    body
}

fn refuses_tools(request: &Request) -> Script {
    if request.json()["tools"].is_array() {
        return Script::status(400, &[], REFUSAL);
    }
    Script::stream(&["hello"])
}

async fn get(gateway: &TestGateway, path: &str) -> Response {
    let mut client = RawClient::connect(gateway.addr()).await;
    client.request("GET", path, &[], "").await;
    read_response(&mut client).await
}

async fn refuses(gateway: &TestGateway) -> Value {
    let known: Value = serde_json::from_str(&get(gateway, "/api/routing").await.body).unwrap();
    assert_eq!(known["upstreams"][0]["breaker"], "closed", "no fault of its host");
    known["upstreams"][0]["refuses"].clone()
}

async fn answers(gateway: &TestGateway, has_tools: bool) {
    let mut client = gateway.ask(&ask(has_tools)).await;
    let response = read_response(&mut client).await;
    assert_eq!(response.streamed_text(), "hello", "{}", response.body);
}

#[tokio::test]
async fn it_is_said_and_goes_last_for_this_kind_alone() {
    for policy in ["policy = \"race\"", "policy = \"fallback\""] {
        let strict = FakeProvider::answering(refuses_tools).await;
        let lenient = FakeProvider::answering(|_| {
            let mut script = Script::new().delay(Duration::from_millis(200));
            script.steps.extend(Script::stream(&["hello"]).steps);
            script
        })
        .await;
        let gateway = Setup::over(&[&strict, &lenient]).race(policy).start().await;
        for _ in 0..9 {
            answers(&gateway, true).await;
        }
        let refused = strict.requests().len();
        assert_eq!(refused, 5, "{policy}: five refusals, then none is asked for");
        assert_eq!(
            refuses(&gateway).await,
            json!(["refused 5 of 5 requests with tools: 400 no_tools_here"]),
            "{policy}"
        );
        let metrics = get(&gateway, "/metrics").await;
        assert!(metrics.body.contains("upstream_refuses{upstream=\"a/m\",with=\"tools\"} 1"), "{}", metrics.body);
        answers(&gateway, false).await;
        assert_eq!(strict.requests().len(), refused + 1, "{policy}: text goes there as before");
        gateway.stop().await;
    }
}

/// A loser is cancelled, but for one whose refusal has begun.
#[tokio::test]
async fn a_refusal_whose_words_come_after_the_winner_counts_too() {
    let strict = FakeProvider::answering(|_| {
        let length = REFUSAL.len().to_string();
        let begun = Script::new().head(400, &[("content-length", &length)]);
        begun.delay(Duration::from_millis(300)).raw(REFUSAL).end()
    });
    let lenient = FakeProvider::answering(|_| {
        let mut script = Script::new().delay(Duration::from_millis(150));
        script.steps.extend(Script::stream(&["hello"]).steps);
        script
    });
    let (strict, lenient) = (strict.await, lenient.await);
    let gateway = Setup::over(&[&strict, &lenient]).race("policy = \"race\"\naudit = 0").start().await;
    for _ in 0..5 {
        answers(&gateway, true).await;
    }
    let found =
        async { while refuses(&gateway).await != json!(["refused 5 of 5 requests with tools: 400 no_tools_here"]) {} };
    soon("the refusals are reported", found).await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_request_that_all_refuse_says_nothing_of_them() {
    let fakes = [FakeProvider::answering(refuses_tools).await, FakeProvider::answering(refuses_tools).await];
    let gateway = Setup::over(&[&fakes[0], &fakes[1]]).race("policy = \"fallback\"").start().await;
    for asked in 1..9 {
        let mut client = gateway.ask(&ask(true)).await;
        assert_eq!(read_response(&mut client).await.status, 400);
        assert_eq!(fakes[0].requests().len(), asked);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn it_answers_where_no_other_is_left() {
    let strict = FakeProvider::answering(|request| match request.number {
        ..=4 => Script::status(400, &[], REFUSAL),
        _ => Script::stream(&["hello"]),
    });
    let dies = FakeProvider::answering(|request| match request.number {
        ..=5 => Script::stream(&["hello"]),
        _ => Script::status(500, &[], "{}"),
    });
    let (strict, dies) = (strict.await, dies.await);
    let gateway = Setup::over(&[&strict, &dies]).race("policy = \"fallback\"\nretries = 0").start().await;
    for _ in 0..7 {
        answers(&gateway, true).await;
    }
    assert_eq!(refuses(&gateway).await, json!([]), "it took one");
    gateway.stop().await;
}
