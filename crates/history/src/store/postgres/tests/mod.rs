//! The history on a real server: the same rows give the same answers as in a file, and nothing is lost or written twice.

mod cluster;
mod replicas;
#[path = "../../../../../../tests/support/postgres.rs"]
mod server;

use std::collections::BTreeSet;

use super::super::tests::{documentation, rollup, world};
use super::super::*;
use crate::store::database::{Connection as Seam, params};
use cluster::{counted, database};
use photofinish_base::clock::wall_micros;
use photofinish_facts::record::table::Table;
use photofinish_facts::record::{AttemptRecord, IncidentRecord, RaceRecord, RunRecord, sample};
use serde_json::Map;

fn filled(path: &StoreAddress, records: &[Record]) {
    let store = Store::open(path).unwrap();
    for batch in records.chunks(1_000) {
        assert_eq!(store.take(batch).unwrap(), Taken::default());
    }
    store.close();
}

fn number(path: &StoreAddress, sql: &str) -> i64 {
    let session = cluster::connect(path).unwrap();
    Seam::Postgres(&session).one(sql, &[], |row| row.get(0)).unwrap()
}

#[test]
fn the_same_rows_give_the_same_figures_in_both_engines() {
    let Some((directory, server)) = database("figures") else { return };
    let file = StoreAddress::from(directory.path().join("history.db"));
    let records = world::records(7, 4_000);
    for path in [&file, &server] {
        filled(path, &records);
    }
    let ask = |path: &StoreAddress, query: &str| {
        let rows = StoreReader::open(path).unwrap();
        let mut stats = rollup::ask(&rows, query);
        stats.groups.sort_by_key(|group| format!("{:?}", group.keys));
        format!("{stats:?}")
    };
    let queries = ["", "by=model", "by=user", "by=weekday", "model=fast", "provider=groq&by=hour"];
    for rolled in [false, true] {
        if rolled {
            for path in [&file, &server] {
                assert!(rollup::roll(path, None).len() > 50);
            }
        }
        for query in queries.iter().map(|query| (*query).to_owned()).chain(rollup::windows()) {
            assert_eq!(ask(&server, &query), ask(&file, &query), "{query}, rolled up: {rolled}");
        }
    }
    let cells = |path: &StoreAddress| rollup::counts(&rollup::ask(&rollup::of_cells(path), "by=upstream,model"));
    assert_eq!(cells(&server), cells(&file));
}

#[test]
fn whole_rows_come_back_as_they_were() {
    let Some((directory, server)) = database("rows") else { return };
    let file = StoreAddress::from(directory.path().join("history.db"));
    let records = world::records(3, 200);
    let mut both = Vec::new();
    for path in [&file, &server] {
        filled(path, &records);
        let reader = StoreReader::open(path).unwrap();
        let all = AttemptFilter { source: SourceFilter::All, ..AttemptFilter::default() };
        let mut rows = Vec::new();
        let mut add = |row| {
            rows.push(row);
            std::ops::ControlFlow::Continue(())
        };
        reader.rows::<RaceRecord>(&all, &mut add).unwrap();
        reader.rows::<AttemptRecord>(&all, &mut add).unwrap();
        let page = RaceFilter { limit: 50, ..RaceFilter::default() };
        let races = reader.races(&page).unwrap();
        let id = races[3]["race_id"].as_str().unwrap().to_owned();
        let before = reader.races(&RaceFilter { before: Some(id.clone()), ..page }).unwrap();
        let mut recorded = Vec::new();
        reader
            .recorded(&RecordedFilter { newest: 100, ..RecordedFilter::default() }, |race| recorded.push(race))
            .unwrap();
        let upstreams = ["groq/llama".to_owned(), "my-vllm/qwen".to_owned()];
        reader.recorded_of(&upstreams, 20, |race| recorded.push(race)).unwrap();
        let looks = reader.looks(&all).unwrap();
        let around = reader.clients_around(&looks, &all).unwrap();
        let mut left_out = reader.left_out(&all).unwrap();
        left_out.sort_by_key(|(reason, _)| *reason as usize);
        assert!(recorded.len() > 100 && looks.len() > 5);
        both.push((
            rows,
            races,
            before,
            reader.race(&id).unwrap(),
            recorded,
            format!("{looks:?} {around:?} {left_out:?}"),
            reader.oldest(SourceFilter::All).unwrap(),
        ));
    }
    assert!(both[0] == both[1]);
}

