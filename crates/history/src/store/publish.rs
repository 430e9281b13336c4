//! Writes the cells of an hour or day in small transactions. Readers ignore the cells until the last transaction
//! publishes them. Cells of an abandoned run are removed first.
//!
//! Not for building the cells: see `bundle`.

use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

use super::bundle::Packed;
use super::times::{DAY_US, HOUR_US, start_of};
use super::write::CAME;

/// Cells written in one transaction.
const WRITTEN_MAX: usize = 200;

/// Most bytes of cells in one transaction, except the last cell.
const BYTES_MAX: usize = 1 << 20;

/// An hour or a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RollupSpan {
    /// 1 or 24.
    pub hours: i64,
    /// Microseconds since 1970, UTC.
    pub start: i64,
}

/// The result of writing the cells.
#[derive(Debug)]
pub(super) enum PublishOutcome {
    Published,
    /// Rows arrived since they were read: the roll-up must be repeated.
    Outdated,
    /// Another process rolls up the same span.
    Shared,
}

impl RollupSpan {
    /// The number of batches with rows for this span, if it is due and possible: a day needs its hours first.
    pub fn batches(self, connection: &Connection) -> rusqlite::Result<Option<i64>> {
        let (state, batches) = state(connection, self)?.unwrap_or_default();
        let until = self.start + self.hours * HOUR_US;
        let waits =
            self.hours > 1 && connection.query_row(WAITING, [self.start, until], |_| Ok(())).optional()?.is_some();
        Ok((state == 0 && !waits).then_some(batches))
    }

    /// Writes the cells from `next`, unless more than `batches` batches have come.
    pub fn publish(
        self,
        connection: &mut Connection,
        batches: i64,
        mut next: impl FnMut(&Connection) -> rusqlite::Result<Option<Packed>>,
    ) -> rusqlite::Result<PublishOutcome> {
        if !self.clear(connection, batches)? {
            return Ok(PublishOutcome::Outdated);
        }
        let (mut written, mut attempts) = (0, 0_u64);
        loop {
            // The cells are built before the transaction, so that the writer waits less.
            let cells = some_cells(connection, &mut next)?;
            let Some(transaction) = self.begin(connection, batches)? else { return Ok(PublishOutcome::Outdated) };
            let found: usize = transaction.query_row(COUNT, params![self.hours, self.start], |row| row.get(0))?;
            if found != written {
                return Ok(PublishOutcome::Shared);
            }
            if cells.is_empty() {
                transaction.execute(ROLLED, params![self.hours, self.start, attempts])?;
                if self.hours == 1 {
                    transaction.execute(CAME, [24, start_of(self.start, DAY_US)])?;
                }
                transaction.commit()?;
                return Ok(PublishOutcome::Published);
            }
            cells.iter().try_for_each(|cell| cell.write(&transaction, self.hours, self.start))?;
            transaction.commit()?;
            written += cells.len();
            attempts = cells.iter().fold(attempts, |sum, cell| sum.saturating_add(cell.attempts));
        }
    }

    /// Removes cells that were not published.
    fn clear(self, connection: &mut Connection, batches: i64) -> rusqlite::Result<bool> {
        loop {
            let Some(transaction) = self.begin(connection, batches)? else { return Ok(false) };
            let removed = transaction.execute(FORGET, params![self.hours, self.start, WRITTEN_MAX])?;
            transaction.commit()?;
            if removed < WRITTEN_MAX {
                return Ok(true);
            }
        }
    }

    /// None: rows arrived, or another process was faster.
    fn begin(self, connection: &mut Connection, batches: i64) -> rusqlite::Result<Option<Transaction<'_>>> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let unchanged = self.batches(&transaction)? == Some(batches);
        Ok(unchanged.then_some(transaction))
    }
}

/// State and number of batches of an hour or day.
pub(super) fn state(connection: &Connection, span: RollupSpan) -> rusqlite::Result<Option<(i64, i64)>> {
    connection.query_row(STATE, [span.hours, span.start], |row| Ok((row.get(0)?, row.get(1)?))).optional()
}

fn some_cells(
    connection: &Connection,
    next: &mut impl FnMut(&Connection) -> rusqlite::Result<Option<Packed>>,
) -> rusqlite::Result<Vec<Packed>> {
    let (mut cells, mut bytes) = (Vec::new(), 0);
    while cells.len() < WRITTEN_MAX && bytes < BYTES_MAX {
        let Some(cell) = next(connection)? else { break };
        bytes += cell.bytes();
        cells.push(cell);
    }
    Ok(cells)
}

pub(super) const STATE: &str = "SELECT state, batches FROM rollup_span WHERE hours = ?1 AND start = ?2";

/// An hour of the day that must be rolled up first: its cells are old or incomplete.
pub(super) const WAITING: &str = "\
    SELECT start FROM rollup_span INDEXED BY rollup_span_due \
    WHERE hours = 1 AND start >= ?1 AND start < ?2 AND state = 0 LIMIT 1";

pub(super) const FORGET: &str = "\
    DELETE FROM rollup WHERE rowid IN (SELECT rowid FROM rollup WHERE hours = ?1 AND start = ?2 LIMIT ?3)";

pub(super) const COUNT: &str = "SELECT count(*) FROM rollup WHERE hours = ?1 AND start = ?2";

const ROLLED: &str = "\
    INSERT INTO rollup_span (hours, start, attempts, state) VALUES (?1, ?2, ?3, 1) \
    ON CONFLICT (hours, start) DO UPDATE SET attempts = excluded.attempts, state = 1";
