//! Reads rolled-up hours and days.
//!
//! Not for choosing them: see `plan`.

use rusqlite::types::Type;
use rusqlite::{Connection, Row};

use super::gather::{Class, Gather, RollupCell, Selection};
use super::plan::ReadPlan;
use super::times::HOUR_US;
use crate::history::ShortBytes;
use crate::history::class::{Concurrency, Input};

/// Reads one range of the index, from one start to another.
pub(super) const TOTALS: &str = "\
    SELECT start, provider, model_sent, model, user, attempts, total FROM rollup \
    WHERE hours = ?1 AND start >= ?2 AND start <= ?3";

/// Reads the cells by class.
pub(super) const PARTS: &str = "\
    SELECT start, provider, model_sent, model, user, attempts, parts FROM rollup \
    WHERE hours = ?1 AND start >= ?2 AND start <= ?3";

/// Passes on the cells of the plan that match the filter.
pub(super) fn read(
    connection: &Connection,
    selection: &Selection,
    plan: &ReadPlan,
    gather: &mut impl Gather,
) -> rusqlite::Result<()> {
    for (hours, starts) in [(24, &plan.days), (1, &plan.hours)] {
        for (first, last) in runs(starts, hours * HOUR_US) {
            read_range(connection, selection, (hours, first, last), gather)?;
        }
    }
    Ok(())
}

fn read_range(
    connection: &Connection,
    selection: &Selection,
    range: (i64, i64, i64),
    gather: &mut impl Gather,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(if selection.classes { PARTS } else { TOTALS })?;
    let mut rows = statement.query([range.0, range.1, range.2])?;
    while let Some(row) = rows.next()? {
        let Some(cell) = cell(row, selection, range.0 * HOUR_US)? else { continue };
        if !selection.classes {
            gather.cell(&cell).map_err(damaged)?;
            continue;
        }
        let mut parts = cell.summary;
        while let Some(CellPart { class, count, summary }) = next_part(&mut parts).map_err(damaged)? {
            gather.cell(&RollupCell { class: Some(class), count, summary, ..cell }).map_err(damaged)?;
        }
    }
    Ok(())
}

fn cell<'r>(row: &'r Row<'_>, selection: &Selection, span_us: i64) -> rusqlite::Result<Option<RollupCell<'r>>> {
    let text = |column| -> rusqlite::Result<Option<&'r str>> { Ok(row.get_ref(column)?.as_str_or_null()?) };
    let (provider, model, user) = (text(1)?.unwrap_or_default(), text(3)?, text(4)?);
    let filter = &selection.filter;
    if !filter.wants_provider(provider) || !filter.wants_request(model, user) {
        return Ok(None);
    }
    let upstream = if provider.is_empty() { None } else { text(2)?.map(|model_sent| (provider, model_sent)) };
    Ok(Some(RollupCell {
        start_us: row.get(0)?,
        span_us,
        upstream,
        model,
        user,
        class: None,
        count: row.get(5)?,
        summary: row.get_ref(6)?.as_blob()?,
    }))
}

/// Adds a part to the parts of a cell.
pub(super) fn put_part(parts: &mut Vec<u8>, class: Class, count: u64, summary: &[u8]) {
    parts.extend([class.input.place(), class.concurrency.place(), u8::from(class.stream)]);
    parts.extend(count.to_le_bytes());
    parts.extend((summary.len() as u32).to_le_bytes());
    parts.extend(summary);
}

/// A stored summary that cannot be read.
pub(super) fn damaged(error: ShortBytes) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(6, Type::Blob, error.into())
}

/// One class of a cell.
pub(super) struct CellPart<'p> {
    pub class: Class,
    /// As [`RollupCell::count`].
    pub count: u64,
    pub summary: &'p [u8],
}

/// Takes the next part; none at the end.
pub(super) fn next_part<'p>(parts: &mut &'p [u8]) -> Result<Option<CellPart<'p>>, ShortBytes> {
    if parts.is_empty() {
        return Ok(None);
    }
    let (&[input, concurrency, stream], rest) = parts.split_first_chunk().ok_or(ShortBytes)?;
    let (count, rest) = rest.split_first_chunk().ok_or(ShortBytes)?;
    let (length, rest) = rest.split_first_chunk().ok_or(ShortBytes)?;
    let (summary, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or(ShortBytes)?;
    *parts = rest;
    let class = Class { input: Input::at(input), concurrency: Concurrency::at(concurrency), stream: stream == 1 };
    Ok(Some(CellPart { class, count: u64::from_le_bytes(*count), summary }))
}

/// Groups consecutive starts, as the first and the last of each group.
fn runs(starts: &[i64], span_us: i64) -> impl Iterator<Item = (i64, i64)> {
    starts.chunk_by(move |a, b| b - a == span_us).filter_map(|run| Some((*run.first()?, *run.last()?)))
}
