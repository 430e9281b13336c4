//! Guarantees for every surface over every dialect, except who wins: clients that leave, drained losers, races to the
//! whole answer, shutdown, and a race between six dialects.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::answer::{ending, read_response, silent};
use crate::harness::gateway::{Setup, assert_row};
use crate::harness::matrix::{Pair, rules};
use crate::harness::surface::Surface;
use crate::support::{Dialect, FakeProvider, Gate, Script};

rules! { everywhere:
    a_client_that_leaves_stops_everything,
    a_loser_that_is_billed_anyway_is_read_to_its_end,
    optimise_completion_takes_the_first_whole_answer,
    shutdown_ends_a_stream_with_an_error,
    a_stream_that_lacks_only_its_last_event_is_complete,
    events_without_payload_do_not_stop_the_first_token_timeout,
    a_key_in_an_upstream_s_error_is_redacted,
}

/// Long enough for earlier data to be read.
const A_MOMENT: Duration = Duration::from_millis(60);

async fn a_client_that_leaves_stops_everything(pair: Pair) {
    let begun = Gate::new();
    let talking = pair.open().role().token("x").reached(&begun).until_closed();
    let winner = FakeProvider::start(vec![silent(), talking.clone(), talking]).await;
    let loser = FakeProvider::start(vec![pair.open().role().until_closed(), silent(), silent()]).await;
    let gateway = pair.over(&[&winner, &loser]).start().await;
    let before_the_first_token = pair.streaming(&gateway).await;
    winner.request(0).await;
    loser.request(0).await;
    before_the_first_token.close();
    winner.closed(0).await;
    loser.closed(0).await;

    let mut in_the_middle = pair.streaming(&gateway).await;
    in_the_middle.head().await;
    assert_eq!(pair.first_text(&mut in_the_middle).await, "x");
    in_the_middle.close();
    winner.closed(1).await;

    let not_streaming = pair.whole(&gateway).await;
    begun.passed().await;
    winner.request(2).await;
    not_streaming.close();
    winner.closed(2).await;
    let rows = gateway.stop().await;
    assert!(rows.races.iter().all(|race| race["outcome"] == "client_gone"), "{:#?}", rows.races);
    assert!(
        rows.of(0)
            .iter()
            .all(|row| ending(row) == json!({"outcome": "client_gone", "ttft_event": 0, "censor_cause": "client_gone"}))
    );
    assert_row!(rows.of(1)[0], json!({"outcome": "client_gone", "ttft_event": 1}));
}

async fn a_loser_that_is_billed_anyway_is_read_to_its_end(pair: Pair) {
    let won = Gate::new();
    let rest = pair.open().role().wait(&won).tokens(&["x", "y"]).finish("stop");
    let rest = if pair.dialect == Dialect::OpenAi { rest.usage(10, 2) } else { rest };
    let loser = FakeProvider::start(vec![rest.done().end()]).await;
    let winner = FakeProvider::start(vec![pair.stream(&["hi"])]).await;
    let full = format!("{}\ncancel_billing = \"bills_full\"", pair.lines());
    let gateway = Setup::new().provider("a", &winner, &pair.lines()).provider("b", &loser, &full).start().await;
    let mut client = pair.streaming(&gateway).await;
    loser.request(0).await;
    assert_eq!(read_response(&mut client).await.upstream(), "a/m");
    won.open();
    gateway.recorded(3).await;
    let rows = gateway.stop().await;
    assert_row!(
        rows.one("b"),
        json!({"outcome": "drained", "ttft_event": 1, "input_tokens": 10, "output_tokens": 2, "payload_events": 2})
    );
}

async fn optimise_completion_takes_the_first_whole_answer(pair: Pair) {
    let begun = Gate::new();
    let a = FakeProvider::start(vec![pair.open().role().token("slow").reached(&begun).until_closed()]).await;
    let b = pair.open().wait(&begun).delay(A_MOMENT).role().tokens(&["qu", "ick"]).finish("stop").done().end();
    let b = FakeProvider::start(vec![b]).await;
    let gateway = pair.over(&[&a, &b]).race("optimise = \"completion\"").start().await;
    let response = read_response(&mut pair.whole(&gateway).await).await;
    assert_eq!((response.status, response.upstream()), (200, "b/m"), "{}", response.body);
    assert_eq!(pair.surface.whole_text(&response.json()), "quick");
    a.closed(0).await;
    let rows = gateway.stop().await;
    assert_eq!(ending(rows.one("a")), json!({"outcome": "lost", "ttft_event": 1}));
    assert_eq!(ending(rows.one("b")), json!({"outcome": "won", "ttft_event": 1}));
}

async fn shutdown_ends_a_stream_with_an_error(pair: Pair) {
    let talking = FakeProvider::start(vec![pair.open().role().token("x").until_closed()]).await;
    let gateway = pair.over(&[&talking]).server("drain = \"100ms\"").start().await;
    let mut client = pair.streaming(&gateway).await;
    let (rows, response) = tokio::join!(
        async {
            talking.request(0).await;
            gateway.stop().await
        },
        read_response(&mut client)
    );
    if response.status == 200 {
        pair.surface.assert_broken(&response);
        assert_eq!(ending(rows.one("a")), json!({"outcome": "shutdown", "ttft_event": 1}));
    } else {
        // It ended before the first token.
        assert_eq!(response.status, 503, "{}", response.body);
        pair.surface.error(&response);
    }
    assert_eq!(rows.races[0]["outcome"], "shutdown");
}

