//! The declared columns for SQL: binds and reads a cell. And times as primary keys: a `race_id` is a
//! UUID v7, whose text begins with milliseconds, so a range of time is a range of ids.
//!
//! Not for the list of columns: see `record::tables`.

use rusqlite::types::{ToSqlOutput, ValueRef};

use crate::store::database::{AnswerRow, Result};
pub(super) use photofinish_base::clock::{DAY_US, HOUR_US};
use photofinish_facts::record::table::{CellValue, Subset, Table};

/// The name outside of SQL, and the name in the tables: in other databases `SELECT user` is the account of the connection, a wrong
/// answer without an error.
const USER: (&str, &str) = ("user", "caller");

/// A column's name in the tables.
pub(super) fn stored(name: &str) -> &str {
    if name == USER.0 { USER.1 } else { name }
}

/// The reverse of [`stored`].
pub(super) fn shown(name: &str) -> &str {
    if name == USER.1 { USER.0 } else { name }
}

/// The columns of a record, as a list for SQL.
pub(super) fn names<T: Table>() -> String {
    T::COLUMNS.iter().map(|column| stored(column.name)).collect::<Vec<_>>().join(",")
}

/// The same, each with its table.
pub(super) fn whole<T: Table>() -> String {
    T::COLUMNS.iter().map(|column| format!("{}.{}", T::NAME, stored(column.name))).collect::<Vec<_>>().join(", ")
}

/// Some columns, as a list for SQL, each with its table.
pub(super) fn select<S: Subset>() -> String {
    let table = <S::Record as Table>::NAME;
    S::NAMES.iter().map(|name| format!("{table}.{}", stored(name))).collect::<Vec<_>>().join(", ")
}

/// What an insert does where the record, the first column, is there already: it replaces it if this condition holds.
pub(super) fn replaces_where<T: Table>(condition: &str) -> String {
    let others = T::COLUMNS.iter().skip(1).map(|column| format!("{0} = excluded.{0}", column.name));
    let id = T::COLUMNS.first().map_or("", |column| column.name);
    format!("ON CONFLICT ({id}) DO UPDATE SET {} WHERE {condition}", others.collect::<Vec<_>>().join(", "))
}

/// The value of a cell as SQLite takes it.
pub(super) fn bound(cell: CellValue<'_>) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(match cell {
        CellValue::Null => ValueRef::Null,
        CellValue::Integer(value) => ValueRef::Integer(value),
        CellValue::Real(value) => ValueRef::Real(value),
        CellValue::Text(value) => ValueRef::Text(value.as_bytes()),
    })
}

/// Decodes numbers into the texts that they encode.
pub(super) trait Spells {
    /// `at`: the place of the cell in its row.
    fn spell<'c>(&'c self, at: usize, cell: CellValue<'c>) -> CellValue<'c>;
}

/// A row whose columns were selected by [`select`], read from the first column on.
pub(super) struct RowReader<'r> {
    row: AnswerRow<'r>,
    next: usize,
    speller: Option<&'r dyn Spells>,
}

impl<'r> RowReader<'r> {
    pub(super) fn new(row: AnswerRow<'r>) -> RowReader<'r> {
        RowReader { row, next: 0, speller: None }
    }

    /// Of columns whose names and codes are numbers. None: they are texts.
    pub(super) fn spelled(row: AnswerRow<'r>, speller: Option<&'r dyn Spells>) -> RowReader<'r> {
        RowReader { row, next: 0, speller }
    }

    /// Reads the columns of `subset`.
    pub(super) fn fill<S: Subset>(&mut self, subset: &mut S) -> Result<()> {
        subset.fill(|| {
            let cell = self.row.cell(self.next)?;
            let cell = self.speller.map_or(cell, |speller| speller.spell(self.next, cell));
            self.next += 1;
            Ok(cell)
        })
    }

    pub(super) fn skip<S: Subset>(&mut self) {
        self.next += S::NAMES.len();
    }
}

/// The smallest text that a UUID v7 made at this time can begin with.
pub(super) fn first_race_id(at_us: i64) -> String {
    let ms = at_us.max(0) / 1_000;
    format!("{:08x}-{:04x}", ms >> 16, ms & 0xffff)
}

/// The reverse of [`first_race_id`]; microseconds since 1970, 0 for any other text.
pub(super) fn began_at(race_id: &str) -> i64 {
    let mut ms = 0;
    for byte in race_id.bytes().filter(|byte| *byte != b'-').take(12) {
        let Some(digit) = char::from(byte).to_digit(16) else { return 0 };
        ms = ms << 4 | i64::from(digit);
    }
    ms * 1_000
}

/// The start of the hour, or of the day, of a time.
pub(super) fn start_of(at_us: i64, span_us: i64) -> i64 {
    at_us.div_euclid(span_us) * span_us
}

#[cfg(test)]
mod tests {
    use super::*;
    use photofinish_facts::record::sample;

    #[test]
    fn ids_sort_as_times_do() {
        let at = sample::STARTED_AT + 7_000;
        assert_eq!(began_at(&sample::race_id(7)), at);
        assert!(sample::race_id(7).starts_with(&first_race_id(at)));
        assert!(sample::race_id(6) < first_race_id(at) && first_race_id(at) <= sample::race_id(7));
        assert_eq!((began_at(""), began_at("nothing"), first_race_id(-1)), (0, 0, "00000000-0000".to_owned()));
        assert_eq!((start_of(HOUR_US + 1, HOUR_US), start_of(-1, DAY_US)), (HOUR_US, -DAY_US));
    }
}
