//! Features of a single vendor: AWS's binary frames and signatures, Google's blocked prompts, and key headers.

use serde_json::json;

use crate::harness::answer::{ending, read_response};
use crate::harness::gateway::{Setup, assert_row};
use crate::harness::matrix::Pair;
use crate::harness::surface::Surface;
use crate::support::{Dialect, FakeProvider, Script, frame};

const BEDROCK: Pair = Pair { surface: Surface::Chat, dialect: Dialect::Bedrock };
const GEMINI: Pair = Pair { surface: Surface::Chat, dialect: Dialect::Gemini };

#[tokio::test]
async fn a_damaged_bedrock_frame_is_a_failure() {
    let mut damaged = frame("contentBlockDelta", &json!({"contentBlockIndex": 0, "delta": {"text": "hello"}})).to_vec();
    let at = damaged.len() - 10;
    damaged[at] ^= 1;
    let a = FakeProvider::start(vec![BEDROCK.open().role().chunk(damaged).until_closed()]).await;
    let b = FakeProvider::start(vec![BEDROCK.stream(&["hello"])]).await;
    let gateway = BEDROCK.over(&[&a, &b]).race("policy = \"fallback\"").start().await;
    let response = read_response(&mut BEDROCK.streaming(&gateway).await).await;
    assert_eq!((response.upstream(), response.streamed_text().as_str()), ("b/m", "hello"));
    a.closed(0).await;
    let rows = gateway.stop().await;
    assert_eq!(
        ending(rows.one("a")),
        json!({"outcome": "failed", "failure": "malformed", "failure_phase": "first_token"})
    );
}

