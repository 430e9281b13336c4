//! Policies that learn, over sockets: from a history, and from requests.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

use crate::harness::answer::{read_response, silent};
use crate::harness::gateway::{CHAT, Setup, TestGateway, assert_row, assert_rows};
use crate::support::{FakeProvider, RawClient, Script};
use photofinish_facts::record::{AttemptOutcome, AttemptRecord, RaceOutcome, RaceRecord, Record, StartReason};
use photofinish_routing::forecast::SendConditions;

/// Enough requests for reliable statistics.
const REQUESTS: i64 = 200;

/// A history of races between all of these upstreams, one per second until now, with all first tokens observed;
/// milliseconds.
fn history(upstreams: &[(&str, i64)]) -> Vec<Record> {
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
    (0..REQUESTS).flat_map(|n| request(now_ms - (REQUESTS - n) * 1_000, upstreams)).collect()
}

fn request(at_ms: i64, upstreams: &[(&str, i64)]) -> Vec<Record> {
    let race_id = format!("{:08x}-{:04x}-7000-8000-000000000000", at_ms >> 16, at_ms & 0xffff);
    // Real upstreams vary a little.
    let took_us = |ms: i64| ms * (950 + at_ms / 1_000 % 11 * 10);
    let winner = (0..).zip(upstreams).min_by_key(|(_, (_, ms))| *ms).map(|(ordinal, _)| ordinal);
    let attempt = |(ordinal, (provider, ms)): (i64, &(&str, i64))| {
        let won = Some(ordinal) == winner;
        Record::Attempt(Box::new(AttemptRecord {
            first_token_us: Some(took_us(*ms)),
            ttft_obs_us: Some(took_us(*ms)),
            ttft_event: Some(1),
            outcome: if won { AttemptOutcome::Won } else { AttemptOutcome::Lost },
            ..AttemptRecord::new(race_id.clone(), ordinal, ((*provider).to_owned(), "m".to_owned()), StartReason::First)
        }))
    };
    let mut rows: Vec<Record> = (0..).zip(upstreams).map(attempt).collect();
    let attempts = upstreams.len() as i64;
    rows.push(Record::Race(Box::new(RaceRecord { attempts, ..race(&race_id, at_ms, winner) })));
    rows
}

fn race(race_id: &str, at_ms: i64, winner: Option<i64>) -> RaceRecord {
    RaceRecord {
        race_id: race_id.to_owned(),
        started_at: at_ms * 1_000,
        api: "chat",
        model: "m".to_owned(),
        stream: true,
        policy: Some("race"),
        optimise: Some("ttft"),
        input_bytes: 400,
        input_tokens_estimate: 100,
        attempts: 2,
        winner,
        first_token_sent_us: Some(100_000),
        done_us: Some(500_000),
        outcome: RaceOutcome::Ok,
        http_status: Some(200),
        ..RaceRecord::default()
    }
}

fn hello() -> Script {
    Script::stream(&["hello"])
}

/// The predicted median of an upstream now, in milliseconds.
fn median_ms(gateway: &TestGateway, upstream: &str) -> f64 {
    let (learning, sent) = (gateway.learning(), SendConditions { uncached_tokens: 100.0, in_flight: 0 });
    let forecast = learning.upstream(upstream).forecast();
    forecast.ttft_quantile_us(sent, 0.5, learning.now_us()).unwrap() / 1e3
}

