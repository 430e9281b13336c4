//! What failures mean: who is set aside, who is asked next, and what the client is told when nobody is left.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::harness::answer::{Heard, end, error_and_close, hear, pass, stream_after};
use crate::harness::gateway::{CHAT, Rows, Setup, pick};
use crate::harness::program::Program;
use crate::support::{FakeProvider, Gate, RawClient, Request, Script};

const TWO_KEYS: &str = "api_key = [\"sk-one\", \"sk-two\"]";

fn key(request: &Request) -> String {
    request.header("authorization").unwrap_or_default().to_owned()
}

/// Answers of two providers, asked one after the other, and what the client gets.
async fn both_fail(first: (u16, &str), second: (u16, &str)) -> (Heard, Rows) {
    let a = FakeProvider::start(vec![Script::status(first.0, &[], first.1)]).await;
    let b = FakeProvider::start(vec![Script::status(second.0, &[], second.1)]).await;
    let gateway = Setup::over(&[&a, &b]).race("policy = \"fallback\"").start().await;
    let heard = hear(&mut gateway.streaming().await).await;
    (heard, gateway.stop().await)
}

#[tokio::test]
async fn a_429_cools_its_key_alone() {
    let limited = |request: &Request| match request.number {
        0 | 4 => Script::status(429, &[("retry-after", "60")], r#"{"error":{"message":"slow down"}}"#),
        _ => Script::stream(&["hello"]),
    };
    let fake = FakeProvider::answering(limited).await;
    let gateway = Setup::new().provider("a", &fake, TWO_KEYS).start().await;
    let heard = hear(&mut gateway.streaming().await).await;
    assert_eq!(heard.said(), "hello", "asked again at once, with the other key");
    assert_eq!(heard.header("x-photofinish-attempts"), "2");
    for _ in 2..=3 {
        assert_eq!(hear(&mut gateway.streaming().await).await.said(), "hello");
    }
    let keys: Vec<String> = fake.requests().iter().map(key).collect();
    assert_ne!(keys[0], keys[1]);
    assert!(keys[1..].iter().all(|key| *key == keys[1]), "the other key, whoever's turn it is: {keys:?}");

    let heard = hear(&mut gateway.streaming().await).await;
    assert_eq!((heard.status, heard.error_code().as_str()), (429, "photofinish_rate_limited"), "now both");
    assert_eq!(heard.header("retry-after"), "60");
    let heard = hear(&mut gateway.streaming().await).await;
    assert_eq!((heard.status, heard.error_code().as_str()), (429, "photofinish_cooling_down"));
    let wait: u64 = heard.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    assert_eq!(heard.json()["error"]["attempts"][0]["failure"], "cooling_down");
    let rows = gateway.stop().await;
    assert_eq!(fake.requests().len(), 5);
    assert_eq!(pick(&rows.races[4], &["outcome", "attempts", "http_status"]), json!(["rejected", 0, 429]));
    let (limited, again) = (rows.of(0)[0], rows.of(0)[1]);
    assert_eq!(end(limited), json!(["failed", null, null, "rate_limited", "headers"]));
    assert_eq!(pick(limited, &["http_status", "retry_after_ms"]), json!([429, 60_000]));
    assert_ne!(limited["key_id"], again["key_id"]);
    assert_eq!(pick(again, &["start_reason", "outcome"]), json!(["retry", "won"]));
}

/// Answers `limit` to the model `big`, and well to every other.
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
    assert_eq!(hear(&mut gateway.ask(&ask("a/big")).await).await.status, 429);
    for _ in 0..8 {
        assert_eq!(hear(&mut gateway.ask(&ask("a/small")).await).await.said(), "hello", "under the same key");
        let heard = hear(&mut gateway.ask(&ask("a/big")).await).await;
        assert_eq!((heard.status, heard.error_code().as_str()), (429, "photofinish_cooling_down"));
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
    assert_eq!(hear(&mut gateway.ask(&ask("a/big")).await).await.status, 429);
    let heard = hear(&mut gateway.ask(&ask("a/small")).await).await;
    assert_eq!((heard.status, heard.error_code().as_str()), (429, "photofinish_cooling_down"));
    gateway.stop().await;
    assert_eq!(fake.requests().len(), 1);
}

#[tokio::test]
async fn what_alone_is_left_is_asked_again_every_few_seconds_and_the_rest_are_told_why() {
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
        // Longer than it would be left alone beside others.
        for asked in 1..=8 {
            let heard = hear(&mut gateway.streaming().await).await;
            assert_eq!((heard.status, heard.error_code().as_str()), (502, "photofinish_all_failed"), "{status}");
            let attempt = &heard.json()["error"]["attempts"][0];
            assert_eq!((&attempt["failure"], &attempt["status"]), (&json!(failure), &json!(status)));
            for _ in 0..3 {
                let heard = hear(&mut gateway.streaming().await).await;
                assert_eq!((heard.status, heard.error_code().as_str()), (502, "photofinish_upstream_refused"));
                assert!(heard.json()["error"]["message"].as_str().unwrap().contains(why), "{}", heard.body);
            }
            assert_eq!(fake.requests().len(), asked);
            pass(Duration::from_secs(5)).await;
        }
        mended.store(true, Ordering::Relaxed);
        for _ in 0..3 {
            assert_eq!(hear(&mut gateway.streaming().await).await.said(), "hello", "{status}");
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_refused_key_is_set_aside() {
    let refused = |request: &Request| match request.number {
        0 | 4 => Script::status(401, &[], &format!(r#"{{"error":{{"message":"bad key {}"}}}}"#, key(request))),
        _ => Script::stream(&["hello"]),
    };
    let fake = FakeProvider::answering(refused).await;
    let gateway = Setup::new().provider("a", &fake, TWO_KEYS).start().await;
    for _ in 0..3 {
        assert_eq!(hear(&mut gateway.streaming().await).await.said(), "hello");
    }
    let heard = hear(&mut gateway.streaming().await).await;
    assert_eq!((heard.status, heard.error_code().as_str()), (502, "photofinish_all_failed"), "now both");
    assert!(!heard.body.contains("sk-"), "a key that the provider quotes: {}", heard.body);
    assert_eq!(heard.json()["error"]["attempts"][0]["failure"], "unauthorized");
    let keys: Vec<String> = fake.requests().iter().map(key).collect();
    assert!(keys[1..].iter().all(|key| *key != keys[0]), "{keys:?}");
    let rows = gateway.stop().await;
    assert_eq!(end(&rows.attempts[0]), json!(["failed", null, null, "unauthorized", "headers"]));
    assert_eq!(pick(&rows.attempts[1], &["start_reason", "outcome"]), json!(["retry", "won"]));
}

#[tokio::test]
async fn a_refused_key_is_told_to_the_operator() {
    let fake = FakeProvider::start(vec![Script::status(401, &[], r#"{"error":"bad key sk-one"}"#)]).await;
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("config.toml");
    let setup = Setup::new().provider("a", &fake, "api_key = \"sk-one\"");
    std::fs::write(&config, setup.text(&directory.path().join("test.db"))).unwrap();
    let (program, address) = Program::serve(&config, None).await;
    let mut client = RawClient::connect(address).await;
    client.post(CHAT, &json!({"model": "m", "messages": [{}]})).await;
    assert_eq!(hear(&mut client).await.status, 502);
    let log = program.end().await;
    let warnings: Vec<&str> = log.lines().filter(|line| line.contains("WARN") && line.contains("a/m")).collect();
    assert!(warnings.len() == 1 && warnings[0].contains("unauthorized"), "{log}");
    assert!(!log.contains("sk-"), "{log}");
}

#[tokio::test]
async fn a_missing_model_sets_its_upstream_aside_and_no_other() {
    let fake = FakeProvider::answering(|request| match request.json()["model"].as_str() {
        Some("gone") => Script::status(404, &[], r#"{"error":{"message":"no such model"}}"#),
        _ => Script::stream(&["hello"]),
    })
    .await;
    let gateway = Setup::new().provider("a", &fake, "api_key = \"sk-one\"").start().await;
    let ask = |model: &str| json!({"model": model, "stream": true, "messages": [{}]});
    assert_eq!(hear(&mut gateway.ask(&ask("a/gone")).await).await.status, 502);
    let heard = hear(&mut gateway.ask(&ask("a/gone")).await).await;
    assert_eq!((heard.status, heard.error_code().as_str()), (502, "photofinish_upstream_refused"));
    assert_eq!(hear(&mut gateway.ask(&ask("a/here")).await).await.said(), "hello");
    let heard = hear(&mut gateway.ask(&ask("a/gone,a/here")).await).await;
    assert_eq!(heard.upstream(), "a/here");
    let rows = gateway.stop().await;
    let attempts: Vec<_> = rows.races.iter().map(|race| race["attempts"].clone()).collect();
    assert_eq!(attempts, [1, 0, 1, 1]);
    assert_eq!(end(rows.of(0)[0]), json!(["failed", null, null, "not_found", "headers"]));
}

const FILTERED: &str = r#"{"error":{"message":"flagged","code":"content_filter"}}"#;

#[tokio::test]
async fn a_refusal_on_policy_is_not_routed_around() {
    let a = FakeProvider::start(vec![Script::status(400, &[], FILTERED)]).await;
    let b = FakeProvider::start(vec![Script::stream(&["never"])]).await;
    let gateway = Setup::over(&[&a, &b]).race("policy = \"fallback\"").start().await;
    let heard = hear(&mut gateway.streaming().await).await;
    assert_eq!((heard.status, heard.body.as_str()), (400, FILTERED));
    assert_eq!(heard.header("content-type"), "application/json");
    let rows = gateway.stop().await;
    assert_eq!(b.requests().len(), 0);
    assert_eq!(end(rows.one("a")), json!(["refused", null, null, "content_policy", "headers"]));
    assert_eq!(pick(&rows.races[0], &["outcome", "http_status", "winner"]), json!(["error", 400, null]));
}

#[tokio::test]
async fn what_runs_beside_a_refusal_may_still_win() {
    let healthy_may = Gate::new();
    let a = FakeProvider::start(vec![error_and_close(400, FILTERED)]).await;
    let b = FakeProvider::start(vec![stream_after(&healthy_may, &["hello"])]).await;
    let gateway = Setup::over(&[&a, &b]).start().await;
    let mut client = gateway.streaming().await;
    a.closed(0).await;
    healthy_may.open();
    assert_eq!(hear(&mut client).await.said(), "hello");
    let rows = gateway.stop().await;
    assert_eq!(rows.one("a")["outcome"], "refused");
}

#[tokio::test]
async fn when_all_say_that_the_request_is_wrong_the_most_telling_is_the_answer() {
    let vague = r#"{"error":{"message":"Unknown parameter: 'foo'","type":"invalid_request_error"}}"#;
    let telling = r#"{"error":{"message":"too long","code":"context_length_exceeded"}}"#;
    for ((first, second), expected) in [
        (((400, vague), (400, telling)), (400, telling)),
        (((400, telling), (422, vague)), (400, telling)),
        (((422, vague), (413, "{}")), (422, vague)),
        (((413, "{}"), (422, vague)), (422, vague)),
    ] {
        let (heard, rows) = both_fail(first, second).await;
        assert_eq!((heard.status, heard.body.as_str()), expected);
        assert_eq!(pick(&rows.races[0], &["outcome", "http_status"]), json!(["error", expected.0]));
        assert_eq!(heard.header("x-photofinish-race"), rows.races[0]["race_id"]);
    }
}

#[tokio::test]
async fn failures_of_several_classes_are_a_502_that_lists_them() {
    let wrong = r#"{"error":{"message":"Unknown parameter: 'foo'"}}"#;
    let (heard, rows) = both_fail((400, wrong), (503, r#"{"error":{"message":"busy"}}"#)).await;
    assert_eq!((heard.status, heard.error_code().as_str()), (502, "photofinish_all_failed"));
    let expected = json!([
        {"upstream": "a/m", "failure": "bad_request", "status": 400, "message": "Unknown parameter: 'foo'"},
        {"upstream": "b/m", "failure": "overloaded", "status": 503, "message": "busy"},
    ]);
    assert_eq!(heard.json()["error"]["attempts"], expected);
    assert_eq!(end(rows.one("b")), json!(["failed", null, null, "overloaded", "headers"]));
    assert_eq!(rows.one("b")["start_reason"], "fallback");
}

#[tokio::test]
async fn one_that_cools_down_is_listed_beside_the_failures() {
    let a = FakeProvider::start(vec![Script::status(429, &[("retry-after", "60")], "{}")]).await;
    let b = FakeProvider::answering(|_| Script::status(500, &[], "{}")).await;
    let gateway = Setup::over(&[&a, &b]).race("policy = \"fallback\"").start().await;
    assert_eq!(hear(&mut gateway.streaming().await).await.status, 502);
    let heard = hear(&mut gateway.streaming().await).await;
    assert_eq!(heard.status, 502);
    let attempts = &heard.json()["error"]["attempts"];
    assert_eq!(json!([attempts[0]["upstream"], attempts[0]["failure"]]), json!(["b/m", "server_error"]));
    assert_eq!(json!([attempts[1]["upstream"], attempts[1]["failure"]]), json!(["a/m", "cooling_down"]));
    let rows = gateway.stop().await;
    assert_eq!((rows.of(0).len(), rows.of(1).len(), a.requests().len()), (2, 1, 1));
}

#[tokio::test]
async fn when_all_are_rate_limited_the_shortest_wait_is_told() {
    let limited = |wait: &str| Script::status(429, &[("retry-after", wait)], "{}");
    let (a, b) = (FakeProvider::start(vec![limited("30")]).await, FakeProvider::start(vec![limited("7")]).await);
    let gateway = Setup::over(&[&a, &b]).start().await;
    let heard = hear(&mut gateway.streaming().await).await;
    assert_eq!((heard.status, heard.header("retry-after")), (429, "7"));
    gateway.stop().await;
}

#[tokio::test]
async fn an_error_body_in_a_200_is_the_error_it_names() {
    let body = r#"{"error":{"message":"slow down","code":429}}"#;
    let a = FakeProvider::start(vec![Script::status(200, &[], body), Script::stream(&["never"])]).await;
    let b = FakeProvider::answering(|_| Script::stream(&["hello"])).await;
    let gateway = Setup::over(&[&a, &b]).race("policy = \"fallback\"").start().await;
    for _ in 0..2 {
        assert_eq!(hear(&mut gateway.streaming().await).await.upstream(), "b/m");
    }
    let rows = gateway.stop().await;
    assert_eq!(end(rows.one("a")), json!(["failed", null, null, "rate_limited", "first_token"]));
    assert_eq!(a.requests().len(), 1, "it cools down");
}

/// A conversation of so many turns, each asked with the answer to the one before.
fn turns(about: &str, turns: usize) -> serde_json::Value {
    let system = json!({"role": "system", "content": "rules ".repeat(1_000)});
    let said = (0..turns).flat_map(|turn| {
        [json!({"role": "assistant", "content": format!("{turn}")}), json!({"role": "user", "content": "and then?"})]
    });
    let messages: Vec<_> = [system, json!({"role": "user", "content": about})].into_iter().chain(said).collect();
    json!({"model": "m", "stream": true, "messages": messages})
}

#[tokio::test]
async fn a_conversation_keeps_its_key_while_that_is_well() {
    let limited = Arc::new(std::sync::Mutex::new(String::new()));
    let is_limited = limited.clone();
    let fake = FakeProvider::answering(move |request| match *is_limited.lock().unwrap() == key(request) {
        true => Script::status(429, &[("retry-after", "60")], "{}"),
        false => Script::stream(&["hello"]),
    })
    .await;
    let gateway = Setup::new().provider("a", &fake, TWO_KEYS).start().await;
    let ask = async |about: &str, turn| {
        assert_eq!(hear(&mut gateway.ask(&turns(about, turn)).await).await.said(), "hello");
        key(fake.requests().last().unwrap())
    };
    let (mut one, mut other) = (Vec::new(), Vec::new());
    for turn in 0..5 {
        one.push(ask("one", turn).await);
        // Others between, so that a turn is not always the same one's.
        assert_eq!(hear(&mut gateway.streaming().await).await.said(), "hello");
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
    pass(Duration::from_secs(61)).await;
    for turn in 6..9 {
        assert_eq!(ask("one", turn).await, moved, "its cache is there now");
    }
    gateway.stop().await;
}
