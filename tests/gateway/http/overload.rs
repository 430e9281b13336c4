//! Overload: requests beyond the limits are rejected at once with a reason, accepted ones are served, and every permit
//! and byte is returned.

use std::net::SocketAddr;

use serde_json::json;

use crate::harness::answer::read_response;
use crate::harness::gateway::{CHAT, Setup, TestGateway, assert_row};
use crate::harness::program::Program;
use crate::support::{FakeProvider, Gate, RawClient, Script, soon};

/// The value of a series of `/metrics`.
async fn metric(addr: SocketAddr, series: &str) -> f64 {
    value(&page(addr).await, series)
}

async fn page(addr: SocketAddr) -> String {
    let mut client = RawClient::connect(addr).await;
    client.request("GET", "/metrics", &[], "").await;
    read_response(&mut client).await.body
}

fn value(page: &str, series: &str) -> f64 {
    let line = page.lines().find_map(|line| line.strip_prefix(&format!("photofinish_{series} ")).map(str::to_owned));
    line.unwrap_or_else(|| panic!("no {series} in {page}")).parse().unwrap()
}

/// Waits until all memory is returned, but for that of connections.
async fn no_bodies(addr: SocketAddr) {
    soon("the memory of bodies", async {
        loop {
            let page = page(addr).await;
            if value(&page, "memory_used_bytes") == value(&page, "memory_clients_bytes") {
                return;
            }
        }
    })
    .await;
}

/// One token, and the rest after the gate.
fn held(gate: &Gate) -> Script {
    Script::sse().role().token("a").wait(gate).token("b").finish("stop").done().end()
}

async fn status(addr: SocketAddr, path: &str) -> u16 {
    let mut client = RawClient::connect(addr).await;
    client.request("GET", path, &[], "").await;
    read_response(&mut client).await.status
}

/// A chat request of about this many bytes.
fn large(bytes: usize) -> serde_json::Value {
    json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "x".repeat(bytes)}]})
}

async fn begun(gateway: &TestGateway, body: &serde_json::Value) -> RawClient {
    let mut client = gateway.ask(body).await;
    client.head().await;
    while client.event().await.unwrap().is_some_and(|event| crate::harness::answer::text(&event).is_empty()) {}
    client
}

#[tokio::test]
async fn beyond_max_in_flight_requests_are_turned_away_before_they_are_read() {
    let gate = Gate::new();
    let open = gate.clone();
    let fake = FakeProvider::answering(move |_| held(&open)).await;
    let setup = Setup::over(&[&fake]).server("max_in_flight = 2");
    let gateway = setup.table("[users.ann]\ntoken = \"t\"\nrole = \"admin\"").start().await;
    let auth = [("authorization", "Bearer t")];
    let ask = async |body: &serde_json::Value| gateway.request(CHAT, &auth, body).await;
    let mut inside = [ask(&large(1)).await, ask(&large(1)).await];
    for client in &mut inside {
        assert_eq!(client.head().await.status, 200);
    }
    // Neither its token nor its body matters. It sends everything before it reads.
    let mut outside = gateway.request(CHAT, &[], &large(3 << 20)).await;
    let response = read_response(&mut outside).await;
    assert_eq!((response.status, response.error_code().as_str()), (503, "photofinish_overloaded"));
    assert_eq!((response.header("retry-after"), response.header("x-photofinish-race")), ("1", ""));
    // A client that waits for permission has sent no body.
    let mut asks_first = RawClient::connect(gateway.addr()).await;
    let head =
        format!("POST {CHAT} HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 1000000\r\n\r\n");
    asks_first.send(head).await;
    assert_eq!(read_response(&mut asks_first).await.status, 503);
    for path in ["/healthz", "/readyz"] {
        assert_eq!(status(gateway.addr(), path).await, 200, "{path}");
    }
    let mut page = RawClient::connect(gateway.addr()).await;
    page.request("GET", "/metrics", &auth, "").await;
    assert!(read_response(&mut page).await.body.contains("photofinish_shed_total{reason=\"in_flight\"} 2"));
    gate.open();
    for client in &mut inside {
        while client.event().await.unwrap().is_some() {}
    }
    // The same connection as before: the gateway has read the rest of its body.
    soon("room again", async {
        loop {
            outside.request("POST", CHAT, &auth, large(1).to_string()).await;
            if read_response(&mut outside).await.status == 200 {
                return;
            }
        }
    })
    .await;
    let rows = gateway.stop().await;
    assert_eq!(rows.races.len(), 3, "who was turned away has no race");
}

