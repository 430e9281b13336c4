//! What attempts cost, by what they were for: answers, and the kinds of racing.
//!
//! Not for prices: see `bill`.

use std::collections::BTreeMap;

use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};

use super::members::{MemberField, members, text};
use super::question::{RaceWindow, choice};
use super::spent::{self, CancelledCosts, GatherCosts};
use crate::store::{AttemptFilter, Coverage, Gather, ReadError, RollupCell, Selection, SourceFilter, StoreReader};
use photofinish_base::clock::DAY_US;
use photofinish_config::Config;
use photofinish_config::names::names;
use photofinish_facts::estimate::ShortBytes;
use photofinish_facts::estimate::cost::CostSum;
use photofinish_facts::estimate::facts::{AttemptFacts, RequestFacts};
use photofinish_facts::estimate::racing::{RACING, RacingKind};
use photofinish_facts::estimate::summary::Summary;
use photofinish_facts::record::RaceSource;

/// Groups of one answer on costs, those with most attempts.
pub const GROUPS_MAX: usize = 500;

names! {
    /// A name that `by` takes.
    pub enum CostDimension {
        /// The day on which the race began, UTC.
        Day = "day",
        /// The model that the app asked for.
        Model = "model",
        /// The caller.
        User = "user",
        /// Provider and its name for the model.
        Upstream = "upstream",
        /// Who asked: clients, probes and benchmarks, each for itself unless `source` names one.
        Source = "source",
    }
}

/// The attempts and the groups.
#[derive(Args, Clone, Debug)]
pub struct CostsQuestion {
    #[command(flatten)]
    pub window: RaceWindow,
    /// One group for each of these.
    #[arg(long, value_name = "DIMENSION", value_parser = choice::<CostDimension>(), default_value = "day")]
    pub by: CostDimension,
    /// Read rows instead of roll-ups, for at most 30 s, as far back as rows are kept.
    #[arg(long)]
    pub exact: bool,
}

/// The answer.
#[derive(Debug)]
pub struct Costs {
    pub by: CostDimension,
    pub total: CostParts,
    /// Days in their order; else with most attempts first.
    pub groups: Vec<(Option<String>, CostParts)>,
    /// Groups beyond [`GROUPS_MAX`].
    pub left_out: usize,
    pub cancelled: CancelledCosts,
    pub coverage: Coverage,
}

/// The costs of some attempts.
#[derive(Clone, Debug, Default)]
pub struct CostParts {
    pub attempts: u64,
    pub all: CostSum,
    /// In the order of [`RacingKind::ALL`].
    pub racing: [CostSum; RacingKind::ALL.len()],
}

/// Reads the answer.
///
/// # Errors
/// For an operator.
pub fn ask(reader: &StoreReader, question: &CostsQuestion, now_us: i64) -> Result<Costs, ReadError> {
    let by = question.by;
    let sources = match (by, question.window.source) {
        // One by one: only those of clients are rolled up.
        (CostDimension::Source, SourceFilter::Client | SourceFilter::All) => {
            RaceSource::ALL.map(SourceFilter::from).to_vec()
        }
        (_, source) => vec![source],
    };
    let new = |source| CostsByKey { by, source, now_us, groups: BTreeMap::new(), cancelled: CancelledCosts::default() };
    let (mut gathered, mut coverage) = (new(question.window.source), Coverage::default());
    for source in sources {
        let filter = AttemptFilter { source, ..question.window.filter(now_us) };
        let selection = Selection { filter, now_us, classes: false, hourly: false, exact: question.exact };
        // One by one they have their shadows among them.
        let (of_source, read) = match by {
            CostDimension::Source => reader.gather(&selection, || new(source))?,
            _ => spent::gather(reader, &selection, || new(source))?,
        };
        gathered.merge(of_source);
        coverage = Coverage { rolled_until: coverage.rolled_until.or(read.rolled_until), ..read };
    }
    let (mut total, cancelled) = (CostParts::default(), gathered.cancelled);
    gathered.groups.values().for_each(|parts| total.merge(parts));
    let mut groups: Vec<(Option<String>, CostParts)> = gathered.groups.into_iter().collect();
    let left_out = groups.len().saturating_sub(GROUPS_MAX);
    if by != CostDimension::Day {
        groups.sort_by_key(|(_, parts)| std::cmp::Reverse(parts.attempts));
        groups.truncate(GROUPS_MAX);
    }
    let groups = groups.split_off(if by == CostDimension::Day { left_out } else { 0 });
    Ok(Costs { by, total, groups, left_out, cancelled, coverage })
}

impl CostParts {
    fn merge(&mut self, other: &CostParts) {
        self.attempts += other.attempts;
        self.all.merge(&other.all);
        self.racing.iter_mut().zip(&other.racing).for_each(|(sum, more)| sum.merge(more));
    }

    /// What racing cost.
    pub fn extra(&self) -> CostSum {
        let mut sum = CostSum::default();
        self.racing.iter().for_each(|racing| sum.merge(racing));
        sum
    }

    /// Of the answers, and of requests without an answer.
    pub fn answers(&self) -> CostSum {
        self.all.without(&self.extra())
    }

    fn of(&self, kind: RacingKind) -> &CostSum {
        &self.racing[kind as usize]
    }
}

members! {
    /// A sum of costs.
    pub COST_SUM: cost_sum(of: &CostSum) {
        /// lower bound; null where no attempt has a price
        cost_usd_min: Number ["USD"] or_null = of.min_usd();
        /// upper bound, the same where the cost is exact; null where nothing bounds an attempt
        cost_usd_max: Number ["USD"] or_null = of.max_usd();
    }
}

