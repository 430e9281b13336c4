//! Keep-alives for a streaming client whose race takes long; the answer that follows them is unchanged.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::answer::{advance_clock, ending, error_and_close, read_response};
use crate::harness::gateway::{CHAT, Setup, assert_row};
use crate::harness::matrix::{Pair, rules};
use crate::harness::surface::Surface;
use crate::support::{FakeProvider, Gate, RawClient, Script};

rules! { everywhere:
    a_heartbeat_of_the_upstream_passes,
}

rules! { natively:
    a_winner_follows_its_early_head,
    a_total_failure_is_an_error_event,
}

const KEEPALIVE: &str = "keepalive = \"2s\"";
const INTERVAL: Duration = Duration::from_secs(2);

fn heartbeat(surface: Surface) -> &'static str {
    match surface {
        Surface::Messages => "event: ping\ndata: {\"type\": \"ping\"}\n\n",
        Surface::Chat | Surface::Responses => ": keep-alive\n\n",
        Surface::Gemini => {
            concat!(r#"data: {"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"index":0}]}"#, "\n\n")
        }
        // Lines of JSON have no comments.
        Surface::Ollama => concat!(
            r#"{"model":"","created_at":"1970-01-01T00:00:00Z","message":{"role":"assistant","content":""},"done":false}"#,
            "\n"
        ),
    }
}

fn content_type(surface: Surface) -> &'static str {
    if surface == Surface::Ollama { "application/x-ndjson" } else { "text/event-stream; charset=utf-8" }
}

/// Lets the interval pass once the upstream has the request, then reads the head and the first heartbeat.
async fn early(client: &mut RawClient, upstream: &FakeProvider, surface: Surface) {
    upstream.request(0).await;
    advance_clock(INTERVAL).await;
    let head = client.head().await;
    let header = |name: &str| head.header(name).unwrap_or_default().to_owned();
    assert_eq!((head.status, header("content-type").as_str()), (200, content_type(surface)));
    assert!(!header("x-photofinish-race").is_empty() && header("x-photofinish-upstream").is_empty(), "{head:?}");
    assert_eq!(client.chunk().await.unwrap().unwrap(), heartbeat(surface));
}

async fn a_winner_follows_its_early_head(pair: Pair) {
    let gate = Gate::new();
    let fake = FakeProvider::start(vec![pair.stream_after(&gate, &["hel", "lo"])]).await;
    let gateway = pair.over(&[&fake]).race(KEEPALIVE).start().await;
    let mut client = pair.streaming(&gateway).await;
    early(&mut client, &fake, pair.surface).await;
    gate.open();
    let mut body = Vec::new();
    while let Some(chunk) = client.chunk().await.unwrap() {
        body.extend_from_slice(&chunk);
    }
    let body = String::from_utf8(body).unwrap();
    let found = if matches!(pair.surface, Surface::Ollama | Surface::Gemini) {
        0
    } else {
        assert!(body.starts_with(": x-photofinish-upstream: a/m\n: x-photofinish-ttft-ms: "), "{body}");
        body.find("\n\n").unwrap() + 2
    };
    assert_eq!(&body.as_bytes()[found..], pair.stream(&["hel", "lo"]).body(), "and not a byte else");
    let rows = gateway.stop().await;
    assert_eq!(ending(rows.one("a")), json!({"outcome": "won", "ttft_event": 1}));
    assert_row!(&rows.races[0], json!({"outcome": "ok", "http_status": 200, "winner": 0}));
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
    early(&mut client, &fake, pair.surface).await;
    gate.open();
    let mut response = String::new();
    while let Some(chunk) = client.chunk().await.unwrap() {
        response.push_str(&String::from_utf8_lossy(&chunk));
    }
    let data = response.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&response);
    let answer: Value = serde_json::from_str(data).unwrap_or_else(|_| panic!("{response}"));
    let error = pair.surface.error_members(&answer);
    if pair.surface != Surface::Messages {
        assert_eq!(error["code"], "photofinish_all_failed", "{response}");
    }
    let message = if pair.surface == Surface::Ollama { &error["error"] } else { &error["message"] };
    assert!(message.as_str().unwrap().starts_with("every upstream failed: a/m"), "{response}");
    let attempt = json!({"upstream": "a/m", "failure": "server_error", "status": 500, "message": "boom"});
    assert_eq!(error["attempts"], json!([attempt]), "{response}");
    assert!(!["[DONE]", "message_stop", "response.completed"].iter().any(|end| response.contains(end)), "{response}");
    let rows = gateway.stop().await;
    assert_row!(&rows.races[0], json!({"outcome": "error", "http_status": 200, "winner": null}));
}

#[tokio::test]
async fn an_upstream_s_own_error_follows_an_early_head_unchanged() {
    let gate = Gate::new();
    let body =
        r#"{"error":{"message":"no such tool","type":"invalid_request_error","code":"bad_tool","param":"tools"}}"#;
    let mut late = Script::new().wait(&gate);
    late.steps.extend(error_and_close(400, body).steps);
    let fake = FakeProvider::start(vec![late]).await;
    let gateway = Setup::over(&[&fake]).race(KEEPALIVE).start().await;
    let mut client = gateway.streaming().await;
    early(&mut client, &fake, Surface::Chat).await;
    gate.open();
    assert_eq!(client.event().await.unwrap().as_deref(), Some(body));
    assert_eq!(client.event().await.unwrap(), None);
    gateway.stop().await;
}