#[tokio::test]
async fn from_three_quarters_on_there_are_no_extra_attempts() {
    let gate = Gate::new();
    let open = gate.clone();
    let a = FakeProvider::answering(move |_| held(&open)).await;
    let b = FakeProvider::answering(|_| Script::status(500, &[], "{}")).await;
    let c = FakeProvider::answering(|_| Script::stream(&["c"])).await;
    let model = "[models.m]\nupstreams = [\"a/m\"]\n[models.n]\nupstreams = [\"b/m\", \"c/m\", \"a/m\"]";
    let setup = Setup::over(&[&a, &b, &c]).server("max_in_flight = 4").model(model);
    let gateway = setup.start().await;
    let mut inside = Vec::new();
    for _ in 0..3 {
        inside.push(begun(&gateway, &large(1)).await);
    }
    let response =
        read_response(&mut gateway.ask(&json!({"model": "n", "stream": true, "messages": [{}]})).await).await;
    assert_eq!((response.streamed_text().as_str(), response.header("x-photofinish-attempts")), ("c", "2"));
    gate.open();
    for client in &mut inside {
        while client.event().await.unwrap().is_some() {}
    }
    let rows = gateway.stop().await;
    let crowded = rows.races.iter().find(|race| race["model"] == "n").unwrap();
    assert_row!(crowded, json!({"attempts": 2, "why": "listed crowded", "policy": "race"}));
    assert_row!(rows.one("c"), json!({"start_reason": "fallback", "outcome": "won"}));
}

#[tokio::test]
async fn bodies_share_one_budget_and_give_it_back() {
    let gate = Gate::new();
    let open = gate.clone();
    let fake = FakeProvider::answering(move |_| held(&open)).await;
    let gateway = Setup::over(&[&fake]).server("memory = \"1MiB\"").start().await;
    let addr = gateway.addr();
    // A request that sends most of its body and then stops.
    let mut half = RawClient::connect(addr).await;
    half.send(format!("POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 700000\r\n\r\n")).await;
    half.send(vec![b' '; 600_000]).await;
    soon("its bytes", async {
        while metric(addr, "memory_used_bytes").await < 600_000.0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let mut second = gateway.ask(&large(500_000)).await;
    let response = read_response(&mut second).await;
    assert_eq!((response.status, response.error_code().as_str()), (503, "photofinish_overloaded"));
    let mut small = begun(&gateway, &large(10)).await;
    half.close();
    no_bodies(addr).await;
    // A request larger than the whole memory gets a 413.
    let response = read_response(&mut gateway.ask(&large(2 << 20)).await).await;
    assert_eq!((response.status, response.error_code().as_str()), (413, "photofinish_too_large"));
    assert!(response.body.contains("memory under [server] is 1MiB"), "{}", response.body);
    gate.open();
    while small.event().await.unwrap().is_some() {}
    gateway.stop().await;
}

#[tokio::test]
async fn a_body_is_dropped_once_its_answer_goes_down() {
    let gate = Gate::new();
    let open = gate.clone();
    let a = FakeProvider::answering(move |_| held(&open)).await;
    let never = FakeProvider::answering(|_| Script::sse().role().until_closed()).await;
    let setup = Setup::new().provider("a", &a, "").provider("b", &never, "dialect = \"anthropic\"");
    let gateway = setup.server("memory = \"64MiB\"").race("drains = { running = 0 }").start().await;
    let mut client = begun(&gateway, &large(300_000)).await;
    no_bodies(gateway.addr()).await;
    gate.open();
    while client.event().await.unwrap().is_some() {}
    gateway.stop().await;
}

#[tokio::test]
async fn a_translation_too_large_for_the_budget_is_an_error() {
    let fake = FakeProvider::answering(|_| Script::status(500, &[], "{}")).await;
    let setup = Setup::new().provider("a", &fake, "dialect = \"anthropic\"").server("memory = \"2MiB\"");
    let gateway = setup.start().await;
    let values = vec!["0"; 50_000].join(",");
    let tools = format!(
        r#"[{{"type":"function","function":{{"name":"f","parameters":{{"type":"object","enum":[{values}]}}}}}}]"#
    );
    let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"x"}}],"tools":{tools}}}"#);
    let mut client = RawClient::connect(gateway.addr()).await;
    client.request("POST", CHAT, &[], body).await;
    let response = read_response(&mut client).await;
    assert_eq!((response.status, response.error_code().as_str()), (413, "photofinish_too_large"));
    assert!(fake.requests().is_empty());
    no_bodies(gateway.addr()).await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_large_body_is_translated_like_a_small_one() {
    let fake =
        FakeProvider::answering(|_| Script::of(crate::support::Dialect::Anthropic).whole_stream(&["hello"])).await;
    let gateway = Setup::new().provider("a", &fake, "dialect = \"anthropic\"").start().await;
    let response = read_response(&mut gateway.ask(&large(300_000)).await).await;
    assert_eq!((response.status, response.streamed_text().as_str()), (200, "hello"), "{}", response.body);
    let text = fake.requests()[0].json()["messages"][0]["content"].to_string();
    assert!(text.len() > 300_000);
    gateway.stop().await;
}

