//! Gathers attempts by name and step: row by row, or hour by hour where they are rolled up.
//!
//! Not for the figure of a step: that is `points`.

use std::collections::{BTreeMap, HashMap};

use super::SeriesDimension;
use crate::history::ShortBytes;
use crate::history::class::Concurrency;
use crate::history::facts::{AttemptFacts, RequestFacts};
use crate::history::summary::Summary;
use crate::report::dimension::GroupValue;
use crate::report::names::NameIndex;
use crate::store::{Gather, RollupCell};

/// How attempts are gathered.
#[derive(Debug)]
pub(super) struct SeriesRules {
    by: SeriesDimension,
    /// Length of a step in microseconds; none over concurrency.
    every_us: Option<i64>,
    /// Unanswered requests count once for each upstream that tried, instead of once.
    unserved_by_upstream: bool,
    /// Microseconds since 1970, UTC.
    now_us: i64,
}

/// All that was read.
#[derive(Debug)]
pub(super) struct GatheredSeries<'r> {
    rules: &'r SeriesRules,
    names: NameIndex,
    /// By the place of the name. None: the race's own row is not written yet, or there are no users.
    lines: HashMap<Option<usize>, GatheredLine>,
    pub without_attempts: u64,
    /// Attempts of running races.
    pub running: u64,
    /// Start of the first race; microseconds since 1970, UTC.
    pub oldest: Option<i64>,
}

#[derive(Debug, Default)]
pub(super) struct GatheredLine {
    pub attempts: u64,
    /// By the start of the step in microseconds since 1970, or by the index of the class.
    pub steps: BTreeMap<i64, SeriesStep>,
}

/// The data of one point.
#[derive(Debug, Default)]
pub(super) struct SeriesStep {
    rows: Summary,
    /// Encoded summaries, which take a hundredth of the memory of decoded ones; and whether unanswered requests count.
    cells: Vec<(bool, Box<[u8]>)>,
    /// Length of the longest cell in microseconds; 0 without cells.
    pub cell_span_us: i64,
}

impl SeriesRules {
    /// `of_one_provider`: only one provider is gathered.
    pub fn new(by: SeriesDimension, every_us: Option<i64>, of_one_provider: bool, now_us: i64) -> SeriesRules {
        let unserved_by_upstream =
            of_one_provider || matches!(by, SeriesDimension::Upstream | SeriesDimension::Concurrency);
        SeriesRules { by, every_us, unserved_by_upstream, now_us }
    }
}

impl<'r> GatheredSeries<'r> {
    pub fn new(rules: &'r SeriesRules) -> GatheredSeries<'r> {
        GatheredSeries {
            rules,
            names: NameIndex::default(),
            lines: HashMap::new(),
            without_attempts: 0,
            running: 0,
            oldest: None,
        }
    }

    pub fn attempts(&self) -> u64 {
        self.lines.values().map(|line| line.attempts).sum()
    }

    fn saw(&mut self, at_us: i64) {
        self.oldest = Some(self.oldest.map_or(at_us, |oldest| oldest.min(at_us)));
    }

    /// Each line with its name.
    pub fn into_lines(self) -> impl Iterator<Item = (GroupValue, GatheredLine)> {
        let GatheredSeries { names, lines, .. } = self;
        let name = move |place| GroupValue::Name(names.name(place).to_owned());
        lines.into_iter().map(move |(place, line)| (place.map_or(GroupValue::Unknown, &name), line))
    }

    fn line_of(&mut self, upstream: (&str, &str), model: Option<&str>, user: Option<&str>) -> &mut GatheredLine {
        let place = match self.rules.by {
            SeriesDimension::Upstream | SeriesDimension::Concurrency => Some(self.names.upstream(upstream)),
            SeriesDimension::Model => model.map(|name| self.names.place(name)),
            SeriesDimension::User => user.map(|name| self.names.place(name)),
        };
        self.lines.entry(place).or_default()
    }

    fn at(&self, started_at: i64, class: Option<Concurrency>) -> i64 {
        match self.rules.every_us {
            Some(every_us) => started_at.div_euclid(every_us) * every_us,
            None => class.map_or(0, |class| i64::from(class.place())),
        }
    }
}

impl Gather for GatheredSeries<'_> {
    fn attempt(&mut self, facts: &AttemptFacts<'_>) {
        self.saw(facts.started_at);
        if facts.is_of_a_running_race(self.rules.now_us) {
            self.running += 1;
            return;
        }
        let at = self.at(facts.started_at, Some(Concurrency::of(facts.in_flight_upstream)));
        let (model, user) = facts.request.as_ref().map_or((None, None), |request| (Some(request.model), request.user));
        let by_upstream = self.rules.unserved_by_upstream;
        let line = self.line_of((facts.provider, facts.model_sent), model, user);
        line.attempts += 1;
        let rows = &mut line.steps.entry(at).or_default().rows;
        rows.add(facts, 1.0, false);
        if by_upstream {
            rows.requests.count_by_upstream();
        }
    }

    fn without_attempts(&mut self, _: i64, _: &RequestFacts<'_>) {
        self.without_attempts += 1;
    }

    fn cell(&mut self, cell: &RollupCell<'_>) -> Result<(), ShortBytes> {
        self.saw(cell.start_us);
        let unserved = self.rules.unserved_by_upstream;
        if cell.upstream.is_none() {
            self.without_attempts += cell.count;
            if unserved {
                return Ok(());
            }
        }
        let at = self.at(cell.start_us, cell.class.map(|class| class.concurrency));
        let line = self.line_of(cell.upstream.unwrap_or_default(), cell.model, cell.user);
        line.attempts += if cell.upstream.is_some() { cell.count } else { 0 };
        let step = line.steps.entry(at).or_default();
        step.cells.push((unserved || cell.upstream.is_none(), cell.summary.into()));
        step.cell_span_us = step.cell_span_us.max(cell.span_us);
        Ok(())
    }

    fn merge(&mut self, other: Self) {
        self.without_attempts += other.without_attempts;
        self.running += other.running;
        other.oldest.into_iter().for_each(|oldest| self.saw(oldest));
        for (place, line) in other.lines {
            let place = place.map(|place| self.names.place(other.names.name(place)));
            let mine = self.lines.entry(place).or_default();
            mine.attempts += line.attempts;
            for (at, step) in line.steps {
                let into = mine.steps.entry(at).or_default();
                into.rows.merge(step.rows);
                into.cells.extend(step.cells);
                into.cell_span_us = into.cell_span_us.max(step.cell_span_us);
            }
        }
    }
}

impl SeriesStep {
    /// All of it, decoded.
    ///
    /// # Errors
    /// When a stored summary is damaged.
    pub fn summary(self) -> Result<Summary, ShortBytes> {
        let mut summary = self.rows;
        for (unserved, bytes) in &self.cells {
            summary.absorb(bytes, 1.0, *unserved)?;
        }
        Ok(summary)
    }
}
