//! Moves the rows of an older file into the narrow tables, some races in each transaction, while the gateway serves. Until the last of them
//! is moved everybody reads and writes the tables `race` and `attempt`, and triggers copy what is written there meanwhile. Then views take
//! the place of these tables, in one transaction, and their rows are removed, some in each transaction.
//!
//! It may be interrupted anywhere: the place that it has come to is in the same transaction as its rows.

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior};

use super::narrow::{self, Names};
use super::races::BEHIND_ALL;
use super::spill;
use super::views;
use super::write::{self, RowTable};

/// Races that are moved in one transaction.
const MOVED_MAX: i64 = 300;

/// Rows that are removed in one transaction.
const REMOVED_MAX: i64 = 1_000;

/// Bytes of the disk that stay free while rows are moved, and a share of the file's size, one in this number, beside them.
const LEFT_MIN: u64 = 64 << 20;
const LEFT_SHARE: u64 = 20;

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MoveProgress {
    Some,
    /// All rows are narrow, and the old tables are gone.
    Done,
    /// There was nothing to do.
    Nothing,
    /// The disk has so many MiB left, which new rows need.
    NoRoom(u64),
}

/// Moves some rows, or removes some that were moved.
pub(super) fn step(connection: &mut Connection, names: &mut Names) -> rusqlite::Result<MoveProgress> {
    if narrow::is_moving(connection)? {
        if let Some(left) = short_of_room(connection)? {
            return Ok(MoveProgress::NoRoom(left >> 20));
        }
        // Else SQLite renames the tables in the other views too.
        connection.pragma_update(None, "legacy_alter_table", true)?;
        let moved = move_some(connection, names);
        if moved.is_err() {
            names.forget();
        }
        return moved.map(|()| MoveProgress::Some);
    }
    for (table, progress) in [("attempt_old", MoveProgress::Some), ("race_old", MoveProgress::Done)] {
        let exists = "SELECT 1 FROM sqlite_schema WHERE name = ?1";
        if connection.prepare_cached(exists)?.query_row([table], |_| Ok(())).optional()?.is_some() {
            let removal = format!(
                "DELETE FROM {table} WHERE race_id <= coalesce(\
                     (SELECT race_id FROM {table} ORDER BY race_id LIMIT 1 OFFSET ?1), '{BEHIND_ALL}')"
            );
            if connection.execute(&removal, [REMOVED_MAX])? > 0 {
                return Ok(MoveProgress::Some);
            }
            connection.execute_batch(&format!("DROP TABLE {table}"))?;
            return Ok(progress);
        }
    }
    Ok(MoveProgress::Nothing)
}

/// The bytes that are left, if they are so few that new rows need them.
fn short_of_room(connection: &Connection) -> rusqlite::Result<Option<u64>> {
    let Some(path) = connection.path() else { return Ok(None) };
    let (Ok(disk), Ok(file)) = (rustix::fs::statvfs(path), std::fs::metadata(path)) else { return Ok(None) };
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, u64>(0));
    let left = disk.f_bavail * disk.f_frsize + number("freelist_count")? * number("page_size")?;
    Ok((left < LEFT_MIN + file.len() / LEFT_SHARE).then_some(left))
}

/// The first race to keep.
pub(super) const RACE_TO_STAY: &str =
    "SELECT race_id FROM race WHERE race_id >= ?1 AND race_id < ?2 ORDER BY race_id LIMIT 1 OFFSET ?3";

/// The first attempt to keep: some attempts have no race.
pub(super) const ATTEMPT_TO_STAY: &str = "\
    SELECT race_id FROM attempt WHERE race_id >= ?1 AND race_id < ?2 \
    GROUP BY race_id ORDER BY race_id LIMIT 1 OFFSET ?3";

fn move_some(connection: &mut Connection, names: &mut Names) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if !narrow::is_moving(&transaction)? {
        return Ok(());
    }
    let from: String = transaction.query_row("SELECT race_id FROM moved", [], |row| row.get(0))?;
    let mut until = BEHIND_ALL.to_owned();
    for sql in [RACE_TO_STAY, ATTEMPT_TO_STAY] {
        let first = transaction.query_row(sql, (&from, &until, MOVED_MAX), |row| row.get(0)).optional()?;
        until = first.unwrap_or(until);
    }
    for table in [RowTable::Race, RowTable::Attempt] {
        let Some(narrow) = narrow::of(table.name()) else { continue };
        let mut rows = Vec::new();
        spill::read(&transaction, table, "race_id >= ?1 AND race_id < ?2", &[&from, &until], &mut rows)?;
        let mut statement = transaction.prepare_cached(narrow.insert())?;
        for row in rows {
            let mut cells = row.readable_cells();
            narrow.narrow(&transaction, names, &mut cells)?;
            write::run(&mut statement, &cells)?;
        }
    }
    if until == BEHIND_ALL {
        views::replace(&transaction)?;
    } else {
        transaction.execute("UPDATE moved SET race_id = ?1", [&until])?;
    }
    transaction.commit()
}
