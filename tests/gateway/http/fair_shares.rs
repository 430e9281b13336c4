//! One caller among others: hanging requests, slow bodies and large bodies of one shut no other out.

use std::net::SocketAddr;

use serde_json::json;

use crate::harness::answer::{Response, read_response};
use crate::harness::gateway::{CHAT, Setup, TestGateway};
use crate::support::{FakeProvider, Gate, RawClient, Script, soon};

const USERS: [&str; 3] = ["ann", "bob", "carol"];

/// The model `hangs`, whose answers end with the gate, and the model `m`.
async fn started(server: &str, users: bool) -> (TestGateway, Gate, [FakeProvider; 2]) {
    let gate = Gate::new();
    let open = gate.clone();
    let hanging =
        FakeProvider::answering(move |_| Script::sse().role().token("a").wait(&open).finish("stop").done().end()).await;
    let good = FakeProvider::answering(|_| Script::stream(&["good"])).await;
    let mut setup = Setup::over(&[&hanging, &good]).server(server);
    setup = setup.model("[models.hangs]\nupstreams = [\"a/m\"]\n[models.m]\nupstreams = [\"b/m\"]");
    for user in USERS.iter().filter(|_| users) {
        setup = setup.table(&format!("[users.{user}]\ntoken = \"{user}-token\"\nrole = \"admin\""));
    }
    (setup.start().await, gate, [hanging, good])
}

fn asking(model: &str) -> String {
    json!({"model": model, "stream": true, "messages": [{"role": "user", "content": "x"}]}).to_string()
}

/// The token of a user, or the address of a client behind the proxy.
fn from(caller: &str) -> (&'static str, String) {
    match caller.parse::<std::net::IpAddr>() {
        Ok(_) => ("x-forwarded-for", caller.to_owned()),
        Err(_) => ("x-api-key", format!("{caller}-token")),
    }
}

async fn sent(addr: SocketAddr, caller: &str, model: &str) -> RawClient {
    let (name, value) = from(caller);
    let mut client = RawClient::connect(addr).await;
    client.request("POST", CHAT, &[(name, &value)], asking(model)).await;
    client
}

async fn answer(addr: SocketAddr, caller: &str) -> Response {
    read_response(&mut sent(addr, caller, "m").await).await
}

/// A request whose body has only begun.
async fn begun(addr: SocketAddr, caller: &str, length: usize) -> RawClient {
    let (name, value) = from(caller);
    let mut client = RawClient::connect(addr).await;
    let head =
        format!("POST {CHAT} HTTP/1.1\r\nhost: localhost\r\n{name}: {value}\r\ncontent-length: {length}\r\n\r\n{{");
    client.send(head).await;
    client
}

/// Sends this many that hang; returns those that are served, and the number of those that are shed.
async fn hang(addr: SocketAddr, caller: &str, times: usize) -> (Vec<RawClient>, usize) {
    let (mut inside, mut shed) = (Vec::new(), 0);
    for _ in 0..times {
        let mut client = sent(addr, caller, "hangs").await;
        let head = client.head().await;
        if head.status == 200 {
            inside.push(client);
            continue;
        }
        assert_eq!((head.status, head.header("retry-after")), (503, Some("1")));
        let body = client.body(&head).await.unwrap();
        let found = String::from_utf8_lossy(&body);
        assert!(found.contains("photofinish_overloaded") && found.contains("you have your share"), "{found}");
        shed += 1;
    }
    (inside, shed)
}

