//! Removal of old rows, and what may interrupt it: a kill, a writer, another file.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use super::rollup::{GROUPS, RACES, ask, counts, of_cells, roll, windows, write_now, written};
use super::world::{self, DAYS, NOW_US, START_US};
use super::*;
use crate::store::columns::{DAY_US, HOUR_US};
use photofinish_facts::record::{RaceSource, sample};

#[tokio::test]
async fn a_step_that_is_given_up_leaves_everything_as_it_was() {
    let (_directory, path, _store) = written(&world::records(6, RACES)).await;
    let before = counts(&ask(&of_cells(&path), "by=upstream"));
    for looks in 0..8 {
        let seen = AtomicUsize::new(0);
        let mut roller = Roller::new(&path, move || seen.fetch_add(1, Relaxed) >= looks);
        while let Ok(step) = roller.step(NOW_US, Some(START_US + 2 * DAY_US)) {
            if step == RollupStep::Nothing {
                break;
            }
        }
        assert_eq!(counts(&ask(&of_cells(&path), "by=upstream")), before, "{looks}");
    }
    roll(&path, Some(START_US + 2 * DAY_US));
    assert_eq!(counts(&ask(&of_cells(&path), "by=upstream")), before);
}

async fn rows_before(path: &Path, at_us: i64) -> (i64, i64) {
    let sql =
        "SELECT (SELECT count(*) FROM race WHERE race_id < ?1), (SELECT count(*) FROM attempt WHERE race_id < ?1)";
    sqlx::query_as(sql).bind(columns::first_race_id(at_us)).fetch_one(&mut plain(path).await).await.unwrap()
}

#[tokio::test]
async fn old_rows_go_and_their_figures_stay() {
    let mut records = world::records(7, RACES);
    // Many races in one hour, most of them without an attempt.
    records.extend((0..450).map(|n| {
        let at_us = START_US + 8 * HOUR_US + n as i64 * 2_000;
        race(RaceRecord { race_id: world::id(90_000 + n, at_us), started_at: at_us, ..sample::bare_race(0) })
    }));
    let (_directory, path, _store) = written(&records).await;
    let keep_from = START_US + 2 * DAY_US + HOUR_US / 2;
    let whole_hour = START_US + 2 * DAY_US;
    roll(&path, None);
    let newer = |before: (i64, i64), all: (i64, i64)| (all.0 - before.0, all.1 - before.1);
    let kept = newer(rows_before(&path, whole_hour).await, rows_before(&path, NOW_US).await);
    let queries: Vec<String> = GROUPS
        .iter()
        .flat_map(|by| [format!("by={by}"), format!("by={by}&{}", windows()[3]), format!("by={by}&exact=true")])
        .collect();
    let answers = || -> Vec<_> {
        let cells = of_cells(&path);
        queries.iter().map(|query| counts(&ask(&cells, query))).collect()
    };
    let before = answers();
    let removed = roll(&path, Some(keep_from));
    let all_small = removed.iter().all(|step| matches!(step, RollupStep::Removed { races: 1..=200 }));
    assert!(all_small && removed.len() > 40, "{removed:?}");
    assert_eq!(rows_before(&path, whole_hour).await, (0, 0));
    assert_eq!(rows_before(&path, NOW_US).await, kept);
    assert_eq!(answers(), before);
    let default = StoreReader::open(&path).unwrap();
    assert_eq!(counts(&ask(&default, "by=upstream")), before[0]);
    assert_eq!(ask(&default, "by=upstream").coverage.rolled_until, Some(whole_hour), "the rest is exact");
    // Late by the whole retention: neither counted nor kept.
    let mut late = sample::won(0);
    late.race_id = world::id(1, START_US + 8 * HOUR_US);
    write_now(&path, &[attempt(late)]);
    assert_eq!(roll(&path, Some(keep_from)).last(), Some(&RollupStep::Removed { races: 1 }));
    assert_eq!(answers(), before);
}

#[tokio::test]
async fn old_runs_go_after_their_rows() {
    let begun = |n: usize, at_us: i64| {
        let run_id = world::id(n, at_us);
        let of_run = RaceRecord { source: RaceSource::Bench, run_id: Some(run_id.clone()), ..sample::race(0) };
        let one = race(RaceRecord { race_id: run_id.clone(), started_at: at_us, ..of_run });
        [one, run(RunRecord { run_id, started_at: at_us, ..sample::run(0) })]
    };
    let (old, new) = (begun(1, START_US + HOUR_US), begun(2, START_US + 3 * DAY_US));
    let (_directory, path, _store) = written(&[old, new].concat()).await;
    roll(&path, None);
    let sql = "SELECT (SELECT count(*) FROM race) * 10 + (SELECT count(*) FROM run)";
    let mut other = plain(&path).await;
    let rows: i64 = sqlx::query_scalar(sql).fetch_one(&mut other).await.unwrap();
    assert_eq!(rows, 22, "without a limit nothing goes");
    roll(&path, Some(START_US + 2 * DAY_US));
    let rows: i64 = sqlx::query_scalar(sql).fetch_one(&mut other).await.unwrap();
    assert_eq!(rows, 11);
}

