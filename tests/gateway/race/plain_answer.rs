//! Requests that do not stream and go up plain: what is sent, what comes back, the rows, and what is learnt.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::answer::{Response, read_response};
use crate::harness::gateway::{Setup, TestGateway, assert_row};
use crate::support::{FakeProvider, Gate, RawClient, Script};

/// With members that no stream has, odd spaces and a number that must keep its text.
const ANSWER: &str = "{ \"id\":\"c1\", \"object\":\"chat.completion\",\"created\":1.0e3,\"model\":\"up\",\n\"choices\":[{\"index\":0,\
    \"message\":{\"role\":\"assistant\",\"content\":\"hello\",\"annotations\":[{\"url\":\"u\"}]},\"finish_reason\":\"stop\"}],\
    \"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,\"total_tokens\":5},\"prompt_logprobs\":[null] }\n";
const REFUSES: &str = r#"{"error":{"message":"Your organization must be verified to stream this model.","type":"invalid_request_error","param":"stream","code":"unsupported_value"}}"#;

fn plain(body: &str) -> Script {
    Script::status(200, &[], body)
}

fn text_of(response: &Response) -> Value {
    response.json()["choices"][0]["message"]["content"].clone()
}

async fn whole(gateway: &TestGateway) -> Response {
    read_response(&mut gateway.whole().await).await
}

/// Whether each request asked for a stream.
fn streams(fake: &FakeProvider) -> Vec<bool> {
    fake.requests().iter().map(|request| request.json()["stream"] == true).collect()
}

#[tokio::test]
async fn it_goes_up_as_it_came_and_comes_down_byte_for_byte() {
    let a = FakeProvider::start(vec![plain(ANSWER)]).await;
    let gateway = Setup::over(&[&a]).start().await;
    let body = json!({"messages": [{}], "model": "m", "n": null, "x": 1e3});
    let response = read_response(&mut gateway.ask(&body).await).await;
    assert_eq!((response.status, response.body.as_str()), (200, ANSWER));
    let request = &a.requests()[0];
    assert_eq!(
        (String::from_utf8_lossy(&request.body), request.header("accept")),
        (body.to_string().into(), Some("application/json"))
    );
    assert!(
        response.header("x-photofinish-ttft-ms").is_empty()
            && response.header("server-timing").starts_with("whole;dur=")
    );
    let rows = gateway.stop().await;
    let row = rows.one("a");
    assert_row!(
        row,
        json!({
            "outcome": "won", "plain": 1, "ttft_event": null, "ttft_obs_us": null, "first_token_us": null, "last_token_us": null,
            "first_kind": null, "output_tokens": 2, "tok_src": "usage", "finish_reason": "stop", "model_reported": "up", "chars_total": 5,
        })
    );
    assert!(row["eof_us"].as_i64().unwrap() > 0);
}

#[tokio::test]
async fn the_time_to_it_is_told_where_a_first_token_s_time_would_be() {
    let a = FakeProvider::answering(|_| plain(ANSWER)).await;
    let gateway = Setup::over(&[&a]).start().await;
    for _ in 0..12 {
        whole(&gateway).await;
    }
    let mut client = RawClient::connect(gateway.addr()).await;
    client.request("GET", "/api/routing", &[], "").await;
    let routing = read_response(&mut client).await.json();
    let (upstream, model) = (&routing["upstreams"][0], &routing["models"][0]);
    let predicted = &upstream["predicted"][0];
    assert!(predicted["whole_p50_ms"].as_f64().unwrap() > 0.0 && predicted["ttft_p50_ms"].is_null(), "{routing}");
    assert_eq!((&upstream["whole_answers"], &model["whole_answers"]), (&json!(true), &json!(true)));
    assert_eq!((&upstream["launches"], &model["order"]), (&json!(12), &json!(["a/m"])));
    gateway.stop().await;
}

#[tokio::test]
async fn only_a_race_in_which_one_attempt_runs_at_first_is_plain() {
    for (race, is_plain) in [
        ("policy = \"fallback\"", true),
        ("policy = \"weighted\"", true),
        ("policy = \"adaptive\"\nbudget = 0.0", true),
        ("policy = \"race\"", false),
        ("policy = \"hedge\"\nhedge_after = \"5s\"", false),
    ] {
        let answering = || {
            FakeProvider::answering(|request| match request.json()["stream"] == true {
                true => Script::stream(&["hello"]),
                false => plain(ANSWER),
            })
        };
        let (a, b) = (answering().await, answering().await);
        let gateway = Setup::over(&[&a, &b]).race(race).start().await;
        assert_eq!(text_of(&whole(&gateway).await), "hello", "{race}");
        let rows = gateway.stop().await;
        let won = rows.attempts.iter().find(|row| row["outcome"] == "won").unwrap();
        assert_eq!(won["plain"], i32::from(is_plain), "{race}");
        assert!(streams(&a).iter().chain(&streams(&b)).all(|streams| *streams != is_plain), "{race}");
    }
}

