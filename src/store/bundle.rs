//! The cells of one hour or day while they are made: a summary for each combination of upstream, model and caller, and
//! within it for each class.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};

use super::cells::{self, PARTS};
use super::reader::{Cell, Class, Gather};
use super::times::HOUR_US;
use crate::history::class::{Concurrency, Input};
use crate::history::facts::{Facts, RequestFacts};
use crate::history::summary::Summary;
use crate::history::{AttemptOutcome, RaceOutcome, Short};

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
            let classes = bundle.cells.entry(key).or_default();
            let mut parts = row.get_ref(6)?.as_blob()?;
            let damaged = |_: Short| rusqlite::Error::InvalidQuery;
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

    pub fn write(&self, connection: &Connection, hours: i64, start: i64) -> rusqlite::Result<()> {
        let mut statement = connection.prepare_cached(INSERT)?;
        for (key, classes) in &self.cells {
            let (mut total, mut parts) = (Part::default(), Vec::new());
            for (class, part) in classes {
                cells::put_part(&mut parts, *class, part.count, &part.summary.encode());
                total.count += part.count;
                total.summary.merge(part.summary.clone());
            }
            let Part { count, summary } = &total;
            let won = summary.outcome(AttemptOutcome::Won);
            let empty = summary.outcome(AttemptOutcome::Empty);
            let (seen, censored) = (summary.ttft.seen, summary.ttft.censored);
            let Key { provider, model_sent, model, user } = key;
            let (failed, cost) = (summary.failed(), summary.cost.usd());
            statement.execute(params![
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
                cost,
                summary.encode(),
                parts
            ])?;
        }
        Ok(())
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
        self.cells.entry(key).or_default().entry(class).or_default()
    }
}

impl Gather for Bundle {
    fn attempt(&mut self, facts: &Facts<'_>) {
        let upstream = (facts.provider, facts.model_sent);
        let part = self.part(upstream, facts.request.as_ref(), facts.in_flight_upstream);
        part.count += 1;
        part.summary.add(facts, 1.0, true);
        let unserved =
            |request: &&RequestFacts<'_>| request.served.is_none() && request.outcome != RaceOutcome::ClientGone;
        if let Some(request) = facts.request.as_ref().filter(unserved)
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
