//! Disk space comes back: of the write-ahead log while the gateway runs, and of removed rows.

use super::rollup::{roll, written};
use super::world::{self, NOW_US};
use super::*;
use crate::store::open::{LOG_KEPT, log_of};

fn bytes(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}

#[tokio::test]
async fn a_log_that_a_reader_made_large_is_truncated_once_it_is_gone() {
    let (_directory, path, store) = new_store().await;
    let mut reader = plain(&path).await;
    let mut snapshot = reader.begin().await.unwrap();
    let _: i64 = sqlx::query_scalar("SELECT count(*) FROM race").fetch_one(&mut *snapshot).await.unwrap();
    let mut number = 0;
    while bytes(&log_of(&path)) <= LOG_KEPT {
        let batch: Vec<Record> = world::records(number, 2_000);
        store.write(&batch).unwrap();
        number += 1;
    }
    assert!(!store.truncate_log().unwrap() && bytes(&log_of(&path)) > LOG_KEPT, "a reader needs it");
    snapshot.rollback().await.unwrap();
    assert!(store.truncate_log().unwrap());
    assert_eq!(bytes(&log_of(&path)), 0);
}

/// A database with many old rows, which are then removed. Returns the size before and after, and the pages given back.
async fn shrunk(path: &Path) -> (u64, u64, u64) {
    let before = bytes(path);
    roll(path, None);
    let steps = roll(path, Some(NOW_US));
    let given_back = steps.iter().map(|step| match step {
        RollupStep::GivenBack { pages } => *pages,
        _ => 0,
    });
    let given_back = given_back.sum();
    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut plain(path).await).await.unwrap();
    (before, bytes(path), given_back)
}

#[tokio::test]
async fn space_of_removed_rows_goes_back_in_small_steps_but_for_what_is_soon_needed() {
    let (_directory, path, store) = written(&world::records(31, 30_000)).await;
    store.close();
    let (before, after, given_back) = shrunk(&path).await;
    assert!(given_back > 0 && after < before * 3 / 4, "{before} {after} {given_back}");
    let mut other = plain(&path).await;
    let free: i64 = sqlx::query_scalar("PRAGMA freelist_count").fetch_one(&mut other).await.unwrap();
    assert!((512..=1_024).contains(&free), "{free}");
    let integrity: String = sqlx::query_scalar("PRAGMA integrity_check").fetch_one(&mut other).await.unwrap();
    assert_eq!(integrity, "ok");
}
