//! Losers of providers that bill in full: they are read to their end in the background, within bounds.

use serde_json::json;

use crate::harness::answer::{first_text, read_response};
use crate::harness::gateway::{Rows, Setup, assert_row};
use crate::support::{FakeProvider, Gate, Script};

const FULL: &str = "cancel_billing = \"bills_full\"";

/// Provider `a` wins; `b` is billed in full and continues with `rest` once `a` has won.
async fn raced(settings: &str, rest: impl FnOnce(Script) -> Script) -> (Rows, FakeProvider) {
    let won = Gate::new();
    let winner = FakeProvider::start(vec![Script::stream(&["hi"])]).await;
    let loser = FakeProvider::start(vec![rest(Script::sse().role().wait(&won))]).await;
    let gateway = Setup::new()
        .race(settings)
        .provider("a", &winner, "")
        .provider("b", &loser, FULL)
        .model("[models.m]\nupstreams = [\"a/m\", \"b/m\"]")
        .start()
        .await;
    let mut client = gateway.streaming().await;
    loser.request(0).await;
    let response = read_response(&mut client).await;
    assert_eq!((response.upstream(), response.is_done()), ("a/m", true), "the client is served meanwhile");
    won.open();
    // The race, the winner and the loser.
    gateway.recorded(3).await;
    (gateway.stop().await, loser)
}

#[tokio::test]
async fn a_loser_that_is_billed_anyway_is_read_to_its_end() {
    let (rows, _) = raced("", |script| script.tokens(&["x", "y"]).finish("stop").usage(7, 2).done().end()).await;
    let row = rows.one("b");
    assert_row!(
        row,
        json!({"outcome": "drained", "ttft_event": 1, "audited": 0, "censor_cause": null, "output_tokens": 2, "payload_events": 2})
    );
    assert!(row["cancel_us"].is_null() && !row["ttft_obs_us"].is_null());
}

#[tokio::test]
async fn a_drain_is_bounded_in_bytes() {
    let long = "x".repeat(2_000);
    let (rows, loser) =
        raced("drains = { bytes = \"1KiB\" }", |script| script.token("x").token(&long).token(&long).until_closed())
            .await;
    let row = rows.one("b");
    assert_row!(row, json!({"outcome": "lost", "ttft_event": 1}));
    assert!(!row["cancel_us"].is_null());
    drop(loser);
}

#[tokio::test]
async fn a_drain_is_bounded_in_time() {
    let (rows, _) = raced("drains = { time = \"50ms\" }", Script::until_closed).await;
    assert_row!(rows.one("b"), json!({"outcome": "lost", "ttft_event": 0, "censor_cause": "timeout"}));
}

#[tokio::test]
async fn a_loser_is_cancelled_if_too_many_are_drained() {
    let (rows, _) = raced("drains = { running = 0 }", Script::until_closed).await;
    assert_row!(rows.one("b"), json!({"outcome": "lost", "ttft_event": 0, "censor_cause": "lost"}));
}

#[tokio::test]
async fn a_loser_that_breaks_while_it_is_drained_has_failed() {
    let (rows, _) = raced("", |script| script.token("x").close()).await;
    assert_row!(rows.one("b"), json!({"outcome": "failed_mid", "failure": "closed"}));
}

/// The client reads provider `a`'s first token and leaves. Only then loser `b`, which `settings` and `lines` let run
/// on, continues with `rest`.
async fn left(settings: &str, lines: &str, rest: impl FnOnce(Script) -> Script) -> (Rows, FakeProvider) {
    let gone = Gate::new();
    let winner = FakeProvider::start(vec![Script::sse().role().token("hi").until_closed()]).await;
    let loser = FakeProvider::start(vec![rest(Script::sse().role().wait(&gone))]).await;
    let setup = Setup::new().race(settings).provider("a", &winner, "").provider("b", &loser, lines);
    let gateway = setup.start().await;
    let mut client = gateway.streaming().await;
    loser.request(0).await;
    client.head().await;
    first_text(&mut client).await;
    client.close();
    winner.closed(0).await;
    gone.open();
    // The race, the winner and the loser.
    gateway.recorded(3).await;
    let rows = gateway.stop().await;
    assert_row!(rows.one("a"), json!({"outcome": "client_gone"}));
    (rows, loser)
}

#[tokio::test]
async fn a_loser_is_drained_although_the_client_leaves() {
    let (rows, _) = left("", FULL, |script| script.tokens(&["x", "y"]).finish("stop").usage(7, 2).done().end()).await;
    assert_row!(
        rows.one("b"),
        json!({"outcome": "drained", "ttft_event": 1, "audited": 0, "censor_cause": null, "output_tokens": 2, "payload_events": 2})
    );
}

#[tokio::test]
async fn a_loser_is_audited_although_the_client_leaves() {
    let (rows, loser) = left("audit = 1.0", "", |script| script.token("x").until_closed()).await;
    assert_row!(
        rows.one("b"),
        json!({"outcome": "lost", "ttft_event": 1, "audited": 1, "censor_cause": null, "output_tokens": null, "payload_events": 1})
    );
    loser.closed(0).await;
}

#[tokio::test]
async fn drained_losers_are_bounded_after_the_client_leaves() {
    let never = Script::until_closed;
    let (rows, loser) = left("drains = { time = \"50ms\" }", FULL, never).await;
    assert_row!(rows.one("b"), json!({"outcome": "lost", "censor_cause": "timeout", "audited": 0}));
    loser.closed(0).await;
    let audited = "audit = 1.0\ntimeouts = { first_token = \"1s\" }";
    let (rows, loser) = left(audited, "", never).await;
    assert_row!(rows.one("b"), json!({"outcome": "lost", "censor_cause": "timeout", "audited": 1}));
    loser.closed(0).await;
    let long = "x".repeat(2_000);
    let (rows, loser) = left("drains = { bytes = \"1KiB\" }", FULL, |script| {
        script.token("x").token(&long).token(&long).until_closed()
    })
    .await;
    assert_row!(rows.one("b"), json!({"outcome": "lost", "ttft_event": 1}));
    loser.closed(0).await;
}
