//! What each user, team, key, model or tag used and cost.
//!
//! Not for what racing was for: see `costs`.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Map, Value, json};

use super::members::{MemberField, members, text};
use super::question::{RaceWindow, choice, time};
use super::spent::{self, CancelledCosts, GatherCosts};
use crate::store::{
    AccountEntry, AccountKind, Coverage, Gather, OTHERS, ReadError, RollupCell, Selection, StoreReader,
};
use photofinish_config::Config;
use photofinish_config::names::names;
use photofinish_facts::estimate::ShortBytes;
use photofinish_facts::estimate::cost::CostSum;
use photofinish_facts::estimate::facts::{AttemptFacts, RequestFacts};
use photofinish_facts::estimate::summary::Summary;
use photofinish_facts::record::AttemptOutcome;

/// Groups of one answer on usage, the dearest.
pub const USAGE_MAX: usize = 10_000;

names! {
    /// What usage is grouped by.
    pub enum UsageDimension {
        /// The caller.
        User = "user",
        /// The team of the caller.
        Team = "team",
        /// The key of the caller, by its id; none for a token of the configuration.
        Key = "key",
        /// The model that the app asked for.
        Model = "model",
        /// What the app charges the request to. A request with several tags is in several groups.
        Tag = "tag",
        /// The day, UTC.
        Day = "day",
    }
}

/// Which usage.
#[derive(Args, Clone, Debug)]
pub struct UsageQuestion {
    #[command(flatten)]
    pub window: RaceWindow,
    /// One group for each combination of these, separated by commas.
    #[arg(long, value_name = "DIMENSION", value_delimiter = ',', value_parser = choice::<UsageDimension>(), default_value = "user")]
    pub by: Vec<UsageDimension>,
}

/// The answer.
#[derive(Debug)]
pub struct UsageAnswer {
    pub by: Vec<UsageDimension>,
    /// The dearest first.
    pub groups: Vec<(Vec<Option<String>>, AttemptUse)>,
    /// The names of keys, by id.
    pub key_names: BTreeMap<String, String>,
    pub total: AttemptUse,
    /// Groups beyond [`USAGE_MAX`].
    pub left_out: usize,
    pub cancelled: CancelledCosts,
    pub coverage: Coverage,
}

/// What some attempts used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttemptUse {
    pub answers: u64,
    pub attempts: u64,
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub cost: CostSum,
    /// What racing cost of it.
    pub extra: CostSum,
}

/// Reads the answer: of a large window from roll-ups, as `stats` does.
///
/// # Errors
/// For an operator.
pub fn ask(reader: &StoreReader, question: &UsageQuestion, now_us: i64) -> Result<UsageAnswer, ReadError> {
    let new = || UsageByKey { by: question.by.clone(), ..UsageByKey::default() };
    let filter = question.window.filter(now_us);
    let selection = Selection { filter, now_us, classes: false, hourly: false, exact: false };
    let (gathered, coverage) = spent::gather(reader, &selection, new)?;
    let mut groups: Vec<_> = gathered.groups.into_iter().collect();
    groups.sort_by_key(|(_, used)| std::cmp::Reverse((used.cost.least(), used.attempts)));
    let left_out = groups.len().saturating_sub(USAGE_MAX);
    groups.truncate(USAGE_MAX);
    let (by, total) = (question.by.clone(), gathered.total);
    let place = by.iter().position(|by| *by == UsageDimension::Key);
    let keys = groups.iter().filter_map(|(names, _)| names[place?].as_deref());
    let key_names = key_names(reader, &keys.collect::<Vec<&str>>())?;
    Ok(UsageAnswer { by, groups, key_names, total, left_out, cancelled: gathered.cancelled, coverage })
}

fn key_names(reader: &StoreReader, ids: &[&str]) -> Result<BTreeMap<String, String>, ReadError> {
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    let name = |entry: AccountEntry| Some((entry.id, entry.settings["name"].as_str()?.to_owned()));
    Ok(reader.entries_named(AccountKind::Key, ids)?.into_iter().filter_map(name).collect())
}

