//! The history on a Postgres server: the schema, rows in bulk, and partitions by day.
//!
//! Whoever reads or changes single rows goes through `database`. No request waits for anything here.

mod duties;
mod open;
mod partitions;
mod replica_number;
mod tables;
mod write;

#[cfg(test)]
mod tests;

pub(super) use crate::store::postgres::duties::{holds_duty, remove_day};
pub(super) use crate::store::postgres::open::{reading, rolling};
pub(super) use crate::store::postgres::replica_number::{number, set_number};
pub(super) use crate::store::postgres::write::ServerStore;
pub use crate::store::postgres::write::stray_rows;

/// How much of the disk the database takes.
pub(super) const BYTES: &str = "SELECT pg_database_size(current_database())";
