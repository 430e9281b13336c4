//! The result codes of SQLite that the store depends on. <https://www.sqlite.org/rescode.html>
//!
//! Not for explaining errors: see `open`.

pub(super) const BUSY: i64 = 5;
pub(super) const LOCKED: i64 = 6;
pub(super) const READONLY: i64 = 8;
pub(super) const IOERR: i64 = 10;
pub(super) const CORRUPT: i64 = 11;
pub(super) const FULL: i64 = 13;
pub(super) const CANTOPEN: i64 = 14;
pub(super) const NOTADB: i64 = 26;

/// The primary result code of an error that SQLite reported.
pub(super) fn primary(error: &sqlx::Error) -> Option<i64> {
    let extended: i64 = error.as_database_error()?.code()?.parse().ok()?;
    Some(extended & 0xff)
}
