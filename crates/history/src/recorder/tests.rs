//! The recorder over a real database: it loses no row that it can keep, and no caller waits.

mod damage;

use std::path::Path;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection};
use tempfile::TempDir;

use super::state::{LogThrottle, QUIET};
use super::*;
use photofinish_facts::record::{AttemptRecord, RaceRecord, sample};

const LONG: Duration = Duration::from_secs(60);

async fn started() -> (TempDir, std::path::PathBuf, Recorder, WriterTask) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    let (recorder, writer) = Recorder::start(Store::open(&path).unwrap());
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

impl Recorder {
    /// A row that comes alone.
    pub(crate) fn race(&self, race: RaceRecord, overhead_us: Option<i64>) {
        self.for_race(RaceSource::Client).race(Box::new(race), overhead_us);
    }

    /// A row that comes alone.
    pub(crate) fn attempt(&self, attempt: AttemptRecord, choices: Option<i64>, took_us: i64) {
        self.for_race(RaceSource::Client).attempt(Box::new(attempt), choices, took_us);
    }
}

async fn until(recorder: &Recorder, wanted: Condition) {
    recorder.state.condition.subscribe().wait_for(|condition| *condition == wanted).await.unwrap();
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
    until(&recorder, Condition::Delayed).await;

    let began = std::time::Instant::now();
    for n in 1..5_000 {
        recorder.race(sample::race(n), None);
    }
    assert!(began.elapsed() < Duration::from_millis(500), "recording took {:?}", began.elapsed());
    assert_eq!((recorder.depth(), recorder.written()), (5_000, 0));

    lock.rollback().await.unwrap();
    until(&recorder, Condition::Ok).await;
    until_all_written(&recorder, 5_000).await;
    assert_eq!(writer.finish(LONG).await, 0);
    assert_eq!(rows(&path, "race").await, 5_000);
    assert!(!spill(&path).exists());
}

/// Waits for this change of the state.
async fn soon(recorder: &Recorder, is_so: impl Fn(&StoreState) -> bool) {
    tokio::time::timeout(LONG, recorder.state.until(is_so)).await.unwrap();
}

async fn until_all_written(recorder: &Recorder, written: u64) {
    soon(recorder, |state| state.written.load(Relaxed) >= written).await;
    assert_eq!((recorder.written(), recorder.depth()), (written, 0));
}

fn spill(path: &Path) -> std::path::PathBuf {
    path.with_file_name("history.db.spill")
}

#[tokio::test(start_paused = true)]
async fn held_rows_wait_until_nobody_holds_them_or_their_room_is_used_up() {
    let (_directory, path, recorder, writer) = started().await;
    let held = recorder.hold();
    recorder.race(sample::race(0), None);
    // A batch lingers for less.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!((recorder.written(), recorder.depth()), (0, 1));
    drop(held);
    recorder.until_written(LONG).await;
    assert_eq!((rows(&path, "race").await, recorder.depth()), (1, 0));

    let held = recorder.hold();
    for n in 1..=QUEUE_MAX as i64 / 2 + 1 {
        recorder.race(sample::race(n), None);
    }
    soon(&recorder, |state| state.depth() < QUEUE_MAX / 2).await;
    assert_eq!(recorder.dropped(), 0);
    // The end does not wait.
    assert_eq!(writer.finish(LONG).await, 0);
    drop(held);
    assert_eq!(rows(&path, "race").await, QUEUE_MAX as i64 / 2 + 2);
}

