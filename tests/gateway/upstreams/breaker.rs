//! Circuit breakers over real sockets: which upstreams are skipped, which are probed, and which failures do not count.

use std::time::{Duration, Instant};

use photofinish_config::Policy;
use serde_json::json;

use crate::harness::answer::{
    Response, advance_clock, error_and_close, first_text, read_response, silent, stream_after,
};
use crate::harness::gateway::{CHAT, Setup, TestGateway, assert_row};
use crate::harness::program::Program;
use crate::support::{FakeProvider, Gate, RawClient, Request, Script, soon};

/// Open for longer than any test lasts.
const LONG: &str = "open = \"1h\", open_max = \"3h\"";
/// Over by the time a test has checked it.
const SHORT: &str = "open = \"1ms\", open_max = \"1h\"";

fn breaker(failures: u32, times: &str) -> String {
    format!("breaker = {{ failures = {failures}, {times} }}")
}

fn error() -> Script {
    Script::status(500, &[], "{}")
}

fn good() -> Script {
    Script::stream(&["hello"])
}

/// Fails this many times, and then answers.
async fn failing(times: usize) -> FakeProvider {
    FakeProvider::answering(move |request| if request.number < times { error() } else { good() }).await
}

async fn is_open(gateway: &TestGateway, upstream: &str) -> bool {
    let mut client = RawClient::connect(gateway.addr()).await;
    client.request("GET", "/metrics", &[], "").await;
    let page = read_response(&mut client).await.body;
    let start = format!("photofinish_breaker_open{{upstream=\"{upstream}\"}} ");
    let value = page.lines().find_map(|line| line.strip_prefix(&start));
    value.expect("a gauge for each upstream") == "1"
}

async fn said(gateway: &TestGateway) -> String {
    read_response(&mut gateway.streaming().await).await.streamed_text()
}

/// Requests upstreams by name.
async fn of(gateway: &TestGateway, upstreams: &str) -> Response {
    read_response(&mut gateway.ask(&json!({"model": upstreams, "stream": true, "messages": [{}]})).await).await
}

/// Lets the milliseconds of [`SHORT`] pass.
async fn due() {
    let began = Instant::now();
    let passed = async {
        while began.elapsed() < Duration::from_millis(5) {
            tokio::task::yield_now().await;
        }
    };
    soon("the time is over", passed).await;
}

#[tokio::test]
async fn five_errors_in_a_row_open_the_breaker() {
    let (a, b) = (failing(usize::MAX).await, failing(0).await);
    let gateway = Setup::over(&[&a, &b]).race("policy = \"fallback\"").race(&breaker(5, LONG)).start().await;
    for asked in 1..=8 {
        assert_eq!(is_open(&gateway, "a/m").await, asked > 5);
        assert_eq!(said(&gateway).await, "hello");
        assert_eq!(a.requests().len(), asked.min(5));
    }
    assert!(!is_open(&gateway, "b/m").await);
    gateway.stop().await;
}

/// The row of a race names each upstream of the model that could not start, and why.
#[tokio::test]
async fn a_race_that_shrinks_says_who_is_missing() {
    let (a, b, c, d) = (failing(usize::MAX).await, failing(0).await, failing(0).await, failing(0).await);
    let setup = Setup::new().provider("a", &a, "").provider("b", &b, "dialect = \"anthropic\"");
    let setup = setup.provider("c", &c, "").provider("d", &d, "").race("policy = \"fallback\"\nfailovers = 0");
    let gateway = setup.race(&breaker(1, LONG)).start().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.status, 502);
    let ask = json!({"model": "m", "stream": true, "seed": 7, "messages": [{"role": "user", "content": "hi"}]});
    assert_eq!(read_response(&mut gateway.ask(&ask).await).await.upstream(), "c/m");
    let rows = gateway.stop().await;
    let left_out: Vec<_> = rows.races.iter().map(|race| race["left_out"].clone()).collect();
    let first = "b/m@capability c/m@failovers d/m@failovers";
    assert_eq!(left_out, [json!(first), json!("b/m@capability a/m@breaker d/m@failovers")]);
}

