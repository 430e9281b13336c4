//! Builds the cells of one hour or day: a summary for each combination of upstream, model and user, and within it one
//! for each class.
//!
//! Not for storing them (`publish`) or reading them (`cells`).

use std::collections::BTreeMap;

use rusqlite::{Connection, params};

use super::cells::{self, damaged};
use super::gather::{Class, Gather, RollupCell};
use super::times::{DAY_US, HOUR_US};
use crate::history::class::{Concurrency, Input};
use crate::history::cost::CostSum;
use crate::history::facts::{AttemptFacts, RequestFacts};
use crate::history::summary::Summary;
use crate::history::{AttemptOutcome, ShortBytes};

/// Maximum cells of one hour or day. Further combinations share one cell per provider.
const CELLS_MAX: usize = 10_000;

/// `model_sent` of such a shared cell.
const THE_REST: &str = "(others)";

/// The key of a cell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CellKey {
    /// Both empty: requests that no attempt served.
    provider: String,
    model_sent: String,
    model: Option<String>,
    user: Option<String>,
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
    pub fn of_hours(connection: &Connection, day: i64) -> rusqlite::Result<DayCells> {
        let mut cells: BTreeMap<CellKey, Vec<i64>> = BTreeMap::new();
        let mut statement = connection.prepare_cached(OF_DAY)?;
        let mut rows = statement.query([day, day + DAY_US - HOUR_US])?;
        while let Some(row) = rows.next()? {
            let key = CellKey { provider: row.get(1)?, model_sent: row.get(2)?, model: row.get(3)?, user: row.get(4)? };
            bounded(&mut cells, key).push(row.get(0)?);
        }
        Ok(DayCells(cells))
    }

    /// Merges the next cell. If an hour was rolled up again in the meantime, its cell is missing. Publishing the day
    /// then detects that rows arrived.
    pub fn next_cell(&mut self, connection: &Connection) -> rusqlite::Result<Option<Packed>> {
        let Some((key, hours)) = self.0.pop_first() else { return Ok(None) };
        let mut classes: BTreeMap<Class, CellSummary> = BTreeMap::new();
        let mut statement = connection.prepare_cached(OF_HOUR)?;
        for id in hours {
            let mut rows = statement.query([id])?;
            let Some(row) = rows.next()? else { continue };
            let mut parts = row.get_ref(0)?.as_blob()?;
            while let Some(cells::CellPart { class, count, summary }) = cells::next_part(&mut parts).map_err(damaged)? {
                let part = classes.entry(class).or_default();
                part.count = part.count.saturating_add(count);
                part.summary.absorb(summary, 1.0, true).map_err(damaged)?;
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
        let model_sent = if self.provider.is_empty() { String::new() } else { THE_REST.to_owned() };
        CellKey { provider: self.provider, model_sent, model: None, user: None }
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
            cells::put_part(&mut parts, class, part.count, &part.summary.encode());
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
            extra_cost: sum.extra_cost,
            total: sum.encode(),
            parts,
        }
    }

    pub fn bytes(&self) -> usize {
        self.total.len() + self.parts.len()
    }

    pub fn write(&self, connection: &Connection, hours: i64, start: i64) -> rusqlite::Result<()> {
        let Packed { count, won, failed, empty, censored, seen, cost, extra_cost, total, parts, .. } = self;
        let CellKey { provider, model_sent, model, user } = &self.key;
        connection.prepare_cached(INSERT)?.execute(params![
            hours,
            start,
            provider,
            model_sent,
            model,
            user,
            count,
            won,
            failed,
            empty,
            censored,
            seen,
            cost.usd(),
            total,
            parts,
            cost.min_usd(),
            cost.max_usd(),
            extra_cost.min_usd(),
            extra_cost.max_usd()
        ])?;
        Ok(())
    }
}

impl Gather for Bundle {
    fn attempt(&mut self, facts: &AttemptFacts<'_>) {
        let upstream = (facts.provider, facts.model_sent);
        let part = self.part(upstream, facts.request.as_ref(), facts.in_flight_upstream);
        part.count += 1;
        part.summary.add(facts, 1.0, true);
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
pub(super) const OF_DAY: &str =
    "SELECT rowid, provider, model_sent, model, user FROM rollup WHERE hours = 1 AND start >= ?1 AND start <= ?2";

pub(super) const OF_HOUR: &str = "SELECT parts FROM rollup WHERE rowid = ?1";

const INSERT: &str = "\
    INSERT INTO rollup (hours, start, provider, model_sent, model, user, attempts, wins, failures, empty, censored, \
                        ttft_samples, cost_usd, total, parts, cost_usd_min, cost_usd_max, extra_cost_usd_min, \
                        extra_cost_usd_max) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)";
