//! Servers that ignore `stream`: a whole answer in one event, or without any event, under `text/event-stream`.

use serde_json::{Value, json};

use crate::harness::answer::{Response, read_response};
use crate::harness::gateway::{Setup, TestGateway, assert_row};
use crate::harness::matrix::Pair;
use crate::harness::surface::Surface;
use crate::support::{Dialect, FakeProvider, Gate, Script};

async fn asked(pair: Pair, gateway: &TestGateway, stream: bool) -> Response {
    read_response(&mut gateway.post(&pair.surface.path_for("m", stream), &pair.surface.body("m", stream)).await).await
}

/// The answer `whole`, as this dialect gives it without `stream`.
fn whole(dialect: Dialect) -> Value {
    match dialect {
        Dialect::OpenAi => json!({
            "id": "c", "object": "chat.completion", "created": 1, "model": "fake-model",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "whole"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
        }),
        Dialect::Responses => json!({
            "id": "r", "object": "response", "status": "completed", "model": "fake-model",
            "output": [{"type": "message", "id": "msg", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": "whole", "annotations": []}]}],
            "usage": {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12},
        }),
        Dialect::Anthropic => json!({
            "id": "msg", "type": "message", "role": "assistant", "model": "fake-model", "stop_reason": "end_turn",
            "content": [{"type": "text", "text": "whole"}], "usage": {"input_tokens": 10, "output_tokens": 2},
        }),
        _ => json!({
            "candidates": [{"content": {"role": "model", "parts": [{"text": "whole"}]}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 2}, "modelVersion": "fake-model",
        }),
    }
}

#[tokio::test]
async fn a_whole_answer_in_a_stream_is_the_answer() {
    for dialect in [Dialect::OpenAi, Dialect::Responses, Dialect::Anthropic, Dialect::Gemini] {
        let body = whole(dialect);
        let pretty = format!("{body:#}");
        let forms: [(&str, String); 4] = [
            ("an event", format!("data: {body}\n\n")),
            ("an event and the end", format!("data: {body}\n\ndata: [DONE]\n\n")),
            ("bare JSON", body.to_string()),
            ("bare JSON over lines", pretty + "\n"),
        ];
        for surface in Surface::ALL {
            let pair = Pair { surface, dialect };
            for (name, form) in forms.clone() {
                if form.contains("[DONE]") && dialect != Dialect::OpenAi {
                    continue;
                }
                let fake = FakeProvider::answering(move |_| Script::sse().chunk(&form).end()).await;
                let gateway = pair.over(&[&fake]).start().await;
                let streamed = asked(pair, &gateway, true).await;
                let found = format!("{name}: {pair:?}: {}", streamed.body);
                assert_eq!(surface.streamed_text(&streamed), "whole", "{found}");
                surface.assert_complete(&streamed);
                let answer = asked(pair, &gateway, false).await.json();
                assert_eq!(surface.whole_text(&answer), "whole", "{name} {pair:?}: {answer}");
                assert_eq!(surface.whole_usage(&answer), (10, 2), "{name} {pair:?}: {answer}");
                let rows = gateway.stop().await;
                for row in &rows.attempts {
                    assert_row!(row, json!({"outcome": "won", "payload_events": 1, "output_tokens": 2}));
                }
            }
        }
    }
}

#[tokio::test]
async fn a_whole_answer_in_an_event_wins_a_race() {
    let never = Gate::new();
    let event = whole(Dialect::OpenAi).to_string();
    let a = FakeProvider::answering(move |_| Script::sse().event(&event).done().end()).await;
    let slow = Script::sse().role().wait(&never);
    let b = FakeProvider::start(vec![slow.clone(), slow]).await;
    let gateway = Setup::over(&[&a, &b]).start().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.streamed_text(), "whole");
    assert_eq!(read_response(&mut gateway.whole().await).await.upstream(), "a/m");
    gateway.stop().await;
}

#[tokio::test]
async fn calls_in_a_whole_answer_are_checked() {
    let body = |arguments: &str| {
        let call = json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}});
        let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        json!({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}).to_string()
    };
    let (good, cut) = (body("{\"x\":1}"), body("{\"x\":"));
    for surface in [Surface::Chat, Surface::Messages, Surface::Responses] {
        let pair = Pair { surface, dialect: Dialect::OpenAi };
        let script = |body: &str| Script::sse().event(body).done().end();
        let fake = FakeProvider::start(vec![script(&good), script(&good), script(&cut)]).await;
        let gateway = pair.over(&[&fake]).start().await;
        let streamed = asked(pair, &gateway, true).await;
        surface.assert_complete(&streamed);
        assert!(streamed.body.contains("\\\"x\\\":1"), "{}", streamed.body);
        assert_eq!(asked(pair, &gateway, false).await.status, 200);
        assert_eq!(asked(pair, &gateway, false).await.status, 502);
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_message_after_its_deltas_only_repeats_them() {
    let pair = |surface| Pair { surface, dialect: Dialect::OpenAi };
    for surface in [Surface::Chat, Surface::Messages, Surface::Responses] {
        let event = whole(Dialect::OpenAi).to_string();
        let script = move || Script::sse().role().token("who").token("le").event(&event).done().end();
        let fake = FakeProvider::answering(move |_| script()).await;
        let gateway = pair(surface).over(&[&fake]).start().await;
        let streamed = asked(pair(surface), &gateway, true).await;
        assert_eq!(surface.streamed_text(&streamed), "whole", "{}", streamed.body);
        let answer = asked(pair(surface), &gateway, false).await.json();
        assert_eq!(surface.whole_text(&answer), "whole", "{answer}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn messages_in_pieces_are_joined() {
    for surface in [Surface::Chat, Surface::Messages, Surface::Responses] {
        let pair = Pair { surface, dialect: Dialect::OpenAi };
        let piece = |text: &str, finish: Option<&str>| json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}]});
        let script = move || {
            Script::sse().event(piece("who", None)).event(piece("le", None)).event(piece("", Some("stop"))).done().end()
        };
        let fake = FakeProvider::answering(move |_| script()).await;
        let gateway = pair.over(&[&fake]).start().await;
        let streamed = asked(pair, &gateway, true).await;
        assert_eq!(surface.streamed_text(&streamed), "whole", "{}", streamed.body);
        let answer = asked(pair, &gateway, false).await.json();
        assert_eq!(surface.whole_text(&answer), "whole", "{answer}");
        gateway.stop().await;
    }
}
