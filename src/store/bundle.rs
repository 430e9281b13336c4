//! The cells of one hour or day while they are made: a summary for each combination of upstream, model and caller, and
//! within it for each class.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};

use super::cells::{self, PARTS, damaged};
use super::reader::{Cell, Class, Gather};
use super::times::HOUR_US;
use crate::history::class::{Concurrency, Input};
use crate::history::facts::{Facts, RequestFacts};
use crate::history::summary::Summary;
use crate::history::{AttemptOutcome, Short};

/// Cells of one hour or day; what is beyond has a cell by provider only.
const CELLS_MAX: usize = 10_000;

/// In place of the model that was sent, of what is beyond.
const THE_REST: &str = "(others)";

/// Whose a cell is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    /// Empty, both, for the requests that no attempt served.
    provider: String,
    model_sent: String,
    model: Option<String>,
    user: Option<String>,
}

/// A summary and what it counts: attempts, or requests that none was started for.
#[derive(Default)]
struct Part {
    count: u64,
    summary: Summary,
}

#[derive(Default)]
pub(super) struct Bundle {
    cells: BTreeMap<Key, BTreeMap<Class, Part>>,
    /// The last race that no attempt served.
    last_unserved: Option<u64>,
}

impl Bundle {
    /// Out of the hours of a day.
    pub fn of_hours(connection: &Connection, day: i64) -> rusqlite::Result<Bundle> {
        let mut bundle = Bundle::default();
        let mut statement = connection.prepare(PARTS)?;
        let mut rows = statement.query([1, day, day + 23 * HOUR_US])?;
        while let Some(row) = rows.next()? {
            let key = Key { provider: row.get(1)?, model_sent: row.get(2)?, model: row.get(3)?, user: row.get(4)? };
            let classes = bundle.classes(key);
            let mut parts = row.get_ref(6)?.as_blob()?;
            while let Some(cells::Part { class, count, summary }) = cells::next_part(&mut parts).map_err(damaged)? {
                let part = classes.entry(class).or_default();
                part.count += count;
                part.summary.absorb(summary, 1.0, true).map_err(damaged)?;
            }
        }
        Ok(bundle)
    }

    pub fn attempts(&self) -> u64 {
        self.cells.values().flat_map(BTreeMap::values).map(|part| part.summary.attempts).sum()
    }

    /// Ready to be written.
    pub fn pack(&self) -> Vec<Packed<'_>> {
        self.cells.iter().map(|(key, classes)| Packed::new(key, classes)).collect()
    }

    fn part(&mut self, upstream: (&str, &str), request: Option<&RequestFacts<'_>>, beside: i64) -> &mut Part {
        let key = Key {
            provider: upstream.0.to_owned(),
            model_sent: upstream.1.to_owned(),
            model: request.map(|request| request.model.to_owned()),
            user: request.and_then(|request| request.user).map(str::to_owned),
        };
        let class = Class {
            input: Input::of(request.map_or(0, |request| request.input_tokens_estimate)),
            concurrency: Concurrency::of(beside),
            stream: request.is_some_and(|request| request.stream),
        };
        self.classes(key).entry(class).or_default()
    }

    fn classes(&mut self, key: Key) -> &mut BTreeMap<Class, Part> {
        let key = if self.cells.len() < CELLS_MAX || self.cells.contains_key(&key) { key } else { key.of_the_rest() };
        self.cells.entry(key).or_default()
    }
}

impl Key {
    /// Callers may name any model: what is beyond the bound is kept by provider only.
    fn of_the_rest(self) -> Key {
        let model_sent = if self.provider.is_empty() { String::new() } else { THE_REST.to_owned() };
        Key { provider: self.provider, model_sent, model: None, user: None }
    }
}

/// A cell as it is stored.
pub(super) struct Packed<'b> {
    key: &'b Key,
    sum: Part,
    total: Vec<u8>,
    parts: Vec<u8>,
}

impl<'b> Packed<'b> {
    fn new(key: &'b Key, classes: &BTreeMap<Class, Part>) -> Packed<'b> {
        let (mut sum, mut parts) = (Part::default(), Vec::new());
        for (class, part) in classes {
            cells::put_part(&mut parts, *class, part.count, &part.summary.encode());
            sum.count += part.count;
            sum.summary.merge(part.summary.clone());
        }
        Packed { key, total: sum.summary.encode(), sum, parts }
    }

    pub fn write(&self, connection: &Connection, hours: i64, start: i64) -> rusqlite::Result<()> {
        let Packed { key, sum: Part { count, summary }, total, parts } = self;
        let Key { provider, model_sent, model, user } = key;
        let (won, empty) = (summary.outcome(AttemptOutcome::Won), summary.outcome(AttemptOutcome::Empty));
        let (seen, censored) = (summary.ttft.seen, summary.ttft.censored);
        let (failed, cost) = (summary.failed(), summary.cost.usd());
        connection.prepare_cached(INSERT)?.execute(params![
            hours, start, provider, model_sent, model, user, count, won, failed, empty, censored, seen, cost, total,
            parts
        ])?;
        Ok(())
    }
}

impl Gather for Bundle {
    fn attempt(&mut self, facts: &Facts<'_>) {
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

    fn cell(&mut self, _: &Cell<'_>) -> Result<(), Short> {
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

const INSERT: &str = "\
    INSERT INTO rollup (hours, start, provider, model_sent, model, user, attempts, wins, failures, empty, censored, \
                        ttft_samples, cost_usd, total, parts) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";
