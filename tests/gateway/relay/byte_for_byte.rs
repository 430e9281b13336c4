//! A streaming chat client gets the winner's bytes unchanged. Streams that break: see `broken_streams`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::answer::{Response, ending, read_response};
use crate::harness::gateway::{Setup, assert_row};
use crate::support::{FakeProvider, Gate, Script};

/// Relays a stream of one provider; returns the answer and the rows.
async fn relayed(script: Script, ask: &Value, race: &str) -> (Response, crate::harness::gateway::Rows) {
    let fake = FakeProvider::start(vec![script]).await;
    let gateway = Setup::over(&[&fake]).race(race).start().await;
    let response = read_response(&mut gateway.ask(ask).await).await;
    (response, gateway.stop().await)
}

fn streaming() -> Value {
    json!({"model": "m", "stream": true, "messages": [{}]})
}

#[tokio::test]
async fn every_kind_of_payload_commits() {
    let table = [
        ("text", json!({"content": "x"})),
        ("text", json!({"content": [{"type": "text", "text": "x"}]})),
        ("reasoning", json!({"reasoning_content": "x"})),
        ("reasoning", json!({"reasoning": "x"})),
        ("tool", json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}}]})),
        ("refusal", json!({"refusal": "x"})),
        ("audio", json!({"audio": {"id": "a", "data": "eA=="}})),
    ];
    let rest: Vec<Gate> = table.iter().map(|_| Gate::new()).collect();
    let script = |((_, delta), rest): (&(&str, Value), &Gate)| {
        Script::sse().role().delta(delta.clone()).wait(rest).finish("stop").done().end()
    };
    let fake = FakeProvider::start(table.iter().zip(&rest).map(script).collect()).await;
    let gateway = Setup::over(&[&fake]).start().await;
    for rest in &rest {
        let mut client = gateway.streaming().await;
        // It arrives although the provider sends only this one payload.
        let head = client.head().await;
        assert_eq!(head.status, 200);
        rest.open();
        client.body(&head).await.unwrap();
    }
    let rows = gateway.stop().await;
    let kinds: Vec<&Value> = rows.attempts.iter().map(|attempt| &attempt["first_kind"]).collect();
    assert_eq!(kinds, table.iter().map(|(kind, _)| *kind).collect::<Vec<_>>());
    assert!(rows.attempts.iter().all(|attempt| attempt["outcome"] == "won" && attempt["payload_events"] == 1));
}

#[tokio::test]
async fn the_stream_is_the_upstreams_byte_for_byte() {
    let finish = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"odd":{"b":1,"a":[2]}}"#;
    let parts = [
        "\u{feff}: first\n\n".to_owned(),
        "event: message\r\nid: 7\r\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\r\n\r\n"
            .into(),
        "data:{\"choices\":[{\"delta\":{\"content\":\"a\\u00e9\"},  \"index\":0}]}\n\n".into(),
        ": in between\n\n".into(),
        "data: {\"choices\":[{\"index\":0,\ndata: \"delta\":{\"content\":\"b\"}}]}\n\n".into(),
        format!("retry: 10\ndata: {finish}\n\n"),
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n".into(),
        "data: [DONE]\n\n".into(),
    ];
    let script = parts.iter().fold(Script::sse(), |script, part| script.chunk(part)).end();
    let ask = json!({"model": "m", "stream": true, "stream_options": {"include_usage": true}, "messages": [{}]});
    let (response, rows) = relayed(script, &ask, "").await;
    assert_eq!(response.body, parts.concat());
    assert_eq!(response.header("content-type"), "text/event-stream; charset=utf-8");
    assert_row!(rows.one("a"), json!({"payload_events": 2, "keepalives": 2}));
}

#[tokio::test]
async fn events_of_one_read_go_down_as_one_frame() {
    let event = |text: &str| format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {"content": text}}]}));
    let rest = Gate::new();
    let script = Script::sse().chunk(["a", "b", "c"].map(event).concat()).wait(&rest).finish("stop").done().end();
    let fake = FakeProvider::start(vec![script]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    let mut client = gateway.streaming().await;
    let head = client.head().await;
    assert_eq!(head.status, 200);
    let first = String::from_utf8(client.chunk().await.unwrap().unwrap().to_vec()).unwrap();
    for text in ["a", "b", "c"] {
        assert!(first.contains(&event(text)), "{text} is not in the first frame: {first}");
    }
    rest.open();
    client.body(&head).await.unwrap();
    gateway.stop().await;
}

#[tokio::test]
async fn usage_is_asked_for_recorded_and_taken_out_again() {
    let stream = || Script::sse().role().tokens(&["a", "b"]).finish("stop").usage(1_000, 2_000).done().end();
    let fake = FakeProvider::start(vec![stream(), stream()]).await;
    let model = "[models.m]\nupstreams = [{ upstream = \"a/m\", input_price = 1.0, output_price = 2.0 }]";
    let gateway = Setup::over(&[&fake]).model(model).start().await;
    let response = read_response(&mut gateway.streaming().await).await;
    assert!(!response.body.contains("usage") && response.is_done(), "{}", response.body);
    assert_eq!(fake.requests()[0].json()["stream_options"], json!({"include_usage": true}));
    let ask = json!({"model": "m", "stream": true, "stream_options": {"include_usage": true}, "messages": [{}]});
    let response = read_response(&mut gateway.ask(&ask).await).await;
    assert!(response.body.contains("\"total_tokens\":3000"), "{}", response.body);
    let rows = gateway.stop().await;
    for attempt in &rows.attempts {
        assert_row!(
            attempt,
            json!({"input_tokens": 1_000, "output_tokens": 2_000, "tok_src": "usage", "finish_reason": "stop", "cost_usd_min": 0.005, "cost_usd_max": 0.005})
        );
    }
}

/// vLLM says there what it would else say in the last event, and llama.cpp too.
#[tokio::test]
async fn what_the_usage_chunk_says_besides_is_in_the_last_event() {
    let last = |more: &str| {
        format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"b"}},"finish_reason":"length"}}]{more}}}"#)
    };
    let more = r#","system_fingerprint":"fp","timings":{"ms":1.50}"#;
    let usage = format!(r#"{{"choices":[],"usage":{{"prompt_tokens":1,"completion_tokens":2}}{more}}}"#);
    let rest = |script: Script| script.event(last("")).delay(Duration::from_millis(1)).event(&usage).done().end();
    // The first token may be the last.
    for script in [rest(Script::sse().role().token("a")), rest(Script::sse().role())] {
        let (response, rows) = relayed(script, &streaming(), "").await;
        let events = response.events();
        assert_eq!(events[events.len() - 2..], [last(more).as_str(), "[DONE]"], "{}", response.body);
        assert_row!(rows.one("a"), json!({"outcome": "won", "output_tokens": 2, "tok_src": "usage"}));
    }
}

#[tokio::test]
async fn a_complete_stream_without_done_gets_it() {
    let (response, rows) = relayed(Script::sse().role().token("x").finish("stop").end(), &streaming(), "").await;
    assert!(response.is_done() && response.streamed_text() == "x", "{}", response.body);
    assert_eq!(ending(rows.one("a")), json!({"outcome": "won", "ttft_event": 1}));
}
