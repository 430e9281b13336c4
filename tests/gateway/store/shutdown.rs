//! Shutdown of the program: a drain in which streams end, a drain that runs out, a second signal, and the rows after each.

use std::io::ErrorKind;

use crate::harness::answer::{Response, read_response, read_rest};
use crate::harness::process::{RunningGateway, Setup, provider};
use crate::support::{FakeProvider, Gate, RawClient, Script};

struct Streaming {
    fake: FakeProvider,
    served: RunningGateway,
    client: RawClient,
    /// If opened, the provider ends its stream.
    gate: Gate,
}

/// A gateway with one running stream.
async fn streaming(drain: &str) -> Streaming {
    let gate = Gate::new();
    let script = Script::sse().role().token("a").wait(&gate).token("b").finish("stop").usage(5, 2).done().end();
    let fake = FakeProvider::answering(move |_| script.clone()).await;
    let config = format!("server.drain = \"{drain}\"\n{}[models.m]\nupstreams = [\"one/m\"]\n", provider("one", &fake));
    let served = Setup::new(&config).serve().await;
    let mut client = served.asking("m").await;
    assert_eq!(client.head().await.status, 200);
    while !client.event().await.unwrap().unwrap().contains("\"a\"") {}
    Streaming { fake, served, client, gate }
}

async fn rest(client: &mut RawClient) -> Vec<String> {
    let mut events = Vec::new();
    while let Some(event) = client.event().await.unwrap() {
        events.push(event);
    }
    events
}

#[tokio::test]
async fn a_drain_finishes_streams_and_answers_what_comes_meanwhile() {
    let Streaming { fake, served, mut client, gate } = streaming("1h").await;
    let mut idle = RawClient::connect(served.addr).await;
    idle.request("GET", "/healthz", &[], "").await;
    let answer = read_response(&mut idle).await;
    assert_eq!((answer.status, answer.header("connection")), (200, ""));
    served.process.signal("TERM");
    served.process.logged("stopping: running streams go on").await;
    // An idle connection is closed. While a stream runs, new ones have an answer.
    idle.closed().await;
    let ready = answered(&served, "/readyz").await;
    assert_eq!((ready.status, ready.header("connection")), (503, "close"), "{}", ready.body);
    let models = answered(&served, "/v1/models").await;
    assert_eq!((models.status, models.header("connection")), (200, "close"), "{}", models.body);
    gate.open();
    let events = rest(&mut client).await;
    assert!(events[0].contains("\"b\"") && events.last().unwrap() == "[DONE]", "{events:?}");
    assert_eq!(served.process.ended().await, Some(0), "{}", served.process.log());
    assert_eq!((served.setup.attempts().await, served.setup.races().await), one("one won", "ok 1 200"));
    assert_eq!(served.setup.number("SELECT output_tokens FROM attempt").await, 2);
    assert_eq!(fake.requests().len(), 1);
    assert_eq!(RawClient::try_connect(served.addr).await.err().unwrap().kind(), ErrorKind::ConnectionRefused);
    let log = served.process.log();
    for step in ["every stream has ended", "every row is written"] {
        assert!(log.lines().any(|line| line.contains(step) && line.contains("after=")), "{step}: {log}");
    }
}

#[tokio::test]
async fn before_the_drain_it_serves_on_for_a_delay_although_it_is_not_ready() {
    let served = Setup::new("server.drain_delay = \"1h\"\nproviders.sim.simulate = {}\n").serve().await;
    assert_eq!(answered(&served, "/readyz").await.status, 200);
    let mut kept = RawClient::connect(served.addr).await;
    kept.request("GET", "/healthz", &[], "").await;
    assert_eq!(read_response(&mut kept).await.status, 200);
    served.process.signal("TERM");
    served.process.logged("not ready any more").await;
    let ready = answered(&served, "/readyz").await;
    assert!(ready.status == 503 && ready.body.contains("\"draining\":true"), "{} {}", ready.status, ready.body);
    let mut new = served.asking("sim/m").await;
    let answer = read_response(&mut new).await;
    assert_eq!((answer.status, answer.header("connection")), (200, ""), "{}", answer.body);
    kept.request("GET", "/healthz", &[], "").await;
    assert_eq!(read_response(&mut kept).await.header("connection"), "", "connections stay too");
    served.process.signal("TERM");
    assert_eq!(served.process.ended().await, Some(1), "a second signal skips it");
    assert_eq!(served.setup.races().await, ["ok 1 200"]);
}

