//! An upstream refuses the reasoning of earlier turns because another vendor signed it: the request is sent once more
//! without it.

use serde_json::{Value, json};

use crate::harness::answer::{Response, read_response};
use crate::harness::gateway::{CHAT, Setup, TestGateway, assert_rows};
use crate::support::{Dialect, FakeProvider, Script};

const REFUSED: &str = r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.1.content.0: Invalid `signature` in `thinking` block"}}"#;

fn answer() -> Script {
    Script::of(Dialect::Anthropic).whole_stream(&["hello"])
}

/// A conversation with tool calls in which the assistant has reasoned.
fn run_of_tools() -> Value {
    json!({ "model": "m", "stream": true, "max_tokens": 4096, "thinking": { "type": "enabled", "budget_tokens": 2048 }, "messages": [
        { "role": "user", "content": "x" },
        { "role": "assistant", "content": [
            { "type": "thinking", "thinking": "hm", "signature": "of-another" },
            { "type": "redacted_thinking", "data": "of-another" },
            { "type": "tool_use", "id": "t", "name": "f", "input": {} } ] },
        { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "t", "content": "1" }] } ] })
}

async fn ask(gateway: &TestGateway, path: &str, body: &Value) -> Response {
    read_response(&mut gateway.post(path, body).await).await
}

#[tokio::test]
async fn a_refusal_of_foreign_reasoning_is_retried_without_it() {
    let fake = FakeProvider::start(vec![Script::status(400, &[], REFUSED), answer()]).await;
    let gateway = Setup::new().provider("a", &fake, "dialect = \"anthropic\"").start().await;
    let response = ask(&gateway, "/v1/messages", &run_of_tools()).await;
    assert_eq!((response.status, response.header("x-photofinish-dropped")), (200, "thinking"), "{}", response.body);
    let sent = fake.requests();
    assert!(sent[0].json()["messages"][1]["content"].to_string().contains("of-another"), "as it came at first");
    let again = sent[1].json();
    assert_eq!(again["messages"][1]["content"], json!([{ "type": "tool_use", "id": "t", "name": "f", "input": {} }]));
    assert_eq!(again.get("thinking"), None, "without a thought before its call it may not go on thinking");
    let rows = gateway.stop().await;
    assert_rows(
        &rows.of(0),
        &[
            json!({"start_reason": "first", "outcome": "failed", "failure": "bad_request"}),
            json!({"start_reason": "retry", "outcome": "won", "failure": null}),
        ],
    );
}

#[tokio::test]
async fn foreign_reasoning_is_removed_at_most_once() {
    let fake = FakeProvider::answering(|_| Script::status(400, &[], REFUSED)).await;
    let gateway = Setup::new().provider("a", &fake, "dialect = \"anthropic\"").start().await;
    let response = ask(&gateway, "/v1/messages", &run_of_tools()).await;
    assert_eq!((response.status, response.body.as_str()), (400, REFUSED), "the vendor's own answer");
    let plain =
        json!({ "model": "m", "stream": true, "max_tokens": 9, "messages": [{ "role": "user", "content": "x" }] });
    assert_eq!(ask(&gateway, "/v1/messages", &plain).await.status, 400);
    let rows = gateway.stop().await;
    assert_eq!((rows.of(0).len(), rows.of(1).len()), (2, 1));
}

#[tokio::test]
async fn a_translated_request_is_rewritten_without_the_reasoning() {
    let fake = FakeProvider::start(vec![Script::status(400, &[], REFUSED), answer()]).await;
    let gateway = Setup::new().provider("a", &fake, "dialect = \"anthropic\"").start().await;
    let body = json!({ "model": "m", "stream": true, "messages": [
        { "role": "user", "content": "x" },
        { "role": "assistant", "content": "So.", "reasoning_details": [
            { "type": "reasoning.text", "text": "hm", "signature": "photofinish.anthropic.of-another", "format": "anthropic-claude-v1" }] },
        { "role": "user", "content": "y" } ] });
    let response = ask(&gateway, CHAT, &body).await;
    assert_eq!((response.status, response.streamed_text().as_str()), (200, "hello"), "{}", response.body);
    gateway.stop().await;
    let sent: Vec<bool> =
        fake.requests().iter().map(|request| request.json().to_string().contains("of-another")).collect();
    assert_eq!(sent, [true, false]);
}

#[tokio::test]
async fn encrypted_content_of_another_account_is_removed_with_its_references() {
    let refused = r#"{"error":{"message":"The encrypted content gAAA...DQ== could not be verified.","type":"invalid_request_error","param":null,"code":"invalid_encrypted_content"}}"#;
    let fake = FakeProvider::start(vec![
        Script::status(400, &[], refused),
        Script::of(Dialect::Responses).whole_stream(&["hello"]),
    ])
    .await;
    let gateway = Setup::new().provider("a", &fake, "dialect = \"responses\"").start().await;
    let body = json!({ "model": "m", "stream": true, "input": [
        { "role": "user", "content": "x" },
        { "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAother" },
        { "type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}" },
        { "type": "function_call_output", "call_id": "c", "output": "1" } ] });
    let response = ask(&gateway, "/v1/responses", &body).await;
    assert_eq!((response.status, response.header("x-photofinish-dropped")), (200, "reasoning"), "{}", response.body);
    gateway.stop().await;
    let again = &fake.requests()[1].json()["input"];
    assert_eq!(again[1], json!({ "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}" }));
    assert_eq!(again.as_array().unwrap().len(), 3);
}
