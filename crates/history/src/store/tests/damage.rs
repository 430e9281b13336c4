//! A damaged file: it is found although it can be written, examined, moved aside under a name of its own, and replaced.

use std::io::{Seek as _, SeekFrom, Write as _};

use super::*;
use photofinish_facts::record::sample;

const PAGE: u64 = 4_096;

/// Writes noise over all of the file from `start` on.
fn overwrite(path: &Path, start: u64) {
    let mut file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    let size = file.metadata().unwrap().len();
    assert!(size > start, "{size}");
    let noise: Vec<u8> =
        (0..u32::try_from(size - start).unwrap()).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    file.seek(SeekFrom::Start(start)).unwrap();
    file.write_all(&noise).unwrap();
    // Never closed: closing would drop the locks that SQLite holds on the file.
    std::mem::forget(file);
}

/// Races with three rows each.
fn races(of: std::ops::Range<i64>) -> Vec<Record> {
    of.flat_map(|n| [race(sample::race(n)), attempt(sample::won(n)), attempt(sample::lost(n, 5))]).collect()
}

/// A store with the rows of 20 races in its file, and none in its log.
async fn with_rows() -> (TempDir, PathBuf, Store) {
    let (directory, path, _) = new_store().await;
    let (store, file) = Store::of_file(&path, None);
    store.write(&races(0..20)).unwrap();
    // By its own connection, which keeps its pages in memory. A free page would be read again from the file.
    let checkpoint = "PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE)";
    file.slot().opened.as_ref().unwrap().connection.execute_batch(checkpoint).unwrap();
    (directory, path, store)
}

fn aside(path: &Path) -> Vec<PathBuf> {
    set_aside_files(path).into_iter().map(|aside| path.with_file_name(aside.name)).collect()
}

async fn count(path: &Path) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM race").fetch_one(&mut plain(path).await).await.unwrap()
}

async fn integrity(path: &Path) -> String {
    sqlx::query_scalar("PRAGMA integrity_check").fetch_one(&mut plain(path).await).await.unwrap()
}

fn never() -> impl Fn() -> bool + Send + 'static {
    || false
}

#[tokio::test]
async fn noise_behind_the_first_page_is_written_to_and_found() {
    let (_directory, path, store) = with_rows().await;
    let (files, before) = (store.files(), races(0..20));
    assert_eq!(store.look(files, before.iter()).unwrap(), ReadBack::Proven);
    overwrite(&path, PAGE);
    let batch = races(20..30);
    store.write(&batch).unwrap();
    assert_eq!(store.look(files, batch.iter()).unwrap_err().symptom, Some(Symptom::Damaged));
    let FileFinding::Damaged(_) = store.examine(never()) else { panic!("the check of the whole file finds nothing") };

    let moved = store.set_aside(true).unwrap().unwrap();
    assert_eq!(aside(&path), std::slice::from_ref(&moved));
    assert!(moved.with_file_name(format!("{}-wal", moved.file_name().unwrap().display())).exists());
    store.write(&batch).unwrap();
    assert_eq!(store.files(), files + 1);
    assert_eq!(store.look(files, batch.iter()).unwrap(), ReadBack::OtherFile);
    assert_eq!(store.look(files + 1, batch.iter()).unwrap(), ReadBack::Proven);
    store.close();
    assert_eq!((count(&path).await, integrity(&path).await.as_str()), (10, "ok"));
    let left: Vec<_> =
        std::fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains(".new")), "{left:?}");
}

#[tokio::test]
async fn a_first_page_that_is_noise_is_set_aside_by_who_had_it_open() {
    let (_directory, path, store) = with_rows().await;
    overwrite(&path, 0);
    assert_eq!(store.write(&races(20..30)).unwrap_err().symptom, Some(Symptom::Damaged));
    assert!(matches!(store.examine(never()), FileFinding::Damaged(_)));
    // Whoever finds it knows nothing of whose it was.
    let other = Store::unopened(&path);
    let error = other.write(&[]).unwrap_err();
    assert!(error.retry && error.symptom.is_none(), "{error}");
    other.examine(never());
    assert!(other.set_aside(true).is_err() && aside(&path).is_empty());

    assert!(store.set_aside(true).unwrap().is_some());
    store.write(&races(20..30)).unwrap();
    assert_eq!(count(&path).await, 10);
}

