//! A database that is damaged, gone or doubted while it is written: every row is written, waits, or is counted.

use super::*;

/// Writes noise over all of the database from `start` on.
fn overwrite(path: &Path, start: usize) {
    use std::io::{Seek as _, SeekFrom, Write as _};
    let mut file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    let noise: Vec<u8> = (0..200_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    file.seek(SeekFrom::Start(start as u64)).unwrap();
    file.write_all(&noise[start..]).unwrap();
    // Never closed: closing would drop the locks that SQLite holds on the file.
    std::mem::forget(file);
}

/// One whose schema is in the file: a new one is in its log alone, so the file has nothing that could be damaged.
async fn filed() -> (TempDir, std::path::PathBuf, Recorder, WriterTask) {
    let started = started().await;
    sqlx::query("PRAGMA wal_checkpoint").execute(&mut other_connection(&started.1).await).await.unwrap();
    started
}

fn record(recorder: &Recorder, races: std::ops::Range<i64>) {
    races.for_each(|n| recorder.race(sample::race(n), None));
}

async fn until_set_aside(recorder: &Recorder) {
    soon(recorder, |state| state.problem_and_aside().1.is_some() && *state.condition.borrow() == Condition::Ok).await;
}

async fn integrity(path: &Path) -> String {
    sqlx::query_scalar("PRAGMA integrity_check").fetch_one(&mut other_connection(path).await).await.unwrap()
}

/// Longer than from one look to the next.
const LOOKED: Duration = Duration::from_secs(3);

#[tokio::test(start_paused = true)]
async fn a_database_that_becomes_noise_is_set_aside_and_costs_only_what_was_in_it() {
    for start in [0, 4_096] {
        let (_directory, path, recorder, writer) = filed().await;
        record(&recorder, 0..20);
        until_all_written(&recorder, 20).await;
        tokio::time::sleep(LOOKED).await;
        // Written, and not read back.
        record(&recorder, 20..25);
        until_all_written(&recorder, 25).await;
        overwrite(&path, start);
        record(&recorder, 25..40);
        until_set_aside(&recorder).await;
        record(&recorder, 40..50);
        until_all_written(&recorder, 50).await;
        assert_eq!((recorder.set_aside(), recorder.dropped()), (20, 0), "{start}");
        assert_eq!(writer.finish(LONG).await, 0);
        assert_eq!((rows(&path, "race").await, integrity(&path).await.as_str()), (30, "ok"), "{start}");
        let aside = recorder.problem_and_aside().1.unwrap();
        assert!(path.with_file_name(aside).exists() && !spill(&path).exists());
    }
}

#[tokio::test(start_paused = true)]
async fn damage_that_is_found_at_the_end_costs_no_row() {
    let (_directory, path, recorder, writer) = filed().await;
    record(&recorder, 0..20);
    until_all_written(&recorder, 20).await;
    tokio::time::sleep(LOOKED).await;
    overwrite(&path, 4_096);
    record(&recorder, 20..30);
    until_all_written(&recorder, 30).await;
    assert_eq!(writer.finish(LONG).await, 0);
    assert_eq!((recorder.spilled(), recorder.dropped()), (10, 0));

    // The next start is over a damaged file.
    assert!(Store::open(&path).is_err_and(|error| error.may_pass()));
    let (recorder, writer) = Recorder::start(Store::unopened(&path));
    until_set_aside(&recorder).await;
    until_all_written(&recorder, 10).await;
    assert_eq!(writer.finish(LONG).await, 0);
    assert_eq!((rows(&path, "race").await, integrity(&path).await.as_str()), (10, "ok"));
}

#[tokio::test(start_paused = true)]
async fn a_doubt_about_a_sound_database_delays_its_rows_and_no_more() {
    let (_directory, path, recorder, writer) = filed().await;
    record(&recorder, 0..20);
    until_all_written(&recorder, 20).await;
    let mut condition = recorder.state.condition.subscribe();
    for (number, expected) in [(0, true), (1, false)] {
        recorder.doubt("a reader says so".to_owned());
        record(&recorder, 20 + 10 * number..30 + 10 * number);
        until_all_written(&recorder, 30 + 10 * number as u64).await;
        until(&recorder, Condition::Ok).await;
        assert_eq!(condition.has_changed().unwrap(), expected, "it was examined a moment ago");
        condition.mark_unchanged();
    }
    assert_eq!((recorder.set_aside(), recorder.written(), recorder.dropped()), (0, 40, 0));
    assert_eq!(recorder.problem_and_aside(), (None, None));
    assert_eq!(writer.finish(LONG).await, 0);
    assert_eq!(rows(&path, "race").await, 40);
}

#[tokio::test(start_paused = true)]
async fn a_database_that_cannot_be_set_aside_keeps_its_rows_waiting() {
    let (_directory, path, recorder, writer) = filed().await;
    record(&recorder, 0..5);
    until_all_written(&recorder, 5).await;
    // There is no room for a new one.
    std::fs::create_dir(path.with_file_name("history.db.new")).unwrap();
    overwrite(&path, 4_096);
    record(&recorder, 5..10);
    until(&recorder, Condition::Damaged).await;
    record(&recorder, 10..20);
    soon(&recorder, |state| state.spilled() >= 20).await;
    assert_eq!((recorder.condition(), recorder.dropped()), (Condition::Damaged, 0));
    std::fs::remove_dir(path.with_file_name("history.db.new")).unwrap();
    until_set_aside(&recorder).await;
    until_all_written(&recorder, 20).await;
    assert_eq!(writer.finish(LONG).await, 0);
    assert_eq!(rows(&path, "race").await, 20);
}

#[tokio::test(start_paused = true)]
async fn rows_of_a_database_that_is_removed_are_written_again_if_they_are_new() {
    let (_directory, path, recorder, writer) = filed().await;
    record(&recorder, 0..20);
    until_all_written(&recorder, 20).await;
    tokio::time::sleep(LOOKED).await;
    record(&recorder, 20..25);
    until_all_written(&recorder, 25).await;
    for name in ["history.db", "history.db-wal", "history.db-shm"] {
        std::fs::remove_file(path.with_file_name(name)).unwrap();
    }
    record(&recorder, 25..30);
    until_all_written(&recorder, 30).await;
    assert_eq!(writer.finish(LONG).await, 0);
    assert_eq!((rows(&path, "race").await, recorder.set_aside()), (10, 20));
}
