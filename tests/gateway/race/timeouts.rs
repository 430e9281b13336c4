//! Each timeout covers its own phase, and the number of attempts is bounded.

use std::time::Duration;

use photofinish_config::Policy;
use serde_json::json;
use tokio::net::TcpListener;

use crate::harness::answer::{advance_clock, ending, read_response, read_rest, silent};
use crate::harness::gateway::{CHAT, Setup, assert_row};
use crate::support::{FakeProvider, Gate, RawClient, Script, soon};

#[tokio::test]
async fn a_handshake_without_an_answer_is_a_connect_timeout() {
    // Connections wait in the backlog: they are accepted, and no byte is sent.
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let b = FakeProvider::start(vec![Script::stream(&["hello"])]).await;
    let address = format!("https://{}/v1", mute.local_addr().unwrap());
    let setup = Setup::new().race("policy = \"fallback\"\ntimeouts = { connect = \"300ms\" }");
    let gateway = setup.provider_at("a", &address, "").provider("b", &b, "").start().await;
    let response = read_response(&mut gateway.streaming().await).await;
    assert_eq!((response.upstream(), response.streamed_text().as_str()), ("b/m", "hello"));
    let rows = gateway.stop().await;
    assert_row!(rows.one("a"), json!({"outcome": "timeout", "failure": "timeout", "failure_phase": "connect"}));
    assert_row!(rows.one("a"), json!({"connect_us": null, "conn_reused": null, "first_token_us": null}));
}

#[tokio::test]
async fn a_refused_connection_is_a_connect_failure() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let b = FakeProvider::start(vec![Script::stream(&["hello"])]).await;
    let setup = Setup::new().race("policy = \"fallback\"").provider_at("a", &format!("http://{free}/v1"), "");
    let gateway = setup.provider("b", &b, "").start().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.upstream(), "b/m");
    let rows = gateway.stop().await;
    assert_eq!(ending(rows.one("a")), json!({"outcome": "failed", "failure": "connect", "failure_phase": "connect"}));
}

#[tokio::test]
async fn comments_do_not_hold_off_the_first_token_timeout() {
    let pings = (0..50).fold(Script::sse().role(), |script, _| script.comment("wait").delay(Duration::from_millis(50)));
    let a = FakeProvider::start(vec![pings.until_closed()]).await;
    let b = FakeProvider::start(vec![Script::stream(&["hello"])]).await;
    let race = "policy = \"fallback\"\ntimeouts = { first_token = \"500ms\" }";
    let gateway = Setup::over(&[&a, &b]).race(race).start().await;
    let response = read_response(&mut gateway.streaming().await).await;
    assert_eq!((response.upstream(), response.streamed_text().as_str()), ("b/m", "hello"));
    a.closed(0).await;
    let rows = gateway.stop().await;
    assert_eq!(
        ending(rows.one("a")),
        json!({"outcome": "timeout", "ttft_event": 0, "censor_cause": "timeout", "failure": "timeout", "failure_phase": "first_token"})
    );
    assert!(rows.one("a")["keepalives"].as_i64() > Some(0));
    // The timer may begin a little before the attempt's own clock on a busy machine.
    assert!(rows.one("a")["ttft_obs_us"].as_i64() >= Some(450_000));
    assert_row!(rows.one("b"), json!({"outcome": "won", "start_reason": "fallback"}));
}

/// vLLM and others hold a call back while they parse it: 30 to 300 s without a byte after the first token.
#[tokio::test]
async fn a_call_after_a_silence_arrives_while_nobody_else_is_left() {
    for (seconds, streams) in [(33, true), (33, false), (250, true), (250, false)] {
        let (begun, later) = (Gate::new(), Gate::new());
        let call =
            json!({"index": 0, "id": "call_1", "type": "function", "function": {"name": "write", "arguments": "{}"}});
        let script = Script::sse().role().token("I will write the file.").reached(&begun).wait(&later);
        let script = script.delta(json!({"tool_calls": [call]})).finish("tool_calls").done().end();
        let fake = FakeProvider::answering(move |_| script.clone()).await;
        let gateway = Setup::over(&[&fake]).start().await;
        let mut client = gateway.ask(&json!({"model": "m", "stream": streams, "messages": [{}]})).await;
        soon("the answer begins", begun.passed()).await;
        let head = if streams { Some(client.head().await) } else { None };
        for _ in 0..seconds {
            advance_clock(Duration::from_secs(1)).await;
        }
        later.open();
        let head = if let Some(head) = head { head } else { client.head().await };
        let response = read_rest(&mut client, head).await;
        assert!(response.body.contains("call_1"), "{seconds} s, streams: {streams}: {}", response.body);
        assert_eq!(gateway.stop().await.one("a")["outcome"], "won");
    }
}

