//! Columns of an attempt's row that depend on the provider, and the meaning of its timestamps.

use std::time::Duration;

use photofinish_config::Policy;
use serde_json::{Value, json};

use crate::harness::answer::{first_text, read_response};
use crate::harness::gateway::{Row, Setup, assert_row};
use crate::support::{FakeProvider, Gate, Script};

const SSE: (&str, &str) = ("content-type", "text/event-stream");

/// The row of the only attempt at a provider with this answer.
async fn row_of(script: Script) -> Row {
    let fake = FakeProvider::start(vec![script]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    read_response(&mut gateway.streaming().await).await;
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
            "completion_time": 0.003, "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 1},
            "completion_tokens_details": {"reasoning_tokens": 2},
        }, "service_tier": "flex"});
        let tokens = Script::new().head(200, &headers).comment("wait").role();
        let tokens = tokens.delta(json!({"reasoning": "hm"})).tokens(&["one ", "two"]).finish("stop");
        tokens.event(chunk(json!([]), &usage)).done().end()
    })
    .await;
    let gateway = Setup::new().provider("a", &fake, "api_key = \"k\"").start().await;
    // Enough that something is predicted for the last one.
    for _ in 0..5 {
        read_response(&mut gateway.streaming().await).await;
    }
    let rows = gateway.stop().await;
    let row = rows.of(4)[0];
    let empty: Vec<&str> = row.iter().filter(|(_, value)| value.is_null()).map(|(column, _)| column.as_str()).collect();
    let of_others =
        ["calls", "cancel_us", "censor_cause", "failure", "failure_phase", "retry_after_ms", "structured", "tool_set"];
    assert_eq!(empty, of_others, "those of other endings, and of requests with tools or a schema");
    assert_row!(
        row,
        json!({
            "conn_reused": 1, "http_version": "1.1", "start_reason": "first", "model_reported": "fake-model",
            "first_kind": "reasoning", "payload_events": 3, "reasoning_events": 1, "keepalives": 1,
            "chars_first": 2, "chars_total": 9, "burst": 0, "client_stalled": 0,
            "input_tokens": 7, "cached_input_tokens": 3, "cache_write_tokens": 1, "output_tokens": 5, "reasoning_tokens": 2,
            "tok_src": "usage", "finish_reason": "stop", "cost_usd_min": 0.5, "cost_usd_max": 0.5, "price_source": "reported", "service_tier": "flex",
            "server_queue_us": 1_000, "server_prefill_us": 2_000, "server_decode_us": 3_000,
            "server_total_us": 12_000, "p_include": 1.0, "p_audit": 0.0,
            "ratelimit_remaining_requests": 9, "ratelimit_remaining_tokens": 1_000,
        })
    );
}

