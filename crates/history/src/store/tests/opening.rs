//! The owner and the version of a file, and the errors for the operator.

use super::*;
use crate::record::sample;

/// The error of opening for writing, as text.
async fn refused(path: &Path) -> String {
    match Store::open(path) {
        Ok(_) => panic!("{} was opened", path.display()),
        Err(error) => error.to_string(),
    }
}

fn refused_reading(path: &Path) -> String {
    match StoreReader::open(path) {
        Ok(_) => panic!("{} was opened", path.display()),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn a_new_file_is_private_and_migrated_and_opens_again() {
    let (_directory, path, store) = new_store().await;
    store.write(&[race(sample::race(0))]).unwrap();
    store.close();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let store = Store::open(&path).unwrap();
    let mut other = plain(&path).await;
    let journal: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&mut other).await.unwrap();
    let races: i64 = sqlx::query_scalar("SELECT count(*) FROM race").fetch_one(&mut other).await.unwrap();
    assert_eq!((journal.as_str(), races), ("wal", 1));
    store.close();
}

/// Every statement that makes the schema of the file, and the number that says whose file it is.
async fn schema_of(path: &Path) -> String {
    let mut connection = plain(path).await;
    let owner: i64 = sqlx::query_scalar("PRAGMA application_id").fetch_one(&mut connection).await.unwrap();
    // SQLite keeps its statistics, and `sqlx` its list, in tables of their own.
    let sql = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite%' AND name NOT LIKE '_sqlx%' ORDER BY rowid";
    let statements: Vec<String> = sqlx::query_scalar(sql).fetch_all(&mut connection).await.unwrap();
    let made = "-- What the migrations make of an empty file. Written by a test: see CONTRIBUTING.md.\n";
    let statements: String = statements.iter().map(|statement| format!("{statement};\n\n")).collect();
    format!("{made}PRAGMA application_id = {owner};\n\n{statements}")
}

#[tokio::test]
async fn every_column_of_the_migrations_is_in_a_new_file() {
    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/schema.sql");
    let (_migrated, path) = old_store(usize::MAX).await;
    crate::store::views::prepare(&mut Connection::open(&path).unwrap()).unwrap();
    let should = schema_of(&path).await;
    if std::env::var_os(documentation::BLESS).is_some() {
        std::fs::write(FILE, &should).unwrap();
    }
    let bless = documentation::BLESS;
    assert_eq!(std::fs::read_to_string(FILE).unwrap(), should, "set {bless}=1 once, and build again");
    let (_directory, new, store) = new_store().await;
    store.close();
    assert_eq!(schema_of(&new).await, should);

    let rows = "SELECT version, description, success, checksum FROM _sqlx_migrations ORDER BY version";
    let mut entered = Vec::new();
    for path in [&path, &new] {
        let mut connection = plain(path).await;
        let of: Vec<(i64, String, bool, Vec<u8>)> = sqlx::query_as(rows).fetch_all(&mut connection).await.unwrap();
        entered.push(of);
        for table in ["race", "attempt", "run", "rollup", "rollup_span", "incident", "audit"] {
            let count = format!("SELECT count(*) FROM {table}");
            let rows: i64 = sqlx::query_scalar(AssertSqlSafe(count)).fetch_one(&mut connection).await.unwrap();
            assert_eq!(rows, 0, "the schema carries no rows: {table}");
        }
    }
    assert_eq!(entered[0], entered[1]);
}

#[tokio::test]
async fn an_empty_file_is_a_new_database() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("empty.db");
    std::fs::write(&path, "").unwrap();
    let message = refused_reading(&path);
    assert!(message.contains("is empty: `photofinish serve`"), "{message}");
    // What a start leaves when the disk is full.
    sqlx::raw_sql("PRAGMA journal_mode = WAL").execute(&mut plain(&path).await).await.unwrap();
    assert_ne!(std::fs::metadata(&path).unwrap().len(), 0);
    let message = refused_reading(&path);
    assert!(message.contains("is empty: `photofinish serve`"), "{message}");
    Store::open(&path).unwrap().close();
}

#[tokio::test]
async fn two_may_start_on_one_new_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    std::thread::scope(|scope| {
        let one = scope.spawn(|| Store::open(&path).unwrap());
        let other = Store::open(&path).unwrap();
        one.join().unwrap().close();
        other.close();
    });
}

#[tokio::test]
async fn a_missing_directory_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nowhere").join("history.db");
    let message = refused(&path).await;
    assert!(message.contains(path.to_str().unwrap()) && message.contains("No such file"), "{message}");
    let message = refused_reading(&path);
    assert!(message.contains(path.to_str().unwrap()) && message.contains("photofinish serve"), "{message}");
    assert!(!path.exists());
}

#[tokio::test]
async fn garbage_is_no_database() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notes.db");
    let text = "these are my notes ".repeat(100);
    std::fs::write(&path, &text).unwrap();
    for message in [refused(&path).await, refused_reading(&path)] {
        assert!(message.contains("not an SQLite database"), "{message}");
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    assert!(refused(directory.path()).await.contains("cannot create or open"));
    let message = refused_reading(directory.path());
    assert!(message.contains("is a directory") && !message.contains("create"), "{message}");
}

