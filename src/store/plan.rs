//! From where a question is answered: which stretches of time out of rows, which out of rolled-up hours and days.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::reader::{EXACT_MAX, Selection};
use super::times::{DAY_US, HOUR_US, start_of};

/// What is read out of rows, exact in any case: the newest hour.
const NEWEST_US: i64 = HOUR_US;

/// Hours and days that are rolled up.
pub(super) const SPANS: &str = "\
    SELECT hours, start, attempts, state FROM rollup_span WHERE state > 0 AND start >= ?1 AND start < ?2";

/// The first row, whichever table has it.
pub(super) const OLDEST: &str = "\
    SELECT min(id) FROM (SELECT min(race_id) AS id FROM race UNION ALL SELECT min(race_id) FROM attempt)";

/// The first hour that is rolled up.
pub(super) const OLDEST_HOUR: &str = "SELECT min(start) FROM rollup_span WHERE hours = 1 AND state > 0";

/// A stretch that is read out of rows; microseconds since 1970, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub from_us: i64,
    pub until_us: i64,
}

/// Where everything comes from.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Oldest first, none longer than an hour where much is expected.
    pub pieces: Vec<Piece>,
    /// Starts of the days and of the hours that are read out of cells.
    pub days: Vec<i64>,
    pub hours: Vec<i64>,
    /// As far as it is known.
    pub rows_expected: u64,
    /// The end of the newest cell.
    pub rolled_until: Option<i64>,
}

/// An hour that is rolled up.
#[derive(Clone, Copy)]
struct Rolled {
    attempts: u64,
    /// Its rows are gone, or are going.
    removed: bool,
}

impl Plan {
    pub fn new(connection: &Connection, selection: &Selection) -> rusqlite::Result<Plan> {
        let from_us = selection.filter.since.unwrap_or(0).max(0);
        let until_us = selection.filter.until.unwrap_or(i64::MAX);
        let mut statement = connection.prepare(SPANS)?;
        let mut rows = statement.query([start_of(from_us, DAY_US), until_us])?;
        let (mut hours, mut days) = (BTreeMap::new(), Vec::new());
        while let Some(row) = rows.next()? {
            let (span, start): (i64, i64) = (row.get(0)?, row.get(1)?);
            match span {
                1 => {
                    hours.insert(start, Rolled { attempts: row.get(2)?, removed: row.get::<_, i64>(3)? == 2 });
                }
                _ => days.push(start),
            }
        }
        // Before the first row there is nothing to look for.
        let oldest: Option<String> = connection.query_row(OLDEST, [], |row| row.get(0))?;
        let oldest_us = oldest.map_or(until_us, |id| super::times::began_at(&id));
        Ok(Plan::of(&hours, &days, (from_us, until_us), oldest_us, selection))
    }

    fn of(
        hours: &BTreeMap<i64, Rolled>,
        days: &[i64],
        (from_us, until_us): (i64, i64),
        oldest_us: i64,
        selection: &Selection,
    ) -> Plan {
        // An hour that begins before the window is wholly in it only if its rows can say which of them are.
        let within = |start: i64, span: i64| start >= from_us && start.saturating_add(span) <= until_us;
        let known: u64 = hours.range(from_us..).map(|(_, rolled)| rolled.attempts).sum();
        let exact = selection.exact || known <= EXACT_MAX;
        let newest_us = selection.now_us - NEWEST_US;
        let mut plan = Plan::default();
        let out_of_cells = |start: i64, rolled: &Rolled| match rolled.removed {
            // Only whole hours are left: those that begin in the window are in it.
            true => start >= from_us && start < until_us,
            false => !exact && within(start, HOUR_US) && start + HOUR_US <= newest_us,
        };
        let mut cells: Vec<i64> =
            hours.iter().filter(|(start, rolled)| out_of_cells(**start, rolled)).map(|(start, _)| *start).collect();
        plan.rolled_until = cells.last().map(|start| start + HOUR_US);
        plan.pieces = rows_between(&cells, (from_us.max(start_of(oldest_us, HOUR_US)), until_us), selection.now_us);
        if !selection.hourly {
            let whole = |day: &&i64| {
                let mut rolled = hours.range(**day..**day + DAY_US).peekable();
                within(**day, DAY_US)
                    && rolled.peek().is_some()
                    && rolled.all(|(start, rolled)| out_of_cells(*start, rolled))
            };
            plan.days = days.iter().filter(whole).copied().collect();
            cells.retain(|start| !plan.days.contains(&start_of(*start, DAY_US)));
        }
        plan.hours = cells;
        let of_rows = hours.iter().filter(|(start, rolled)| within(**start, HOUR_US) && !out_of_cells(**start, rolled));
        plan.rows_expected = of_rows.map(|(_, rolled)| rolled.attempts).sum();
        plan
    }
}

/// When the first race began, by the row of it or by the hour that it was rolled up in; microseconds since 1970, UTC.
pub(super) fn oldest(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    let row: Option<String> = connection.query_row(OLDEST, [], |row| row.get(0))?;
    let hour: Option<i64> = connection.query_row(OLDEST_HOUR, [], |row| row.get(0))?;
    Ok([row.map(|id| super::times::began_at(&id)), hour].into_iter().flatten().min())
}

/// What lies between the cells, in pieces that several threads can share.
fn rows_between(cells: &[i64], (from_us, until_us): (i64, i64), now_us: i64) -> Vec<Piece> {
    let mut gaps = Vec::new();
    let mut at = from_us;
    for start in cells {
        gaps.push((at, *start));
        at = start + HOUR_US;
    }
    gaps.push((at, until_us));
    let mut pieces = Vec::new();
    for (mut from_us, until_us) in gaps {
        // Beyond now there is little: a clock that was ahead.
        while from_us < until_us.min(now_us) {
            let next = (start_of(from_us, HOUR_US) + HOUR_US).min(until_us);
            pieces.push(Piece { from_us, until_us: next });
            from_us = next;
        }
        if from_us < until_us {
            pieces.push(Piece { from_us, until_us });
        }
    }
    pieces
}