#[test]
fn what_a_start_remembers_takes_few_exchanges() {
    let Some((directory, server)) = database("pages") else { return };
    let Some((_between, through, exchanges)) = counted(&server) else { return };
    let file = StoreAddress::from(directory.path().join("history.db"));
    let records = world::records(11, 6_000);
    let mut both = Vec::new();
    for path in [&file, &server] {
        filled(path, &records);
        let path = if path == &server { &through } else { path };
        let upstreams = ["groq/llama".to_owned(), "my-vllm/qwen".to_owned(), "nobody/nothing".to_owned()];
        let mut recorded = Vec::new();
        StoreReader::open(path).unwrap().recorded_of(&upstreams, 4_000, |race| recorded.push(race)).unwrap();
        assert!(recorded.is_sorted_by(|one, next| one.race_id < next.race_id), "each once, oldest first");
        both.push(recorded);
    }
    assert!(both[0] == both[1] && both[0].len() > 2_500, "{}", both[0].len());
    let exchanges = exchanges.load(std::sync::atomic::Ordering::Relaxed);
    assert!(exchanges < 50, "{exchanges} exchanges for {} races", both[0].len());
}

#[test]
fn a_batch_that_is_sent_twice_is_there_once() {
    let Some((_directory, server)) = database("twice") else { return };
    let records = world::records(5, 300);
    let store = Store::open(&server).unwrap();
    store.write(&records[..200]).unwrap();
    for _ in 0..2 {
        store.write(&records).unwrap();
    }
    let doubled: Vec<Record> = records.iter().chain(&records).cloned().collect();
    store.write(&doubled).unwrap();
    let races = records.iter().filter(|record| matches!(record, Record::Race(_))).count() as i64;
    assert_eq!(number(&server, "SELECT count(*) FROM race"), races);
    assert_eq!(number(&server, "SELECT count(*) FROM attempt"), records.len() as i64 - races);
}

#[test]
fn rows_that_no_database_takes_are_put_apart_and_rows_of_another_time_astray() {
    let Some((directory, server)) = database("refused") else { return };
    let store = Store::open(&server).unwrap();
    let odd = |race_id: &str| Record::Race(Box::new(RaceRecord { race_id: race_id.into(), ..sample::race(1) }));
    let nul = Record::Race(Box::new(RaceRecord { model: "a\0b".into(), ..sample::race(2) }));
    let early = odd("00000000-0001-7000-8000-000000000000");
    let taken = store.take(&[odd("no uuid"), nul, early.clone(), early]).unwrap();
    assert_eq!((taken.refused, taken.lost), (1, 0));
    let refused = std::fs::read_to_string(directory.path().join("x.spill.db.refused")).unwrap();
    assert!(refused.contains("no uuid") && refused.lines().count() == 1);
    assert_eq!(number(&server, "SELECT count(*) FROM race"), 1);
    assert_eq!(number(&server, "SELECT count(*) FROM stray"), 1);
    assert!(stray_rows() >= 1);
    let reader = StoreReader::open(&server).unwrap();
    let [row] = &reader
        .races(&RaceFilter {
            limit: 9,
            races: AttemptFilter { source: SourceFilter::All, ..AttemptFilter::default() },
            ..RaceFilter::default()
        })
        .unwrap()[..]
    else {
        panic!()
    };
    assert_eq!(row["model"], "a\u{fffd}b");
}

