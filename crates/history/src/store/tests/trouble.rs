//! Failing roll-ups: unreadable cells, an interruption between two transactions, rows that arrive while a day is rolled
//! up, and another process with the same work.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use super::rollup::{RACES, ask, counts, of_cells, roll, write_now, written};
use super::world::{self, DAYS, NOW_US, START_US};
use super::*;
use crate::store::columns::{DAY_US, HOUR_US};
use photofinish_facts::record::sample;

/// Runs steps until no work is left. Returns the steps and the errors.
fn until_done(roller: &mut Roller, now_us: i64, keep_from: Option<i64>) -> (Vec<RollupStep>, Vec<String>) {
    let (mut steps, mut errors) = (Vec::new(), Vec::new());
    loop {
        match roller.step(now_us, keep_from) {
            Ok(RollupStep::Nothing) => return (steps, errors),
            Ok(step) => steps.push(step),
            Err(error) => {
                assert!(error.is_postponed, "{error}");
                errors.push(error.to_string());
            }
        }
        assert!(steps.len() + errors.len() < 5_000, "it never ends: {errors:?}");
    }
}

async fn change(path: &Path, sql: &'static str) {
    sqlx::raw_sql(sql).execute(&mut plain(path).await).await.unwrap();
}

async fn number(path: &Path, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(&mut plain(path).await).await.unwrap()
}

const ROLLED_HOURS: &str = "SELECT count(*) FROM rollup_span WHERE hours = 1 AND state > 0";
const ROLLED_DAYS: &str = "SELECT count(*) FROM rollup_span WHERE hours = 24 AND state > 0";

#[tokio::test]
async fn an_hour_that_cannot_be_read_stops_nothing_else() {
    let (_directory, path, _store) = written(&world::records(21, RACES)).await;
    let hours = number(&path, "SELECT count(*) - 1 FROM rollup_span WHERE hours = 1").await;
    change(
        &path,
        "UPDATE attempt_row SET model_sent = CAST(x'ff' AS TEXT) WHERE race_id = (SELECT min(race_id) FROM attempt)",
    )
    .await;
    let mut roller = Roller::new(&path, || false);
    let (steps, errors) = until_done(&mut roller, NOW_US, Some(START_US + 2 * DAY_US));
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains("the hour that began 1767312000 s after 1970"), "{errors:?}");
    assert_eq!(number(&path, ROLLED_HOURS).await, hours - 1);
    assert_eq!(number(&path, ROLLED_DAYS).await, DAYS - 1, "a day is made of all its hours");
    assert!(steps.iter().any(|step| matches!(step, RollupStep::Removed { .. })));
    let left = "SELECT sum(race_id < ?1), sum(race_id >= ?1) FROM attempt WHERE race_id < ?2";
    let ends = [START_US + HOUR_US, START_US + 2 * DAY_US].map(columns::first_race_id);
    let left: (i64, i64) =
        sqlx::query_as(left).bind(&ends[0]).bind(&ends[1]).fetch_one(&mut plain(&path).await).await.unwrap();
    assert!(left.0 > 0 && left.1 == 0, "the rows of the other hours are gone: {left:?}");

    change(&path, "UPDATE attempt_row SET model_sent = 'llama' WHERE model_sent = CAST(x'ff' AS TEXT)").await;
    assert_eq!(until_done(&mut roller, NOW_US + HOUR_US / 2, None), (vec![], vec![]), "it is postponed");
    let (steps, errors) = until_done(&mut roller, NOW_US + HOUR_US, None);
    assert!(errors.is_empty(), "{errors:?}");
    assert!(steps.contains(&RollupStep::Day), "{steps:?}");
    assert_eq!(number(&path, ROLLED_DAYS).await, DAYS);
}

#[tokio::test]
async fn a_panic_is_postponed_like_an_error() {
    let (_directory, path, _store) = written(&world::records(22, 300)).await;
    let mut roller = Roller::new(&path, || false);
    until_done(&mut roller, NOW_US, None);
    // Each of the two summaries has the largest possible count of attempts, so their sum overflows.
    let most = "01ffffffffffffffffff01";
    let parts = format!("0000000100000000000000{:02x}000000{most}", most.len() / 2);
    let sql = format!("UPDATE rollup SET parts = x'{parts}' WHERE hours = 1 AND start < {}", START_US + DAY_US);
    sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&mut plain(&path).await).await.unwrap();
    change(&path, "UPDATE rollup_span SET state = 0 WHERE hours = 24").await;
    let (steps, errors) = until_done(&mut roller, NOW_US, None);
    assert_eq!(steps, vec![RollupStep::Day; DAYS as usize - 1]);
    assert!(errors.len() == 1 && errors[0].contains("the day that began 1767312000 s after 1970"), "{errors:?}");
}

