//! The recorder over a real database: nothing is lost that need not be, and nobody waits.

use std::path::Path;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection};
use tempfile::TempDir;

use super::*;
use crate::history::sample;

const LONG: Duration = Duration::from_secs(60);

async fn started() -> (TempDir, std::path::PathBuf, Recorder, Writer) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    let (recorder, writer) = Recorder::start(Store::open(&path).await.unwrap());
    (directory, path, recorder, writer)
}

async fn other_connection(path: &Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(path).connect().await.unwrap()
}

async fn rows(path: &Path, table: &'static str) -> i64 {
    let sql = match table {
        "race" => "SELECT count(*) FROM race",
        _ => "SELECT count(*) FROM attempt",
    };
    sqlx::query_scalar(sql).fetch_one(&mut other_connection(path).await).await.unwrap()
}

async fn until_store_ok(recorder: &Recorder, wanted: bool) {
    recorder.state.store_ok.subscribe().wait_for(|ok| *ok == wanted).await.unwrap();
}

#[tokio::test]
async fn everything_sent_before_the_finish_is_there() {
    let (_directory, path, recorder, writer) = started().await;
    for n in 0..1_234 {
        recorder.attempt(sample::lost(n, 5), None, 1_000);
        recorder.attempt(sample::won(n), None, 1_000);
        recorder.race(sample::race(n), None);
    }
    assert_eq!(writer.finish(LONG).await, 0);
    assert_eq!((rows(&path, "race").await, rows(&path, "attempt").await), (1_234, 2_468));
    assert_eq!((recorder.written(), recorder.dropped(), recorder.depth()), (3_702, 0, 0));
    assert_eq!(recorder.violations(), 0);

    recorder.race(sample::race(9_999), None);
    assert_eq!((recorder.dropped(), recorder.depth()), (1, 0), "after the finish nothing is taken");
}

#[tokio::test]
async fn a_locked_database_loses_nothing_and_delays_nobody() {
    let (_directory, path, recorder, writer) = started().await;
    let mut other = other_connection(&path).await;
    let lock = other.begin_with("BEGIN EXCLUSIVE").await.unwrap();
    recorder.race(sample::race(0), None);
    until_store_ok(&recorder, false).await;

    let began = std::time::Instant::now();
    for n in 1..5_000 {
        recorder.race(sample::race(n), None);
    }
    assert!(began.elapsed() < Duration::from_millis(500), "recording took {:?}", began.elapsed());
    assert_eq!((recorder.depth(), recorder.written()), (5_000, 0));

    lock.rollback().await.unwrap();
    until_store_ok(&recorder, true).await;
    assert_eq!(writer.finish(LONG).await, 0);
    assert_eq!(rows(&path, "race").await, 5_000);
}

#[tokio::test]
async fn a_finish_in_time_counts_what_it_left() {
    let (_directory, path, recorder, writer) = started().await;
    let mut other = other_connection(&path).await;
    let lock = other.begin_with("BEGIN EXCLUSIVE").await.unwrap();
    for n in 0..3 {
        recorder.race(sample::race(n), None);
    }
    until_store_ok(&recorder, false).await;
    assert_eq!(writer.finish(Duration::from_millis(10)).await, 3);
    assert_eq!((recorder.dropped(), recorder.depth()), (3, 0));
    lock.rollback().await.unwrap();
}

#[tokio::test]
async fn a_full_queue_counts_what_it_drops() {
    let (_directory, path, recorder, writer) = started().await;
    // On this one thread the writer does not run before the first await.
    for n in 0..QUEUE_MAX as i64 + 7 {
        recorder.race(sample::bare_race(n), None);
    }
    assert_eq!((recorder.depth(), recorder.dropped()), (QUEUE_MAX, 7));
    assert_eq!(writer.finish(LONG).await, 0);
    assert_eq!(rows(&path, "race").await, QUEUE_MAX as i64);
}

#[tokio::test]
async fn what_the_database_will_never_take_is_dropped_and_counted() {
    let (_directory, path, recorder, writer) = started().await;
    sqlx::query("DROP TABLE attempt").execute(&mut other_connection(&path).await).await.unwrap();
    recorder.attempt(sample::won(0), None, 1_000);
    until_store_ok(&recorder, false).await;
    assert_eq!(recorder.dropped(), 1);

    recorder.race(sample::race(0), None);
    until_store_ok(&recorder, true).await;
    assert_eq!(writer.finish(LONG).await, 0);
    assert_eq!(rows(&path, "race").await, 1);
}

#[tokio::test]
async fn a_contradiction_is_counted_and_written() {
    let (_directory, path, recorder, writer) = started().await;
    let mut attempt = sample::won(0);
    attempt.ttft_event = Some(0);
    recorder.attempt(attempt, None, 1_000);
    assert_eq!(writer.finish(LONG).await, 0);
    assert_eq!((recorder.violations(), rows(&path, "attempt").await), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_complaint_is_made_once_in_a_while() {
    let complaint = Complaint::new();
    assert!(complaint.is_due());
    assert!(!complaint.is_due());
    tokio::time::advance(QUIET).await;
    assert!(complaint.is_due());
    assert!(!complaint.is_due());
}