/// The answer on a new connection. One whose request comes late, on a slow machine, may be closed before.
async fn answered(served: &RunningGateway, path: &str) -> Response {
    loop {
        let mut client = RawClient::connect(served.addr).await;
        client.request("GET", path, &[], "").await;
        if let Ok(head) = client.try_head().await {
            return read_rest(&mut client, head).await;
        }
    }
}

#[tokio::test]
async fn clients_that_keep_their_connections_do_not_hold_a_stop_up() {
    let served = Setup::new("server.drain = \"1h\"\nproviders.sim.simulate = {}\n").serve().await;
    let mut kept = Vec::new();
    for number in 0..20 {
        let mut client = RawClient::connect(served.addr).await;
        // Some never ask.
        if number % 2 > 0 {
            client.request("GET", "/healthz", &[], "").await;
            assert_eq!(read_response(&mut client).await.status, 200);
        }
        kept.push(client);
    }
    served.process.signal("TERM");
    assert_eq!(served.process.ended().await, Some(0), "{}", served.process.log());
    assert!(served.process.log().contains("every stream has ended"), "{}", served.process.log());
}

fn one(attempt: &str, race: &str) -> (Vec<String>, Vec<String>) {
    (vec![attempt.to_owned()], vec![race.to_owned()])
}

#[tokio::test]
async fn a_drain_that_runs_out_ends_a_stream_with_an_error() {
    let Streaming { fake, served, mut client, .. } = streaming("20ms").await;
    served.process.signal("TERM");
    let events = rest(&mut client).await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(events[0].contains("\"error\"") && events[0].contains("shutting down"), "{events:?}");
    assert_eq!(served.process.ended().await, Some(0), "{}", served.process.log());
    fake.closed(0).await;
    assert!(served.process.log().contains("the drain ran out"));
    assert_eq!((served.setup.attempts().await, served.setup.races().await), one("one shutdown", "shutdown 1 200"));
    let stamped = "SELECT count(*) FROM attempt WHERE first_token_us > 0 AND cancel_us >= first_token_us";
    assert_eq!(served.setup.number(stamped).await, 1);
}

#[tokio::test]
async fn a_drain_that_runs_out_before_a_token_says_so() {
    let fake = FakeProvider::answering(|_| Script::sse().role().until_closed()).await;
    let config = format!("server.drain = \"20ms\"\n{}[models.m]\nupstreams = [\"one/m\"]\n", provider("one", &fake));
    let served = Setup::new(&config).serve().await;
    let mut client = served.asking("m").await;
    fake.request(0).await;
    served.process.signal("INT");
    let answer = read_response(&mut client).await;
    let (status, code, _) = answer.error();
    assert_eq!((status, code.as_str()), (503, "photofinish_shutting_down"));
    assert!(!answer.header("retry-after").is_empty());
    assert_eq!(served.process.ended().await, Some(0));
    assert_eq!((served.setup.attempts().await, served.setup.races().await), one("one shutdown", "shutdown 1 503"));
    assert_eq!(served.setup.texts("SELECT censor_cause FROM attempt").await, ["shutdown"]);
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let Streaming { fake, served, mut client, .. } = streaming("1h").await;
    served.process.signal("TERM");
    let line = served.process.logged("stopping: running streams go on").await;
    assert!(line.contains("a second signal ends them at once"), "{line}");
    served.process.signal("TERM");
    let events = rest(&mut client).await;
    assert!(events.len() == 1 && events[0].contains("\"error\""), "{events:?}");
    assert_eq!(served.process.ended().await, Some(1));
    assert!(served.process.log().contains("a second signal: ended at once"), "{}", served.process.log());
    fake.closed(0).await;
    assert_eq!((served.setup.attempts().await, served.setup.races().await), one("one shutdown", "shutdown 1 200"));
    assert_eq!(served.setup.texts("PRAGMA integrity_check").await, ["ok"]);
}
