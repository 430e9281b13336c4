//! The money of `photofinish bench` as a program: what is shown before, what is reserved, and how a run ends at its cap.

use std::time::Duration;

use super::bench::{FEW, answer, answering, result};
use crate::harness::process::{CommandOutput, Setup, provider};
use crate::support::{FakeProvider, Script};

/// A request of `FEW` costs 0.00006 USD at the prices of `a/x`: 40 tokens in, 2 out. Its estimate is 0.00008, because the server
/// may count half as many tokens more, and eight times that is reserved.
const RESERVED: f64 = 0.000_64;

/// One target with the prices of `a/x`, whose answers are made by the number of the request.
async fn priced(script: impl Fn(usize) -> Script + Send + Sync + 'static) -> (Setup, FakeProvider) {
    let fake = FakeProvider::answering(move |request| script(request.number)).await;
    let prices = "\n[models.m]\nupstreams = [{ upstream = \"a/x\", input_price = 1.0, output_price = 10.0 }]\n";
    (Setup::new(&(provider("a", &fake) + prices)), fake)
}

async fn bench(setup: &Setup, more: &[&str]) -> CommandOutput {
    let lengths = ["--input-tokens", "40", "--output-tokens", "2", "--warm-up", "0s", "--no-store", "--json"];
    setup.run(&[&["bench", "a/x"][..], &lengths, more].concat()).await
}

#[tokio::test]
async fn members_that_ask_for_longer_answers_are_reserved() {
    let (setup, fake) = answering().await;
    setup.write("long.jsonl", "{\"prompt\":\"a\",\"max_completion_tokens\":50000}\n");
    let few = &FEW[..4];
    for more in [["--body", "{\"max_tokens\":50000}"], ["--body", "{\"n\":10000}"], ["--prompts", "long.jsonl"]] {
        let lengths = ["--output-tokens", "2", "--max-cost", "0.02"];
        let ran = setup.run(&[&["bench", "a/x"][..], few, &lengths, &more].concat()).await;
        assert_eq!(ran.code, Some(1), "{more:?}: {}", ran.err);
        assert!(ran.err.contains("--max-cost does not cover one request"), "{more:?}: {}", ran.err);
    }
    assert!(fake.requests().is_empty());
    for (body, said) in [("{\"max_tokens\":null}", "\"max_tokens\""), ("{\"n\":0.5}", "\"n\"")] {
        let ran = setup.run(&["bench", "a/x", "--body", body]).await;
        assert_eq!(ran.code, Some(2), "{}", ran.err);
        assert!(ran.err.contains(&format!("{said} is no whole number above 0")), "{}", ran.err);
    }
}