members! {
    /// What attempts used. A group also has the members that `by` names.
    pub USED: used(of: &AttemptUse) {
        /// requests that were answered
        answers: Integer = of.answers;
        /// started attempts; shadows are none
        attempts: Integer = of.attempts;
        /// of the prompts of all attempts, as far as providers say it
        input_tokens: Integer ["tokens"] = of.input_tokens;
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
pub const USAGE_KEYS: [MemberField; 7] = [
    text("user", "the caller").or_null().if_known(),
    text("team", "the team of the caller").or_null().if_known(),
    text("key", "the id of the caller's key").or_null().if_known(),
    text("key_name", "the name of that key").if_known(),
    text("model", "the model that the app asked for").or_null().if_known(),
    text("tag", "what the app charges the request to").or_null().if_known(),
    text("day", "such as 2026-01-31, UTC").if_known(),
];

members! {
    /// What attempts used: in all, and of each group.
    pub USAGE: usage_object(of: &UsageAnswer, config: &Config) {
        total: Object("UsedAmounts") = used(&of.total);
        /// the dearest first
        groups: List("UsageGroup", USAGE_MAX) = of.objects();
        /// further groups
        left_out: Integer = of.left_out;
        /// as of `GET /api/costs`
        about_range: Text or_null = of.cancelled.about_range(&of.total.cost, config);
    }
}

impl UsageAnswer {
    /// Each group, with the members that `by` names.
    pub fn objects(&self) -> Vec<Map<String, Value>> {
        let object = |(keys, amounts): &(Vec<Option<String>>, AttemptUse)| {
            let names = self.by.iter().map(|by| by.as_str().to_owned());
            let key_name = self.key_name(keys).map(|name| ("key_name".to_owned(), json!(name)));
            names.zip(keys.iter().map(|key| json!(key))).chain(key_name).chain(used(amounts)).collect()
        };
        self.groups.iter().map(object).collect()
    }

    /// The columns of a table of groups.
    pub fn columns(&self) -> Vec<&'static str> {
        let of = |by: &UsageDimension| match by {
            UsageDimension::Key => vec!["key", "key_name"],
            other => vec![other.as_str()],
        };
        self.by.iter().flat_map(of).chain(USED.iter().map(|member| member.name)).collect()
    }

    /// The name of the key in these keys of a group.
    pub fn key_name(&self, keys: &[Option<String>]) -> Option<&str> {
        let place = self.by.iter().position(|by| *by == UsageDimension::Key)?;
        self.key_names.get(keys.get(place)?.as_ref()?).map(String::as_str)
    }

    /// For programs.
    pub fn json(&self, config: &Config) -> Value {
        usage_object(self, config).into()
    }
}

impl AttemptUse {
    fn add(&mut self, other: &AttemptUse) {
        self.answers += other.answers;
        self.attempts += other.attempts;
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cost.merge(&other.cost);
        self.extra.merge(&other.extra);
    }
}

/// Groups of one answer on usage while it is gathered, since clients choose tags. Further ones share one.
const GROUPS_MAX: usize = 100_000;

#[derive(Default)]
struct UsageByKey {
    by: Vec<UsageDimension>,
    groups: BTreeMap<Vec<Option<String>>, AttemptUse>,
    total: AttemptUse,
    cancelled: CancelledCosts,
}

/// What some attempts are charged to.
#[derive(Clone, Copy, Default)]
struct Payer<'a> {
    user: Option<&'a str>,
    team: Option<&'a str>,
    key: Option<&'a str>,
    model: Option<&'a str>,
    tags: Option<&'a str>,
    at_us: i64,
}

impl<'a> Payer<'a> {
    fn of(facts: &AttemptFacts<'a>) -> Payer<'a> {
        let at_us = facts.started_at;
        facts.request.map_or(Payer { at_us, ..Payer::default() }, |request: RequestFacts<'a>| Payer {
            user: request.user,
            team: request.team,
            key: request.caller_key,
            model: Some(request.model),
            tags: request.tags,
            at_us,
        })
    }

    fn in_words(&self, by: UsageDimension, tag: Option<&str>) -> Option<String> {
        let text = match by {
            UsageDimension::User => self.user,
            UsageDimension::Team => self.team,
            UsageDimension::Key => self.key,
            UsageDimension::Model => self.model,
            UsageDimension::Tag => tag,
            UsageDimension::Day => return Some(time(self.at_us).chars().take(10).collect()),
        };
        text.map(str::to_owned)
    }
}

impl UsageByKey {
    /// Adds to the total and to each group.
    fn add(&mut self, payer: &Payer<'_>, used: &AttemptUse) {
        self.total.add(used);
        let tags: Vec<Option<&str>> = match payer.tags {
            Some(tags) if self.by.contains(&UsageDimension::Tag) => tags.split(' ').map(Some).collect(),
            _ => vec![None],
        };
        for tag in tags {
            let key: Vec<Option<String>> = self.by.iter().map(|by| payer.in_words(*by, tag)).collect();
            let is_full = self.groups.len() >= GROUPS_MAX && !self.groups.contains_key(&key);
            let key = if is_full { vec![Some(OTHERS.to_owned()); self.by.len()] } else { key };
            self.groups.entry(key).or_default().add(used);
        }
    }
}

impl Gather for UsageByKey {
    fn attempt(&mut self, facts: &AttemptFacts<'_>) {
        let used = AttemptUse {
            answers: u64::from(facts.outcome == AttemptOutcome::Won),
            attempts: 1,
            input_tokens: facts.input_tokens.unwrap_or(0).max(0),
            output_tokens: facts.output_tokens.unwrap_or(0),
            ..AttemptUse::default()
        };
        self.add(&Payer::of(facts), &used);
        self.cost(facts);
    }

    fn without_attempts(&mut self, _: i64, _: &RequestFacts<'_>) {}

    fn cell(&mut self, cell: &RollupCell<'_>) -> Result<(), ShortBytes> {
        let Some((provider, _)) = cell.upstream else { return Ok(()) };
        let mut summary = Summary::default();
        summary.absorb(cell.summary, true)?;
        let used = AttemptUse {
            answers: summary.outcome(AttemptOutcome::Won),
            attempts: summary.attempts,
            input_tokens: i64::try_from(summary.tokens_in).unwrap_or(i64::MAX),
            output_tokens: i64::try_from(summary.tokens_served + summary.tokens_lost).unwrap_or(i64::MAX),
            cost: summary.cost,
            extra: summary.extra_cost(),
        };
        self.cancelled.add(provider, &summary.cancelled_cost());
        let RollupCell { user, team, caller_key: key, model, tags, start_us: at_us, .. } = *cell;
        self.add(&Payer { user, team, key, model, tags, at_us }, &used);
        Ok(())
    }

    fn merge(&mut self, other: Self) {
        self.total.add(&other.total);
        for (key, used) in other.groups {
            self.groups.entry(key).or_default().add(&used);
        }
        self.cancelled.merge(&other.cancelled);
    }
}

impl GatherCosts for UsageByKey {
    fn cost(&mut self, facts: &AttemptFacts<'_>) {
        self.cancelled.attempt(facts);
        let cost = CostSum::of([facts.cost]);
        let extra = if facts.racing.is_some() { cost } else { CostSum::default() };
        self.add(&Payer::of(facts), &AttemptUse { cost, extra, ..AttemptUse::default() });
    }
}
