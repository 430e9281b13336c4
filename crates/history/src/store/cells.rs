//! Rolled-up hours and days: builds their cells, writes them in small transactions, and reads them. A cell is a summary for each
//! combination of upstream, model and user, and within it one for each class.
//!
//! Readers ignore the cells of a span until its last transaction publishes them; those of an abandoned run are removed first.
//! Not for choosing what to read: see `plan`.

use std::collections::{BTreeMap, BTreeSet};

use crate::store::columns::{DAY_US, HOUR_US, start_of};
use crate::store::database::{AnswerRow, Connection, DatabaseError, Result, Transaction, params};
use crate::store::plan::ReadPlan;
use crate::store::selection::{Class, Gather, RollupCell, Selection};
use crate::store::write::CAME;
use photofinish_facts::estimate::ShortBytes;
use photofinish_facts::estimate::class::{Concurrency, Input};
use photofinish_facts::estimate::cost::CostSum;
use photofinish_facts::estimate::facts::{AttemptFacts, RequestFacts};
use photofinish_facts::estimate::summary::Summary;
use photofinish_facts::record::AttemptOutcome;

/// Reads one range of the index, from one start to another.
pub(super) const TOTALS: &str = "\
    SELECT start, provider, model_sent, model, caller, team, caller_key, tags, attempts, total FROM rollup \
    WHERE hours = ?1 AND start >= ?2 AND start <= ?3";

/// Reads the cells by class.
pub(super) const PARTS: &str = "\
    SELECT start, provider, model_sent, model, caller, team, caller_key, tags, attempts, parts FROM rollup \
    WHERE hours = ?1 AND start >= ?2 AND start <= ?3";

/// Passes on the cells of the plan that match the filter.
pub(super) fn read(
    connection: &Connection<'_>,
    selection: &Selection,
    plan: &ReadPlan,
    gather: &mut impl Gather,
) -> Result<()> {
    for (hours, starts) in [(24, &plan.days), (1, &plan.hours)] {
        for (first, last) in runs(starts, hours * HOUR_US) {
            read_range(connection, selection, (hours, first, last), gather)?;
        }
    }
    Ok(())
}

