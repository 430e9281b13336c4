//! What only one vendor does: AWS's binary frames and signatures, Google's blocked prompts, and keys in headers of their own.

use serde_json::json;

use crate::harness::answer::{end, hear};
use crate::harness::gateway::{Setup, pick};
use crate::harness::matrix::Pair;
use crate::harness::surface::Called;
use crate::support::{Dialect, FakeProvider, Script, frame};

const BEDROCK: Pair = Pair { called: Called::Chat, dialect: Dialect::Bedrock };
const GEMINI: Pair = Pair { called: Called::Chat, dialect: Dialect::Gemini };

#[tokio::test]
async fn a_damaged_frame_is_no_answer() {
    let mut damaged = frame("contentBlockDelta", &json!({"contentBlockIndex": 0, "delta": {"text": "hello"}})).to_vec();
    let at = damaged.len() - 10;
    damaged[at] ^= 1;
    let a = FakeProvider::start(vec![BEDROCK.open().role().chunk(damaged).until_closed()]).await;
    let b = FakeProvider::start(vec![BEDROCK.stream(&["hello"])]).await;
    let gateway = BEDROCK.over(&[&a, &b]).race("policy = \"fallback\"").start().await;
    let heard = hear(&mut BEDROCK.streaming(&gateway).await).await;
    assert_eq!((heard.upstream(), heard.said().as_str()), ("b/m", "hello"));
    a.closed(0).await;
    let rows = gateway.stop().await;
    assert_eq!(end(rows.one("a")), json!(["failed", null, null, "malformed", "first_token"]));
}

#[tokio::test]
async fn an_exception_is_what_it_names() {
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
        assert_eq!(hear(&mut BEDROCK.streaming(&gateway).await).await.upstream(), "b/m");
        let rows = gateway.stop().await;
        assert_eq!(end(rows.one("a")), json!(["failed", null, null, failure, "first_token"]), "{name}");
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
        let heard = hear(&mut gateway.ask(&Called::Chat.body(&format!("{provider}/{model}"), false)).await).await;
        assert_eq!(heard.status, 200, "{}", heard.body);
        let up = fake.request(number).await;
        assert_eq!(up.path, "/v1/model/anthropic.claude-x%3A0/converse-stream");
        assert!(up.header("accept").is_some_and(|types| types.starts_with("application/vnd.amazon.eventstream")));
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
    let heard = hear(&mut GEMINI.streaming(&gateway).await).await;
    assert_eq!((heard.status, heard.upstream()), (400, "a/m"), "{}", heard.body);
    assert_eq!(heard.error_code(), "content_policy_violation");
    let rows = gateway.stop().await;
    assert!(b.requests().is_empty());
    assert_eq!(pick(rows.one("a"), &["outcome", "failure"]), json!(["refused", "content_policy"]));
}

#[tokio::test]
async fn each_dialect_has_its_own_way_of_taking_a_key() {
    for (provider, dialect, name, value) in [
        ("gemini", Dialect::Gemini, "x-goog-api-key", "sk-a"),
        ("anthropic", Dialect::Anthropic, "x-api-key", "sk-a"),
        ("openai", Dialect::Responses, "authorization", "Bearer sk-a"),
    ] {
        let pair = Pair { called: Called::Chat, dialect };
        let fake = FakeProvider::answering(move |_| pair.stream(&["hi"])).await;
        let lines = format!("{}\napi_key = \"sk-a\"", pair.lines());
        let gateway = Setup::new().provider(provider, &fake, &lines).start().await;
        assert_eq!(hear(&mut pair.streaming(&gateway).await).await.status, 200);
        let up = fake.request(0).await;
        assert_eq!(up.header(name), Some(value), "{provider}");
        assert_eq!(up.headers.iter().filter(|(_, value)| value.contains("sk-a")).count(), 1, "{provider}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_model_s_name_leads_nowhere_else() {
    for pair in [BEDROCK, GEMINI] {
        let fake = FakeProvider::answering(move |_| pair.stream(&["hi"])).await;
        let gateway = pair.over(&[&fake]).start().await;
        let (before, behind) = match pair.dialect {
            Dialect::Bedrock => ("/v1/model/", "/converse-stream"),
            _ => ("/v1/models/", ":streamGenerateContent?alt=sse"),
        };
        for name in ["..", ".", "../../admin", "m/../x"] {
            let heard = hear(&mut gateway.ask(&Called::Chat.body(&format!("a/{name}"), false)).await).await;
            assert_eq!((heard.status, heard.error_code().as_str()), (404, "photofinish_unknown_model"), "{name}");
        }
        let names = ["m?x=1", "m#x", "m m", "m%2e%2e/x", "é", "arn:aws:bedrock:x:1:profile/us.m-v1:0", "m&key=1"];
        for (number, name) in names.into_iter().enumerate() {
            let heard = hear(&mut gateway.ask(&Called::Chat.body(&format!("a/{name}"), false)).await).await;
            assert_eq!(heard.status, 200, "{name}: {}", heard.body);
            let path = fake.request(number).await.path;
            let inner = path.strip_prefix(before).and_then(|path| path.strip_suffix(behind));
            let inner = inner.unwrap_or_else(|| panic!("{name}: {path}"));
            assert!(!inner.contains(['?', '#', ' ', '&']) && inner.is_ascii(), "{name}: {path}");
            assert!(inner.split('/').all(|part| !["..", ".", ""].contains(&part)), "{name}: {path}");
        }
        gateway.stop().await;
    }
}

/// A server that does not stream, whatever it was asked.
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
    for called in Called::ALL {
        for (dialect, body) in [
            (Dialect::Gemini, &gemini),
            (Dialect::Anthropic, &anthropic),
            (Dialect::Ollama, &ollama),
            (Dialect::Bedrock, &bedrock),
        ] {
            let pair = Pair { called, dialect };
            let text = body.to_string();
            let fake = FakeProvider::answering(move |_| Script::status(200, &[], &text)).await;
            let gateway = pair.over(&[&fake]).start().await;
            let streamed = hear(&mut pair.streaming(&gateway).await).await;
            called.assert_complete(&streamed);
            assert_eq!(called.said(&streamed), "whole", "{pair:?}");
            let whole = hear(&mut pair.whole(&gateway).await).await.json();
            assert_eq!(
                (called.whole_text(&whole).as_str(), called.whole_usage(&whole)),
                ("whole", (10, 2)),
                "{pair:?}"
            );
            let rows = gateway.stop().await;
            assert!(rows.attempts.iter().all(|row| row["outcome"] == "won"), "{pair:?} {rows:#?}");
        }
    }
}
