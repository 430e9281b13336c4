//! Connections that are made before a request needs them, and TLS sessions that are continued.

use serde_json::json;

use super::trusting;
use crate::harness::answer::{first_text, read_response};
use crate::harness::gateway::{Setup, assert_row};
use crate::support::{FakeProvider, Script, Step};

#[tokio::test]
async fn the_first_request_finds_a_warm_connection() {
    for alpn in [None, Some("http/1.1"), Some("h2")] {
        let answer = |_: &_| Script::stream(&["hello"]);
        let (fake, (_folder, ca_file)) = match alpn {
            None => (FakeProvider::answering(answer).await, (tempfile::tempdir().unwrap(), String::new())),
            Some(alpn) => {
                let fake = FakeProvider::answering_tls(&[alpn], answer).await;
                let trusting = trusting(&fake);
                (fake, trusting)
            }
        };
        let cold = Setup::new().provider_at("a", &fake.base_url(), &ca_file).start().await;
        let warm = Setup::new().provider_at("a", &fake.base_url(), &format!("warm = true\n{ca_file}")).start().await;
        fake.connected(1).await;
        assert!(fake.requests().is_empty(), "{alpn:?}");
        for (gateway, reused) in [(warm, 1), (cold, 0)] {
            assert_eq!(read_response(&mut gateway.streaming().await).await.streamed_text(), "hello");
            assert_row!(gateway.stop().await.one("a"), json!({"conn_reused": reused}), "{alpn:?}");
        }
        assert_eq!(fake.connections(), 2, "one of each gateway: {alpn:?}");
    }
}

#[tokio::test]
async fn a_second_connection_continues_the_tls_session() {
    // An answer that goes on keeps its connection, so the next request makes another.
    let fake =
        FakeProvider::answering_tls(&["http/1.1"], |_| Script::sse().role().token("hello").step(Step::UntilClosed))
            .await;
    let (_folder, ca_file) = trusting(&fake);
    let gateway = Setup::new().provider_at("a", &fake.base_url(), &ca_file).start().await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = gateway.streaming().await;
        assert_eq!(client.head().await.status, 200);
        assert_eq!(first_text(&mut client).await, "hello");
        clients.push(client);
    }
    assert_eq!((fake.connections(), fake.resumed()), (3, 2));
    drop(clients);
    gateway.stop().await;
}

#[tokio::test]
async fn a_connection_that_was_closed_with_its_answer_is_replaced_before_the_next_request() {
    let scripts = vec![Script::sse().role().token("hello").step(Step::UntilClosed), Script::stream(&["hello"])];
    let fake = FakeProvider::start_tls(&["http/1.1"], scripts).await;
    let (_folder, ca_file) = trusting(&fake);
    let gateway = Setup::new().provider_at("a", &fake.base_url(), &ca_file).start().await;
    let mut client = gateway.streaming().await;
    client.head().await;
    assert_eq!(first_text(&mut client).await, "hello");
    client.close();
    fake.closed(0).await;
    fake.connected(2).await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.streamed_text(), "hello");
    assert_eq!(fake.connections(), 2);
    let rows = gateway.stop().await;
    assert_row!(&rows.attempts[1], json!({"conn_reused": 1}));
}
