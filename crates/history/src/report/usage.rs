//! What each user, team, key or model used and cost.
//!
//! Not for what racing was for: see `costs`.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Map, Value, json};

use super::members::{MemberField, members, text};
use super::question::{RaceWindow, choice};
use super::spent::{self, CancelledCosts, GatherCosts};
use crate::store::{Gather, ReadError, RollupCell, Selection, StoreReader};
use photofinish_config::config::Config;
use photofinish_config::config::names::names;
use photofinish_facts::estimate::ShortBytes;
use photofinish_facts::estimate::cost::CostSum;
use photofinish_facts::estimate::facts::{AttemptFacts, RequestFacts};
use photofinish_facts::estimate::summary::Summary;
use photofinish_facts::record::AttemptOutcome;

/// Groups of one answer on usage, the dearest.
pub const USAGE_MAX: usize = 10_000;

names! {
    /// What usage is told apart by.
    pub enum UsageDimension {
        /// The caller.
        User = "user",
        /// The team of the caller.
        Team = "team",
        /// The key of the caller, by its id; none for a token of the configuration.
        Key = "key",
        /// The model that the app asked for.
        Model = "model",
    }
}

/// Which usage.
#[derive(Args, Clone, Debug)]
pub struct UsageQuestion {
    #[command(flatten)]
    pub window: RaceWindow,
    /// One group for each combination of these, separated by commas. Roll-ups know no teams and keys.
    #[arg(long, value_name = "DIMENSION", value_delimiter = ',', value_parser = choice::<UsageDimension>(), default_value = "user")]
    pub by: Vec<UsageDimension>,
}

/// The answer.
#[derive(Debug)]
pub struct UsageAnswer {
    pub by: Vec<UsageDimension>,
    /// The dearest first.
    pub groups: Vec<(Vec<Option<String>>, AttemptUse)>,
    pub total: AttemptUse,
    /// Groups beyond [`USAGE_MAX`].
    pub left_out: usize,
    pub cancelled: CancelledCosts,
    /// Roll-ups were read before this time, where no rows are left; microseconds since 1970, UTC.
    pub rolled_until: Option<i64>,
}

/// What some attempts used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttemptUse {
    pub answers: u64,
    pub attempts: u64,
    pub output_tokens: i64,
    pub cost: CostSum,
    /// What racing cost of it.
    pub extra: CostSum,
}

/// Reads the answer, from rows wherever there are some.
///
/// # Errors
/// For an operator.
pub fn ask(reader: &StoreReader, question: &UsageQuestion, now_us: i64) -> Result<UsageAnswer, ReadError> {
    let new = || UsageByKey { by: question.by.clone(), groups: BTreeMap::new(), cancelled: CancelledCosts::default() };
    let filter = question.window.filter(now_us);
    let selection = Selection { filter, now_us, classes: false, hourly: false, exact: true };
    let (gathered, coverage) = spent::gather(reader, &selection, new)?;
    let mut groups: Vec<_> = gathered.groups.into_iter().collect();
    let mut total = AttemptUse::default();
    groups.iter().for_each(|(_, used)| total.add(used));
    groups.sort_by_key(|(_, used)| std::cmp::Reverse((used.cost.least(), used.attempts)));
    let left_out = groups.len().saturating_sub(USAGE_MAX);
    groups.truncate(USAGE_MAX);
    let (by, rolled_until) = (question.by.clone(), coverage.rolled_until);
    Ok(UsageAnswer { by, groups, total, left_out, cancelled: gathered.cancelled, rolled_until })
}

members! {
    /// What attempts used. A group also has the members that `by` names.
    pub USED: used(of: &AttemptUse) {
        /// requests that were answered
        answers: Integer = of.answers;
        /// started attempts; shadows are none
        attempts: Integer = of.attempts;
        /// of all attempts
        output_tokens: Integer ["tokens"] = of.output_tokens;
        /// of all attempts and of shadows, lower bound; null where none has a price
        cost_usd_min: Number ["USD"] or_null = of.cost.min_usd();
        /// upper bound; null where nothing bounds an attempt
        cost_usd_max: Number ["USD"] or_null = of.cost.max_usd();
        /// what racing cost of it, as `GET /api/costs` says by kind, lower bound
        extra_cost_usd_min: Number ["USD"] or_null = of.extra.min_usd();
        /// upper bound
        extra_cost_usd_max: Number ["USD"] or_null = of.extra.max_usd();
        /// attempts without a price, which count as 0
        unpriced: Integer = of.cost.unpriced();
    }
}

