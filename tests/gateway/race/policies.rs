//! The plan of each policy: which upstream starts when, and why.

use serde_json::json;

use crate::harness::answer::{read_response, silent};
use crate::harness::gateway::{CHAT, Setup, assert_row, assert_rows};
use crate::support::{FakeProvider, RawClient, Script};

#[tokio::test]
async fn a_hedge_is_not_started_when_the_leader_is_in_time() {
    let a = FakeProvider::start(vec![Script::stream(&["hello"])]).await;
    let b = FakeProvider::start(vec![Script::stream(&["never"])]).await;
    let gateway = Setup::over(&[&a, &b]).race("policy = \"hedge\"\nhedge_after = \"1h\"").start().await;
    let response = read_response(&mut gateway.streaming().await).await;
    assert_eq!((response.upstream(), response.header("x-photofinish-attempts")), ("a/m", "1"));
    let rows = gateway.stop().await;
    assert_eq!((rows.attempts.len(), b.requests().len()), (1, 0));
    assert_row!(&rows.races[0], json!({"policy": "hedge", "optimise": "auto"}));
}

#[tokio::test]
async fn a_failure_starts_the_hedge_at_once() {
    let a = FakeProvider::start(vec![Script::status(500, &[], "{}")]).await;
    let b = FakeProvider::start(vec![Script::stream(&["hello"])]).await;
    let gateway = Setup::over(&[&a, &b]).race("policy = \"hedge\"\nhedge_after = \"1h\"").start().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.upstream(), "b/m");
    let rows = gateway.stop().await;
    assert_row!(
        rows.one("b"),
        json!({"provider": "b", "start_reason": "fallback", "p_include": 1.0, "outcome": "won"})
    );
}

#[tokio::test]
async fn the_weighted_upstream_is_first_and_the_others_are_its_fallback() {
    let a = FakeProvider::start(vec![Script::stream(&["hello"])]).await;
    let b = FakeProvider::start(vec![Script::status(500, &[], "{}")]).await;
    let model = "[models.m]\npolicy = \"weighted\"\nupstreams = [\
                 { upstream = \"a/m\", weight = 0.0 }, { upstream = \"b/m\", weight = 3.0 }]";
    let gateway = Setup::over(&[&a, &b]).model(model).start().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.upstream(), "a/m");
    let rows = gateway.stop().await;
    assert_rows(
        &rows.of(0),
        &[
            json!({"provider": "b", "start_reason": "first", "p_include": 1.0, "outcome": "failed"}),
            json!({"provider": "a", "start_reason": "fallback", "p_include": 1.0, "outcome": "won"}),
        ],
    );
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
    let response = read_response(&mut client).await;
    assert_eq!((response.upstream(), response.streamed_text().as_str()), ("c/m", "hello"));
    let rows = gateway.stop().await;
    assert_eq!(rows.races[0]["policy"], "fallback");
    assert_rows(
        &rows.of(0),
        &[
            json!({"provider": "b", "start_reason": "first", "p_include": 1.0, "outcome": "failed"}),
            json!({"provider": "c", "start_reason": "fallback", "p_include": 1.0, "outcome": "won"}),
        ],
    );
    assert_eq!(a.requests().len(), 0);
}

#[tokio::test]
async fn a_race_s_row_has_its_plan_and_the_reason() {
    let a = FakeProvider::answering(|_| Script::stream(&["hello"])).await;
    let b = FakeProvider::answering(|_| silent()).await;
    let gateway =
        Setup::over(&[&a, &b]).race("policy = \"adaptive\"\nbudget = 0.0\noptimise = \"completion\"").start().await;
    read_response(&mut gateway.streaming().await).await;
    let mut client = RawClient::connect(gateway.addr()).await;
    let mut ask = async |headers: &[(&str, &str)]| {
        client
            .request("POST", CHAT, headers, json!({"model": "m", "stream": true, "messages": [{}]}).to_string())
            .await;
        assert_eq!(read_response(&mut client).await.upstream(), "a/m");
    };
    let hedge = ("x-photofinish-policy", "hedge");
    ask(&[hedge, ("x-photofinish-hedge-after", "90m"), ("x-photofinish-optimise", "ttft")]).await;
    let goodput = [("x-photofinish-optimise", "goodput"), ("x-photofinish-slo", "tpot=20ms")];
    ask(&[hedge, ("x-photofinish-hedge-after", "1s"), goodput[0], goodput[1]]).await;
    let money = [("x-photofinish-budget", "0.05"), ("x-photofinish-hold-max", "0s")];
    ask(&[("x-photofinish-policy", "adaptive"), ("x-photofinish-max-attempts", "1"), money[0], money[1]]).await;
    client.request("POST", CHAT, &[("x-photofinish-budget", "-1")], json!({"model": "m"}).to_string()).await;
    assert_eq!(read_response(&mut client).await.status, 400);
    let rows = gateway.stop().await;
    assert_rows(
        &rows.races.iter().collect::<Vec<_>>(),
        &[
            json!({"policy": "adaptive", "optimise": "completion", "plan": "a/m@0 b/m@failure", "why": "cold"}),
            json!({"policy": "hedge", "optimise": "ttft", "plan": "a/m@0 b/m@5400000ms", "why": "listed"}),
            json!({"policy": "hedge", "optimise": "goodput", "plan": "a/m@0 b/m@1000ms", "why": "listed"}),
            json!({"policy": "adaptive", "optimise": "completion", "plan": "a/m@0 b/m@failure", "why": "cold"}),
            json!({"policy": null, "optimise": null, "plan": null, "why": null}),
        ],
    );
}

