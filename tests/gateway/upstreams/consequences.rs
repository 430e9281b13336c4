//! What one answer of a provider changes for later requests, and what it must not change.

use serde_json::json;

use crate::harness::answer::{Response, ending, read_response, stream_after};
use crate::harness::gateway::{CHAT, Setup, TestGateway, assert_row};
use crate::support::{FakeProvider, Gate, RawClient, Script};

const COMPLAINT: &str = r#"{"detail":[{"loc":["body","stream_options"],"msg":"Extra inputs"}]}"#;

async fn with_headers(gateway: &TestGateway, headers: &[(&str, &str)], model: &str) -> Response {
    let mut client = RawClient::connect(gateway.addr()).await;
    client.request("POST", CHAT, headers, json!({"model": model, "stream": true, "messages": [{}]}).to_string()).await;
    read_response(&mut client).await
}

#[tokio::test]
async fn a_success_that_started_before_a_429_does_not_end_the_cooldown() {
    let first_may = Gate::new();
    let held = first_may.clone();
    let fake = FakeProvider::answering(move |request| match request.number {
        0 => stream_after(&held, &["hello"]),
        _ => Script::status(429, &[("retry-after", "60")], "{}"),
    })
    .await;
    let gateway = Setup::new().provider("a", &fake, "api_key = \"sk-one\"").start().await;
    let mut first = gateway.streaming().await;
    fake.request(0).await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.status, 429);
    first_may.open();
    assert_eq!(read_response(&mut first).await.streamed_text(), "hello");
    let response = read_response(&mut gateway.streaming().await).await;
    assert_eq!((response.status, response.error_code().as_str()), (429, "photofinish_cooling_down"));
    gateway.stop().await;
    assert_eq!(fake.requests().len(), 2);
}

#[tokio::test]
async fn without_keys_a_refused_model_does_not_affect_other_models() {
    let fake = FakeProvider::answering(|request| match request.json()["model"].as_str() {
        Some("busy") => Script::status(429, &[("retry-after", "60")], "{}"),
        _ => Script::stream(&["hello"]),
    })
    .await;
    let gateway = Setup::new().provider("a", &fake, "").start().await;
    assert_eq!(with_headers(&gateway, &[], "a/busy").await.status, 429);
    assert_eq!(with_headers(&gateway, &[], "a/busy").await.error_code(), "photofinish_cooling_down");
    assert_eq!(with_headers(&gateway, &[], "a/idle").await.streamed_text(), "hello");
    gateway.stop().await;
}

#[tokio::test]
async fn one_wrong_request_does_not_switch_stream_options_off() {
    let echo = r#"{"detail":[{"loc":["body","temperature"],"msg":"too hot","input":{"stream_options":{}}}]}"#;
    let fake = FakeProvider::answering(move |request| match request.number {
        0 => Script::status(422, &[], echo),
        // Complains, whatever the request leaves out.
        1 | 2 => Script::status(400, &[], COMPLAINT),
        _ => Script::stream(&["hello"]),
    })
    .await;
    let gateway = Setup::over(&[&fake]).start().await;
    let response = read_response(&mut gateway.streaming().await).await;
    assert_eq!((response.status, response.body.as_str(), response.upstream()), (422, echo, "a/m"));
    assert_eq!(read_response(&mut gateway.streaming().await).await.status, 502);
    assert_eq!(read_response(&mut gateway.streaming().await).await.streamed_text(), "hello");
    let rows = gateway.stop().await;
    let sent: Vec<bool> =
        fake.requests().iter().map(|request| request.json().get("stream_options").is_some()).collect();
    assert_eq!(sent, [true, true, false, true]);
    assert_eq!((rows.of(0).len(), rows.of(1).len(), rows.of(2).len()), (1, 2, 1));
}

#[tokio::test]
async fn a_refusal_of_a_member_that_the_gateway_added_is_not_the_client_s_answer() {
    let fake = FakeProvider::answering(|_| Script::status(400, &[], COMPLAINT)).await;
    let gateway = Setup::over(&[&fake]).race("max_attempts = 1").start().await;
    let response = read_response(&mut gateway.streaming().await).await;
    assert_eq!((response.status, response.error_code().as_str()), (502, "photofinish_all_failed"));
    assert_eq!(response.json()["error"]["attempts"][0]["failure"], "bad_request");
    let asked = json!({"model": "m", "stream": true, "stream_options": {"include_usage": true}, "messages": [{}]});
    let response = read_response(&mut gateway.ask(&asked).await).await;
    assert_eq!((response.status, response.body.as_str()), (400, COMPLAINT), "it asked for that itself");
    gateway.stop().await;
}