/// The members that `by` names.
pub const USAGE_KEYS: [MemberField; 4] = [
    text("user", "the caller").or_null().if_known(),
    text("team", "the team of the caller").or_null().if_known(),
    text("key", "the id of the caller's key").or_null().if_known(),
    text("model", "the model that the app asked for").or_null().if_known(),
];

members! {
    /// What attempts used: in all, and of each group.
    pub USAGE: usage_object(of: &UsageAnswer, config: &Config) {
        total: Object("UsedAmounts") = used(&of.total);
        /// the dearest first
        groups: List("UsageGroup", USAGE_MAX) = of.groups.iter().map(|(keys, amounts)| {
            let names = of.by.iter().map(|by| by.as_str().to_owned());
            names.zip(keys.iter().map(|key| json!(key))).chain(used(amounts)).collect::<Map<String, Value>>()
        }).collect::<Vec<_>>();
        /// further groups
        left_out: Integer = of.left_out;
        /// as of `GET /api/costs`
        about_range: Text or_null = of.cancelled.about_range(&of.total.cost, config);
    }
}

impl UsageAnswer {
    /// For programs.
    pub fn json(&self, config: &Config) -> Value {
        usage_object(self, config).into()
    }
}

impl AttemptUse {
    fn add(&mut self, other: &AttemptUse) {
        self.answers += other.answers;
        self.attempts += other.attempts;
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cost.merge(&other.cost);
        self.extra.merge(&other.extra);
    }
}

struct UsageByKey {
    by: Vec<UsageDimension>,
    groups: BTreeMap<Vec<Option<String>>, AttemptUse>,
    cancelled: CancelledCosts,
}

impl UsageByKey {
    fn group(&mut self, of: impl Fn(UsageDimension) -> Option<String>) -> &mut AttemptUse {
        self.groups.entry(self.by.iter().map(|by| of(*by)).collect()).or_default()
    }

    fn group_of(&mut self, request: Option<&RequestFacts<'_>>) -> &mut AttemptUse {
        self.group(|by| {
            let request = request?;
            let text = match by {
                UsageDimension::User => request.user,
                UsageDimension::Team => request.team,
                UsageDimension::Key => request.caller_key,
                UsageDimension::Model => Some(request.model),
            };
            text.map(str::to_owned)
        })
    }
}

impl Gather for UsageByKey {
    fn attempt(&mut self, facts: &AttemptFacts<'_>) {
        let request = facts.request.as_ref();
        let used = self.group_of(request);
        used.answers += u64::from(request.is_some_and(|request| request.served == Some(true)));
        used.attempts += 1;
        used.output_tokens = used.output_tokens.saturating_add(facts.output_tokens.unwrap_or(0));
        self.cost(facts);
    }

    fn without_attempts(&mut self, _: i64, _: &RequestFacts<'_>) {}

    fn cell(&mut self, cell: &RollupCell<'_>) -> Result<(), ShortBytes> {
        let Some((provider, _)) = cell.upstream else { return Ok(()) };
        let mut summary = Summary::default();
        summary.absorb(cell.summary, true)?;
        let of = AttemptUse {
            answers: summary.outcome(AttemptOutcome::Won),
            attempts: summary.attempts,
            output_tokens: i64::try_from(summary.tokens_served + summary.tokens_lost).unwrap_or(i64::MAX),
            cost: summary.cost,
            extra: summary.extra_cost(),
        };
        self.cancelled.add(provider, &summary.cancelled_cost());
        let group = self.group(|by| match by {
            UsageDimension::User => cell.user.map(str::to_owned),
            UsageDimension::Model => cell.model.map(str::to_owned),
            UsageDimension::Team | UsageDimension::Key => None,
        });
        group.add(&of);
        Ok(())
    }

    fn merge(&mut self, other: Self) {
        for (key, used) in other.groups {
            self.groups.entry(key).or_default().add(&used);
        }
        self.cancelled.merge(&other.cancelled);
    }
}

impl GatherCosts for UsageByKey {
    fn cost(&mut self, facts: &AttemptFacts<'_>) {
        self.cancelled.attempt(facts);
        let used = self.group_of(facts.request.as_ref());
        used.cost.add(&facts.cost);
        if facts.racing.is_some() {
            used.extra.add(&facts.cost);
        }
    }
}