/// A race that was refused because no upstream was left names them too; `/api` lists them.
#[tokio::test]
async fn a_refused_race_says_who_is_missing() {
    let (a, b) = (failing(0).await, failing(0).await);
    let setup = Setup::new().provider("a", &a, "dialect = \"anthropic\"").provider("b", &b, "dialect = \"gemini\"");
    let gateway = setup.race("lossy = \"refuse\"").start().await;
    let ask = json!({"model": "m", "seed": 7, "n": 2, "messages": [{"role": "user", "content": "hi"}]});
    let refused = read_response(&mut gateway.ask(&ask).await).await;
    assert_eq!(refused.status, 400, "{}", refused.body);
    let list = json!([
        {"upstream": "a/m", "reason": "capability"},
        {"upstream": "b/m", "reason": "capability"},
    ]);
    let listed = async || {
        let mut client = RawClient::connect(gateway.addr()).await;
        client.request("GET", "/api/races", &[], "").await;
        read_response(&mut client).await.json()["races"][0]["left_out"] == list
    };
    soon("the row is listed", async { while !listed().await {} }).await;
    let rows = gateway.stop().await;
    assert_eq!(rows.races[0]["left_out"], json!("a/m@capability b/m@capability"));
}

#[tokio::test]
async fn without_failures_there_is_no_breaker() {
    let (a, b) = (failing(usize::MAX).await, failing(0).await);
    let gateway = Setup::over(&[&a, &b]).race("policy = \"fallback\"").race(&breaker(0, LONG)).start().await;
    for _ in 0..10 {
        assert_eq!(said(&gateway).await, "hello");
    }
    assert_eq!(a.requests().len(), 10);
    gateway.stop().await;
}

#[tokio::test]
async fn after_the_open_time_a_probe_joins_the_race_and_its_first_token_closes_the_breaker() {
    let (first_may, never) = (Gate::new(), Gate::new());
    let a = FakeProvider::start(vec![error_and_close(500, "{}"), good(), silent()]).await;
    let b = FakeProvider::start(vec![stream_after(&first_may, &["b"]), stream_after(&never, &["b"]), good()]).await;
    let gateway = Setup::over(&[&a, &b]).race(&breaker(1, SHORT)).start().await;
    let mut first = gateway.streaming().await;
    a.closed(0).await;
    first_may.open();
    assert_eq!(read_response(&mut first).await.streamed_text(), "b");
    assert!(is_open(&gateway, "a/m").await);
    due().await;
    let response = read_response(&mut gateway.streaming().await).await;
    assert_eq!((response.upstream(), response.header("x-photofinish-attempts")), ("a/m", "2"));
    assert!(!is_open(&gateway, "a/m").await);
    assert_eq!(said(&gateway).await, "hello");
    let rows = gateway.stop().await;
    let providers = |race| rows.of(race).iter().map(|row| row["provider"].clone()).collect::<Vec<_>>();
    assert_eq!([providers(0), providers(1), providers(2)], [["a", "b"], ["b", "a"], ["a", "b"]], "by their start");
    assert_row!(rows.of(1)[1], json!({"start_reason": "first", "p_include": 1.0, "outcome": "won"}));
}

/// The one that is left out may be well again, and the client has no other.
#[tokio::test]
async fn an_open_breaker_is_the_last_resort_under_every_policy() {
    for (policy, streams) in Policy::ALL.into_iter().flat_map(|policy| [(policy, true), (policy, false)]) {
        let (a, b) = (failing(1).await, failing(usize::MAX).await);
        let model = format!("[models.m]\npolicy = \"{}\"\nupstreams = [\"a/m\", \"b/m\"]", policy.as_str());
        let gateway = Setup::over(&[&a, &b]).race("retries = 0").race(&breaker(1, LONG)).model(&model).start().await;
        assert_eq!(of(&gateway, "a/m").await.status, 502);
        let ask = json!({"model": "m", "stream": streams, "messages": [{}]});
        let response = read_response(&mut gateway.ask(&ask).await).await;
        assert_eq!((response.status, response.upstream()), (200, "a/m"), "{policy:?} {streams}");
        assert!(!is_open(&gateway, "a/m").await);
        let rows = gateway.stop().await;
        assert_eq!(rows.of(1).iter().map(|row| &row["provider"]).collect::<Vec<_>>(), ["b", "a"], "{policy:?}");
        assert_eq!(rows.races[1]["left_out"], json!(null));
    }
}

