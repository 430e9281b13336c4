//! Batches: every column, once each, in one transaction, into the file that is at the path.

use std::fmt::Debug;

use proptest::prelude::*;
use sqlx::{Column as _, Row as _, TypeInfo as _, ValueRef as _};

use super::*;
use crate::history::sample;

/// A field as the database shows it.
trait Shown {
    fn shown(&self) -> String;
}

macro_rules! shown {
    ($($type:ty: |$value:ident| $text:expr),+ $(,)?) => {
        $(impl Shown for $type { fn shown(&self) -> String { let $value = self; $text } })+
    };
}

shown! {
    i64: |value| value.to_string(),
    f64: |value| value.to_string(),
    bool: |value| u8::from(*value).to_string(),
    String: |value| value.clone(),
    &'static str: |value| value.to_string(),
    crate::history::RaceOutcome: |value| value.as_str().into(),
    crate::history::AttemptOutcome: |value| value.as_str().into(),
    crate::history::StartReason: |value| value.as_str().into(),
    crate::history::CensorCause: |value| value.as_str().into(),
    crate::history::TokenSource: |value| value.as_str().into(),
    crate::history::CostBasis: |value| value.as_str().into(),
}

impl<T: Shown + Debug> Shown for Option<T> {
    fn shown(&self) -> String {
        self.as_ref().map_or("NULL".into(), Shown::shown)
    }
}

/// The fields of a record in the order that measurement.md gives the columns.
macro_rules! fields {
    ($type:ident, $record:expr, $($field:ident)+) => {{
        let $type { $($field),+ } = $record;
        vec![$((stringify!($field).to_owned(), $field.shown())),+]
    }};
}

fn race_fields(record: &RaceRecord) -> Vec<(String, String)> {
    fields!(RaceRecord, record, race_id started_at user api model stream policy optimise n_choices max_tokens has_tools
        input_bytes input_tokens_estimate attempts winner first_token_sent_us done_us outcome http_status in_flight
        gateway_version plan why rescued_by)
}

fn attempt_fields(record: &AttemptRecord) -> Vec<(String, String)> {
    fields!(AttemptRecord, record, race_id ordinal provider model_sent model_reported dialect key_id start_reason
        dispatch_us p_include p_audit audited conn_reused http_version connect_us headers_us first_byte_us first_event_us
        first_token_us first_kind first_answer_us second_token_us last_token_us finish_us eof_us cancel_us ttft_obs_us
        ttft_event censor_cause outcome http_status failure failure_phase retry_after_ms payload_events reasoning_events
        chars_total chars_first keepalives gap_p50_us gap_p99_us gap_max_us burst client_stalled input_tokens
        cached_input_tokens output_tokens reasoning_tokens tok_src finish_reason server_queue_us server_prefill_us
        server_decode_us server_total_us ratelimit_remaining_requests ratelimit_remaining_tokens cost_usd cost_basis
        in_flight_upstream definition_version cost_usd_min cost_usd_max)
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
    store.write(&batch).await.unwrap();

    let mut other = plain(&path).await;
    let rows = sqlx::query("SELECT * FROM race ORDER BY race_id").fetch_all(&mut other).await.unwrap();
    assert_eq!(rows.iter().map(stored).collect::<Vec<_>>(), races.each_ref().map(race_fields));
    let rows = sqlx::query("SELECT * FROM attempt ORDER BY ordinal").fetch_all(&mut other).await.unwrap();
    assert_eq!(rows.iter().map(stored).collect::<Vec<_>>(), attempts.each_ref().map(attempt_fields));
}

#[tokio::test]
async fn a_batch_may_be_sent_again() {
    let (_directory, path, store) = new_store().await;
    let batch: Vec<Record> = (0..123).map(|n| attempt(sample::won(n))).collect();
    store.write(&batch).await.unwrap();
    store.write(&batch).await.unwrap();
    let mut other = plain(&path).await;
    let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM attempt").fetch_one(&mut other).await.unwrap();
    assert_eq!(rows, 123);
}

#[tokio::test]
async fn a_lock_is_worth_another_try_and_a_missing_table_is_not() {
    let (_directory, path, store) = new_store().await;
    let mut other = plain(&path).await;
    let lock = other.begin_with("BEGIN IMMEDIATE").await.unwrap();
    assert!(store.write(&[race(sample::race(0))]).await.unwrap_err().retry);
    lock.rollback().await.unwrap();
    store.write(&[race(sample::race(0))]).await.unwrap();

    sqlx::query("DROP TABLE attempt").execute(&mut other).await.unwrap();
    assert!(!store.write(&[race(sample::race(1)), attempt(sample::won(1))]).await.unwrap_err().retry);
    let races: i64 = sqlx::query_scalar("SELECT count(*) FROM race").fetch_one(&mut other).await.unwrap();
    assert_eq!(races, 1, "a batch that fails leaves nothing behind");
    store.write(&[race(sample::race(1))]).await.unwrap();
}

#[tokio::test]
async fn a_disk_that_is_full_is_worth_another_try() {
    let (_directory, path, store) = new_store().await;
    {
        let mut slot = store.slot.lock().await;
        let connection = &mut slot.opened.as_mut().unwrap().connection;
        sqlx::query("PRAGMA max_page_count = 1").execute(connection).await.unwrap();
    }
    let batch: Vec<Record> = (0..1_000).map(|n| attempt(sample::won(n))).collect();
    assert!(store.write(&batch).await.unwrap_err().retry);
    // The next connection has no such limit: room was made.
    store.write(&batch).await.unwrap();
    let mut other = plain(&path).await;
    let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM attempt").fetch_one(&mut other).await.unwrap();
    assert_eq!(rows, 1_000);
}

#[tokio::test]
async fn a_file_that_was_removed_or_replaced_is_noticed() {
    let (directory, path, store) = new_store().await;
    store.write(&[race(sample::race(0))]).await.unwrap();
    let away = directory.path().join("away.db");
    std::fs::rename(&path, &away).unwrap();
    store.write(&[race(sample::race(1))]).await.unwrap();
    let races: i64 = sqlx::query_scalar("SELECT count(*) FROM race").fetch_one(&mut plain(&away).await).await.unwrap();
    assert_eq!(races, 1, "what was moved away is complete");

    let elsewhere = directory.path().join("restored.db");
    Store::open(&elsewhere).await.unwrap().close().await;
    std::fs::rename(&elsewhere, &path).unwrap();
    store.write(&[race(sample::race(2)), race(sample::race(3))]).await.unwrap();
    store.close().await;
    let races: i64 = sqlx::query_scalar("SELECT count(*) FROM race").fetch_one(&mut plain(&path).await).await.unwrap();
    assert_eq!(races, 2);

    let store = Store::open(&path).await.unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "not a database ".repeat(100)).unwrap();
    let error = store.write(&[race(sample::race(4))]).await.unwrap_err();
    assert!(error.retry && error.to_string().contains("not an SQLite database"), "{error}");
    std::fs::remove_file(&path).unwrap();
    store.write(&[race(sample::race(4))]).await.unwrap();
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
                store.write(&batch).await.unwrap();
                (races, attempts) = (races + more_races, attempts + more_attempts);
            }
            let sql = "SELECT (SELECT count(*) FROM race), (SELECT count(*) FROM attempt)";
            let rows: (i64, i64) = sqlx::query_as(sql).fetch_one(&mut plain(&path).await).await.unwrap();
            assert_eq!(rows, (races, attempts));
        });
    }
}
