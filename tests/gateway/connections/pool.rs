//! The connection pool: connections are kept, used again, and replaced when they are dead.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;

use crate::harness::answer::{ending, read_response};
use crate::harness::gateway::{Setup, assert_row};
use crate::support::{FakeProvider, Gate, Script};

#[tokio::test]
async fn a_connection_is_used_again() {
    let fake = FakeProvider::answering(|_| Script::stream(&["hello"])).await;
    let gateway = Setup::over(&[&fake]).start().await;
    for _ in 0..3 {
        assert_eq!(read_response(&mut gateway.streaming().await).await.streamed_text(), "hello");
    }
    let rows = gateway.stop().await;
    let reused: Vec<_> = rows.attempts.iter().map(|attempt| attempt["conn_reused"].clone()).collect();
    assert_eq!(reused, [0, 1, 1]);
    assert_eq!(fake.connections(), 1);
    assert!(rows.attempts.iter().all(|attempt| attempt["http_version"] == "1.1" && !attempt["eof_us"].is_null()));
}

/// Reads the head of a request, answers its first half, reads the body, and answers the rest.
async fn answer_early(mut stream: tokio::net::TcpStream, body: usize) {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let at = head.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
    let answer = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0,
        "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}]})
    .to_string();
    let head_out =
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", answer.len());
    let (first, rest) = answer.split_at(10);
    stream.write_all((head_out + first).as_bytes()).await.unwrap();
    let (mut left, mut piece) = (body.saturating_sub(head.len() - at), vec![0; 1 << 16]);
    while left > 0 {
        left = left.saturating_sub(stream.read(&mut piece).await.unwrap());
    }
    stream.write_all(rest.as_bytes()).await.unwrap();
    // The connection stays open, and a request that comes over it has no answer.
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_connection_that_answered_before_it_had_the_body_is_not_used_again() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let (connections, counts) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, length) = (connections.clone(), counts.clone());
    let mut accepting = JoinSet::new();
    accepting.spawn(async move {
        let mut answering = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            answering.spawn(answer_early(stream, length.load(Ordering::Relaxed)));
        }
    });
    let gateway = Setup::new().provider_at("a", &base_url, "").start().await;
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "x".repeat(20 << 20)}]});
    counts.store(20 << 20, Ordering::Relaxed);
    for _ in 0..2 {
        assert_eq!(read_response(&mut gateway.ask(&body).await).await.status, 200);
    }
    assert_eq!(connections.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_whole_answer_neither_waits_for_the_end_of_its_body_nor_cuts_it() {
    let end_may = Gate::new();
    let script = Script::sse().role().token("hello").finish("stop").done().wait(&end_may).end();
    let fake = FakeProvider::start(vec![script]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    assert_eq!(read_response(&mut gateway.whole().await).await.status, 200);
    end_may.open();
    fake.answered(0).await;
    let rows = gateway.stop().await;
    assert_eq!(ending(rows.one("a")), json!({"outcome": "won", "ttft_event": 1}));
    assert!(!rows.one("a")["eof_us"].is_null(), "read to its end: the connection can be used again");
}

#[tokio::test]
async fn a_request_lost_with_a_pooled_connection_is_sent_again_as_a_new_attempt() {
    let scripts = ["one", "", "two", "three"].map(|said| match said {
        "" => Script::new().close(),
        said => Script::stream(&[said]),
    });
    let fake = FakeProvider::start(scripts.to_vec()).await;
    let breaker = "breaker = { failures = 1 }";
    let gateway = Setup::over(&[&fake]).race(breaker).start().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.streamed_text(), "one");
    fake.answered(0).await;
    let response = read_response(&mut gateway.streaming().await).await;
    assert_eq!((response.streamed_text().as_str(), response.header("x-photofinish-attempts")), ("two", "2"));
    assert_eq!(read_response(&mut gateway.streaming().await).await.streamed_text(), "three");
    let rows = gateway.stop().await;
    assert_eq!((fake.requests().len(), fake.connections()), (4, 2));
    assert_eq!(rows.attempts.len(), 4, "as many rows as the provider saw requests");
    assert_eq!(ending(rows.of(1)[0]), json!({"outcome": "failed", "failure": "closed", "failure_phase": "headers"}));
    assert_row!(
        rows.of(1)[0],
        json!({"outcome": "failed", "start_reason": "first", "conn_reused": 1, "http_version": "1.1"})
    );
    assert_row!(
        rows.of(1)[1],
        json!({"outcome": "won", "start_reason": "retry", "conn_reused": 0, "http_version": "1.1"})
    );
    assert_row!(
        rows.of(2)[0],
        json!({"outcome": "won", "start_reason": "first", "conn_reused": 1, "http_version": "1.1"}),
        "its breaker stayed closed"
    );
}

#[tokio::test]
async fn a_request_is_not_sent_a_third_time() {
    let fake = FakeProvider::start(vec![Script::stream(&["one"]), Script::new().close(), Script::new().close()]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.streamed_text(), "one");
    fake.answered(0).await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.status, 502);
    let rows = gateway.stop().await;
    assert_eq!((fake.requests().len(), rows.of(1).len()), (3, 2));
}

#[tokio::test]
async fn a_connection_that_was_closed_while_idle_costs_no_attempt() {
    const ROUNDS: usize = 20;
    let fake = FakeProvider::answering(|_| Script::stream(&["hello"]).close()).await;
    let gateway = Setup::over(&[&fake]).start().await;
    for round in 0..ROUNDS {
        assert_eq!(read_response(&mut gateway.streaming().await).await.streamed_text(), "hello");
        fake.answered(round).await;
    }
    let rows = gateway.stop().await;
    assert_eq!(fake.requests().len(), rows.attempts.len());
    assert!(rows.attempts.iter().all(|attempt| attempt["outcome"] == "won" || attempt["conn_reused"] == 1));
}

#[tokio::test]
async fn a_new_connection_that_dies_is_a_failure() {
    let a = FakeProvider::start(vec![Script::new().close(), Script::stream(&["never"])]).await;
    let b = FakeProvider::start(vec![Script::stream(&["hello"])]).await;
    let gateway = Setup::over(&[&a, &b]).race("policy = \"fallback\"").start().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.upstream(), "b/m");
    let rows = gateway.stop().await;
    assert_eq!(a.requests().len(), 1);
    assert_eq!(ending(rows.one("a")), json!({"outcome": "failed", "failure": "closed", "failure_phase": "headers"}));
}
