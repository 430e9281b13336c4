//! Moves the rows of an older file into the narrow tables, some races in each transaction, while the gateway serves. Until the last of them
//! is moved everybody reads and writes the tables `race` and `attempt`, and triggers copy what is written there meanwhile. Then views take
//! the place of these tables, in one transaction, and their rows are removed, some in each transaction.
//!
//! It may be interrupted anywhere: the place that it has come to is in the same transaction as its rows.

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior};

use super::columns::stored;
use super::narrow::{self, Names};
use super::races::BEHIND_ALL;
use super::rollup::{ATTEMPT_TO_STAY, RACE_TO_STAY, RollupFailure};
use super::spill;
use super::write::{self, RowTable};

/// Races that are moved in one transaction.
const MOVED_MAX: i64 = 300;

/// Rows that are removed in one transaction.
const REMOVED_MAX: i64 = 1_000;

/// Bytes of the disk that stay free while rows are moved, and a share of the file's size, one in this number, beside them.
const LEFT_MIN: u64 = 64 << 20;
const LEFT_SHARE: u64 = 20;

/// The views in the place of the tables, a blank line between two statements.
const VIEWS: &str = include_str!("../../migrations/narrow.sql");

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Some,
    /// All rows are narrow, and the old tables are gone.
    Done,
    /// There was nothing to do.
    Nothing,
}

/// Moves some rows, or removes some that were moved.
pub(super) fn step(connection: &mut Connection, names: &mut Names) -> Result<Progress, RollupFailure> {
    if narrow::is_moving(connection)? {
        has_room(connection)?;
        // Else SQLite renames the tables in the other views too.
        connection.pragma_update(None, "legacy_alter_table", true)?;
        let moved = move_some(connection, names);
        if moved.is_err() {
            names.forget();
        }
        return Ok(moved.map(|()| Progress::Some)?);
    }
    for (table, progress) in [("attempt_old", Progress::Some), ("race_old", Progress::Done)] {
        let exists = "SELECT 1 FROM sqlite_schema WHERE name = ?1";
        if connection.prepare_cached(exists)?.query_row([table], |_| Ok(())).optional()?.is_some() {
            let removal = format!(
                "DELETE FROM {table} WHERE race_id <= coalesce(\
                     (SELECT race_id FROM {table} ORDER BY race_id LIMIT 1 OFFSET ?1), '{BEHIND_ALL}')"
            );
            if connection.execute(&removal, [REMOVED_MAX])? > 0 {
                return Ok(Progress::Some);
            }
            connection.execute_batch(&format!("DROP TABLE {table}"))?;
            return Ok(progress);
        }
    }
    Ok(Progress::Nothing)
}

/// Refuses to take the last space of the disk, which new rows need.
fn has_room(connection: &Connection) -> Result<(), RollupFailure> {
    let Some(path) = connection.path() else { return Ok(()) };
    let (Ok(disk), Ok(file)) = (rustix::fs::statvfs(path), std::fs::metadata(path)) else { return Ok(()) };
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, u64>(0));
    let left = disk.f_bavail * disk.f_frsize + number("freelist_count")? * number("page_size")?;
    if left < LEFT_MIN + file.len() / LEFT_SHARE { Err(RollupFailure::NoRoom(left >> 20)) } else { Ok(()) }
}

/// Gives a file that was just migrated the views, if it has no rows to be moved, or else the triggers that copy what comes meanwhile.
pub(super) fn prepare(connection: &mut Connection) -> rusqlite::Result<()> {
    const IS_EMPTY: &str = "SELECT NOT EXISTS (SELECT 1 FROM race) AND NOT EXISTS (SELECT 1 FROM attempt)";
    if !narrow::is_moving(connection)? && is_current(connection)? {
        return Ok(());
    }
    connection.pragma_update(None, "legacy_alter_table", true)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if !narrow::is_moving(&transaction)? {
        transaction.execute_batch("DROP VIEW IF EXISTS race; DROP VIEW IF EXISTS attempt")?;
        transaction.execute_batch(VIEWS)?;
    } else if transaction.query_row(IS_EMPTY, [], |row| row.get(0))? {
        replace(&transaction)?;
        transaction.execute_batch("DROP TABLE race_old; DROP TABLE attempt_old")?;
    } else {
        copy_what_comes(&transaction)?;
    }
    transaction.commit()
}

/// The statements of [`VIEWS`].
fn views() -> impl Iterator<Item = &'static str> {
    VIEWS.split("\n\n").map(|view| view.trim_end().trim_end_matches(';')).filter(|view| view.starts_with("CREATE "))
}

fn is_current(connection: &Connection) -> rusqlite::Result<bool> {
    let exists = "SELECT 1 FROM sqlite_schema WHERE type IN ('view', 'trigger') AND sql = ?1";
    for view in views() {
        if connection.prepare_cached(exists)?.query_row([view], |_| Ok(())).optional()?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The wide tables get the columns that were added since, and triggers.
fn copy_what_comes(connection: &Connection) -> rusqlite::Result<()> {
    for (table, key) in [
        (RowTable::Race, "race_id = OLD.race_id"),
        (RowTable::Attempt, "race_id = OLD.race_id AND ordinal = OLD.ordinal"),
    ] {
        let (Some(narrow), wide) = (narrow::of(table), table.name()) else { continue };
        for column in narrow.columns() {
            let exists = "SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2";
            let name = stored(column.name);
            if connection.query_row(exists, [wide, name], |_| Ok(())).optional()?.is_none() {
                connection.execute_batch(&format!("ALTER TABLE {wide} ADD COLUMN {name} {:?}", column.sql_type))?;
            }
        }
        connection.execute_batch(&narrow.triggers(wide, key))?;
    }
    Ok(())
}

/// Puts the views in the place of the tables.
fn replace(connection: &Connection) -> rusqlite::Result<()> {
    for table in ["race", "attempt"] {
        for trigger in ["comes", "changes", "goes"] {
            connection.execute_batch(&format!("DROP TRIGGER IF EXISTS {table}_{trigger}"))?;
        }
        connection.execute_batch(&format!("ALTER TABLE {table} RENAME TO {table}_old"))?;
    }
    connection.execute_batch("DROP TABLE moved")?;
    connection.execute_batch(VIEWS)
}

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
        let Some(narrow) = narrow::of(table) else { continue };
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
        replace(&transaction)?;
    } else {
        transaction.execute("UPDATE moved SET race_id = ?1", [&until])?;
    }
    transaction.commit()
}
