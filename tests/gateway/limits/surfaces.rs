//! Every surface counts alike; questions about tokens and models do not count.

use serde_json::{Value, json};

use super::{ANN, TOKEN, get, priced, send, spent, usage, user};
use crate::harness::answer::read_response;
use crate::harness::surface::Surface;
use crate::support::{FakeProvider, Script};

const WHOLE: &str = r#"{"id":"1","object":"list","model":"m","created":1,"data":[{"object":"embedding","index":0,"embedding":[0.5],"url":"u"}],
    "results":[{"index":0,"score":1}],"input_tokens":1,"totalTokens":1,"text":"x","choices":[{"index":0,"text":"x","message":{"role":"assistant","content":"x"},"finish_reason":"stop"}],
    "usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}"#;

async fn answering() -> FakeProvider {
    FakeProvider::answering(|request| match String::from_utf8_lossy(&request.body).contains("\"stream\":true") {
        true => Script::sse().role().token("x").finish("stop").usage(10, 5).done().end(),
        false => Script::status(200, &[("content-type", "application/json")], WHOLE),
    })
    .await
}

#[tokio::test]
async fn one_request_is_one_whatever_the_surface() {
    let fake = answering().await;
    let tables = format!(
        "{ANN}overrides = true\nrpm = {{ requests = 1, burst = 1000 }}\ntpm = 1000000\nstreams = 5\nbudget.day = 5\nunpriced = \"free\""
    );
    let gateway = priced(&[&fake], &tables).start().await;
    let mut calls: Vec<(String, Value, bool)> = Vec::new();
    for surface in Surface::ALL {
        for stream in [true, false] {
            calls.push((surface.path_for("m", stream), surface.body("m", stream), true));
        }
    }
    let prompt = json!({"model": "m", "prompt": "x"});
    calls.extend([
        ("/v1/completions".to_owned(), prompt.clone(), true),
        ("/api/generate".to_owned(), json!({"model": "m", "prompt": "x", "stream": false}), true),
        ("/openai/deployments/m/chat/completions".to_owned(), Surface::Chat.body("m", false), true),
        ("/v1/embeddings".to_owned(), json!({"model": "m", "input": "x"}), false),
        ("/v1/rerank".to_owned(), json!({"model": "m", "query": "x", "documents": ["x"]}), false),
        ("/v1/moderations".to_owned(), json!({"model": "m", "input": "x"}), false),
        ("/v1/images/generations".to_owned(), prompt, false),
        ("/v1/audio/speech".to_owned(), json!({"model": "m", "input": "x", "voice": "x"}), false),
        ("/providers/a/anything".to_owned(), json!({}), false),
    ]);
    for (number, (path, body, is_answer)) in calls.iter().enumerate() {
        let before = spent(&gateway, &user("ann")).await;
        let response = read_response(&mut send(&gateway, "ann", path, body).await).await;
        assert_eq!(response.status, 200, "{path}: {}", response.body);
        let cost = spent(&gateway, &user("ann")).await - before;
        let used = usage(&gateway, &user("ann"));
        let left = usize::try_from(used.requests.unwrap().left).unwrap();
        assert_eq!(left, 999 - number, "{path}");
        assert_eq!(used.streams.0, 0, "{path}");
        assert!(!is_answer || cost == 5 * TOKEN, "{path}: {cost}");
    }
    assert_eq!(fake.requests().len(), calls.len());
}

#[tokio::test]
async fn questions_about_tokens_and_models_do_not_count() {
    let fake = answering().await;
    let gateway = priced(&[&fake], &format!("{ANN}rpm = 1\nbudget.day = 1")).start().await;
    let chat = Surface::Chat.body("m", false);
    assert_eq!(read_response(&mut send(&gateway, "ann", Surface::Chat.path(), &chat).await).await.status, 200);
    assert_eq!(read_response(&mut send(&gateway, "ann", Surface::Chat.path(), &chat).await).await.status, 429);
    for _ in 0..3 {
        let counted = read_response(&mut send(&gateway, "ann", "/v1/messages/count_tokens", &chat).await).await;
        assert_eq!(counted.status, 200, "{}", counted.body);
        let path = "/v1beta/models/m:countTokens";
        let counted = read_response(&mut send(&gateway, "ann", path, &Surface::Gemini.body("m", false)).await).await;
        assert_eq!(counted.status, 200, "{}", counted.body);
        for list in ["/v1/models", "/v1/models/m", "/v1beta/models", "/api/tags"] {
            assert_eq!(get(&gateway, "ann", list).await.status, 200, "{list}");
        }
    }
    assert_eq!(usage(&gateway, &user("ann")).streams.0, 0);
}
