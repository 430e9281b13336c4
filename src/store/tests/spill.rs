//! The spill file: rows come back once, in the order of the races, and then the file is removed.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::*;
use crate::history::sample;

/// Races with three rows each.
fn races(of: std::ops::Range<i64>) -> Vec<Record> {
    of.flat_map(|n| [race(sample::race(n)), attempt(sample::won(n)), attempt(sample::lost(n, 5))]).collect()
}

async fn number(path: &Path, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(&mut plain(path).await).await.unwrap()
}

#[tokio::test]
async fn rows_come_back_in_order_by_whole_races_and_the_file_goes() {
    let (directory, path, store) = new_store().await;
    let spill = Spill::of(&path);
    assert_eq!(spill.rows().unwrap(), 0);
    assert!(!spill.path().exists(), "it is made only when it is needed");
    spill.append(&races(0..700)).unwrap();
    spill.append(&races(700..1_000)).unwrap();
    assert_eq!(spill.rows().unwrap(), 3_000);
    let mut moved = 0;
    loop {
        let step = spill.move_some(&store).unwrap();
        moved += step.rows;
        let (first, last) = ("SELECT count(*) FROM race", "SELECT count(*) FROM attempt");
        assert_eq!((number(&path, first).await * 3) as u64, moved);
        assert_eq!((number(&path, last).await * 3 / 2) as u64, moved);
        if !step.more {
            break;
        }
        assert_eq!(
            number(&path, "SELECT max(started_at) - min(started_at) + 1000 FROM race").await,
            moved as i64 / 3 * 1_000
        );
    }
    assert_eq!(moved, 3_000);
    assert!(number(&path, "SELECT count(*) FROM rollup_span").await >= 2, "its hours are to be rolled up");
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("spill")), "{left:?}");
    assert_eq!(spill.rows().unwrap(), 0);
}

#[tokio::test]
async fn rows_that_are_in_both_files_come_back_once() {
    let (_directory, path, store) = new_store().await;
    let spill = Spill::of(&path);
    spill.append(&races(0..10)).unwrap();
    // The state after a crash between the copy and the removal.
    store.write(&races(0..4)).unwrap();
    assert_eq!(spill.move_some(&store).unwrap(), SpillProgress { rows: 30, more: false });
    assert_eq!(number(&path, "SELECT count(*) FROM attempt").await, 20);
}

#[tokio::test]
async fn a_database_that_takes_nothing_leaves_the_rows_where_they_are() {
    let (_directory, path, store) = new_store().await;
    let spill = Spill::of(&path);
    spill.append(&races(0..10)).unwrap();
    let mut other = plain(&path).await;
    let lock = other.begin_with("BEGIN IMMEDIATE").await.unwrap();
    assert!(spill.move_some(&store).unwrap_err().retry);
    assert_eq!(spill.rows().unwrap(), 30);
    lock.rollback().await.unwrap();
    assert!(!spill.move_some(&store).unwrap().more);
    assert_eq!(number(&path, "SELECT count(*) FROM race").await, 10);
}

#[tokio::test]
async fn a_spill_has_a_bound() {
    let (_directory, path, store) = new_store().await;
    let whole = Spill::of(&path);
    let small = Spill { store: Store { bytes_max: Some(400_000), ..Store::unopened(whole.path()) } };
    let mut rows = 0;
    let error = loop {
        match small.append(&races(rows..rows + 100)) {
            Ok(()) => rows += 100,
            Err(error) => break error,
        }
        assert!(rows < 100_000);
    };
    assert!(rows > 0 && error.retry, "{rows}: {error}");
    while small.move_some(&store).unwrap().more {}
    assert_eq!(number(&path, "SELECT count(*) FROM race").await, rows);
    small.append(&races(rows..rows + 100)).unwrap();
}

#[tokio::test]
async fn a_foreign_file_of_that_name_is_left_alone() {
    let (_directory, path, _store) = new_store().await;
    let spill = Spill::of(&path);
    std::fs::write(spill.path(), "my notes ".repeat(200)).unwrap();
    assert!(spill.rows().is_err() && spill.append(&races(0..1)).unwrap_err().retry);
    assert_eq!(std::fs::read_to_string(spill.path()).unwrap(), "my notes ".repeat(200));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_room_of_an_emptied_file_is_free_again() {
    let (_directory, path, store) = new_store().await;
    let spill = Spill::of(&path);
    spill.append(&races(0..10)).unwrap();
    spill.append(&races(10..20)).unwrap();
    assert!(!spill.move_some(&store).unwrap().more);
    let open: Vec<_> = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .map(|link| link.display().to_string())
        .filter(|link| link.starts_with(&format!("{}.spill", path.display())))
        .collect();
    assert!(open.is_empty(), "{open:?}");
}

#[tokio::test]
async fn two_gateways_may_write_to_it_and_empty_it_at_once() {
    const RACES: i64 = 300;
    let (_directory, path, store) = new_store().await;
    let (one, other) = (Spill::of(&path), Spill::of(&path));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                let _ = one.move_some(&store);
            }
        });
        for number in 0..RACES {
            // As the recorder does: again, until the rows are somewhere.
            while other.append(&races(number..number + 1)).is_err() {}
        }
        is_over.store(true, Relaxed);
    });
    one.close();
    while other.move_some(&store).unwrap().more {}
    assert_eq!(number(&path, "SELECT count(*) FROM race").await, RACES);
    assert_eq!(number(&path, "SELECT count(*) FROM attempt").await, 2 * RACES);
    assert!(!other.path().exists());
}
