//! An attempt whose first token is held back reads on within a bound and reports how it ended. For when a token is held
//! back, see the tests of `race`.

use std::future::poll_fn;
use std::path::Path;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use serde_json::json;
use tempfile::TempDir;

use crate::harness::answer::ending;
use crate::harness::gateway::{Row, Rows, assert_row};
use crate::support::{FakeProvider, Gate, Script, soon};
use photofinish_base::clock::Instant;
use photofinish_base::failure::{FailureKind, Phase};
use photofinish_base::shutdown::Shutdown;
use photofinish_base::telemetry::LogContext;
use photofinish_config as config;
use photofinish_facts::record::{RaceSource, StartReason};
use photofinish_facts::recording::RaceRecorder as _;
use photofinish_gateway::attempt::{AttemptSpec, EventStream, ExchangeSpec, ItemKind, ReadyAttempt, StreamItem, start};
use photofinish_history::recorder::{Recorder, WriterTask};
use photofinish_history::store::Store;
use photofinish_limits::{Admission, AttemptCost};
use photofinish_race::AttemptStart;
use photofinish_translation::{ApiRequest, RequestTranslation};
use photofinish_transport::upstream::{Endpoint, UpstreamClient};
use photofinish_wire::{AnswerForm, Surface};

/// One attempt without a race, and the database that its row goes to.
struct Alone {
    ready: ReadyAttempt,
    writer: WriterTask,
    directory: TempDir,
}

