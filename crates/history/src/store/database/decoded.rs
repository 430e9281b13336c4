//! Rows as Postgres sends them, in its binary form.

use sqlx::postgres::{PgRow, PgValueRef};
use sqlx::{Column as _, Row as _, ValueRef as _};

use crate::store::database::error::PostgresError;
use crate::store::value::{Kind, Value};

/// One row. Its texts keep their memory for the next one.
#[derive(Default)]
pub(in crate::store) struct DecodedRow {
    cells: Vec<Cell>,
    text: String,
    blobs: Vec<u8>,
    names: Vec<String>,
    /// The numbers of the columns' types.
    types: Vec<u32>,
}

enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    /// From here on in `text`, to there.
    Text(usize, usize),
    Blob(usize, usize),
}

impl DecodedRow {
    /// A cell that is not there is null.
    pub fn value(&self, at: usize) -> Value<'_> {
        match self.cells.get(at) {
            None | Some(Cell::Null) => Value::Null(Kind::Text),
            Some(Cell::Integer(value)) => Value::Integer(*value),
            Some(Cell::Real(value)) => Value::Real(*value),
            Some(Cell::Text(from, to)) => Value::Text(self.text.get(*from..*to).unwrap_or_default()),
            Some(Cell::Blob(from, to)) => Value::Blob(self.blobs.get(*from..*to).unwrap_or_default()),
        }
    }

    pub fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    pub(in crate::store) fn fill(&mut self, row: &PgRow) -> Result<(), PostgresError> {
        if self.names.is_empty() {
            self.names = row.columns().iter().map(|column| column.name().to_owned()).collect();
            self.types = row.columns().iter().map(|of| of.type_info().oid().map_or(0, |oid| oid.0)).collect();
        }
        self.cells.clear();
        self.text.clear();
        self.blobs.clear();
        for at in 0..row.len() {
            let oid = self.types.get(at).copied().unwrap_or_default();
            let cell = self.decode(&row.try_get_raw(at)?, oid)?;
            self.cells.push(cell);
        }
        Ok(())
    }

    fn decode(&mut self, value: &PgValueRef<'_>, oid: u32) -> Result<Cell, PostgresError> {
        if value.is_null() {
            return Ok(Cell::Null);
        }
        let bytes = value.as_bytes().map_err(|error| PostgresError::Lost(error.to_string()))?;
        let integer = |bytes: &[u8]| {
            bytes.iter().fold(if bytes.first().is_some_and(|first| *first > 127) { -1 } else { 0 }, |sum: i64, byte| {
                sum << 8 | i64::from(*byte)
            })
        };
        Ok(match oid {
            oid::BOOL | oid::INT2 | oid::INT4 | oid::INT8 => Cell::Integer(integer(bytes)),
            oid::FLOAT8 => Cell::Real(f64::from_bits(integer(bytes) as u64)),
            oid::UUID => {
                let from = self.text.len();
                for (at, byte) in bytes.iter().enumerate() {
                    if [4, 6, 8, 10].contains(&at) {
                        self.text.push('-');
                    }
                    self.text
                        .extend([byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16).unwrap_or('0')));
                }
                Cell::Text(from, self.text.len())
            }
            oid::BYTEA => {
                let from = self.blobs.len();
                self.blobs.extend_from_slice(bytes);
                Cell::Blob(from, self.blobs.len())
            }
            oid::TEXT | oid::VARCHAR | oid::NAME => {
                let from = self.text.len();
                self.text.push_str(std::str::from_utf8(bytes).map_err(|error| PostgresError::Lost(error.to_string()))?);
                Cell::Text(from, self.text.len())
            }
            oid => return Err(PostgresError::Lost(format!("a column has the type {oid}, which is not read"))),
        })
    }
}

/// Numbers of the types. <https://www.postgresql.org/docs/current/catalog-pg-type.html>
pub(in crate::store) mod oid {
    pub const BOOL: u32 = 16;
    pub const BYTEA: u32 = 17;
    pub const NAME: u32 = 19;
    pub const INT8: u32 = 20;
    pub const INT2: u32 = 21;
    pub const INT4: u32 = 23;
    pub const TEXT: u32 = 25;
    pub const FLOAT8: u32 = 701;
    pub const VARCHAR: u32 = 1_043;
    pub const UUID: u32 = 2_950;
}
