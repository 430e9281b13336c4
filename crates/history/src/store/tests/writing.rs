//! Batches: every column is written once, in one transaction, into the file at the path.

use proptest::prelude::*;
use sqlx::{Column as _, Row as _, TypeInfo as _, ValueRef as _};

use super::*;
use photofinish_facts::record::sample;
use photofinish_facts::record::table::{CellValue, Column, Table};

/// The columns of a record and their values, as text.
fn declared<T: Table>(record: &T) -> Vec<(String, String)> {
    let shown = |cell| match cell {
        CellValue::Null => "NULL".to_owned(),
        CellValue::Integer(value) => value.to_string(),
        CellValue::Real(value) => value.to_string(),
        CellValue::Text(value) => value.to_owned(),
    };
    T::COLUMNS
        .iter()
        .zip(record.cells())
        .map(|(column, cell)| (columns::stored(column.name).to_owned(), shown(cell)))
        .collect()
}

fn stored(row: &sqlx::sqlite::SqliteRow) -> Vec<(String, String)> {
    let value = |column: usize| {
        let raw = row.try_get_raw(column).unwrap();
        match raw.type_info().name() {
            _ if raw.is_null() => "NULL".to_owned(),
            "INTEGER" => row.get::<i64, _>(column).to_string(),
            "REAL" => row.get::<f64, _>(column).to_string(),
            _ => row.get::<String, _>(column),
        }
    };
    row.columns().iter().map(|column| (column.name().to_owned(), value(column.ordinal()))).collect()
}

#[tokio::test]
async fn every_column_makes_the_round_trip() {
    let (_directory, path, store) = new_store().await;
    let races = [sample::race(0), sample::bare_race(1)];
    let attempts = [sample::won(0), sample::lost(0, 90_000), sample::failed(0)];
    let mut batch: Vec<Record> = races.iter().cloned().map(race).collect();
    batch.extend(attempts.iter().cloned().map(attempt));
    store.write(&batch).unwrap();

    let mut other = plain(&path).await;
    let rows = sqlx::query("SELECT * FROM race ORDER BY race_id").fetch_all(&mut other).await.unwrap();
    assert_eq!(rows.iter().map(stored).collect::<Vec<_>>(), races.each_ref().map(declared));
    let rows = sqlx::query("SELECT * FROM attempt ORDER BY ordinal").fetch_all(&mut other).await.unwrap();
    assert_eq!(rows.iter().map(stored).collect::<Vec<_>>(), attempts.each_ref().map(declared));
    store.write(&[run(sample::run(0)), run(sample::bare_run(1))]).unwrap();
    let rows = sqlx::query("SELECT * FROM run ORDER BY run_id").fetch_all(&mut other).await.unwrap();
    assert_eq!(
        rows.iter().map(stored).collect::<Vec<_>>(),
        [declared(&sample::run(0)), declared(&sample::bare_run(1))]
    );
    let (won, sql) = (sample::won(0), "SELECT first_token_us, cost_usd_max, provider FROM attempt WHERE ordinal = 0");
    let read: (Option<i64>, Option<f64>, String) = sqlx::query_as(sql).fetch_one(&mut other).await.unwrap();
    assert_eq!(read, (won.first_token_us, won.cost_usd_max, won.provider));
}

#[tokio::test]
async fn a_cost_comes_back_as_it_went_and_most_take_half_the_bytes() {
    let (_directory, path, store) = new_store().await;
    let costs = [
        (Some(4.9e-6), Some(2.3687e-5)),
        (Some(4.9e-6), Some(4.9e-6)),
        (Some(0.1 + 0.2), Some(1_234.5)),
        (Some(0.0), Some(2e-10)),
        (Some(1e-10), None),
        (Some(7.865_853_658_536_585e-7), Some(-1e-6)),
        (None, Some(1e9)),
        (None, None),
    ];
    let rows = costs.iter().enumerate().map(|(at, costs)| {
        let (cost_usd_min, cost_usd_max) = *costs;
        attempt(AttemptRecord { ordinal: at as i64, cost_usd_min, cost_usd_max, ..sample::won(0) })
    });
    store.write(&rows.collect::<Vec<_>>()).unwrap();
    let mut other = plain(&path).await;
    let sql = "SELECT cost_usd_min, cost_usd_max FROM attempt ORDER BY ordinal";
    let read: Vec<(Option<f64>, Option<f64>)> = sqlx::query_as(sql).fetch_all(&mut other).await.unwrap();
    assert_eq!(read, costs);
    let sql = "SELECT cost_usd_min, cost_usd_max FROM attempt_row WHERE ordinal < 2 ORDER BY ordinal";
    let stored: Vec<(f64, Option<f64>)> = sqlx::query_as(sql).fetch_all(&mut other).await.unwrap();
    assert_eq!(stored, [(-49_000.0, Some(-236_870.0)), (-49_000.0, None)]);
}

