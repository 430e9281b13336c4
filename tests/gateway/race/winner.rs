//! Who wins a race, over real sockets, for every surface over every dialect: rules 1 to 7 and 13. Each rule is a bug
//! that other racing gateways had.

use serde_json::json;

use crate::harness::answer::{advance_clock_until, ending, error_and_close, read_response, silent};
use crate::harness::gateway::{Rows, assert_row};
use crate::harness::matrix::{Pair, rules};
use crate::support::{Dialect, FakeProvider, Gate, Script};

rules! { everywhere:
    r01_headers_do_not_win,
    r02_a_role_a_ping_or_an_empty_string_does_not_win,
    r03_an_empty_stream_does_not_win,
    r03_when_all_are_empty_the_answer_is_the_surfaces,
    r03_what_ends_without_a_token_and_unfinished_is_a_failure,
    r04_a_fast_refusal_does_not_beat_a_healthy_attempt,
    r05_an_error_frame_does_not_win,
    r06_cancelling_the_losers_leaves_the_winner_alone,
    r07_of_two_that_are_ready_at_once_the_loser_is_closed_too,
    r13_a_slow_favourite_is_overtaken,
}
rules! { natively: r03_when_all_are_empty_the_first_is_passed_on }

async fn r01_headers_do_not_win(pair: Pair) {
    let sent = Gate::new();
    let headers_only = FakeProvider::start(vec![pair.open().reached(&sent).until_closed()]).await;
    let healthy = FakeProvider::start(vec![pair.stream_after(&sent, &["hello"])]).await;
    let gateway = pair.over(&[&headers_only, &healthy]).start().await;
    let response = read_response(&mut pair.streaming(&gateway).await).await;
    assert_eq!(
        (response.status, response.upstream(), pair.surface.streamed_text(&response).as_str()),
        (200, "b/m", "hello")
    );
    headers_only.closed(0).await;
    let rows = gateway.stop().await;
    assert_eq!(ending(rows.one("a")), json!({"outcome": "lost", "ttft_event": 0, "censor_cause": "lost"}));
    assert_eq!(ending(rows.one("b")), json!({"outcome": "won", "ttft_event": 1}));
    assert_row!(&rows.races[0], json!({"outcome": "ok", "winner": 1, "http_status": 200}));
}

async fn r02_a_role_a_ping_or_an_empty_string_does_not_win(pair: Pair) {
    let sent = Gate::new();
    let chatter = pair.open().role().nothing().reached(&sent).until_closed();
    let chatty = FakeProvider::start(vec![chatter]).await;
    let healthy = FakeProvider::start(vec![pair.stream_after(&sent, &["hello"])]).await;
    let gateway = pair.over(&[&chatty, &healthy]).start().await;
    let response = read_response(&mut pair.streaming(&gateway).await).await;
    assert_eq!((response.upstream(), pair.surface.streamed_text(&response).as_str()), ("b/m", "hello"));
    chatty.closed(0).await;
    let rows = gateway.stop().await;
    assert_eq!(ending(rows.one("a")), json!({"outcome": "lost", "ttft_event": 0, "censor_cause": "lost"}));
    assert_row!(rows.one("a"), json!({"payload_events": 0, "first_token_us": null}));
}

async fn r03_an_empty_stream_does_not_win(pair: Pair) {
    let healthy_may = Gate::new();
    // Without the end of its body, so that the fake sees when the gateway closes the connection.
    let empty = FakeProvider::start(vec![pair.open().role().finish("stop").done().until_closed()]).await;
    let healthy = FakeProvider::start(vec![pair.stream_after(&healthy_may, &["hello"])]).await;
    let gateway = pair.over(&[&empty, &healthy]).start().await;
    let mut client = pair.streaming(&gateway).await;
    // A dialect whose streams have no last event ends after a silence.
    advance_clock_until(empty.closed(0)).await;
    healthy_may.open();
    let response = read_response(&mut client).await;
    assert_eq!((response.upstream(), pair.surface.streamed_text(&response).as_str()), ("b/m", "hello"));
    let rows = gateway.stop().await;
    assert_eq!(ending(rows.one("a")), json!({"outcome": "empty"}));
    assert_eq!(ending(rows.one("b")), json!({"outcome": "won", "ttft_event": 1}));
}