#[tokio::test]
async fn after_a_restart_the_quick_upstream_is_known() {
    let rows = history(&[("a", 900), ("b", 100)]);
    for budget in ["0.0", "0.02", "0.1"] {
        let a = FakeProvider::answering(|_| hello()).await;
        let b = FakeProvider::answering(|_| hello()).await;
        let gateway =
            Setup::over(&[&a, &b]).race(&format!("policy = \"adaptive\"\nbudget = {budget}")).start_after(&rows).await;
        let (slow, quick) = (median_ms(&gateway, "a/m"), median_ms(&gateway, "b/m"));
        assert!((800.0..1_000.0).contains(&slow) && (90.0..110.0).contains(&quick), "{slow} {quick}");
        assert_eq!(read_response(&mut gateway.streaming().await).await.upstream(), "b/m");
        assert_eq!(a.requests().len(), 0, "{budget}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn junk_does_not_push_out_what_is_learnt_again() {
    let mut rows = history(&[("a", 900), ("b", 100)]);
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
    // Newer than all rows above: refused requests, and invented names.
    for n in 0..1_000 {
        let at_ms = now_ms + n;
        let race_id = format!("{:08x}-{:04x}-7000-8000-000000000000", at_ms >> 16, at_ms & 0xffff);
        let (provider, model) = if n % 2 == 0 { ("a", "m".to_owned()) } else { ("b", format!("junk-{n}")) };
        rows.push(Record::Attempt(Box::new(AttemptRecord {
            outcome: AttemptOutcome::Failed,
            failure: Some("bad_request"),
            ..AttemptRecord::new(race_id.clone(), 0, (provider.to_owned(), model), StartReason::First)
        })));
        let refused = RaceRecord { attempts: 1, outcome: RaceOutcome::Error, ..race(&race_id, at_ms, None) };
        rows.push(Record::Race(Box::new(refused)));
    }
    let a = FakeProvider::answering(|_| hello()).await;
    let b = FakeProvider::answering(|_| hello()).await;
    let gateway = Setup::over(&[&a, &b]).race("policy = \"adaptive\"\nbudget = 0.0").start_after(&rows).await;
    let (slow, quick) = (median_ms(&gateway, "a/m"), median_ms(&gateway, "b/m"));
    assert!((800.0..1_000.0).contains(&slow) && (90.0..110.0).contains(&quick), "{slow} {quick}");
    assert_eq!(gateway.learning().upstreams().len(), 2, "names that are not configured are not learnt again");
    gateway.stop().await;
}

#[tokio::test]
async fn a_hanging_favourite_is_hedged_within_the_budget() {
    let rows = history(&[("a", 80), ("b", 100)]);
    let hangs = FakeProvider::answering(|_| silent()).await;
    let b = FakeProvider::answering(|_| hello()).await;
    let setup = Setup::over(&[&hangs, &b]).race("policy = \"adaptive\"").race("timeouts = { first_token = \"3s\" }");
    let gateway = setup.start_after(&rows).await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.upstream(), "b/m");
    let mut client = RawClient::connect(gateway.addr()).await;
    let headers = [("x-photofinish-budget", "0"), ("x-photofinish-upstreams", "a/m,b/m")];
    client.request("POST", CHAT, &headers, json!({"model": "m", "stream": true, "messages": [{}]}).to_string()).await;
    assert_eq!(read_response(&mut client).await.upstream(), "b/m");
    let rows = gateway.stop().await;
    let new = rows.races.len() as i64 - REQUESTS;
    assert_eq!(new, 2);
    let hedged = &rows.races[REQUESTS as usize];
    assert!(hedged["why"].as_str().unwrap().contains("hedged"), "{hedged:?}");
    assert_rows(
        &rows.of(REQUESTS as usize),
        &[
            json!({"provider": "a", "start_reason": "first", "outcome": "lost"}),
            json!({"provider": "b", "start_reason": "hedge", "outcome": "won"}),
        ],
    );
    // Without a budget nothing is chosen in addition: the other upstream comes first by now, or when the first is late.
    let why = rows.races[REQUESTS as usize + 1]["why"].as_str().unwrap();
    assert!(!why.contains("hedged"), "{why}");
}

#[tokio::test]
async fn outcomes_are_learnt_at_once() {
    let a = FakeProvider::answering(|_| hello()).await;
    let b = FakeProvider::answering(|_| silent()).await;
    let gateway = Setup::over(&[&a, &b]).start().await;
    for _ in 0..5 {
        assert_eq!(read_response(&mut gateway.streaming().await).await.upstream(), "a/m");
    }
    b.closed(4).await;
    let seen = |upstream: &str| {
        let forecast = gateway.learning().upstream(upstream).forecast();
        (forecast.launches(), forecast.seen())
    };
    let ((quick, quick_seen), (cut, cut_seen)) = (seen("a/m"), seen("b/m"));
    assert_eq!((quick, cut), (5, 5));
    assert!(quick_seen > 4.0 && cut_seen < 1.0, "an early cut teaches little: {quick_seen} {cut_seen}");
    let (key, _) = &gateway.learning().cost_budgets()[0];
    assert_eq!((key.model.as_str(), key.budget()), ("m", 0.1));
    gateway.stop().await;
}

#[tokio::test]
async fn upstreams_of_one_domain_are_not_hedged_against_each_other() {
    let rows = history(&[("a", 80), ("b", 90), ("c", 120)]);
    let hangs = FakeProvider::answering(|_| silent()).await;
    let b = FakeProvider::answering(|_| hello()).await;
    let c = FakeProvider::answering(|_| hello()).await;
    let park = "domain = \"park\"";
    let setup = Setup::new().provider("a", &hangs, park).provider("b", &b, park).provider("c", &c, "");
    let gateway = setup.race("policy = \"adaptive\"\nbudget = 1.0").start_after(&rows).await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.upstream(), "c/m");
    assert_eq!(b.requests().len(), 0);
    gateway.stop().await;
}