#[tokio::test]
async fn a_probe_displaces_no_healthy_upstream() {
    let b_refuses = |request: &Request| if request.number < 4 { good() } else { Script::status(400, &[], "{}") };
    let (a, b) = (failing(usize::MAX).await, FakeProvider::answering(b_refuses).await);
    let c = FakeProvider::answering(|_| Script::status(400, &[], "{}")).await;
    let setup = Setup::over(&[&a, &b, &c]).race("policy = \"fallback\"\nmax_attempts = 2").race(&breaker(1, SHORT));
    let gateway = setup.start().await;
    assert_eq!(said(&gateway).await, "hello");
    for _ in 0..3 {
        due().await;
        let response = read_response(&mut gateway.streaming().await).await;
        assert_eq!(
            (response.upstream(), response.header("x-photofinish-attempts")),
            ("b/m", "2"),
            "and a at the same time"
        );
    }
    assert_eq!(c.requests().len(), 0, "none comes in the place of a trial");
    due().await;
    let response = read_response(&mut gateway.streaming().await).await;
    let attempts = response.json()["error"]["attempts"].as_array().unwrap().clone();
    let mut failures: Vec<_> =
        attempts.iter().map(|attempt| (attempt["upstream"].clone(), attempt["failure"].clone())).collect();
    failures.sort_by_key(|(upstream, _)| upstream.to_string());
    let expected = [("a/m", "server_error"), ("b/m", "bad_request"), ("c/m", "bad_request")];
    assert_eq!(failures, expected.map(|(upstream, failure)| (json!(upstream), json!(failure))));
    gateway.stop().await;
}

#[tokio::test]
async fn with_a_single_attempt_the_probe_takes_its_listed_place() {
    let (a, b) = (failing(1).await, failing(0).await);
    let setup = Setup::over(&[&a, &b]).race("policy = \"fallback\"\nmax_attempts = 1\nfailovers = 0");
    let gateway = setup.race(&breaker(1, SHORT)).start().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.status, 502);
    due().await;
    let response = read_response(&mut gateway.streaming().await).await;
    assert_eq!((response.upstream(), response.header("x-photofinish-attempts")), ("a/m", "1"));
    assert!(!is_open(&gateway, "a/m").await);
    gateway.stop().await;
}

#[tokio::test]
async fn the_weight_of_a_probed_upstream_does_not_count() {
    let (never, b) = (Gate::new(), failing(0).await);
    let a = FakeProvider::start(vec![error(), stream_after(&never, &["hello"])]).await;
    let weights = "{ upstream = \"a/m\", weight = 1000 }, { upstream = \"b/m\", weight = 0.000001 }";
    let model = format!("[models.m]\npolicy = \"weighted\"\nupstreams = [{weights}]");
    let gateway = Setup::over(&[&a, &b]).race(&breaker(1, SHORT)).model(&model).start().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.header("x-photofinish-attempts"), "2");
    due().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.upstream(), "b/m");
    let rows = gateway.stop().await;
    assert_eq!(rows.of(1).iter().map(|row| &row["provider"]).collect::<Vec<_>>(), ["b", "a"], "by their start");
}

#[tokio::test]
async fn a_probe_serves_the_request_if_the_first_attempt_fails() {
    let b_fails = |request: &Request| if request.number == 1 { Script::status(400, &[], "{}") } else { good() };
    let (a, b) = (failing(1).await, FakeProvider::answering(b_fails).await);
    let gateway = Setup::over(&[&a, &b]).race("policy = \"fallback\"").race(&breaker(1, SHORT)).start().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.upstream(), "b/m");
    due().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.upstream(), "a/m", "b was the first to be asked");
    assert_eq!(read_response(&mut gateway.streaming().await).await.upstream(), "a/m", "in its own place again");
    let rows = gateway.stop().await;
    assert_eq!(rows.of(1).iter().map(|row| &row["provider"]).collect::<Vec<_>>(), ["b", "a"]);
}

/// Two attempts at once, twice as many each second. On a stopped clock.
#[tokio::test]
async fn an_upstream_that_is_back_is_not_overrun() {
    let (a_may, b) = (Gate::new(), failing(0).await);
    let held = a_may.clone();
    let a = FakeProvider::answering(move |request| match request.number {
        0 => error_and_close(500, "{}"),
        1 => good(),
        _ => stream_after(&held, &["hello"]),
    });
    let a = a.await;
    let setup = Setup::over(&[&a, &b]).race("policy = \"fallback\"\npatience = 0").race(&breaker(1, "open = \"5s\""));
    let gateway = setup.start().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.upstream(), "b/m");
    assert_eq!(of(&gateway, "a/m").await.upstream(), "a/m");
    let mut waiting = Vec::new();
    for (seconds, more) in [(0, 2), (2, 6)] {
        advance_clock(Duration::from_secs(seconds)).await;
        for _ in 0..more {
            let asked = a.requests().len();
            waiting.push(gateway.streaming().await);
            a.request(asked).await;
        }
        assert_eq!(read_response(&mut gateway.streaming().await).await.upstream(), "b/m", "{seconds}");
    }
    a_may.open();
    for mut waiting in waiting {
        assert_eq!(read_response(&mut waiting).await.upstream(), "a/m");
    }
    assert_eq!(read_response(&mut gateway.streaming().await).await.upstream(), "a/m", "in its own place again");
    gateway.stop().await;
}

