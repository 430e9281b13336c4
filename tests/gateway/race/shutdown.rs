//! The gateway ends while races run: what their clients and their rows say then.

use serde_json::{Value, json};

use crate::harness::answer::{end, first_text, hear, silent};
use crate::harness::gateway::{Setup, pick};
use crate::support::{FakeProvider, Gate, Script};

#[tokio::test]
async fn a_drain_lets_what_runs_come_to_its_end() {
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
    assert_eq!(end(rows.one("a")), json!(["won", 1, null, null, null]));
}

#[tokio::test]
async fn when_the_drain_runs_out_every_race_is_told_and_recorded() {
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
    let (rows, event, heard) = tokio::join!(gateway.stop(), streaming.event(), hear(&mut waiting));
    let event: Value = serde_json::from_str(&event.unwrap().unwrap()).unwrap();
    assert_eq!(event["error"]["code"], "photofinish_stream_broken");
    assert_eq!(streaming.event().await.unwrap(), None, "no [DONE]");
    assert_eq!((heard.status, heard.error_code().as_str()), (503, "photofinish_shutting_down"));
    talking.closed(0).await;
    hanging.closed(0).await;
    assert_eq!(end(rows.one("a")), json!(["shutdown", 1, null, null, null]));
    assert_eq!(end(rows.one("b")), json!(["shutdown", 0, "shutdown", null, null]));
    assert_eq!(pick(&rows.races[0], &["outcome", "http_status"]), json!(["shutdown", 200]));
    assert_eq!(pick(&rows.races[1], &["outcome", "http_status"]), json!(["shutdown", 503]));
}
