//! Refusals by content policy, as an error or as a withheld answer. By default they end the race; with
//! `content_policy = "continue"` they are failures like any other.

use serde_json::{Value, json};

use crate::harness::answer::{ending, read_response};
use crate::harness::gateway::assert_row;
use crate::harness::matrix::{Pair, rules};
use crate::support::{Dialect, FakeProvider, Gate, Script, frame};

rules! { everywhere:
    a_refusal_stops_the_race_unless_content_policy_is_continue,
    an_attempt_that_runs_during_a_refusal_may_still_win,
}

const REFUSED: &str =
    r#"{"error":{"message":"flagged","type":"invalid_request_error","code":"content_policy_violation"}}"#;

/// An answer that was withheld.
fn withheld(dialect: Dialect) -> Script {
    let script = Script::of(dialect).open().role();
    match dialect {
        Dialect::OpenAi => script.finish("content_filter").done().end(),
        Dialect::Responses => {
            let response = json!({"id": "resp_fake", "object": "response", "status": "incomplete", "model": "m",
                "output": [], "incomplete_details": {"reason": "content_filter"}});
            let event = json!({"type": "response.incomplete", "sequence_number": 4, "response": response});
            script.chunk(format!("event: response.incomplete\ndata: {event}\n\n")).end()
        }
        Dialect::Anthropic => {
            let delta = json!({"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_sequence": null}});
            let script =
                script.chunk("event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n");
            script.chunk(format!("event: message_delta\ndata: {delta}\n\n")).done().end()
        }
        Dialect::Gemini => script.event(json!({"candidates": [{"finishReason": "SAFETY", "index": 0}]})).end(),
        Dialect::Bedrock => {
            script.chunk(frame("messageStop", &json!({"stopReason": "guardrail_intervened"}))).done().end()
        }
        Dialect::Ollama => unreachable!("it has no filter"),
    }
}

async fn a_refusal_stops_the_race_unless_content_policy_is_continue(pair: Pair) {
    let mut refusals = vec![(Script::status(400, &[], REFUSED), 400, "headers")];
    if pair.dialect != Dialect::Ollama {
        refusals.push((withheld(pair.dialect), 200, "first_token"));
    }
    for (refusal, status, phase) in refusals {
        for (setting, goes_on) in [("", false), ("content_policy = \"continue\"", true)] {
            for stream in [true, false] {
                let a = FakeProvider::start(vec![refusal.clone()]).await;
                let b = FakeProvider::start(vec![pair.stream(&["good"])]).await;
                let gateway = pair.over(&[&a, &b]).race("policy = \"fallback\"").race(setting).start().await;
                let response = read_response(
                    &mut gateway.post(&pair.surface.path_for("m", stream), &pair.surface.body("m", stream)).await,
                )
                .await;
                let context = format!("{status} {setting} {stream} {}", response.body);
                let upstream = if goes_on { (200, "b/m") } else { (status, "a/m") };
                assert_eq!((response.status, response.upstream()), upstream, "{context}");
                assert_eq!(b.requests().len(), usize::from(goes_on), "{context}");
                if !goes_on && status == 200 {
                    let found =
                        ["content_filter", "refusal", "SAFETY"].iter().any(|reason| response.body.contains(reason));
                    assert!(found && !response.body.contains("\"error\":{"), "{context}");
                }
                let rows = gateway.stop().await;
                assert_eq!(
                    ending(rows.one("a")),
                    json!({"outcome": "refused", "failure": "content_policy", "failure_phase": phase}),
                    "{context}"
                );
            }
        }
    }
}

async fn an_attempt_that_runs_during_a_refusal_may_still_win(pair: Pair) {
    let refused = Gate::new();
    let refusal = match pair.dialect {
        Dialect::Ollama => Script::status(400, &[], REFUSED),
        dialect => withheld(dialect),
    };
    let a = FakeProvider::start(vec![refusal.reached(&refused)]).await;
    let b = FakeProvider::start(vec![pair.stream_after(&refused, &["good"])]).await;
    let gateway = pair.over(&[&a, &b]).start().await;
    let response = read_response(&mut pair.streaming(&gateway).await).await;
    assert_eq!((response.status, response.upstream()), (200, "b/m"), "{}", response.body);
    let rows = gateway.stop().await;
    assert_row!(rows.one("b"), json!({"outcome": "won", "start_reason": "first"}));
}

#[tokio::test]
async fn withheld_reasoning_is_a_refusal_for_a_non_streaming_client() {
    let pair = Pair { surface: crate::harness::surface::Surface::Chat, dialect: Dialect::OpenAi };
    let script = Script::sse().role().delta(json!({"reasoning_content": "hm"})).finish("content_filter").done().end();
    for (setting, upstream) in [("", "a/m"), ("content_policy = \"continue\"", "b/m")] {
        let a = FakeProvider::start(vec![script.clone()]).await;
        let b = FakeProvider::start(vec![pair.stream(&["good"])]).await;
        let gateway = pair.over(&[&a, &b]).race("policy = \"fallback\"").race(setting).start().await;
        let response = read_response(&mut pair.whole(&gateway).await).await;
        assert_eq!((response.status, response.upstream()), (200, upstream), "{}", response.body);
        let finish: Value = response.json()["choices"][0]["finish_reason"].clone();
        assert_eq!(finish, if setting.is_empty() { "content_filter" } else { "stop" });
        gateway.stop().await;
    }
}

#[tokio::test]
async fn with_content_policy_continue_the_answer_is_chosen_by_error_class() {
    let pair = Pair { surface: crate::harness::surface::Surface::Chat, dialect: Dialect::OpenAi };
    for (setting, status) in [("", 400), ("content_policy = \"continue\"", 502)] {
        let a = FakeProvider::start(vec![Script::status(500, &[], "{}")]).await;
        let b = FakeProvider::start(vec![Script::status(400, &[], REFUSED)]).await;
        let gateway = pair.over(&[&a, &b]).race("policy = \"fallback\"").race(setting).start().await;
        assert_eq!(read_response(&mut pair.streaming(&gateway).await).await.status, status, "{setting}");
        gateway.stop().await;
    }
}