#[tokio::test]
async fn an_upstream_that_often_fails_is_not_used_as_hedge() {
    let a = FakeProvider::answering(|_| silent()).await;
    let b = FakeProvider::answering(|_| Script::status(500, &[], "{}")).await;
    let setup = Setup::over(&[&a, &b]).race("policy = \"hedge\"\nhedge_after = \"1ms\"");
    let gateway = setup.race("breaker = { failures = 0 }").race("timeouts = { total = \"150ms\" }").start().await;
    for _ in 0..8 {
        assert_eq!(read_response(&mut gateway.streaming().await).await.status, 504);
    }
    let rows = gateway.stop().await;
    let reasons: Vec<_> =
        rows.attempts.iter().filter(|row| row["provider"] == "b").map(|row| &row["start_reason"]).collect();
    assert!(reasons.len() < 8 && reasons.iter().all(|reason| *reason == "hedge"), "{reasons:?}");
    let last = rows.races.last().unwrap();
    assert_eq!((&last["plan"], &last["why"]), (&json!("a/m@0 b/m@failure"), &json!("listed throttled")));
}

#[tokio::test]
async fn an_upstream_with_an_exhausted_rate_limit_comes_last() {
    let used_up = [
        ("content-type", "text/event-stream"),
        ("x-ratelimit-remaining-requests", "0"),
        ("x-ratelimit-reset-requests", "1h0m0s"),
    ];
    let script = move || Script::new().head(200, &used_up).role().token("hello").finish("stop").done().end();
    let a = FakeProvider::answering(move |_| script()).await;
    let b = FakeProvider::start(vec![hello(), Script::status(500, &[], "{}")]).await;
    let gateway = Setup::over(&[&a, &b]).race("policy = \"fallback\"").start().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.upstream(), "a/m");
    assert_eq!(read_response(&mut gateway.streaming().await).await.upstream(), "b/m");
    assert_eq!(read_response(&mut gateway.streaming().await).await.upstream(), "a/m", "the other one has failed");
    let mut client = RawClient::connect(gateway.addr()).await;
    let alone = [("x-photofinish-upstreams", "a/m")];
    client.request("POST", CHAT, &alone, json!({"model": "m", "stream": true, "messages": [{}]}).to_string()).await;
    assert_eq!(read_response(&mut client).await.upstream(), "a/m", "where there is no other it is asked");
    gateway.stop().await;
}

#[tokio::test]
async fn a_hedge_with_a_given_delay_respects_domains() {
    let hangs = FakeProvider::answering(|_| silent()).await;
    let b = FakeProvider::answering(|_| hello()).await;
    let c = FakeProvider::answering(|_| hello()).await;
    let park = "domain = \"park\"";
    let setup = Setup::new().provider("a", &hangs, park).provider("b", &b, park).provider("c", &c, "");
    let gateway = setup.race("policy = \"hedge\"\nhedge_after = \"5ms\"").start().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.upstream(), "c/m");
    assert_eq!(b.requests().len(), 0);
    let rows = gateway.stop().await;
    assert_row!(&rows.races[0], json!({"plan": "a/m@0 b/m@failure c/m@10ms", "why": "listed hedged"}));
}