#[tokio::test]
async fn a_failed_probe_doubles_the_open_time() {
    let (a, b) = (failing(usize::MAX).await, failing(usize::MAX).await);
    let setup =
        Setup::over(&[&a, &b]).race("policy = \"fallback\"\nmax_attempts = 1\nfailovers = 0").race(&breaker(2, LONG));
    let gateway = setup.start().await;
    for _ in 0..2 {
        assert_eq!(read_response(&mut gateway.streaming().await).await.status, 502);
    }
    assert!(is_open(&gateway, "a/m").await);
    assert_eq!(of(&gateway, "a/m").await.status, 502, "tried all the same: there is no other");
    let response = read_response(&mut gateway.streaming().await).await;
    let left_out = &response.json()["error"]["attempts"][1];
    assert_eq!(
        (response.status, &left_out["upstream"], &left_out["failure"]),
        (502, &json!("a/m"), &json!("cooling_down"))
    );
    let message = left_out["message"].as_str().unwrap();
    assert!(message.starts_with("cooling down for another 7"), "two hours now, less what passed: {message}");
    assert_eq!(a.requests().len(), 3);
    gateway.stop().await;
}

#[tokio::test]
async fn if_every_breaker_is_open_all_upstreams_run() {
    let trial_may = Gate::new();
    let script = vec![error(), error(), stream_after(&trial_may, &["hello"]), good(), error(), good()];
    let a = FakeProvider::start(script).await;
    let gateway = Setup::over(&[&a]).race(&breaker(1, LONG)).start().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.status, 502);
    assert!(is_open(&gateway, "a/m").await);
    assert_eq!(read_response(&mut gateway.streaming().await).await.status, 502, "asked all the same");
    let mut trial = gateway.streaming().await;
    a.request(2).await;
    assert_eq!(said(&gateway).await, "hello", "at the same time as the trial");
    assert!(!is_open(&gateway, "a/m").await);
    trial_may.open();
    assert_eq!(read_response(&mut trial).await.streamed_text(), "hello");
    assert_eq!(read_response(&mut gateway.streaming().await).await.status, 502);
    assert_eq!(said(&gateway).await, "hello");
    gateway.stop().await;
}

#[tokio::test]
async fn a_probe_whose_client_leaves_allows_the_next_probe() {
    let a = FakeProvider::start(vec![error(), silent(), good()]).await;
    let gateway = Setup::over(&[&a]).race(&breaker(1, LONG)).start().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.status, 502);
    let trial = gateway.streaming().await;
    a.request(1).await;
    trial.close();
    a.closed(1).await;
    assert_eq!(said(&gateway).await, "hello");
    gateway.stop().await;
}

/// R14: neither attempts that the gateway cancels nor failures outside the provider's control count.
#[tokio::test]
async fn failures_that_are_not_the_upstream_s_do_not_count() {
    let middle = Script::sse().role().token("x").until_closed();
    let refused = Script::status(400, &[], "{}");
    let limited = Script::status(429, &[("retry-after", "0.001")], "{}");
    let a = FakeProvider::start(vec![silent(), silent(), middle, refused, limited]).await;
    let b = FakeProvider::answering(|_| good()).await;
    let gateway = Setup::over(&[&a, &b]).race(&breaker(1, LONG)).start().await;
    assert_eq!(said(&gateway).await, "hello");
    // By now the loser's failure would have been counted.
    a.closed(0).await;
    let client = gateway.ask(&json!({"model": "a/m", "stream": true, "messages": [{}]})).await;
    a.request(1).await;
    client.close();
    a.closed(1).await;
    assert!(!is_open(&gateway, "a/m").await, "before a first token would close it");
    let mut client = gateway.ask(&json!({"model": "a/m", "stream": true, "messages": [{}]})).await;
    client.head().await;
    first_text(&mut client).await;
    client.close();
    a.closed(2).await;
    assert_eq!(of(&gateway, "a/m").await.status, 400);
    assert_eq!(of(&gateway, "a/m").await.status, 429);
    assert!(!is_open(&gateway, "a/m").await);
    let rows = gateway.stop().await;
    let outcomes: Vec<_> =
        rows.attempts.iter().filter(|row| row["provider"] == "a").map(|row| &row["outcome"]).collect();
    assert_eq!(outcomes, ["lost", "client_gone", "client_gone", "failed", "failed"]);
}