#[tokio::test]
async fn rows_beyond_the_queue_wait_in_a_file_and_come_back_once() {
    let (_directory, path, recorder, writer) = started().await;
    let mut other = other_connection(&path).await;
    let lock = other.begin_with("BEGIN EXCLUSIVE").await.unwrap();
    // More rows than memory has room for, three rows per race.
    let races = QUEUE_MAX as i64 / 2;
    for n in 0..races {
        let of_race = recorder.for_race(RaceSource::Client);
        of_race.race(Box::new(sample::race(n)), None);
        of_race.attempt(Box::new(sample::won(n)), None, 1_000);
        of_race.attempt(Box::new(sample::lost(n, 5)), None, 1_000);
        drop(of_race);
        soon(&recorder, |state| state.queued() <= QUEUE_MAX / 2).await;
    }
    assert_eq!((recorder.dropped(), recorder.written(), recorder.depth()), (0, 0, 3 * races as usize));
    assert!(recorder.spilled() >= races as usize);
    assert_eq!(recorder.condition(), Condition::Delayed);

    lock.rollback().await.unwrap();
    until_all_written(&recorder, 3 * races as u64).await;
    assert_eq!((rows(&path, "race").await, rows(&path, "attempt").await), (races, 2 * races));
    assert_eq!(writer.finish(LONG).await, 0);
    assert!(!spill(&path).exists());
}

#[tokio::test]
async fn what_a_locked_database_did_not_take_at_the_end_is_there_after_the_next_start() {
    let (_directory, path, recorder, writer) = started().await;
    let mut other = other_connection(&path).await;
    let lock = other.begin_with("BEGIN EXCLUSIVE").await.unwrap();
    for n in 0..3 {
        recorder.race(sample::race(n), None);
    }
    assert_eq!(writer.finish(Duration::from_millis(10)).await, 0);
    assert_eq!((recorder.dropped(), recorder.depth(), recorder.spilled()), (0, 3, 3));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(spill(&path)).unwrap().permissions().mode() & 0o777, 0o600);
    }

    // The database is still locked; the next recorder starts anyway.
    let (recorder, writer) = Recorder::start(Store::unopened(&path));
    assert_eq!(recorder.condition(), Condition::Delayed);
    recorder.race(sample::race(3), None);
    lock.rollback().await.unwrap();
    until_all_written(&recorder, 4).await;
    assert_eq!(writer.finish(LONG).await, 0);
    assert_eq!(rows(&path, "race").await, 4);
    // The first writer may still have it open on a busy machine, and then it stays, without rows.
    assert!(!spill(&path).exists() || crate::store::Spill::of(&path).rows().unwrap() == 0);
}

#[tokio::test]
async fn a_store_that_opens_later_is_told_without_a_row() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("later").join("history.db");
    let (recorder, writer) = Recorder::start(Store::unopened(&path));
    assert_eq!(recorder.condition(), Condition::Delayed);
    std::fs::create_dir(path.parent().unwrap()).unwrap();
    tokio::time::timeout(LONG, recorder.until_stored()).await.unwrap();
    assert_eq!(writer.finish(LONG).await, 0);
    assert_eq!(rows(&path, "race").await, 0);
}

#[tokio::test]
async fn where_no_file_can_be_made_rows_stay_in_memory() {
    let (_directory, path, recorder, writer) = started().await;
    std::fs::create_dir(spill(&path)).unwrap();
    let mut other = other_connection(&path).await;
    let lock = other.begin_with("BEGIN EXCLUSIVE").await.unwrap();
    for n in 0..10 {
        recorder.race(sample::race(n), None);
    }
    until(&recorder, Condition::Delayed).await;
    assert_eq!((recorder.depth(), recorder.spilled(), recorder.dropped()), (10, 0, 0));
    lock.rollback().await.unwrap();
    until(&recorder, Condition::Ok).await;
    assert_eq!(writer.finish(LONG).await, 0);
    assert_eq!(rows(&path, "race").await, 10);
}

