//! A database that is locked, deleted, foreign or damaged: requests are served, rows are kept, and the log names the
//! problem.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

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
async fn the_largest_size_of_a_file_is_a_full_disk() {
    let fake = FakeProvider::answering(|_| Script::stream(&["a", "b"])).await;
    let setup = Setup::new(&format!("{}{MODEL}", provider("one", &fake)));
    // Blocks of 512 or 1,024 bytes.
    let process = setup.spawn_by_shell("ulimit -f 8; exec \"$0\" \"$@\"", &["serve"], Stdio::null());
    let addr = process.address("listening on http://").await;
    let served = RunningGateway { setup, process, addr };
    asks(&served, 30).await;
    served.process.logged("the rows stay in memory").await;
    asks(&served, 1).await;
    assert_eq!(served.get("/readyz", &[]).await.json()["store"], "delayed");
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

/// Overwrites the database with noise from `start` on. Its handle is closed at once: this process has no locks on it.
fn overwrite(setup: &Setup, start: usize) {
    use std::os::unix::fs::FileExt;
    let size = std::fs::metadata(setup.database()).unwrap().len().max(300_000);
    let noise: Vec<u8> =
        (0..u32::try_from(size).unwrap()).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let file = std::fs::OpenOptions::new().write(true).open(setup.database()).unwrap();
    file.write_all_at(&noise[start..], start as u64).unwrap();
}

/// Waits until each of these races is in the database, or counted with a file that is no longer in use. Each has one
/// attempt. Returns what `/readyz` says.
async fn accounted_for(served: &RunningGateway, races: i64) -> serde_json::Value {
    let found = async {
        loop {
            let ready = served.get("/readyz", &[]).await.json();
            // Only then there is a file to be read.
            if (&ready["store"], &ready["records_queued"]) == (&"ok".into(), &0.into()) {
                let rows = "SELECT (SELECT count(*) FROM race) + (SELECT count(*) FROM attempt)";
                let aside = ready["records_set_aside"].as_i64().unwrap();
                if served.setup.number(rows).await + aside == 2 * races {
                    return ready;
                }
            }
            tokio::task::yield_now().await;
        }
    };
    soon("every row is in the database or counted", found).await
}

#[tokio::test]
async fn a_database_that_becomes_noise_is_set_aside_and_all_of_it_is_told() {
    for start in [0, 4_096] {
        let (_fake, served) = serve().await;
        // A new database is in its log alone, so its file has nothing that could be damaged.
        sqlx::query("PRAGMA wal_checkpoint").execute(&mut served.setup.connect().await).await.unwrap();
        asks(&served, 5).await;
        written(&served, 5).await;
        overwrite(&served.setup, start);
        asks(&served, 3).await;
        served.process.logged("the database was damaged and was set aside").await;
        assert_eq!(served.get("/readyz", &[]).await.status, 200);
        asks(&served, 2).await;
        let ready = accounted_for(&served, 10).await;
        assert_eq!((&ready["store"], &ready["store_problem"]), (&"ok".into(), &serde_json::Value::Null), "{ready}");
        let aside = ready["set_aside"].as_str().unwrap().to_owned();
        assert!(served.setup.path(&aside).exists());
        let stats = served.get("/api/stats", &[]).await;
        assert_eq!((stats.status, stats.header("x-photofinish-set-aside")), (200, aside.as_str()));
        let metrics = served.get("/metrics", &[]).await.body;
        let counted = format!("photofinish_records_set_aside_total {}\n", ready["records_set_aside"]);
        assert!(metrics.contains(&counted), "{metrics}");
        let setup = served.stop().await;
        assert_eq!(setup.texts("PRAGMA integrity_check").await, ["ok"]);
        let (checked, stats) = (setup.run(&["check"]).await, setup.run(&["stats"]).await);
        assert!(checked.code == Some(0) && checked.out.contains(&aside), "{}", checked.out);
        assert!(stats.out.contains(&aside), "{}", stats.out);
    }
}

#[tokio::test]
async fn a_start_over_a_damaged_database_serves_and_begins_a_new_one() {
    let (_fake, served) = serve().await;
    asks(&served, 5).await;
    let setup = served.stop().await;
    overwrite(&setup, 4_096);
    assert!(setup.run(&["stats"]).await.err.contains("damaged"));
    let served = setup.serve().await;
    asks(&served, 3).await;
    served.process.logged("the database was damaged and was set aside").await;
    accounted_for(&served, 3).await;
    let setup = served.stop().await;
    assert_eq!(setup.number("SELECT count(*) FROM race").await, 3);
    assert_eq!(setup.texts("PRAGMA integrity_check").await, ["ok"]);
}

/// Nothing that is written comes near the damaged page.
#[tokio::test]
async fn damage_that_only_a_reader_meets_is_told_too() {
    let (_fake, served) = serve().await;
    asks(&served, 1).await;
    let setup = served.stop().await;
    let mut connection = setup.connect().await;
    let mut sql = "CREATE TEMP TABLE one AS SELECT * FROM race_row LIMIT 1; ".to_owned();
    for n in 0..200 {
        let race_id = format!("'01900000-{n:04x}' || substr(race_id, 14)");
        sql += &format!(
            "UPDATE one SET race_id = {race_id}, why = 'page {n:03} ' || hex(randomblob(400)); INSERT INTO race_row SELECT * FROM one; "
        );
    }
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    let mut bytes = std::fs::read(setup.database()).unwrap();
    let at = bytes.windows(8).position(|bytes| bytes == b"page 100").unwrap() / 4_096 * 4_096;
    bytes[at..at + 4_096].fill(0xa5);
    std::fs::write(setup.database(), bytes).unwrap();
    let served = setup.serve().await;
    // The first roll-up may meet it before.
    served.get("/api/races?limit=1000", &[]).await;
    asks(&served, 3).await;
    served.process.logged("the database was damaged and was set aside").await;
    let ready = accounted_for(&served, 3).await;
    assert_eq!(ready["store"], "ok", "{ready}");
    assert_eq!(served.get("/api/races?limit=1000", &[]).await.status, 200);
    served.stop().await;
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
    // The first race is there if it had not been read back.
    accounted_for(&served, 4).await;
    let setup = served.stop().await;
    assert!(setup.number("SELECT count(*) FROM race").await >= 3);
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
async fn a_database_from_before_the_first_release_is_refused() {
    let (_fake, served) = serve().await;
    asks(&served, 1).await;
    let setup = served.stop().await;
    let mut connection = setup.connect().await;
    sqlx::query("UPDATE _sqlx_migrations SET checksum = x'01'").execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    let before = std::fs::read(setup.database()).unwrap();
    refused(&setup, &["photofinish.db", "before 0.1.0", "photofinish history export", "move the file away"]).await;
    for command in ["stats", "check"] {
        let ran = setup.run(&[command]).await;
        assert!(ran.code == Some(1) && (ran.err + &ran.out).contains("before 0.1.0"), "{command}");
    }
    assert_eq!(std::fs::read(setup.database()).unwrap(), before);
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