#[tokio::test]
async fn broken_and_late_answers_count() {
    let cut = Script::sse().role().token("x").close();
    let (patient, strict) = ("", "timeouts = { first_token = \"50ms\" }");
    for (script, stream, timeouts) in [(cut.clone(), true, patient), (cut, false, patient), (silent(), true, strict)] {
        let a = FakeProvider::answering(move |_| script.clone()).await;
        let b = failing(0).await;
        let setup = Setup::over(&[&a, &b]).race("policy = \"fallback\"").race(timeouts).race(&breaker(2, LONG));
        let gateway = setup.start().await;
        for asked in 1..=3 {
            read_response(&mut gateway.ask(&json!({"model": "m", "stream": stream, "messages": [{}]})).await).await;
            assert_eq!(a.requests().len(), asked.min(2), "streaming: {stream}");
        }
        assert!(is_open(&gateway, "a/m").await);
        gateway.stop().await;
    }
}

#[tokio::test]
async fn the_total_deadline_is_a_timeout_too() {
    let a = FakeProvider::answering(|_| silent()).await;
    let setup = Setup::over(&[&a]).race("timeouts = { total = \"50ms\" }").race(&breaker(1, LONG));
    let gateway = setup.start().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.status, 504);
    assert!(is_open(&gateway, "a/m").await);
    gateway.stop().await;
}

#[tokio::test]
async fn a_losing_probe_continues_and_its_first_token_closes_the_breaker() {
    let (first_may, second_may, late_may) = (Gate::new(), Gate::new(), Gate::new());
    let a = FakeProvider::start(vec![error_and_close(500, "{}"), stream_after(&late_may, &["late"])]).await;
    let b = FakeProvider::start([&first_may, &second_may].map(|may| stream_after(may, &["hello"])).into()).await;
    let gateway = Setup::over(&[&a, &b]).race("audit = 0.0").race(&breaker(1, SHORT)).start().await;
    let mut first = gateway.streaming().await;
    a.closed(0).await;
    first_may.open();
    read_response(&mut first).await;
    due().await;
    let mut second = gateway.streaming().await;
    a.request(1).await;
    second_may.open();
    assert_eq!(read_response(&mut second).await.upstream(), "b/m");
    assert!(is_open(&gateway, "a/m").await, "it has lost, and runs on");
    late_may.open();
    soon("it closes", async { while is_open(&gateway, "a/m").await {} }).await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_reload_keeps_the_breakers_of_unchanged_upstreams() {
    let (a, b) = (failing(usize::MAX).await, failing(0).await);
    let moved = failing(0).await;
    let over = |a: &FakeProvider| Setup::over(&[a, &b]).race("policy = \"fallback\"").race(&breaker(1, LONG));
    let gateway = over(&a).start().await;
    assert_eq!(said(&gateway).await, "hello");
    gateway.reload(&over(&a).race("max_attempts = 3")).await;
    assert!(is_open(&gateway, "a/m").await);
    assert_eq!(read_response(&mut gateway.streaming().await).await.upstream(), "b/m");
    gateway.reload(&over(&moved)).await;
    assert!(!is_open(&gateway, "a/m").await, "at another address");
    assert_eq!(read_response(&mut gateway.streaming().await).await.upstream(), "a/m");
    assert_eq!(a.requests().len(), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn opening_and_closing_are_logged_once() {
    let a = failing(4).await;
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("config.toml");
    let setup = Setup::over(&[&a]).race(&breaker(2, LONG));
    std::fs::write(&config, setup.text(&directory.path().join("test.db"))).unwrap();
    let (program, address) = Program::serve(&config, None).await;
    for asked in 0..6 {
        let mut client = RawClient::connect(address).await;
        client.post(CHAT, &json!({"model": "m", "messages": [{}]})).await;
        assert_eq!(read_response(&mut client).await.status, if asked < 4 { 502 } else { 200 });
    }
    let log = program.end().await;
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("breaker")).collect();
    assert_eq!(lines.len(), 2, "{log}");
    assert!(lines[0].contains("WARN") && lines[1].contains("INFO"), "{log}");
    assert!(lines.iter().all(|line| line.contains("a/m")), "{log}");
}
