//! How the tables `race` and `attempt` store each column: times and counts in four bytes, small ones in two. What is larger than its column
//! holds is stored as the largest that it does: a time of 35 minutes and 47 seconds. A test compares with the schema.

use crate::store::database::session::{uuid, without_nul};
use photofinish_facts::record::table::{CellValue, Column, SqlType};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnForm {
    Uuid,
    Small,
    Integer,
    Big,
    Real,
    Text,
}

/// Whole numbers of eight bytes: times since 1970 or of long requests, bytes, and checksums.
const BIG: [&str; 7] =
    ["started_at", "scheduled_us", "done_us", "input_bytes", "tool_set", "session", "ratelimit_remaining_tokens"];

/// Whole numbers of two bytes: yes or no, ordinals, status codes.
const SMALL: [&str; 15] = [
    "ordinal",
    "stream",
    "has_tools",
    "attempts",
    "winner",
    "rescued_by",
    "http_status",
    "audited",
    "conn_reused",
    "ttft_event",
    "burst",
    "client_stalled",
    "plain",
    "definition_version",
    "n_choices",
];

pub(super) fn form(column: &Column) -> ColumnForm {
    match column.sql_type {
        _ if column.name == "race_id" => ColumnForm::Uuid,
        SqlType::Real => ColumnForm::Real,
        SqlType::Text => ColumnForm::Text,
        SqlType::Integer if BIG.contains(&column.name) => ColumnForm::Big,
        SqlType::Integer if SMALL.contains(&column.name) => ColumnForm::Small,
        SqlType::Integer => ColumnForm::Integer,
    }
}

/// Before the rows of a `COPY` in its binary form. <https://www.postgresql.org/docs/current/sql-copy.html>
pub(super) const BEGIN: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// Behind them.
pub(super) const END: [u8; 2] = (-1_i16).to_be_bytes();

/// Appends a row, with another integer at its end if there is one.
///
/// # Errors
/// Its id is no UUID; the id.
pub(super) fn append(
    bytes: &mut Vec<u8>,
    columns: &[Column],
    cells: &[CellValue<'_>],
    last: Option<i32>,
) -> Result<(), String> {
    bytes.extend((columns.len() as i16 + i16::from(last.is_some())).to_be_bytes());
    for (column, cell) in columns.iter().zip(cells) {
        let mut put = |cell: &[u8]| {
            bytes.extend((cell.len() as i32).to_be_bytes());
            bytes.extend_from_slice(cell);
        };
        match (form(column), *cell) {
            (ColumnForm::Uuid, CellValue::Text(id)) => put(&uuid(id).ok_or_else(|| id.to_owned())?),
            (ColumnForm::Small, CellValue::Integer(value)) => {
                put(&(value.clamp(i16::MIN.into(), i16::MAX.into()) as i16).to_be_bytes());
            }
            (ColumnForm::Integer, CellValue::Integer(value)) => {
                put(&(value.clamp(i32::MIN.into(), i32::MAX.into()) as i32).to_be_bytes());
            }
            (ColumnForm::Big, CellValue::Integer(value)) => put(&value.to_be_bytes()),
            (ColumnForm::Real, CellValue::Real(value)) => put(&value.to_be_bytes()),
            (ColumnForm::Text, CellValue::Text(value)) => put(without_nul(value).as_bytes()),
            _ => bytes.extend((-1_i32).to_be_bytes()),
        }
    }
    if let Some(last) = last {
        bytes.extend(4_i32.to_be_bytes());
        bytes.extend(last.to_be_bytes());
    }
    Ok(())
}
