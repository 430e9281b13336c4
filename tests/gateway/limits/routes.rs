//! No route reaches a provider past the gate.

use serde_json::json;

use super::{ANN, priced, usage, user};
use crate::harness::answer::read_response;
use crate::harness::gateway::TestGateway;
use crate::harness::surface::Surface;
use crate::support::{FakeProvider, RawClient, Script};

/// A body that the call of this path takes.
fn body(path: &str) -> String {
    if let Some(surface) = Surface::ALL.into_iter().find(|surface| surface.path() == path) {
        return surface.body("m", false).to_string();
    }
    json!({
        "model": "m", "messages": [{"role": "user", "content": "x"}], "input": "x", "prompt": "x", "query": "x", "documents": ["x"],
        "voice": "x", "max_tokens": 5, "contents": [{"role": "user", "parts": [{"text": "x"}]}],
        "content": {"parts": [{"text": "x"}]},
    })
    .to_string()
}

/// The path with something for each of its parameters.
fn filled(path: &str) -> String {
    match path {
        "/v1beta/models/{*call}" => "/v1beta/models/m:generateContent".to_owned(),
        "/openai/deployments/{*call}" => "/openai/deployments/m/chat/completions".to_owned(),
        "/providers/{*path}" => "/providers/a/anything".to_owned(),
        path => path.replace("{*path}", "x").replace("{*id}", "m").replace("{*page}", "x").replace(['{', '}'], "x"),
    }
}

async fn ask(gateway: &TestGateway, method: &str, path: &str) -> u16 {
    let mut client = RawClient::connect(gateway.addr()).await;
    let headers = [("x-api-key", "token-of-ann"), ("content-type", "application/json")];
    client.request(method, path, &headers, body(path)).await;
    read_response(&mut client).await.status
}

/// Counts tokens only.
fn is_free(path: &str) -> bool {
    path.ends_with("count_tokens") || path.ends_with("input_tokens")
}

#[tokio::test]
async fn no_route_reaches_a_provider_without_the_gate() {
    let fake = FakeProvider::answering(|_| Script::status(200, &[("content-type", "application/json")], "{}")).await;
    let setup = |limits: &str| {
        let tables = format!("{ANN}overrides = true\n{limits}");
        priced(&[&fake], &tables).server("files = \"a\"\nwebsocket = false")
    };
    let (open, spent) = (setup("").start().await, setup("rpm = { requests = 1, burst = 1 }").start().await);
    ask(&spent, "POST", "/v1/chat/completions").await;
    let mut reaching = Vec::new();
    for path in photofinish_serve::server::paths().into_iter().filter(|path| *path != "/api/live") {
        for method in ["GET", "POST", "DELETE"] {
            let path = filled(path);
            let before = fake.requests().len();
            let status = ask(&spent, method, &path).await;
            assert!(fake.requests().len() == before || is_free(&path), "{method} {path}: {status}");
            let left = usage(&spent, &user("ann")).requests.map(|rate| rate.left);
            assert_eq!(left, Some(0), "{method} {path}");
            ask(&open, method, &path).await;
            if fake.requests().len() > before {
                assert!(status == 429 || is_free(&path), "{method} {path}: {status}");
                reaching.push(path);
            }
        }
    }
    // Else the walk would show nothing.
    for path in [
        "/v1/messages",
        "/v1/embeddings",
        "/v1/files/x",
        "/providers/a/anything",
        "/v1beta/models/m:generateContent",
        "/v1/responses",
        "/api/chat",
    ] {
        assert!(reaching.iter().any(|reached| reached == path), "{path}: {reaching:?}");
    }
    assert!(reaching.len() > 20, "{reaching:?}");
}