async fn r03_when_all_are_empty_the_first_is_passed_on(pair: Pair) {
    let first = || {
        let open = pair.open();
        // Lines of JSON have no comments.
        let open = if pair.dialect == Dialect::Ollama { open } else { open.comment("first") };
        open.role().finish("length").done().end()
    };
    let second = || pair.open().role().finish("stop").done().end();
    let a = FakeProvider::start(vec![first(), first()]).await;
    let b = FakeProvider::start(vec![second(), second()]).await;
    let gateway = pair.over(&[&a, &b]).race("policy = \"fallback\"").start().await;
    let response = read_response(&mut pair.streaming(&gateway).await).await;
    assert_eq!(response.status, 200);
    assert!(response.header("content-type").starts_with(pair.dialect.content_type()), "{response:#?}");
    assert_eq!(response.body.as_bytes(), first().body(), "as it came");
    let response = read_response(&mut pair.whole(&gateway).await).await;
    assert_eq!((response.status, response.header("content-type")), (200, "application/json"));
    let finish = pair.surface.whole_finish(&response.json()).to_owned();
    assert!(["length", "incomplete", "max_tokens", "MAX_TOKENS"].contains(&finish.as_str()), "{}", response.body);
    let rows = gateway.stop().await;
    assert_all_empty(&rows, 4);
}

/// Only the shape of the surface is promised, because there is no other answer to pass on.
async fn r03_when_all_are_empty_the_answer_is_the_surfaces(pair: Pair) {
    let empty = || pair.open().role().finish("stop").done().end();
    let a = FakeProvider::start(vec![empty(), empty()]).await;
    let gateway = pair.over(&[&a]).start().await;
    let response = read_response(&mut pair.streaming(&gateway).await).await;
    pair.surface.assert_complete(&response);
    assert_eq!(pair.surface.streamed_text(&response), "");
    let response = read_response(&mut pair.whole(&gateway).await).await;
    let finish = pair.surface.whole_finish(&response.json()).to_owned();
    assert!(["stop", "completed", "end_turn", "STOP"].contains(&finish.as_str()), "{}", response.body);
    assert_all_empty(&gateway.stop().await, 2);
}

async fn r03_what_ends_without_a_token_and_unfinished_is_a_failure(pair: Pair) {
    let a = FakeProvider::start(vec![pair.open().role().end(), pair.open().role().end(), pair.open().end()]).await;
    let gateway = pair.over(&[&a]).start().await;
    let asked = [pair.streaming(&gateway).await, pair.whole(&gateway).await, pair.streaming(&gateway).await];
    for mut client in asked {
        let response = read_response(&mut client).await;
        assert_eq!(response.status, 502, "{}", response.body);
        assert!(response.body.contains("closed"), "{}", response.body);
    }
    let rows = gateway.stop().await;
    for attempt in &rows.attempts {
        assert_eq!(ending(attempt), json!({"outcome": "failed", "failure": "closed", "failure_phase": "first_token"}));
    }
    for race in &rows.races {
        assert_row!(race, json!({"outcome": "error", "winner": null, "http_status": 502}));
    }
}

fn assert_all_empty(rows: &Rows, attempts: usize) {
    assert_eq!(rows.attempts.len(), attempts);
    for attempt in &rows.attempts {
        assert_eq!(ending(attempt), json!({"outcome": "empty"}));
    }
    for race in &rows.races {
        assert_row!(race, json!({"winner": null, "http_status": 200}));
    }
}

async fn r04_a_fast_refusal_does_not_beat_a_healthy_attempt(pair: Pair) {
    let healthy_may = Gate::new();
    let body = r#"{"error":{"message":"Unknown parameter: 'foo'","type":"invalid_request_error"}}"#;
    let picky = FakeProvider::start(vec![error_and_close(400, body)]).await;
    let healthy = FakeProvider::start(vec![pair.stream_after(&healthy_may, &["hello"])]).await;
    let gateway = pair.over(&[&picky, &healthy]).start().await;
    let mut client = pair.streaming(&gateway).await;
    picky.closed(0).await;
    healthy_may.open();
    let response = read_response(&mut client).await;
    assert_eq!((response.status, pair.surface.streamed_text(&response).as_str()), (200, "hello"));
    let rows = gateway.stop().await;
    assert_eq!(
        ending(rows.one("a")),
        json!({"outcome": "failed", "failure": "bad_request", "failure_phase": "headers"})
    );
    assert_eq!(rows.one("a")["http_status"], 400);
    assert_eq!(ending(rows.one("b")), json!({"outcome": "won", "ttft_event": 1}));
}

async fn r05_an_error_frame_does_not_win(pair: Pair) {
    let healthy_may = Gate::new();
    let broken = FakeProvider::start(vec![pair.open().role().error().until_closed()]).await;
    let healthy = FakeProvider::start(vec![pair.stream_after(&healthy_may, &["hello"])]).await;
    let gateway = pair.over(&[&broken, &healthy]).start().await;
    let mut client = pair.streaming(&gateway).await;
    broken.closed(0).await;
    healthy_may.open();
    let response = read_response(&mut client).await;
    assert_eq!((response.upstream(), pair.surface.streamed_text(&response).as_str()), ("b/m", "hello"));
    let rows = gateway.stop().await;
    assert_eq!(
        ending(rows.one("a")),
        json!({"outcome": "failed", "failure": "overloaded", "failure_phase": "first_token"})
    );
    assert_eq!(ending(rows.one("b")), json!({"outcome": "won", "ttft_event": 1}));
}