/// The samples fill every column, and leave every optional column empty once.
#[test]
fn the_samples_have_every_column_with_and_without_a_value() {
    fn is_null<T: Table>(record: &T) -> Vec<(&'static str, bool)> {
        T::COLUMNS.iter().map(|column| column.name).zip(record.cells().map(|cell| cell == CellValue::Null)).collect()
    }
    let full =
        [is_null(&sample::race(0)), is_null(&sample::won(0)), is_null(&sample::run(0)), is_null(&sample::incident(0))]
            .concat();
    assert_eq!(full.iter().filter(|(_, null)| *null).count(), 0, "{full:?}");
    let nullable = |columns: &'static [Column]| columns.iter().map(|column| (column.name, column.nullable));
    assert!(is_null(&sample::bare_race(0)).into_iter().eq(nullable(RaceRecord::COLUMNS)));
    assert!(is_null(&sample::bare_run(0)).into_iter().eq(nullable(RunRecord::COLUMNS)));
    assert!(is_null(&sample::bare_incident(0)).into_iter().eq(nullable(IncidentRecord::COLUMNS)));
    let observed = ["ttft_obs_us", "ttft_event", "censor_cause", "failure", "failure_phase"];
    let bare = is_null(&sample::lost(0, 1)).into_iter().filter(|(name, _)| !observed.contains(name));
    assert!(bare.eq(nullable(AttemptRecord::COLUMNS).filter(|(name, _)| !observed.contains(name))));
}

#[tokio::test]
async fn the_migrations_make_the_declared_tables() {
    let (_directory, path, _store) = new_store().await;
    let mut other = plain(&path).await;
    for (table, declared) in [(RunRecord::NAME, RunRecord::COLUMNS), (IncidentRecord::NAME, IncidentRecord::COLUMNS)] {
        let sql = "SELECT name, type, \"notnull\" = 0 FROM pragma_table_info(?)";
        let migrated: Vec<(String, String, bool)> =
            sqlx::query_as(sql).bind(table).fetch_all(&mut other).await.unwrap();
        let declared = declared.iter().map(|column| {
            (columns::stored(column.name).to_owned(), format!("{:?}", column.sql_type).to_uppercase(), column.nullable)
        });
        assert_eq!(migrated, declared.collect::<Vec<_>>(), "{table}");
    }
    // A column that a view computes has no type.
    for (view, table, declared) in [
        (RaceRecord::NAME, "race_row", RaceRecord::COLUMNS),
        (AttemptRecord::NAME, "attempt_row", AttemptRecord::COLUMNS),
    ] {
        let sql = "SELECT name FROM pragma_table_info(?)";
        let [shown, mut stored]: [Vec<String>; 2] = [
            sqlx::query_scalar(sql).bind(view).fetch_all(&mut other).await.unwrap(),
            sqlx::query_scalar(sql).bind(table).fetch_all(&mut other).await.unwrap(),
        ];
        assert_eq!(shown, declared.iter().map(|column| columns::stored(column.name)).collect::<Vec<_>>());
        stored.sort();
        let mut shown = shown;
        shown.sort();
        assert_eq!(shown, stored);
    }
}

#[tokio::test]
async fn a_batch_may_be_sent_again() {
    let (_directory, path, store) = new_store().await;
    let batch: Vec<Record> = (0..123).map(|n| attempt(sample::won(n))).collect();
    store.write(&batch).unwrap();
    store.write(&batch).unwrap();
    let mut other = plain(&path).await;
    let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM attempt").fetch_one(&mut other).await.unwrap();
    assert_eq!(rows, 123);
}

