//! The effect of each failure: which upstreams cool down, which is tried next, and what the client gets if all fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::harness::answer::{Response, advance_clock, ending, error_and_close, read_response, stream_after};
use crate::harness::gateway::{CHAT, Rows, Setup, assert_row};
use crate::harness::program::Program;
use crate::support::{FakeProvider, Gate, RawClient, Request, Script};

const TWO_KEYS: &str = "api_key = [\"sk-one\", \"sk-two\"]";

fn key(request: &Request) -> String {
    request.header("authorization").unwrap_or_default().to_owned()
}

/// Answers of two providers, tried one after the other, and what the client gets.
async fn both_fail(first: (u16, &str), second: (u16, &str)) -> (Response, Rows) {
    let a = FakeProvider::start(vec![Script::status(first.0, &[], first.1)]).await;
    let b = FakeProvider::start(vec![Script::status(second.0, &[], second.1)]).await;
    let gateway = Setup::over(&[&a, &b]).race("policy = \"fallback\"").start().await;
    let response = read_response(&mut gateway.streaming().await).await;
    (response, gateway.stop().await)
}

#[tokio::test]
async fn a_429_cools_its_key_alone() {
    let limited = |request: &Request| match request.number {
        0 | 4 => Script::status(429, &[("retry-after", "60")], r#"{"error":{"message":"slow down"}}"#),
        _ => Script::stream(&["hello"]),
    };
    let fake = FakeProvider::answering(limited).await;
    let gateway = Setup::new().provider("a", &fake, TWO_KEYS).start().await;
    let response = read_response(&mut gateway.streaming().await).await;
    assert_eq!(response.streamed_text(), "hello", "asked again at once, with the other key");
    assert_eq!(response.header("x-photofinish-attempts"), "2");
    for _ in 2..=3 {
        assert_eq!(read_response(&mut gateway.streaming().await).await.streamed_text(), "hello");
    }
    let keys: Vec<String> = fake.requests().iter().map(key).collect();
    assert_ne!(keys[0], keys[1]);
    assert!(keys[1..].iter().all(|key| *key == keys[1]), "the other key, whoever's turn it is: {keys:?}");

    let response = read_response(&mut gateway.streaming().await).await;
    assert_eq!((response.status, response.error_code().as_str()), (429, "photofinish_rate_limited"), "now both");
    assert_eq!(response.header("retry-after"), "60");
    let response = read_response(&mut gateway.streaming().await).await;
    assert_eq!((response.status, response.error_code().as_str()), (429, "photofinish_cooling_down"));
    let wait: u64 = response.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    assert_eq!(response.json()["error"]["attempts"][0]["failure"], "cooling_down");
    let rows = gateway.stop().await;
    assert_eq!(fake.requests().len(), 5);
    assert_row!(&rows.races[4], json!({"outcome": "rejected", "attempts": 0, "http_status": 429}));
    let (limited, again) = (rows.of(0)[0], rows.of(0)[1]);
    assert_eq!(ending(limited), json!({"outcome": "failed", "failure": "rate_limited", "failure_phase": "headers"}));
    assert_row!(limited, json!({"http_status": 429, "retry_after_ms": 60_000}));
    assert_ne!(limited["key_id"], again["key_id"]);
    assert_row!(again, json!({"start_reason": "retry", "outcome": "won"}));
}

/// Answers `limit` to the model `big`, and well to all others.
async fn big_is_limited(limit: &'static str) -> FakeProvider {
    FakeProvider::answering(move |request| match request.json()["model"].as_str() {
        Some("big") => Script::status(429, &[("retry-after", "60")], limit),
        _ => Script::stream(&["hello"]),
    })
    .await
}

#[tokio::test]
async fn a_429_cools_its_key_for_its_model_alone() {
    let fake = big_is_limited(r#"{"error":{"message":"Rate limit reached for big in organization org-1"}}"#).await;
    let gateway = Setup::new().provider("a", &fake, "api_key = \"sk-one\"").start().await;
    let ask = |model: &str| json!({"model": model, "stream": true, "messages": [{}]});
    assert_eq!(read_response(&mut gateway.ask(&ask("a/big")).await).await.status, 429);
    for _ in 0..8 {
        assert_eq!(
            read_response(&mut gateway.ask(&ask("a/small")).await).await.streamed_text(),
            "hello",
            "under the same key"
        );
        let response = read_response(&mut gateway.ask(&ask("a/big")).await).await;
        assert_eq!((response.status, response.error_code().as_str()), (429, "photofinish_cooling_down"));
    }
    let big = fake.requests().iter().filter(|request| request.json()["model"] == "big").count();
    assert_eq!(big, 1, "not once within its Retry-After, whatever its key serves meanwhile");
    gateway.stop().await;
}

#[tokio::test]
async fn a_429_of_the_account_cools_its_key_whatever_the_model() {
    let quota = r#"{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}"#;
    let fake = big_is_limited(quota).await;
    let gateway = Setup::new().provider("a", &fake, "api_key = \"sk-one\"").start().await;
    let ask = |model: &str| json!({"model": model, "stream": true, "messages": [{}]});
    assert_eq!(read_response(&mut gateway.ask(&ask("a/big")).await).await.status, 429);
    let response = read_response(&mut gateway.ask(&ask("a/small")).await).await;
    assert_eq!((response.status, response.error_code().as_str()), (429, "photofinish_cooling_down"));
    gateway.stop().await;
    assert_eq!(fake.requests().len(), 1);
}

#[tokio::test]
async fn the_only_upstream_is_asked_every_few_seconds_and_other_requests_get_the_reason() {
    for (status, body, failure, why) in [
        (401, r#"{"error":{"message":"Incorrect API key"}}"#, "unauthorized", "refused its key (401"),
        (403, r#"{"error":{"message":"Your account was deactivated"}}"#, "forbidden", "no access or no credit"),
        (404, r#"{"error":{"message":"no such model"}}"#, "not_found", "does not have its model"),
    ] {
        let mended = Arc::new(AtomicBool::new(false));
        let is_mended = mended.clone();
        let fake = FakeProvider::answering(move |_| match is_mended.load(Ordering::Relaxed) {
            true => Script::stream(&["hello"]),
            false => Script::status(status, &[], body),
        })
        .await;
        let gateway = Setup::new().provider("a", &fake, "api_key = \"sk-one\"").start().await;
        // More often than a cooldown allows if the model has other upstreams.
        for asked in 1..=8 {
            let response = read_response(&mut gateway.streaming().await).await;
            assert_eq!((response.status, response.error_code().as_str()), (502, "photofinish_all_failed"), "{status}");
            let attempt = &response.json()["error"]["attempts"][0];
            assert_eq!((&attempt["failure"], &attempt["status"]), (&json!(failure), &json!(status)));
            for _ in 0..3 {
                let response = read_response(&mut gateway.streaming().await).await;
                assert_eq!((response.status, response.error_code().as_str()), (502, "photofinish_upstream_refused"));
                assert!(response.json()["error"]["message"].as_str().unwrap().contains(why), "{}", response.body);
            }
            assert_eq!(fake.requests().len(), asked);
            advance_clock(Duration::from_secs(5)).await;
        }
        mended.store(true, Ordering::Relaxed);
        for _ in 0..3 {
            assert_eq!(read_response(&mut gateway.streaming().await).await.streamed_text(), "hello", "{status}");
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_refused_key_is_cooled_down() {
    let refused = |request: &Request| match request.number {
        0 | 4 => Script::status(401, &[], &format!(r#"{{"error":{{"message":"bad key {}"}}}}"#, key(request))),
        _ => Script::stream(&["hello"]),
    };
    let fake = FakeProvider::answering(refused).await;
    let gateway = Setup::new().provider("a", &fake, TWO_KEYS).start().await;
    for _ in 0..3 {
        assert_eq!(read_response(&mut gateway.streaming().await).await.streamed_text(), "hello");
    }
    let response = read_response(&mut gateway.streaming().await).await;
    assert_eq!((response.status, response.error_code().as_str()), (502, "photofinish_all_failed"), "now both");
    assert!(!response.body.contains("sk-"), "a key that the provider quotes: {}", response.body);
    assert_eq!(response.json()["error"]["attempts"][0]["failure"], "unauthorized");
    let keys: Vec<String> = fake.requests().iter().map(key).collect();
    assert!(keys[1..].iter().all(|key| *key != keys[0]), "{keys:?}");
    let rows = gateway.stop().await;
    assert_eq!(
        ending(&rows.attempts[0]),
        json!({"outcome": "failed", "failure": "unauthorized", "failure_phase": "headers"})
    );
    assert_row!(&rows.attempts[1], json!({"start_reason": "retry", "outcome": "won"}));
}

#[tokio::test]
async fn a_refused_key_is_logged() {
    let fake = FakeProvider::start(vec![Script::status(401, &[], r#"{"error":"bad key sk-one"}"#)]).await;
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("config.toml");
    let setup = Setup::new().provider("a", &fake, "api_key = \"sk-one\"");
    std::fs::write(&config, setup.text(&directory.path().join("test.db"))).unwrap();
    let (program, address) = Program::serve(&config, None).await;
    let mut client = RawClient::connect(address).await;
    client.post(CHAT, &json!({"model": "m", "messages": [{}]})).await;
    assert_eq!(read_response(&mut client).await.status, 502);
    let log = program.end().await;
    let warnings: Vec<&str> = log.lines().filter(|line| line.contains("WARN") && line.contains("a/m")).collect();
    assert!(warnings.len() == 1 && warnings[0].contains("unauthorized"), "{log}");
    assert!(!log.contains("sk-"), "{log}");
}

#[tokio::test]
async fn a_missing_model_cools_down_only_its_upstream() {
    let fake = FakeProvider::answering(|request| match request.json()["model"].as_str() {
        Some("gone") => Script::status(404, &[], r#"{"error":{"message":"no such model"}}"#),
        _ => Script::stream(&["hello"]),
    })
    .await;
    let gateway = Setup::new().provider("a", &fake, "api_key = \"sk-one\"").start().await;
    let ask = |model: &str| json!({"model": model, "stream": true, "messages": [{}]});
    assert_eq!(read_response(&mut gateway.ask(&ask("a/gone")).await).await.status, 502);
    let response = read_response(&mut gateway.ask(&ask("a/gone")).await).await;
    assert_eq!((response.status, response.error_code().as_str()), (502, "photofinish_upstream_refused"));
    assert_eq!(read_response(&mut gateway.ask(&ask("a/here")).await).await.streamed_text(), "hello");
    let response = read_response(&mut gateway.ask(&ask("a/gone,a/here")).await).await;
    assert_eq!(response.upstream(), "a/here");
    let rows = gateway.stop().await;
    let attempts: Vec<_> = rows.races.iter().map(|race| race["attempts"].clone()).collect();
    assert_eq!(attempts, [1, 0, 1, 1]);
    assert_eq!(ending(rows.of(0)[0]), json!({"outcome": "failed", "failure": "not_found", "failure_phase": "headers"}));
}

const FILTERED: &str = r#"{"error":{"message":"flagged","code":"content_filter"}}"#;

#[tokio::test]
async fn a_refusal_on_policy_is_not_routed_around() {
    let a = FakeProvider::start(vec![Script::status(400, &[], FILTERED)]).await;
    let b = FakeProvider::start(vec![Script::stream(&["never"])]).await;
    let gateway = Setup::over(&[&a, &b]).race("policy = \"fallback\"").start().await;
    let response = read_response(&mut gateway.streaming().await).await;
    assert_eq!((response.status, response.body.as_str()), (400, FILTERED));
    assert_eq!(response.header("content-type"), "application/json");
    let rows = gateway.stop().await;
    assert_eq!(b.requests().len(), 0);
    assert_eq!(
        ending(rows.one("a")),
        json!({"outcome": "refused", "failure": "content_policy", "failure_phase": "headers"})
    );
    assert_row!(&rows.races[0], json!({"outcome": "error", "http_status": 400, "winner": null}));
}

#[tokio::test]
async fn an_attempt_that_runs_during_a_refusal_may_still_win() {
    let healthy_may = Gate::new();
    let a = FakeProvider::start(vec![error_and_close(400, FILTERED)]).await;
    let b = FakeProvider::start(vec![stream_after(&healthy_may, &["hello"])]).await;
    let gateway = Setup::over(&[&a, &b]).start().await;
    let mut client = gateway.streaming().await;
    a.closed(0).await;
    healthy_may.open();
    assert_eq!(read_response(&mut client).await.streamed_text(), "hello");
    let rows = gateway.stop().await;
    assert_eq!(rows.one("a")["outcome"], "refused");
}

#[tokio::test]
async fn if_all_call_the_request_wrong_the_most_specific_error_is_the_answer() {
    let vague = r#"{"error":{"message":"Unknown parameter: 'foo'","type":"invalid_request_error"}}"#;
    let telling = r#"{"error":{"message":"too long","code":"context_length_exceeded"}}"#;
    for ((first, second), expected) in [
        (((400, vague), (400, telling)), (400, telling)),
        (((400, telling), (422, vague)), (400, telling)),
        (((422, vague), (413, "{}")), (422, vague)),
        (((413, "{}"), (422, vague)), (422, vague)),
    ] {
        let (response, rows) = both_fail(first, second).await;
        assert_eq!((response.status, response.body.as_str()), expected);
        assert_row!(&rows.races[0], json!({"outcome": "error", "http_status": expected.0}));
        assert_eq!(response.header("x-photofinish-race"), rows.races[0]["race_id"]);
    }
}

#[tokio::test]
async fn failures_of_several_classes_are_a_502_that_lists_them() {
    let wrong = r#"{"error":{"message":"Unknown parameter: 'foo'"}}"#;
    let (response, rows) = both_fail((400, wrong), (503, r#"{"error":{"message":"busy"}}"#)).await;
    assert_eq!((response.status, response.error_code().as_str()), (502, "photofinish_all_failed"));
    let expected = json!([
        {"upstream": "a/m", "failure": "bad_request", "status": 400, "message": "Unknown parameter: 'foo'"},
        {"upstream": "b/m", "failure": "overloaded", "status": 503, "message": "busy"},
    ]);
    assert_eq!(response.json()["error"]["attempts"], expected);
    assert_eq!(
        ending(rows.one("b")),
        json!({"outcome": "failed", "failure": "overloaded", "failure_phase": "headers"})
    );
    assert_eq!(rows.one("b")["start_reason"], "fallback");
}

#[tokio::test]
async fn an_upstream_in_cooldown_is_listed_with_the_failures() {
    let a = FakeProvider::start(vec![Script::status(429, &[("retry-after", "60")], "{}")]).await;
    let b = FakeProvider::answering(|_| Script::status(500, &[], "{}")).await;
    let gateway = Setup::over(&[&a, &b]).race("policy = \"fallback\"").start().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.status, 502);
    let response = read_response(&mut gateway.streaming().await).await;
    assert_eq!(response.status, 502);
    let attempts = &response.json()["error"]["attempts"];
    assert_eq!(json!([attempts[0]["upstream"], attempts[0]["failure"]]), json!(["b/m", "server_error"]));
    assert_eq!(json!([attempts[1]["upstream"], attempts[1]["failure"]]), json!(["a/m", "cooling_down"]));
    let rows = gateway.stop().await;
    assert_eq!((rows.of(0).len(), rows.of(1).len(), a.requests().len()), (2, 1, 1));
}

#[tokio::test]
async fn if_all_are_rate_limited_the_shortest_wait_is_the_retry_after() {
    let limited = |wait: &str| Script::status(429, &[("retry-after", wait)], "{}");
    let (a, b) = (FakeProvider::start(vec![limited("30")]).await, FakeProvider::start(vec![limited("7")]).await);
    let gateway = Setup::over(&[&a, &b]).start().await;
    let response = read_response(&mut gateway.streaming().await).await;
    assert_eq!((response.status, response.header("retry-after")), (429, "7"));
    gateway.stop().await;
}

#[tokio::test]
async fn an_error_body_in_a_200_is_the_error_it_names() {
    let body = r#"{"error":{"message":"slow down","code":429}}"#;
    let a = FakeProvider::start(vec![Script::status(200, &[], body), Script::stream(&["never"])]).await;
    let b = FakeProvider::answering(|_| Script::stream(&["hello"])).await;
    let gateway = Setup::over(&[&a, &b]).race("policy = \"fallback\"").start().await;
    for _ in 0..2 {
        assert_eq!(read_response(&mut gateway.streaming().await).await.upstream(), "b/m");
    }
    let rows = gateway.stop().await;
    assert_eq!(
        ending(rows.one("a")),
        json!({"outcome": "failed", "failure": "rate_limited", "failure_phase": "first_token"})
    );
    assert_eq!(a.requests().len(), 1, "it cools down");
}

/// A conversation of this many turns; each request contains the answers before it.
fn turns(about: &str, turns: usize) -> serde_json::Value {
    let system = json!({"role": "system", "content": "rules ".repeat(1_000)});
    let said = (0..turns).flat_map(|turn| {
        [json!({"role": "assistant", "content": format!("{turn}")}), json!({"role": "user", "content": "and then?"})]
    });
    let messages: Vec<_> = [system, json!({"role": "user", "content": about})].into_iter().chain(said).collect();
    json!({"model": "m", "stream": true, "messages": messages})
}

#[tokio::test]
async fn a_conversation_keeps_its_key_while_the_key_works() {
    let limited = Arc::new(std::sync::Mutex::new(String::new()));
    let is_limited = limited.clone();
    let fake = FakeProvider::answering(move |request| match *is_limited.lock().unwrap() == key(request) {
        true => Script::status(429, &[("retry-after", "60")], "{}"),
        false => Script::stream(&["hello"]),
    })
    .await;
    let gateway = Setup::new().provider("a", &fake, TWO_KEYS).start().await;
    let ask = async |about: &str, turn| {
        assert_eq!(read_response(&mut gateway.ask(&turns(about, turn)).await).await.streamed_text(), "hello");
        key(fake.requests().last().unwrap())
    };
    let (mut one, mut other) = (Vec::new(), Vec::new());
    for turn in 0..5 {
        one.push(ask("one", turn).await);
        // Other requests in between, so that a turn does not always get the same key.
        assert_eq!(read_response(&mut gateway.streaming().await).await.streamed_text(), "hello");
        other.push(ask("other", turn).await);
    }
    assert!(one.iter().all(|key| *key == one[0]), "{one:?}");
    assert!(other.iter().all(|key| *key == other[0]), "{other:?}");
    let mut first: Vec<String> = Vec::new();
    for number in 0..4 {
        first.push(ask(&format!("conversation {number}"), 0).await);
    }
    assert_eq!((&first[0], &first[1]), (&first[2], &first[3]), "new ones take turns");
    assert_ne!(first[0], first[1], "though their system prompt is the same");
    limited.lock().unwrap().clone_from(&one[0]);
    let moved = ask("one", 5).await;
    assert_ne!(moved, one[0]);
    limited.lock().unwrap().clear();
    advance_clock(Duration::from_secs(61)).await;
    for turn in 6..9 {
        assert_eq!(ask("one", turn).await, moved, "its cache is there now");
    }
    gateway.stop().await;
}
