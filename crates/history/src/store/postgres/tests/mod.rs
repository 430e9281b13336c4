//! The history on a real server: the same rows give the same answers as in a file, and nothing is lost or written twice.

mod cluster;

use std::collections::BTreeSet;
use std::path::Path;

use super::super::tests::{rollup, world};
use super::super::*;
use super::Session;
use crate::record::table::Table;
use crate::record::{AttemptRecord, IncidentRecord, RaceRecord, RunRecord, sample};
use crate::store::database::{Connection as Seam, params};
use cluster::database;
use photofinish_base::clock::wall_micros;

fn filled(path: &Path, records: &[Record]) {
    let store = Store::open(path).unwrap();
    for batch in records.chunks(1_000) {
        assert_eq!(store.take(batch).unwrap(), Taken::default());
    }
    store.close();
}

fn number(path: &Path, sql: &str) -> i64 {
    let session = Session::connect(path).unwrap();
    Seam::Postgres(&session).one(sql, &[], |row| row.get(0)).unwrap()
}

#[test]
fn the_same_rows_give_the_same_figures_in_both_engines() {
    let Some((directory, server)) = database("figures") else { return };
    let file = directory.path().join("history.db");
    let records = world::records(7, 4_000);
    for path in [&file, &server] {
        filled(path, &records);
    }
    let ask = |path: &Path, query: &str| {
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
    let cells = |path: &Path| rollup::counts(&rollup::ask(&rollup::of_cells(path), "by=upstream,model"));
    assert_eq!(cells(&server), cells(&file));
}

#[test]
fn whole_rows_come_back_as_they_were() {
    let Some((directory, server)) = database("rows") else { return };
    let file = directory.path().join("history.db");
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
        let around = reader.clients_around(&looks, Some("fast"), 1).unwrap();
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
        settings: serde_json::Map::new(),
        version: 1,
        sha256: Some([7; 32]),
    };
    let made = AccountChange { before: None, after: Some(entry.clone()) };
    let by = Author { who: "ann".into(), origin: "here".into() };
    store.change(std::slice::from_ref(&made), &by, 3).unwrap();
    assert!(matches!(store.change(&[made], &by, 3), Err(ChangeError::Conflict(subject)) if subject == "key:k"));
    assert_eq!(reader.account(AccountKind::Key, "k").unwrap(), Some(entry));
    assert_eq!(reader.changed_after(0).unwrap(), [(AccountKind::Key, "k".to_owned())]);
    assert_eq!(reader.audit(None, None, 9).unwrap().len(), 1);
    let session = Session::connect(&server).unwrap();
    assert_eq!(session.batch("DELETE FROM audit").unwrap_err().to_string(), "audit is append-only (SQLSTATE P0001)");
    let budget =
        BudgetRow { subject: "everybody".into(), span: "day".into(), start: 5, spent: 1, reserved: 2, estimated: 3 };
    for _ in 0..2 {
        store.save_budgets(std::slice::from_ref(&budget)).unwrap();
    }
    assert_eq!(reader.budgets().unwrap(), [budget]);
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
fn the_schema_has_the_declared_columns() {
    let Some((_directory, server)) = database("columns") else { return };
    Store::open(&server).unwrap();
    let session = Session::connect(&server).unwrap();
    let types = "SELECT column_name || ' ' || data_type FROM information_schema.columns WHERE table_name = ?1";
    let declared = |columns: &[crate::record::table::Column], wide: bool| -> BTreeSet<String> {
        use super::tables::Form;
        let of = |column| match super::tables::form(column) {
            Form::Uuid => "uuid",
            Form::Small if wide => "smallint",
            Form::Integer if wide => "integer",
            Form::Small | Form::Integer | Form::Big => "bigint",
            Form::Real => "double precision",
            Form::Text => "text",
        };
        columns.iter().map(|column| format!("{} {}", columns::stored(column.name), of(column))).collect()
    };
    for (table, columns, wide) in [
        ("race", RaceRecord::COLUMNS, true),
        ("attempt", AttemptRecord::COLUMNS, true),
        ("run", RunRecord::COLUMNS, false),
        ("incident", IncidentRecord::COLUMNS, false),
    ] {
        let found = Seam::Postgres(&session).all(&super::dialect(types), params![table], |row| row.get(0)).unwrap();
        assert_eq!(found.into_iter().collect::<BTreeSet<String>>(), declared(columns, wide), "{table}");
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
    let session = Session::connect(&server).unwrap();
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
