//! `/api/races`: pages without gaps, filters, and one race with the values of its rows.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::harness::answer::{Response, first_text, read_response, silent};
use crate::harness::gateway::{Row, Setup, TestGateway};
use crate::support::{FakeProvider, Gate, RawClient, Script};

async fn get(gateway: &TestGateway, path: &str) -> Response {
    let mut client = RawClient::connect(gateway.addr()).await;
    client.request("GET", path, &[], "").await;
    read_response(&mut client).await
}

async fn found(gateway: &TestGateway, query: &str) -> usize {
    let response = get(gateway, &format!("/api/races?{query}")).await;
    assert_eq!(response.status, 200, "{}", response.body);
    response.json()["races"].as_array().unwrap().len()
}

#[tokio::test]
async fn pages_have_no_gap_and_no_repeat_while_new_races_come() {
    let fake = FakeProvider::answering(|_| Script::stream(&["a"])).await;
    let gateway = Setup::over(&[&fake]).start().await;
    for _ in 0..120 {
        read_response(&mut gateway.streaming().await).await;
    }
    gateway.recorded(240).await;
    let mut rows = 240;
    let (mut seen, mut pages, mut query) = (Vec::new(), 0, "limit=25".to_owned());
    loop {
        let page = get(&gateway, &format!("/api/races?{query}")).await.json();
        let races = page["races"].as_array().unwrap();
        seen.extend(races.iter().map(|race| race["race_id"].as_str().unwrap().to_owned()));
        pages += 1;
        read_response(&mut gateway.streaming().await).await;
        rows += 2;
        gateway.recorded(rows).await;
        let Some(next) = page["next"].as_str() else { break };
        assert_eq!((races.len(), seen.last().unwrap().as_str()), (25, next));
        query = format!("limit=25&before={next}");
    }
    assert_eq!((pages, seen.len(), seen.iter().collect::<BTreeSet<_>>().len()), (5, 120, 120));
    assert!(seen.iter().rev().is_sorted(), "newest first");
    assert_eq!(found(&gateway, "limit=1000").await, 125);
    assert_eq!(found(&gateway, "").await, 50);
    let all = gateway.stop().await;
    let first: Vec<&Value> = all.races.iter().take(120).map(|race| &race["race_id"]).collect();
    assert_eq!(seen.iter().rev().map(|id| json!(id)).collect::<Vec<_>>().iter().collect::<Vec<_>>(), first);
}

#[tokio::test]
async fn races_are_filtered() {
    let a = FakeProvider::answering(|_| Script::stream(&["a"])).await;
    let b = FakeProvider::answering(|_| Script::status(500, &[], "{}")).await;
    let gateway = Setup::over(&[&a, &b]).start().await;
    for model in ["m", "a/x y+z", "b/50%", "nobody/ü&m=1", "a/x y+z"] {
        read_response(&mut gateway.ask(&json!({"model": model, "stream": true, "messages": [{}]})).await).await;
    }
    gateway.recorded(10).await;
    for (query, races) in [
        ("", 5),
        ("model=m", 1),
        ("model=a/x+y%2Bz", 2),
        ("model=a%2Fx%20y%2bz", 2),
        ("model=a/x+y+z", 0),
        ("model=b/50%25", 1),
        ("model=nobody%2F%C3%BC%26m%3D1", 1),
        ("provider=a", 3),
        ("provider=b", 2),
        ("provider=c", 0),
        ("upstream=a/m", 1),
        ("upstream=a/x%20y%2Bz", 2),
        ("outcome=ok", 3),
        ("outcome=rejected", 1),
        ("outcome=error&provider=b", 1),
        ("user=nobody", 0),
        ("since=1h", 5),
        ("since=2h&until=1h", 0),
        ("until=2026-01-01", 0),
    ] {
        assert_eq!(found(&gateway, query).await, races, "{query}");
    }
    gateway.stop().await;
}

fn assert_same(shown: &Value, row: &Row) {
    for (column, value) in row {
        assert_eq!(shown[column], *value, "{column}");
    }
}

