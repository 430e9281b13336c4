//! `models` and `deny`: names, aliases, upstreams that are named anywhere, and every list.

use serde_json::json;

use super::{ANN, BOB, answer, get, priced, send};
use crate::harness::answer::read_response;
use crate::harness::gateway::{CHAT, Setup, TestGateway};
use crate::support::{FakeProvider, Script};

const MODELS: &str =
    "[models.m]\naliases = [\"alias\"]\nupstreams = [\"a/m\", \"b/m\"]\n[models.other]\nupstreams = [\"b/x\"]";

async fn started(limits: &str) -> (TestGateway, [FakeProvider; 2]) {
    let fakes = [FakeProvider::answering(|_| answer(1)).await, FakeProvider::answering(|_| answer(1)).await];
    let tables = format!("{ANN}overrides = true\n{limits}\n{BOB}overrides = true");
    (Setup::over(&[&fakes[0], &fakes[1]]).model(MODELS).table(&tables).start().await, fakes)
}

/// Status and upstreams of an answer to this model with this header.
async fn asked(gateway: &TestGateway, name: &str, model: &str, upstreams: &str) -> (u16, String) {
    let body = json!({"model": model, "stream": true, "messages": [{"role": "user", "content": "x"}]});
    let token = format!("token-of-{name}");
    let mut headers = vec![("x-api-key", token.as_str())];
    if !upstreams.is_empty() {
        headers.push(("x-photofinish-upstreams", upstreams));
    }
    let response = read_response(&mut gateway.request(CHAT, &headers, &body).await).await;
    let seen = if response.status == 200 {
        response.header("x-photofinish-attempts").to_owned()
    } else {
        response.error_code()
    };
    (response.status, seen)
}

#[tokio::test]
async fn what_is_forbidden_is_so_under_each_name() {
    let forbidden = "photofinish_model_forbidden";
    for (limits, model, upstreams, expected) in [
        ("models = [\"m\"]", "m", "", (200, "2")),
        ("models = [\"m\"]", "alias", "", (200, "2")),
        ("models = [\"alias\"]", "m", "", (200, "2")),
        ("models = [\"m\"]", "other", "", (403, forbidden)),
        ("models = [\"m\"]", "m", "b/x", (403, forbidden)),
        ("models = [\"m\"]", "m", "b/m", (200, "1")),
        ("models = [\"m\"]", "b/x", "", (403, forbidden)),
        ("models = [\"m\"]", "b/m", "", (403, forbidden)),
        ("models = [\"a/*\"]", "m", "", (200, "1")),
        ("models = [\"a/*\"]", "a/zzz", "", (200, "1")),
        ("models = []", "m", "", (403, forbidden)),
        ("deny = [\"alias\"]", "m", "", (403, forbidden)),
        ("deny = [\"b/*\"]", "m", "", (200, "1")),
        ("deny = [\"b/*\"]", "other", "", (403, forbidden)),
        ("deny = [\"b/*\"]", "m", "b/m", (403, forbidden)),
        ("models = [\"*\"]\ndeny = [\"*\"]", "m", "", (403, forbidden)),
    ] {
        let (gateway, _fakes) = started(limits).await;
        let found = asked(&gateway, "ann", model, upstreams).await;
        assert_eq!((found.0, found.1.as_str()), expected, "{limits}: {model} {upstreams}");
        assert_eq!(asked(&gateway, "bob", model, upstreams).await.0, 200, "another user");
    }
}

#[tokio::test]
async fn the_names_in_paths_and_all_lists_follow() {
    let (gateway, fakes) = started("team = \"t\"\nmodels = [\"m\"]\n[teams.t]\ndeny = [\"b/x\"]").await;
    let gemini = json!({"contents": [{"role": "user", "parts": [{"text": "x"}]}]});
    let path = "/v1beta/models/other:generateContent";
    let refused = read_response(&mut send(&gateway, "ann", path, &gemini).await).await;
    assert_eq!((refused.status, refused.json()["error"]["status"].as_str()), (403, Some("PERMISSION_DENIED")));
    let message = refused.json()["error"]["message"].to_string();
    assert!(message.contains("the team \\\"t\\\" may not use"), "{message}");
    for (path, list, name) in [
        ("/v1/models", "data", "id"),
        ("/v1beta/models", "models", "displayName"),
        ("/api/tags", "models", "name"),
        ("/api/ps", "models", "name"),
    ] {
        let names = |json: serde_json::Value| -> Vec<String> {
            json[list].as_array().unwrap().iter().map(|one| one[name].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(get(&gateway, "ann", path).await.json()), ["m", "alias"], "{path}");
        assert_eq!(names(get(&gateway, "bob", path).await.json()), ["m", "other", "alias"], "{path}");
    }
    assert_eq!(get(&gateway, "ann", "/v1/models/other").await.status, 404);
    assert_eq!(get(&gateway, "ann", "/v1beta/models/other").await.status, 404);
    let show = json!({"model": "other"});
    assert_eq!(read_response(&mut send(&gateway, "ann", "/api/show", &show).await).await.status, 404);
    // Whatever a provider has is more than a few models.
    let passed = read_response(&mut send(&gateway, "ann", "/providers/b/chat/completions", &json!({})).await).await;
    assert_eq!(passed.error().1, "photofinish_model_forbidden");
    let counted = json!({"model": "other", "messages": [{"role": "user", "content": "x"}]});
    let counted = read_response(&mut send(&gateway, "ann", "/v1/messages/count_tokens", &counted).await).await;
    assert_eq!(counted.status, 403);
    assert!(fakes.iter().all(|fake| fake.requests().is_empty()), "nothing was sent");
}

#[tokio::test]
async fn a_caller_who_may_use_all_of_a_provider_may_use_its_paths() {
    let fake = FakeProvider::answering(|_| Script::status(200, &[], "{}")).await;
    let tables = format!("{ANN}overrides = true\nmodels = [\"a/*\"]\nrpm = 2");
    let gateway = priced(&[&fake], &tables).start().await;
    for (number, status) in [(1, 200), (2, 200), (3, 429)] {
        let passed = read_response(&mut send(&gateway, "ann", "/providers/a/anything", &json!({})).await).await;
        assert_eq!(passed.status, status, "{number}: {}", passed.body);
    }
    assert_eq!(fake.requests().len(), 2);
}
