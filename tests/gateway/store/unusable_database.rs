//! A database that is locked, deleted, foreign or damaged: requests are served, rows are kept, and the log names the
//! problem.

use std::os::unix::fs::PermissionsExt;

use sqlx::Connection;

use crate::harness::process::{RunningGateway, Setup, provider};
use crate::support::{FakeProvider, Script, soon};

const MODEL: &str = "[models.m]\nupstreams = [\"one/m\"]\n";

async fn serve() -> (FakeProvider, RunningGateway) {
    let fake = FakeProvider::answering(|_| Script::stream(&["a", "b"])).await;
    let served = Setup::new(&format!("{}{MODEL}", provider("one", &fake))).serve().await;
    (fake, served)
}

async fn asks(served: &RunningGateway, times: usize) {
    for _ in 0..times {
        assert_eq!(served.ask("m").await.status, 200);
    }
}

#[tokio::test]
async fn a_locked_database_delays_no_answer_and_loses_no_row() {
    let (_fake, served) = serve().await;
    let mut other = served.setup.connect().await;
    let lock = other.begin_with("BEGIN IMMEDIATE").await.unwrap();
    asks(&served, 30).await;
    // It waited for the lock, gave up, and logged that; requests are answered before and after.
    served.process.logged("cannot write the history now").await;
    asks(&served, 30).await;
    let ready = served.get("/readyz", &[]).await;
    assert_eq!((ready.status, &ready.json()["store"]), (200, &"delayed".into()));
    assert!(ready.json()["records_queued"].as_i64().unwrap() >= 120, "{}", ready.body);
    lock.rollback().await.unwrap();
    served.process.logged("the history is being written again").await;
    asks(&served, 1).await;
    let setup = served.stop().await;
    assert_eq!(setup.number("SELECT count(*) FROM race WHERE outcome = 'ok'").await, 61);
    assert_eq!(setup.number("SELECT count(*) FROM attempt WHERE outcome = 'won'").await, 61);
}

#[tokio::test]
async fn a_database_that_is_locked_at_the_end_gets_its_rows_at_the_next_start() {
    let (_fake, served) = serve().await;
    let mut other = served.setup.connect().await;
    let lock = other.begin_with("BEGIN IMMEDIATE").await.unwrap();
    asks(&served, 3).await;
    served.process.signal("TERM");
    assert_eq!(served.process.ended().await, Some(0), "{}", served.process.log());
    served.process.logged("the next start writes them").await;
    lock.rollback().await.unwrap();
    other.close().await.unwrap();
    let served = served.setup.serve().await;
    written(&served, 3).await;
    let setup = served.stop().await;
    assert_eq!(setup.races().await, vec!["ok 1 200"; 3]);
    assert!(!setup.path("photofinish.db.spill").exists());
}

#[tokio::test]
async fn a_second_signal_does_not_wait_for_a_locked_database() {
    let (_fake, served) = serve().await;
    let mut other = served.setup.connect().await;
    let lock = other.begin_with("BEGIN IMMEDIATE").await.unwrap();
    asks(&served, 3).await;
    served.process.signal("TERM");
    served.process.logged("every stream has ended").await;
    served.process.signal("TERM");
    assert!(served.process.ended().await.is_some());
    lock.rollback().await.unwrap();
    other.close().await.unwrap();
    let served = served.setup.serve().await;
    written(&served, 3).await;
    served.stop().await;
}

#[tokio::test]
async fn a_database_that_is_locked_at_startup_does_not_stop_serving() {
    let (_fake, served) = serve().await;
    let setup = served.stop().await;
    // In this mode no other process can even read.
    let mut other = setup.connect().await;
    sqlx::query("PRAGMA locking_mode = EXCLUSIVE").execute(&mut other).await.unwrap();
    let lock = other.begin_with("BEGIN EXCLUSIVE").await.unwrap();
    let served = setup.serve().await;
    asks(&served, 3).await;
    let ready = served.get("/readyz", &[]).await;
    assert_eq!((ready.status, &ready.json()["store"]), (200, &"delayed".into()), "{}", ready.body);
    lock.rollback().await.unwrap();
    other.close().await.unwrap();
    served.process.logged("the history is being written again").await;
    served.process.logged("learnt from the history").await;
    written(&served, 3).await;
    let ready = served.get("/readyz", &[]).await;
    assert_eq!((ready.status, &ready.json()["store"]), (200, &"ok".into()), "{}", ready.body);
    let setup = served.stop().await;
    assert_eq!(setup.races().await, vec!["ok 1 200"; 3]);
}

