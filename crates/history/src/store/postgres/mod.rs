//! The history on a Postgres server: connections that block, the schema, rows in bulk, and partitions by day.
//!
//! Whoever reads or changes single rows goes through `database`. No request waits for anything here.

mod decoded;
mod dialect;
mod duties;
mod error;
mod open;
mod partitions;
mod replica_number;
mod session;
mod tables;
mod waiting;
mod write;

#[cfg(test)]
mod tests;

pub(super) use decoded::DecodedRow;
pub(super) use dialect::dialect;
pub(super) use duties::{advice, holds_duty, remove_day};
pub(super) use error::PostgresError;
pub(super) use open::{is_postgres, migrate_now, reading, rolling};
pub(super) use replica_number::{number, set_number};
pub(super) use session::{CursorRows, PostgresSession, READING, WRITING};
pub(super) use write::ServerStore;
pub use write::stray_rows;

/// How much of the disk the database takes.
pub(super) const BYTES: &str = "SELECT pg_database_size(current_database())";