#[tokio::test]
async fn users_wait_for_money_that_is_set_aside() {
    let (setup, fake) = priced(|_| answer()).await;
    // It covers five requests at once, and all 42 one after the other.
    let cap = (5.5 * RESERVED).to_string();
    let ran = bench(&setup, &["--concurrency", "8", "--requests", "40", "--max-cost", &cap]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let stage = &result(&ran.out)["stages"][0];
    assert_eq!(stage["ends"], serde_json::json!({ "answered": 40 }));
    assert_eq!(stage["ended"], "--max-cost did not cover so many requests at once", "it is not a load of 8 users");
    assert_eq!(fake.requests().len(), 42);
    let seen = "8 users need $0.0051 at once, 8 times what their requests may cost; --max-cost covers 5 of them";
    assert!(ran.said().contains(seen), "{}", ran.err);
}

#[tokio::test]
async fn what_is_in_flight_when_the_cap_is_reached_is_awaited() {
    // One of the two users waits for a slow answer while the other's answer costs more than the cap.
    let (setup, fake) = priced(|number| match number {
        2 => Script::sse().role().delay(Duration::from_millis(500)).token("a").finish("stop").usage(40, 2).done().end(),
        3 => Script::sse().role().token("a").finish("stop").usage(40, 600).done().end(),
        _ => answer(),
    })
    .await;
    let cap = (3.0 * RESERVED).to_string();
    let ran = bench(&setup, &["--concurrency", "2", "--requests", "40", "--max-cost", &cap]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let stage = &result(&ran.out)["stages"][0];
    assert_eq!(stage["ends"], serde_json::json!({ "answered": 2 }), "the slow answer is paid for");
    assert_eq!(stage["ended"], "the cap of spending was reached");
    assert_eq!(fake.requests().len(), 4);
}

#[tokio::test]
async fn an_arrival_that_cannot_be_paid_for_now_ends_its_stage() {
    let slow = || Script::sse().role().delay(Duration::from_millis(1_500)).token("a").finish("stop").usage(40, 2);
    let (setup, fake) = priced(move |number| if number < 2 { answer() } else { slow().done().end() }).await;
    let cap = (5.5 * RESERVED).to_string();
    let load = ["--request-rate", "50", "--arrivals", "constant", "--requests", "20", "--max-cost", &cap];
    let ran = bench(&setup, &load).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let stage = &result(&ran.out)["stages"][0];
    assert_eq!(stage["ends"], serde_json::json!({ "answered": 5 }), "none is moved, none is cut short");
    assert_eq!(stage["ended"], "--max-cost did not cover so many requests at once");
    assert_eq!(fake.requests().len(), 7);
    assert!(ran.err.contains("--max-cost covers 5 requests at once; an arrival beyond ends its stage"), "{}", ran.err);
}

#[tokio::test]
async fn a_search_that_cannot_be_paid_for_says_so_and_fails_no_rate() {
    let slow = || Script::sse().role().delay(Duration::from_millis(100)).token("a").finish("stop").usage(40, 2);
    let (setup, fake) = priced(move |number| if number < 2 { answer() } else { slow().done().end() }).await;
    // The first rate is one over the time of a fast answer, so more than five are in flight at once.
    let cap = (5.5 * RESERVED).to_string();
    let ran = bench(&setup, &["--find", "rate", "--slo", "ttft=1h", "--max-cost", &cap]).await;
    assert_eq!(ran.code, Some(4), "nothing was found: {}", ran.err);
    let found = result(&ran.out);
    assert_eq!(found["cut_short"], "--max-cost did not cover so many requests at once");
    assert!(found["found"][0]["fails"].is_null() && found["found"][0]["passes"].is_null(), "{found}");
    let spent = found["cost_usd_max"].as_f64().unwrap();
    assert!((spent - 0.000_06 * fake.requests().len() as f64).abs() < 1e-9, "each request is paid for: {spent}");
}

#[tokio::test]
async fn the_cost_is_told_before_the_first_request() {
    let fake = FakeProvider::answering(|_| Script::status(401, &[], "{}")).await;
    let prices = "\n[models.m]\nupstreams = [{ upstream = \"a/x\", input_price = 1.0, output_price = 10.0 }]\n";
    let setup = Setup::new(&(provider("a", &fake) + prices));
    for (load, seen) in [
        (["--concurrency", "1,2", "--requests", "8"], "at most 26 requests and $0.0021"),
        (["--request-rate", "2", "--requests", "7"], "about 9 requests and $0.00072"),
    ] {
        let ran = bench(&setup, &load).await;
        assert_eq!(ran.code, Some(1), "{}", ran.err);
        let (before, _) = ran.err.split_once("unauthorized").unwrap();
        assert!(before.contains(seen), "{load:?}: {}", ran.err);
    }
}

#[tokio::test]
async fn a_server_by_its_address_can_have_a_price() {
    let fake = FakeProvider::answering(|_| answer()).await;
    let (setup, url) = (Setup::new(""), fake.base_url());
    let server = ["bench", "--url", &url, "--model", "q/r", "--price", "1/10", "--max-cost", "0.1", "--json"];
    let ran = setup.run(&[&server[..], &FEW].concat()).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let spent = result(&ran.out)["cost_usd_max"].as_f64().unwrap();
    assert!((spent - 0.0006).abs() < 1e-9, "ten requests: {spent}");
    let priced = setup.number("SELECT count(*) FROM attempt WHERE cost_usd_max BETWEEN 0.0000599 AND 0.0000601").await;
    assert_eq!(priced, 10, "the rows have its price");
    let unpriced = setup.run(&["bench", "--url", &url, "--model", "q", "--max-cost", "1"]).await;
    assert_eq!(unpriced.code, Some(2), "{}", unpriced.err);
    assert!(unpriced.err.contains("no price is known for url/q, so --max-cost has no effect"), "{}", unpriced.err);
}