#[tokio::test]
async fn a_race_is_shown_as_its_rows() {
    let a = FakeProvider::answering(|_| Script::stream(&["one", " two"])).await;
    let b = FakeProvider::answering(|_| silent()).await;
    let c = FakeProvider::answering(|_| Script::status(500, &[], "{}")).await;
    // The failure comes first, whichever upstream is faster.
    let setup = Setup::over(&[&c, &a, &b]).race("policy = \"fallback\"");
    let gateway = setup.start().await;
    let response = read_response(&mut gateway.streaming().await).await;
    let race_id = response.header("x-photofinish-race").to_owned();
    gateway.recorded(3).await;
    let whole = get(&gateway, &format!("/api/races/{race_id}")).await.json();
    let upper = get(&gateway, &format!("/api/races/{}", race_id.to_uppercase())).await.json();
    assert_eq!(upper, whole);
    let listed = get(&gateway, "/api/races").await.json();
    assert_eq!(listed["races"][0], whole["race"]);
    let rows = gateway.stop().await;
    assert_same(&whole["race"], &rows.races[0]);
    assert_eq!(whole["race"]["upstream"], "b/m");
    assert_eq!(whole["race"]["client_ttft_ms"], rows.races[0]["first_token_sent_us"].as_f64().unwrap() / 1e3);
    let attempts = whole["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 2);
    for (shown, row) in attempts.iter().zip(&rows.attempts) {
        assert_same(shown, row);
    }
    assert_eq!((&attempts[0]["upstream"], &attempts[0]["ttft_ms"]), (&json!("a/m"), &Value::Null));
    assert_eq!(attempts[1]["ttft_ms"], rows.attempts[1]["first_token_us"].as_f64().unwrap() / 1e3);

    let timeline = whole["timeline"].as_array().unwrap();
    let at = |attempt: Value, event: &str| -> f64 {
        let found = timeline.iter().find(|entry| entry["event"] == event && entry["attempt"] == attempt);
        found.unwrap_or_else(|| panic!("no {event} of {attempt}: {timeline:#?}"))["at_ms"].as_f64().unwrap()
    };
    assert!(timeline.iter().map(|entry| entry["at_ms"].as_f64().unwrap()).is_sorted(), "{timeline:#?}");
    assert_eq!(timeline[0], json!({ "at_ms": 0.0, "attempt": null, "event": "request_read" }));
    assert!(at(Value::Null, "done") >= at(Value::Null, "first_token_sent"));
    let (failed, won) = (&rows.attempts[0], &rows.attempts[1]);
    let ms = |us: i64| us as f64 / 1e3;
    assert_eq!(
        at(json!(0), "headers"),
        ms(failed["dispatch_us"].as_i64().unwrap() + failed["headers_us"].as_i64().unwrap())
    );
    assert_eq!(
        at(json!(1), "first_token"),
        ms(won["dispatch_us"].as_i64().unwrap() + won["first_token_us"].as_i64().unwrap())
    );
    assert!(at(json!(0), "headers") <= at(json!(1), "dispatch"), "a fallback");
    assert!(at(json!(1), "first_token") <= at(Value::Null, "first_token_sent"));
    let columns = |row: &Row| row.iter().filter(|(name, at)| name.ends_with("_us") && !at.is_null()).count();
    let no_events = ["ttft_obs_us", "gap_p50_us", "gap_p95_us", "gap_p99_us", "gap_max_us"];
    let others = |row: &Row| no_events.iter().filter(|name| !row[**name].is_null()).count();
    let of_attempts: usize = rows.attempts.iter().map(|row| columns(row) - others(row)).sum();
    assert_eq!(timeline.len(), 3 + of_attempts, "every time that is stored: {timeline:#?}");
}

#[tokio::test]
async fn a_running_race_is_shown_once_it_has_ended() {
    let gate = Gate::default();
    let open = gate.clone();
    let a = FakeProvider::answering(move |_| Script::sse().role().token("one").wait(&open).finish("stop").done().end())
        .await;
    let b = FakeProvider::answering(|_| silent()).await;
    let gateway = Setup::over(&[&a, &b]).start().await;
    let mut client = gateway.streaming().await;
    let race_id = client.head().await.header("x-photofinish-race").unwrap().to_owned();
    first_text(&mut client).await;
    let path = format!("/api/races/{race_id}");
    // The loser has ended, but a part of a race is never written.
    let early = get(&gateway, &path).await;
    assert_eq!(early.status, 404);
    gate.open();
    while client.event().await.unwrap().is_some() {}
    gateway.recorded(3).await;
    let late = get(&gateway, &path).await.json();
    assert_eq!((&late["race"]["outcome"], late["attempts"].as_array().unwrap().len()), (&json!("ok"), 2));
    gateway.stop().await;
}