#[tokio::test]
async fn a_start_over_a_damaged_file_of_its_own_is_told_apart() {
    for closed in [true, false] {
        let (_directory, path, store) = with_rows().await;
        if closed {
            store.close();
        } else {
            // As after a crash.
            store.abandon();
        }
        overwrite(&path, PAGE);
        let error = match Store::open(&path) {
            Ok(_) => panic!("it was opened"),
            Err(error) => error,
        };
        assert!(error.may_pass() && matches!(error, OpenError::Damaged { .. }), "{error}");
        assert!(StoreReader::open(&path).is_err_and(|error| error.is_of_damage()));
        let store = Store::unopened(&path);
        assert_eq!(store.write(&[]).unwrap_err().symptom, Some(Symptom::Damaged));
        assert!(matches!(store.examine(never()), FileFinding::Damaged(_)));
        assert!(store.set_aside(true).unwrap().is_some());
        store.write(&races(0..3)).unwrap();
        assert_eq!((count(&path).await, aside(&path).len()), (3, 1));
    }
}

/// Neither a lock nor a sound file leads to a damaged one, and only what was examined is moved.
#[tokio::test]
async fn a_sound_file_stays() {
    let (_directory, path, store) = with_rows().await;
    assert_eq!(store.set_aside(true).unwrap(), None, "nothing was examined");
    let mut other = plain(&path).await;
    let lock = other.begin_with("BEGIN EXCLUSIVE").await.unwrap();
    assert_eq!(store.write(&races(20..21)).unwrap_err().symptom, None);
    lock.rollback().await.unwrap();
    assert_eq!(store.examine(never()), FileFinding::Sound);
    assert!(matches!(store.examine(|| true), FileFinding::Sound | FileFinding::Unknown(_)));
    std::fs::rename(&path, path.with_file_name("old.db")).unwrap();
    std::fs::copy(path.with_file_name("old.db"), &path).unwrap();
    assert_eq!(store.set_aside(true).unwrap(), None, "another file was examined");
    assert!(aside(&path).is_empty());
}

#[tokio::test]
async fn another_gateway_and_a_reader_go_on() {
    let (_directory, path, store) = with_rows().await;
    let (other, reader) = (Store::open(&path).unwrap(), StoreReader::open(&path).unwrap());
    let filter = AttemptFilter::default();
    assert_eq!(counted(&reader, &filter).unwrap(), 40);
    overwrite(&path, PAGE);
    for store in [&store, &other] {
        assert!(matches!(store.examine(never()), FileFinding::Damaged(_)));
    }
    assert!(store.set_aside(true).unwrap().is_some());
    assert_eq!(other.set_aside(true).unwrap(), None, "it was moved already");
    other.write(&races(20..30)).unwrap();
    store.write(&races(30..40)).unwrap();
    drop(reader);
    other.close();
    store.write(&races(40..50)).unwrap();
    store.close();
    assert_eq!((count(&path).await, integrity(&path).await.as_str(), aside(&path).len()), (30, "ok", 1));
}

#[tokio::test]
async fn no_more_than_ten_are_set_aside() {
    let (_directory, path, store) = with_rows().await;
    for second in 10..20 {
        std::fs::write(
            path.with_file_name(format!("history.db.damaged-202601020304{second}Z").replacen("0102", "0102T", 1)),
            "",
        )
        .unwrap();
    }
    assert_eq!(aside(&path).len(), 10);
    overwrite(&path, PAGE);
    store.examine(never());
    let error = store.set_aside(true).unwrap_err();
    assert!(error.to_string().contains("10 damaged files"), "{error}");
    assert!(path.exists() && error.retry);
}

#[tokio::test]
async fn what_cannot_be_read_back_is_missed() {
    let (_directory, path, store) = with_rows().await;
    sqlx::raw_sql("DELETE FROM attempt_row WHERE race_id = (SELECT max(race_id) FROM race)")
        .execute(&mut plain(&path).await)
        .await
        .unwrap();
    assert_eq!(store.look(store.files(), races(0..20).iter()).unwrap(), ReadBack::Missing(2));
}

/// A writer whose log is gone would go on in a file without a name.
#[tokio::test]
async fn a_log_that_is_removed_costs_no_row() {
    let (_directory, path, store) = new_store().await;
    store.write(&races(0..10)).unwrap();
    for name in ["history.db-wal", "history.db-shm"] {
        std::fs::remove_file(path.with_file_name(name)).unwrap();
    }
    store.write(&races(10..20)).unwrap();
    assert_eq!(count(&path).await, 20);
    store.close();
    assert_eq!((count(&path).await, integrity(&path).await.as_str()), (20, "ok"));
}