#[test]
fn runs_incidents_accounts_and_verdicts_are_kept() {
    let Some((_directory, server)) = database("others") else { return };
    let store = Store::open(&server).unwrap();
    let ended = RunRecord { ended_at: Some(9), ..sample::run(1) };
    for run in
        [RunRecord { ended_at: None, ..ended.clone() }, ended.clone(), RunRecord { ended_at: None, ..ended.clone() }]
    {
        store.write(&[Record::Run(Box::new(run))]).unwrap();
    }
    let incident = IncidentRecord { updated_at: 5, ..sample::incident(1) };
    for at in [5, 7, 6] {
        store.write(&[Record::Incident(Box::new(IncidentRecord { updated_at: at, ..incident.clone() }))]).unwrap();
    }
    let reader = StoreReader::open(&server).unwrap();
    let runs = reader.runs(&RunFilter { limit: 9, ..RunFilter::default() }).unwrap();
    assert_eq!((runs.len(), &runs[0]["ended_at"]), (1, &serde_json::json!(9)));
    assert!(matches!(reader.run(&ended.run_id[..9]).unwrap(), RunSearch::Found(_)));
    let found = reader
        .incidents(&IncidentFilter { limit: 9, provider: Some("groq".into()), ..IncidentFilter::default() })
        .unwrap();
    assert!(found.iter().all(|incident| incident.updated_at == 7));

    let entry = AccountEntry {
        kind: AccountKind::Key,
        id: "k".into(),
        settings: serde_json::Map::from_iter([("user".to_owned(), "a_\\%".into())]),
        version: 1,
        sha256: Some([7; 32]),
    };
    let made = AccountChange { before: None, after: Some(entry.clone()) };
    let by = Author { who: "ann".into(), origin: "here".into() };
    store.change(std::slice::from_ref(&made), &by, 3).unwrap();
    assert!(matches!(store.change(&[made], &by, 3), Err(ChangeError::Conflict(subject)) if subject == "key:k"));
    assert_eq!(reader.account(AccountKind::Key, "k").unwrap(), Some(entry.clone()));
    assert_eq!(reader.entries_after(AccountKind::Key, "j", 9).unwrap(), std::slice::from_ref(&entry));
    assert_eq!(reader.entries_after(AccountKind::Key, "k", 9).unwrap(), []);
    assert_eq!(reader.entries_named(AccountKind::Key, &["k", "l"]).unwrap(), std::slice::from_ref(&entry));
    assert_eq!(reader.entries_of(AccountKind::Key, "user", "a_\\%").unwrap(), std::slice::from_ref(&entry));
    assert_eq!(reader.entries_of(AccountKind::Key, "user", "ab\\%").unwrap(), []);
    assert_eq!(reader.changed_after(0).unwrap(), Some(vec![(AccountKind::Key, "k".to_owned())]));
    assert_eq!(reader.audit(None, None, 9).unwrap().len(), 1);
    let session = cluster::connect(&server).unwrap();
    assert_eq!(session.batch("DELETE FROM audit").unwrap_err().to_string(), "audit is append-only (SQLSTATE P0001)");
    let sampled = SampleRow { at: 5, host: "a/m".into(), prompt: 3, number: 1, letters: vec![7, 65_535] };
    store.save_sample("m", std::slice::from_ref(&sampled)).unwrap();
    assert_eq!(reader.sample("m").unwrap(), [sampled]);
    let verdict = VerdictRow {
        at: 1,
        model: "m".into(),
        host: "h".into(),
        fact: "stop".into(),
        answer: "no".into(),
        reference: String::new(),
        detail: String::new(),
        wrong: true,
    };
    for _ in 0..2 {
        store.save_verdicts(std::slice::from_ref(&verdict)).unwrap();
    }
    assert_eq!(reader.verdicts(None).unwrap(), [verdict]);
    assert!(reader.extent().unwrap().file_bytes > 1_000_000);
}

#[test]
fn sessions_and_the_file_in_force_are_kept() {
    let Some((_directory, server)) = database("sessions") else { return };
    let store = Store::open(&server).unwrap();
    let by = Author { who: "ann".into(), origin: "here".into() };
    for (told, before) in [("1", None), ("2", Some("1")), ("2", Some("never compared"))] {
        let changes = |kept: Option<&str>| {
            assert_eq!(kept, before);
            Vec::new()
        };
        store.enter(("file", told), changes, (&by, 3)).unwrap();
    }
    for number in 1..=3 {
        store.keep_session(&[number; 32], ("sealed", 10 * i64::from(number)), 15).unwrap();
    }
    store.end_sessions(&[[2; 32]]).unwrap();
    let reader = StoreReader::open(&server).unwrap();
    assert_eq!(
        (reader.session(&[3; 32], 15).unwrap(), reader.session(&[2; 32], 15).unwrap()),
        (Some(("sealed".into(), 30)), None)
    );
    assert_eq!(reader.sessions().unwrap().into_iter().collect::<Vec<_>>(), [[3; 32]]);
}

