//! Gathers attempts by group: row by row, or hour by hour where they are rolled up.
//!
//! Not for the figures of a group: those are `figures`.

use std::collections::{BTreeMap, HashMap};

use super::dimension::{Dimension, GroupValue, NameIndex};
use super::figures::GroupFigures;
use super::spent::{CancelledCosts, GatherCosts};
use crate::store::{Gather, RollupCell};
use photofinish_facts::estimate::ShortBytes;
use photofinish_facts::estimate::class::{Concurrency, Input};
use photofinish_facts::estimate::facts::{AttemptFacts, RequestFacts};
use photofinish_facts::estimate::goodput::{self, HoursWindow, SloTargets};
use photofinish_facts::estimate::summary::Summary;

/// How attempts are grouped.
#[derive(Clone, Debug)]
pub struct GroupRules {
    by: Vec<Dimension>,
    now_us: i64,
    /// Unanswered requests count once for each upstream that tried, instead of once.
    unserved_by_upstream: bool,
}

/// The groups.
#[derive(Debug)]
pub struct Groups<'r> {
    rules: &'r GroupRules,
    names: NameIndex,
    places: HashMap<GroupKey, usize>,
    groups: Vec<(GroupKey, Summary)>,
    pub without_attempts: u64,
    /// Attempts of running races, which are left out.
    pub running: u64,
    /// Start of the first race; microseconds since 1970, UTC.
    pub oldest: Option<i64>,
    pub cancelled: CancelledCosts,
}

/// The value of an attempt in each dimension, as a number; for a name, its index. −1: unknown.
type GroupKey = [i64; Dimension::ALL.len()];

const UNKNOWN: i64 = -1;

/// An attempt, or a cell of attempts, as far as grouping needs it.
struct GroupedAttempt<'a> {
    started_at: i64,
    upstream: (&'a str, &'a str),
    model: Option<&'a str>,
    user: Option<&'a str>,
    input: Option<Input>,
    concurrency: Option<Concurrency>,
}

impl GroupRules {
    /// `of_one_provider`: only one provider is gathered.
    pub fn new(by: &[Dimension], of_one_provider: bool, now_us: i64) -> GroupRules {
        let upstream_counts = by.contains(&Dimension::Upstream) || by.contains(&Dimension::Concurrency);
        GroupRules { by: by.into(), now_us, unserved_by_upstream: upstream_counts || of_one_provider }
    }

    pub fn needs_classes(&self) -> bool {
        self.by.iter().any(|by| matches!(by, Dimension::Input | Dimension::Concurrency))
    }

    pub fn needs_hours(&self) -> bool {
        self.by.contains(&Dimension::Hour)
    }
}

impl<'r> Groups<'r> {
    pub fn new(rules: &'r GroupRules) -> Groups<'r> {
        Groups {
            rules,
            names: NameIndex::default(),
            places: HashMap::new(),
            groups: Vec::new(),
            without_attempts: 0,
            running: 0,
            oldest: None,
            cancelled: CancelledCosts::default(),
        }
    }

    pub fn attempts(&self) -> u64 {
        self.groups.iter().map(|(_, group)| group.attempts).sum()
    }

    /// In the order of the keys.
    pub fn figures(self, slo: &SloTargets, window: &HoursWindow) -> Vec<GroupFigures> {
        let Groups { rules, names, groups, .. } = self;
        let sorted: BTreeMap<Vec<GroupValue>, Summary> =
            groups.into_iter().map(|(key, group)| (names.parts(&rules.by, &key), group)).collect();
        let figures = sorted.into_iter().map(|(keys, group)| {
            let (mut hour, mut weekday) = (None, None);
            for part in &keys {
                match part {
                    GroupValue::Hour(of_day) => hour = Some(*of_day),
                    GroupValue::Weekday(of_week) => weekday = Some(*of_week),
                    _ => {}
                }
            }
            GroupFigures::new(keys, &group, slo, window.seconds(hour, weekday))
        });
        figures.filter(|figures| figures.attempts > 0 || !figures.cost.is_empty()).collect()
    }

    fn saw(&mut self, at_us: i64) {
        self.oldest = Some(self.oldest.map_or(at_us, |oldest| oldest.min(at_us)));
    }

    fn group(&mut self, subject: &GroupedAttempt<'_>) -> &mut Summary {
        let mut key = [UNKNOWN; Dimension::ALL.len()];
        for (place, dimension) in key.iter_mut().zip(&self.rules.by) {
            *place = self.names.number(*dimension, subject);
        }
        self.at(key)
    }

    fn at(&mut self, key: GroupKey) -> &mut Summary {
        let place = *self.places.entry(key).or_insert_with(|| {
            self.groups.push((key, Summary::default()));
            self.groups.len() - 1
        });
        &mut self.groups[place].1
    }
}

impl Gather for Groups<'_> {
    fn attempt(&mut self, facts: &AttemptFacts<'_>) {
        if facts.is_of_a_running_race(self.rules.now_us) {
            self.saw(facts.started_at);
            self.running += 1;
            return;
        }
        self.cancelled.attempt(facts);
        let subject = GroupedAttempt::of(facts);
        let by_upstream = self.rules.unserved_by_upstream;
        self.saw(facts.started_at);
        let group = self.group(&subject);
        group.add(facts, false);
        if by_upstream {
            group.requests.count_by_upstream();
        }
    }