#[tokio::test]
async fn a_foreign_database_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    for (name, sql) in [("tables.db", "CREATE TABLE race (x)"), ("id.db", "PRAGMA application_id = 7")] {
        let path = directory.path().join(name);
        sqlx::raw_sql(sql).execute(&mut plain(&path).await).await.unwrap();
        let before = std::fs::read(&path).unwrap();
        for message in [refused(&path).await, refused_reading(&path)] {
            assert!(message.contains("another program"), "{message}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
}

#[tokio::test]
async fn a_newer_edition_and_another_build_are_told_apart() {
    let (_directory, path, store) = new_store().await;
    store.close();
    let mut other = plain(&path).await;
    let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
                 VALUES (99, 'later', 1, x'00', 0)";
    sqlx::query(newer).execute(&mut other).await.unwrap();
    for message in [refused(&path).await, refused_reading(&path)] {
        assert!(message.contains("newer photofinish") && message.contains("99"), "{message}");
    }
    let edited = "DELETE FROM _sqlx_migrations WHERE version = 99; UPDATE _sqlx_migrations SET checksum = x'00'";
    sqlx::raw_sql(edited).execute(&mut other).await.unwrap();
    assert!(refused(&path).await.contains("another build"));
    sqlx::query("DELETE FROM _sqlx_migrations").execute(&mut other).await.unwrap();
    assert!(refused_reading(&path).contains("older photofinish"));
}

#[tokio::test]
async fn a_file_of_an_older_edition_is_brought_up_to_date() {
    let (_directory, path) = old_store(2).await;
    let mut other = plain(&path).await;
    sqlx::query(
        "INSERT INTO race (race_id, started_at, api, model, stream, has_tools, input_bytes, input_tokens_estimate,
                           attempts, outcome, in_flight, gateway_version)
         VALUES (?, 0, 'chat', 'old', 1, 0, 0, 0, 0, 'ok', 0, '0')",
    )
    .bind(sample::race_id(0))
    .execute(&mut other)
    .await
    .unwrap();
    assert!(refused_reading(&path).contains("older photofinish"));
    let store = Store::open(&path).unwrap();
    store.write(&[race(sample::race(1))]).unwrap();
    store.close();
    let rows: Vec<(String, Option<String>, Option<String>)> =
        sqlx::query_as("SELECT model, plan, why FROM race ORDER BY race_id").fetch_all(&mut other).await.unwrap();
    let RaceRecord { model, plan, why, .. } = sample::race(1);
    assert_eq!(rows, [("old".to_owned(), None, None), (model, plan, why)]);
}

/// In every edition before it the column `caller` was `user`.
#[tokio::test]
async fn callers_of_every_older_edition_are_kept() {
    for edition in 1..16 {
        let (_directory, path) = old_store(edition).await;
        let mut other = plain(&path).await;
        let race = "INSERT INTO race (race_id, started_at, user, api, model, stream, has_tools, input_bytes,
                                      input_tokens_estimate, attempts, outcome, in_flight, gateway_version)
                    VALUES (?, 0, 'ann', 'chat', 'old', 1, 0, 0, 0, 0, 'ok', 0, '0')";
        sqlx::query(race).bind(sample::race_id(0)).execute(&mut other).await.unwrap();
        if edition > 1 {
            let cell = "INSERT INTO rollup (hours, start, provider, model_sent, user, attempts, wins, failures, empty,
                                            censored, ttft_samples, cost_usd, total, parts)
                        VALUES (1, 0, 'groq', 'm', 'ann', 1, 1, 0, 0, 0, 1, 0.5, x'01', x'02')";
            sqlx::query(cell).execute(&mut other).await.unwrap();
        }
        Store::open(&path).unwrap().close();
        let cells = "SELECT caller, attempts, total FROM rollup";
        let cells: Vec<(String, i64, Vec<u8>)> = sqlx::query_as(cells).fetch_all(&mut other).await.unwrap();
        let rolled = [("ann".to_owned(), 1, vec![1])];
        assert_eq!(cells, rolled[..usize::from(edition > 1)], "{edition}");
        let of_ann = RaceFilter {
            races: AttemptFilter { user: Some("ann".into()), ..AttemptFilter::default() },
            limit: 9,
            ..RaceFilter::default()
        };
        let races = StoreReader::open(&path).unwrap().races(&of_ann).unwrap();
        assert_eq!(
            races.iter().map(|race| (&race["user"], race.get("caller"))).collect::<Vec<_>>(),
            [(&"ann".into(), None)],
            "{edition}"
        );
    }
}