#[test]
fn the_schema_has_the_declared_columns() {
    let Some((_directory, server)) = database("columns") else { return };
    Store::open(&server).unwrap();
    let session = cluster::connect(&server).unwrap();
    let types = "SELECT column_name || ' ' || data_type FROM information_schema.columns WHERE table_name = ?1";
    let declared = |columns: &[photofinish_facts::record::table::Column], wide: bool| -> BTreeSet<String> {
        use super::tables::ColumnForm;
        let of = |column| match super::tables::form(column) {
            ColumnForm::Uuid => "uuid",
            ColumnForm::Small if wide => "smallint",
            ColumnForm::Integer if wide => "integer",
            ColumnForm::Small | ColumnForm::Integer | ColumnForm::Big => "bigint",
            ColumnForm::Real => "double precision",
            ColumnForm::Text => "text",
        };
        columns.iter().map(|column| format!("{} {}", columns::stored(column.name), of(column))).collect()
    };
    for (table, columns, wide) in [
        ("race", RaceRecord::COLUMNS, true),
        ("attempt", AttemptRecord::COLUMNS, true),
        ("run", RunRecord::COLUMNS, false),
        ("incident", IncidentRecord::COLUMNS, false),
    ] {
        let found = Seam::Postgres(&session)
            .all(&crate::store::database::dialect::dialect(types), params![table], |row| row.get(0))
            .unwrap();
        let mut found: BTreeSet<String> = found.into_iter().collect();
        // For the other gateways alone.
        let more = ["replica integer", "arrived bigint"].map(|column| found.remove(column));
        assert_eq!(more, [table == "race"; 2]);
        assert_eq!(found, declared(columns, wide), "{table}");
    }
}

#[test]
fn a_day_is_removed_once_it_is_rolled_up() {
    let Some((_directory, server)) = database("retention") else { return };
    let records = world::records(11, 600);
    filled(&server, &records);
    let keep_from = world::START_US + 2 * columns::DAY_US + 1;
    let before = rollup::counts(&rollup::ask(&rollup::of_cells(&server), ""));
    let steps = rollup::roll(&server, Some(keep_from));
    assert_eq!(steps.iter().filter(|step| matches!(step, RollupStep::Removed { .. })).count(), 2);
    let oldest = number(&server, "SELECT count(*) FROM race WHERE started_at < 1767484800000000");
    assert_eq!(oldest, 0);
    assert!(number(&server, "SELECT count(*) FROM race") > 0);
    assert_eq!(
        number(&server, "SELECT count(*) FROM pg_class WHERE relname IN ('race_20260102', 'attempt_20260103')"),
        0
    );
    assert_eq!(rollup::counts(&rollup::ask(&rollup::of_cells(&server), "")), before);
    // A late row finds its partition made again.
    Store::open(&server).unwrap().write(&records[..1]).unwrap();
}

#[test]
fn days_are_made_ahead_and_a_duty_is_held_by_one() {
    let Some((_directory, server)) = database("duties") else { return };
    Store::open(&server).unwrap();
    assert_eq!(number(&server, "SELECT count(*) FROM pg_inherits WHERE inhparent = CAST('race' AS regclass)"), 8);
    let session = cluster::connect(&server).unwrap();
    for _ in 0..2 {
        assert!(super::holds_duty(&session, "rollup").unwrap());
    }
    session.batch("UPDATE duty SET replica = 'another'").unwrap();
    assert!(!super::holds_duty(&session, "rollup").unwrap());
    session.batch("UPDATE duty SET until = 5").unwrap();
    assert!(super::holds_duty(&session, "rollup").unwrap());
    assert_eq!(number(&server, "SELECT epoch FROM duty"), 2);
    let now = wall_micros();
    let until = number(&server, "SELECT until FROM duty");
    assert!((now..now + 200_000_000).contains(&until));
}

