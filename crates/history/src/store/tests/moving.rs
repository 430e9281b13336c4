//! Moving the rows of an older file into the narrow tables, and the narrow form of every value.

use proptest::prelude::*;

use super::*;
use crate::record::sample;
use crate::record::table::{CellValue, Table as _};
use crate::store::moving::{self, MoveProgress};

/// A file of the last edition with wide rows, with these records.
async fn wide(records: &[Record]) -> (TempDir, PathBuf) {
    let (directory, path) = old_store(20).await;
    let (_narrow, source, store) = new_store().await;
    store.write(records).unwrap();
    store.close();
    copy_rows(&source, &path).await;
    let spans = "INSERT INTO rollup_span SELECT * FROM source.rollup_span";
    let mut connection = plain(&path).await;
    sqlx::query("ATTACH ? AS source").bind(source.to_str().unwrap()).execute(&mut connection).await.unwrap();
    sqlx::query(spans).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    (directory, path)
}

/// All rows, as a reader shows them.
fn shown(path: &Path) -> Vec<ExportRow> {
    let reader = StoreReader::open(path).unwrap();
    let mut rows = Vec::new();
    let mut keep = |row| {
        rows.push(row);
        std::ops::ControlFlow::Continue(())
    };
    let all = AttemptFilter { source: SourceFilter::All, ..AttemptFilter::default() };
    reader.rows::<RaceRecord>(&all, &mut keep).unwrap();
    reader.rows::<AttemptRecord>(&all, &mut keep).unwrap();
    rows
}

fn connection(path: &Path) -> Connection {
    open::roller(path).unwrap()
}

/// What a step does when the process is killed in the middle of it: its transaction is not committed.
fn step(path: &Path) -> MoveProgress {
    moving::step(&mut connection(path), &mut narrow::Names::default()).unwrap()
}

async fn tables(path: &Path) -> String {
    let sql = "SELECT group_concat(type || ' ' || name, ', ') FROM sqlite_schema WHERE name IN \
               ('race', 'attempt', 'race_old', 'attempt_old', 'moved', 'race_started_at')";
    sqlx::query_scalar(sql).fetch_one(&mut plain(path).await).await.unwrap()
}

#[tokio::test]
async fn rows_of_an_older_file_are_moved_while_others_come_and_go() {
    let (_directory, path) = wide(&world::records(71, 2_000)).await;
    let (before, answers) = (shown(&path), apart::answers(&path, ""));
    assert!(!tables(&path).await.contains("moved"), "a reader does not migrate");
    let store = Store::open(&path).unwrap();
    assert_eq!(shown(&path), before);
    assert!(tables(&path).await.contains("table race"));

    assert_eq!(step(&path), MoveProgress::Some);
    // Rows that come meanwhile, before and behind the place that the moving has come to, some of them twice.
    let late: Vec<Record> = [-1, 10_000_000].map(|n| vec![race(sample::race(n)), attempt(sample::won(n))]).concat();
    store.write(&late).unwrap();
    store.write(&late).unwrap();
    let mut expected = shown(&path);
    assert_eq!(expected.len(), before.len() + 4);
    // And rows that go: those of the first race.
    let gone = expected[0]["race_id"].clone();
    for table in ["race", "attempt"] {
        let sql = format!("DELETE FROM {table} WHERE race_id = ?");
        sqlx::query(AssertSqlSafe(sql)).bind(gone.as_str()).execute(&mut plain(&path).await).await.unwrap();
    }
    expected.retain(|row| row["race_id"] != gone);

    let mut steps = 0;
    while step(&path) == MoveProgress::Some {
        assert_eq!(shown(&path).len(), expected.len(), "{steps}");
        steps += 1;
    }
    assert!(steps > 6, "{steps}");
    assert_eq!(shown(&path), expected);
    assert_eq!(tables(&path).await, "view race, view attempt");
    assert_eq!(step(&path), MoveProgress::Nothing);
    store.write(&late).unwrap();
    assert_eq!(shown(&path), expected);
    let (_directory, path) = wide(&world::records(71, 2_000)).await;
    Store::open(&path).unwrap().close();
    while step(&path) == MoveProgress::Some {}
    assert_eq!(apart::answers(&path, ""), answers, "figures are the same");
    let integrity: String =
        sqlx::query_scalar("PRAGMA integrity_check").fetch_one(&mut plain(&path).await).await.unwrap();
    assert_eq!(integrity, "ok");
}