#[tokio::test]
async fn a_lock_is_worth_another_try_and_a_missing_table_is_not() {
    let (_directory, path, store) = new_store().await;
    let mut other = plain(&path).await;
    let lock = other.begin_with("BEGIN IMMEDIATE").await.unwrap();
    assert!(store.write(&[race(sample::race(0))]).unwrap_err().retry);
    lock.rollback().await.unwrap();
    store.write(&[race(sample::race(0))]).unwrap();

    sqlx::query("DROP TABLE attempt_row").execute(&mut other).await.unwrap();
    assert!(!store.write(&[race(sample::race(1)), attempt(sample::won(1))]).unwrap_err().retry);
    let races: i64 = sqlx::query_scalar("SELECT count(*) FROM race").fetch_one(&mut other).await.unwrap();
    assert_eq!(races, 1, "a batch that fails leaves nothing behind");
    store.write(&[race(sample::race(1))]).unwrap();
}

#[tokio::test]
async fn a_disk_that_is_full_is_worth_another_try() {
    let (_directory, path, _) = new_store().await;
    let (store, file) = Store::of_file(&path, None);
    store.write(&[]).unwrap();
    {
        let mut slot = file.slot();
        let connection = &mut slot.opened.as_mut().unwrap().connection;
        connection.execute_batch("PRAGMA max_page_count = 1").unwrap();
    }
    let batch: Vec<Record> = (0..1_000).map(|n| attempt(sample::won(n))).collect();
    assert!(store.write(&batch).unwrap_err().retry);
    // The next connection has no limit, as if room had been made.
    store.write(&batch).unwrap();
    let mut other = plain(&path).await;
    let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM attempt").fetch_one(&mut other).await.unwrap();
    assert_eq!(rows, 1_000);
}

#[tokio::test]
async fn a_file_that_was_removed_or_replaced_is_noticed() {
    let (directory, path, store) = new_store().await;
    store.write(&[race(sample::race(0))]).unwrap();
    let away = directory.path().join("away.db");
    std::fs::rename(&path, &away).unwrap();
    store.write(&[race(sample::race(1))]).unwrap();
    let races: i64 = sqlx::query_scalar("SELECT count(*) FROM race").fetch_one(&mut plain(&away).await).await.unwrap();
    assert_eq!(races, 1, "what was moved away is complete");

    let elsewhere = directory.path().join("restored.db");
    Store::open(&elsewhere).unwrap().close();
    std::fs::rename(&elsewhere, &path).unwrap();
    store.write(&[race(sample::race(2)), race(sample::race(3))]).unwrap();
    store.close();
    let races: i64 = sqlx::query_scalar("SELECT count(*) FROM race").fetch_one(&mut plain(&path).await).await.unwrap();
    assert_eq!(races, 2);

    let store = Store::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "not a database ".repeat(100)).unwrap();
    let error = store.write(&[race(sample::race(4))]).unwrap_err();
    assert!(error.retry && error.to_string().contains("not an SQLite database"), "{error}");
    std::fs::remove_file(&path).unwrap();
    store.write(&[race(sample::race(4))]).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn as_many_rows_as_records(batches in proptest::collection::vec((0_i64..250, 0_i64..250), 1..4)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (_directory, path, store) = new_store().await;
            let (mut races, mut attempts) = (0, 0);
            for (more_races, more_attempts) in batches {
                let mut batch: Vec<Record> = (races..races + more_races).map(|n| race(sample::bare_race(n))).collect();
                batch.extend((attempts..attempts + more_attempts).map(|n| attempt(sample::failed(n))));
                store.write(&batch).unwrap();
                (races, attempts) = (races + more_races, attempts + more_attempts);
            }
            let sql = "SELECT (SELECT count(*) FROM race), (SELECT count(*) FROM attempt)";
            let rows: (i64, i64) = sqlx::query_as(sql).fetch_one(&mut plain(&path).await).await.unwrap();
            assert_eq!(rows, (races, attempts));
        });
    }
}