/// The text of an error, which has no password.
fn message(error: impl std::fmt::Display) -> String {
    let text = error.to_string();
    assert!(!text.contains(cluster::PASSWORD), "{text}");
    text
}

#[test]
fn each_bad_database_is_one_clear_line() {
    let Some((directory, server)) = database("bad") else { return };
    let url = cluster::url_of(&server);
    let open = |url: &str| {
        let path = cluster::named(url, directory.path());
        message(Store::open(&path).map(drop).unwrap_err())
    };
    let other_user = url.replace("gateway:", "nobody_here:");
    let run = |sql: &str| cluster::connect(&server).unwrap().batch(sql).unwrap();
    let cases = [
        (open(&url.replace(cluster::PASSWORD, "wrong")), "the server refuses the user or the password"),
        (open(&other_user), "the server refuses the user or the password"),
        (open(&url.replace("/pf_bad", "/pf_absent")), "Create it (`createdb`)"),
        (open("postgres://gateway@localhost/x?host=/nowhere"), "Start the server, or correct the url"),
        (message(StoreReader::open(&server).map(drop).unwrap_err()), "there is no database at postgres://"),
    ];
    for (text, expected) in cases {
        assert!(text.contains(expected) && text.contains("postgres://"), "{text}");
    }
    run("CREATE TABLE orders (id bigint)");
    assert!(message(Store::open(&server).map(drop).unwrap_err()).contains("the database of another program"));
    run("DROP TABLE orders");
    let apart = cluster::named_as(&url, directory.path(), false);
    assert!(message(Store::open(&apart).map(drop).unwrap_err()).contains("run `photofinish migrate`"));
    assert_eq!(Store::migrate(&server).unwrap(), (0, 1));
    assert_eq!(Store::migrate(&server).unwrap(), (1, 1));
    let reader = format!("pf_reader_{}", std::process::id());
    run(&format!(
        "CREATE ROLE {reader} LOGIN PASSWORD '{0}'; GRANT SELECT ON ALL TABLES IN SCHEMA public TO {reader}",
        cluster::PASSWORD
    ));
    let reading = cluster::named(&url.replace("gateway:", &format!("{reader}:")), directory.path());
    StoreReader::open(&reading).unwrap().runs(&RunFilter { limit: 1, ..RunFilter::default() }).unwrap();
    assert!(message(Store::open(&reading).map(drop).unwrap_err()).contains("this user may only read"));
    drop(cluster::connect(&server).unwrap());
    run(
        "INSERT INTO _photofinish_migrations (version, description, success, checksum, execution_time) VALUES (99, 'later', true, '', 0)",
    );
    assert!(message(Store::open(&server).map(drop).unwrap_err()).contains("newer photofinish (its migration 99"));
    run("DELETE FROM _photofinish_migrations WHERE version = 99; DROP TABLE incident");
    let reader = StoreReader::open(&server).unwrap();
    assert!(
        message(reader.incidents(&IncidentFilter::default()).unwrap_err())
            .contains("A table of the history is missing")
    );
    run(&format!(
        "REASSIGN OWNED BY {0} TO gateway; DROP OWNED BY {0}; DROP ROLE {0}",
        format_args!("pf_reader_{}", std::process::id())
    ));
}