#[tokio::test]
async fn tokens_written_into_a_cache_are_counted_and_have_their_own_price() {
    let usage = json!({"usage": {
        "prompt_tokens": 1_000, "completion_tokens": 100,
        "prompt_tokens_details": {"cached_tokens": 200, "cache_write_tokens": 400},
    }});
    let kept = json!({"cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 300}});
    let with = |more: &Value| {
        let mut usage = usage.clone();
        usage["usage"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Script::sse().role().token("x").finish("stop").event(chunk(json!([]), &usage)).done().end()
    };
    let fake = FakeProvider::start(vec![with(&json!({})), with(&kept)]).await;
    let prices = "input_price = 1.0, cached_price = 0.1, cache_write_price = 1.25, output_price = 10.0";
    let model = format!("[models.m]\nupstreams = [{{ upstream = \"a/m\", {prices} }}]");
    let gateway = Setup::over(&[&fake]).model(&model).start().await;
    for _ in 0..2 {
        read_response(&mut gateway.streaming().await).await;
    }
    let rows = gateway.stop().await;
    for (race, usd) in [0.001_92, 0.002_145].into_iter().enumerate() {
        let row = rows.of(race)[0];
        assert_row!(
            row,
            json!({"cached_input_tokens": 200, "cache_write_tokens": 400, "cost_usd_max": row["cost_usd_min"]})
        );
        let cost = row["cost_usd_min"].as_f64().unwrap();
        assert!(
            (cost - usd).abs() < 1e-9,
            "400 × 1 + 200 × 0.1 + 400 × 1.25 (or 100 × 1.25 + 300 × 2) + 100 × 10 millionths: {cost}"
        );
    }
}

/// What the answer says in addition to the counts, and what it costs.
#[tokio::test]
async fn the_price_is_that_of_the_answer() {
    let tokens = json!({"prompt_tokens": 1_000, "completion_tokens": 100, "total_tokens": 1_100});
    let with = |more: Value| {
        let mut usage = tokens.clone();
        more.as_object().unwrap().iter().for_each(|(name, value)| usage[name] = value.clone());
        json!({ "usage": usage })
    };
    for (last, output, tier, least, most) in [
        (with(json!({})), 100, Value::Null, 0.002, 0.002),
        (
            with(json!({"total_tokens": 1_400, "completion_tokens_details": {"reasoning_tokens": 300}})),
            400,
            Value::Null,
            0.005,
            0.005,
        ),
        (
            with(json!({"cost": 0, "is_byok": true, "cost_details": {"upstream_inference_cost": 0.0360795}})),
            100,
            Value::Null,
            0.0360795,
            0.0360795,
        ),
        (with(json!({"cost": 0, "is_byok": true})), 100, Value::Null, 0.002, 0.002),
        (json!({"usage": tokens, "cost": {"usd": 0.25, "diem": 0}}), 100, Value::Null, 0.25, 0.25),
        (json!({"usage": tokens, "service_tier": "default"}), 100, Value::Null, 0.002, 0.002),
        (json!({"usage": tokens, "service_tier": "flex"}), 100, json!("flex"), 0.0008, 0.002),
        (json!({"usage": tokens, "service_tier": "priority"}), 100, json!("priority"), 0.002, 0.005),
        (json!({"usage": tokens, "service_tier": "scale"}), 100, json!("reserved"), 0.0, 0.002),
    ] {
        let script = Script::sse().role().token("x").finish("stop").event(chunk(json!([]), &last)).done().end();
        let fake = FakeProvider::start(vec![script]).await;
        let model = "[models.m]\nupstreams = [{ upstream = \"a/m\", input_price = 1.0, output_price = 10.0 }]";
        let gateway = Setup::over(&[&fake]).model(model).start().await;
        read_response(&mut gateway.streaming().await).await;
        let row = gateway.stop().await.one("a").clone();
        assert_row!(&row, json!({"output_tokens": output, "service_tier": tier}));
        let is = |bound: &str, usd: f64| (row[bound].as_f64().unwrap() - usd).abs() < 1e-9;
        assert!(is("cost_usd_min", least) && is("cost_usd_max", most), "{last}: {row:?}");
    }
}

#[tokio::test]
async fn usage_in_the_body_overrides_headers() {
    let headers = [
        SSE,
        ("fireworks-prompt-tokens", "20"),
        ("fireworks-cached-prompt-tokens", "8"),
        ("fireworks-server-processing-time", "0.125"),
    ];
    let head = || Script::new().head(200, &headers).role().token("x");
    assert_row!(
        &row_of(head().finish("stop").done().end()).await,
        json!({"input_tokens": 20, "cached_input_tokens": 8, "tok_src": "none", "server_total_us": 125_000})
    );
    let usage = json!({"usage": {"prompt_tokens": 21, "completion_tokens": 1, "total_time": 0.5}});
    let said = head().finish("stop").event(chunk(json!([]), &usage)).done().end();
    assert_row!(
        &row_of(said).await,
        json!({"input_tokens": 21, "cached_input_tokens": 8, "tok_src": "usage", "server_total_us": 500_000})
    );
}

#[tokio::test]
async fn usage_is_found_in_every_place() {
    let last = json!([{"index": 0, "delta": {}, "finish_reason": "stop"}]);
    let counts = json!({"prompt_tokens": 7, "completion_tokens": 2, "prompt_time": 0.004});
    let tokens = || Script::sse().role().tokens(&["a", "b"]);
    for (place, script, row) in [
        (
            "the chunk of the finish",
            tokens().event(chunk(last.clone(), &json!({"usage": counts}))),
            json!({"input_tokens": 7, "output_tokens": 2, "tok_src": "usage", "server_prefill_us": 4_000}),
        ),
        (
            "Groq's own",
            tokens().event(chunk(last.clone(), &json!({"x_groq": {"usage": counts}}))),
            json!({"input_tokens": 7, "output_tokens": 2, "tok_src": "usage", "server_prefill_us": 4_000}),
        ),
        (
            "Cerebras' times",
            tokens().event(chunk(
                last.clone(),
                &json!({"usage": {"completion_tokens": 2}, "time_info": {"prompt_time": 0.004}}),
            )),
            json!({"input_tokens": null, "output_tokens": 2, "tok_src": "usage", "server_prefill_us": 4_000}),
        ),
        (
            "llama.cpp's timings",
            tokens().event(chunk(
                last,
                &json!({"timings": {"prompt_n": 5, "cache_n": 2, "predicted_n": 2, "prompt_ms": 4.0}}),
            )),
            json!({"input_tokens": 7, "output_tokens": 2, "tok_src": "usage", "server_prefill_us": 4_000}),
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
            json!({"input_tokens": 7, "output_tokens": 2, "tok_src": "partial", "server_prefill_us": null}),
        ),
    ] {
        assert_row!(&row_of(script.done().end()).await, row, "{place}");
    }
}

#[tokio::test]
async fn the_metrics_of_fireworks_are_its_times() {
    let metrics = json!({"perf_metrics": {"server-processing-time": "0.25", "backend-host": "h"}});
    let last = json!([{"index": 0, "delta": {}, "finish_reason": "stop"}]);
    let row = row_of(Script::sse().token("x").event(chunk(last, &metrics)).done().end()).await;
    assert_row!(&row, json!({"server_total_us": 250_000, "finish_reason": "stop"}));
}

#[tokio::test]
async fn an_error_s_rate_limit_headers_are_recorded() {
    let headers =
        [("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-remaining-tokens", "5"), ("retry-after", "3")];
    let row = row_of(Script::status(429, &headers, "{}")).await;
    assert_row!(
        &row,
        json!({"failure": "rate_limited", "ratelimit_remaining_requests": 0, "ratelimit_remaining_tokens": 5, "retry_after_ms": 3_000})
    );
}

#[tokio::test]
async fn each_policy_says_with_what_probability_it_chose() {
    for policy in Policy::ALL.into_iter().filter(|policy| !policy.learns()).map(Policy::as_str) {
        let a = FakeProvider::start(vec![Script::status(500, &[], "{}")]).await;
        let b = FakeProvider::start(vec![Script::stream(&["hello"])]).await;
        let setup = Setup::over(&[&a, &b]).race(&format!("policy = \"{policy}\"\nhedge_after = \"1h\"\naudit = 0.25"));
        let gateway = setup
            .model(
                "[models.m]\nupstreams = [{ upstream = \"a/m\", weight = 1.0 }, { upstream = \"b/m\", weight = 0.0 }]",
            )
            .start()
            .await;
        read_response(&mut gateway.streaming().await).await;
        let rows = gateway.stop().await;
        for provider in ["a", "b"] {
            assert_row!(rows.one(provider), json!({"p_include": 1.0, "p_audit": 0.25}), "{policy}");
        }
    }
}

#[tokio::test]
async fn what_was_predicted_is_kept_once_enough_is_known() {
    let a = FakeProvider::start(vec![Script::stream(&["hello"]); 4]).await;
    let gateway = Setup::over(&[&a]).start().await;
    for _ in 0..4 {
        read_response(&mut gateway.streaming().await).await;
    }
    let rows = gateway.stop().await;
    let found: Vec<Option<i64>> = rows.attempts.iter().map(|row| row["predicted_us"].as_i64()).collect();
    assert_eq!(found[0], None, "nothing was known yet");
    assert!(found[3].is_some_and(|us| (1..5_000_000).contains(&us)), "{found:?}");
}

#[tokio::test]
async fn gaps_and_bursts_are_those_of_the_reads() {
    const GAP: Duration = Duration::from_millis(30);
    let twenty = |script: Script| script.finish("stop").usage(7, 20).done().end();
    let row = row_of(twenty(Script::sse().token("all at once"))).await;
    assert_row!(&row, json!({"payload_events": 1, "gap_p50_us": null, "burst": 1}));

    let response = Gate::new();
    // The client has the first half when the second is sent, so no read can hold both.
    let halves = Script::sse().tokens(&["one ", "two "]).wait(&response).delay(GAP).tokens(&["three ", "four"]);
    let fake = FakeProvider::start(vec![twenty(halves)]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    let mut client = gateway.streaming().await;
    client.head().await;
    assert_eq!((first_text(&mut client).await, first_text(&mut client).await), ("one ".to_owned(), "two ".to_owned()));
    response.open();
    while client.event().await.unwrap().is_some() {}
    let rows = gateway.stop().await;
    let row = rows.one("a");
    assert_row!(row, json!({"payload_events": 4, "burst": 0}));
    let gap = |name: &str| row[name].as_i64().unwrap();
    assert!(gap("gap_max_us") >= 30_000 && gap("gap_p99_us") <= gap("gap_max_us"), "{row:#?}");
    assert!(gap("gap_p50_us") <= gap("gap_p95_us") && gap("gap_p95_us") <= gap("gap_p99_us"), "{row:#?}");
}

#[tokio::test]
async fn an_event_is_stamped_with_the_read_that_completed_it() {
    const PAUSE: Duration = Duration::from_millis(30);
    let response = Gate::new();
    let event = format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {"content": "two"}}]}));
    let (begin, end) = event.split_at(event.len() - 1);
    let halves =
        Script::sse().token("one").wait(&response).chunk(begin).delay(PAUSE).chunk(end).finish("stop").done().end();
    let fake = FakeProvider::start(vec![halves]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    let mut client = gateway.streaming().await;
    client.head().await;
    first_text(&mut client).await;
    response.open();
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
    // The race and its attempt are over, and every timestamp is taken, before the client has read a byte.
    gateway.recorded(2).await;
    assert_eq!(read_response(&mut slow).await.streamed_text(), "one two");
    let rows = gateway.stop().await;
    assert_row!(rows.one("a"), json!({"outcome": "won", "client_stalled": 0, "payload_events": 2}));
}
