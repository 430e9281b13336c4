//! Events of many MiB: images of Gemini's models, which arrive in one. They pass on every way to a client, and `memory` bounds all of
//! them together.

use serde_json::{Value, json};

use crate::harness::answer::read_response;
use crate::harness::gateway::{Setup, assert_row};
use crate::harness::matrix::Pair;
use crate::harness::surface::Surface;
use crate::support::{Dialect, FakeProvider, Script};

const MIB: usize = 1 << 20;

/// An answer of Gemini's with one image of this number of bytes of base64.
fn image(bytes: usize) -> Script {
    let data = "iVBORw0KGgo+/AAA".repeat(bytes / 16);
    let event = json!({"candidates": [{"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [
        {"inlineData": {"mimeType": "image/png", "data": data}}]}}]});
    Script::of(Dialect::Gemini).open().event(event).end()
}

/// The same as a server of chat sends it, between a role and an end.
fn chat_image(bytes: usize) -> Script {
    let url = format!("data:image/png;base64,{}", "iVBORw0KGgo+/AAA".repeat(bytes / 16));
    let images = json!([{"type": "image_url", "index": 0, "image_url": {"url": url}}]);
    Script::sse().role().delta(json!({"images": images})).finish("stop").done().end()
}

/// The longest text anywhere in an answer.
fn longest(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(longest).max().unwrap_or(0),
        Value::Object(members) => members.values().map(longest).max().unwrap_or(0),
        _ => 0,
    }
}

#[tokio::test]
async fn an_image_passes_streamed_and_whole_over_every_surface() {
    for (surface, dialect, bytes) in [
        (Surface::Gemini, Dialect::Gemini, 24 * MIB),
        (Surface::Chat, Dialect::Gemini, 12 * MIB),
        (Surface::Chat, Dialect::OpenAi, 12 * MIB),
        (Surface::Gemini, Dialect::OpenAi, 12 * MIB),
    ] {
        let pair = Pair { surface, dialect };
        let script = || if dialect == Dialect::Gemini { image(bytes) } else { chat_image(bytes) };
        let fake = FakeProvider::start(vec![script(), script()]).await;
        let gateway = pair.over(&[&fake]).start().await;
        for stream in [true, false] {
            let mut client = gateway.post(&surface.path_for("m", stream), &surface.body("m", stream)).await;
            let answer = read_response(&mut client).await;
            assert_eq!(answer.status, 200, "{dialect:?} {bytes}: {}", &answer.body[..answer.body.len().min(500)]);
            let found = match stream {
                true => answer
                    .events()
                    .iter()
                    .filter_map(|event| serde_json::from_str(event).ok())
                    .map(|event| longest(&event))
                    .max(),
                false => Some(longest(&answer.json())),
            };
            assert!(found.is_some_and(|found| found >= bytes / 16 * 16), "{dialect:?} stream {stream}: {found:?}");
        }
        let rows = gateway.stop().await;
        assert!(rows.attempts.iter().all(|row| row["outcome"] == "won"), "{dialect:?} {bytes}");
    }
}

#[tokio::test]
async fn a_long_event_of_many_values_is_refused() {
    let numbers = "[1,2.5],".repeat(2 * MIB);
    let fake = FakeProvider::start(vec![Script::sse().event(format!("{{\"x\":[{numbers}0]}}")).end()]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    let answer = read_response(&mut gateway.streaming().await).await;
    let message = answer.json()["error"]["attempts"][0]["message"].as_str().unwrap().to_owned();
    assert_eq!((answer.status, message.contains("one long text")), (502, true), "{message}");
    assert_row!(&gateway.stop().await.attempts[0], json!({"failure": "malformed"}));
}

#[tokio::test]
async fn images_that_clients_are_slow_to_take_are_bounded_by_memory() {
    const SIZE: usize = 16 * MIB;
    // On a busy machine a client would get a head before its image was read.
    const NO_EARLY_HEAD: &str = "keepalive = \"off\"";
    let pair = Pair { surface: Surface::Gemini, dialect: Dialect::Gemini };
    let fake = FakeProvider::answering(|_| image(SIZE)).await;
    let gateway = pair.over(&[&fake]).server("memory = \"66MiB\"").race(NO_EARLY_HEAD).start().await;
    let (path, body) = (pair.surface.path_for("m", true), pair.surface.body("m", true));
    // Each holds its image, but for what the buffers of its socket took, and a further one needs the memory of two while it is read.
    let (mut clients, mut refused) = (Vec::new(), false);
    while !refused && clients.len() < 9 {
        let mut client = gateway.post(&path, &body).await;
        let head = client.head().await;
        refused = head.status == 503;
        if !refused {
            assert_eq!(head.status, 200);
            clients.push((client, head));
        }
    }
    assert!(refused && clients.len() >= 3, "{} were let in", clients.len());
    let mut served = false;
    while !served && let Some((mut client, head)) = clients.pop() {
        assert!(client.body(&head).await.unwrap().len() > SIZE);
        served = read_response(&mut gateway.post(&path, &body).await).await.status == 200;
    }
    assert!(served, "what was taken is given back");
    drop(clients);
    gateway.stop().await;
}
