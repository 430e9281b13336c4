//! Races to the whole answer: every race of a client that does not stream. With `optimise = "completion"` or
//! `"goodput"` the first whole answer wins; with `"ttft"` the first token decides, and the others are started again
//! only if that answer breaks.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::answer::{Response, ending, first_text, read_response, silent};
use crate::harness::gateway::{Row, Setup, assert_row, assert_rows, pick};
use crate::support::{FakeProvider, Gate, Script};

const COMPLETION: &str = "optimise = \"completion\"";

/// Long enough for earlier data to be read.
const A_MOMENT: Duration = Duration::from_millis(60);

fn content(response: &Response) -> Value {
    response.json()["choices"][0]["message"]["content"].clone()
}

/// Begins and never ends.
fn endless() -> Script {
    Script::sse().role().token("slow").until_closed()
}

/// `a` begins at once and never ends; `b` begins a moment after it, and ends a moment later.
async fn overtaken() -> (FakeProvider, FakeProvider) {
    let begun = Gate::new();
    let a = FakeProvider::start(vec![Script::sse().role().token("slow").reached(&begun).until_closed()]).await;
    let b = Script::sse().wait(&begun).delay(A_MOMENT).role().token("qu").delay(A_MOMENT).token("ick");
    (a, FakeProvider::start(vec![b.finish("stop").usage(3, 2).done().end()]).await)
}

#[tokio::test]
async fn the_first_whole_answer_wins_although_another_began_earlier() {
    for (optimise, objective) in [(COMPLETION, "completion"), ("optimise = \"goodput\"", "goodput")] {
        let (a, b) = overtaken().await;
        let gateway = Setup::over(&[&a, &b]).race(optimise).start().await;
        let response = read_response(&mut gateway.whole().await).await;
        assert_eq!((response.status, response.upstream(), content(&response)), (200, "b/m", json!("quick")));
        a.closed(0).await;
        let rows = gateway.stop().await;
        assert_eq!(ending(rows.one("a")), json!({"outcome": "lost", "ttft_event": 1}));
        assert_eq!(ending(rows.one("b")), json!({"outcome": "won", "ttft_event": 1}));
        let race = &rows.races[0];
        assert_row!(race, json!({"winner": 1, "outcome": "ok", "optimise": objective, "attempts": 2}));
    }
}

#[tokio::test]
async fn a_loser_with_a_short_rest_is_read_on_to_keep_its_connection() {
    let (a, b) = overtaken().await;
    let gateway = Setup::over(&[&a, &b]).race(COMPLETION).start().await;
    let asking = json!({"model": "m", "max_tokens": 2, "messages": [{"role": "user", "content": "Hi"}]});
    let response = read_response(&mut gateway.ask(&asking).await).await;
    assert_eq!((response.status, response.upstream()), (200, "b/m"));
    a.closed(0).await;
    let rows = gateway.stop().await;
    let micros = |row: &Row, column: &str| row[column].as_i64().unwrap();
    let loser = rows.one("a");
    assert_eq!(ending(loser), json!({"outcome": "lost", "ttft_event": 1}));
    let read_on_us = micros(loser, "dispatch_us") + micros(loser, "cancel_us") - micros(&rows.races[0], "done_us");
    assert!(read_on_us > 190_000, "for 200 ms from its loss: {read_on_us}");
}

#[tokio::test]
async fn the_headers_tell_the_first_token_of_the_winner_and_not_its_end() {
    let (a, b) = overtaken().await;
    let gateway = Setup::over(&[&a, &b]).race(COMPLETION).start().await;
    let response = read_response(&mut gateway.whole().await).await;
    let rows = gateway.stop().await;
    let micros = |column: &str| rows.one("b")[column].as_i64().unwrap();
    let ttft_us = micros("first_token_us");
    assert_eq!(response.header("x-photofinish-ttft-ms"), ((ttft_us + 500) / 1_000).to_string());
    let timing = response.header("server-timing").strip_prefix("ttft;dur=").unwrap();
    let client_ttft_ms: f64 = timing.split(',').next().unwrap().parse().unwrap();
    let (from, until) = (micros("dispatch_us") + ttft_us, micros("dispatch_us") + micros("last_token_us"));
    assert!(
        client_ttft_ms * 1e3 >= from as f64 - 1.0 && client_ttft_ms * 1e3 < until as f64,
        "{timing} {from} {until}"
    );
}

#[tokio::test]
async fn a_streaming_client_gets_the_first_token() {
    let (a, b) = overtaken().await;
    let gateway = Setup::over(&[&a, &b]).race(COMPLETION).start().await;
    let mut client = gateway.streaming().await;
    client.head().await;
    assert_eq!(first_text(&mut client).await, "slow");
    b.closed(0).await;
    client.close();
    a.closed(0).await;
    let rows = gateway.stop().await;
    assert_eq!(rows.one("b")["outcome"], "lost");
}

