//! An upstream that works again is used within `open` plus a second, however long it was down, under every policy; and
//! no client waits for the probe.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use photofinish_config::Policy;
use serde_json::json;

use crate::harness::answer::{advance_clock, error_and_close, read_response, silent, stream_after};
use crate::harness::gateway::{Setup, TestGateway};
use crate::support::{FakeProvider, Gate, Script, soon};

const BREAKER: &str = "breaker = { failures = 1, open = \"5s\", open_max = \"60s\" }";
const SECOND: Duration = Duration::from_secs(1);

fn good() -> Script {
    Script::stream(&["hello"])
}

/// Fails while it is down.
async fn up_and_down() -> (FakeProvider, Arc<AtomicBool>) {
    let down = Arc::new(AtomicBool::new(true));
    let is_down = down.clone();
    let fake = FakeProvider::answering(move |_| match is_down.load(Ordering::Relaxed) {
        true => error_and_close(500, "{}"),
        false => good(),
    });
    (fake.await, down)
}

fn is_open(gateway: &TestGateway) -> bool {
    gateway.open_breakers().contains("a/m")
}

#[tokio::test]
async fn a_recovered_favourite_is_probed_within_six_seconds_under_every_policy() {
    for policy in Policy::ALL.map(Policy::as_str) {
        for outage in [1, 90] {
            let ((a, down), first_may) = (up_and_down().await, Gate::new());
            let held = first_may.clone();
            let b = FakeProvider::answering(move |request| match request.number {
                0 => stream_after(&held, &["hello"]),
                _ => good(),
            });
            let b = b.await;
            let upstreams = "\"a/m\", { upstream = \"b/m\", weight = 0.0 }";
            let model = format!("[models.m]\npolicy = \"{policy}\"\nupstreams = [{upstreams}]");
            let gateway = Setup::over(&[&a, &b]).race(BREAKER).model(&model).start().await;
            let ask = async || {
                assert_eq!(read_response(&mut gateway.streaming().await).await.streamed_text(), "hello", "{policy}")
            };
            let mut first = gateway.streaming().await;
            a.closed(0).await;
            first_may.open();
            assert_eq!(read_response(&mut first).await.streamed_text(), "hello", "{policy}");
            assert!(is_open(&gateway), "{policy}");
            for _ in 0..outage {
                advance_clock(SECOND).await;
                ask().await;
            }
            let asked = a.requests().len();
            assert!(is_open(&gateway), "{policy}");
            down.store(false, Ordering::Relaxed);
            let mut seconds = 0;
            while is_open(&gateway) {
                assert!(seconds < 6, "{policy}: not found back in six seconds after {outage}");
                advance_clock(SECOND).await;
                seconds += 1;
                ask().await;
                // It may still be in transit when the other one has won.
                if a.requests().len() > asked {
                    let closes = async {
                        while is_open(&gateway) {
                            tokio::task::yield_now().await
                        }
                    };
                    soon("its breaker closes", closes).await;
                }
            }
            gateway.stop().await;
        }
    }
}

#[tokio::test]
async fn a_probe_delays_no_client_and_costs_one_request_in_five_seconds() {
    let ((a, _), b) = (up_and_down().await, FakeProvider::answering(|_| good()).await);
    let c = FakeProvider::answering(|_| good()).await;
    let gateway = Setup::over(&[&a, &b, &c]).race("policy = \"fallback\"").race(BREAKER).start().await;
    for _ in 0..61 {
        let response = read_response(&mut gateway.streaming().await).await;
        assert_eq!(response.upstream(), "b/m");
        advance_clock(SECOND).await;
    }
    gateway.stop().await;
    let trials = a.requests().len() - 1;
    assert!((11..=12).contains(&trials), "{trials} in a minute");
    assert_eq!(c.requests().len(), 0, "none comes in the place of a trial");
}

#[tokio::test]
async fn a_slower_upstream_is_probed_too() {
    let (b, slow) = (FakeProvider::answering(|_| good()).await, Gate::new());
    let a = FakeProvider::start(vec![Script::status(500, &[], "{}"), stream_after(&slow, &["slow"]), good()]).await;
    let setup = Setup::over(&[&a, &b]).race("policy = \"fallback\"\naudit = 0.0").race(BREAKER);
    let gateway = setup.start().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.upstream(), "b/m");
    advance_clock(5 * SECOND).await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.upstream(), "b/m");
    a.request(1).await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.upstream(), "b/m", "one trial at a time");
    assert_eq!(a.requests().len(), 2);
    slow.open();
    soon("its breaker closes", async {
        while is_open(&gateway) {
            tokio::task::yield_now().await
        }
    })
    .await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.upstream(), "a/m");
    let rows = gateway.stop().await;
    let trial = rows.of(1)[1];
    assert_eq!((&trial["outcome"], &trial["audited"], &trial["p_audit"]), (&json!("lost"), &json!(1), &json!(1.0)));
}

#[tokio::test]
async fn a_hanging_probe_is_not_waited_for() {
    let b = FakeProvider::answering(|_| good()).await;
    let a = FakeProvider::start(vec![Script::status(500, &[], "{}"), silent(), good(), good()]).await;
    let gateway = Setup::over(&[&a, &b]).race("policy = \"fallback\"").race(BREAKER).start().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.upstream(), "b/m");
    advance_clock(5 * SECOND).await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.upstream(), "b/m");
    a.request(1).await;
    advance_clock(5 * SECOND).await;
    read_response(&mut gateway.streaming().await).await;
    a.request(2).await;
    soon("its breaker closes", async {
        while is_open(&gateway) {
            tokio::task::yield_now().await
        }
    })
    .await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.upstream(), "a/m");
    gateway.stop().await;
}