/// It has the list of the gateway's migrations, and other tables.
#[test]
fn a_database_from_before_the_first_release_is_refused_and_stays_as_it_is() {
    let Some((directory, server)) = database("unreleased") else { return };
    let run = |sql: &str| cluster::connect(&server).unwrap().batch(sql).unwrap();
    run("CREATE TABLE race (race_id text); INSERT INTO race VALUES ('1'); \
         CREATE TABLE _photofinish_migrations (version bigint PRIMARY KEY, checksum bytea NOT NULL)");
    let apart = cluster::named_as(&cluster::url_of(&server), directory.path(), false);
    for entered in ["", "INSERT INTO _photofinish_migrations VALUES (1, '\\x01')"] {
        run(entered);
        for path in [&server, &apart] {
            let errors = [
                Store::open(path).map(drop).unwrap_err(),
                StoreReader::open(path).map(drop).unwrap_err(),
                Store::migrate(path).map(drop).unwrap_err(),
            ];
            for error in errors {
                assert!(!error.may_pass(), "a start ends");
                let text = message(error);
                assert!(text.contains("from before 0.1.0") && text.contains("name an empty database"), "{text}");
            }
        }
    }
    assert_eq!(number(&server, "SELECT count(*) FROM race"), 1);
    assert_eq!(number(&server, "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"), 3);
}

