//! Shutdown during races: the clients' answers and the rows.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::answer::{advance_clock, ending, first_text, read_response, silent};
use crate::harness::gateway::{CHAT, Setup, assert_row};
use crate::support::{FakeProvider, Gate, RawClient, Script};

#[tokio::test]
async fn a_drain_lets_running_races_finish() {
    let rest = Gate::new();
    let script = Script::sse().role().token("one ").wait(&rest).token("two").finish("stop").done().end();
    let fake = FakeProvider::start(vec![script]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    let mut client = gateway.streaming().await;
    client.head().await;
    assert_eq!(first_text(&mut client).await, "one ");
    let reads_on = async {
        rest.open();
        assert_eq!(first_text(&mut client).await, "two");
        let mut last = String::new();
        while let Some(event) = client.event().await.unwrap() {
            last = event;
        }
        last
    };
    let (rows, last) = tokio::join!(gateway.stop(), reads_on);
    assert_eq!(last, "[DONE]");
    assert_eq!(ending(rows.one("a")), json!({"outcome": "won", "ttft_event": 1}));
}

#[tokio::test]
async fn the_drain_begins_after_the_delay() {
    const DELAY: Duration = Duration::from_secs(60);
    let fake = FakeProvider::answering(|_| Script::stream(&["a"])).await;
    let gateway = Setup::over(&[&fake]).server("drain_delay = \"1m\"").start().await;
    let (running, addr) = (gateway.gateway(), gateway.addr());
    let mut client = RawClient::connect(addr).await;
    let serves_on = async {
        while !running.is_leaving() {
            tokio::task::yield_now().await;
        }
        for _ in 0..2 {
            client.post(CHAT, &json!({"model": "m", "messages": [{}]})).await;
            let answer = read_response(&mut client).await;
            assert_eq!((answer.status, answer.header("connection")), (200, ""));
        }
        assert!(!running.shutdown().is_draining());
        advance_clock(DELAY).await;
        client.closed().await;
        assert!(running.shutdown().is_draining());
    };
    let rows = gateway.stop_while(serves_on).await;
    assert_eq!(rows.races.len(), 2);
}

#[tokio::test]
async fn at_the_end_of_the_drain_every_race_gets_an_error_and_a_row() {
    let talking = FakeProvider::start(vec![Script::sse().role().token("x").until_closed()]).await;
    let hanging = FakeProvider::start(vec![silent()]).await;
    let setup = Setup::new().server("drain = \"300ms\"").provider("a", &talking, "").provider("b", &hanging, "");
    let gateway = setup.start().await;
    let ask = |upstream: &str| json!({"model": upstream, "stream": true, "messages": [{}]});
    let mut streaming = gateway.ask(&ask("a/m")).await;
    streaming.head().await;
    assert_eq!(first_text(&mut streaming).await, "x");
    let mut waiting = gateway.ask(&ask("b/m")).await;
    hanging.request(0).await;
    let (rows, event, response) = tokio::join!(gateway.stop(), streaming.event(), read_response(&mut waiting));
    let event: Value = serde_json::from_str(&event.unwrap().unwrap()).unwrap();
    assert_eq!(event["error"]["code"], "photofinish_stream_broken");
    assert_eq!(streaming.event().await.unwrap(), None, "no [DONE]");
    assert_eq!((response.status, response.error_code().as_str()), (503, "photofinish_shutting_down"));
    talking.closed(0).await;
    hanging.closed(0).await;
    assert_eq!(ending(rows.one("a")), json!({"outcome": "shutdown", "ttft_event": 1}));
    assert_eq!(ending(rows.one("b")), json!({"outcome": "shutdown", "ttft_event": 0, "censor_cause": "shutdown"}));
    assert_row!(&rows.races[0], json!({"outcome": "shutdown", "http_status": 200}));
    assert_row!(&rows.races[1], json!({"outcome": "shutdown", "http_status": 503}));
}