#[tokio::test]
async fn the_operator_decides_for_a_provider_a_model_or_an_upstream() {
    let streaming = || Script::stream(&["hello"]).usage(1, 1);
    for (provider, model, upstream, asks_to_stream) in [
        ("always", None, None, true),
        ("always", Some("never"), None, false),
        ("never", Some("never"), Some("always"), true),
        ("auto", None, None, false),
    ] {
        let a = FakeProvider::answering(move |request| match request.json()["stream"] == true {
            true => streaming(),
            false => plain(ANSWER),
        })
        .await;
        let key = |value: Option<&str>| value.map(|value| format!("upstream_stream = \"{value}\"")).unwrap_or_default();
        let own = upstream.map(|value| format!(", upstream_stream = \"{value}\"")).unwrap_or_default();
        let text = format!("[models.m]\nupstreams = [{{ upstream = \"a/m\"{own} }}]\n{}", key(model));
        let gateway = Setup::new().provider("a", &a, &key(Some(provider))).model(&text).start().await;
        assert_eq!(text_of(&whole(&gateway).await), "hello");
        assert_eq!(streams(&a), [asks_to_stream], "{provider} {model:?} {upstream:?}");
        let rows = gateway.stop().await;
        assert_eq!(rows.one("a")["ttft_event"], if asks_to_stream { json!(1) } else { Value::Null });
    }
}

#[tokio::test]
async fn a_streaming_client_gets_the_plain_answer_of_an_upstream_that_never_streams() {
    let a = FakeProvider::start(vec![plain(ANSWER)]).await;
    let gateway = Setup::new().provider("a", &a, "upstream_stream = \"never\"").start().await;
    let response = read_response(&mut gateway.streaming().await).await;
    assert_eq!((response.streamed_text().as_str(), response.is_done()), ("hello", true));
    assert_eq!(streams(&a), [false]);
    assert_row!(gateway.stop().await.one("a"), json!({"outcome": "won", "plain": 1, "ttft_event": null}));
}

#[tokio::test]
async fn a_refusal_to_stream_is_asked_again_plain_and_remembered() {
    for status in [400, 501] {
        let a = FakeProvider::answering(move |request| match request.json()["stream"] == true {
            true => Script::status(status, &[], REFUSES),
            false => plain(ANSWER),
        })
        .await;
        let gateway = Setup::over(&[&a]).start().await;
        for _ in 0..2 {
            let response = read_response(&mut gateway.streaming().await).await;
            assert_eq!((response.status, response.streamed_text().as_str(), response.is_done()), (200, "hello", true));
        }
        assert_eq!(streams(&a), [true, false, false], "{status}");
        let rows = gateway.stop().await;
        let ends: Vec<Value> =
            rows.attempts.iter().map(|row| json!([row["outcome"], row["plain"], row["start_reason"]])).collect();
        assert_eq!(ends, [json!(["failed", 0, "first"]), json!(["won", 1, "retry"]), json!(["won", 1, "first"])]);
    }
}

/// One caller's beam search takes no streams from others.
#[tokio::test]
async fn a_refusal_to_stream_is_remembered_for_requests_with_the_same_members() {
    const REFUSALS: [&str; 2] = [
        r#"{"error":{"message":"`prompt_logprobs` are not available when `stream=True`.","param":"prompt_logprobs","code":400}}"#,
        r#"{"error":{"message":"Streaming is not currently supported with beam search","param":null,"code":400}}"#,
    ];
    let a = FakeProvider::answering(|request| {
        let asked = request.json();
        let refused = ["prompt_logprobs", "use_beam_search"].iter().position(|name| !asked[name].is_null());
        match (asked["stream"] == true, refused) {
            (true, Some(refused)) => Script::status(400, &[], REFUSALS[refused]),
            (true, None) => Script::stream(&["hello"]),
            (false, _) => plain(ANSWER),
        }
    })
    .await;
    let gateway = Setup::over(&[&a]).start().await;
    for members in [
        r#""prompt_logprobs":1,"n":1"#,
        r#""n":1"#,
        r#""n":1,"prompt_logprobs":2"#,
        r#""use_beam_search":true"#,
        r#""use_beam_search":true"#,
        r#""temperature":1"#,
    ] {
        let asked = format!(r#"{{"model":"m","stream":true,"messages":[{{}}],{members}}}"#);
        let response = read_response(&mut gateway.ask(&serde_json::from_str(&asked).unwrap()).await).await;
        assert_eq!((response.streamed_text().as_str(), response.is_done()), ("hello", true), "{members}");
    }
    assert_eq!(streams(&a), [true, false, true, false, true, false, false, true]);
    gateway.stop().await;
}

#[tokio::test]
async fn a_refusal_to_stream_is_no_reason_to_ask_the_same_again() {
    let a = FakeProvider::answering(|_| Script::status(501, &[], "")).await;
    let gateway = Setup::new().provider("a", &a, "upstream_stream = \"always\"").start().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.status, 502);
    assert_eq!(streams(&a), [true]);
    let embedding = json!({"model": "m", "input": "x"});
    assert_eq!(read_response(&mut gateway.post("/v1/embeddings", &embedding).await).await.status, 502);
    assert_eq!(a.requests().len(), 2);
    gateway.stop().await;
}

