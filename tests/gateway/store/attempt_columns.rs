//! Columns of an attempt's row that one provider fills and another does not; and what its stamps are stamps of.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::answer::{first_text, hear};
use crate::harness::gateway::{Row, Setup, pick};
use crate::support::{FakeProvider, Gate, Script};

const SSE: (&str, &str) = ("content-type", "text/event-stream");

/// The row of the only attempt at a provider that answers so.
async fn row_of(script: Script) -> Row {
    let fake = FakeProvider::start(vec![script]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    hear(&mut gateway.streaming().await).await;
    gateway.stop().await.one("a").clone()
}

fn chunk(choices: Value, more: &Value) -> Value {
    let mut chunk = json!({"id": "c", "object": "chat.completion.chunk", "model": "m-0115", "choices": choices});
    more.as_object().unwrap().iter().for_each(|(name, value)| chunk[name] = value.clone());
    chunk
}

#[tokio::test]
async fn a_whole_answer_of_a_talkative_provider_fills_every_column() {
    let fake = FakeProvider::answering(|_| {
        let headers = [
            SSE,
            ("openai-processing-ms", "12"),
            ("x-ratelimit-remaining-requests-day", "99"),
            ("x-ratelimit-remaining-requests-minute", "9"),
            ("x-ratelimit-remaining-tokens-minute", "1000"),
        ];
        let usage = json!({"usage": {
            "prompt_tokens": 7, "completion_tokens": 5, "cost": 0.5, "queue_time": 0.001, "prompt_time": 0.002,
            "completion_time": 0.003, "prompt_tokens_details": {"cached_tokens": 3},
            "completion_tokens_details": {"reasoning_tokens": 2},
        }});
        let tokens = Script::new().head(200, &headers).comment("wait").role();
        let tokens = tokens.delta(json!({"reasoning": "hm"})).tokens(&["one ", "two"]).finish("stop");
        tokens.event(chunk(json!([]), &usage)).done().end()
    })
    .await;
    let gateway = Setup::new().provider("a", &fake, "api_key = \"k\"").start().await;
    for _ in 0..2 {
        hear(&mut gateway.streaming().await).await;
    }
    let rows = gateway.stop().await;
    let row = rows.of(1)[0];
    let empty: Vec<&str> = row.iter().filter(|(_, value)| value.is_null()).map(|(column, _)| column.as_str()).collect();
    let of_other_endings = ["cancel_us", "censor_cause", "failure", "failure_phase", "retry_after_ms"];
    assert_eq!(empty, of_other_endings);
    for (columns, values) in [
        (
            &["conn_reused", "http_version", "start_reason", "model_reported"][..],
            json!([1, "1.1", "first", "fake-model"]),
        ),
        (&["first_kind", "payload_events", "reasoning_events", "keepalives"], json!(["reasoning", 3, 1, 1])),
        (&["chars_first", "chars_total", "burst", "client_stalled"], json!([2, 9, 0, 0])),
        (&["input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens"], json!([7, 3, 5, 2])),
        (&["tok_src", "finish_reason", "cost_usd", "cost_basis"], json!(["usage", "stop", 0.5, "reported"])),
        (&["server_queue_us", "server_prefill_us", "server_decode_us"], json!([1_000, 2_000, 3_000])),
        (&["server_total_us", "p_include", "p_audit"], json!([12_000, 1.0, 0.0])),
        (&["ratelimit_remaining_requests", "ratelimit_remaining_tokens"], json!([9, 1_000])),
    ] {
        assert_eq!(pick(row, columns), values, "{columns:?}");
    }
}

#[tokio::test]
async fn what_the_body_says_goes_before_the_headers() {
    const COLUMNS: [&str; 4] = ["input_tokens", "cached_input_tokens", "tok_src", "server_total_us"];
    let headers = [
        SSE,
        ("fireworks-prompt-tokens", "20"),
        ("fireworks-cached-prompt-tokens", "8"),
        ("fireworks-server-processing-time", "0.125"),
    ];
    let head = || Script::new().head(200, &headers).role().token("x");
    assert_eq!(pick(&row_of(head().finish("stop").done().end()).await, &COLUMNS), json!([20, 8, "none", 125_000]));
    let usage = json!({"usage": {"prompt_tokens": 21, "completion_tokens": 1, "total_time": 0.5}});
    let said = head().finish("stop").event(chunk(json!([]), &usage)).done().end();
    assert_eq!(pick(&row_of(said).await, &COLUMNS), json!([21, 8, "usage", 500_000]));
}

#[tokio::test]
async fn usage_is_found_in_every_place() {
    const COLUMNS: [&str; 4] = ["input_tokens", "output_tokens", "tok_src", "server_prefill_us"];
    let last = json!([{"index": 0, "delta": {}, "finish_reason": "stop"}]);
    let counts = json!({"prompt_tokens": 7, "completion_tokens": 2, "prompt_time": 0.004});
    let tokens = || Script::sse().role().tokens(&["a", "b"]);
    for (place, script, row) in [
        (
            "the chunk of the finish",
            tokens().event(chunk(last.clone(), &json!({"usage": counts}))),
            json!([7, 2, "usage", 4_000]),
        ),
        (
            "Groq's own",
            tokens().event(chunk(last.clone(), &json!({"x_groq": {"usage": counts}}))),
            json!([7, 2, "usage", 4_000]),
        ),
        (
            "Cerebras' times",
            tokens().event(chunk(
                last.clone(),
                &json!({"usage": {"completion_tokens": 2}, "time_info": {"prompt_time": 0.004}}),
            )),
            json!([null, 2, "usage", 4_000]),
        ),
        (
            "llama.cpp's timings",
            tokens().event(chunk(
                last,
                &json!({"timings": {"prompt_n": 5, "cache_n": 2, "predicted_n": 2, "prompt_ms": 4.0}}),
            )),
            json!([7, 2, "usage", 4_000]),
        ),
        (
            "each chunk, growing",
            Script::sse()
                .event(chunk(
                    json!([{"index": 0, "delta": {"content": "a"}}]),
                    &json!({"usage": {"prompt_tokens": 7, "completion_tokens": 1}}),
                ))
                .event(chunk(
                    json!([{"index": 0, "delta": {"content": "b"}}]),
                    &json!({"usage": {"prompt_tokens": 7, "completion_tokens": 2}}),
                ))
                .finish("stop"),
            json!([7, 2, "partial", null]),
        ),
    ] {
        assert_eq!(pick(&row_of(script.done().end()).await, &COLUMNS), row, "{place}");
    }
}

#[tokio::test]
async fn the_metrics_of_fireworks_are_its_times() {
    let metrics = json!({"perf_metrics": {"server-processing-time": "0.25", "backend-host": "h"}});
    let last = json!([{"index": 0, "delta": {}, "finish_reason": "stop"}]);
    let row = row_of(Script::sse().token("x").event(chunk(last, &metrics)).done().end()).await;
    assert_eq!(pick(&row, &["server_total_us", "finish_reason"]), json!([250_000, "stop"]));
}

#[tokio::test]
async fn an_error_answer_tells_what_is_left_of_its_limits() {
    let headers =
        [("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-remaining-tokens", "5"), ("retry-after", "3")];
    let row = row_of(Script::status(429, &headers, "{}")).await;
    let columns = ["failure", "ratelimit_remaining_requests", "ratelimit_remaining_tokens", "retry_after_ms"];
    assert_eq!(pick(&row, &columns), json!(["rate_limited", 0, 5, 3_000]));
}

#[tokio::test]
async fn each_policy_says_with_what_probability_it_chose() {
    for policy in ["race", "hedge", "fallback", "weighted"] {
        let a = FakeProvider::start(vec![Script::status(500, &[], "{}")]).await;
        let b = FakeProvider::start(vec![Script::stream(&["hello"])]).await;
        let setup = Setup::over(&[&a, &b]).race(&format!("policy = \"{policy}\"\nhedge_after = \"1h\"\naudit = 0.25"));
        let gateway = setup
            .model(
                "[models.m]\nupstreams = [{ upstream = \"a/m\", weight = 1.0 }, { upstream = \"b/m\", weight = 0.0 }]",
            )
            .start()
            .await;
        hear(&mut gateway.streaming().await).await;
        let rows = gateway.stop().await;
        for provider in ["a", "b"] {
            assert_eq!(pick(rows.one(provider), &["p_include", "p_audit"]), json!([1.0, 0.25]), "{policy}");
        }
    }
}

#[tokio::test]
async fn gaps_and_bursts_are_those_of_the_reads() {
    const GAP: Duration = Duration::from_millis(30);
    const COLUMNS: [&str; 3] = ["payload_events", "gap_p50_us", "burst"];
    let twenty = |script: Script| script.finish("stop").usage(7, 20).done().end();
    let row = row_of(twenty(Script::sse().token("all at once"))).await;
    assert_eq!(pick(&row, &COLUMNS), json!([1, null, 1]));

    let heard = Gate::new();
    // The client has the first half when the second is sent, so no read can hold both.
    let halves = Script::sse().tokens(&["one ", "two "]).wait(&heard).delay(GAP).tokens(&["three ", "four"]);
    let fake = FakeProvider::start(vec![twenty(halves)]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    let mut client = gateway.streaming().await;
    client.head().await;
    assert_eq!((first_text(&mut client).await, first_text(&mut client).await), ("one ".to_owned(), "two ".to_owned()));
    heard.open();
    while client.event().await.unwrap().is_some() {}
    let rows = gateway.stop().await;
    let row = rows.one("a");
    assert_eq!(pick(row, &["payload_events", "burst"]), json!([4, 0]));
    let gap = |name: &str| row[name].as_i64().unwrap();
    assert!(gap("gap_max_us") >= 30_000 && gap("gap_p99_us") <= gap("gap_max_us"), "{row:#?}");
    assert!(gap("gap_p50_us") <= gap("gap_p99_us"), "{row:#?}");
}

#[tokio::test]
async fn an_event_is_stamped_with_the_read_that_completed_it() {
    const PAUSE: Duration = Duration::from_millis(30);
    let heard = Gate::new();
    let event = format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {"content": "two"}}]}));
    let (begin, end) = event.split_at(event.len() - 1);
    let halves =
        Script::sse().token("one").wait(&heard).chunk(begin).delay(PAUSE).chunk(end).finish("stop").done().end();
    let fake = FakeProvider::start(vec![halves]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    let mut client = gateway.streaming().await;
    client.head().await;
    first_text(&mut client).await;
    heard.open();
    assert_eq!(first_text(&mut client).await, "two");
    let rows = gateway.stop().await;
    let row = rows.one("a");
    let gap = row["second_token_us"].as_i64().unwrap() - row["first_token_us"].as_i64().unwrap();
    assert!(gap >= 30_000, "{row:#?}");
}

#[tokio::test]
async fn the_events_of_one_read_share_its_stamp() {
    let event = |text: &str| format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {"content": text}}]}));
    let both = Script::sse().chunk(event("one ") + &event("two")).finish("stop").done().end();
    let row = row_of(both).await;
    assert_eq!(row["payload_events"], 2);
    assert_eq!((&row["second_token_us"], &row["gap_max_us"]), (&row["first_token_us"], &json!(0)));
}

#[tokio::test]
async fn a_client_that_reads_nothing_does_not_move_the_stamps() {
    let fake = FakeProvider::start(vec![Script::stream(&["one ", "two"])]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    let mut slow = gateway.streaming().await;
    // The race and its attempt are over, and every stamp taken, before the client has read a byte.
    gateway.recorded(2).await;
    assert_eq!(hear(&mut slow).await.said(), "one two");
    let rows = gateway.stop().await;
    assert_eq!(pick(rows.one("a"), &["outcome", "client_stalled", "payload_events"]), json!(["won", 0, 2]));
}
