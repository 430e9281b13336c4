//! Decides what to read for a question: which periods as rows, and which as rolled-up hours and days.
//!
//! Not for reading them (`scan`, `cells`).

use std::collections::{BTreeMap, BTreeSet};

use crate::store::columns::{DAY_US, HOUR_US, began_at, first_race_id, start_of};
use crate::store::database::{AnswerRow, Connection, Id, Result, params};
use crate::store::selection::{AHEAD_US, Selection, SourceFilter};
use photofinish_facts::estimate::facts::RUNNING_US;

/// Attempts of a piece, about: several threads share the pieces.
const PIECE: u64 = 5_000;

/// Pieces of one hour, or of the newest period, at most.
const PIECES_MAX: u64 = 16;

/// Attempts assumed for an hour when no hour is rolled up yet.
const UNKNOWN_HOUR: u64 = 10_000;

/// The newest race that is dated after now.
pub(super) const AHEAD: &str = "SELECT race_id FROM race WHERE race_id >= ?1 ORDER BY race_id DESC LIMIT 1";

/// Rolled-up hours and days. Those without a cell have rows of probes and benchmarks only.
pub(super) const SPANS: &str = "\
    SELECT hours, start, attempts, state FROM rollup_span \
    WHERE hours IN (1, 24) AND start >= ?1 AND start < ?2 AND state > 0 \
      AND EXISTS (SELECT 1 FROM rollup WHERE rollup.hours = rollup_span.hours AND rollup.start = rollup_span.start)";

/// Hours whose rows are removed or being removed.
pub(super) const REMOVED: &str = "SELECT count(*) FROM rollup_span WHERE hours = 1 AND state = 2";

/// The first row of each table that may have the oldest.
pub(super) fn oldest_rows(source: SourceFilter) -> Vec<String> {
    let condition = source.condition();
    let race = format!("SELECT race_id FROM race WHERE {condition} AND race_id > ?1 ORDER BY race_id LIMIT 1");
    if source.is_apart() {
        return vec![race];
    }
    let (attempts, condition) = source.attempts();
    let of_attempt = format!(
        "SELECT attempt.race_id FROM {attempts} WHERE {condition} AND attempt.race_id > ?1 \
         ORDER BY attempt.race_id LIMIT 1"
    );
    vec![race, of_attempt]
}

/// The first rolled-up hour with a cell.
pub(super) const OLDEST_HOUR: &str = "\
    SELECT start FROM rollup_span WHERE hours = 1 AND state > 0 \
      AND EXISTS (SELECT 1 FROM rollup WHERE rollup.hours = rollup_span.hours AND rollup.start = rollup_span.start) \
    ORDER BY start LIMIT 1";

/// A period that is read as rows; microseconds since 1970, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowStretch {
    pub from_us: i64,
    pub until_us: i64,
}

/// What to read for one question.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ReadPlan {
    /// Oldest first. No piece contains more than one rolled-up hour; an hour of many rows has several.
    pub pieces: Vec<RowStretch>,
    /// Starts of the days that are read as cells; `hours` has those of hours.
    pub days: Vec<i64>,
    pub hours: Vec<i64>,
    /// Expected number of rows, as far as known.
    pub rows_expected: u64,
    /// The end of the newest cell.
    pub rolled_until: Option<i64>,
    /// See [`crate::store::Coverage::whole_hours`].
    pub whole_hours: Option<(i64, i64)>,
    /// See [`crate::store::Coverage::ahead_until`].
    pub ahead_until: Option<i64>,
    /// See [`removed`].
    pub removed: i64,
}

/// A rolled-up hour.
#[derive(Clone, Copy)]
struct RolledHour {
    attempts: u64,
    /// Its rows are removed or being removed.
    removed: bool,
}

