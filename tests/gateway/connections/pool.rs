//! Connections to upstreams: kept, used again, and replaced when they turn out dead.

use serde_json::json;

use crate::harness::answer::{end, hear};
use crate::harness::gateway::{Setup, pick};
use crate::support::{FakeProvider, Gate, Script};

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
async fn a_request_that_a_dying_pooled_connection_took_is_an_attempt_of_its_own() {
    let scripts = ["one", "", "two", "three"].map(|said| match said {
        "" => Script::new().close(),
        said => Script::stream(&[said]),
    });
    let fake = FakeProvider::start(scripts.to_vec()).await;
    let breaker = "breaker = { failures = 1 }";
    let gateway = Setup::over(&[&fake]).race(breaker).start().await;
    assert_eq!(hear(&mut gateway.streaming().await).await.said(), "one");
    fake.answered(0).await;
    let heard = hear(&mut gateway.streaming().await).await;
    assert_eq!((heard.said().as_str(), heard.header("x-photofinish-attempts")), ("two", "2"));
    assert_eq!(hear(&mut gateway.streaming().await).await.said(), "three");
    let rows = gateway.stop().await;
    assert_eq!((fake.requests().len(), fake.connections()), (4, 2));
    assert_eq!(rows.attempts.len(), 4, "as many rows as the provider saw requests");
    assert_eq!(end(rows.of(1)[0]), json!(["failed", null, null, "closed", "headers"]));
    assert_eq!(pick(rows.of(1)[0], &CONNECTION), json!(["failed", "first", 1, "1.1"]));
    assert_eq!(pick(rows.of(1)[1], &CONNECTION), json!(["won", "retry", 0, "1.1"]));
    assert_eq!(pick(rows.of(2)[0], &CONNECTION), json!(["won", "first", 1, "1.1"]), "its breaker stayed closed");
}

#[tokio::test]
async fn a_new_connection_in_its_place_that_dies_too_is_the_end_of_it() {
    let fake = FakeProvider::start(vec![Script::stream(&["one"]), Script::new().close(), Script::new().close()]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    assert_eq!(hear(&mut gateway.streaming().await).await.said(), "one");
    fake.answered(0).await;
    assert_eq!(hear(&mut gateway.streaming().await).await.status, 502);
    let rows = gateway.stop().await;
    assert_eq!((fake.requests().len(), rows.of(1).len()), (3, 2));
}

#[tokio::test]
async fn a_connection_that_was_closed_while_idle_costs_no_attempt() {
    const ROUNDS: usize = 20;
    let fake = FakeProvider::answering(|_| Script::stream(&["hello"]).close()).await;
    let gateway = Setup::over(&[&fake]).start().await;
    for round in 0..ROUNDS {
        assert_eq!(hear(&mut gateway.streaming().await).await.said(), "hello");
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
    assert_eq!(hear(&mut gateway.streaming().await).await.upstream(), "b/m");
    let rows = gateway.stop().await;
    assert_eq!(a.requests().len(), 1);
    assert_eq!(end(rows.one("a")), json!(["failed", null, null, "closed", "headers"]));
}
