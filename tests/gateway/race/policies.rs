//! Each policy is a plan: who is started when, and why.

use serde_json::json;

use crate::harness::answer::{hear, silent};
use crate::harness::gateway::{CHAT, Setup, pick};
use crate::support::{FakeProvider, RawClient, Script};

const START: [&str; 4] = ["provider", "start_reason", "p_include", "outcome"];

#[tokio::test]
async fn a_hedge_is_not_started_when_the_leader_is_in_time() {
    let a = FakeProvider::start(vec![Script::stream(&["hello"])]).await;
    let b = FakeProvider::start(vec![Script::stream(&["never"])]).await;
    let gateway = Setup::over(&[&a, &b]).race("policy = \"hedge\"\nhedge_after = \"1h\"").start().await;
    let heard = hear(&mut gateway.streaming().await).await;
    assert_eq!((heard.upstream(), heard.header("x-photofinish-attempts")), ("a/m", "1"));
    let rows = gateway.stop().await;
    assert_eq!((rows.attempts.len(), b.requests().len()), (1, 0));
    assert_eq!(pick(&rows.races[0], &["policy", "optimise"]), json!(["hedge", "ttft"]));
}

#[tokio::test]
async fn a_failure_starts_the_hedge_at_once() {
    let a = FakeProvider::start(vec![Script::status(500, &[], "{}")]).await;
    let b = FakeProvider::start(vec![Script::stream(&["hello"])]).await;
    let gateway = Setup::over(&[&a, &b]).race("policy = \"hedge\"\nhedge_after = \"1h\"").start().await;
    assert_eq!(hear(&mut gateway.streaming().await).await.upstream(), "b/m");
    let rows = gateway.stop().await;
    assert_eq!(pick(rows.one("b"), &START), json!(["b", "fallback", 1.0, "won"]));
}

#[tokio::test]
async fn the_weighted_one_is_first_and_the_others_are_its_fallback() {
    let a = FakeProvider::start(vec![Script::stream(&["hello"])]).await;
    let b = FakeProvider::start(vec![Script::status(500, &[], "{}")]).await;
    let model = "[models.m]\npolicy = \"weighted\"\nupstreams = [\
                 { upstream = \"a/m\", weight = 0.0 }, { upstream = \"b/m\", weight = 3.0 }]";
    let gateway = Setup::over(&[&a, &b]).model(model).start().await;
    assert_eq!(hear(&mut gateway.streaming().await).await.upstream(), "a/m");
    let rows = gateway.stop().await;
    let attempts: Vec<_> = rows.of(0).into_iter().map(|attempt| pick(attempt, &START)).collect();
    assert_eq!(attempts, [json!(["b", "first", 1.0, "failed"]), json!(["a", "fallback", 1.0, "won"])]);
}

#[tokio::test]
async fn a_request_may_choose_its_own_plan() {
    let a = FakeProvider::start(vec![Script::stream(&["never"])]).await;
    let b = FakeProvider::start(vec![Script::status(500, &[], "{}")]).await;
    let c = FakeProvider::start(vec![Script::stream(&["hello"])]).await;
    let gateway = Setup::over(&[&a, &b, &c]).start().await;
    let mut client = RawClient::connect(gateway.addr()).await;
    let headers = [("x-photofinish-policy", "fallback"), ("x-photofinish-upstreams", "b/m, c/m")];
    client.request("POST", CHAT, &headers, json!({"model": "m", "stream": true, "messages": [{}]}).to_string()).await;
    let heard = hear(&mut client).await;
    assert_eq!((heard.upstream(), heard.said().as_str()), ("c/m", "hello"));
    let rows = gateway.stop().await;
    assert_eq!(rows.races[0]["policy"], "fallback");
    let attempts: Vec<_> = rows.of(0).into_iter().map(|attempt| pick(attempt, &START)).collect();
    assert_eq!(attempts, [json!(["b", "first", 1.0, "failed"]), json!(["c", "fallback", 1.0, "won"])]);
    assert_eq!(a.requests().len(), 0);
}

#[tokio::test]
async fn a_row_tells_the_plan_and_why() {
    let a = FakeProvider::answering(|_| Script::stream(&["hello"])).await;
    let b = FakeProvider::answering(|_| silent()).await;
    let gateway = Setup::over(&[&a, &b]).race("policy = \"fastest\"\noptimise = \"completion\"").start().await;
    hear(&mut gateway.streaming().await).await;
    let mut client = RawClient::connect(gateway.addr()).await;
    let mut ask = async |headers: &[(&str, &str)]| {
        client
            .request("POST", CHAT, headers, json!({"model": "m", "stream": true, "messages": [{}]}).to_string())
            .await;
        assert_eq!(hear(&mut client).await.upstream(), "a/m");
    };
    let hedge = ("x-photofinish-policy", "hedge");
    ask(&[hedge, ("x-photofinish-hedge-after", "90m"), ("x-photofinish-optimise", "ttft")]).await;
    let goodput = [("x-photofinish-optimise", "goodput"), ("x-photofinish-slo", "tpot=20ms")];
    ask(&[hedge, ("x-photofinish-hedge-after", "p99.9"), goodput[0], goodput[1]]).await;
    let money = [("x-photofinish-budget", "0.05"), ("x-photofinish-hold-max", "0s")];
    ask(&[("x-photofinish-policy", "adaptive"), ("x-photofinish-max-attempts", "1"), money[0], money[1]]).await;
    client.request("POST", CHAT, &[("x-photofinish-budget", "-1")], json!({"model": "m"}).to_string()).await;
    assert_eq!(hear(&mut client).await.status, 400);
    let rows = gateway.stop().await;
    let told: Vec<_> = rows.races.iter().map(|race| pick(race, &["policy", "optimise", "plan", "why"])).collect();
    assert_eq!(
        told,
        [
            json!(["fastest", "completion", "a/m@0 b/m@failure", "cold"]),
            json!(["hedge", "ttft", "a/m@0 b/m@5400000ms", "listed"]),
            json!(["hedge", "goodput", "a/m@0 b/m@1000ms", "hedge"]),
            json!(["adaptive", "completion", "a/m@0", "cold"]),
            json!([null, null, null, null]),
        ]
    );
}

#[tokio::test]
async fn a_failure_of_the_best_starts_the_next() {
    for (policy, reason) in [("adaptive", "first"), ("rule", "fallback"), ("fastest", "fallback")] {
        let a = FakeProvider::start(vec![Script::status(500, &[], "{}")]).await;
        let b = FakeProvider::start(vec![Script::stream(&["hello"])]).await;
        let gateway = Setup::over(&[&a, &b]).race(&format!("policy = \"{policy}\"")).start().await;
        assert_eq!(hear(&mut gateway.streaming().await).await.upstream(), "b/m");
        let rows = gateway.stop().await;
        assert_eq!(rows.races[0]["policy"], policy);
        assert_eq!(pick(rows.one("b"), &START), json!(["b", reason, 1.0, "won"]));
    }
}