#[tokio::test]
async fn a_bedrock_exception_is_the_failure_it_names() {
    for (name, failure) in [
        ("throttlingException", "rate_limited"),
        ("serviceUnavailableException", "overloaded"),
        ("internalServerException", "server_error"),
        ("validationException", "bad_request"),
    ] {
        let headers = [(":message-type", "exception"), (":exception-type", name)];
        let thrown = crate::support::message(&headers, &json!({"message": "no"}));
        let a = FakeProvider::start(vec![BEDROCK.open().role().chunk(thrown).until_closed()]).await;
        let b = FakeProvider::start(vec![BEDROCK.stream(&["hello"])]).await;
        let gateway = BEDROCK.over(&[&a, &b]).race("policy = \"fallback\"").start().await;
        assert_eq!(read_response(&mut BEDROCK.streaming(&gateway).await).await.upstream(), "b/m");
        let rows = gateway.stop().await;
        assert_eq!(
            ending(rows.one("a")),
            json!({"outcome": "failed", "failure": failure, "failure_phase": "first_token"}),
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_request_to_bedrock_is_signed_or_bears_a_key() {
    let fake = FakeProvider::answering(|_| BEDROCK.stream(&["hi"])).await;
    let dialect = "dialect = \"bedrock\"\nregion = \"eu-west-1\"";
    let aws =
        "aws = { access_key_id = \"AKIDEXAMPLE\", secret_access_key = \"planted-secret\", session_token = \"lent\" }";
    let gateway = Setup::new()
        .provider("bedrock", &fake, &format!("{dialect}\n{aws}"))
        .provider_at("b", &fake.base_url(), "dialect = \"bedrock\"\napi_key = \"bearer-key\"")
        .start()
        .await;
    let model = "anthropic.claude-x:0";
    for (number, provider) in ["bedrock", "b"].into_iter().enumerate() {
        let response =
            read_response(&mut gateway.ask(&Surface::Chat.body(&format!("{provider}/{model}"), false)).await).await;
        assert_eq!(response.status, 200, "{}", response.body);
        let up = fake.request(number).await;
        assert_eq!(up.path, "/v1/model/anthropic.claude-x%3A0/converse");
        assert_eq!(up.header("accept"), Some("application/json"));
        let authorization = up.header("authorization").unwrap();
        if provider == "bedrock" {
            assert!(authorization.starts_with("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"), "{authorization}");
            assert!(authorization.contains("/eu-west-1/bedrock/aws4_request"), "{authorization}");
            assert!(up.header("x-amz-date").is_some() && up.header("x-amz-security-token") == Some("lent"));
        } else {
            assert_eq!(authorization, "Bearer bearer-key");
        }
        assert!(up.headers.iter().all(|(_, value)| !value.contains("planted")), "{:?}", up.headers);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_blocked_prompt_is_a_refusal_and_not_routed_around() {
    let blocked = json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "modelVersion": "fake-model"});
    let a = FakeProvider::start(vec![GEMINI.open().event(blocked).end()]).await;
    let b = FakeProvider::start(vec![GEMINI.stream(&["never"])]).await;
    let gateway = GEMINI.over(&[&a, &b]).race("policy = \"fallback\"").start().await;
    let response = read_response(&mut GEMINI.streaming(&gateway).await).await;
    assert_eq!((response.status, response.upstream()), (400, "a/m"), "{}", response.body);
    assert_eq!(response.error_code(), "content_policy_violation");
    let rows = gateway.stop().await;
    assert!(b.requests().is_empty());
    assert_row!(rows.one("a"), json!({"outcome": "refused", "failure": "content_policy"}));
}

#[tokio::test]
async fn each_dialect_has_its_own_way_of_taking_a_key() {
    for (provider, dialect, name, value) in [
        ("gemini", Dialect::Gemini, "x-goog-api-key", "sk-a"),
        ("anthropic", Dialect::Anthropic, "x-api-key", "sk-a"),
        ("openai", Dialect::Responses, "authorization", "Bearer sk-a"),
    ] {
        let pair = Pair { surface: Surface::Chat, dialect };
        let fake = FakeProvider::answering(move |_| pair.stream(&["hi"])).await;
        let lines = format!("{}\napi_key = \"sk-a\"", pair.lines());
        let gateway = Setup::new().provider(provider, &fake, &lines).start().await;
        assert_eq!(read_response(&mut pair.streaming(&gateway).await).await.status, 200);
        let up = fake.request(0).await;
        assert_eq!(up.header(name), Some(value), "{provider}");
        assert_eq!(up.headers.iter().filter(|(_, value)| value.contains("sk-a")).count(), 1, "{provider}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_model_name_cannot_change_the_path() {
    for pair in [BEDROCK, GEMINI] {
        let fake = FakeProvider::answering(move |_| pair.stream(&["hi"])).await;
        let gateway = pair.over(&[&fake]).start().await;
        let (before, behind) = match pair.dialect {
            Dialect::Bedrock => ("/v1/model/", "/converse"),
            _ => ("/v1/models/", ":generateContent"),
        };
        for name in ["..", ".", "../../admin", "m/../x"] {
            let response =
                read_response(&mut gateway.ask(&Surface::Chat.body(&format!("a/{name}"), false)).await).await;
            assert_eq!((response.status, response.error_code().as_str()), (404, "model_not_found"), "{name}");
        }
        let names = ["m?x=1", "m#x", "m m", "m%2e%2e/x", "é", "arn:aws:bedrock:x:1:profile/us.m-v1:0", "m&key=1"];
        for (number, name) in names.into_iter().enumerate() {
            let response =
                read_response(&mut gateway.ask(&Surface::Chat.body(&format!("a/{name}"), false)).await).await;
            assert_eq!(response.status, 200, "{name}: {}", response.body);
            let path = fake.request(number).await.path;
            let inner = path.strip_prefix(before).and_then(|path| path.strip_suffix(behind));
            let inner = inner.unwrap_or_else(|| panic!("{name}: {path}"));
            assert!(!inner.contains(['?', '#', ' ', '&']) && inner.is_ascii(), "{name}: {path}");
            assert!(inner.split('/').all(|part| !["..", ".", ""].contains(&part)), "{name}: {path}");
        }
        gateway.stop().await;
    }
}

/// A server that does not stream, whatever the request.
#[tokio::test]
async fn an_answer_that_comes_whole_is_translated_too() {
    let gemini = json!({
        "candidates": [{"content": {"role": "model", "parts": [{"text": "whole"}]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 2}, "modelVersion": "fake-model",
    });
    let anthropic = json!({
        "id": "msg", "type": "message", "role": "assistant", "model": "fake-model", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "whole"}], "usage": {"input_tokens": 10, "output_tokens": 2},
    });
    let ollama = json!({
        "model": "fake-model", "message": {"role": "assistant", "content": "whole"}, "done": true, "done_reason": "stop",
        "prompt_eval_count": 10, "eval_count": 2,
    });
    let bedrock = json!({
        "output": {"message": {"role": "assistant", "content": [{"text": "whole"}]}}, "stopReason": "end_turn",
        "usage": {"inputTokens": 10, "outputTokens": 2, "totalTokens": 12},
    });
    for surface in Surface::ALL {
        for (dialect, body) in [
            (Dialect::Gemini, &gemini),
            (Dialect::Anthropic, &anthropic),
            (Dialect::Ollama, &ollama),
            (Dialect::Bedrock, &bedrock),
        ] {
            let pair = Pair { surface, dialect };
            let text = body.to_string();
            let fake = FakeProvider::answering(move |_| Script::status(200, &[], &text)).await;
            let gateway = pair.over(&[&fake]).start().await;
            let streamed = read_response(&mut pair.streaming(&gateway).await).await;
            surface.assert_complete(&streamed);
            assert_eq!(surface.streamed_text(&streamed), "whole", "{pair:?}");
            let whole = read_response(&mut pair.whole(&gateway).await).await.json();
            assert_eq!(
                (surface.whole_text(&whole).as_str(), surface.whole_usage(&whole)),
                ("whole", (10, 2)),
                "{pair:?}"
            );
            let rows = gateway.stop().await;
            assert!(rows.attempts.iter().all(|row| row["outcome"] == "won"), "{pair:?} {rows:#?}");
        }
    }
}