/// A view of another version is replaced; a file that is moved only later gets the columns of that version.
#[tokio::test]
async fn views_and_columns_of_another_version_are_brought_up_to_date() {
    let (_directory, path, store) = new_store().await;
    store.write(&[race(sample::race(0)), attempt(sample::won(0))]).unwrap();
    let expected = shown(&path);
    store.close();
    let older = "DROP VIEW attempt; CREATE VIEW attempt AS SELECT race_id, ordinal FROM attempt_row";
    sqlx::raw_sql(older).execute(&mut plain(&path).await).await.unwrap();
    Store::open(&path).unwrap().close();
    assert_eq!(shown(&path), expected);

    let (_directory, path) = wide(&world::records(74, 400)).await;
    sqlx::raw_sql("ALTER TABLE attempt DROP COLUMN tool_set").execute(&mut plain(&path).await).await.unwrap();
    let store = Store::open(&path).unwrap();
    store.write(&[race(sample::race(0)), attempt(sample::won(0))]).unwrap();
    while step(&path) == MoveProgress::Some {}
    let of_sample = shown(&path).into_iter().filter(|row| row["race_id"] == sample::race_id(0).as_str());
    assert_eq!(of_sample.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_step_that_fails_leaves_everything_as_it_was() {
    let (_directory, path) = wide(&world::records(72, 1_000)).await;
    Store::open(&path).unwrap().close();
    let before = shown(&path);
    while narrow::is_moving(&connection(&path)).unwrap() {
        let mut full = connection(&path);
        let pages: i64 = full.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
        full.pragma_update(None, "max_page_count", pages).unwrap();
        let mut names = narrow::Names::default();
        if moving::step(&mut full, &mut names).is_err() {
            assert_eq!(shown(&path), before);
            full.pragma_update(None, "max_page_count", pages + 100_000).unwrap();
            moving::step(&mut full, &mut names).unwrap();
        }
    }
    while step(&path) == MoveProgress::Some {}
    assert_eq!(shown(&path), before);
}

#[tokio::test]
async fn a_moved_file_is_read_as_a_new_one() {
    let records = world::records(73, 1_500);
    let (_directory, path) = wide(&records).await;
    Store::open(&path).unwrap().close();
    while step(&path) == MoveProgress::Some {}
    let (_other, new, store) = new_store().await;
    store.write(&records).unwrap();
    assert_eq!(shown(&path), shown(&new));
    let names = "SELECT count(*) FROM attempt_row WHERE typeof(provider) = 'text'";
    let texts: i64 = sqlx::query_scalar(names).fetch_one(&mut plain(&path).await).await.unwrap();
    assert!(texts < 20, "names have numbers: {texts}");
}

/// A name has no number when it comes first.
#[tokio::test]
async fn a_reported_model_is_that_which_was_sent_from_the_first_row_on() {
    let (_directory, path, store) = new_store().await;
    for (n, reported) in [(0, Some("llama-70b")), (1, Some("llama-70b")), (2, Some("other")), (3, None)] {
        let won = AttemptRecord { model_reported: reported.map(str::to_owned), ..sample::won(n) };
        assert_eq!(won.model_sent, "llama-70b");
        store.write(&[attempt(won)]).unwrap();
    }
    let sql = "SELECT model_reported FROM attempt ORDER BY race_id";
    let reported: Vec<Option<String>> = sqlx::query_scalar(sql).fetch_all(&mut plain(&path).await).await.unwrap();
    let reported: Vec<Option<&str>> = reported.iter().map(Option::as_deref).collect();
    assert_eq!(reported, [Some("llama-70b"), Some("llama-70b"), Some("other"), None]);
}

/// A value that may stand in a column, and the usual ones.
fn cell(column: &'static crate::record::table::Column) -> BoxedStrategy<Cell> {
    use crate::record::table::SqlType;
    let value = match column.sql_type {
        SqlType::Integer => {
            prop_oneof![Just(0), Just(1), Just(200), Just(40), Just(10), 0..i64::MAX].prop_map(Cell::Integer).boxed()
        }
        SqlType::Real if column.name.starts_with("p_") => {
            prop_oneof![Just(0.0), Just(1.0), Just(0.02), Just(1.0 / 3.0), 0.0..1.0].prop_map(Cell::Real).boxed()
        }
        SqlType::Real => prop_oneof![Just(0.0), Just(1.0), Just(0.25), 0.0..9.0].prop_map(Cell::Real).boxed(),
        SqlType::Text => {
            let texts = ["", "1", "-1", "12", "client", "ok", "won", "groq", "m", "ä", "rule"];
            proptest::sample::select(texts.to_vec()).prop_map(|text| Cell::Text(text.to_owned())).boxed()
        }
    };
    if column.nullable { prop_oneof![value, Just(Cell::Null)].boxed() } else { value }
}

use rusqlite::types::Value as Cell;

fn rows(columns: &'static [crate::record::table::Column]) -> impl Strategy<Value = Vec<Vec<Cell>>> {
    proptest::collection::vec(columns.iter().map(cell).collect::<Vec<_>>(), 1..12)
}

fn as_value(cell: &Cell) -> CellValue<'_> {
    match cell {
        Cell::Integer(value) => CellValue::Integer(*value),
        Cell::Real(value) => CellValue::Real(*value),
        Cell::Text(text) => CellValue::Text(text),
        Cell::Null | Cell::Blob(_) => CellValue::Null,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// What the views show is what was written, whatever it was.
    #[test]
    fn every_value_has_a_narrow_form(races in rows(RaceRecord::COLUMNS), attempts in rows(AttemptRecord::COLUMNS)) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history.db");
        Store::open(&path).unwrap().close();
        let connection = connection(&path);
        let mut names = narrow::Names::default();
        for (table, columns, key, written) in [
            (write::RowTable::Race, columns::names::<RaceRecord>(), "race_id", &races),
            (write::RowTable::Attempt, columns::names::<AttemptRecord>(), "race_id", &attempts),
        ] {
            let narrow = narrow::of(table.name()).unwrap();
            let mut expected = written.clone();
            for (n, row) in expected.iter_mut().enumerate() {
                row[0] = Cell::Text(format!("{n:04}"));
                let mut cells: Vec<CellValue<'_>> = row.iter().map(as_value).collect();
                narrow.narrow(&connection, &mut names, &mut cells).unwrap();
                write::run(&mut connection.prepare(narrow.insert()).unwrap(), &cells).unwrap();
            }
            let sql = format!("SELECT {columns} FROM {} ORDER BY {key}", table.name());
            let mut statement = connection.prepare(&sql).unwrap();
            let shown: Vec<Vec<Cell>> = statement
                .query_map([], |row| (0..expected[0].len()).map(|at| row.get(at)).collect())
                .unwrap()
                .map(Result::unwrap)
                .collect();
            prop_assert_eq!(shown, expected);
        }
    }
}