#[tokio::test]
async fn no_byte_order_mark_follows_an_early_head() {
    let gate = Gate::new();
    let stream = || Script::new().token("hel").token("lo").finish("stop").done();
    let script = Script::sse().wait(&gate).chunk("\u{feff}").then(stream()).end();
    let fake = FakeProvider::start(vec![script]).await;
    let gateway = Setup::over(&[&fake]).race(KEEPALIVE).start().await;
    let mut client = gateway.streaming().await;
    early(&mut client, &fake, Surface::Chat).await;
    gate.open();
    let mut body = Vec::new();
    while let Some(chunk) = client.chunk().await.unwrap() {
        body.extend_from_slice(&chunk);
    }
    assert!(body.ends_with(&[b"\n\n", &stream().body()[..]].concat()), "{}", String::from_utf8_lossy(&body));
    gateway.stop().await;
}

#[tokio::test]
async fn a_client_that_leaves_after_an_early_head_stops_everything() {
    let fake = FakeProvider::start(vec![Script::new().until_closed()]).await;
    let gateway = Setup::over(&[&fake]).race(KEEPALIVE).start().await;
    let mut client = gateway.streaming().await;
    early(&mut client, &fake, Surface::Chat).await;
    client.close();
    fake.closed(0).await;
    let rows = gateway.stop().await;
    assert_eq!(
        ending(rows.one("a")),
        json!({"outcome": "client_gone", "ttft_event": 0, "censor_cause": "client_gone"})
    );
    assert_eq!(rows.races[0]["outcome"], "client_gone");
}

#[tokio::test]
async fn without_streaming_or_keepalive_the_client_gets_a_status() {
    for (line, stream) in [(KEEPALIVE, false), ("keepalive = \"off\"", true)] {
        let gate = Gate::new();
        let mut late = Script::new().wait(&gate);
        late.steps.extend(error_and_close(500, "{}").steps);
        let fake = FakeProvider::start(vec![late]).await;
        let gateway = Setup::over(&[&fake]).race(line).start().await;
        let mut client = gateway.post(CHAT, &json!({"model": "m", "stream": stream, "messages": [{}]})).await;
        fake.request(0).await;
        advance_clock(INTERVAL * 2).await;
        // Another request is answered first, so that all due work is done.
        let mut other = RawClient::connect(gateway.addr()).await;
        other.request("GET", "/healthz", &[], "").await;
        assert_eq!(other.head().await.status, 200);
        gate.open();
        let response = read_response(&mut client).await;
        assert_eq!((response.status, response.error_code().as_str()), (502, "photofinish_all_failed"), "{line}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn an_early_head_announces_the_trailer_of_a_rescue_only_if_there_can_be_one() {
    for (rescue, announced) in [("off", false), ("continue", true)] {
        let fake = FakeProvider::start(vec![Script::new().until_closed()]).await;
        let setup = Setup::over(&[&fake]).race(KEEPALIVE);
        let gateway = setup.race(&format!("rescue = \"{rescue}\"")).start().await;
        let mut client = gateway.streaming().await;
        fake.request(0).await;
        advance_clock(INTERVAL).await;
        let head = client.head().await;
        let trailers = head.header("trailer").unwrap_or_default();
        assert!(trailers.contains("x-photofinish-upstream"), "{head:?}");
        assert_eq!(trailers.contains("x-photofinish-rescued"), announced, "{rescue}: {trailers}");
        client.close();
        fake.closed(0).await;
        gateway.stop().await;
    }
}

#[tokio::test]
async fn trailers_name_the_winner_to_clients_that_accept_them() {
    let gate = Gate::new();
    let mut late = Script::new().wait(&gate);
    late.steps.extend(Script::stream(&["x"]).steps);
    let fake = FakeProvider::start(vec![late]).await;
    let gateway = Setup::over(&[&fake]).race(KEEPALIVE).start().await;
    let body = json!({"model": "m", "stream": true, "messages": [{}]});
    let mut client = gateway.request(CHAT, &[("te", "trailers"), ("connection", "te")], &body).await;
    early(&mut client, &fake, Surface::Chat).await;
    gate.open();
    let trailer = client.read_until("\r\n\r\n").await;
    assert!(trailer.contains("x-photofinish-upstream: a/m\r\n"), "{trailer}");
    gateway.stop().await;
}

/// Before the first token it is not needed; after it a translation uses the surface's own form.
async fn a_heartbeat_of_the_upstream_passes(pair: Pair) {
    let beat: &[u8] = match pair.dialect.name() {
        "ollama" => b"\n",
        // Binary events have no comments.
        "bedrock" => return,
        "anthropic" => b"event: ping\ndata: {\"type\": \"ping\"}\n\n",
        "openai" | "gemini" => b": keep-alive\n\n",
        _ => b"event: keepalive\ndata: {\"type\":\"keepalive\",\"sequence_number\":9}\n\n",
    };
    let script = pair.open().role().token("x").chunk(beat).token("y").finish("stop").done().end();
    let fake = FakeProvider::start(vec![script]).await;
    let gateway = pair.over(&[&fake]).start().await;
    let response = read_response(&mut pair.streaming(&gateway).await).await;
    assert_eq!(pair.surface.streamed_text(&response), "xy");
    let translated = pair.surface.dialect() != pair.dialect;
    let expected = if translated { heartbeat(pair.surface) } else { std::str::from_utf8(beat).unwrap() };
    assert!(response.body.contains(expected), "{}", response.body);
    gateway.stop().await;
}