/// A model that is being loaded, or a reasoner behind a proxy.
#[tokio::test]
async fn a_silent_attempt_is_waited_for_while_nobody_else_is_left() {
    for policy in Policy::ALL.map(Policy::as_str) {
        for (seconds, streams, headers) in [(45, true, false), (130, true, true), (200, false, false)] {
            for upstreams in [1, 2] {
                let later = Gate::new();
                let (mut fakes, begins) = (Vec::new(), if headers { Script::sse().role() } else { Script::new() });
                for _ in 0..upstreams {
                    let mut slow = begins.clone().wait(&later);
                    slow.steps.extend(
                        if headers {
                            Script::new().token("late").finish("stop").done().end()
                        } else {
                            Script::stream(&["late"])
                        }
                        .steps,
                    );
                    fakes.push(FakeProvider::answering(move |_| slow.clone()).await);
                }
                let fakes: Vec<&FakeProvider> = fakes.iter().collect();
                let gateway = Setup::over(&fakes).race(&format!("policy = \"{policy}\"")).start().await;
                let mut client = gateway.ask(&json!({"model": "m", "stream": streams, "messages": [{}]})).await;
                let asked = async {
                    while fakes.iter().all(|fake| fake.requests().is_empty()) {
                        tokio::task::yield_now().await
                    }
                };
                soon("one is asked", asked).await;
                for _ in 0..seconds / 5 {
                    advance_clock(Duration::from_secs(5)).await;
                }
                later.open();
                let response = read_response(&mut client).await;
                let text = if streams { response.streamed_text() } else { response.body.clone() };
                assert!(response.status == 200 && text.contains("late"), "{policy} {seconds} {}: {text}", fakes.len());
                gateway.stop().await;
            }
        }
    }
}

#[tokio::test]
async fn the_error_names_the_limit_that_ended_the_race() {
    let a = FakeProvider::start(vec![silent()]).await;
    let b = FakeProvider::start(vec![silent()]).await;
    let race = "policy = \"fallback\"\ntimeouts = { first_token = \"100ms\", total = \"300ms\" }";
    let gateway = Setup::over(&[&a, &b]).race(race).start().await;
    let response = read_response(&mut gateway.streaming().await).await;
    assert_eq!((response.status, response.error_code().as_str()), (504, "photofinish_timeout"), "{}", response.body);
    for attempt in response.json()["error"]["attempts"].as_array().unwrap() {
        assert_eq!(attempt["message"], "no answer within timeouts.total, 300ms");
    }
    let rows = gateway.stop().await;
    for provider in ["a", "b"] {
        assert_row!(
            rows.one(provider),
            json!({"outcome": "timeout", "failure": "timeout", "failure_phase": "headers"})
        );
    }
}

#[tokio::test]
async fn max_attempts_and_failovers_bound_the_attempts() {
    let failing = || Script::status(500, &[], "{}");
    let a = FakeProvider::start(vec![failing(), failing()]).await;
    let b = FakeProvider::start(vec![failing()]).await;
    let c = FakeProvider::start(vec![Script::stream(&["never"])]).await;
    let gateway = Setup::over(&[&a, &b, &c]).race("max_attempts = 2\nfailovers = 0").start().await;
    let response = read_response(&mut gateway.streaming().await).await;
    assert_eq!((response.status, response.error_code().as_str()), (502, "photofinish_all_failed"));
    let mut client = RawClient::connect(gateway.addr()).await;
    let body = json!({"model": "m", "messages": [{}]}).to_string();
    client.request("POST", CHAT, &[("x-photofinish-max-attempts", "1")], body).await;
    assert_eq!(read_response(&mut client).await.status, 502);
    let rows = gateway.stop().await;
    assert_eq!((rows.of(0).len(), rows.of(1).len(), c.requests().len()), (2, 1, 0));
}