/// So few descriptors that a few dozen streams use them all.
const DESCRIPTORS: u32 = 96;

#[tokio::test]
async fn running_out_of_descriptors_is_not_held_against_upstreams() {
    let gate = Gate::new();
    let open = gate.clone();
    let fake = FakeProvider::answering(move |_| held(&open)).await;
    let directory = tempfile::tempdir().unwrap();
    let (config, database) = (directory.path().join("config.toml"), directory.path().join("test.db"));
    let setup = Setup::over(&[&fake]).server("max_in_flight = 1000").race("breaker = { failures = 2 }");
    std::fs::write(&config, setup.text(&database)).unwrap();
    let (program, addr) = Program::serve_with(&config, None, Some(DESCRIPTORS)).await;
    let (mut inside, mut outside) = (Vec::new(), 0);
    // Each stream takes two, so at most 48 fit.
    for _ in 0..60 {
        let mut client = RawClient::connect(addr).await;
        client.post(CHAT, &large(1)).await;
        let head = client.head().await;
        if head.status == 200 {
            inside.push(client);
        } else {
            let body = String::from_utf8(client.body(&head).await.unwrap().to_vec()).unwrap();
            assert!(head.status == 503 && body.contains("photofinish_overloaded"), "{} {body}", head.status);
            assert!(head.header("retry-after").is_some());
            outside += 1;
        }
        assert_eq!(status(addr, "/healthz").await, 200);
    }
    assert!(inside.len() > 5 && outside > 5, "{} inside, {outside} outside", inside.len());
    gate.open();
    for mut client in inside {
        while client.event().await.unwrap().is_some() {}
    }
    // Once descriptors are free again, the provider is used: the shortage is not its failure.
    soon("an answer", async {
        loop {
            let mut client = RawClient::connect(addr).await;
            client.post(CHAT, &large(1)).await;
            if read_response(&mut client).await.status == 200 {
                return;
            }
        }
    })
    .await;
    let log = program.end().await;
    assert!(!log.contains("breaker is open"), "{log}");
    let rows = crate::harness::gateway::Rows::read(&database).await;
    rows.assert_sound();
    let shed: Vec<_> = rows.attempts.iter().filter(|attempt| attempt["outcome"] != "won").collect();
    assert!(!shed.is_empty());
    for attempt in shed {
        assert_row!(
            attempt,
            json!({"outcome": "shed", "failure": "gateway_limit", "failure_phase": "connect", "ttft_event": null, "connect_us": null})
        );
    }
}

#[tokio::test]
async fn larger_events_are_allowed_by_the_config() {
    let script = || Script::stream(&[&"x".repeat(100_000)]);
    let fake = FakeProvider::answering(move |_| script()).await;
    for (event_max, status) in [("64KiB", 502), ("256KiB", 200)] {
        let gateway = Setup::over(&[&fake]).server(&format!("event_max = \"{event_max}\"")).start().await;
        assert_eq!(read_response(&mut gateway.streaming().await).await.status, status, "{event_max}");
        gateway.stop().await;
    }
}
