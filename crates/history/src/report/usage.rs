//! What each user, team, key or model used and cost: whole nano-dollars, the sum of the rows' amounts, each rounded once.
//!
//! Not for bounds of costs that are not known exactly, nor for what losers were for: see `costs`.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Map, Value, json};

use super::members::{MemberField, members, text};
use super::question::{RaceWindow, choice};
use crate::estimate::ShortBytes;
use crate::estimate::facts::{AttemptFacts, RequestFacts};
use crate::estimate::summary::Summary;
use crate::record::AttemptOutcome;
use crate::store::{Gather, ReadError, RollupCell, Selection, StoreReader};
use photofinish_base::order::StableSort as _;
use photofinish_config::config::names::names;
use photofinish_config::config::nano_usd;

/// Groups of one answer, the dearest.
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
    /// Roll-ups were read before this time, where no rows are left; microseconds since 1970, UTC.
    pub rolled_until: Option<i64>,
}

/// What some attempts used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttemptUse {
    pub answers: u64,
    pub attempts: u64,
    pub output_tokens: i64,
    pub cost: i64,
    pub extra: i64,
    pub unknown: u64,
}

/// Reads the answer, from rows wherever there are some.
///
/// # Errors
/// For an operator.
pub fn ask(reader: &StoreReader, question: &UsageQuestion, now_us: i64) -> Result<UsageAnswer, ReadError> {
    let new = || UsageByKey { by: question.by.clone(), groups: BTreeMap::new() };
    let filter = question.window.filter(now_us);
    let selection = Selection { filter, now_us, classes: false, hourly: false, exact: true };
    let (gathered, coverage) = reader.gather(&selection, new)?;
    let mut groups: Vec<_> = gathered.groups.into_iter().collect();
    let mut total = AttemptUse::default();
    groups.iter().for_each(|(_, used)| total.add(used));
    groups.stable_sort_by_key(|(_, used)| std::cmp::Reverse((used.cost, used.attempts)));
    let left_out = groups.len().saturating_sub(USAGE_MAX);
    groups.truncate(USAGE_MAX);
    Ok(UsageAnswer { by: question.by.clone(), groups, total, left_out, rolled_until: coverage.rolled_until })
}

members! {
    /// What attempts used. A group also has the members that `by` names.
    pub USED: used(of: &AttemptUse) {
        /// requests that were answered
        answers: Integer = of.answers;
        /// started attempts, losers among them
        attempts: Integer = of.attempts;
        /// of all attempts
        output_tokens: Integer ["tokens"] = of.output_tokens;
        /// billionths of a US dollar; all attempts
        cost_nano_usd: Integer ["nano-USD"] = of.cost;
        /// part of it: losers
        extra_nano_usd: Integer ["nano-USD"] = of.extra;
        /// attempts of these whose cost is not known, and counts as 0
        cost_unknown: Integer = of.unknown;
    }
}

/// The members that `by` names.
pub const USAGE_KEYS: [MemberField; 4] = [
    text("user", "the caller").or_null().if_known(),
    text("team", "the team of the caller").or_null().if_known(),
    text("key", "the id of the caller's key").or_null().if_known(),
    text("model", "the model that the app asked for").or_null().if_known(),
];

impl UsageAnswer {
    /// For programs.
    pub fn json(&self) -> Value {
        let group = |(keys, of): &(Vec<Option<String>>, AttemptUse)| {
            let names = self.by.iter().map(|by| by.as_str().to_owned());
            names.zip(keys.iter().map(|key| json!(key))).chain(used(of)).collect::<Map<String, Value>>()
        };
        let groups: Vec<Map<String, Value>> = self.groups.iter().map(group).collect();
        json!({ "total": used(&self.total), "groups": groups, "left_out": self.left_out })
    }
}

impl AttemptUse {
    fn add(&mut self, other: &AttemptUse) {
        self.answers += other.answers;
        self.attempts += other.attempts;
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cost = self.cost.saturating_add(other.cost);
        self.extra = self.extra.saturating_add(other.extra);
        self.unknown += other.unknown;
    }
}

struct UsageByKey {
    by: Vec<UsageDimension>,
    groups: BTreeMap<Vec<Option<String>>, AttemptUse>,
}

impl UsageByKey {
    fn group(&mut self, of: impl Fn(UsageDimension) -> Option<String>) -> &mut AttemptUse {
        self.groups.entry(self.by.iter().map(|by| of(*by)).collect()).or_default()
    }
}

impl Gather for UsageByKey {
    fn attempt(&mut self, facts: &AttemptFacts<'_>) {
        let request = facts.request.as_ref();
        let cost = facts.cost.cost_usd.map(nano_usd);
        let of = AttemptUse {
            answers: u64::from(request.is_some_and(|request| request.served == Some(true))),
            attempts: 1,
            output_tokens: facts.output_tokens.unwrap_or(0),
            cost: cost.unwrap_or(0),
            extra: cost.filter(|_| facts.loser.is_some()).unwrap_or(0),
            unknown: u64::from(cost.is_none()),
        };
        let group = self.group(|by| {
            let request = request?;
            let text = match by {
                UsageDimension::User => request.user,
                UsageDimension::Team => request.team,
                UsageDimension::Key => request.caller_key,
                UsageDimension::Model => Some(request.model),
            };
            text.map(str::to_owned)
        });
        group.add(&of);
    }

    fn without_attempts(&mut self, _: i64, _: &RequestFacts<'_>) {}

    fn cell(&mut self, cell: &RollupCell<'_>) -> Result<(), ShortBytes> {
        let Some(_) = cell.upstream else { return Ok(()) };
        let mut summary = Summary::default();
        summary.absorb(cell.summary, 1.0, true)?;
        let of = AttemptUse {
            answers: summary.outcome(AttemptOutcome::Won),
            attempts: summary.attempts,
            output_tokens: i64::try_from(summary.tokens_served + summary.tokens_lost).unwrap_or(i64::MAX),
            cost: nano_usd(summary.cost.usd().unwrap_or(0.0)),
            extra: nano_usd(summary.extra_cost().usd().unwrap_or(0.0)),
            unknown: summary.cost.unknown(),
        };
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
    }
}
