//! The simulated provider over real sockets. The pace of a stream is tested in `stream`, on a stopped clock.

mod load;

use photofinish_dialects::model_list::ListFormat as _;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use photofinish_dialects::model_list::NoModelList;
use photofinish_wire::Dialect;

/// Fast: 1 ms to the first token, 0.1 ms from one to the next.
fn fast() -> Simulation {
    Simulation {
        ttft: Duration::from_millis(1),
        jitter: 0.0,
        tokens_per_second: 10_000.0,
        tokens: 12,
        ..Simulation::default()
    }
}

/// So slow that no token ever arrives.
fn slow() -> Simulation {
    Simulation { ttft: Duration::from_secs(3_000), ..fast() }
}

async fn start(simulation: Simulation) -> (Simulator, Shutdown) {
    let shutdown = Shutdown::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    (Simulator::start("demo", simulation, listener, &shutdown).unwrap(), shutdown)
}

async fn send(simulator: &Simulator, line: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(simulator.addr()).await.unwrap();
    let head = format!("{line} HTTP/1.1\r\nhost: demo\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    stream
}

/// All bytes until the connection is closed.
async fn exchange(simulator: &Simulator, line: &str, body: &str) -> String {
    let mut answer = Vec::new();
    send(simulator, line, body).await.read_to_end(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

const CHAT: &str = "POST /v1/chat/completions";

fn chat(model: &str, stream: bool) -> String {
    format!(r#"{{"model":"{model}","stream":{stream},"messages":[{{"role":"user","content":"hi"}}],"user":"u-1"}}"#)
}

async fn read_until(stream: &mut TcpStream, pattern: &str) -> String {
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read);
        if text.contains(pattern) {
            return text.into_owned();
        }
        assert_ne!(stream.read_buf(&mut read).await.unwrap(), 0, "closed before {pattern}");
    }
}

fn json(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

#[tokio::test]
async fn a_stream_says_that_it_is_simulated() {
    let (simulator, _shutdown) = start(fast()).await;
    let answer = exchange(&simulator, CHAT, &chat("any", true)).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    for expected in ["content-type: text/event-stream", "x-simulated: true", "x-request-id: req-simulated-1"] {
        assert!(answer.contains(expected), "{expected} is not in {answer}");
    }
    for expected in ["\"system_fingerprint\":\"simulated\"", "\"This\"", "\" simulated\"", "data: [DONE]"] {
        assert!(answer.contains(expected), "{expected} is not in {answer}");
    }
    assert_eq!(simulator.counts_are(|counts| counts.completed == 1).await.running, 0);
    assert_eq!(simulator.ended()[0].user.as_deref(), Some("u-1"));
}

#[tokio::test]
async fn an_answer_in_one_piece_has_the_same_text() {
    let (simulator, _shutdown) = start(fast()).await;
    let answer = json(&exchange(&simulator, CHAT, &chat("any", false)).await);
    let choice = &answer["choices"][0];
    assert_eq!(choice["message"]["content"], "This is a simulated answer from demo: no model was asked. These");
    assert_eq!(choice["finish_reason"], "stop");
    assert_eq!(answer["usage"]["completion_tokens"], 12);
    let cut = r#"{"model":"m","messages":[],"max_completion_tokens":2,"n":2}"#;
    let answer = json(&exchange(&simulator, CHAT, cut).await);
    assert_eq!(answer["choices"][1]["message"]["content"], "This is");
    assert_eq!(answer["choices"][1]["finish_reason"], "length");
    assert_eq!(answer["usage"]["completion_tokens"], 4);
}

#[tokio::test]
async fn failures_by_status_have_openais_shape() {
    let (simulator, _shutdown) = start(fast()).await;
    for status in ["429", "401", "400", "500"] {
        for stream in [true, false] {
            let answer = exchange(&simulator, CHAT, &chat(&format!("fail-{status}"), stream)).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
            assert_eq!(answer.contains("retry-after: 1\r\n"), status == "429");
            let error = json(&answer)["error"].clone();
            assert!(error["message"].as_str().unwrap().starts_with("A simulated failure"), "{error}");
            assert!(error["type"].is_string() && error["code"].is_string(), "{error}");
        }
    }
    assert_eq!(simulator.counts_are(|counts| counts.running == 0).await.failed, 8);
}

#[tokio::test]
async fn failures_in_a_stream() {
    let (simulator, _shutdown) = start(fast()).await;
    let cut = exchange(&simulator, CHAT, &chat("fail-cut", true)).await;
    assert!(cut.contains("\" is\"") && !cut.contains("[DONE]") && !cut.ends_with("0\r\n\r\n"), "{cut}");
    let error = exchange(&simulator, CHAT, &chat("fail-error-frame", true)).await;
    assert!(error.starts_with("HTTP/1.1 200") && error.contains("data: {\"error\":{"), "{error}");
    assert!(!error.contains("\"This\"") && !error.contains("[DONE]"), "{error}");
    let empty = exchange(&simulator, CHAT, &chat("fail-empty", true)).await;
    assert!(!empty.contains("\"This\"") && empty.contains("\"finish_reason\":\"stop\""), "{empty}");
    assert!(empty.contains("data: [DONE]"), "{empty}");
    let reset = exchange(&simulator, CHAT, &chat("fail-reset", true)).await;
    assert_eq!(reset, "");
}

#[tokio::test]
async fn failures_of_an_answer_in_one_piece() {
    let (simulator, _shutdown) = start(fast()).await;
    let cut = exchange(&simulator, CHAT, &chat("fail-cut", false)).await;
    assert!(cut.contains("{\"object\":") && !cut.ends_with("0\r\n\r\n"), "{cut}");
    let error = json(&exchange(&simulator, CHAT, &chat("fail-error-frame", false)).await);
    assert_eq!(error["error"]["code"], "overloaded");
    let empty = json(&exchange(&simulator, CHAT, &chat("fail-empty", false)).await);
    assert_eq!(empty["choices"][0]["message"]["content"], "");
    let reset = exchange(&simulator, CHAT, &chat("fail-reset", false)).await;
    assert_eq!(reset, "");
}

#[tokio::test]
async fn a_share_of_all_requests_fails() {
    let (simulator, _shutdown) = start(Simulation { failures: 1.0, ..fast() }).await;
    let answer = exchange(&simulator, CHAT, &chat("any", true)).await;
    assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
}

#[tokio::test]
async fn a_client_that_hangs_up_is_noticed_at_every_stage() {
    let (simulator, _shutdown) = start(slow()).await;
    let stages = [("any", true), ("any", false), ("fail-hang", true), ("fail-stall", true), ("fail-stall", false)];
    for (done, (model, stream)) in (1..).zip(stages) {
        let mut connection = send(&simulator, CHAT, &chat(model, stream)).await;
        simulator.counts_are(|counts| counts.running == 1).await;
        match (model, stream) {
            (_, true) if model != "fail-hang" => {
                assert!(read_until(&mut connection, "\"role\":\"assistant\"").await.starts_with("HTTP/1.1 200"));
            }
            ("fail-stall", _) => assert!(read_until(&mut connection, "{").await.starts_with("HTTP/1.1 200")),
            _ => {}
        }
        drop(connection);
        let counts = simulator.counts_are(|counts| counts.running == 0).await;
        assert_eq!(counts.cancelled, done, "{model}, stream {stream}");
    }
    let ended = simulator.ended();
    assert!(ended.iter().all(|request| request.end == RequestOutcome::Cancelled && request.first_token.is_none()));
}

#[tokio::test]
async fn bad_requests_are_told_what_is_wrong() {
    let (simulator, _shutdown) = start(fast()).await;
    let cases = [
        (CHAT, "{", "HTTP/1.1 400", "not a chat request"),
        (CHAT, r#"{"model":"fail-explode","messages":[]}"#, "HTTP/1.1 404", "error-frame"),
        ("GET /v1/chat/completions", "", "HTTP/1.1 405", "POST"),
        ("POST /v1/models", "", "HTTP/1.1 405", "GET"),
        ("POST /v1/embeddings", "{}", "HTTP/1.1 400", "`input` is missing"),
        ("POST /v1/completions", "{}", "HTTP/1.1 400", "`prompt` is missing"),
        ("GET /v1/embeddings", "", "HTTP/1.1 405", "POST"),
        ("POST /v1/filings", "{}", "HTTP/1.1 404", "/v1/chat/completions"),
    ];
    for (line, body, status, message) in cases {
        let answer = exchange(&simulator, line, body).await;
        assert!(answer.starts_with(status), "{answer}");
        assert!(json(&answer)["error"]["message"].as_str().unwrap().contains(message), "{answer}");
    }
}

#[tokio::test]
async fn the_models_are_listed_with_the_failures() {
    let (simulator, _shutdown) = start(fast()).await;
    let models = json(&exchange(&simulator, "GET /v1/models", "").await);
    let ids: Vec<&str> = models["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 11);
    assert!(ids.contains(&"simulated") && ids.contains(&"fail-hang"), "{ids:?}");
    // It answers every name, so a gateway must not take the others for gone.
    let page = Dialect::OpenAi.model_page(models.to_string().as_bytes());
    assert_eq!(page, Err(NoModelList::Simulated));
}

#[tokio::test]
async fn http2_is_served_too() {
    let (simulator, _shutdown) = start(fast()).await;
    let mut stream = TcpStream::connect(simulator.addr()).await.unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut frame = [0; 9];
    stream.read_exact(&mut frame).await.unwrap();
    assert_eq!(frame[3], 4, "the server answers with its SETTINGS");
}

#[tokio::test]
async fn draining_lets_streams_run_and_cancelling_ends_them() {
    let (simulator, shutdown) = start(slow()).await;
    let mut connection = send(&simulator, CHAT, &chat("any", true)).await;
    read_until(&mut connection, "\"role\":\"assistant\"").await;
    shutdown.drain();
    assert!(!shutdown.finished(Duration::from_millis(1)).await, "the stream still runs");
    assert_eq!(simulator.counts().running, 1);
    shutdown.cancel();
    assert!(shutdown.finished(Duration::from_secs(10)).await);
    assert_eq!(simulator.counts().cancelled, 1);
    assert!(TcpStream::connect(simulator.addr()).await.is_err(), "it does not listen any more");
}

#[tokio::test]
async fn what_is_broken_fails_every_request_until_it_is_mended() {
    let (simulator, _shutdown) = start(fast()).await;
    simulator.break_down(Some(SimulatedFailure::ServerError));
    let status = |answer: String| answer.split(' ').nth(1).map(str::to_owned);
    for _ in 0..2 {
        assert_eq!(status(exchange(&simulator, CHAT, &chat("m", true)).await).as_deref(), Some("500"));
    }
    let asked_for = exchange(&simulator, CHAT, &chat("fail-429", true)).await;
    assert_eq!(status(asked_for).as_deref(), Some("429"), "a request that asks for a failure gets that one");
    simulator.break_down(None);
    assert_eq!(status(exchange(&simulator, CHAT, &chat("m", true)).await).as_deref(), Some("200"));
}

#[tokio::test]
async fn a_legacy_completion_is_answered_in_both_ways() {
    let (simulator, _shutdown) = start(fast()).await;
    const LINE: &str = "POST /v1/completions";
    let answer = json(&exchange(&simulator, LINE, r#"{"model":"m","prompt":"hi","max_tokens":2}"#).await);
    assert_eq!((&answer["object"], &answer["choices"][0]["text"]), (&"text_completion".into(), &"This is".into()));
    assert_eq!(
        (&answer["choices"][0]["finish_reason"], &answer["usage"]["completion_tokens"]),
        (&"length".into(), &2.into())
    );
    let body =
        r#"{"model":"m","prompt":["a","b"],"max_tokens":1,"stream":true,"stream_options":{"include_usage":true}}"#;
    let stream = exchange(&simulator, LINE, body).await;
    for expected in [
        r#""object":"text_completion""#,
        r#"{"index":0,"text":"This","logprobs":null,"finish_reason":null}"#,
        r#"{"index":1,"text":"","logprobs":null,"finish_reason":"length"}"#,
        r#""usage":{"prompt_tokens":"#,
        "data: [DONE]",
    ] {
        assert!(stream.contains(expected), "{expected} is not in {stream}");
    }
    assert!(!stream.contains("delta") && !stream.contains("role"), "{stream}");
    let failed = exchange(&simulator, LINE, r#"{"model":"fail-429","prompt":"hi"}"#).await;
    assert!(failed.starts_with("HTTP/1.1 429 "), "{failed}");
}

#[tokio::test]
async fn embeddings_are_the_same_for_the_same_input() {
    let (simulator, _shutdown) = start(fast()).await;
    const LINE: &str = "POST /v1/embeddings";
    let answer = json(&exchange(&simulator, LINE, r#"{"model":"m","input":["a","b","a"]}"#).await);
    let vector = |at: usize| answer["data"][at]["embedding"].as_array().unwrap();
    assert_eq!((vector(0).len(), vector(0) == vector(2), vector(0) == vector(1)), (8, true, false));
    let length: f64 = vector(0).iter().map(|value| value.as_f64().unwrap().powi(2)).sum();
    assert!((length - 1.0).abs() < 1e-5, "{length}");
    assert_eq!((&answer["object"], &answer["data"][2]["index"]), (&"list".into(), &2.into()));
    assert_eq!(answer["usage"]["prompt_tokens"], answer["usage"]["total_tokens"]);
    let body = r#"{"model":"m","input":"a","encoding_format":"base64","dimensions":3,"stream":true}"#;
    let packed = json(&exchange(&simulator, LINE, body).await);
    assert_eq!(packed["data"][0]["embedding"].as_str().map(str::len), Some(16), "three floats are twelve bytes");
    let failed = exchange(&simulator, LINE, r#"{"model":"fail-500","input":"hi"}"#).await;
    assert!(failed.starts_with("HTTP/1.1 500 "), "{failed}");
    let empty = json(&exchange(&simulator, LINE, r#"{"model":"fail-empty","input":"hi"}"#).await);
    assert_eq!(empty["data"], serde_json::json!([]));
    assert_eq!(simulator.counts_are(|counts| counts.running == 0).await.completed, 3);
}