fn read_range(
    connection: &Connection<'_>,
    selection: &Selection,
    range: (i64, i64, i64),
    gather: &mut impl Gather,
) -> Result<()> {
    let mut statement = connection.prepare(if selection.classes { PARTS } else { TOTALS })?;
    let mut rows = statement.query(params![range.0, range.1, range.2])?;
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

fn cell<'r>(row: AnswerRow<'r>, selection: &Selection, span_us: i64) -> Result<Option<RollupCell<'r>>> {
    let text = |column| row.get::<Option<&'r str>>(column);
    let (provider, model, user, team) = (text(1)?.unwrap_or_default(), text(3)?, text(4)?, text(5)?);
    let filter = &selection.filter;
    if !filter.wants_provider(provider) || !filter.wants_request(model, user, team) {
        return Ok(None);
    }
    let upstream = if provider.is_empty() { None } else { text(2)?.map(|model_sent| (provider, model_sent)) };
    Ok(Some(RollupCell {
        start_us: row.get(0)?,
        span_us,
        upstream,
        model,
        user,
        team,
        caller_key: text(6)?,
        tags: text(7)?,
        class: None,
        count: row.get(8)?,
        summary: row.get(9)?,
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
pub(super) fn damaged(error: ShortBytes) -> DatabaseError {
    DatabaseError::Content(error.to_string())
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

/// Combinations in the roll-up of one hour or day. Further ones share one per provider.
const CELLS_MAX: usize = 10_000;

/// Sets of tags in the roll-up of one hour or day. Clients choose them, and further ones share one, so that they take no room of models
/// and users.
const TAG_SETS_MAX: usize = 200;

/// `model_sent` or `tags` of such a shared cell.
pub const OTHERS: &str = "(others)";

/// The key of a cell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CellKey {
    /// Both empty: requests that no attempt served.
    provider: String,
    model_sent: String,
    model: Option<String>,
    user: Option<String>,
    team: Option<String>,
    caller_key: Option<String>,
    tags: Option<String>,
}

/// The sets of tags of an hour or a day that have cells of their own.
#[derive(Default)]
struct TagSets(BTreeSet<String>);

impl TagSets {
    fn kept(&mut self, tags: Option<&str>) -> Option<String> {
        let tags = tags?;
        let is_known = self.0.contains(tags);
        if !is_known && self.0.len() >= TAG_SETS_MAX {
            return Some(OTHERS.to_owned());
        }
        if !is_known {
            self.0.insert(tags.to_owned());
        }
        Some(tags.to_owned())
    }
}

/// A summary, and a count of its attempts, or of requests without an attempt.
#[derive(Default)]
struct CellSummary {
    count: u64,
    summary: Summary,
}

#[derive(Default)]
pub(super) struct Bundle {
    cells: BTreeMap<CellKey, BTreeMap<Class, CellSummary>>,
    tag_sets: TagSets,
    /// The last race that no attempt served.
    last_unserved: Option<u64>,
}

impl Bundle {
    pub fn attempts(&self) -> u64 {
        self.cells.values().flat_map(BTreeMap::values).map(|part| part.summary.attempts).sum()
    }

    /// Takes the next cell, ready to be written.
    pub fn next_cell(&mut self) -> Option<Packed> {
        self.cells.pop_first().map(|(key, classes)| Packed::new(key, classes))
    }

    fn part(&mut self, upstream: (&str, &str), request: Option<&RequestFacts<'_>>, others: i64) -> &mut CellSummary {
        let key = CellKey {
            provider: upstream.0.to_owned(),
            model_sent: upstream.1.to_owned(),
            model: request.map(|request| request.model.to_owned()),
            user: request.and_then(|request| request.user).map(str::to_owned),
            team: request.and_then(|request| request.team).map(str::to_owned),
            caller_key: request.and_then(|request| request.caller_key).map(str::to_owned),
            tags: self.tag_sets.kept(request.and_then(|request| request.tags)),
        };
        let class = Class {
            input: Input::of(request.map_or(0, |request| request.input_tokens_estimate)),
            concurrency: Concurrency::of(others),
            stream: request.is_some_and(|request| request.stream),
        };
        self.classes(key).entry(class).or_default()
    }

    fn classes(&mut self, key: CellKey) -> &mut BTreeMap<Class, CellSummary> {
        bounded(&mut self.cells, key)
    }
}

/// The cells of a day, merged from the cells of its hours one at a time: all of them together may take gigabytes.
pub(super) struct DayCells(BTreeMap<CellKey, Vec<i64>>);

impl DayCells {
    /// Finds the cells of the hours.
    pub fn of_hours(connection: &Connection<'_>, day: i64) -> Result<DayCells> {
        let (mut cells, mut tag_sets) = (BTreeMap::<CellKey, Vec<i64>>::new(), TagSets::default());
        let mut statement = connection.prepare(OF_DAY)?;
        let mut rows = statement.query(params![day, day + DAY_US - HOUR_US])?;
        while let Some(row) = rows.next()? {
            let key = CellKey {
                provider: row.get(1)?,
                model_sent: row.get(2)?,
                model: row.get(3)?,
                user: row.get(4)?,
                team: row.get(5)?,
                caller_key: row.get(6)?,
                tags: tag_sets.kept(row.get(7)?),
            };
            bounded(&mut cells, key).push(row.get(0)?);
        }
        Ok(DayCells(cells))
    }

    /// Merges the next cell. If an hour was rolled up again in the meantime, its cell is missing. Publishing the day
    /// then detects that rows arrived.
    pub fn next_cell(&mut self, connection: &Connection<'_>) -> Result<Option<Packed>> {
        let Some((key, hours)) = self.0.pop_first() else { return Ok(None) };
        let mut classes: BTreeMap<Class, CellSummary> = BTreeMap::new();
        let mut statement = connection.prepare(OF_HOUR)?;
        for id in hours {
            let mut rows = statement.query_few(params![id])?;
            let Some(row) = rows.next()? else { continue };
            let mut parts: &[u8] = row.get(0)?;
            while let Some(CellPart { class, count, summary }) = next_part(&mut parts).map_err(damaged)? {
                let part = classes.entry(class).or_default();
                part.count = part.count.saturating_add(count);
                part.summary.absorb(summary, true).map_err(damaged)?;
            }
        }
        Ok(Some(Packed::new(key, classes)))
    }
}

/// The entry of the key, or of the shared cell.
fn bounded<T: Default>(cells: &mut BTreeMap<CellKey, T>, key: CellKey) -> &mut T {
    let key = if cells.len() < CELLS_MAX || cells.contains_key(&key) { key } else { key.of_the_rest() };
    cells.entry(key).or_default()
}

impl CellKey {
    /// The key of the shared cell. Clients choose the names of models, so the number of keys is limited: further ones
    /// are kept by provider only.
    fn of_the_rest(self) -> CellKey {
        let model_sent = if self.provider.is_empty() { String::new() } else { OTHERS.to_owned() };
        CellKey {
            provider: self.provider,
            model_sent,
            model: None,
            user: None,
            team: None,
            caller_key: None,
            tags: None,
        }
    }
}

/// A cell as it is stored.
pub(super) struct Packed {
    key: CellKey,
    count: u64,
    pub attempts: u64,
    won: u64,
    failed: u64,
    empty: u64,
    censored: u64,
    seen: u64,
    cost: CostSum,
    extra_cost: CostSum,
    total: Vec<u8>,
    parts: Vec<u8>,
}

impl Packed {
    fn new(key: CellKey, classes: BTreeMap<Class, CellSummary>) -> Packed {
        let (mut count, mut sum, mut parts) = (0_u64, Summary::default(), Vec::new());
        for (class, part) in classes {
            put_part(&mut parts, class, part.count, &part.summary.encode());
            count = count.saturating_add(part.count);
            sum.merge(part.summary);
        }
        Packed {
            key,
            count,
            attempts: sum.attempts,
            won: sum.outcome(AttemptOutcome::Won),
            failed: sum.failed(),
            empty: sum.outcome(AttemptOutcome::Empty),
            censored: sum.ttft.censored,
            seen: sum.ttft.seen,
            cost: sum.cost,
            extra_cost: sum.extra_cost(),
            total: sum.encode(),
            parts,
        }
    }

    pub fn bytes(&self) -> usize {
        self.total.len() + self.parts.len()
    }

    pub fn write(&self, connection: &Connection<'_>, hours: i64, start: i64) -> Result<()> {
        let Packed { count, won, failed, empty, censored, seen, cost, extra_cost, total, parts, .. } = self;
        let CellKey { provider, model_sent, model, user, team, caller_key, tags } = &self.key;
        connection.prepare(INSERT)?.execute(params![
            hours,
            start,
            provider,
            model_sent,
            model.as_deref(),
            user.as_deref(),
            team.as_deref(),
            caller_key.as_deref(),
            tags.as_deref(),
            *count,
            *won,
            *failed,
            *empty,
            *censored,
            *seen,
            cost.min_usd(),
            cost.max_usd(),
            extra_cost.min_usd(),
            extra_cost.max_usd(),
            total,
            parts
        ])?;
        Ok(())
    }
}

impl Gather for Bundle {
    fn attempt(&mut self, facts: &AttemptFacts<'_>) {
        let upstream = (facts.provider, facts.model_sent);
        let part = self.part(upstream, facts.request.as_ref(), facts.in_flight_upstream);
        part.count += 1;
        part.summary.add(facts, true);
        if let Some(request) = facts.request.as_ref().filter(|request| request.is_unserved())
            && self.last_unserved != Some(facts.race)
        {
            self.last_unserved = Some(facts.race);
            self.part(("", ""), Some(request), 0).summary.requests.add_unserved();
        }
    }

    fn without_attempts(&mut self, _: i64, request: &RequestFacts<'_>) {
        self.part(("", ""), Some(request), 0).count += 1;
    }

    fn cell(&mut self, _: &RollupCell<'_>) -> Result<(), ShortBytes> {
        Ok(())
    }

    fn merge(&mut self, other: Bundle) {
        for (key, classes) in other.cells {
            let mine = self.cells.entry(key).or_default();
            for (class, part) in classes {
                let sum = mine.entry(class).or_default();
                sum.count += part.count;
                sum.summary.merge(part.summary);
            }
        }
    }
}

/// The keys of the cells of a day's hours, without their blobs, which are read one by one.
pub(super) const OF_DAY: &str = "SELECT rowid, provider, model_sent, model, caller, team, caller_key, tags FROM rollup WHERE hours = 1 AND start >= ?1 AND start <= ?2";

pub(super) const OF_HOUR: &str = "SELECT parts FROM rollup WHERE rowid = ?1";

const INSERT: &str = "\
    INSERT INTO rollup (hours, start, provider, model_sent, model, caller, team, caller_key, tags, attempts, wins, failures, empty, censored, \
                        ttft_samples, cost_usd_min, cost_usd_max, extra_cost_usd_min, extra_cost_usd_max, total, parts) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)";

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
    pub fn batches(self, connection: &Connection<'_>, locking: &str) -> Result<Option<i64>> {
        let (state, batches) = state(connection, self, locking)?.unwrap_or_default();
        let until = self.start + self.hours * HOUR_US;
        let waits = self.hours > 1 && connection.find(WAITING, params![self.start, until], |_| Ok(()))?.is_some();
        Ok((state == 0 && !waits).then_some(batches))
    }

    /// Writes the cells from `next`, unless more than `batches` batches have come.
    pub fn publish(
        self,
        connection: &Connection<'_>,
        batches: i64,
        mut next: impl FnMut(&Connection<'_>) -> Result<Option<Packed>>,
    ) -> Result<PublishOutcome> {
        if !self.clear(connection, batches)? {
            return Ok(PublishOutcome::Outdated);
        }
        let (mut written, mut attempts) = (0, 0_u64);
        loop {
            // The cells are built before the transaction, so that the writer waits less.
            let cells = some_cells(connection, &mut next)?;
            let Some(transaction) = self.begin(connection, batches)? else { return Ok(PublishOutcome::Outdated) };
            let found: usize = transaction.one(COUNT, params![self.hours, self.start], |row| row.get(0))?;
            if found != written {
                return Ok(PublishOutcome::Shared);
            }
            if cells.is_empty() {
                transaction.execute(ROLLED, params![self.hours, self.start, attempts])?;
                if self.hours == 1 {
                    transaction.execute(CAME, params![24_i64, start_of(self.start, DAY_US)])?;
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
    fn clear(self, connection: &Connection<'_>, batches: i64) -> Result<bool> {
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
    fn begin<'c>(self, connection: &Connection<'c>, batches: i64) -> Result<Option<Transaction<'c>>> {
        let transaction = connection.change()?;
        let unchanged = self.batches(&transaction, transaction.for_update())? == Some(batches);
        Ok(unchanged.then_some(transaction))
    }
}

/// State and number of batches of an hour or day. `locking`: see [`Connection::for_update`], or nothing.
pub(super) fn state(connection: &Connection<'_>, span: RollupSpan, locking: &str) -> Result<Option<(i64, i64)>> {
    let read = |row: AnswerRow<'_>| Ok((row.get(0)?, row.get(1)?));
    connection.find(&format!("{STATE}{locking}"), params![span.hours, span.start], read)
}

fn some_cells(
    connection: &Connection<'_>,
    next: &mut impl FnMut(&Connection<'_>) -> Result<Option<Packed>>,
) -> Result<Vec<Packed>> {
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
