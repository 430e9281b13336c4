//! Providers with invalid HTTP/1.1: endless informational responses, invalid status codes, early closes.

use serde_json::json;

use crate::harness::answer::{ending, read_response};
use crate::harness::gateway::{Setup, assert_row};
use crate::support::{FakeProvider, Script};

#[tokio::test]
async fn endless_informational_responses_are_cut() {
    let informed = "HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload\r\n\r\n".repeat(20_000);
    let endless = Script::new().raw(informed).until_closed();
    let fake = FakeProvider::start(vec![endless, Script::stream(&["hello"])]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.status, 502);
    fake.closed(0).await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.streamed_text(), "hello");
    let rows = gateway.stop().await;
    assert_eq!(
        ending(&rows.attempts[0]),
        json!({"outcome": "failed", "failure": "protocol", "failure_phase": "headers"})
    );
}

#[tokio::test]
async fn a_few_informational_responses_are_ignored() {
    let mut script = Script::new().raw("HTTP/1.1 100 Continue\r\n\r\n".repeat(10));
    script.steps.extend(Script::stream(&["hello"]).steps);
    let fake = FakeProvider::start(vec![script]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.streamed_text(), "hello");
    gateway.stop().await;
}

#[tokio::test]
async fn an_invalid_status_is_a_502() {
    for status in ["600", "999", "099", "000", "1000", "+20", "101", "304"] {
        let head = format!("HTTP/1.1 {status} Odd\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}");
        let fake = FakeProvider::start(vec![Script::new().raw(head).close()]).await;
        let gateway = Setup::over(&[&fake]).start().await;
        let response = read_response(&mut gateway.streaming().await).await;
        assert_eq!(response.status, 502, "{status}");
        let rows = gateway.stop().await;
        assert_row!(&rows.attempts[0], json!({"failure": "protocol", "failure_phase": "headers"}), "{status}");
    }
}

#[tokio::test]
async fn a_close_in_mid_answer_counts_as_closed() {
    let chunked = Script::sse().role().token("hello").close();
    let found = Script::new().head(200, &[("content-type", "text/event-stream"), ("content-length", "100000")]);
    let mut found = found.role().token("hello");
    found.steps.push(crate::support::Step::Close);
    for script in [chunked, found] {
        let fake = FakeProvider::start(vec![script]).await;
        let gateway = Setup::over(&[&fake]).start().await;
        assert!(!read_response(&mut gateway.streaming().await).await.is_done());
        let rows = gateway.stop().await;
        assert_eq!(
            ending(&rows.attempts[0]),
            json!({"outcome": "failed_mid", "ttft_event": 1, "failure": "closed", "failure_phase": "stream"})
        );
    }
}
