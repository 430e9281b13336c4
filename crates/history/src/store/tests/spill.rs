//! The spill file: rows come back once, in the order of the races, and then the file is removed.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use super::*;
use photofinish_facts::record::sample;

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
    spill.append(&races(0..1_700)).unwrap();
    spill.append(&races(1_700..2_300)).unwrap();
    assert_eq!(spill.rows().unwrap(), 6_900);
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
    assert_eq!(moved, 6_900);
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
    assert_eq!(spill.move_some(&store).unwrap(), SpillProgress { rows: 30, more: false, taken: Taken::default() });
    assert_eq!(number(&path, "SELECT count(*) FROM attempt").await, 20);
}

#[tokio::test]
async fn a_database_that_takes_nothing_leaves_the_rows_where_they_are() {
    let (_directory, path, store) = new_store().await;
    let spill = Spill::of(&path);
    spill.append(&races(0..10)).unwrap();
    let mut other = plain(&path).await;
    let lock = other.begin_with("BEGIN IMMEDIATE").await.unwrap();
    assert!(matches!(spill.move_some(&store), Err(MoveError::Database(error)) if error.retry));
    assert_eq!(spill.rows().unwrap(), 30);
    lock.rollback().await.unwrap();
    assert!(!spill.move_some(&store).unwrap().more);
    assert_eq!(number(&path, "SELECT count(*) FROM race").await, 10);
}

#[tokio::test]
async fn a_spill_has_a_bound() {
    let (_directory, path, store) = new_store().await;
    let whole = Spill::of(&path);
    let (store_of_spill, file) = Store::of_file(whole.path(), Some(400_000));
    let small = Spill { store: store_of_spill, file };
    let mut rows = 0;
    let error = loop {
        match small.append(&races(rows..rows + 100)) {
            Ok(_) => rows += 100,
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

/// The lines of the file for rows that no database takes.
fn refused(store: &Store) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(store.refused()).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn a_row_that_no_database_takes_holds_up_no_other() {
    let (_directory, path, store) = new_store().await;
    let spill = Spill::of(&path);
    spill.append(&races(0..2_300)).unwrap();
    spill.append(&[run(RunRecord { run_id: "r".into(), ..sample::run(0) })]).unwrap();
    spill.close();
    // A text that is none, and a race that the database refuses.
    let mut other = plain(spill.path()).await;
    let garbled =
        "UPDATE race_row SET model = CAST(x'ff' AS TEXT) WHERE race_id = (SELECT race_id FROM race LIMIT 1 OFFSET 5)";
    sqlx::raw_sql(garbled).execute(&mut other).await.unwrap();
    other.close().await.unwrap();
    let bad = sample::race_id(1_400);
    let refuse = format!(
        "CREATE TRIGGER bad BEFORE INSERT ON attempt_row WHEN NEW.race_id = '{bad}' BEGIN SELECT RAISE(ABORT, 'never'); END"
    );
    sqlx::raw_sql(AssertSqlSafe(refuse)).execute(&mut plain(&path).await).await.unwrap();
    let mut taken = Vec::new();
    loop {
        let moved = spill.move_some(&store).unwrap();
        taken.push((moved.taken.refused, moved.taken.lost));
        if !moved.more {
            break;
        }
    }
    assert_eq!(taken, [(3, 0), (3, 0), (0, 0)]);
    assert_eq!(number(&path, "SELECT count(*) FROM race").await, 2_298);
    assert_eq!(number(&path, "SELECT count(*) FROM attempt").await, 2 * 2_298);
    assert_eq!(number(&path, "SELECT count(*) FROM run").await, 1);
    assert!(!spill.path().exists());
    let refused = refused(&store);
    let tables: Vec<_> = refused.iter().map(|line| line["table"].as_str().unwrap()).collect();
    assert_eq!(tables, ["race", "attempt", "attempt", "race", "attempt", "attempt"]);
    assert_eq!((&refused[0]["row"]["model"], &refused[3]["reason"]), (&"\u{fffd}".into(), &"never".into()));
    assert_eq!(refused[3]["row"]["race_id"], bad);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(store.refused()).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[tokio::test]
async fn a_bad_row_in_a_batch_costs_its_own_race_alone() {
    let (_directory, path, store) = new_store().await;
    let bad = sample::race_id(50);
    let refuse = format!(
        "CREATE TRIGGER bad BEFORE INSERT ON race_row WHEN NEW.race_id = '{bad}' BEGIN SELECT RAISE(ABORT, 'never'); END"
    );
    sqlx::raw_sql(AssertSqlSafe(refuse)).execute(&mut plain(&path).await).await.unwrap();
    let taken = store.take(&races(0..100)).unwrap();
    assert_eq!((taken.refused, taken.lost, taken.reason.as_str()), (3, 0, "never"));
    assert_eq!(number(&path, "SELECT count(*) FROM attempt").await, 198);
    assert_eq!(refused(&store).len(), 3);
    // The file is full.
    let full = std::fs::OpenOptions::new().append(true).open(store.refused()).unwrap();
    full.set_len(16 << 20).unwrap();
    assert_eq!(store.take(&races(0..100)).unwrap().lost, 3);
}

#[tokio::test]
async fn a_damaged_file_is_set_aside_and_another_begins() {
    let (_directory, path, store) = new_store().await;
    let spill = Spill::of(&path);
    spill.append(&races(0..10)).unwrap();
    spill.close();
    let bytes = std::fs::read(spill.path()).unwrap();
    let noise = bytes.iter().enumerate().map(|(at, byte)| if at < 4_096 { *byte } else { (at * 31) as u8 });
    std::fs::write(spill.path(), noise.collect::<Vec<u8>>()).unwrap();
    let Err(MoveError::Spill(error)) = spill.move_some(&store) else { panic!("it was moved") };
    assert_eq!(error.symptom, Some(Symptom::Damaged));
    assert!(spill.set_aside(|| false));
    assert_eq!((spill.rows().unwrap(), set_aside_files(spill.path()).len()), (0, 1));
    assert!(set_aside_files(&path).is_empty(), "it is not the database's");
    spill.append(&races(0..10)).unwrap();
    assert_eq!(spill.move_some(&store).unwrap().rows, 30);
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