#[tokio::test]
async fn a_failure_of_the_best_starts_the_next() {
    for (budget, reason) in [("0.1", "first"), ("0.02", "first"), ("0.0", "fallback")] {
        let a = FakeProvider::start(vec![Script::status(500, &[], "{}")]).await;
        let b = FakeProvider::start(vec![Script::stream(&["hello"])]).await;
        let gateway = Setup::over(&[&a, &b]).race(&format!("policy = \"adaptive\"\nbudget = {budget}")).start().await;
        assert_eq!(read_response(&mut gateway.streaming().await).await.upstream(), "b/m");
        let rows = gateway.stop().await;
        assert_eq!(rows.races[0]["policy"], "adaptive", "{budget}");
        assert_row!(
            rows.one("b"),
            json!({"provider": "b", "start_reason": reason, "p_include": 1.0, "outcome": "won"})
        );
    }
}

#[tokio::test]
async fn a_session_stays_with_its_upstream_until_that_fails() {
    let broken = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let of_a = broken.clone();
    let a = FakeProvider::answering(move |_| match of_a.load(std::sync::atomic::Ordering::Relaxed) {
        true => Script::status(400, &[], "{}"),
        false => Script::stream(&["hello"]),
    })
    .await;
    let b = FakeProvider::answering(|_| Script::stream(&["hello"])).await;
    let gateway = Setup::over(&[&a, &b]).race("policy = \"weighted\"").start().await;
    let mut client = RawClient::connect(gateway.addr()).await;
    let mut ask = async |headers: &[(&str, &str)], key: Option<&str>| {
        let body = json!({"model": "m", "stream": true, "messages": [{}], "prompt_cache_key": key});
        client.request("POST", CHAT, headers, body.to_string()).await;
        read_response(&mut client).await.upstream().to_owned()
    };
    let long = "s".repeat(10_000);
    for (headers, key) in [
        (&[("x-photofinish-session", "one")][..], None),
        (&[("session-id", "two")], None),
        (&[], Some("three")),
        (&[], Some(long.as_str())),
    ] {
        let first = ask(headers, key).await;
        for _ in 0..8 {
            assert_eq!(ask(headers, key).await, first, "{headers:?} {key:?}");
        }
    }
    // One that begins at `a`, which then refuses, goes on at `b` and stays there.
    let mut session = 0;
    let moved = loop {
        let id = format!("s{session}");
        if ask(&[("x-photofinish-session", &id)], None).await == "a/m" {
            break id;
        }
        session += 1;
    };
    broken.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(ask(&[("x-photofinish-session", &moved)], None).await, "b/m");
    broken.store(false, std::sync::atomic::Ordering::Relaxed);
    for _ in 0..8 {
        assert_eq!(ask(&[("x-photofinish-session", &moved)], None).await, "b/m");
    }
    let rows = gateway.stop().await;
    assert!(rows.races.iter().any(|race| race["why"].as_str().is_some_and(|why| why.contains("session"))));
    // Each row names its session, as a number that JSON has whole.
    let named: Vec<i64> = rows.races.iter().map(|race| race["session"].as_i64().unwrap()).collect();
    assert!(named.iter().all(|session| (1..1 << 53).contains(session)), "{named:?}");
    let of_first: Vec<bool> = named[..18].iter().map(|session| *session == named[0]).collect();
    assert_eq!(of_first, [[true; 9], [false; 9]].concat());
}

#[tokio::test]
async fn sessions_of_two_users_with_one_name_are_two() {
    let a = FakeProvider::answering(|_| Script::stream(&["hello"])).await;
    let b = FakeProvider::answering(|_| Script::stream(&["hello"])).await;
    let users = "[users]\none = { token = \"t1\" }\ntwo = { token = \"t2\" }\n";
    let gateway = Setup::over(&[&a, &b]).race("policy = \"weighted\"").table(users).start().await;
    let mut client = RawClient::connect(gateway.addr()).await;
    let mut apart = false;
    for session in 0..40 {
        let id = format!("s{session}");
        let mut upstreams = Vec::new();
        for token in ["Bearer t1", "Bearer t2"] {
            let headers = [("authorization", token), ("x-photofinish-session", id.as_str())];
            client
                .request("POST", CHAT, &headers, json!({"model": "m", "stream": true, "messages": [{}]}).to_string())
                .await;
            upstreams.push(read_response(&mut client).await.upstream().to_owned());
        }
        apart |= upstreams[0] != upstreams[1];
    }
    assert!(apart, "each is drawn by itself");
    gateway.stop().await;
}
