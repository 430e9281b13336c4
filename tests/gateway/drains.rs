//! Losers of providers that bill in full anyway: read to their end beside everything, within their bounds.

use serde_json::json;

use crate::gateway::{Rows, Setup, pick};
use crate::support::{FakeProvider, Gate, Script};
use crate::talk::hear;

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
