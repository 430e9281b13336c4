//! What commits a race in each dialect: the first payload reaches the client even if nothing follows it, and the row
//! has its kind.

use serde_json::{Value, json};

use crate::harness::answer::ending;
use crate::harness::gateway::assert_row;
use crate::harness::matrix::Pair;
use crate::harness::surface::Surface;
use crate::support::{Dialect, FakeProvider, Gate, Script};

/// A kind of payload, and the script that sends one such payload and nothing after it.
type Case = (&'static str, Script);

fn sse(dialect: Dialect, events: &[Value]) -> Script {
    events.iter().fold(Script::of(dialect).open(), |script, event| match event["type"].as_str() {
        Some(name) => script.chunk(format!("event: {name}\ndata: {event}\n\n")),
        None => script.event(event),
    })
}

fn anthropic() -> Vec<Case> {
    let start = json!({"type": "message_start", "message": {
        "id": "msg", "type": "message", "role": "assistant", "model": "fake-model", "content": [], "stop_reason": null,
        "usage": {"input_tokens": 7, "output_tokens": 1}}});
    let block = |block: Value| json!({"type": "content_block_start", "index": 0, "content_block": block});
    let delta = |delta: Value| json!({"type": "content_block_delta", "index": 0, "delta": delta});
    let text = block(json!({"type": "text", "text": ""}));
    let thinking = block(json!({"type": "thinking", "thinking": "", "signature": ""}));
    let tool = block(json!({"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}));
    let of = |events: &[Value]| sse(Dialect::Anthropic, events);
    vec![
        ("text", of(&[start.clone(), text, delta(json!({"type": "text_delta", "text": "x"}))])),
        ("reasoning", of(&[start.clone(), thinking, delta(json!({"type": "thinking_delta", "thinking": "x"}))])),
        ("tool", of(&[start, tool])),
    ]
}

fn responses() -> Vec<Case> {
    let response =
        json!({"id": "resp_1", "object": "response", "status": "in_progress", "model": "fake-model", "output": []});
    let created = json!({"type": "response.created", "sequence_number": 0, "response": response});
    let added = |item: Value| json!({"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": item});
    let delta = |name: &str| {
        json!({"type": name, "sequence_number": 2, "item_id": "i", "output_index": 0, "content_index": 0, "summary_index": 0,
            "delta": "x"})
    };
    let message =
        added(json!({"type": "message", "id": "i", "role": "assistant", "status": "in_progress", "content": []}));
    let thought = added(json!({"type": "reasoning", "id": "i", "summary": []}));
    let call = added(json!({"type": "function_call", "id": "i", "call_id": "c", "name": "f", "arguments": ""}));
    let of = |events: &[Value]| sse(Dialect::Responses, events);
    vec![
        ("text", of(&[created.clone(), message.clone(), delta("response.output_text.delta")])),
        ("refusal", of(&[created.clone(), message, delta("response.refusal.delta")])),
        ("reasoning", of(&[created.clone(), thought, delta("response.reasoning_summary_text.delta")])),
        ("tool", of(&[created, call])),
    ]
}

fn gemini() -> Vec<Case> {
    let of = |part: Value| {
        let candidate = json!({"content": {"role": "model", "parts": [part]}, "index": 0});
        sse(Dialect::Gemini, &[json!({"candidates": [candidate], "modelVersion": "fake-model"})])
    };
    vec![
        ("text", of(json!({"text": "x"}))),
        ("reasoning", of(json!({"text": "x", "thought": true}))),
        ("tool", of(json!({"functionCall": {"name": "f", "args": {}}}))),
    ]
}

fn bedrock() -> Vec<Case> {
    let of = |frames: &[(&str, Value)]| {
        let script = Script::of(Dialect::Bedrock).open().role();
        frames.iter().fold(script, |script, (name, payload)| script.chunk(crate::support::frame(name, payload)))
    };
    let delta = |delta: Value| ("contentBlockDelta", json!({"contentBlockIndex": 0, "delta": delta}));
    let tool = json!({"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": "t", "name": "f"}}});
    vec![
        ("text", of(&[delta(json!({"text": "x"}))])),
        ("reasoning", of(&[delta(json!({"reasoningContent": {"text": "x"}}))])),
        ("tool", of(&[("contentBlockStart", tool)])),
    ]
}

fn ollama() -> Vec<Case> {
    let of = |message: Value| {
        let line =
            json!({"model": "fake-model", "created_at": "2026-01-01T00:00:00Z", "message": message, "done": false});
        Script::of(Dialect::Ollama).open().chunk(format!("{line}\n"))
    };
    let call = json!([{"function": {"name": "f", "arguments": {}}}]);
    vec![
        ("text", of(json!({"role": "assistant", "content": "x"}))),
        ("reasoning", of(json!({"role": "assistant", "content": "", "thinking": "x"}))),
        ("tool", of(json!({"role": "assistant", "content": "", "tool_calls": call}))),
    ]
}

fn openai() -> Vec<Case> {
    let of = |delta: Value| Script::sse().role().delta(delta);
    let call = json!([{"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}]);
    vec![
        ("text", of(json!({"content": "x"}))),
        ("reasoning", of(json!({"reasoning_content": "x"}))),
        ("tool", of(json!({ "tool_calls": call }))),
        ("refusal", of(json!({"refusal": "x"}))),
    ]
}

async fn commits(dialect: Dialect, cases: Vec<Case>) {
    for surface in Surface::ALL {
        let pair = Pair { surface, dialect };
        for (kind, script) in &cases {
            let broken = Gate::new();
            let fake = FakeProvider::start(vec![script.clone().wait(&broken).close()]).await;
            let gateway = pair.over(&[&fake]).start().await;
            let mut client = pair.streaming(&gateway).await;
            // Its head comes although nothing follows; the break after it is an error event.
            let head = client.head().await;
            assert_eq!(head.status, 200, "{kind} over {pair:?}");
            broken.open();
            let body = client.body(&head).await.unwrap();
            assert!(String::from_utf8_lossy(&body).contains("error"), "{kind} over {pair:?}");
            let rows = gateway.stop().await;
            let row = rows.one("a");
            let what = format!("{kind} over {pair:?}: {row:#?}");
            assert_row!(row, json!({"first_kind": kind, "payload_events": 1}), "{what}");
            assert_eq!(
                ending(row),
                json!({"outcome": "failed_mid", "ttft_event": 1, "failure": "closed", "failure_phase": "stream"}),
                "{what}"
            );
            assert_eq!(row["first_answer_us"].is_null(), *kind == "reasoning", "{what}");
        }
    }
}

#[tokio::test]
async fn every_kind_of_payload_commits_over_openai() {
    commits(Dialect::OpenAi, openai()).await;
}

#[tokio::test]
async fn every_kind_of_payload_commits_over_responses() {
    commits(Dialect::Responses, responses()).await;
}

#[tokio::test]
async fn every_kind_of_payload_commits_over_anthropic() {
    commits(Dialect::Anthropic, anthropic()).await;
}

#[tokio::test]
async fn every_kind_of_payload_commits_over_gemini() {
    commits(Dialect::Gemini, gemini()).await;
}

#[tokio::test]
async fn every_kind_of_payload_commits_over_bedrock() {
    commits(Dialect::Bedrock, bedrock()).await;
}

#[tokio::test]
async fn every_kind_of_payload_commits_over_ollama() {
    commits(Dialect::Ollama, ollama()).await;
}