#[tokio::test]
async fn streams_without_usage_make_plain_requests_go_up_plain() {
    for (has_usage, expected) in [(true, [true, false, false]), (false, [true, false, true])] {
        let answer = if has_usage { ANSWER.to_owned() } else { ANSWER.replace("\"usage\"", "\"nothing\"") };
        let a = FakeProvider::answering(move |request| match request.json()["stream"] == true {
            true => Script::stream(&["hello"]),
            false => plain(&answer),
        })
        .await;
        // The other one never answers: it is only there for the race.
        let b = FakeProvider::answering(|_| Script::new().until_closed()).await;
        let gateway = Setup::over(&[&a, &b]).race("policy = \"race\"").start().await;
        for _ in 0..3 {
            assert_eq!(text_of(&whole(&gateway).await), "hello");
        }
        assert_eq!(streams(&a), expected, "{has_usage}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_late_plain_answer_is_not_cut_but_another_starts_beside_it() {
    for first_wins in [true, false] {
        let (slow, quick) = (Gate::new(), Gate::new());
        let a = FakeProvider::start(vec![Script::new().wait(&slow).then(plain(ANSWER))]).await;
        let b = FakeProvider::start(vec![Script::new().wait(&quick).then(plain(ANSWER))]).await;
        let model = "[models.m]\npolicy = \"fallback\"\n\
                     upstreams = [{ upstream = \"a/m\", timeouts = { first_token = \"200ms\" } }, \"b/m\"]";
        let gateway = Setup::over(&[&a, &b]).model(model).start().await;
        let mut client = gateway.whole().await;
        b.request(0).await;
        if first_wins {
            slow.open()
        } else {
            quick.open()
        }
        let response = read_response(&mut client).await;
        assert_eq!(response.upstream(), if first_wins { "a/m" } else { "b/m" });
        let rows = gateway.stop().await;
        let (won, lost) = if first_wins { ("a", "b") } else { ("b", "a") };
        assert_row!(rows.one(won), json!({"outcome": "won", "plain": 1}));
        let outcome = if first_wins { "lost" } else { "timeout" };
        assert_row!(
            rows.one(lost),
            json!({"outcome": outcome, "plain": 1, "ttft_event": null, "ttft_obs_us": null, "censor_cause": null})
        );
        assert_eq!(rows.one("b")["start_reason"], "fallback");
    }
}

#[tokio::test]
async fn a_plain_answer_that_is_cut_broken_or_empty_is_replaced() {
    let length = ANSWER.len().to_string();
    let head = |script: Script| script.head(200, &[("content-type", "application/json"), ("content-length", &length)]);
    let arguments = |text: &str| {
        json!({"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": null, "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": text}}]}}]})
        .to_string()
    };
    for (script, outcome, failure) in [
        (head(Script::new()).raw(&ANSWER[..80]).close(), "failed", "closed"),
        (plain(&ANSWER[..80]), "failed", "malformed"),
        (plain(""), "failed", "closed"),
        (plain(&arguments("{\"a\":")), "failed_mid", "malformed"),
        (plain(&ANSWER.replace("hello", " ")), "empty", ""),
    ] {
        let a = FakeProvider::start(vec![script]).await;
        let b = FakeProvider::start(vec![plain(ANSWER)]).await;
        let gateway = Setup::over(&[&a, &b]).race("policy = \"fallback\"").start().await;
        let response = whole(&gateway).await;
        assert_eq!((response.upstream(), response.body.as_str()), ("b/m", ANSWER), "{failure}");
        let rows = gateway.stop().await;
        let row = rows.one("a");
        assert_eq!(row["failure"].as_str().unwrap_or_default(), failure);
        assert_row!(row, json!({"outcome": outcome, "plain": 1, "ttft_event": null, "first_token_us": null}));
    }
}

#[tokio::test]
async fn an_upstream_that_streams_unasked_is_read_as_ever() {
    let a = FakeProvider::start(vec![
        Script::sse()
            .role()
            .token("hel")
            .delay(Duration::from_millis(1))
            .token("lo")
            .finish("stop")
            .usage(1, 2)
            .done()
            .end(),
    ])
    .await;
    let gateway = Setup::over(&[&a]).start().await;
    assert_eq!(text_of(&whole(&gateway).await), "hello");
    assert_row!(
        gateway.stop().await.one("a"),
        json!({"outcome": "won", "plain": 0, "ttft_event": 1, "payload_events": 2})
    );
}
