//! From the recorder's rows to the table, the metrics and the log; and when nothing can be read.

use super::*;
use photofinish_config::{Budget, Limits, StoreAddress};
use photofinish_facts::record::recorded::Recorded;
use photofinish_facts::record::{AttemptRecord, IncidentState, RaceRecord, RaceSource, sample};
use photofinish_facts::recording::RaceRecorder as _;
use photofinish_history::recorder::WriterTask;
use photofinish_history::store::{IncidentFilter, RecordedFilter, Store, StoreReader};
use photofinish_limits::{AttemptCost, KnownCost, LevelName, LimitClock, admit};
use photofinish_metrics::MetricsFormat;

const SECOND: i64 = 1_000_000;

/// A race whose only attempt could not connect.
fn fail(recorder: &Recorder, n: i64, at_us: i64) {
    let race_id = format!("{:08x}-{:04x}-7000-8000-{n:012x}", (at_us / 1_000) >> 16, (at_us / 1_000) & 0xffff);
    let sink = recorder.for_race(RaceSource::Client);
    let attempt = AttemptRecord { race_id: race_id.clone(), ordinal: 0, ..sample::failed(0) };
    sink.attempt(Box::new(attempt), None, 0);
    let race = RaceRecord { race_id, started_at: at_us, attempts: 1, winner: None, ..sample::race(0) };
    sink.race(Box::new(race), None);
}

async fn failing() -> (tempfile::TempDir, IncidentTask, WriterTask, i64) {
    let (webhook, _) = webhook::new();
    failing_told(webhook).await
}

async fn failing_told(webhook: Webhook) -> (tempfile::TempDir, IncidentTask, WriterTask, i64) {
    let directory = tempfile::tempdir().unwrap();
    let store = StoreAddress::from(directory.path().join("history.db"));
    let (recorder, writer) = Recorder::start(Store::open(&store).unwrap());
    let now_us = wall_micros() - 600 * SECOND;
    let task = IncidentTask::new(store, recorder.clone(), webhook, Shutdown::new(), now_us);
    (0..30).for_each(|n| fail(&recorder, n, now_us + n * 10 * SECOND));
    recorder.until_written(Duration::from_secs(30)).await;
    (directory, task, writer, now_us)
}

#[tokio::test]
async fn failures_come_into_the_table_and_the_metrics_and_to_the_webhook() {
    let (webhook, mut posted) = webhook::new();
    let (_directory, mut task, writer, began_us) = failing_told(webhook).await;
    assert!(task.read().await.is_some() && task.is_resumed);
    task.check(began_us + 300 * SECOND, &BTreeSet::new());
    let gauge = |task: &IncidentTask| {
        let page = task.recorder.metrics().render(MetricsFormat::Text, &BTreeSet::new(), |_| {});
        page.lines().find(|line| line.starts_with("photofinish_incidents{")).map(str::to_owned)
    };
    assert_eq!(gauge(&task).as_deref(), Some("photofinish_incidents{upstream=\"other\",kind=\"failures\"} 1"));
    // Nothing comes for half an hour. Looks are seconds apart.
    (21..=127).for_each(|n| task.check(began_us + n * 15 * SECOND, &BTreeSet::new()));
    (128..=160).for_each(|n| task.check(began_us + n * 15 * SECOND, &BTreeSet::new()));
    assert_eq!(gauge(&task).as_deref(), Some("photofinish_incidents{upstream=\"other\",kind=\"failures\"} 0"));
    let mut event = || {
        let body: serde_json::Value = serde_json::from_slice(&posted.try_recv().ok()?).unwrap();
        Some((body["event"].as_str()?.to_owned(), body["text"].as_str()?.split(':').next()?.to_owned()))
    };
    let whose = "my-vllm/llama-70b".to_owned();
    let events = [event(), event(), event()];
    assert_eq!(events, [Some(("begun".to_owned(), whose.clone())), Some(("ended".to_owned(), whose)), None]);
    let store = task.store.clone();
    drop(task);
    assert_eq!(writer.finish(Duration::from_secs(30)).await, 0);
    let found = StoreReader::open(&store).unwrap().incidents(&IncidentFilter { limit: 9, ..IncidentFilter::default() });
    let [incident] = &found.unwrap()[..] else { panic!("one incident") };
    assert_eq!((incident.upstream.as_deref(), incident.failures), (Some("my-vllm/llama-70b"), 30));
    assert_eq!((incident.state, incident.began_at / SECOND / 10), (IncidentState::EndUnknown, began_us / SECOND / 10));
}