#[tokio::test]
async fn a_race_is_written_once_its_last_attempt_has_ended() {
    let (_directory, path, recorder, writer) = started().await;
    let of_race = recorder.for_race(RaceSource::Client);
    let drained = of_race.clone();
    of_race.attempt(Box::new(sample::won(0)), None, 1_000);
    of_race.race(Box::new(sample::race(0)), None);
    drop(of_race);
    // This row comes after the other in the queue, so it would be written later.
    recorder.race(sample::race(1), None);
    until_all_written(&recorder, 1).await;
    assert_eq!((rows(&path, "race").await, rows(&path, "attempt").await), (1, 0));
    drained.attempt(Box::new(sample::lost(0, 5)), None, 1_000);
    drop(drained);
    until_all_written(&recorder, 4).await;
    assert_eq!((rows(&path, "race").await, rows(&path, "attempt").await), (2, 2));
    assert_eq!(writer.finish(LONG).await, 0);
}

#[tokio::test]
async fn a_batch_ends_between_two_races() {
    let (_directory, path, recorder, writer) = started().await;
    for n in 0..2_500 {
        let of_race = recorder.for_race(RaceSource::Client);
        of_race.attempt(Box::new(sample::won(n)), None, 1_000);
        of_race.attempt(Box::new(sample::lost(n, 5)), None, 1_000);
        of_race.race(Box::new(sample::race(n)), None);
    }
    let split =
        "SELECT count(*) FROM race WHERE (SELECT count(*) FROM attempt WHERE attempt.race_id = race.race_id) <> 2";
    let mut other = other_connection(&path).await;
    let mut changes = recorder.state.changes.subscribe();
    while recorder.written() < 7_500 {
        tokio::time::timeout(LONG, changes.changed()).await.unwrap().unwrap();
        let split: i64 = sqlx::query_scalar(split).fetch_one(&mut other).await.unwrap();
        let alone: i64 =
            sqlx::query_scalar("SELECT count(*) FROM attempt WHERE race_id NOT IN (SELECT race_id FROM race)")
                .fetch_one(&mut other)
                .await
                .unwrap();
        assert_eq!((split, alone), (0, 0));
    }
    assert_eq!(writer.finish(LONG).await, 0);
    assert_eq!((rows(&path, "race").await, rows(&path, "attempt").await), (2_500, 5_000));
}

#[tokio::test]
async fn a_full_queue_counts_what_it_drops() {
    let (_directory, path, recorder, writer) = started().await;
    // On this single thread the writer does not run before the first await.
    for n in 0..QUEUE_MAX as i64 + 7 {
        recorder.race(sample::bare_race(n), None);
    }
    assert_eq!((recorder.depth(), recorder.dropped()), (QUEUE_MAX, 7));
    assert_eq!(writer.finish(LONG).await, 0);
    assert_eq!(rows(&path, "race").await, QUEUE_MAX as i64);
}

#[tokio::test]
async fn what_the_database_will_never_take_is_put_apart_and_counted() {
    let (_directory, path, recorder, writer) = started().await;
    sqlx::query("DROP TABLE attempt_row").execute(&mut other_connection(&path).await).await.unwrap();
    recorder.attempt(sample::won(0), None, 1_000);
    recorder.race(sample::race(1), None);
    until_all_written(&recorder, 1).await;
    assert_eq!((recorder.refused(), recorder.dropped()), (1, 0));
    let refused = path.with_file_name("history.db.refused");
    assert_eq!(std::fs::read_to_string(&refused).unwrap().lines().count(), 1);

    // Without a file for them they are lost.
    std::fs::remove_file(&refused).unwrap();
    std::fs::create_dir(&refused).unwrap();
    recorder.attempt(sample::won(0), None, 1_000);
    until(&recorder, Condition::Failing).await;
    assert_eq!((recorder.refused(), recorder.dropped()), (1, 1));
    recorder.race(sample::race(0), None);
    until(&recorder, Condition::Ok).await;
    assert_eq!(writer.finish(LONG).await, 0);
    assert_eq!(rows(&path, "race").await, 2);
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
    let complaint = LogThrottle::new();
    assert!(complaint.is_due());
    assert!(!complaint.is_due());
    tokio::time::advance(QUIET).await;
    assert!(complaint.is_due());
    assert!(!complaint.is_due());
}