impl ReadPlan {
    /// `exact_max`: see [`crate::store::EXACT_MAX`].
    pub fn new(connection: &Connection<'_>, selection: &Selection, exact_max: u64) -> Result<ReadPlan> {
        let from_us = selection.filter.since.unwrap_or(0).max(0);
        let ahead_from = selection.now_us.saturating_add(AHEAD_US);
        let until_us = selection.filter.until.unwrap_or(i64::MAX).min(ahead_from);
        let (hours, days) = match selection.filter.is_rolled_up() {
            true => rolled(connection, (from_us, until_us))?,
            false => Default::default(),
        };
        // Before the first row nothing needs to be read.
        let oldest_us = oldest_began(connection, selection.filter.source)?.unwrap_or(until_us);
        let plan = ReadPlan::of(&hours, &days, (from_us, until_us), oldest_us, selection, exact_max);
        let ahead: Option<String> =
            connection.find(AHEAD, params![Id(&first_race_id(ahead_from))], |row| row.get(0))?;
        Ok(ReadPlan { ahead_until: ahead.map(|id| began_at(&id)), removed: removed(connection)?, ..plan })
    }

    fn of(
        hours: &BTreeMap<i64, RolledHour>,
        days: &BTreeSet<i64>,
        (from_us, until_us): (i64, i64),
        oldest_us: i64,
        selection: &Selection,
        exact_max: u64,
    ) -> ReadPlan {
        let within = |start: i64, span: i64| start >= from_us && start.saturating_add(span) <= until_us;
        let kept = hours.range(from_us..).filter(|(_, rolled)| !rolled.removed);
        let exact = selection.exact || kept.map(|(_, rolled)| rolled.attempts).sum::<u64>() <= exact_max;
        // Of newer hours rows are read: they leave out the attempts of races that still run, and a cell has them all.
        let newest_us = selection.now_us - RUNNING_US;
        let out_of_cells = |start: i64, rolled: &RolledHour| match rolled.removed {
            // Only whole hours are left: the hours that begin in the window belong to it.
            true => start >= from_us && start < until_us,
            false => !exact && within(start, HOUR_US) && start + HOUR_US <= newest_us,
        };
        let (cells, rows): (BTreeMap<i64, RolledHour>, BTreeMap<i64, RolledHour>) =
            hours.iter().partition(|(start, rolled)| out_of_cells(**start, rolled));
        let is_whole = |day: i64| {
            let mut rolled = hours.range(day..day + DAY_US);
            let first = rolled.next();
            within(day, DAY_US)
                && first.is_some_and(|(start, _)| cells.contains_key(start))
                && rolled.all(|(start, _)| cells.contains_key(start))
                // Without a `since`, the first hour is the start.
                && (selection.filter.since.is_some() || hours.first_key_value().is_some_and(|(first, _)| *first < day))
        };
        let days: Vec<i64> = days.iter().copied().filter(|day| !selection.hourly && is_whole(*day)).collect();
        let of_no_day = |start: &i64| days.binary_search(&start_of(*start, DAY_US)).is_err();
        let mut pieces = rows_between(&cells, &rows, (from_us, until_us), start_of(oldest_us, HOUR_US));
        let not_rolled = cut_newest(&mut pieces, hours, selection.now_us);
        ReadPlan {
            pieces,
            hours: cells.keys().copied().filter(of_no_day).collect(),
            days,
            rows_expected: rows.values().map(|rolled| rolled.attempts).sum::<u64>() + not_rolled,
            rolled_until: cells.last_key_value().map(|(start, _)| start + HOUR_US),
            whole_hours: whole_hours(hours, (from_us, until_us)),
            ahead_until: None,
            removed: 0,
        }
    }
}

/// The rolled-up hours, and the starts of rolled-up days.
fn rolled(
    connection: &Connection<'_>,
    (from_us, until_us): (i64, i64),
) -> Result<(BTreeMap<i64, RolledHour>, BTreeSet<i64>)> {
    let mut statement = connection.prepare(SPANS)?;
    let mut rows = statement.query(params![start_of(from_us, DAY_US), until_us])?;
    let (mut hours, mut days) = (BTreeMap::new(), BTreeSet::new());
    while let Some(row) = rows.next()? {
        let (span, start): (i64, i64) = (row.get(0)?, row.get(1)?);
        match span {
            1 => {
                hours.insert(start, RolledHour { attempts: row.get(2)?, removed: row.get::<i64>(3)? == 2 });
            }
            _ => {
                days.insert(start);
            }
        }
    }
    Ok((hours, days))
}

