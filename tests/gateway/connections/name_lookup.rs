//! DNS look-ups: shared between requests, and a hanging one delays nothing else.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use photofinish_transport::upstream::Resolver;
use serde_json::json;

use crate::harness::answer::{ending, read_response};
use crate::harness::gateway::Setup;
use crate::support::{FakeProvider, RawClient, Script, soon};

/// `hangs.test` never resolves, `good.test` is this machine, and other names do not exist. Counts the look-ups.
fn resolver() -> (Resolver, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let resolver: Resolver = Arc::new(move |host| {
        count.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            match host.as_str() {
                "hangs.test" => pending().await,
                "good.test" => Ok(vec!["127.0.0.1:0".parse().unwrap()]),
                _ => Err(io::Error::other("no such name")),
            }
        })
    });
    (resolver, asked)
}

#[tokio::test]
async fn a_hanging_lookup_does_not_delay_other_providers() {
    let fake = FakeProvider::answering(|_| Script::stream(&["hello"])).await;
    let good = format!("http://good.test:{}/v1", fake.addr().port());
    let (resolver, asked) = resolver();
    let setup = Setup::new().provider_at("a", "http://hangs.test:9/v1", "").provider_at("b", &good, "");
    let gateway = setup.start_resolving(resolver).await;
    let mut clients = Vec::new();
    for _ in 0..50 {
        clients.push(gateway.streaming().await);
    }
    for mut client in clients {
        assert_eq!(read_response(&mut client).await.upstream(), "b/m");
    }
    assert_eq!(asked.load(Ordering::Relaxed), 2, "one look-up of each name");
    let rows = gateway.stop().await;
    assert_eq!(rows.attempts.len(), 100);
}

#[tokio::test]
async fn shutdown_does_not_wait_for_a_lookup() {
    let (resolver, asked) = resolver();
    let setup = Setup::new().server("drain = \"10ms\"").provider_at("a", "http://hangs.test:9/v1", "");
    let setup = setup.race("timeouts = { connect = \"10m\", first_token = \"10m\", total = \"10m\" }");
    let gateway = setup.start_resolving(resolver).await;
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(gateway.streaming().await);
    }
    soon("a look-up", async {
        while asked.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let mut other = RawClient::connect(gateway.addr()).await;
    other.request("GET", "/api/stats", &[], String::new()).await;
    assert_eq!(read_response(&mut other).await.status, 200);
    let rows = gateway.stop().await;
    assert_eq!(rows.attempts.len(), 20);
    assert!(rows.attempts.iter().all(|attempt| attempt["outcome"] == "shutdown"));
}

#[tokio::test]
async fn an_unknown_host_is_a_dns_failure() {
    let (resolver, _) = resolver();
    let gateway = Setup::new().provider_at("a", "http://missing.test:9/v1", "").start_resolving(resolver).await;
    let response = read_response(&mut gateway.whole().await).await;
    assert_eq!(response.status, 502);
    assert!(response.body.contains("missing.test: no such name"), "{}", response.body);
    let rows = gateway.stop().await;
    assert_eq!(ending(&rows.attempts[0]), json!({"outcome": "failed", "failure": "dns", "failure_phase": "connect"}));
}
