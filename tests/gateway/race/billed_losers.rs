//! Losers of providers that bill in full anyway: read to their end beside everything, within their bounds.

use serde_json::json;

use crate::harness::answer::{first_text, hear};
use crate::harness::gateway::{Rows, Setup, pick};
use crate::support::{FakeProvider, Gate, Script};

const FULL: &str = "cancel_billing = \"bills_full\"";

/// Provider `a` wins; `b` is billed in full and goes on with `rest` once `a` has won.
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
    let heard = hear(&mut client).await;
    assert_eq!((heard.upstream(), heard.is_done()), ("a/m", true), "the client is served meanwhile");
    won.open();
    // The race, the winner and the loser.
    gateway.recorded(3).await;
    (gateway.stop().await, loser)
}

const COLUMNS: [&str; 6] = ["outcome", "ttft_event", "audited", "censor_cause", "output_tokens", "payload_events"];

#[tokio::test]
async fn a_loser_that_is_billed_anyway_is_read_to_its_end() {
    let (rows, _) = raced("", |script| script.tokens(&["x", "y"]).finish("stop").usage(7, 2).done().end()).await;
    let row = rows.one("b");
    assert_eq!(pick(row, &COLUMNS), json!(["drained", 1, 0, null, 2, 2]));
    assert!(row["cancel_us"].is_null() && !row["ttft_obs_us"].is_null());
}

#[tokio::test]
async fn a_drain_is_bounded_in_bytes() {
    let long = "x".repeat(2_000);
    let (rows, loser) =
        raced("drains = { bytes = \"1KiB\" }", |script| script.token("x").token(&long).token(&long).until_closed())
            .await;
    let row = rows.one("b");
    assert_eq!(pick(row, &["outcome", "ttft_event"]), json!(["lost", 1]));
    assert!(!row["cancel_us"].is_null());
    drop(loser);
}

#[tokio::test]
async fn a_drain_is_bounded_in_time() {
    let (rows, _) = raced("drains = { time = \"50ms\" }", Script::until_closed).await;
    assert_eq!(pick(rows.one("b"), &["outcome", "ttft_event", "censor_cause"]), json!(["lost", 0, "timeout"]));
}

#[tokio::test]
async fn without_a_place_a_loser_is_cancelled() {
    let (rows, _) = raced("drains = { running = 0 }", Script::until_closed).await;
    assert_eq!(pick(rows.one("b"), &["outcome", "ttft_event", "censor_cause"]), json!(["lost", 0, "lost"]));
}

#[tokio::test]
async fn a_loser_that_breaks_while_it_is_drained_has_failed() {
    let (rows, _) = raced("", |script| script.token("x").close()).await;
    assert_eq!(pick(rows.one("b"), &["outcome", "failure"]), json!(["failed_mid", "closed"]));
}

/// The client hears provider `a`'s first token and leaves; loser `b`, told to run on by `settings` and `lines`, goes on with
/// `rest` only then.
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
    assert_eq!(pick(rows.one("a"), &["outcome"]), json!(["client_gone"]));
    (rows, loser)
}

#[tokio::test]
async fn a_loser_is_drained_although_the_client_leaves() {
    let (rows, _) = left("", FULL, |script| script.tokens(&["x", "y"]).finish("stop").usage(7, 2).done().end()).await;
    assert_eq!(pick(rows.one("b"), &COLUMNS), json!(["drained", 1, 0, null, 2, 2]));
}

#[tokio::test]
async fn a_loser_is_audited_although_the_client_leaves() {
    let (rows, loser) = left("audit = 1.0", "", |script| script.token("x").until_closed()).await;
    assert_eq!(pick(rows.one("b"), &COLUMNS), json!(["lost", 1, 1, null, null, 1]));
    loser.closed(0).await;
}

#[tokio::test]
async fn what_runs_on_is_bounded_although_the_client_leaves() {
    let never = Script::until_closed;
    let (rows, loser) = left("drains = { time = \"50ms\" }", FULL, never).await;
    assert_eq!(pick(rows.one("b"), &["outcome", "censor_cause", "audited"]), json!(["lost", "timeout", 0]));
    loser.closed(0).await;
    let audited = "audit = 1.0\ntimeouts = { first_token = \"1s\" }";
    let (rows, loser) = left(audited, "", never).await;
    assert_eq!(pick(rows.one("b"), &["outcome", "censor_cause", "audited"]), json!(["lost", "timeout", 1]));
    loser.closed(0).await;
    let long = "x".repeat(2_000);
    let (rows, loser) = left("drains = { bytes = \"1KiB\" }", FULL, |script| {
        script.token("x").token(&long).token(&long).until_closed()
    })
    .await;
    assert_eq!(pick(rows.one("b"), &["outcome", "ttft_event"]), json!(["lost", 1]));
    loser.closed(0).await;
}