#[tokio::test]
async fn a_database_overwritten_at_run_time_is_reported_and_loses_no_row() {
    let (_fake, served) = serve().await;
    asks(&served, 2).await;
    written(&served, 2).await;
    let noise: Vec<u8> = (0..300_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut file = std::fs::OpenOptions::new().write(true).open(served.setup.database()).unwrap();
    std::io::Write::write_all(&mut file, &noise).unwrap();
    asks(&served, 3).await;
    served.process.logged("was overwritten while it was in use").await;
    assert_eq!(served.get("/readyz", &[]).await.status, 200);
    std::fs::rename(served.setup.database(), served.setup.path("noise.db")).unwrap();
    served.process.logged("all rows that waited in the file are in the database").await;
    let setup = served.stop().await;
    assert_eq!(setup.number("SELECT count(*) FROM race").await, 3);
    assert_eq!(setup.texts("PRAGMA integrity_check").await, ["ok"]);
}

#[tokio::test]
async fn a_deleted_database_is_made_anew() {
    let (_fake, served) = serve().await;
    asks(&served, 1).await;
    written(&served, 1).await;
    for name in ["photofinish.db", "photofinish.db-wal", "photofinish.db-shm"] {
        let _ = std::fs::remove_file(served.setup.path(name));
    }
    asks(&served, 3).await;
    served.process.logged("removed or replaced").await;
    let setup = served.stop().await;
    assert_eq!(setup.number("SELECT count(*) FROM race").await, 3);
    assert_eq!(setup.texts("PRAGMA integrity_check").await, ["ok"]);
}

/// Waits until this many races are on disk, while the gateway runs.
async fn written(served: &RunningGateway, races: i64) {
    let there = async {
        while served.setup.number("SELECT count(*) FROM race").await < races {
            tokio::task::yield_now().await;
        }
    };
    soon("the rows are written", there).await;
}

#[tokio::test]
async fn a_crash_leaves_a_sound_database() {
    let (_fake, served) = serve().await;
    asks(&served, 20).await;
    written(&served, 20).await;
    served.process.signal("KILL");
    assert_eq!(served.process.ended().await, None);
    let setup = served.setup;
    assert_eq!(setup.texts("PRAGMA integrity_check").await, ["ok"]);
    assert_eq!(setup.number("SELECT count(*) FROM attempt").await, 20);
    // The gateway can start again with it.
    let served = setup.serve().await;
    asks(&served, 1).await;
    let setup = served.stop().await;
    assert_eq!(setup.number("SELECT count(*) FROM race").await, 21);
}

async fn refused(setup: &Setup, words: &[&str]) {
    let ran = setup.run(&["serve"]).await;
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    for word in words {
        assert!(ran.err.contains(word), "{word}: {}", ran.err);
    }
    assert!(!ran.err.contains("listening on"), "{}", ran.err);
}

#[tokio::test]
async fn a_directory_without_write_permission_is_reported() {
    let setup = Setup::new("store.url = \"sqlite:sub/history.db\"\n");
    refused(&setup, &["cannot create or open the database", "sub/history.db", "[store]"]).await;
    std::fs::create_dir(setup.path("sub")).unwrap();
    std::fs::set_permissions(setup.path("sub"), std::fs::Permissions::from_mode(0o555)).unwrap();
    // File permissions do not apply to root.
    if std::fs::write(setup.path("sub/probe"), "").is_err() {
        refused(&setup, &["cannot create or open the database", "sub/history.db"]).await;
    }
    let setup = Setup::new("store.url = \"sqlite:/proc/history.db\"\n");
    refused(&setup, &["cannot create or open the database", "/proc/history.db"]).await;
}

#[tokio::test]
async fn a_foreign_database_is_left_alone() {
    let garbage = vec![b'x'; 5_000];
    let setup = Setup::new("");
    setup.write("photofinish.db", &garbage);
    refused(&setup, &["photofinish.db", "not an SQLite database"]).await;
    assert_eq!(setup.run(&["check"]).await.code, Some(1));
    assert_eq!(std::fs::read(setup.database()).unwrap(), garbage);

    let setup = Setup::new("");
    setup.write("photofinish.db", "");
    sqlx::query("CREATE TABLE theirs (a)").execute(&mut setup.connect().await).await.unwrap();
    let before = std::fs::read(setup.database()).unwrap();
    refused(&setup, &["photofinish.db", "another program"]).await;
    assert_eq!(std::fs::read(setup.database()).unwrap(), before);
}

#[tokio::test]
async fn a_newer_database_is_refused() {
    let (_fake, served) = serve().await;
    let setup = served.stop().await;
    let mut connection = setup.connect().await;
    let newer = "INSERT INTO _sqlx_migrations SELECT 9999, description, installed_on, success, checksum, execution_time \
                 FROM _sqlx_migrations LIMIT 1";
    sqlx::query(newer).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    refused(&setup, &["newer photofinish", "9999"]).await;
    let ran = setup.run(&["stats"]).await;
    assert!(ran.code == Some(1) && ran.err.contains("newer photofinish"), "{}", ran.err);
}

#[tokio::test]
async fn a_crash_leaves_no_part_of_a_race() {
    let winner = FakeProvider::answering(|_| Script::sse().token("a").until_closed()).await;
    let loser = FakeProvider::answering(|_| Script::sse().until_closed()).await;
    let quick = FakeProvider::answering(|_| Script::stream(&["a"])).await;
    let providers = [provider("one", &winner), provider("two", &loser), provider("three", &quick)].concat();
    let models = "[models.held]\nupstreams = [\"one/m\", \"two/m\"]\n[models.m]\nupstreams = [\"three/m\"]\n";
    let served = Setup::new(&format!("{providers}{models}")).serve().await;
    let mut client = served.asking("held").await;
    assert_eq!(client.head().await.status, 200);
    // The loser has ended. Its rows are on disk before those of the next race.
    asks(&served, 2).await;
    written(&served, 2).await;
    served.process.signal("KILL");
    assert_eq!(served.process.ended().await, None);
    let setup = served.setup;
    assert_eq!(setup.races().await, vec!["ok 1 200"; 2]);
    let alone = "SELECT count(*) FROM attempt WHERE race_id NOT IN (SELECT race_id FROM race)";
    assert_eq!((setup.number(alone).await, setup.number("SELECT count(*) FROM attempt").await), (0, 2));
}
