//! What holds for every surface over upstreams of every dialect beside who wins: clients that leave, losers that are read on, races
//! to the whole answer, a gateway that ends, and a race in which every upstream speaks something else.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::answer::{end, hear, silent};
use crate::harness::gateway::{Setup, pick};
use crate::harness::matrix::{Pair, rules};
use crate::harness::surface::Called;
use crate::support::{Dialect, FakeProvider, Gate, Script};

rules! { everywhere:
    a_client_that_leaves_stops_everything,
    a_loser_that_is_billed_anyway_is_read_to_its_end,
    the_first_whole_answer_wins_where_that_is_what_counts,
    a_gateway_that_ends_breaks_the_stream_off,
    what_is_complete_but_for_its_last_event_ends_well,
    the_first_token_timeout_runs_on_through_what_says_nothing,
    an_event_that_is_no_json_is_left_out,
    a_key_that_an_upstream_quotes_is_taken_out,
}

/// Long enough for what was written before to be read.
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
    assert!(rows.of(0).iter().all(|row| end(row) == json!(["client_gone", 0, "client_gone", null, null])));
    assert_eq!(pick(rows.of(1)[0], &["outcome", "ttft_event"]), json!(["client_gone", 1]));
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
    assert_eq!(hear(&mut client).await.upstream(), "a/m");
    won.open();
    gateway.recorded(3).await;
    let rows = gateway.stop().await;
    let columns = ["outcome", "ttft_event", "input_tokens", "output_tokens", "payload_events"];
    assert_eq!(pick(rows.one("b"), &columns), json!(["drained", 1, 10, 2, 2]));
}

async fn the_first_whole_answer_wins_where_that_is_what_counts(pair: Pair) {
    let begun = Gate::new();
    let a = FakeProvider::start(vec![pair.open().role().token("slow").reached(&begun).until_closed()]).await;
    let b = pair.open().wait(&begun).delay(A_MOMENT).role().tokens(&["qu", "ick"]).finish("stop").done().end();
    let b = FakeProvider::start(vec![b]).await;
    let gateway = pair.over(&[&a, &b]).race("optimise = \"completion\"").start().await;
    let heard = hear(&mut pair.whole(&gateway).await).await;
    assert_eq!((heard.status, heard.upstream()), (200, "b/m"), "{}", heard.body);
    assert_eq!(pair.called.whole_text(&heard.json()), "quick");
    a.closed(0).await;
    let rows = gateway.stop().await;
    assert_eq!(end(rows.one("a")), json!(["lost", 1, null, null, null]));
    assert_eq!(end(rows.one("b")), json!(["won", 1, null, null, null]));
}

async fn a_gateway_that_ends_breaks_the_stream_off(pair: Pair) {
    let talking = FakeProvider::start(vec![pair.open().role().token("x").until_closed()]).await;
    let gateway = pair.over(&[&talking]).server("drain = \"100ms\"").start().await;
    let mut client = pair.streaming(&gateway).await;
    let (rows, heard) = tokio::join!(
        async {
            talking.request(0).await;
            gateway.stop().await
        },
        hear(&mut client)
    );
    if heard.status == 200 {
        pair.called.assert_broken(&heard);
        assert_eq!(end(rows.one("a")), json!(["shutdown", 1, null, null, null]));
    } else {
        // It ended before the first token.
        assert_eq!(heard.status, 503, "{}", heard.body);
        pair.called.error(&heard);
    }
    assert_eq!(rows.races[0]["outcome"], "shutdown");
}

/// A break behind the finish reason, where there is one before the last event.
async fn what_is_complete_but_for_its_last_event_ends_well(pair: Pair) {
    if matches!(pair.dialect, Dialect::Responses | Dialect::Ollama) {
        return;
    }
    let script = || pair.open().role().token("hi").finish("stop").end();
    let fake = FakeProvider::start(vec![script(), script()]).await;
    let gateway = pair.over(&[&fake]).start().await;
    let heard = hear(&mut pair.streaming(&gateway).await).await;
    pair.called.assert_complete(&heard);
    assert_eq!(pair.called.said(&heard), "hi");
    let whole = hear(&mut pair.whole(&gateway).await).await;
    assert_eq!(pair.called.whole_text(&whole.json()), "hi", "{}", whole.body);
    let rows = gateway.stop().await;
    assert!(rows.attempts.iter().all(|row| end(row) == json!(["won", 1, null, null, null])), "{rows:#?}");
}

async fn the_first_token_timeout_runs_on_through_what_says_nothing(pair: Pair) {
    let chatter = |script: Script, _| script.delay(A_MOMENT).nothing();
    let a = FakeProvider::start(vec![(0..20).fold(pair.open().role(), chatter).until_closed()]).await;
    let b = FakeProvider::start(vec![pair.stream(&["hi"])]).await;
    let settings = "policy = \"fallback\"\ntimeouts = { first_token = \"400ms\" }";
    let gateway = pair.over(&[&a, &b]).race(settings).start().await;
    assert_eq!(hear(&mut pair.streaming(&gateway).await).await.upstream(), "b/m");
    let rows = gateway.stop().await;
    assert_eq!(end(rows.one("a")), json!(["timeout", 0, "timeout", "timeout", "first_token"]));
}

async fn an_event_that_is_no_json_is_left_out(pair: Pair) {
    let broken = match pair.dialect {
        // Its checksum would tell.
        Dialect::Bedrock => return,
        Dialect::Ollama => "{\"message\": [\n",
        _ => "data: {\"choices\": [\n\n",
    };
    let script = || pair.open().role().token("a").chunk(broken).token("b").finish("stop").done().end();
    let fake = FakeProvider::start(vec![script(), script()]).await;
    let gateway = pair.over(&[&fake]).start().await;
    let heard = hear(&mut pair.streaming(&gateway).await).await;
    pair.called.assert_complete(&heard);
    assert_eq!(pair.called.said(&heard), "ab");
    assert_eq!(pair.called.whole_text(&hear(&mut pair.whole(&gateway).await).await.json()), "ab");
    let rows = gateway.stop().await;
    assert!(rows.attempts.iter().all(|row| row["outcome"] == "won"), "{rows:#?}");
}

async fn a_key_that_an_upstream_quotes_is_taken_out(pair: Pair) {
    const KEY: &str = "sk-planted-key-0123456789";
    let said = format!("Incorrect API key provided: {KEY}");
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
            let heard = hear(&mut client).await;
            assert!(!heard.body.contains("planted"), "{}", heard.body);
            assert!(heard.body.contains("Incorrect API key provided"), "{}", heard.body);
        }
    }
    assert_eq!(fake.requests().len(), 6);
    gateway.stop().await;
}

/// Six upstreams that speak six dialects, and each of them wins once.
async fn mixed(called: Called) {
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
        let mut client = gateway.post(called.path(), &called.body("m", true)).await;
        for fake in &fakes {
            fake.request(winner).await;
        }
        let heard = hear(&mut client).await;
        assert_eq!(heard.upstream(), format!("p{winner}/m"));
        called.assert_complete(&heard);
        assert_eq!(called.said(&heard), "hello");
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
    mixed(Called::Chat).await;
}

#[tokio::test]
async fn each_of_six_dialects_wins_for_responses() {
    mixed(Called::Responses).await;
}

#[tokio::test]
async fn each_of_six_dialects_wins_for_messages() {
    mixed(Called::Messages).await;
}