/// When the first race with a row began; microseconds since 1970, UTC.
fn oldest_began(connection: &Connection<'_>, source: SourceFilter) -> Result<Option<i64>> {
    let id = |row: AnswerRow<'_>| row.get::<String>(0);
    let rows = oldest_rows(source).into_iter().map(|sql| connection.find(&sql, params![Id("")], id));
    let ids: Vec<Option<String>> = rows.collect::<Result<_>>()?;
    Ok(ids.into_iter().flatten().min().map(|id| began_at(&id)))
}

pub(super) fn removed(connection: &Connection<'_>) -> Result<i64> {
    connection.one(REMOVED, &[], |row| row.get(0))
}

/// Start of the first race, by its row or by its rolled-up hour; microseconds since 1970, UTC.
pub(super) fn oldest(connection: &Connection<'_>, source: SourceFilter) -> Result<Option<i64>> {
    let hour = match source {
        SourceFilter::Client => connection.find(OLDEST_HOUR, &[], |row| row.get(0))?,
        SourceFilter::Probe | SourceFilter::Bench | SourceFilter::Shadow | SourceFilter::All => None,
    };
    Ok([oldest_began(connection, source)?, hour].into_iter().flatten().min())
}

/// The window, moved to whole hours where one of its ends is within an hour whose rows are gone.
fn whole_hours(hours: &BTreeMap<i64, RolledHour>, (from_us, until_us): (i64, i64)) -> Option<(i64, i64)> {
    let parted = |at_us: i64| {
        let start = start_of(at_us, HOUR_US);
        let removed = hours.get(&start).is_some_and(|rolled| rolled.removed);
        (removed && start < at_us).then(|| (start, start + HOUR_US))
    };
    match (parted(from_us), parted(until_us)) {
        (None, None) => None,
        // Both ends are in one hour: it begins before the window, so it is outside.
        (Some(of_from), Some(of_until)) if of_from == of_until => Some(of_from),
        (of_from, of_until) => Some((of_from.map_or(from_us, |hour| hour.1), of_until.map_or(until_us, |hour| hour.1))),
    }
}

/// Cuts the newest stretch into pieces, and estimates its attempts from the newest rolled-up hour.
fn cut_newest(pieces: &mut Vec<RowStretch>, hours: &BTreeMap<i64, RolledHour>, now_us: i64) -> u64 {
    let rolled = hours.last_key_value();
    let Some(last) = pieces.pop_if(|last| rolled.is_none_or(|(start, _)| last.from_us >= start + HOUR_US)) else {
        return 0;
    };
    let end_us = last.until_us.min(now_us).max(last.from_us);
    let of_hour = rolled.map_or(UNKNOWN_HOUR, |(_, rolled)| rolled.attempts);
    let attempts = (of_hour as f64 * (end_us - last.from_us) as f64 / HOUR_US as f64) as u64;
    pieces.extend(cut(RowStretch { until_us: end_us, ..last }, attempts));
    // Clocks differ: there may be rows of a later time.
    if let Some(newest) = pieces.last_mut() {
        newest.until_us = last.until_us;
    }
    attempts
}

/// Cuts a stretch into pieces of the same length.
fn cut(whole: RowStretch, attempts: u64) -> impl Iterator<Item = RowStretch> {
    let count = (attempts / PIECE).clamp(1, PIECES_MAX) as i64;
    let step_us = (whole.until_us - whole.from_us) / count;
    (0..count).map(move |place| {
        let from_us = whole.from_us + place * step_us;
        RowStretch { from_us, until_us: if place + 1 < count { from_us + step_us } else { whole.until_us } }
    })
}

