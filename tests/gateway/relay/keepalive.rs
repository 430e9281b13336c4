//! A streaming client whose race takes long: it hears that the gateway is alive, and then what it would have heard anyway.

use serde_json::{Value, json};

use crate::harness::answer::{end, error_and_close, hear};
use crate::harness::gateway::{CHAT, Setup, pick};
use crate::harness::matrix::{Pair, rules};
use crate::harness::surface::Called;
use crate::support::{FakeProvider, Gate, RawClient, Script};

rules! { everywhere:
    a_heartbeat_of_the_upstream_passes,
}

rules! { natively:
    a_winner_follows_its_early_head,
    a_total_failure_is_an_error_event,
}

/// The shortest that may be set: what is awaited here takes that long.
const KEEPALIVE: &str = "keepalive = \"2s\"";

fn heartbeat(called: Called) -> &'static str {
    if called == Called::Messages { "event: ping\ndata: {\"type\": \"ping\"}\n\n" } else { ": keep-alive\n\n" }
}

/// Reads an answer's head and its first heartbeat.
async fn early(client: &mut RawClient, called: Called) {
    let head = client.head().await;
    let header = |name: &str| head.header(name).unwrap_or_default().to_owned();
    assert_eq!((head.status, header("content-type").as_str()), (200, "text/event-stream; charset=utf-8"));
    assert!(!header("x-photofinish-race").is_empty() && header("x-photofinish-upstream").is_empty(), "{head:?}");
    assert_eq!(client.chunk().await.unwrap().unwrap(), heartbeat(called));
}

async fn a_winner_follows_its_early_head(pair: Pair) {
    let gate = Gate::new();
    let fake = FakeProvider::start(vec![pair.stream_after(&gate, &["hel", "lo"])]).await;
    let gateway = pair.over(&[&fake]).race(KEEPALIVE).start().await;
    let mut client = pair.streaming(&gateway).await;
    early(&mut client, pair.called).await;
    gate.open();
    let mut body = Vec::new();
    while let Some(chunk) = client.chunk().await.unwrap() {
        body.extend_from_slice(&chunk);
    }
    let body = String::from_utf8(body).unwrap();
    assert!(body.starts_with(": x-photofinish-upstream: a/m\n: x-photofinish-ttft-ms: "), "{body}");
    let told = body.find("\n\n").unwrap() + 2;
    assert_eq!(&body.as_bytes()[told..], pair.stream(&["hel", "lo"]).body(), "and not a byte else");
    let rows = gateway.stop().await;
    assert_eq!(end(rows.one("a")), json!(["won", 1, null, null, null]));
    assert_eq!(pick(&rows.races[0], &["outcome", "http_status", "winner"]), json!(["ok", 200, 0]));
    assert!(rows.races[0]["first_token_sent_us"].as_i64() >= Some(2_000_000), "{:#?}", rows.races[0]);
}