#[tokio::test]
async fn nothing_begins_while_earlier_incidents_are_not_known() {
    let (directory, mut task, _writer, began_us) = failing().await;
    task.store = directory.path().join("no such file").into();
    assert!(task.read().await.is_some());
    assert!(task.failed && !task.is_resumed);
    task.check(began_us + 300 * SECOND, &BTreeSet::new());
    assert_eq!(task.watch.open().count(), 0);
    // It is tried again later, and the attempts of meanwhile count.
    task.read_at = Instant::now();
    task.store = directory.path().join("history.db").into();
    assert!(task.read().await.is_some() && task.is_resumed);
    task.check(began_us + 315 * SECOND, &BTreeSet::new());
    assert_eq!(task.watch.open().count(), 1);
    task.shutdown.drain();
    task.read_at = Instant::now();
    assert!(task.read().await.is_none());
}

#[tokio::test]
async fn who_takes_the_duty_goes_on_with_what_another_gateway_reported_and_all_recorded() {
    let (_directory, mut before, _writer, began_us) = failing().await;
    let (store, recorder) = (before.store.clone(), before.recorder.clone());
    assert!(before.read().await.is_some());
    before.check(began_us + 300 * SECOND, &BTreeSet::new());
    recorder.until_written(Duration::from_secs(30)).await;
    let reported = before.watch.open().next().unwrap().incident_id.clone();

    let webhook = webhook::new().0;
    let mut after = IncidentTask::new(store.clone(), recorder.clone(), webhook, Shutdown::new(), began_us);
    // It has watched since before the incident.
    (after.is_ours, after.is_resumed, after.read_at) = (false, true, Instant::now() + READ_EVERY);
    after.take_duty(true, began_us + 300 * SECOND);
    // It comes afterwards, and is in the rows by then.
    fail(&recorder, 30, began_us + 299 * SECOND);
    recorder.until_written(Duration::from_secs(30)).await;
    assert!(after.read().await.is_some() && after.is_resumed);
    let mut last = None;
    let filter = RecordedFilter { newest: 1, ..RecordedFilter::default() };
    StoreReader::open(&store).unwrap().recorded(&filter, |request| last = Some(request)).unwrap();
    after.check(began_us + 315 * SECOND, &BTreeSet::new());
    let open: Vec<_> = after.watch.open().map(|open| open.incident_id.clone()).collect();
    assert_eq!(open, [reported]);
    // One that began before and lasted longer is in no row that was read.
    fail(&recorder, 31, began_us + 298 * SECOND);
    recorder.until_written(Duration::from_secs(30)).await;
    (22..=41).for_each(|n| after.check(began_us + n * 15 * SECOND, &BTreeSet::new()));
    assert_eq!(after.watch.open().map(|open| open.failures).collect::<Vec<_>>(), [32]);
    // What another gateway recorded comes as if it were its own.
    let heard = Recorded { started_at: began_us + 316 * SECOND, ..last.unwrap() };
    recorder.heard(&heard);
    let came: Vec<_> =
        recorder.attempts().into_iter().map(|(of, attempt)| (of, attempt.at_us, attempt.failed)).collect();
    assert_eq!(came, [("my-vllm/llama-70b".to_owned(), heard.started_at, true)]);
}

#[tokio::test]
async fn a_budget_that_comes_near_its_end_is_told_once() {
    let (webhook, mut posted) = webhook::new();
    let (_directory, task, writer, _) = failing_told(webhook).await;
    let limits = Limits { budget: Budget { day: Some(1_000_000_000), ..Budget::default() }, ..Limits::default() };
    let (book, counts) = (UsageBook::default(), LimitedCounts::default());
    let level = || book.levels_of([(LevelName::User("ann".into()), Arc::new(limits.clone()))]);
    for nano in [790_000_000, 40_000_000, 50_000_000] {
        let cost = AttemptCost { usual: nano, max: nano, ..AttemptCost::default() };
        let now = LimitClock { us: 1, wall_us: wall_micros() };
        let (admission, _) = admit(level(), 0, &[cost], now).unwrap();
        admission.reserve("p/m", 0, |_| cost).unwrap().book(KnownCost::Exact(nano));
        task.warn(&book, &counts);
    }
    let body: serde_json::Value = serde_json::from_slice(&posted.try_recv().unwrap()).unwrap();
    assert_eq!(body["text"], "user ann: 0.83 of 1 USD spent this day");
    assert_eq!((&body["event"], &body["budget"]["span"]), (&"budget".into(), &"day".into()));
    assert_eq!((&body["budget"]["level"], &body["budget"]["name"]), (&"user".into(), &"ann".into()));
    assert_eq!(body["budget"]["spent_nano_usd"], 830_000_000);
    assert!(posted.try_recv().is_err(), "once");
    assert_eq!(counts.so_far().into_iter().collect::<Vec<_>>(), [(("user", "budget_day"), 1)]);
    drop(task);
    assert_eq!(writer.finish(Duration::from_secs(30)).await, 0);
}