/// A break after the finish reason, in dialects where that comes before the last event.
async fn a_stream_that_lacks_only_its_last_event_is_complete(pair: Pair) {
    if matches!(pair.dialect, Dialect::Responses | Dialect::Ollama) {
        return;
    }
    let script = || pair.open().role().token("hi").finish("stop").end();
    let fake = FakeProvider::start(vec![script(), script()]).await;
    let gateway = pair.over(&[&fake]).start().await;
    let response = read_response(&mut pair.streaming(&gateway).await).await;
    pair.surface.assert_complete(&response);
    assert_eq!(pair.surface.streamed_text(&response), "hi");
    let whole = read_response(&mut pair.whole(&gateway).await).await;
    assert_eq!(pair.surface.whole_text(&whole.json()), "hi", "{}", whole.body);
    let rows = gateway.stop().await;
    assert!(rows.attempts.iter().all(|row| ending(row) == json!({"outcome": "won", "ttft_event": 1})), "{rows:#?}");
}

async fn events_without_payload_do_not_stop_the_first_token_timeout(pair: Pair) {
    let chatter = |script: Script, _| script.delay(A_MOMENT).nothing();
    let a = FakeProvider::start(vec![(0..20).fold(pair.open().role(), chatter).until_closed()]).await;
    let b = FakeProvider::start(vec![pair.stream(&["hi"])]).await;
    let settings = "policy = \"fallback\"\ntimeouts = { first_token = \"400ms\" }";
    let gateway = pair.over(&[&a, &b]).race(settings).start().await;
    assert_eq!(read_response(&mut pair.streaming(&gateway).await).await.upstream(), "b/m");
    let rows = gateway.stop().await;
    assert_eq!(
        ending(rows.one("a")),
        json!({"outcome": "timeout", "ttft_event": 0, "censor_cause": "timeout", "failure": "timeout", "failure_phase": "first_token"})
    );
}

async fn a_key_in_an_upstream_s_error_is_redacted(pair: Pair) {
    const KEY: &str = "sk-planted-key-0123456789";
    // No words for a refused key: it would then cool down.
    let said = format!("Something about {KEY} went wrong");
    let body = json!({"error": {"message": said, "type": "invalid_request_error"}}).to_string();
    let refused = Script::status(422, &[], &body);
    let before = pair.open().role().error_saying(&said).end();
    let behind = pair.open().role().token("x").error_saying(&said).end();
    let fake =
        FakeProvider::start(vec![refused.clone(), refused, before.clone(), before, behind.clone(), behind]).await;
    let lines = format!("{}\napi_key = \"{KEY}\"", pair.lines());
    let gateway = Setup::new().provider("a", &fake, &lines).start().await;
    for _ in 0..3 {
        for mut client in [pair.streaming(&gateway).await, pair.whole(&gateway).await] {
            let response = read_response(&mut client).await;
            assert!(!response.body.contains("planted"), "{}", response.body);
            assert!(response.body.contains("Something about"), "{}", response.body);
        }
    }
    assert_eq!(fake.requests().len(), 6);
    gateway.stop().await;
}

/// Six upstreams with six dialects; each of them wins once.
async fn mixed(surface: Surface) {
    const DIALECTS: [Dialect; 6] =
        [Dialect::OpenAi, Dialect::Responses, Dialect::Anthropic, Dialect::Gemini, Dialect::Bedrock, Dialect::Ollama];
    let mut fakes = Vec::new();
    let mut setup = Setup::new();
    for (number, dialect) in DIALECTS.into_iter().enumerate() {
        let answer = move |request: &crate::support::Request| {
            if request.number == number {
                Script::of(dialect).whole_stream(&["hel", "lo"])
            } else {
                Script::of(dialect).open().role().nothing().until_closed()
            }
        };
        let fake = FakeProvider::answering(answer).await;
        setup = setup.provider(&format!("p{number}"), &fake, &format!("dialect = \"{}\"", dialect.name()));
        fakes.push(fake);
    }
    let gateway = setup.race("max_attempts = 6").start().await;
    for winner in 0..DIALECTS.len() {
        let mut client = gateway.post(&surface.path_for("m", true), &surface.body("m", true)).await;
        for fake in &fakes {
            fake.request(winner).await;
        }
        let response = read_response(&mut client).await;
        assert_eq!(response.upstream(), format!("p{winner}/m"));
        surface.assert_complete(&response);
        assert_eq!(surface.streamed_text(&response), "hello");
        for (number, fake) in fakes.iter().enumerate() {
            if number != winner {
                fake.closed(winner).await;
            }
        }
    }
    let rows = gateway.stop().await;
    assert_eq!(rows.attempts.len(), 36);
    for (race, winner) in DIALECTS.into_iter().enumerate() {
        let won: Vec<&Value> =
            rows.of(race).iter().filter(|row| row["outcome"] == "won").map(|row| &row["dialect"]).collect();
        assert_eq!(won, [winner.name()]);
    }
}

#[tokio::test]
async fn each_of_six_dialects_wins_for_chat() {
    mixed(Surface::Chat).await;
}

#[tokio::test]
async fn each_of_six_dialects_wins_for_responses() {
    mixed(Surface::Responses).await;
}

#[tokio::test]
async fn each_of_six_dialects_wins_for_ollama() {
    mixed(Surface::Ollama).await;
}

#[tokio::test]
async fn each_of_six_dialects_wins_for_gemini() {
    mixed(Surface::Gemini).await;
}

#[tokio::test]
async fn each_of_six_dialects_wins_for_messages() {
    mixed(Surface::Messages).await;
}