async fn a_total_failure_is_an_error_event(pair: Pair) {
    let gate = Gate::new();
    let refused = error_and_close(500, r#"{"error":{"message":"boom"}}"#);
    let mut late = pair.script().wait(&gate);
    late.steps.extend(refused.steps);
    let fake = FakeProvider::start(vec![late]).await;
    let gateway = pair.over(&[&fake]).race(KEEPALIVE).start().await;
    let mut client = pair.streaming(&gateway).await;
    early(&mut client, pair.called).await;
    gate.open();
    let mut heard = String::new();
    while let Some(chunk) = client.chunk().await.unwrap() {
        heard.push_str(&String::from_utf8_lossy(&chunk));
    }
    let data = heard.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or_else(|| panic!("{heard}"));
    let error = serde_json::from_str::<Value>(data).unwrap()["error"].clone();
    if pair.called != Called::Messages {
        assert_eq!(error["code"], "photofinish_all_failed", "{heard}");
    }
    assert!(error["message"].as_str().unwrap().starts_with("every upstream failed: a/m"), "{heard}");
    let attempt = json!({"upstream": "a/m", "failure": "server_error", "status": 500, "message": "boom"});
    assert_eq!(error["attempts"], json!([attempt]), "{heard}");
    assert!(!["[DONE]", "message_stop", "response.completed"].iter().any(|end| heard.contains(end)), "{heard}");
    let rows = gateway.stop().await;
    assert_eq!(pick(&rows.races[0], &["outcome", "http_status", "winner"]), json!(["error", 200, null]));
}

#[tokio::test]
async fn an_upstream_s_own_error_is_told_as_it_came() {
    let gate = Gate::new();
    let body =
        r#"{"error":{"message":"no such tool","type":"invalid_request_error","code":"bad_tool","param":"tools"}}"#;
    let mut late = Script::new().wait(&gate);
    late.steps.extend(error_and_close(400, body).steps);
    let fake = FakeProvider::start(vec![late]).await;
    let gateway = Setup::over(&[&fake]).race(KEEPALIVE).start().await;
    let mut client = gateway.streaming().await;
    early(&mut client, Called::Chat).await;
    gate.open();
    assert_eq!(client.event().await.unwrap().as_deref(), Some(body));
    assert_eq!(client.event().await.unwrap(), None);
    gateway.stop().await;
}

#[tokio::test]
async fn a_client_that_leaves_behind_an_early_head_stops_everything() {
    let fake = FakeProvider::start(vec![Script::new().until_closed()]).await;
    let gateway = Setup::over(&[&fake]).race(KEEPALIVE).start().await;
    let mut client = gateway.streaming().await;
    early(&mut client, Called::Chat).await;
    client.close();
    fake.closed(0).await;
    let rows = gateway.stop().await;
    assert_eq!(end(rows.one("a")), json!(["client_gone", 0, "client_gone", null, null]));
    assert_eq!(rows.races[0]["outcome"], "client_gone");
}

#[tokio::test]
async fn who_does_not_stream_or_turned_it_off_gets_a_status() {
    for (line, stream) in [(KEEPALIVE, false), ("keepalive = \"off\"", true)] {
        let (gate, begun) = (Gate::new(), Gate::new());
        let late = Script::new().reached(&begun).delay(std::time::Duration::from_millis(2_300)).wait(&gate);
        let mut late = late;
        late.steps.extend(error_and_close(500, "{}").steps);
        let fake = FakeProvider::start(vec![late]).await;
        let gateway = Setup::over(&[&fake]).race(line).start().await;
        gate.open();
        let body = json!({"model": "m", "stream": stream, "messages": [{}]});
        let heard = hear(&mut gateway.post(CHAT, &body).await).await;
        assert_eq!((heard.status, heard.error_code().as_str()), (502, "photofinish_all_failed"), "{line}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn trailers_tell_of_the_winner_who_takes_them() {
    let gate = Gate::new();
    let mut late = Script::new().wait(&gate);
    late.steps.extend(Script::stream(&["x"]).steps);
    let fake = FakeProvider::start(vec![late]).await;
    let gateway = Setup::over(&[&fake]).race(KEEPALIVE).start().await;
    let body = json!({"model": "m", "stream": true, "messages": [{}]});
    let mut client = gateway.request(CHAT, &[("te", "trailers"), ("connection", "te")], &body).await;
    early(&mut client, Called::Chat).await;
    gate.open();
    let trailer = client.read_until("\r\n\r\n").await;
    assert!(trailer.contains("x-photofinish-upstream: a/m\r\n"), "{trailer}");
    gateway.stop().await;
}

/// Before the first token nobody needs it; behind it a translation says it in the surface's own way.
async fn a_heartbeat_of_the_upstream_passes(pair: Pair) {
    let beat: &[u8] = match pair.dialect.name() {
        "ollama" => b"\n",
        // Binary events have none.
        "bedrock" => return,
        "anthropic" => b"event: ping\ndata: {\"type\": \"ping\"}\n\n",
        "openai" | "gemini" => b": keep-alive\n\n",
        _ => b"event: keepalive\ndata: {\"type\":\"keepalive\",\"sequence_number\":9}\n\n",
    };
    let script = pair.open().role().token("x").chunk(beat).token("y").finish("stop").done().end();
    let fake = FakeProvider::start(vec![script]).await;
    let gateway = pair.over(&[&fake]).start().await;
    let heard = hear(&mut pair.streaming(&gateway).await).await;
    assert_eq!(pair.called.said(&heard), "xy");
    let translated = pair.called.dialect() != pair.dialect;
    let expected = if translated { heartbeat(pair.called) } else { std::str::from_utf8(beat).unwrap() };
    assert!(heard.body.contains(expected), "{}", heard.body);
    gateway.stop().await;
}
