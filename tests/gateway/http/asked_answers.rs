//! Answers that come whole and are not what was asked for: each surface alone, and raced against a slower right answer.

use serde_json::{Value, json};

use crate::harness::answer::read_response;
use crate::harness::gateway::{Setup, assert_row};
use crate::support::{FakeProvider, Gate, Script};

/// What vendors and proxies write into a 200 in place of an answer, and what says nothing.
const WRONG: [&str; 7] = [
    r#"{"detail":"batch too large"}"#,
    r#"{"code":500,"message":"busy"}"#,
    r#"{"success":false}"#,
    r#"{"object":"error","message":"no","type":"BadRequestError","code":500}"#,
    r#"{"error":{"message":"no"}}"#,
    "{}",
    r#"{"data":[]}"#,
];

/// Path, request, right answer, and a wrong one of its own.
fn cases() -> Vec<(&'static str, Value, &'static str, &'static str)> {
    let content = json!({"parts": [{"text": "a"}]});
    vec![
        (
            "/v1/embeddings",
            json!({"model": "m", "input": ["a", "b", "c"]}),
            r#"{"data":[{"embedding":[1]},{"embedding":[1]},{"embedding":[1]}]}"#,
            r#"{"data":[{"embedding":[1]},{"embedding":[1]}]}"#,
        ),
        (
            "/api/embed",
            json!({"model": "m", "input": "a", "dimensions": 1}),
            r#"{"embeddings":[[1]]}"#,
            r#"{"embeddings":[[1,2]]}"#,
        ),
        ("/api/embeddings", json!({"model": "m", "prompt": "a"}), r#"{"embedding":[1]}"#, r#"{"embedding":[]}"#),
        (
            "/v1beta/models/m:embedContent",
            json!({"content": content}),
            r#"{"embedding":{"values":[1]}}"#,
            r#"{"embedding":{"values":[]}}"#,
        ),
        (
            "/v1beta/models/m:batchEmbedContents",
            json!({"requests": [{"content": content}, {"content": content}]}),
            r#"{"embeddings":[{"values":[1]},{"values":[2]}]}"#,
            r#"{"embeddings":[{"values":[1]}]}"#,
        ),
        (
            "/v1/rerank",
            json!({"model": "m", "query": "q", "documents": ["a", "b"]}),
            r#"{"results":[{"index":1,"relevance_score":0.5}]}"#,
            r#"{"results":[{"index":2,"relevance_score":0.5}]}"#,
        ),
        (
            "/v1/moderations",
            json!({"model": "m", "input": ["a", "b"]}),
            r#"{"results":[{"flagged":true},{"flagged":false}]}"#,
            r#"{"results":[{"flagged":true}]}"#,
        ),
        (
            "/v1/images/generations",
            json!({"model": "m", "prompt": "a", "response_format": "b64_json"}),
            r#"{"data":[{"b64_json":"AA=="}]}"#,
            r#"{"data":[{"url":"https://x"}]}"#,
        ),
        ("/v1/audio/transcriptions", json!({"model": "m"}), r#"{"text":""}"#, r#"{"text":null}"#),
        (
            "/v1/audio/speech",
            json!({"model": "m", "input": "x", "voice": "v"}),
            "ID3",
            r#"{"status":"failed","message":"x"}"#,
        ),
    ]
}

fn answer(body: &str) -> Script {
    let content_type = if body.starts_with('{') { "application/json" } else { "audio/mpeg" };
    Script::status(200, &[("content-type", content_type)], body)
}

#[tokio::test]
async fn a_wrong_answer_never_wins() {
    for (path, ask, right, own) in cases() {
        let dialect = match path {
            path if path.starts_with("/v1beta") => "dialect = \"gemini\"",
            path if path.starts_with("/api") => "dialect = \"ollama\"",
            _ => "dialect = \"openai\"",
        };
        for wrong in WRONG.into_iter().chain([own]) {
            let failed = Gate::new();
            let a = FakeProvider::answering(move |_| answer(wrong)).await;
            let b = FakeProvider::answering({
                let failed = failed.clone();
                move |_| Script::new().wait(&failed).then(answer(right))
            })
            .await;
            let setup = Setup::new().provider("a", &a, dialect).provider("b", &b, dialect);
            let gateway = setup.race("policy = \"race\"\nretries = 0").start().await;
            let mut client = gateway.post(path, &ask).await;
            b.request(0).await;
            a.request(0).await;
            failed.open();
            let raced = read_response(&mut client).await;
            assert_eq!((raced.status, raced.upstream(), raced.body.as_str()), (200, "b/m", right), "{path} {wrong}");
            let (alone, named) = (path.replace("/m:", "/a/m:"), {
                let mut named = ask.clone();
                named["model"] = json!("a/m");
                named
            });
            let alone = read_response(&mut gateway.post(&alone, &named).await).await;
            assert_ne!(alone.status, 200, "{path} {wrong}: {}", alone.body);
            let rows = gateway.stop().await;
            assert_row!(&rows.races[0], json!({"outcome": "ok"}));
            let wins = rows.attempts.iter().filter(|row| row["outcome"] == "won").count();
            assert_eq!(wins, 1, "{path} {wrong}");
        }
    }
}