    fn without_attempts(&mut self, _: i64, _: &RequestFacts<'_>) {
        self.without_attempts += 1;
    }

    fn cell(&mut self, cell: &RollupCell<'_>) -> Result<(), ShortBytes> {
        // A cell without a model: the rows of its requests were missing.
        let of_request = cell.class.filter(|_| cell.model.is_some());
        let subject = GroupedAttempt {
            started_at: cell.start_us,
            upstream: cell.upstream.unwrap_or_default(),
            model: cell.model,
            user: cell.user,
            input: of_request.map(|class| class.input),
            concurrency: cell.class.map(|class| class.concurrency),
        };
        self.saw(cell.start_us);
        if cell.upstream.is_none() {
            self.without_attempts += cell.count;
            if self.rules.unserved_by_upstream {
                return Ok(());
            }
            return self.group(&subject).absorb(cell.summary, true);
        }
        let unserved = self.rules.unserved_by_upstream;
        let group = self.group(&subject);
        let before = group.cancelled_cost();
        group.absorb(cell.summary, unserved)?;
        let cancelled = group.cancelled_cost().without(&before);
        self.cancelled.add(subject.upstream.0, &cancelled);
        Ok(())
    }

    fn merge(&mut self, other: Self) {
        self.without_attempts += other.without_attempts;
        self.running += other.running;
        other.oldest.into_iter().for_each(|oldest| self.saw(oldest));
        for (mut key, group) in other.groups {
            for (place, dimension) in key.iter_mut().zip(&self.rules.by) {
                *place = self.names.adopt(*dimension, *place, &other.names);
            }
            self.at(key).merge(group);
        }
        self.cancelled.merge(&other.cancelled);
    }
}

impl GatherCosts for Groups<'_> {
    fn cost(&mut self, facts: &AttemptFacts<'_>) {
        self.cancelled.attempt(facts);
        self.group(&GroupedAttempt::of(facts)).add_cost(facts);
    }
}

impl<'a> GroupedAttempt<'a> {
    fn of(facts: &AttemptFacts<'a>) -> GroupedAttempt<'a> {
        let request = facts.request.as_ref();
        GroupedAttempt {
            started_at: facts.started_at,
            upstream: (facts.provider, facts.model_sent),
            model: request.map(|request| request.model),
            user: request.and_then(|request| request.user),
            input: request.map(|request| Input::of(request.input_tokens_estimate)),
            concurrency: Some(Concurrency::of(facts.in_flight_upstream)),
        }
    }
}

/// Keys of groups.
impl NameIndex {
    fn number(&mut self, dimension: Dimension, subject: &GroupedAttempt<'_>) -> i64 {
        match dimension {
            Dimension::Upstream => self.upstream(subject.upstream) as i64,
            Dimension::Model => subject.model.map_or(UNKNOWN, |name| self.place(name) as i64),
            Dimension::User => subject.user.map_or(UNKNOWN, |name| self.place(name) as i64),
            Dimension::Hour => goodput::hour(subject.started_at),
            Dimension::Weekday => goodput::weekday(subject.started_at),
            Dimension::Input => subject.input.map_or(UNKNOWN, |class| i64::from(class.place())),
            Dimension::Concurrency => subject.concurrency.map_or(UNKNOWN, |class| i64::from(class.place())),
        }
    }

    fn named(&self, number: i64) -> &str {
        self.name(usize::try_from(number).unwrap_or(usize::MAX))
    }

    /// The index here for an index there.
    fn adopt(&mut self, dimension: Dimension, number: i64, there: &NameIndex) -> i64 {
        match dimension {
            Dimension::Upstream | Dimension::Model | Dimension::User if number != UNKNOWN => {
                self.place(there.named(number)) as i64
            }
            _ => number,
        }
    }

    fn parts(&self, by: &[Dimension], key: &GroupKey) -> Vec<GroupValue> {
        let part = |(dimension, number): (&Dimension, &i64)| match dimension {
            _ if *number == UNKNOWN => GroupValue::Unknown,
            Dimension::Upstream | Dimension::Model | Dimension::User => {
                GroupValue::Name(self.named(*number).to_owned())
            }
            Dimension::Hour => GroupValue::Hour(*number),
            Dimension::Weekday => GroupValue::Weekday(*number),
            Dimension::Input => GroupValue::Input(Input::at(*number as u8)),
            Dimension::Concurrency => GroupValue::Concurrency(Concurrency::at(*number as u8)),
        };
        by.iter().zip(key).map(part).collect()
    }
}
