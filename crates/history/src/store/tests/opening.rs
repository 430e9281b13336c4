//! The owner and the version of a file, and the errors for the operator.

use super::*;
use photofinish_facts::record::sample;

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
async fn a_file_of_a_newer_version_is_refused() {
    let (_directory, path, store) = new_store().await;
    store.close();
    let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
                 VALUES (99, 'later', 1, x'00', 0)";
    sqlx::query(newer).execute(&mut plain(&path).await).await.unwrap();
    for message in [refused(&path).await, refused_reading(&path)] {
        assert!(message.contains("newer photofinish") && message.contains("99"), "{message}");
    }
}

/// It has the number of the gateway, and other tables.
#[tokio::test]
async fn a_file_from_before_the_first_release_is_refused_and_stays_as_it_is() {
    let owner = "PRAGMA application_id = 1346916180; CREATE TABLE race (race_id TEXT PRIMARY KEY, user TEXT);
                 INSERT INTO race VALUES ('1', 'ann');";
    let list = "CREATE TABLE _sqlx_migrations (version BIGINT PRIMARY KEY, description TEXT NOT NULL,
                    installed_on TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, success BOOLEAN NOT NULL,
                    checksum BLOB NOT NULL, execution_time BIGINT NOT NULL);";
    let entered = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
                   VALUES (1, 'race and attempt', 1, x'01', 0), (2, 'rollup', 1, x'02', 0);";
    let directory = tempfile::tempdir().unwrap();
    for (name, parts) in [("old", &[owner, list, entered][..]), ("empty-list", &[owner, list]), ("no-list", &[owner])] {
        let path = directory.path().join(name);
        let mut other = plain(&path).await;
        sqlx::raw_sql(AssertSqlSafe(format!("PRAGMA journal_mode = WAL; {}", parts.concat())))
            .execute(&mut other)
            .await
            .unwrap();
        other.close().await.unwrap();
        let before = std::fs::read(&path).unwrap();
        for message in [refused(&path).await, refused_reading(&path)] {
            assert!(message.contains("from before 0.1.0") && message.contains("move the file away"), "{message}");
            assert!(message.contains("photofinish history export"), "{message}");
        }
        assert!(Store::open(&path).is_err_and(|error| !error.may_pass()), "a start ends");
        assert_eq!(std::fs::read(&path).unwrap(), before, "{name}");
    }
}

#[tokio::test]
async fn a_lock_is_named() {
    let (_directory, path, store) = new_store().await;
    store.close();
    let mut other = plain(&path).await;
    sqlx::query("PRAGMA locking_mode = EXCLUSIVE").execute(&mut other).await.unwrap();
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