#[test]
fn a_server_that_gives_one_connection_gives_the_same_answer() {
    let Some((directory, server)) = database("one") else { return };
    filled(&server, &world::records(19, 4_000));
    let one = format!("pf_one_{}", std::process::id());
    let run = |sql: &str| cluster::connect(&server).unwrap().batch(sql).unwrap();
    run(&format!(
        "CREATE ROLE {one} LOGIN CONNECTION LIMIT 1 PASSWORD '{0}'; GRANT SELECT ON ALL TABLES IN SCHEMA public TO {one}",
        cluster::PASSWORD
    ));
    let url = cluster::url_of(&server).replace("gateway:", &format!("{one}:"));
    let limited = cluster::named(&url, directory.path());
    let ask = |path: &StoreAddress| {
        let reader = StoreReader::open(path).unwrap();
        let stats = rollup::ask(&reader, "by=upstream,model");
        assert!(stats.attempts > EXACT_MAX / 20, "two connections share this number of rows");
        (rollup::counts(&stats), reader)
    };
    let (answer, reader) = ask(&limited);
    assert!(cluster::connect(&limited).is_err(), "it has one");
    assert_eq!(answer, ask(&server).0);
    drop(reader);
    run(&format!("DROP OWNED BY {one}; DROP ROLE {one}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn rows_wait_while_the_server_is_away_and_come_back_once() {
    let Some((directory, server)) = database("away") else { return };
    let (recorder, writer) = crate::recorder::Recorder::start(Store::open(&server).unwrap());
    let name = cluster::name_of(&server);
    let admin = || {
        cluster::connect(&cluster::named(&cluster::url_of(&server).replace(&name, "postgres"), directory.path()))
            .unwrap()
    };
    let records = world::records(17, 900);
    let mut parts = records.chunks(records.len() / 3 + 1);
    let mut send = || {
        for record in parts.next().unwrap() {
            match record.clone() {
                Record::Race(race) => recorder.race(*race, None),
                Record::Attempt(attempt) => recorder.attempt(*attempt, None, 0),
                Record::Run(_) | Record::Incident(_) => {}
            }
        }
    };
    send();
    recorder.until_written(std::time::Duration::from_secs(20)).await;
    admin().batch(&format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false")).unwrap();
    admin().batch(&format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")).unwrap();
    send();
    while recorder.spilled() == 0 {
        tokio::task::yield_now().await;
    }
    assert!(directory.path().join("x.spill.db").exists());
    admin().batch(&format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true")).unwrap();
    recorder.until_stored().await;
    send();
    while recorder.depth() > 0 {
        tokio::task::yield_now().await;
    }
    drop(recorder);
    assert_eq!(writer.finish(std::time::Duration::from_secs(20)).await, 0);
    assert!(!directory.path().join("x.spill.db").exists());
    let races = records.iter().filter(|record| matches!(record, Record::Race(_))).count() as i64;
    assert_eq!(number(&server, "SELECT count(*) FROM race"), races);
    assert_eq!(number(&server, "SELECT count(*) FROM attempt"), records.len() as i64 - races);
}

#[test]
fn a_history_is_copied_once_however_often() {
    let Some((directory, server)) = database("copy") else { return };
    let file = StoreAddress::from(directory.path().join("history.db"));
    let records = world::records(23, 500);
    filled(&file, &records);
    enter_user(&file, "ann", 3);
    let store = Store::open(&file).unwrap();
    store.write(&[Record::Run(Box::new(RunRecord { started_at: world::NOW_US, ..sample::run(1) }))]).unwrap();
    store.close();
    // Two days are figures only.
    rollup::roll(&file, Some(world::START_US + 2 * columns::DAY_US));
    let figures = |path: &StoreAddress| rollup::counts(&rollup::ask(&rollup::of_cells(path), "by=model"));
    for times in 0..2 {
        let copied = copy_history(file.local_file(), &server, |_| {}).unwrap();
        assert_eq!((copied.refused, copied.hours > 30, copied.lines), (0, times == 0, if times == 0 { 2 } else { 0 }));
        rollup::roll(&server, None);
        assert_eq!(figures(&server), figures(&file));
    }
    let kept = "SELECT count(*) FROM race";
    let there = StoreReader::open(&file).unwrap().opened.connection().one(kept, &[], |row| row.get::<i64>(0)).unwrap();
    assert_eq!(number(&server, kept), there);
    assert_eq!(number(&server, "SELECT count(*) FROM run"), 1);
    // Gateways that run hear of the copied key, once.
    let reader = StoreReader::open(&server).unwrap();
    assert_eq!((reader.account_changes().unwrap(), reader.changed_after(1).unwrap()), (2, None));
    // The audit goes on behind its last line.
    enter_user(&server, "bob", 4);
    assert_eq!(reader.changed_after(2).unwrap(), Some(vec![(AccountKind::User, "bob".to_owned())]));
}

fn enter_user(path: &StoreAddress, id: &str, at: i64) {
    let entry = AccountEntry { kind: AccountKind::User, id: id.into(), settings: Map::new(), version: 1, sha256: None };
    let by = Author { who: "ann".into(), origin: "here".into() };
    let store = Store::open(path).unwrap();
    store.change(&[AccountChange { before: None, after: Some(entry) }], &by, at).unwrap();
    store.close();
}

#[test]
fn a_line_of_the_audit_whose_number_is_taken_gets_another_one() {
    let Some((directory, server)) = database("lines") else { return };
    for (name, target) in [("of-server.db", server), ("of-file.db", directory.path().join("target.db").into())] {
        let file = StoreAddress::from(directory.path().join(name));
        enter_user(&file, "bob", 1);
        copy_history(file.local_file(), &target, |_| {}).unwrap();
        // The gateways of both go on.
        enter_user(&file, "eve", 3);
        enter_user(&target, "joe", 4);
        enter_user(&file, "kim", 5);
        for _ in 0..2 {
            copy_history(file.local_file(), &target, |_| {}).unwrap();
        }
        enter_user(&target, "pat", 6);
        let lines = StoreReader::open(&target).unwrap().audit(None, None, 99).unwrap();
        let subjects: Vec<&str> = lines.iter().rev().map(|line| line.subject.as_str()).collect();
        let copied = "history:copied";
        assert_eq!(subjects, ["user:bob", copied, "user:joe", "user:eve", "user:kim", copied, "user:pat"], "{name}");
    }
}

#[test]
fn a_copy_waits_for_the_audit_before_it_has_an_account() {
    let Some((directory, server)) = database("order") else { return };
    let file = StoreAddress::from(directory.path().join("history.db"));
    Store::open(&file).unwrap().close();
    let user = "INSERT INTO account (id, settings, version, changed_at) VALUES ('ann', '{}', 1, 3)";
    rusqlite::Connection::open(file.local_file()).unwrap().execute_batch(user).unwrap();
    Store::open(&server).unwrap().close();
    // As a change of the same user does it.
    let session = cluster::connect(&server).unwrap();
    let change = Seam::Postgres(&session).change().unwrap();
    session.batch("LOCK TABLE audit IN EXCLUSIVE MODE").unwrap();
    let copying = {
        let server = server.clone();
        std::thread::spawn(move || copy_history(file.local_file(), &server, |_| {}))
    };
    let waits = "SELECT count(*) FROM pg_locks WHERE relation = 'audit'::regclass AND NOT granted";
    while number(&server, waits) == 0 {
        assert!(!copying.is_finished());
    }
    session.batch(user).unwrap();
    change.commit().unwrap();
    assert_eq!(copying.join().unwrap().unwrap().lines, 0);
}

#[test]
fn the_queries_of_the_documentation_have_the_same_answers() {
    let Some((directory, server)) = database("queries") else { return };
    let file = StoreAddress::from(directory.path().join("history.db"));
    let mut records = world::records(29, 400);
    let of_race =
        |record: &Record| matches!(record, Record::Race(_)).then(|| record.race_id().map(str::to_owned)).flatten();
    let races: BTreeSet<String> = records.iter().filter_map(of_race).collect();
    // An attempt without its race has no hour, and nulls come first in a descending order there.
    records.retain(|record| record.race_id().is_some_and(|id| races.contains(id)));
    for path in [&file, &server] {
        filled(path, &records);
    }
    let now = format!("CAST({} AS BIGINT)", world::NOW_US / 1_000_000);
    let queries = documentation::SQL.split("```sql\n").skip(1).map(|rest| rest.split(";\n```").next().unwrap());
    let queries: Vec<String> = queries.map(|query| query.replace("unixepoch()", &now)).collect();
    assert_eq!(queries.len(), 11);
    let (from, to) = (StoreReader::open(&file).unwrap(), StoreReader::open(&server).unwrap());
    for query in queries {
        let of_file = from.ask(|connection| super::super::races::rows(connection, &query, &[])).unwrap();
        let json = format!("SELECT CAST(row_to_json(answer) AS TEXT) FROM ({query}) AS answer");
        let of_server: Vec<String> = to.ask(|connection| connection.all(&json, &[], |row| row.get(0))).unwrap();
        let values = |row: &ExportRow| -> Vec<String> {
            let value = |value: &serde_json::Value| match value.as_f64() {
                Some(number) => format!("{number:.4}"),
                None => value.to_string(),
            };
            row.values().map(value).collect()
        };
        let of_server = of_server.iter().map(|row| values(&serde_json::from_str(row).unwrap()));
        let [mut of_file, mut of_server]: [Vec<_>; 2] = [of_file.iter().map(values).collect(), of_server.collect()];
        // Equal keys of an order may come in any.
        of_file.sort();
        of_server.sort();
        let differ = of_file.iter().zip(&of_server).find(|(of_file, of_server)| of_file != of_server);
        assert_eq!((of_file.len(), differ), (of_server.len(), None), "{query}");
        assert!(!of_file.is_empty(), "{query}");
    }
}

#[test]
fn an_attempt_takes_at_most_400_bytes_with_its_key() {
    let Some((_directory, server)) = database("space") else { return };
    let store = Store::open(&server).unwrap();
    let mut records = world::records(31, 10_000);
    for record in &mut records {
        // What few providers say.
        let Record::Attempt(attempt) = record else { continue };
        **attempt = AttemptRecord {
            server_queue_us: None,
            server_prefill_us: None,
            server_decode_us: None,
            server_total_us: None,
            ratelimit_remaining_requests: None,
            ratelimit_remaining_tokens: None,
            retry_after_ms: None,
            calls: None,
            structured: None,
            tool_set: None,
            service_tier: None,
            ..(**attempt).clone()
        };
    }
    for batch in records.chunks(1_000) {
        store.write(batch).unwrap();
    }
    let bytes = |table: &str| {
        // The maps of free space and of visible pages are left out: they belong to a day, and the server makes them when it likes.
        let sum = "CAST(sum(pg_relation_size(inhrelid) + pg_indexes_size(inhrelid)) AS BIGINT)";
        number(&server, &format!("SELECT {sum} FROM pg_inherits WHERE inhparent = CAST('{table}' AS regclass)"))
    };
    let [attempts, races] = ["attempt", "race"].map(|table| number(&server, &format!("SELECT count(*) FROM {table}")));
    let (of_attempt, of_race) = (bytes("attempt") / attempts, bytes("race") / races);
    assert!(of_attempt <= 400 && of_race <= 510, "{of_attempt} {of_race}");
}
