//! A prompt that is too long for one upstream is sent to those with larger contexts.

use photofinish_config::Policy;
use serde_json::json;

use crate::harness::answer::{Response, read_response};
use crate::harness::gateway::{Setup, TestGateway};
use crate::harness::surface::Surface;
use crate::support::{FakeProvider, Script};

const TOO_LONG: &str = r#"{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#;

async fn small() -> FakeProvider {
    FakeProvider::answering(|_| Script::status(400, &[], TOO_LONG)).await
}

async fn says(word: &'static str) -> FakeProvider {
    FakeProvider::answering(move |_| Script::stream(&[word])).await
}

/// Upstreams with these windows, used in this order.
fn windows(fakes: &[(&FakeProvider, Option<u64>)]) -> Setup {
    let names = ["a", "b", "c", "d"];
    let listed = fakes.iter().zip(names).map(|((_, context), name)| {
        let context = context.map(|tokens| format!(", context = {tokens}")).unwrap_or_default();
        format!("{{ upstream = \"{name}/m\"{context} }}")
    });
    let model = format!("[models.m]\nupstreams = [{}]", listed.collect::<Vec<_>>().join(", "));
    let setup = fakes.iter().zip(names).fold(Setup::new(), |setup, ((fake, _), name)| setup.provider(name, fake, ""));
    setup.model(&model).race("policy = \"fallback\"")
}

async fn ask(gateway: &TestGateway, bytes: usize) -> Response {
    let content = "word ".repeat(bytes / 5);
    let body = json!({ "model": "m", "stream": true, "messages": [{ "role": "user", "content": content }] });
    read_response(&mut gateway.ask(&body).await).await
}

#[tokio::test]
async fn after_a_context_length_refusal_larger_contexts_are_asked_first() {
    let (a, b, c) = (small().await, small().await, says("large").await);
    let gateway = windows(&[(&a, None), (&b, Some(8_192)), (&c, Some(131_072))]).start().await;
    let response = ask(&gateway, 50).await;
    assert_eq!((response.streamed_text().as_str(), response.header("x-photofinish-attempts")), ("large", "2"));
    gateway.stop().await;
    assert_eq!((a.requests().len(), b.requests().len(), c.requests().len()), (1, 0, 1));
}

#[tokio::test]
async fn all_upstreams_are_tried_and_if_all_are_too_small_the_refusal_is_the_answer() {
    let (a, b) = (small().await, small().await);
    let gateway = windows(&[(&a, Some(8_192)), (&b, Some(4_096))]).start().await;
    let response = ask(&gateway, 50).await;
    assert_eq!((response.status, response.error_code().as_str()), (400, "context_length_exceeded"));
    gateway.stop().await;
    assert_eq!((a.requests().len(), b.requests().len()), (1, 1));
}

#[tokio::test]
async fn an_upstream_with_too_small_a_context_is_asked_last_under_every_policy() {
    for policy in Policy::ALL.map(Policy::as_str) {
        let (a, b) = (small().await, says("large").await);
        let gateway = windows(&[(&a, Some(2_000)), (&b, None)]).start().await;
        let body = json!({ "model": "m", "stream": true, "messages": [{ "content": "word ".repeat(3_000) }] });
        let headers = [("x-photofinish-policy", policy)];
        let response = read_response(&mut gateway.request(crate::harness::gateway::CHAT, &headers, &body).await).await;
        assert_eq!(response.streamed_text(), "large", "{policy}");
        gateway.stop().await;
        assert_eq!((a.requests().len(), b.requests().len()), (0, 1), "{policy}");
    }
}

#[tokio::test]
async fn a_context_length_refusal_is_remembered_for_prompts_as_long() {
    let (a, b) = (small().await, says("large").await);
    let gateway = windows(&[(&a, None), (&b, None)]).start().await;
    for (bytes, attempts) in [(5_000, "2"), (6_000, "1"), (4_000, "2"), (4_500, "1")] {
        let response = ask(&gateway, bytes).await;
        assert_eq!(
            (response.streamed_text().as_str(), response.header("x-photofinish-attempts")),
            ("large", attempts),
            "{bytes}"
        );
    }
    gateway.stop().await;
    assert_eq!(a.requests().len(), 2);
}

#[tokio::test]
async fn a_refusal_of_max_tokens_does_not_limit_prompts() {
    let refuses = |request: &crate::support::Request| match request.json()["max_tokens"].is_null() {
        false => Script::status(400, &[], r#"{"error":{"message":"too many tokens"}}"#),
        true => Script::stream(&["small"]),
    };
    let (a, b) = (FakeProvider::answering(refuses).await, says("large").await);
    let gateway = windows(&[(&a, None), (&b, None)]).start().await;
    let greedy = json!({ "model": "m", "stream": true, "max_tokens": 1_000_000, "messages": [{ "content": "x" }] });
    assert_eq!(read_response(&mut gateway.ask(&greedy).await).await.streamed_text(), "large");
    assert_eq!(ask(&gateway, 5_000).await.streamed_text(), "small");
    gateway.stop().await;
}

/// The error that a client of this surface gets from an upstream that says so with this status, while another one is down.
async fn found(surface: Surface, dialect: &str, status: u16, words: &'static str) -> (u16, String) {
    let long = FakeProvider::answering(move |_| Script::status(status, &[], words)).await;
    let down = FakeProvider::answering(|_| Script::status(503, &[], "{}")).await;
    let setup = Setup::new().provider("a", &long, dialect).provider("b", &down, dialect);
    let model = "[models.m]\nupstreams = [\"a/m\", \"b/m\"]";
    let gateway = setup.model(model).race("policy = \"fallback\"\nretries = 0").start().await;
    let path = surface.path_for("m", true);
    let response = read_response(&mut gateway.post(&path, &surface.body("m", true)).await).await;
    gateway.stop().await;
    (response.status, response.body)
}

#[tokio::test]
async fn an_agent_is_told_that_its_prompt_is_too_long_in_the_words_that_it_compacts_at() {
    let vague = r#"{"error":"Your input exceeded this model context window limit"}"#;
    let counted = r#"{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens."}}"#;
    // Older versions of llama.cpp.
    let of_server =
        r#"{"error":{"code":500,"message":"the request exceeds the available context size, try increasing it"}}"#;
    let (chat, messages) = ("dialect = \"openai\"", "dialect = \"anthropic\"");
    for (surface, dialect, status, words, expected) in [
        (Surface::Messages, chat, 500, of_server, "prompt is too long: the request"),
        (Surface::Messages, chat, 413, vague, "prompt is too long: Your input"),
        (Surface::Messages, chat, 400, counted, "prompt is too long: 9001 tokens > 8192 maximum"),
        (Surface::Messages, messages, 413, vague, "prompt is too long: Your input"),
        (Surface::Chat, chat, 413, vague, "context_length_exceeded"),
        (Surface::Responses, chat, 413, vague, "context_length_exceeded"),
        (Surface::Chat, messages, 413, vague, "context_length_exceeded"),
        (Surface::Gemini, chat, 413, vague, "Your input exceeded"),
        (Surface::Ollama, chat, 413, vague, "Your input exceeded"),
    ] {
        let (status, body) = found(surface, dialect, status, words).await;
        assert!(status == 400 && body.contains(expected), "{surface:?} over {dialect}: {status} {body}");
        assert!(surface != Surface::Messages || body.contains("\"invalid_request_error\""), "{body}");
    }
}