#[tokio::test]
async fn a_403_about_the_prompt_is_a_refusal_and_cools_down_no_upstream() {
    let flagged = r#"{"error":{"code":403,"message":"m requires moderation and your input was flagged"}}"#;
    let a = FakeProvider::start(vec![Script::status(403, &[], flagged), Script::stream(&["hello"])]).await;
    let b = FakeProvider::start(vec![Script::stream(&["never"])]).await;
    let gateway = Setup::over(&[&a, &b]).race("policy = \"fallback\"").start().await;
    let response = read_response(&mut gateway.streaming().await).await;
    assert_eq!((response.status, response.body.as_str()), (403, flagged));
    assert_eq!(read_response(&mut gateway.streaming().await).await.upstream(), "a/m");
    let rows = gateway.stop().await;
    assert_eq!(
        ending(rows.of(0)[0]),
        json!({"outcome": "refused", "failure": "content_policy", "failure_phase": "headers"})
    );
    assert_eq!(b.requests().len(), 0);
}

#[tokio::test]
async fn a_404_that_does_not_name_the_model_cools_down_no_upstream() {
    let body = r#"{"error":{"message":"No endpoints found that support tool use.","code":404}}"#;
    let fake = FakeProvider::start(vec![Script::status(404, &[], body), Script::stream(&["hello"])]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    let response = read_response(&mut gateway.streaming().await).await;
    assert_eq!((response.status, response.body.as_str()), (404, body));
    assert_eq!(read_response(&mut gateway.streaming().await).await.streamed_text(), "hello");
    gateway.stop().await;
}

#[tokio::test]
async fn a_redirect_is_not_passed_on() {
    let fake = FakeProvider::start(vec![Script::status(307, &[("location", "https://elsewhere.test/")], "{}")]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    let response = read_response(&mut gateway.streaming().await).await;
    assert_eq!((response.status, response.header("location")), (502, ""));
    let rows = gateway.stop().await;
    assert_eq!(ending(rows.one("a")), json!({"outcome": "failed", "failure": "protocol", "failure_phase": "headers"}));
}

#[tokio::test]
async fn a_whole_answer_that_misses_the_deadline_has_no_winner() {
    let fake = FakeProvider::start(vec![Script::sse().role().token("half").until_closed()]).await;
    let gateway = Setup::over(&[&fake]).race("timeouts = { total = \"300ms\" }").start().await;
    let response = read_response(&mut gateway.whole().await).await;
    assert_eq!((response.status, response.error_code().as_str()), (504, "photofinish_timeout"));
    let rows = gateway.stop().await;
    assert_row!(&rows.races[0], json!({"outcome": "error", "winner": null, "http_status": 504}));
    assert_eq!(rows.one("a")["outcome"], "failed_mid");
}

#[tokio::test]
async fn a_refusal_is_the_answer_whatever_else_failed() {
    let refusal = r#"{"error":{"message":"flagged","code":"content_filter"}}"#;
    let a = FakeProvider::start(vec![Script::status(500, &[], "{}")]).await;
    let b = FakeProvider::start(vec![Script::status(400, &[], refusal)]).await;
    let gateway = Setup::over(&[&a, &b]).race("policy = \"fallback\"").start().await;
    let response = read_response(&mut gateway.streaming().await).await;
    assert_eq!((response.status, response.body.as_str(), response.upstream()), (400, refusal, "b/m"));
    gateway.stop().await;
}

#[tokio::test]
async fn keys_take_turns_per_provider() {
    let keys = "api_key = [\"sk-one\", \"sk-two\"]";
    let a = FakeProvider::answering(|_| Script::stream(&["a"])).await;
    let b = FakeProvider::answering(|_| Script::stream(&["b"])).await;
    let gateway = Setup::new().provider("a", &a, keys).provider("b", &b, keys).start().await;
    for model in ["a/m", "b/m", "a/m", "b/m"] {
        with_headers(&gateway, &[], model).await;
    }
    gateway.stop().await;
    for fake in [&a, &b] {
        let sent: Vec<String> =
            fake.requests().iter().map(|request| request.header("authorization").unwrap().to_owned()).collect();
        assert_eq!(sent, ["Bearer sk-one", "Bearer sk-two"]);
    }
}

#[tokio::test]
async fn a_header_that_is_sent_twice_is_refused_or_goes_up_once() {
    let fake = FakeProvider::answering(|_| Script::stream(&["hello"])).await;
    let gateway = Setup::new().provider("a", &fake, "forward_headers = [\"openai-beta\"]").start().await;
    for name in ["x-photofinish-policy", "x-photofinish-key-a"] {
        let response = with_headers(&gateway, &[(name, "race"), (name, "race")], "m").await;
        assert_eq!((response.status, response.error_code().as_str()), (400, "photofinish_bad_header"), "{name}");
    }
    with_headers(&gateway, &[("openai-beta", "x")], "m").await;
    gateway.stop().await;
    let sent = fake.requests()[0].headers.iter().filter(|(name, _)| name == "openai-beta").count();
    assert_eq!(sent, 1);
}