members! {
    /// The costs of a group. It also has the member that `by` names.
    pub COST_PARTS: cost_parts(of: &CostParts) {
        /// number of attempts
        attempts: Integer = of.attempts;
        /// every attempt
        all: Object("CostSum") = cost_sum(&of.all);
        /// attempts that were the answer, and those of requests without an answer
        answers: Object("CostSum") = cost_sum(&of.answers());
        /// what racing cost, all kinds together: see `about_racing`
        racing: Object("CostSum") = cost_sum(&of.extra());
        /// racing: started at once, with the first, and cut off
        cut: Object("CostSum") = cost_sum(of.of(RacingKind::Cut));
        /// racing: started because others were late or failed, and cut off
        late: Object("CostSum") = cost_sum(of.of(RacingKind::Late));
        /// racing: drawn by the request, so that upstreams can be compared
        looks: Object("CostSum") = cost_sum(of.of(RacingKind::Look));
        /// racing: ran on to be measured: audits, revisits and trials
        audits: Object("CostSum") = cost_sum(of.of(RacingKind::Audit));
        /// racing: read to the end, because the provider bills a cancelled answer in full
        drains: Object("CostSum") = cost_sum(of.of(RacingKind::Drain));
        /// racing: failed, and another attempt answered
        failed: Object("CostSum") = cost_sum(of.of(RacingKind::Failed));
        /// racing: the request once more at a newcomer; of whole hours without rows none are known
        shadows: Object("CostSum") = cost_sum(of.of(RacingKind::Shadow));
    }
}

/// The keys of groups; an object has only the one of the question.
pub const COST_KEYS: [MemberField; 5] = [
    text("day", "UTC").or_null().if_known(),
    text("model", "as the app asked for it").or_null().if_known(),
    text("user", "the caller").or_null().if_known(),
    text("upstream", "`PROVIDER/MODEL`").or_null().if_known(),
    text("source", "`client`, `probe`, `bench` or `shadow`").if_known(),
];

members! {
    /// What attempts cost: in all, and of each group.
    pub COSTS: costs_object(of: &Costs, config: &Config) {
        total: Object("CostParts") = cost_parts(&of.total);
        groups: List("CostParts", GROUPS_MAX) = of.groups.iter().map(|(key, parts)| {
            let mut group = Map::from_iter([(of.by.as_str().to_owned(), json!(key))]);
            group.extend(cost_parts(parts));
            group
        }).collect::<Vec<_>>();
        /// further groups; of days, the oldest
        left_out: Integer = of.left_out;
        /// which attempts are racing
        about_racing: Text = format!("Racing is {RACING}.");
        /// why most of the range of the total is not known, and how to find out: the providers that do not say what a cancelled
        /// request costs
        about_range: Text or_null = of.cancelled.about_range(&of.total.all, config);
    }
}

impl Costs {
    pub fn json(&self, config: &Config) -> Value {
        costs_object(self, config).into()
    }
}

struct CostsByKey {
    by: CostDimension,
    source: SourceFilter,
    now_us: i64,
    groups: BTreeMap<Option<String>, CostParts>,
    cancelled: CancelledCosts,
}

impl CostsByKey {
    fn group(
        &mut self,
        started_at: i64,
        (provider, model_sent): (&str, &str),
        model: Option<&str>,
        user: Option<&str>,
    ) -> &mut CostParts {
        let key = match self.by {
            CostDimension::Day => Some(day(started_at)),
            CostDimension::Model => model.map(str::to_owned),
            CostDimension::User => user.map(str::to_owned),
            CostDimension::Upstream => Some(format!("{provider}/{model_sent}")),
            CostDimension::Source => Some(self.source.as_str().to_owned()),
        };
        self.groups.entry(key).or_default()
    }

    fn parts_of(&mut self, facts: &AttemptFacts<'_>) -> &mut CostParts {
        let request = facts.request.as_ref();
        let (model, user) = (request.map(|request| request.model), request.and_then(|request| request.user));
        self.group(facts.started_at, (facts.provider, facts.model_sent), model, user)
    }
}

fn day(at_us: i64) -> String {
    let start = Timestamp::from_microsecond(at_us.div_euclid(DAY_US) * DAY_US);
    start.map(|at| at.to_zoned(TimeZone::UTC).date().to_string()).unwrap_or_default()
}

impl Gather for CostsByKey {
    fn attempt(&mut self, facts: &AttemptFacts<'_>) {
        if facts.is_of_a_running_race(self.now_us) {
            return;
        }
        self.parts_of(facts).attempts += 1;
        self.cost(facts);
    }

    fn without_attempts(&mut self, _: i64, _: &RequestFacts<'_>) {}

    fn cell(&mut self, cell: &RollupCell<'_>) -> Result<(), ShortBytes> {
        let Some(upstream) = cell.upstream else { return Ok(()) };
        let mut summary = Summary::default();
        summary.absorb(cell.summary, true)?;
        self.cancelled.add(upstream.0, &summary.cancelled_cost());
        let parts = self.group(cell.start_us, upstream, cell.model, cell.user);
        parts.attempts += summary.attempts;
        parts.all.merge(&summary.cost);
        for kind in RacingKind::ALL {
            parts.racing[kind as usize].merge(&summary.racing(kind));
        }
        Ok(())
    }

    fn merge(&mut self, other: Self) {
        for (key, parts) in other.groups {
            self.groups.entry(key).or_default().merge(&parts);
        }
        self.cancelled.merge(&other.cancelled);
    }
}

impl GatherCosts for CostsByKey {
    fn cost(&mut self, facts: &AttemptFacts<'_>) {
        self.cancelled.attempt(facts);
        let parts = self.parts_of(facts);
        parts.all.add(&facts.cost);
        if let Some(kind) = facts.racing {
            parts.racing[kind as usize].add(&facts.cost);
        }
    }
}