#[tokio::test]
async fn nothing_goes_that_is_not_rolled_up() {
    let (_directory, path, _store) = written(&world::records(8, 300)).await;
    let mut roller = Roller::new(&path, || false);
    let (mut rolled, mut removed) = (0, 0);
    let mut was_removed = true;
    loop {
        match roller.step(NOW_US, Some(i64::MAX)).unwrap() {
            RollupStep::Nothing => break,
            RollupStep::RolledUp { .. } => {
                assert!(was_removed, "a full disk must not wait for all roll-ups");
                (was_removed, rolled) = (false, rolled + 1);
            }
            RollupStep::Day | RollupStep::GivenBack { .. } => {}
            RollupStep::Removed { races } => (was_removed, removed) = (true, removed + races),
        }
    }
    assert!(rolled > 50 && removed > 200, "{rolled} {removed}");
    // The last hour has not been over for long enough.
    let kept = rows_before(&path, NOW_US).await;
    assert_eq!(rows_before(&path, START_US + DAYS * DAY_US).await, (0, 0));
    assert!(kept.1 > 0);
}

#[test]
fn the_writer_and_the_roller_do_not_stop_each_other() {
    let records = world::records(9, RACES);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (_directory, path, store) = runtime.block_on(new_store());
    let written = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut roller = Roller::new(&path, || false);
            let mut steps = 0;
            loop {
                let writes = !written.load(Relaxed);
                match roller.step(NOW_US, Some(START_US)) {
                    Ok(step) => steps += usize::from(step != RollupStep::Nothing),
                    // A busy machine may keep it from the file for as long as it waits.
                    Err(error) => assert!(writes, "{error}"),
                }
                if !writes && steps > 0 {
                    return;
                }
            }
        });
        for batch in records.chunks(100) {
            store.write(batch).unwrap();
        }
        written.store(true, Relaxed);
    });
    roll(&path, None);
    let query = "by=upstream,input";
    assert_eq!(counts(&ask(&of_cells(&path), query)), counts(&ask(&StoreReader::open(&path).unwrap(), query)));
}

#[tokio::test]
async fn a_file_that_is_replaced_is_rolled_up_and_one_that_is_gone_is_an_error() {
    let (directory, path, store) = written(&world::records(11, 200)).await;
    let mut roller = Roller::new(&path, || false);
    while roller.step(NOW_US, None).unwrap() != RollupStep::Nothing {}
    store.close();
    std::fs::rename(&path, directory.path().join("away.db")).unwrap();
    let error = roller.step(NOW_US, None).unwrap_err().to_string();
    assert!(error.contains("history.db"), "{error}");
    assert!(!path.exists());
    let store = Store::open(&path).unwrap();
    store.write(&world::records(12, 200)).unwrap();
    let steps =
        std::iter::from_fn(|| Some(roller.step(NOW_US, None).unwrap()).filter(|step| *step != RollupStep::Nothing));
    assert!(steps.count() > 20);
    store.close();
}

#[tokio::test]
async fn what_many_names_are_given_is_kept_by_provider() {
    let many = (0..10_050).map(|n| {
        let mut won = sample::won(0);
        won.race_id = world::id(n, START_US + n as i64 * 1_000);
        won.model_sent = format!("{n}");
        attempt(won)
    });
    let (_directory, path, _store) = written(&many.collect::<Vec<_>>()).await;
    roll(&path, None);
    let stats = ask(&of_cells(&path), "provider=groq");
    let largest = stats.groups.iter().map(|group| group.attempts).max();
    assert_eq!(
        (stats.attempts, stats.groups.len(), largest),
        (10_050, 10_001, Some(50)),
        "each name once, and the rest together"
    );
    let cells: i64 = sqlx::query_scalar("SELECT max(n) FROM (SELECT count(*) AS n FROM rollup GROUP BY hours, start)")
        .fetch_one(&mut plain(&path).await)
        .await
        .unwrap();
    assert_eq!(cells, 10_001);
}