/// The periods between the cells, cut so that several threads can share them: at hours with rows, and these into pieces.
fn rows_between(
    cells: &BTreeMap<i64, RolledHour>,
    rows: &BTreeMap<i64, RolledHour>,
    (from_us, until_us): (i64, i64),
    oldest_us: i64,
) -> Vec<RowStretch> {
    let mut pieces = Vec::new();
    let mut at = from_us;
    let mut gap = |from_us: i64, until_us: i64| {
        let mut from_us = from_us.max(oldest_us);
        if from_us >= until_us {
            return;
        }
        let in_rows = |at_us: i64| rows.get(&start_of(at_us, HOUR_US)).map_or(0, |rolled| rolled.attempts);
        let starts = rows.range(from_us.saturating_add(1)..until_us).map(|(start, _)| *start);
        // What follows the last of them is not rolled up.
        let end = rows.last_key_value().map(|(start, _)| start.saturating_add(HOUR_US));
        for next_us in starts.chain(end.filter(|end| (from_us + 1..until_us).contains(end))) {
            pieces.extend(cut(RowStretch { from_us, until_us: next_us }, in_rows(from_us)));
            from_us = next_us;
        }
        pieces.extend(cut(RowStretch { from_us, until_us }, in_rows(from_us)));
    };
    for start in cells.keys() {
        gap(at, *start);
        at = start + HOUR_US;
    }
    gap(at, until_us);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::selection::AttemptFilter;

    const DAY: i64 = 20_000 * DAY_US;

    /// The plan for rows of three hours with `attempts` each, the last of which may not be rolled up, asked half an hour later.
    fn plan(attempts: [u64; 3], rolled: usize, since: i64, exact_max: u64) -> ReadPlan {
        let hour = |(place, attempts)| (DAY + place as i64 * HOUR_US, RolledHour { attempts, removed: false });
        let hours = attempts.into_iter().enumerate().map(hour).take(rolled).collect();
        let filter = AttemptFilter { since: Some(since), ..AttemptFilter::default() };
        let selection = Selection { filter, now_us: DAY + 7 * HOUR_US / 2, ..Selection::default() };
        ReadPlan::of(&hours, &BTreeSet::new(), (since, i64::MAX), DAY, &selection, exact_max)
    }

    /// Pieces of each hour, of which the last has what follows too.
    fn pieces_of(plan: &ReadPlan) -> [usize; 4] {
        [0, 1, 2, 3].map(|hour| {
            let within = |piece: &&RowStretch| (piece.from_us - DAY).div_euclid(HOUR_US) == hour;
            plan.pieces.iter().filter(within).count()
        })
    }

    #[test]
    fn hours_of_many_rows_have_several_pieces() {
        let cases = [
            ([10, 20, 30], 3, [1, 1, 1, 1]),
            ([4_999, 12_000, 26_000], 3, [1, 2, 5, 2]),
            ([0, 0, 10_000_000], 3, [1, 1, 16, 16]),
            // The hour and a half without a roll-up are taken to be like the hour before them: 36,000 attempts.
            ([10, 24_000, 99], 2, [1, 4, 5, 2]),
            // Nothing is known: 10,000 attempts an hour.
            ([0; 3], 0, [2, 2, 2, 1]),
        ];
        for (attempts, rolled, expected) in cases {
            let plan = plan(attempts, rolled, DAY, u64::MAX);
            assert_eq!(pieces_of(&plan), expected, "{attempts:?}, {rolled} rolled up");
            assert!(plan.pieces.windows(2).all(|pair| pair[0].until_us == pair[1].from_us), "{:?}", plan.pieces);
            let ends = plan.pieces.first().zip(plan.pieces.last()).map(|(first, last)| (first.from_us, last.until_us));
            assert_eq!(ends, Some((DAY, i64::MAX)));
        }
    }

    #[test]
    fn a_large_window_reads_the_first_part_and_the_newest_hours_as_rows() {
        let plan = plan([10_000, 20_000, 30_000], 3, DAY + HOUR_US / 2, 100);
        assert_eq!((plan.hours.as_slice(), pieces_of(&plan)), ([DAY + HOUR_US].as_slice(), [2, 0, 6, 3]));
        assert_eq!(plan.rolled_until, Some(DAY + 2 * HOUR_US));
    }
}
