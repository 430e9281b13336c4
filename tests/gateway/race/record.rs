//! What a race records and how long it lasts, over real sockets, for every surface over every dialect: rules 8 to 12
//! and 14. Each rule is a bug that other racing gateways had.

use std::time::Duration;

use serde_json::json;

use crate::harness::answer::{advance_clock, ending, read_response, read_rest, silent};
use crate::harness::gateway::assert_row;
use crate::harness::matrix::{Pair, rules};
use crate::harness::surface::Surface;
use crate::support::{FakeProvider, Gate, Script};

const SECOND: Duration = Duration::from_secs(1);

rules! { everywhere:
    r09_every_loser_leaves_a_row,
    r12_characters_may_be_split_over_reads,
    r12_an_endless_line_is_bounded,
    r14_a_cancelled_attempt_is_not_held_against_its_provider,
}
rules! { natively:
    r12_line_ends_may_be_split_over_reads,
    r10_the_ttft_of_a_hedge_is_its_own,
    r11_the_total_timeout_does_not_cut_a_stream,
    r11_the_total_timeout_ends_a_race_without_a_winner,
}
rules! { over_chat: r08_a_retry_does_not_delay_other_attempts }

async fn r08_a_retry_does_not_delay_other_attempts(pair: Pair) {
    let (picky_may, healthy_may) = (Gate::new(), Gate::new());
    let held = picky_may.clone();
    let picky = FakeProvider::answering(move |request| {
        if request.json().get("stream_options").is_some() {
            return Script::status(400, &[], r#"{"detail":[{"loc":["body","stream_options"],"msg":"Extra inputs"}]}"#);
        }
        pair.stream_after(&held, &["picky"])
    })
    .await;
    let healthy = FakeProvider::start(vec![pair.stream_after(&healthy_may, &["healthy"]), silent(), silent()]).await;
    let gateway = pair.over(&[&picky, &healthy]).start().await;
    let mut client = pair.streaming(&gateway).await;
    assert!(picky.request(1).await.json().get("stream_options").is_none(), "asked again without");
    healthy_may.open();
    let response = read_response(&mut client).await;
    assert_eq!(
        (response.upstream(), pair.surface.streamed_text(&response).as_str()),
        ("b/m", "healthy"),
        "while the retry is still awaited"
    );
    picky.closed(1).await;

    picky_may.open();
    let response = read_response(&mut pair.streaming(&gateway).await).await;
    assert_eq!(pair.surface.streamed_text(&response), "picky");
    assert!(picky.request(2).await.json().get("stream_options").is_some(), "no answer has shown that it was meant");
    let response = read_response(&mut pair.streaming(&gateway).await).await;
    assert_eq!(pair.surface.streamed_text(&response), "picky");
    assert!(picky.request(4).await.json().get("stream_options").is_none(), "now one has");
    let rows = gateway.stop().await;
    let first = rows.of(0);
    assert_eq!(first.len(), 3);
    assert_row!(
        first[0],
        json!({"provider": "a", "start_reason": "first", "outcome": "failed", "failure": "bad_request"})
    );
    assert_row!(first[1], json!({"provider": "b", "start_reason": "first", "outcome": "won", "failure": null}));
    assert_row!(first[2], json!({"provider": "a", "start_reason": "retry", "outcome": "lost", "failure": null}));
    assert_eq!((rows.of(1).len(), rows.of(2).len()), (3, 2));
}

async fn r09_every_loser_leaves_a_row(pair: Pair) {
    let (with_headers, with_role) = (Gate::new(), Gate::new());
    let a = FakeProvider::start(vec![silent()]).await;
    let b = FakeProvider::start(vec![pair.open().reached(&with_headers).until_closed()]).await;
    let c = FakeProvider::start(vec![pair.open().wait(&with_headers).role().reached(&with_role).until_closed()]).await;
    let d = FakeProvider::start(vec![pair.stream_after(&with_role, &["hello"])]).await;
    let gateway = pair.over(&[&a, &b, &c, &d]).start().await;
    let mut client = pair.whole(&gateway).await;
    a.request(0).await;
    assert_eq!(pair.surface.whole_text(&read_response(&mut client).await.json()), "hello");
    for loser in [&a, &b, &c] {
        loser.closed(0).await;
    }
    let rows = gateway.stop().await;
    assert_row!(&rows.races[0], json!({"attempts": 4, "winner": 3, "outcome": "ok", "stream": 0}));
    for loser in ["a", "b", "c"] {
        assert_eq!(ending(rows.one(loser)), json!({"outcome": "lost", "ttft_event": 0, "censor_cause": "lost"}));
        assert!(rows.one(loser)["ttft_obs_us"].as_i64() > Some(0));
    }
    assert_eq!(ending(rows.one("d")), json!({"outcome": "won", "ttft_event": 1}));
}

async fn r10_the_ttft_of_a_hedge_is_its_own(pair: Pair) {
    let hanging = FakeProvider::start(vec![silent()]).await;
    let hedge = FakeProvider::start(vec![pair.stream(&["hello"])]).await;
    let gateway = pair.over(&[&hanging, &hedge]).race("policy = \"hedge\"\nhedge_after = \"2s\"").start().await;
    let mut client = pair.streaming(&gateway).await;
    hanging.request(0).await;
    advance_clock(2 * SECOND).await;
    let response = read_response(&mut client).await;
    assert!(response.header("x-photofinish-ttft-ms").parse::<i64>().unwrap() < 2_000, "{:?}", response.headers);
    let rows = gateway.stop().await;
    let hedge = rows.one("b");
    assert_row!(hedge, json!({"start_reason": "hedge", "outcome": "won", "ttft_event": 1}));
    let (dispatch, ttft) = (hedge["dispatch_us"].as_i64().unwrap(), hedge["ttft_obs_us"].as_i64().unwrap());
    assert!(dispatch >= 2_000_000 && ttft < 2_000_000, "{hedge:#?}");
    assert!(rows.races[0]["first_token_sent_us"].as_i64().unwrap() >= dispatch + ttft, "the client's is the race's");
    assert_eq!(ending(rows.one("a")), json!({"outcome": "lost", "ttft_event": 0, "censor_cause": "lost"}));
}

async fn r11_the_total_timeout_does_not_cut_a_stream(pair: Pair) {
    let later = Gate::new();
    let long = pair.open().role().token("one ").wait(&later).token("two").finish("stop").done().end();
    let slow = FakeProvider::start(vec![long]).await;
    let gateway = pair.over(&[&slow]).race("timeouts = { total = \"2s\" }").start().await;
    let mut client = pair.streaming(&gateway).await;
    let head = client.head().await;
    advance_clock(3 * SECOND).await;
    later.open();
    let response = read_rest(&mut client, head).await;
    pair.surface.assert_complete(&response);
    assert_eq!(pair.surface.streamed_text(&response), "one two");
    let rows = gateway.stop().await;
    assert_eq!(ending(rows.one("a")), json!({"outcome": "won", "ttft_event": 1}));
    assert!(rows.races[0]["done_us"].as_i64().unwrap() > 2_000_000);
}

async fn r11_the_total_timeout_ends_a_race_without_a_winner(pair: Pair) {
    let mid = || pair.open().role().token("one ").until_closed();
    let (hanging, talking) = (FakeProvider::start(vec![silent()]).await, FakeProvider::start(vec![mid()]).await);
    let gateway = pair.over(&[&hanging, &talking]).race("timeouts = { total = \"1s\" }").start().await;
    let ask = |model: &str, stream: bool| (pair.surface.path_for(model, stream), pair.surface.body(model, stream));
    let (path, body) = ask("a/m", true);
    let mut client = gateway.post(&path, &body).await;
    hanging.request(0).await;
    advance_clock(SECOND).await;
    let response = read_response(&mut client).await;
    assert_eq!(response.status, 504, "before the commit");
    assert!(pair.surface.error(&response).1.contains("timeouts.total"), "{}", response.body);
    hanging.closed(0).await;
    let (path, body) = ask("b/m", false);
    let response = read_response(&mut gateway.post(&path, &body).await).await;
    assert_eq!(response.status, 504, "not streaming");
    talking.closed(0).await;
    let rows = gateway.stop().await;
    assert_eq!(
        ending(rows.one("a")),
        json!({"outcome": "timeout", "ttft_event": 0, "censor_cause": "timeout", "failure": "timeout", "failure_phase": "headers"})
    );
    assert_eq!(
        ending(rows.one("b")),
        json!({"outcome": "failed_mid", "ttft_event": 1, "failure": "timeout", "failure_phase": "stream"})
    );
    for race in &rows.races {
        assert_row!(race, json!({"outcome": "error", "http_status": 504}));
    }
}

async fn r12_characters_may_be_split_over_reads(pair: Pair) {
    let script = || pair.stream(&["é😀 ", "日本"]);
    let fake = FakeProvider::start(vec![script().byte_by_byte(), script().byte_by_byte()]).await;
    let gateway = pair.over(&[&fake]).start().await;
    let response = read_response(&mut pair.streaming(&gateway).await).await;
    pair.surface.assert_complete(&response);
    assert_eq!(pair.surface.streamed_text(&response), "é😀 日本");
    if pair.surface.dialect() == pair.dialect {
        assert_eq!(response.body.as_bytes(), script().body(), "byte for byte");
    }
    let response = read_response(&mut pair.whole(&gateway).await).await;
    assert_eq!(pair.surface.whole_text(&response.json()), "é😀 日本");
    let rows = gateway.stop().await;
    for attempt in &rows.attempts {
        assert_row!(attempt, json!({"outcome": "won", "payload_events": 2, "chars_total": 5}));
    }
}

async fn r12_line_ends_may_be_split_over_reads(pair: Pair) {
    let script = || pair.stream(&["a", "b"]).with_line_ends("\r\n");
    let fake = FakeProvider::start(vec![script().byte_by_byte()]).await;
    let gateway = pair.over(&[&fake]).start().await;
    let response = read_response(&mut pair.streaming(&gateway).await).await;
    pair.surface.assert_complete(&response);
    // Without an event that ends the stream, the rest of the last line end comes as one more blank line.
    let end = if pair.surface == Surface::Gemini { response.body.trim_end().len() } else { response.body.len() };
    assert_eq!(&response.body.as_bytes()[..end], &script().body()[..end]);
    assert!(script().body()[end..].trim_ascii().is_empty(), "{}", response.body);
    assert_row!(gateway.stop().await.one("a"), json!({"outcome": "won", "payload_events": 2}));
}

async fn r12_an_endless_line_is_bounded(pair: Pair) {
    let endless =
        (0..10).fold(pair.open().chunk(pair.dialect.endless()), |script, _| script.chunk(vec![b'x'; 1 << 20]));
    let a = FakeProvider::start(vec![endless.until_closed()]).await;
    let b = FakeProvider::start(vec![pair.stream(&["hello"])]).await;
    let gateway = pair.over(&[&a, &b]).race("policy = \"fallback\"").server("event_max = \"8MiB\"").start().await;
    let response = read_response(&mut pair.streaming(&gateway).await).await;
    assert_eq!((response.upstream(), pair.surface.streamed_text(&response).as_str()), ("b/m", "hello"));
    a.closed(0).await;
    let rows = gateway.stop().await;
    assert_eq!(
        ending(rows.one("a")),
        json!({"outcome": "failed", "failure": "malformed", "failure_phase": "first_token"})
    );
    assert_row!(rows.one("b"), json!({"outcome": "won", "start_reason": "fallback"}));
}

async fn r14_a_cancelled_attempt_is_not_held_against_its_provider(pair: Pair) {
    const LOST: usize = 12;
    let cancelled = FakeProvider::answering(move |request| match request.number {
        number if number < LOST => pair.open().role().until_closed(),
        _ => pair.stream(&["at last"]),
    })
    .await;
    let winner = FakeProvider::answering(move |request| match request.number {
        number if number < LOST => pair.stream(&["hello"]),
        _ => silent(),
    })
    .await;
    let gateway = pair.over(&[&cancelled, &winner]).start().await;
    for race in 0..LOST {
        let mut client = pair.streaming(&gateway).await;
        cancelled.request(race).await;
        let response = read_response(&mut client).await;
        assert_eq!(response.upstream(), "b/m");
        cancelled.closed(race).await;
    }
    let response = read_response(&mut pair.streaming(&gateway).await).await;
    assert_eq!((response.upstream(), pair.surface.streamed_text(&response).as_str()), ("a/m", "at last"));
    let rows = gateway.stop().await;
    let of_a: Vec<_> = rows.attempts.iter().filter(|attempt| attempt["provider"] == "a").collect();
    assert_eq!(of_a.len(), LOST + 1);
    assert!(
        of_a[..LOST]
            .iter()
            .all(|attempt| ending(attempt) == json!({"outcome": "lost", "ttft_event": 0, "censor_cause": "lost"})),
        "{of_a:#?}"
    );
    assert_eq!(of_a[LOST]["outcome"], "won");
}