/// Races of an edition that knew no sources are of clients, in every view.
#[tokio::test]
async fn rows_of_an_edition_without_sources_are_of_clients() {
    let (_directory, path) = old_store(8).await;
    let mut other = plain(&path).await;
    let (race_id, at) = (sample::race_id(0), sample::STARTED_AT);
    let race =
        "INSERT INTO race (race_id, started_at, api, model, stream, has_tools, input_bytes, input_tokens_estimate,
                                  attempts, outcome, in_flight, gateway_version)
                VALUES (?, ?, 'chat', 'old', 1, 0, 0, 0, 1, 'ok', 0, '0')";
    sqlx::query(race).bind(&race_id).bind(at).execute(&mut other).await.unwrap();
    let attempt = "INSERT INTO attempt (race_id, ordinal, provider, model_sent, dialect, start_reason, dispatch_us, audited,
                       outcome, payload_events, reasoning_events, chars_total, chars_first, keepalives, client_stalled,
                       tok_src, cost_basis, in_flight_upstream, definition_version)
                   VALUES (?, 0, 'groq', 'llama', 'openai', 'first', 0, 0, 'won', 0, 0, 0, 0, 0, 0, 'none', 'unknown', 0, 1)";
    sqlx::query(attempt).bind(&race_id).execute(&mut other).await.unwrap();
    Store::open(&path).unwrap().close();
    let row: (String, Option<String>, Option<String>, Option<i64>) =
        sqlx::query_as("SELECT source, run_id, workload, scheduled_us FROM race").fetch_one(&mut other).await.unwrap();
    assert_eq!(row, ("client".to_owned(), None, None, None));
    for view in ["attempt_speed", "attempt_speed_all", "race_speed", "race_speed_all", "attempt_cost", "race_cost"] {
        let sql = AssertSqlSafe(format!("SELECT count(*) FROM {view} WHERE model = 'old'"));
        let rows: i64 = sqlx::query_scalar(sql).fetch_one(&mut other).await.unwrap();
        assert_eq!(rows, 1, "{view}");
    }
    assert_eq!(counted(&StoreReader::open(&path).unwrap(), &AttemptFilter::default()).unwrap(), 1);
}

#[tokio::test]
async fn a_lock_is_named() {
    let (_directory, path, store) = new_store().await;
    store.close();
    let mut other = plain(&path).await;
    let lock = other.begin_with("BEGIN EXCLUSIVE").await.unwrap();
    assert!(refused(&path).await.contains("locked"));
    lock.rollback().await.unwrap();
}

#[tokio::test]
async fn reading_works_before_during_and_after_writing() {
    let (_directory, path, store) = new_store().await;
    let reader = StoreReader::open(&path).unwrap();
    assert_eq!(counted(&reader, &AttemptFilter::default()).unwrap(), 0);
    store.write(&[race(sample::race(0)), attempt(sample::won(0))]).unwrap();
    assert_eq!(counted(&reader, &AttemptFilter::default()).unwrap(), 1);
    drop(reader);
    store.close();
    let reader = StoreReader::open(&path).unwrap();
    assert_eq!(counted(&reader, &AttemptFilter::default()).unwrap(), 1);
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn a_database_that_may_only_be_read_is_read() {
    let (directory, path, store) = new_store().await;
    store.write(&[race(sample::race(0)), attempt(sample::won(0))]).unwrap();
    let read = || counted(&StoreReader::open(&path).unwrap(), &AttemptFilter::default()).unwrap();
    set_mode(&path, 0o444);
    assert_eq!(read(), 1, "while a gateway writes");
    store.close();
    assert_eq!(read(), 1);
    set_mode(directory.path(), 0o555);
    if std::fs::write(directory.path().join("probe"), "").is_ok() {
        eprintln!("skipped: this user may write into any directory");
    } else {
        assert_eq!(read(), 1, "no file can be made in its directory");
    }
    set_mode(directory.path(), 0o755);
}

/// Whether file permissions apply to this user.
#[cfg(unix)]
fn is_bound(directory: &Path) -> bool {
    std::fs::write(directory.join("probe"), "").is_err()
}

#[cfg(unix)]
#[tokio::test]
async fn a_reader_is_told_what_it_lacks() {
    let (directory, path, store) = new_store().await;
    store.write(&[race(sample::race(0)), attempt(sample::won(0))]).unwrap();
    // A copy that was made while a gateway wrote, on a read-only medium.
    let copies = tempfile::tempdir().unwrap();
    let copy = copies.path().join("history.db");
    for end in ["", "-wal"] {
        let named = |path: &Path| format!("{}{end}", path.display());
        std::fs::copy(named(&path), named(&copy)).unwrap();
    }
    store.close();
    set_mode(&path, 0o000);
    set_mode(copies.path(), 0o555);
    if is_bound(copies.path()) {
        let message = refused_reading(&copy);
        assert!(message.contains("write-ahead log") && message.contains("Copy both"), "{message}");
        let message = refused_reading(&path);
        assert!(message.contains("Let this user read it") && !message.contains("create"), "{message}");
        set_mode(directory.path(), 0o000);
        let message = refused_reading(&path);
        assert!(message.contains("ermission denied") && message.contains("enter its directory"), "{message}");
    } else {
        eprintln!("skipped: this user may read and write anything");
    }
    set_mode(directory.path(), 0o755);
    set_mode(copies.path(), 0o755);
}