impl Alone {
    /// Requests until the first token.
    async fn ask(fake: &FakeProvider) -> Alone {
        let text = format!("[providers.a]\nbase_url = \"{}\"\n[models.m]\nupstreams = [\"a/m\"]", fake.base_url());
        let config = config::parse(&text, Path::new("config.toml"), &|_| None).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let (recorder, writer) = Recorder::start(Store::open(directory.path().join("test.db")).unwrap());
        let shutdown = Shutdown::new();
        let body = Bytes::from_static(br#"{"model":"m","stream":true,"messages":[{}]}"#);
        let exchange = ExchangeSpec {
            client: UpstreamClient::new(shutdown.clone()).unwrap(),
            sink: recorder.for_race(RaceSource::Client),
            shutdown,
            race_id: "0197".to_owned(),
            context: LogContext::default(),
            read_at: Instant::now(),
            key: None,
            memory: photofinish_base::memory::Memory::new(1 << 30),
        };
        let spec = AttemptSpec {
            job: None,
            exchange,
            event_max: 8 << 20,
            starting: AttemptStart { candidate: 0, ordinal: 0, reason: StartReason::First, p_include: 1.0 },
            upstream: config.model("m").unwrap().upstreams[0].clone(),
            endpoint: Endpoint::parse(&fake.base_url()).unwrap(),
            request_translation: Arc::new(RequestTranslation::untouched(Arc::new(
                ApiRequest::parse(Surface::Chat, body).unwrap(),
            ))),
            asks_hour: false,
            choices: None,
            include_usage: false,
            form: AnswerForm::Streamed,
            streams: true,
            first_token: config::FirstToken::Any,
            headers: HeaderMap::new(),
            fresh: false,
            p_audit: 0.0,
            slot: None,
            tape: None,
            per_byte: (None, None),
            attempt_observer: None,
        };
        let reservation = Admission::unlimited().reserve("a/m", 0, |_| AttemptCost::default()).unwrap();
        let ready = soon("the first token", start(spec, reservation)).await.unwrap();
        Alone { ready, writer, directory }
    }

    /// Holds it back until `enough` is true, or until it breaks.
    async fn hold(&mut self, enough: impl Fn(&EventStream) -> bool) -> Option<(FailureKind, Phase)> {
        let stream = &mut self.ready.stream;
        let held = poll_fn(|context| match stream.read_ahead(context) {
            Poll::Ready(failure) => Poll::Ready(Some((failure.kind, failure.phase))),
            Poll::Pending if enough(stream) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        soon("what is read ahead", held).await
    }

    /// Everything after the first token, as the relay reads it.
    async fn rest(&mut self) -> Vec<StreamItem> {
        let stream = &mut self.ready.stream;
        stream.serve(Duration::from_secs(5));
        let mut items = Vec::new();
        while let Some(item) = soon("the rest", poll_fn(|context| stream.poll_served(context))).await {
            items.push(item.unwrap());
        }
        items
    }

    /// Its row, after it was dropped.
    async fn row(self) -> Row {
        drop(self.ready);
        assert_eq!(soon("the row", self.writer.finish(Duration::from_secs(5))).await, 0);
        Rows::read(&self.directory.path().join("test.db")).await.one("a").clone()
    }
}

/// Tokens in four texts of 64 KiB: a token has at most four characters.
const FOUR_LONG: i64 = 64 << 10;

#[tokio::test]
async fn events_that_arrive_during_a_hold_are_delivered_in_order() {
    let held = Gate::new();
    let script =
        Script::sse().role().token("a").wait(&held).tokens(&["b", "c"]).finish("stop").usage(3, 3).done().end();
    let fake = FakeProvider::start(vec![script]).await;
    let mut alone = Alone::ask(&fake).await;
    assert_eq!(alone.ready.stream.tokens(), 1);
    held.open();
    assert_eq!(alone.hold(EventStream::is_complete).await, None, "a whole answer breaks no more");
    assert_eq!(alone.ready.stream.tokens(), 3, "stamped before anybody took them");
    let items = alone.rest().await;
    let payload: Vec<&StreamItem> = items.iter().filter(|item| matches!(item.kind, ItemKind::Payload)).collect();
    let has = |item: &StreamItem, text: &str| String::from_utf8_lossy(&item.raw).contains(&json!(text).to_string());
    assert!(payload.len() == 2 && has(payload[0], "b") && has(payload[1], "c"));
    assert!(items.iter().any(|item| matches!(item.kind, ItemKind::UsageOnly)));
    assert_eq!(items.iter().filter(|item| matches!(item.kind, ItemKind::Done)).count(), 1);
    alone.ready.stream.won();
    assert_row!(
        &alone.row().await,
        json!({"outcome": "won", "payload_events": 3, "output_tokens": 3, "client_stalled": 0})
    );
}

#[tokio::test]
async fn a_held_attempt_reads_ahead_within_a_bound() {
    let long = "x".repeat(64 << 10);
    let tokens: Vec<&str> = vec![&long; 20];
    let fake = FakeProvider::start(vec![Script::sse().token("a").tokens(&tokens).finish("stop").done().end()]).await;
    let mut alone = Alone::ask(&fake).await;
    // Four of them are more than the bound of 256 KiB.
    assert_eq!(alone.hold(|stream| stream.tokens() == FOUR_LONG).await, None);
    for _ in 0..50 {
        tokio::task::yield_now().await;
        assert_eq!(alone.hold(|_| true).await, None);
    }
    assert_eq!(alone.ready.stream.tokens(), FOUR_LONG, "it waits until somebody takes them");
    let items = alone.rest().await;
    assert_eq!(items.iter().filter(|item| matches!(item.kind, ItemKind::Payload)).count(), 20, "and then the rest");
}

/// Makes a script break, perhaps by this error.
type Breaking = fn(Script, &str) -> Script;

#[tokio::test]
async fn a_held_attempt_that_breaks_has_failed() {
    let error = r#"{"error":{"message":"over","type":"overloaded_error"}}"#;
    let breaks: [(Breaking, FailureKind); 3] = [
        (|script, _| script.close(), FailureKind::Closed),
        (|script, _| script.end(), FailureKind::Closed),
        (|script, error| script.event(error).until_closed(), FailureKind::Overloaded),
    ];
    for (breaking, kind) in breaks {
        let held = Gate::new();
        let script = Script::sse().role().token("a").wait(&held).token("b");
        let fake = FakeProvider::start(vec![breaking(script, error)]).await;
        let mut alone = Alone::ask(&fake).await;
        held.open();
        assert_eq!(alone.hold(|_| false).await, Some((kind, Phase::Stream)));
        assert_eq!(
            ending(&alone.row().await),
            json!({"outcome": "failed_mid", "ttft_event": 1, "failure": kind.as_str(), "failure_phase": "stream"})
        );
    }
}

#[tokio::test]
async fn a_held_attempt_that_is_not_chosen_is_a_loser_with_a_first_token() {
    let fake = FakeProvider::start(vec![Script::sse().role().token("a").until_closed()]).await;
    let mut alone = Alone::ask(&fake).await;
    alone.ready.stream.lost();
    let row = alone.row().await;
    fake.closed(0).await;
    assert_eq!(ending(&row), json!({"outcome": "lost", "ttft_event": 1}));
    assert!(!row["cancel_us"].is_null() && row["ttft_obs_us"] == row["first_token_us"]);
}
