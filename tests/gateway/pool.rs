//! Connections to upstreams: kept, used again, and replaced when they turn out dead.

use serde_json::json;

use crate::gateway::{Setup, pick};
use crate::support::{FakeProvider, Gate, Script};
use crate::talk::{end, hear};

const CONNECTION: [&str; 4] = ["outcome", "start_reason", "conn_reused", "http_version"];

#[tokio::test]
async fn a_connection_is_used_again() {
    let fake = FakeProvider::answering(|_| Script::stream(&["hello"])).await;
    let gateway = Setup::over(&[&fake]).start().await;
    for _ in 0..3 {
        assert_eq!(hear(&mut gateway.streaming().await).await.said(), "hello");
    }
    let rows = gateway.stop().await;
    let reused: Vec<_> = rows.attempts.iter().map(|attempt| attempt["conn_reused"].clone()).collect();
    assert_eq!(reused, [0, 1, 1]);
    assert_eq!(fake.connections(), 1);
    assert!(rows.attempts.iter().all(|attempt| attempt["http_version"] == "1.1" && !attempt["eof_us"].is_null()));
}

#[tokio::test]
async fn a_whole_answer_waits_for_no_end_and_breaks_off_none() {
    let end_may = Gate::new();
    let script = Script::sse().role().token("hello").finish("stop").done().wait(&end_may).end();
    let fake = FakeProvider::start(vec![script]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    assert_eq!(hear(&mut gateway.whole().await).await.status, 200);
    end_may.open();
    fake.answered(0).await;
    let rows = gateway.stop().await;
    assert_eq!(end(rows.one("a")), json!(["won", 1, null, null, null]));
    assert!(!rows.one("a")["eof_us"].is_null(), "read to its end: the connection can be used again");
}

#[tokio::test]
async fn a_pooled_connection_that_is_dead_is_replaced_in_silence() {
    let fake =
        FakeProvider::start(vec![Script::stream(&["one"]), Script::new().close(), Script::stream(&["two"])]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    assert_eq!(hear(&mut gateway.streaming().await).await.said(), "one");
    fake.answered(0).await;
    assert_eq!(hear(&mut gateway.streaming().await).await.said(), "two");
    let rows = gateway.stop().await;
    assert_eq!((fake.requests().len(), fake.connections()), (3, 2));
    assert_eq!(rows.of(1).len(), 1, "one attempt");
    assert_eq!(pick(rows.of(1)[0], &CONNECTION), json!(["won", "first", 0, "1.1"]));
}

#[tokio::test]
async fn a_new_connection_that_dies_is_a_failure() {
    let a = FakeProvider::start(vec![Script::new().close(), Script::stream(&["never"])]).await;
    let b = FakeProvider::start(vec![Script::stream(&["hello"])]).await;
    let gateway = Setup::over(&[&a, &b]).race("policy = \"fallback\"").start().await;
    assert_eq!(hear(&mut gateway.streaming().await).await.upstream(), "b/m");
    let rows = gateway.stop().await;
    assert_eq!(a.requests().len(), 1);
    assert_eq!(end(rows.one("a")), json!(["failed", null, null, "closed", "headers"]));
}