#[tokio::test]
async fn an_answer_that_breaks_off_has_failed_and_the_others_continue() {
    let broken = Gate::new();
    let a = FakeProvider::start(vec![Script::sse().role().token("half").reached(&broken).close()]).await;
    let b =
        FakeProvider::start(vec![Script::sse().role().wait(&broken).tokens(&["o", "k"]).finish("stop").done().end()])
            .await;
    let gateway = Setup::over(&[&a, &b]).race(COMPLETION).start().await;
    let response = read_response(&mut gateway.whole().await).await;
    assert_eq!((response.upstream(), content(&response)), ("b/m", json!("ok")));
    let rows = gateway.stop().await;
    assert_eq!(
        ending(rows.one("a")),
        json!({"outcome": "failed_mid", "ttft_event": 1, "failure": "closed", "failure_phase": "stream"})
    );
    assert_eq!(rows.one("b")["start_reason"], "first", "it was not cut when the other began");
}

#[tokio::test]
async fn after_a_broken_or_silent_answer_untried_upstreams_follow() {
    let dies = Script::sse().role().token("half").close();
    for (script, failure) in [(dies, "closed"), (endless(), "idle_timeout")] {
        let a = FakeProvider::start(vec![script]).await;
        let b = FakeProvider::start(vec![Script::stream(&["rescued"])]).await;
        let race = "policy = \"fallback\"\ntimeouts = { first_token = \"10s\", idle = \"300ms\" }";
        let gateway = Setup::over(&[&a, &b]).race(COMPLETION).race(race).start().await;
        let response = read_response(&mut gateway.whole().await).await;
        assert_eq!((response.upstream(), content(&response)), ("b/m", json!("rescued")));
        let rows = gateway.stop().await;
        assert_eq!(
            ending(rows.one("a")),
            json!({"outcome": "failed_mid", "ttft_event": 1, "failure": failure, "failure_phase": "stream"})
        );
        assert_row!(rows.one("b"), json!({"outcome": "won", "start_reason": "fallback"}));
    }
}

#[tokio::test]
async fn a_first_token_timeout_ends_with_the_first_token() {
    let a = Script::sse().role().token("lo").delay(Duration::from_millis(600)).token("ng").finish("stop").done().end();
    let (a, b) = (FakeProvider::start(vec![a]).await, FakeProvider::start(vec![silent()]).await);
    let race = "timeouts = { first_token = \"300ms\" }";
    let gateway = Setup::over(&[&a, &b]).race(COMPLETION).race(race).start().await;
    let response = read_response(&mut gateway.whole().await).await;
    assert_eq!((response.upstream(), content(&response)), ("a/m", json!("long")));
    let rows = gateway.stop().await;
    assert_eq!(
        ending(rows.one("b")),
        json!({"outcome": "timeout", "ttft_event": 0, "censor_cause": "timeout", "failure": "timeout", "failure_phase": "headers"})
    );
}

#[tokio::test]
async fn the_total_deadline_ends_answers_that_have_begun() {
    let a = FakeProvider::start(vec![endless()]).await;
    let b = FakeProvider::start(vec![silent()]).await;
    let race = "timeouts = { total = \"400ms\" }";
    let gateway = Setup::over(&[&a, &b]).race(COMPLETION).race(race).start().await;
    let response = read_response(&mut gateway.whole().await).await;
    assert_eq!(response.status, 504);
    let rows = gateway.stop().await;
    assert_eq!(
        ending(rows.one("a")),
        json!({"outcome": "failed_mid", "ttft_event": 1, "failure": "timeout", "failure_phase": "stream"})
    );
    assert_eq!(
        ending(rows.one("b")),
        json!({"outcome": "timeout", "ttft_event": 0, "censor_cause": "timeout", "failure": "timeout", "failure_phase": "headers"})
    );
}

#[tokio::test]
async fn all_attempts_are_cancelled_when_the_client_leaves() {
    let begun = Gate::new();
    let a = FakeProvider::start(vec![Script::sse().role().token("x").reached(&begun).until_closed()]).await;
    let b = FakeProvider::start(vec![silent()]).await;
    let gateway = Setup::over(&[&a, &b]).race(COMPLETION).start().await;
    let client = gateway.whole().await;
    begun.passed().await;
    b.request(0).await;
    client.close();
    a.closed(0).await;
    b.closed(0).await;
    let rows = gateway.stop().await;
    assert_eq!(
        ending(rows.one("b")),
        json!({"outcome": "client_gone", "ttft_event": 0, "censor_cause": "client_gone"})
    );
    assert_eq!(rows.one("a")["outcome"], "client_gone");
    assert_row!(&rows.races[0], json!({"winner": null, "outcome": "client_gone"}));
}

