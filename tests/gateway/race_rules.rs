//! R1 to R14: what goes wrong in other racers, each a test over real sockets.

use serde_json::json;

use crate::gateway::{Setup, pick};
use crate::support::{FakeProvider, Gate, Script, sse_events};

/// What decides about a row.
const END: [&str; 5] = ["outcome", "ttft_event", "censor_cause", "failure", "failure_phase"];

#[tokio::test]
async fn r01_headers_do_not_win() {
    let sent = Gate::new();
    let headers_only = FakeProvider::start(vec![Script::sse().reached(&sent).until_closed()]).await;
    let healthy = FakeProvider::start(vec![
        Script::new()
            .wait(&sent)
            .head(200, &[("content-type", "text/event-stream")])
            .role()
            .token("hello")
            .finish("stop")
            .done()
            .end(),
    ])
    .await;
    let gateway = Setup::over(&[&headers_only, &healthy]).start().await;
    let mut client = gateway.streaming().await;
    let head = client.head().await;
    assert_eq!((head.status, head.header("x-photofinish-upstream")), (200, Some("b/m")));
    assert!(sse_events(&client.body(&head).await.unwrap()).iter().any(|event| event.contains("hello")));
    headers_only.closed(0).await;
    let rows = gateway.stop().await;
    assert_eq!(pick(rows.one("a"), &END), json!(["lost", 0, "lost", null, null]));
    assert_eq!(pick(rows.one("b"), &END), json!(["won", 1, null, null, null]));
    assert_eq!(pick(&rows.races[0], &["outcome", "winner", "http_status"]), json!(["ok", 1, 200]));
}
