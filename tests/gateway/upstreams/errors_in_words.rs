//! What errors say in their own words: ends of limits that are only in the body, and errors in a 200 that have no `error`.

use serde_json::json;

use crate::harness::answer::{ending, read_response};
use crate::harness::gateway::{Setup, assert_row};
use crate::support::{FakeProvider, Script};

const GOOGLE: &str = r#"{"error": {"code": 429, "message": "You exceeded your current quota. Please retry in 41.3s.",
    "status": "RESOURCE_EXHAUSTED", "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "41s"}]}}"#;
const PLAN: &str = r#"{"error": {"code": "1308", "message": "Usage limit reached. It resets after 2h.", "type": "x"}}"#;

#[tokio::test]
async fn the_end_of_a_limit_that_stands_in_the_body_is_obeyed() {
    let openai =
        r#"{"error":{"message":"Rate limit reached for m. Please try again in 37.5s.","code":"rate_limit_exceeded"}}"#;
    for (body, headers, found, cooled) in [
        (GOOGLE, &[][..], 41, 41),
        (openai, &[], 38, 38),
        (openai, &[("retry-after", "7")], 7, 7),
        (r#"{"error":{"message":"Rate limit reached for m. Please try again in 2h."}}"#, &[], 7_200, 300),
        (PLAN, &[], 7_200, 3_600),
    ] {
        let fake = FakeProvider::start(vec![Script::status(429, headers, body)]).await;
        let gateway = Setup::over(&[&fake]).start().await;
        let first = read_response(&mut gateway.streaming().await).await;
        assert_eq!((first.status, first.header("retry-after")), (429, found.to_string().as_str()), "{body}");
        let second = read_response(&mut gateway.streaming().await).await;
        assert_eq!((second.status, second.error_code().as_str()), (429, "photofinish_cooling_down"), "{body}");
        let wait: u64 = second.header("retry-after").parse().unwrap();
        assert!(wait <= cooled && wait + 5 >= cooled, "{body}: {wait}");
        assert_eq!(fake.requests().len(), 1, "{body}");
        gateway.stop().await;
    }
}

/// Bodies and events with their failure and their words.
const SAID: [(&str, &str, &str); 9] = [
    (
        r#"{"code":"Throttling.RateQuota","message":"Requests rate limit exceeded, please try again later.","request_id":"r"}"#,
        "rate_limited",
        "Requests rate limit exceeded, please try again later.",
    ),
    (
        r#"{"code":"InvalidApiKey","message":"Invalid API-key provided.","request_id":"r"}"#,
        "unauthorized",
        "Invalid API-key provided.",
    ),
    (r#"{"detail":"Too Many Requests"}"#, "rate_limited", "Too Many Requests"),
    (r#"{"detail":"the engine died"}"#, "in_stream_error", "the engine died"),
    (
        r#"{"success":false,"errors":[{"code":3040,"message":"Capacity temporarily exceeded, please try again."}],"result":null}"#,
        "overloaded",
        "Capacity temporarily exceeded, please try again.",
    ),
    (r#"{"code":50505,"message":"Model service overloaded.","data":null}"#, "overloaded", "Model service overloaded."),
    (r#"{"message":"Internal server error"}"#, "server_error", "Internal server error"),
    ("Rate limit exceeded, try again in 9s", "rate_limited", "Rate limit exceeded, try again in 9s"),
    (
        "upstream connect error or disconnect/reset before headers",
        "overloaded",
        "upstream connect error or disconnect/reset before headers",
    ),
];

#[tokio::test]
async fn an_error_in_a_200_keeps_its_words_and_its_class() {
    for (said, failure, message) in SAID {
        let head = |content_type: &str| Script::new().head(200, &[("content-type", content_type)]);
        for (form, script) in [
            ("an event", head("text/event-stream").event(said).end()),
            ("an event after a role", head("text/event-stream").role().event(said).end()),
            ("bare in a stream", head("text/event-stream").chunk(said).end()),
            ("a body", head("application/json").chunk(said).end()),
            ("a body of text", head("text/plain").chunk(said).end()),
        ] {
            let fake = FakeProvider::start(vec![script]).await;
            let gateway = Setup::over(&[&fake]).start().await;
            let answer = read_response(&mut gateway.streaming().await).await;
            let status = if failure == "rate_limited" { 429 } else { 502 };
            assert_eq!(answer.status, status, "{form}: {said}: {}", answer.body);
            let attempt = &answer.json()["error"]["attempts"][0];
            assert_eq!(
                (attempt["failure"].as_str(), attempt["message"].as_str()),
                (Some(failure), Some(message)),
                "{form}"
            );
            gateway.stop().await;
        }
    }
}

#[tokio::test]
async fn a_rate_limit_without_an_error_member_cools_down() {
    let a = FakeProvider::start(vec![Script::sse().event(SAID[0].0).end()]).await;
    let b = FakeProvider::answering(|_| Script::stream(&["hello"])).await;
    let gateway = Setup::over(&[&a, &b]).race("policy = \"fallback\"").start().await;
    for _ in 0..3 {
        assert_eq!(read_response(&mut gateway.streaming().await).await.upstream(), "b/m");
    }
    assert_eq!(a.requests().len(), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_stream_that_turns_into_something_else_breaks_with_its_words() {
    for (turn, failure, words) in [
        (
            "<!DOCTYPE html>\n<html><head><title>502 Bad Gateway</title></head>\n\n<body></body></html>",
            "malformed",
            "502 Bad Gateway",
        ),
        ("data: Internal Server Error\n\n", "server_error", "Internal Server Error"),
        ("data: {\"detail\":\"the engine died\"}\n\n", "in_stream_error", "the engine died"),
    ] {
        let script = Script::sse().role().token("hi").chunk(turn).token("more").finish("stop").done().end();
        let fake = FakeProvider::start(vec![script.clone(), script]).await;
        let gateway = Setup::over(&[&fake]).start().await;
        let answer = read_response(&mut gateway.streaming().await).await;
        assert_eq!(answer.streamed_text(), "hi", "{turn}");
        assert!(!answer.is_done() && answer.body.contains(words), "{turn}: {}", answer.body);
        assert_eq!(read_response(&mut gateway.whole().await).await.status, 502, "{turn}");
        let expected = json!({"outcome": "failed_mid", "ttft_event": 1, "failure": failure, "failure_phase": "stream"});
        let rows = gateway.stop().await;
        assert!(rows.attempts.iter().all(|row| row["failure"] == failure), "{turn}");
        assert_eq!(ending(&rows.attempts[0])["failure"], expected["failure"]);
    }
}

#[tokio::test]
async fn what_a_vendor_writes_beside_its_answer_breaks_nothing() {
    let beside = [
        "data: ping\n\n",
        "data: keep-alive\n\n",
        "event: status\ndata: still at work\n\n",
        "event: ping\n\n",
        "x-note: a header of a proxy\n\n",
        "data: {\"type\":\"progress\",\"detail\":\"thinking\"}\n\n",
        "data: {\"code\":0,\"message\":\"success\"}\n\n",
    ];
    for more in beside {
        let script = Script::sse().chunk(more).role().token("hi").chunk(more).finish("stop").done().end();
        let fake = FakeProvider::start(vec![script]).await;
        let gateway = Setup::over(&[&fake]).start().await;
        let answer = read_response(&mut gateway.streaming().await).await;
        assert_eq!((answer.status, answer.is_done()), (200, true), "{more}: {}", answer.body);
        gateway.stop().await;
    }
}

#[tokio::test]
async fn the_outage_of_the_only_upstream_keeps_its_status_and_its_retry_after() {
    let page = "<html><title>busy</title></html>";
    for (status, body, shown) in [(503, r#"{"error":{"message":"busy"}}"#, "busy"), (529, page, "an HTML page (529)")] {
        let fake = FakeProvider::start(vec![Script::status(status, &[("retry-after", "7")], body)]).await;
        let gateway = Setup::over(&[&fake]).start().await;
        let answer = read_response(&mut gateway.streaming().await).await;
        assert_eq!((answer.status, answer.header("retry-after")), (status, "7"), "{}", answer.body);
        assert!(answer.json()["error"]["message"].as_str().unwrap().starts_with(shown), "{}", answer.body);
        assert_row!(&gateway.stop().await.races[0], json!({"outcome": "error", "http_status": status}));
    }
}