/// Each with a separate cell.
fn of_many(count: usize) -> Vec<Record> {
    let of = |n: usize| {
        let mut won = sample::won(0);
        (won.race_id, won.model_sent) = (world::id(n, START_US + n as i64 * 1_000), format!("{n}"));
        attempt(won)
    };
    (0..count).map(of).collect()
}

#[tokio::test]
async fn cells_that_are_not_all_written_are_not_read_and_written_anew() {
    let (_directory, path, _store) = written(&of_many(1_000)).await;
    for (of, hour_cells, day_cells) in [("1", 400, 0), ("24", 1_000, 400)] {
        let full = format!(
            "CREATE TRIGGER full BEFORE INSERT ON rollup WHEN NEW.hours = {of} \
             AND (SELECT count(*) FROM rollup WHERE hours = {of}) >= 450 \
             BEGIN SELECT RAISE(ABORT, 'nearly full'); END"
        );
        sqlx::query(sqlx::AssertSqlSafe(full)).execute(&mut plain(&path).await).await.unwrap();
        let (_, errors) = until_done(&mut Roller::new(&path, || false), NOW_US, None);
        assert!(errors.len() == 1 && errors[0].contains("nearly full"), "{errors:?}");
        assert_eq!(number(&path, "SELECT count(*) FROM rollup WHERE hours = 1").await, hour_cells);
        assert_eq!(number(&path, "SELECT count(*) FROM rollup WHERE hours = 24").await, day_cells);
        let stats = ask(&of_cells(&path), "by=upstream");
        assert_eq!((stats.attempts, stats.groups.len()), (1_000, 1_000), "{of}");
        change(&path, "DROP TRIGGER full").await;
    }
    roll(&path, None);
    assert_eq!(number(&path, "SELECT count(*) FROM rollup WHERE hours = 24").await, 1_000);
    assert_eq!(ask(&of_cells(&path), "by=upstream").attempts, 1_000);
}

#[tokio::test]
async fn two_at_the_same_work_leave_one_result() {
    let (_directory, path, _store) = written(&of_many(1_000)).await;
    // As if another process had started again between two transactions.
    change(
        &path,
        "CREATE TRIGGER other AFTER INSERT ON rollup WHEN (SELECT count(*) FROM rollup) = 350 \
         BEGIN DELETE FROM rollup WHERE rowid = NEW.rowid; END",
    )
    .await;
    let (_, errors) = until_done(&mut Roller::new(&path, || false), NOW_US, None);
    assert!(errors.len() == 1 && errors[0].contains("another process"), "{errors:?}");
    assert_eq!(number(&path, ROLLED_HOURS).await, 0);
    change(&path, "DROP TRIGGER other").await;
    roll(&path, None);
    assert_eq!(number(&path, "SELECT count(*) FROM rollup WHERE hours = 1").await, 1_000);
}

#[tokio::test]
async fn a_row_that_comes_while_its_day_is_made_is_counted_once() {
    let mut records = of_many(3_000);
    let late = records.split_off(2_999);
    let (_directory, path, _store) = written(&records).await;
    let hour = Roller::new(&path, || false).step(NOW_US, None).unwrap();
    assert_eq!(hour, RollupStep::RolledUp { attempts: 2_999 });
    let came = Arc::new(AtomicBool::new(false));
    let (from, come) = (path.clone(), Arc::clone(&came));
    let mut roller = Roller::new(&path, move || {
        if !come.swap(true, Relaxed) {
            write_now(&from, &late);
        }
        false
    });
    let query = "by=model,upstream";
    while roller.step(NOW_US, None).unwrap() != RollupStep::Nothing {
        // The late rows are counted once, with rows or with cells.
        assert_eq!(counts(&ask(&of_cells(&path), query)), counts(&ask(&StoreReader::open(&path).unwrap(), query)));
    }
    assert!(came.load(Relaxed), "the day was too small");
    assert_eq!(number(&path, ROLLED_DAYS).await, 1);
    assert_eq!(ask(&of_cells(&path), query).attempts, 3_000);
}

#[tokio::test]
async fn a_day_is_not_made_while_one_of_its_hours_is_to_be() {
    let (_directory, path, _store) = written(&world::records(24, 300)).await;
    roll(&path, None);
    // The hour has late rows that cannot be read.
    change(
        &path,
        "UPDATE attempt_row SET model_sent = CAST(x'ff' AS TEXT) WHERE race_id = (SELECT min(race_id) FROM attempt); \
         UPDATE rollup_span SET state = 0 WHERE hours = 24; \
         UPDATE rollup_span SET state = 0 WHERE hours = 1 AND start = (SELECT min(start) FROM rollup_span)",
    )
    .await;
    let (steps, errors) = until_done(&mut Roller::new(&path, || false), NOW_US, None);
    assert_eq!((steps, errors.len()), (vec![RollupStep::Day; DAYS as usize - 1], 1));
}
