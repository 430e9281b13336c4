//! The narrow form of every value, and the numbers of names.

use proptest::prelude::*;

use super::*;
use photofinish_facts::record::sample;
use photofinish_facts::record::table::{CellValue, Table as _};

#[tokio::test]
async fn names_that_come_again_have_numbers() {
    let (_directory, path, store) = new_store().await;
    store.write(&world::records(73, 1_500)).unwrap();
    let names = "SELECT count(*) FROM attempt_row WHERE typeof(provider) = 'text'";
    let texts: i64 = sqlx::query_scalar(names).fetch_one(&mut plain(&path).await).await.unwrap();
    assert!(texts < 20, "{texts}");
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

/// A value that a column may have, and the usual ones.
fn cell(column: &'static photofinish_facts::record::table::Column) -> BoxedStrategy<Cell> {
    use photofinish_facts::record::table::SqlType;
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

fn rows(columns: &'static [photofinish_facts::record::table::Column]) -> impl Strategy<Value = Vec<Vec<Cell>>> {
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
        let connection = open::roller(&path).unwrap();
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
