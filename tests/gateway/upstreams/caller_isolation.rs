//! A failure that one caller's request can provoke does not affect the provider for other callers.

use serde_json::{Value, json};

use crate::harness::answer::{Response, read_response};
use crate::harness::gateway::{CHAT, Setup, TestGateway};
use crate::support::{FakeProvider, Request, Script};

const USERS: &str = "[users.ann]\ntoken = \"ann-token\"\n[users.bob]\ntoken = \"bob-token\"\n";
/// Open for longer than any test lasts.
const BREAKER: &str = "breaker = { failures = 3, open = \"1h\", open_max = \"3h\" }";

fn good() -> Script {
    Script::stream(&["hello"])
}

async fn ask_as(gateway: &TestGateway, user: &str, body: &Value) -> Response {
    let token = format!("Bearer {user}-token");
    read_response(&mut gateway.request(CHAT, &[("authorization", &token)], body).await).await
}

fn says(text: &str) -> Value {
    json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": text}]})
}

/// Answers `bad` to requests with "poison", and well to all others.
async fn poisoned(bad: Script) -> FakeProvider {
    let is_poison = |request: &Request| request.json().to_string().contains("poison");
    FakeProvider::answering(move |request| if is_poison(request) { bad.clone() } else { good() }).await
}

#[tokio::test]
async fn a_failure_that_one_request_caused_cools_down_no_upstream() {
    for (status, body) in [
        (
            402,
            r#"{"error":{"message":"This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, but can only afford 9000.","code":402}}"#,
        ),
        (
            404,
            r#"{"error":{"message":"Previous response with id 'r' not found.","code":"previous_response_not_found"}}"#,
        ),
        (404, r#"{"error":{"message":"Container with id 'the model does not exist' not found."}}"#),
        (404, r#"{"error":{"message":"No such File object: file-1"}}"#),
        (404, r#"{"error":{"message":"No endpoints found matching your data policy","code":404}}"#),
        (403, r#"{"error":{"message":"Error 403 while downloading the image"}}"#),
        (403, r#"{"error":{"message":"CachedContent not found (or permission denied)","status":"PERMISSION_DENIED"}}"#),
        (
            429,
            r#"{"error":{"message":"Request too large for m on tokens per min (TPM): Limit 30000, Requested 90000."}}"#,
        ),
    ] {
        let fake = poisoned(Script::status(status, &[], body)).await;
        let gateway = Setup::new().provider("a", &fake, "api_key = \"sk-one\"").start().await;
        for _ in 0..6 {
            let response = read_response(&mut gateway.ask(&says("poison")).await).await;
            assert_eq!(
                (response.status, response.body.as_str()),
                (status, body),
                "its own answer is the client's to see"
            );
        }
        assert_eq!(read_response(&mut gateway.ask(&says("good")).await).await.streamed_text(), "hello", "{body}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn an_ambiguous_refusal_counts_after_several_bodies_and_callers() {
    for bad in [
        Script::status(403, &[], "<html><title>Attention Required!</title></html>"),
        Script::status(403, &[], r#"{"error":{"message":"no","type":"permission_error"}}"#),
        Script::status(404, &[], r#"{"detail":"Not Found"}"#),
        Script::status(501, &[], r#"{"error":"not here"}"#),
    ] {
        let fake = poisoned(bad).await;
        let gateway = Setup::new().provider("a", &fake, "api_key = \"sk-one\"").table(USERS).start().await;
        for number in 0..8 {
            assert_eq!(ask_as(&gateway, "ann", &says(&format!("poison {number}"))).await.status, 502);
        }
        assert_eq!(ask_as(&gateway, "bob", &says("good")).await.streamed_text(), "hello", "one caller alone");
        for (user, text) in [("ann", "poison 1"), ("ann", "poison 2"), ("bob", "poison 3")] {
            assert_eq!(ask_as(&gateway, user, &says(text)).await.status, 502);
        }
        let response = ask_as(&gateway, "bob", &says("good")).await;
        assert_eq!(
            (response.status, response.error_code().as_str()),
            (502, "photofinish_upstream_refused"),
            "both met it"
        );
        let message = response.json()["error"]["attempts"][0]["message"].as_str().unwrap().to_owned();
        let wait: u64 = message.split(' ').find_map(|word| word.strip_suffix("s:")?.parse().ok()).unwrap();
        assert!((1..=10).contains(&wait), "seconds at first: {message}");
        assert_eq!(fake.requests().len(), 12);
        gateway.stop().await;
    }
}

#[tokio::test]
async fn one_caller_cannot_open_a_breaker_for_others() {
    let bad = poisoned(Script::status(500, &[], "{}")).await;
    let other = FakeProvider::answering(|_| good()).await;
    let setup = Setup::over(&[&bad, &other]).race("policy = \"fallback\"").race(BREAKER).table(USERS);
    let gateway = setup.start().await;
    for _ in 0..6 {
        assert_eq!(ask_as(&gateway, "ann", &says("poison")).await.upstream(), "b/m");
    }
    assert_eq!(bad.requests().len(), 3, "left out for the caller who met it");
    assert_eq!(ask_as(&gateway, "bob", &says("good")).await.upstream(), "a/m", "and for no other caller");
    for user in ["ann", "ann", "bob"] {
        assert_eq!(ask_as(&gateway, user, &says("poison")).await.upstream(), "b/m");
    }
    assert_eq!(ask_as(&gateway, "bob", &says("good")).await.upstream(), "b/m", "two callers met it");
    gateway.stop().await;
}

#[tokio::test]
async fn a_failure_that_no_request_can_cause_opens_the_breaker_for_all() {
    let nobody = FakeProvider::answering(|_| good()).await;
    let address = nobody.base_url();
    drop(nobody);
    let other = FakeProvider::answering(|_| good()).await;
    let setup = Setup::new().provider_at("a", &address, "").provider("b", &other, "");
    let gateway = setup.race("policy = \"fallback\"").race(BREAKER).table(USERS).start().await;
    for _ in 0..3 {
        let response = ask_as(&gateway, "ann", &says("x")).await;
        assert_eq!((response.upstream(), response.header("x-photofinish-attempts")), ("b/m", "2"));
    }
    let response = ask_as(&gateway, "bob", &says("x")).await;
    assert_eq!((response.upstream(), response.header("x-photofinish-attempts")), ("b/m", "1"), "left out");
    gateway.stop().await;
}

#[tokio::test]
async fn breakers_are_per_surface() {
    let fake = FakeProvider::answering(|request| match request.path.ends_with("/embeddings") {
        true => Script::status(500, &[], "{}"),
        false => good(),
    })
    .await;
    let other = FakeProvider::answering(|_| good()).await;
    let setup = Setup::over(&[&fake, &other]).race("policy = \"fallback\"").race(BREAKER);
    let gateway = setup.start().await;
    for _ in 0..5 {
        let body = json!({"model": "m", "input": "x"});
        read_response(&mut gateway.post("/v1/embeddings", &body).await).await;
    }
    assert_eq!(read_response(&mut gateway.ask(&says("x")).await).await.upstream(), "a/m");
    gateway.stop().await;
}

#[tokio::test]
async fn a_failure_of_all_attempts_is_not_held_against_upstreams() {
    let (a, b) = (poisoned(Script::status(500, &[], "{}")).await, poisoned(Script::status(503, &[], "{}")).await);
    let c = poisoned(Script::status(500, &[], "{}")).await;
    let setup = Setup::over(&[&a, &c]).race("policy = \"fallback\"").race(BREAKER);
    let gateway = setup.start().await;
    for _ in 0..5 {
        assert_eq!(read_response(&mut gateway.ask(&says("poison")).await).await.status, 502);
    }
    let response = read_response(&mut gateway.ask(&says("good")).await).await;
    assert_eq!((response.upstream(), a.requests().len()), ("a/m", 6));
    gateway.stop().await;
    let gateway = Setup::over(&[&b, &c]).race("policy = \"fallback\"").race(BREAKER).start().await;
    for _ in 0..5 {
        assert_eq!(read_response(&mut gateway.ask(&says("poison")).await).await.status, 502);
    }
    let rows = gateway.stop().await;
    assert_eq!(rows.attempts.iter().filter(|row| row["failure"] == "overloaded").count(), 5, "all run, none is left");
}

#[tokio::test]
async fn after_a_401_the_next_error_says_that_the_key_was_refused() {
    let fake =
        FakeProvider::answering(|_| Script::status(401, &[], r#"{"error":{"message":"Incorrect API key"}}"#)).await;
    let gateway = Setup::new().provider("a", &fake, "api_key = \"sk-one\"").start().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.error_code(), "photofinish_all_failed");
    for streaming in [true, false] {
        let response =
            read_response(&mut gateway.ask(&json!({"model": "m", "stream": streaming, "messages": [{}]})).await).await;
        assert_eq!((response.status, response.error_code().as_str()), (502, "photofinish_upstream_refused"));
        let message = response.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("a/m") && message.contains("refused its key (401, unauthorized)"), "{message}");
        assert!(!response.body.contains("rate limit"), "{}", response.body);
        assert_eq!(response.header("retry-after"), "", "waiting mends no key");
        let attempt = &response.json()["error"]["attempts"][0];
        assert_eq!((&attempt["upstream"], &attempt["failure"]), (&json!("a/m"), &json!("cooling_down")));
    }
    gateway.stop().await;
    assert_eq!(fake.requests().len(), 1);
}

#[tokio::test]
async fn a_caller_s_own_refused_key_leaves_the_upstream_to_others() {
    let refusal = || Script::status(401, &[], r#"{"error":{"message":"Incorrect API key"}}"#);
    // Instead of a shared key, and in a forwarded header to a provider for which the gateway has none.
    let forwarded = "forward_headers = [\"x-user-key\"]";
    for (provider, own, good_key) in
        [("api_key = \"sk-shared\"", "x-photofinish-key-a", None), (forwarded, "x-user-key", Some("good"))]
    {
        let fake = FakeProvider::answering(move |request: &Request| {
            let is_bad = |name| request.header(name).is_some_and(|value| value.ends_with("bad"));
            if is_bad("authorization") || is_bad("x-user-key") { refusal() } else { good() }
        })
        .await;
        let gateway = Setup::new().provider("a", &fake, provider).table(USERS).start().await;
        let ask = async |user: &str, key: Option<&str>| {
            let token = format!("Bearer {user}-token");
            let mut headers = vec![("authorization", token.as_str())];
            headers.extend(key.map(|key| (own, key)));
            read_response(&mut gateway.request(CHAT, &headers, &says("x")).await).await
        };
        for _ in 0..6 {
            assert_ne!(ask("ann", Some("bad")).await.status, 200, "{provider}");
        }
        for user in ["bob", "ann"] {
            assert_eq!(ask(user, good_key).await.streamed_text(), "hello", "{provider}: {user}");
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_key_in_a_provider_s_error_does_not_reach_the_client() {
    let headers = [
        ("x-request-id", "req-sk-planted/1"),
        ("x-ratelimit-limit-requests", "sk-planted%2F1"),
        ("x-echo", "sk-planted/1"),
        ("content-type", "application/json"),
    ];
    let body = r#"{"error":{"message":"bad \u0073k-planted\/1 at http://h/?key=sk-planted%2f1"}}"#;
    for status in [400, 401, 500] {
        let fake = FakeProvider::start(vec![Script::status(status, &headers, body)]).await;
        let gateway = Setup::new().provider("a", &fake, "api_key = \"sk-planted/1\"").start().await;
        let response = read_response(&mut gateway.streaming().await).await;
        let all = format!("{:?} {}", response.headers, response.body);
        assert!(!all.contains("planted"), "{all}");
        gateway.stop().await;
    }
    let event_stream = [&headers[..3], &[("content-type", "text/event-stream")]].concat();
    let script = Script::new().head(200, &event_stream).role().token("hello").finish("stop").done().end();
    let fake = FakeProvider::start(vec![script]).await;
    let gateway = Setup::new().provider("a", &fake, "api_key = \"sk-planted/1\"").start().await;
    let response = read_response(&mut gateway.streaming().await).await;
    assert_eq!((response.streamed_text().as_str(), response.header("x-request-id")), ("hello", "req-***"));
    assert_eq!((response.header("x-echo"), response.header("x-ratelimit-limit-requests")), ("", "***"));
    gateway.stop().await;
}