async fn r06_cancelling_the_losers_leaves_the_winner_alone(pair: Pair) {
    let (rest, sent) = (Gate::new(), Gate::new());
    let winning = pair.open().wait(&sent).role().token("one ").wait(&rest).token("two").finish("stop").done().end();
    let winner = FakeProvider::start(vec![winning]).await;
    let with_role = FakeProvider::start(vec![pair.open().role().reached(&sent).until_closed()]).await;
    let without_headers = FakeProvider::start(vec![silent()]).await;
    let gateway = pair.over(&[&winner, &with_role, &without_headers]).start().await;
    let mut client = pair.streaming(&gateway).await;
    without_headers.request(0).await;
    assert_eq!(client.head().await.status, 200);
    assert_eq!(pair.first_text(&mut client).await, "one ");
    with_role.closed(0).await;
    without_headers.closed(0).await;
    rest.open();
    assert_eq!(pair.first_text(&mut client).await, "two");
    while client.event().await.unwrap().is_some() {}
    let rows = gateway.stop().await;
    assert_eq!(ending(rows.one("a")), json!({"outcome": "won", "ttft_event": 1}));
    for loser in ["b", "c"] {
        assert_eq!(ending(rows.one(loser)), json!({"outcome": "lost", "ttft_event": 0, "censor_cause": "lost"}));
        assert!(!rows.one(loser)["cancel_us"].is_null());
    }
}

async fn r07_of_two_that_are_ready_at_once_the_loser_is_closed_too(pair: Pair) {
    const RACES: usize = 20;
    let gates: Vec<(Gate, Gate)> = (0..RACES).map(|_| (Gate::new(), Gate::new())).collect();
    let script =
        |(both, rest): &(Gate, Gate)| pair.open().wait(both).role().token("x").wait(rest).finish("stop").done().end();
    let scripts: Vec<Script> = gates.iter().map(script).collect();
    let (a, b) = (FakeProvider::start(scripts.clone()).await, FakeProvider::start(scripts).await);
    let before_headers = FakeProvider::answering(|_| silent()).await;
    let gateway = pair.over(&[&a, &b, &before_headers]).start().await;
    for (race, (both, rest)) in gates.iter().enumerate() {
        let mut client = pair.streaming(&gateway).await;
        for fake in [&a, &b, &before_headers] {
            fake.request(race).await;
        }
        both.open();
        let head = client.head().await;
        let loser = if head.header("x-photofinish-upstream") == Some("a/m") { &b } else { &a };
        loser.closed(race).await;
        before_headers.closed(race).await;
        rest.open();
        client.body(&head).await.unwrap();
    }
    let rows = gateway.stop().await;
    assert_eq!(rows.attempts.len(), 3 * RACES);
    let outcomes = |wanted: &str| rows.attempts.iter().filter(|attempt| attempt["outcome"] == wanted).count();
    assert_eq!((outcomes("won"), outcomes("lost")), (RACES, 2 * RACES));
    for attempt in rows.attempts.iter().filter(|attempt| attempt["outcome"] == "lost") {
        // An attempt that was read to its first token in the same pass may have its TTFT.
        let seen = !attempt["first_token_us"].is_null();
        let expected = if seen {
            json!({"outcome": "lost", "ttft_event": 1})
        } else {
            json!({"outcome": "lost", "ttft_event": 0, "censor_cause": "lost"})
        };
        assert_eq!(ending(attempt), expected);
    }
}

async fn r13_a_slow_favourite_is_overtaken(pair: Pair) {
    let favourite = FakeProvider::start(vec![pair.open().role().until_closed()]).await;
    let second = FakeProvider::start(vec![pair.stream(&["hello"])]).await;
    let gateway = pair.over(&[&favourite, &second]).race("policy = \"hedge\"\nhedge_after = \"200ms\"").start().await;
    let response = read_response(&mut pair.streaming(&gateway).await).await;
    assert_eq!((response.upstream(), response.header("x-photofinish-attempts")), ("b/m", "2"));
    favourite.closed(0).await;
    let rows = gateway.stop().await;
    let (favourite, second) = (rows.one("a"), rows.one("b"));
    assert_eq!(ending(favourite), json!({"outcome": "lost", "ttft_event": 0, "censor_cause": "lost"}));
    assert_row!(second, json!({"outcome": "won", "start_reason": "hedge"}));
    // Censored on its own clock: it waited at least until the hedge's token.
    let overtaken_us = second["dispatch_us"].as_i64().unwrap() + second["ttft_obs_us"].as_i64().unwrap();
    let waited_us = favourite["dispatch_us"].as_i64().unwrap() + favourite["ttft_obs_us"].as_i64().unwrap();
    assert!(waited_us >= overtaken_us && overtaken_us >= 200_000, "{favourite:#?} {second:#?}");
}
