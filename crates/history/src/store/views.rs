//! The views `race` and `attempt`, which a file gets when it is opened, or the triggers that copy what is written to its wide tables until
//! `moving` has moved their rows.

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior};

use super::columns::stored;
use super::narrow;

/// The views in the place of the tables, a blank line between two statements.
const VIEWS: &str = include_str!("../../migrations/narrow.sql");

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
    for view in views() {
        if !has(connection, view)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether the file has the view or trigger that this statement creates.
fn has(connection: &Connection, create: &str) -> rusqlite::Result<bool> {
    let exists = "SELECT 1 FROM sqlite_schema WHERE type IN ('view', 'trigger') AND sql = ?1";
    Ok(connection.prepare_cached(exists)?.query_row([create], |_| Ok(())).optional()?.is_some())
}

/// The wide tables get the columns that were added since, and triggers.
fn copy_what_comes(connection: &Connection) -> rusqlite::Result<()> {
    let keys = ["race_id = OLD.race_id", "race_id = OLD.race_id AND ordinal = OLD.ordinal"];
    for (narrow, key) in narrow::TABLES.iter().zip(keys) {
        let wide = narrow.wide();
        for column in narrow.columns() {
            let exists = "SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2";
            let name = stored(column.name);
            if connection.query_row(exists, [wide, name], |_| Ok(())).optional()?.is_none() {
                connection.execute_batch(&format!("ALTER TABLE {wide} ADD COLUMN {name} {:?}", column.sql_type))?;
            }
        }
        for (name, create) in narrow.triggers(key) {
            if !has(connection, &create)? {
                connection.execute_batch(&format!("DROP TRIGGER IF EXISTS {name}; {create}"))?;
            }
        }
    }
    Ok(())
}

/// Puts the views in the place of the tables.
pub(super) fn replace(connection: &Connection) -> rusqlite::Result<()> {
    for table in ["race", "attempt"] {
        for trigger in ["comes", "changes", "goes"] {
            connection.execute_batch(&format!("DROP TRIGGER IF EXISTS {table}_{trigger}"))?;
        }
        connection.execute_batch(&format!("ALTER TABLE {table} RENAME TO {table}_old"))?;
    }
    connection.execute_batch("DROP TABLE moved")?;
    connection.execute_batch(VIEWS)
}