async fn arriving(gateway: &TestGateway, number: usize) {
    soon(&format!("{number} bodies on their way"), async {
        while gateway.gateway().arriving() != number {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

async fn racing(gateway: &TestGateway, number: usize) {
    soon(&format!("{number} in the race"), async {
        while gateway.gateway().races() != number {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn hanging_requests_of_one_user_shut_nobody_out() {
    let (gateway, gate, _fakes) = started("max_in_flight = 32", true).await;
    let addr = gateway.addr();
    let (hanging, shed) = hang(addr, "ann", 40).await;
    assert_eq!((hanging.len(), shed), (28, 12), "all but the reserve");
    for caller in ["bob", "carol"].repeat(12) {
        assert_eq!(answer(addr, caller).await.status, 200, "{caller}");
    }
    racing(&gateway, 28).await;
    // Of the rest half again.
    let (more, shed) = hang(addr, "bob", 4).await;
    assert_eq!((more.len(), shed), (2, 2));
    assert_eq!(answer(addr, "carol").await.status, 200);
    racing(&gateway, 30).await;
    let mut page = RawClient::connect(addr).await;
    page.request("GET", "/metrics", &[("x-api-key", "ann-token")], "").await;
    let page = read_response(&mut page).await.body;
    assert!(page.contains("photofinish_shed_total{reason=\"share\"} 14"), "{page}");
    assert!(page.contains("photofinish_in_flight 30"), "{page}");
    gate.open();
    for mut client in hanging.into_iter().chain(more) {
        while client.event().await.unwrap().is_some() {}
    }
    assert_eq!(gateway.stop().await.races.len(), 28 + 24 + 2 + 1, "who is shed has no race");
}

#[tokio::test]
async fn bodies_that_are_still_coming_hold_no_place_in_the_race() {
    let (gateway, _gate, [_, good]) = started("max_in_flight = 16", true).await;
    let addr = gateway.addr();
    let mut slow = Vec::new();
    for number in 1..=14 {
        slow.push(begun(addr, "ann", 1_000).await);
        arriving(&gateway, number).await;
    }
    assert_eq!(gateway.gateway().races(), 0);
    for _ in 0..2 {
        let response = read_response(&mut begun(addr, "ann", 1_000).await).await;
        assert_eq!((response.status, response.error_code().as_str()), (503, "photofinish_overloaded"));
    }
    // A body that comes at once needs no such place, and one that does not finds one.
    assert_eq!(answer(addr, "ann").await.status, 200);
    assert_eq!(answer(addr, "bob").await.status, 200);
    let body = asking("m");
    let mut late = begun(addr, "bob", body.len()).await;
    arriving(&gateway, 15).await;
    late.send(&body[1..]).await;
    assert_eq!(read_response(&mut late).await.status, 200);
    drop(slow);
    arriving(&gateway, 0).await;
    assert_eq!(good.requests().len(), 3);
    let rows = gateway.stop().await;
    let ended: Vec<&serde_json::Value> = rows.races.iter().map(|race| &race["outcome"]).collect();
    assert_eq!(ended.iter().filter(|outcome| **outcome == "ok").count(), 3, "{ended:?}");
    assert_eq!(ended.len(), 3 + 14, "and those that left before their body was there: {ended:?}");
}

#[tokio::test]
async fn without_users_the_share_is_by_address() {
    let (gateway, gate, _fakes) = started("max_in_flight = 16\ntrusted_proxies = [\"127.0.0.1\"]", false).await;
    let addr = gateway.addr();
    let (hanging, shed) = hang(addr, "127.0.0.2", 20).await;
    assert_eq!((hanging.len(), shed), (14, 6));
    for _ in 0..5 {
        assert_eq!(answer(addr, "127.0.0.3").await.status, 200);
    }
    gate.open();
    for mut client in hanging {
        while client.event().await.unwrap().is_some() {}
    }
    gateway.stop().await;
}

#[tokio::test]
async fn one_user_alone_has_every_place() {
    let gate = Gate::new();
    let open = gate.clone();
    let fake = FakeProvider::answering(move |_| Script::sse().token("a").wait(&open).finish("stop").done().end()).await;
    let setup = Setup::over(&[&fake]).server("max_in_flight = 16").table("[users.ann]\ntoken = \"ann-token\"");
    let gateway = setup.start().await;
    let mut inside = Vec::new();
    for _ in 0..16 {
        let mut client = sent(gateway.addr(), "ann", "m").await;
        assert_eq!(client.head().await.status, 200);
        inside.push(client);
    }
    let response = answer(gateway.addr(), "ann").await;
    assert!(response.status == 503 && response.body.contains("as many requests as max_in_flight"), "{}", response.body);
    gate.open();
    for mut client in inside {
        while client.event().await.unwrap().is_some() {}
    }
    gateway.stop().await;
}

#[tokio::test]
async fn large_bodies_of_one_user_leave_memory_to_others() {
    let (gateway, _gate, _fakes) = started("memory = \"8MiB\"", true).await;
    let addr = gateway.addr();
    let most = 1_000_000;
    let mut slow = Vec::new();
    for number in 1..=3 {
        let mut client = begun(addr, "ann", most).await;
        client.send(vec![b' '; most - 2]).await;
        soon("its bytes", async {
            while gateway.gateway().memory().used() < number * (most - 2) {
                tokio::task::yield_now().await;
            }
        })
        .await;
        slow.push(client);
    }
    let mut client = begun(addr, "ann", most).await;
    client.send(vec![b' '; most - 2]).await;
    let response = read_response(&mut client).await;
    assert!(response.status == 503 && response.body.contains("you have your share"), "{}", response.body);
    let (name, value) = from("bob");
    let mut other = RawClient::connect(addr).await;
    let large = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "x".repeat(most)}]});
    other.request("POST", CHAT, &[(name, &value)], large.to_string()).await;
    assert_eq!(read_response(&mut other).await.status, 200);
    drop(slow);
    gateway.settled("the bodies are gone").await;
    gateway.stop().await;
}

#[tokio::test]
async fn strangers_take_no_place_and_send_no_body() {
    let (gateway, _gate, _fakes) = started("max_in_flight = 2", true).await;
    let addr = gateway.addr();
    let mut strangers = Vec::new();
    for path in [CHAT, "/v1/messages", "/api/show"].repeat(3) {
        let mut client = RawClient::connect(addr).await;
        client.send(format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n{{")).await;
        assert_eq!(client.head().await.status, 401, "{path}");
        strangers.push(client);
    }
    assert_eq!((gateway.gateway().races(), gateway.gateway().arriving()), (0, 0));
    assert_eq!(answer(addr, "ann").await.status, 200);
    drop(strangers);
    gateway.stop().await;
}