#[tokio::test]
async fn a_loser_that_has_begun_and_is_billed_anyway_is_read_to_its_end() {
    let (begun, won) = (Gate::new(), Gate::new());
    let rest = Script::sse().role().token("x").reached(&begun).wait(&won).token("y").finish("stop").usage(7, 2);
    let loser = FakeProvider::start(vec![rest.done().end()]).await;
    let winner = Script::sse().wait(&begun).delay(A_MOMENT).role().token("hi").finish("stop").done().end();
    let winner = FakeProvider::start(vec![winner]).await;
    let gateway = Setup::new()
        .race(COMPLETION)
        .provider("a", &loser, "cancel_billing = \"bills_full\"")
        .provider("b", &winner, "")
        .start()
        .await;
    let response = read_response(&mut gateway.whole().await).await;
    assert_eq!(response.upstream(), "b/m", "it did not wait for the loser");
    won.open();
    gateway.recorded(3).await;
    let rows = gateway.stop().await;
    assert_row!(
        rows.one("a"),
        json!({"outcome": "drained", "ttft_event": 1, "audited": 0, "output_tokens": 2, "payload_events": 2})
    );
}

/// `b` gets the request and does not answer. Then `a` begins, and ends when allowed.
async fn decided(rest_may: &Gate) -> (FakeProvider, FakeProvider) {
    let asked = Gate::new();
    let a = Script::sse().wait(&asked).role().token("a").wait(rest_may).delay(A_MOMENT).token("ll").finish("stop");
    let a = FakeProvider::start(vec![a.usage(8, 2).done().end()]).await;
    (a, FakeProvider::start(vec![Script::sse().role().reached(&asked).until_closed()]).await)
}

#[tokio::test]
async fn where_the_first_token_decides_the_others_are_cut_by_it_and_cost_what_they_cost_a_client_that_streams() {
    let priced =
        ["a", "b"].map(|name| format!("{{ upstream = \"{name}/m\", input_price = 1.0, output_price = 10.0 }}"));
    let model = format!("[models.m]\nupstreams = [{}]", priced.join(", "));
    let mut costs = Vec::new();
    for streams in [true, false] {
        let rest_may = Gate::new();
        let (a, b) = decided(&rest_may).await;
        let gateway = Setup::over(&[&a, &b]).model(&model).start().await;
        let mut client = if streams { gateway.streaming().await } else { gateway.whole().await };
        // The answer cannot end before that.
        b.closed(0).await;
        rest_may.open();
        let response = read_response(&mut client).await;
        assert_eq!((response.status, response.upstream()), (200, "a/m"));
        let rows = gateway.stop().await;
        assert_eq!(ending(rows.one("a")), json!({"outcome": "won", "ttft_event": 1}));
        assert_eq!(ending(rows.one("b")), json!({"outcome": "lost", "ttft_event": 0, "censor_cause": "lost"}));
        let ttft_us = rows.one("a")["first_token_us"].as_i64().unwrap();
        assert_eq!(response.header("x-photofinish-ttft-ms"), ((ttft_us + 500) / 1_000).to_string());
        assert_row!(&rows.races[0], json!({"winner": 0, "outcome": "ok", "attempts": 2, "http_status": 200}));
        costs.push(pick(rows.one("b"), &["cost_usd_min", "cost_usd_max"]));
    }
    assert_eq!(costs[0], costs[1]);
    assert!(costs[0]["cost_usd_min"] == 0.0 && costs[0]["cost_usd_max"].as_f64() > Some(0.0), "it has a bound");
}

#[tokio::test]
async fn a_loser_comes_again_when_the_answer_whose_first_token_decided_breaks() {
    let (asked, cut) = (Gate::new(), Gate::new());
    let a = Script::sse().wait(&asked).role().token("half").wait(&cut).close();
    let a = FakeProvider::start(vec![a]).await;
    let b = vec![Script::sse().role().reached(&asked).until_closed(), Script::stream(&["again"])];
    let b = FakeProvider::start(b).await;
    let gateway = Setup::over(&[&a, &b]).start().await;
    let mut client = gateway.whole().await;
    b.closed(0).await;
    cut.open();
    let response = read_response(&mut client).await;
    assert_eq!((response.upstream(), content(&response)), ("b/m", json!("again")));
    let rows = gateway.stop().await;
    assert_eq!(
        ending(rows.one("a")),
        json!({"outcome": "failed_mid", "ttft_event": 1, "failure": "closed", "failure_phase": "stream"})
    );
    assert_rows(
        &rows.of(0)[1..],
        &[json!({"outcome": "lost", "start_reason": "first"}), json!({"outcome": "won", "start_reason": "retry"})],
    );
    assert_row!(&rows.races[0], json!({"winner": 2, "outcome": "ok"}));
}
