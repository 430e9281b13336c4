//! `[limits]`, `[teams.NAME]` and the limits of `[users.NAME]`: what a caller may ask for, at one level.
//!
//! Not for what was used: see `routing::limits`.

use std::sync::Arc;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::keys::{ParsedTexts, RealNumber, TableKeys as _, Texts, ValueKind, WholeNumber, choice, keys, nested};
use super::names::names;
use super::problem::shown;
use super::reader::{TomlTable, as_table, wrong_type};

/// Requests a minute, or their burst.
const REQUESTS_MAX: u64 = 1_000_000_000;
/// Tokens a minute, or their burst.
const TOKENS_MAX: u64 = 1_000_000_000_000;
/// Requests at once.
const STREAMS_MAX: u32 = 1_000_000;
/// Patterns of models in one list.
const PATTERNS_MAX: usize = 1_000;
/// Bytes of one pattern.
const PATTERN_MAX: usize = 256;
/// Patterns with budgets in one table: with those of all levels a request has at most 64 levels.
const MODEL_BUDGETS_MAX: usize = 15;
/// Nano-USD in one USD.
const NANO: f64 = 1e9;

keys! {
    /// The limits of one level.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Limits {
        /// Requests a minute: a number, or `{ requests = 60, burst = 10 }`. The burst is one minute's worth unless set. A race is one
        /// request, however many attempts it starts.
        rpm: Option<Rate> = RateKind { unit: "requests", max: REQUESTS_MAX };
        /// Tokens a minute, input and output of what the client gets: a number, or `{ tokens = 100_000, burst = 20_000 }`.
        tpm: Option<Rate> = RateKind { unit: "tokens", max: TOKENS_MAX };
        /// Requests at once.
        streams: Option<u32> = WholeNumber(1..=STREAMS_MAX);
        /// USD, by the UTC calendar. All attempts count, also losers.
        budget: Budget = nested(), or Budget::default();
        /// USD for some models, by a pattern as in `models`: `{ "claude-opus-*" = { day = 5 } }`. It counts attempts whose model or upstream the
        /// pattern matches, also an upstream's name without its provider, and holds besides `budget`.
        model_budgets: Vec<ModelBudget> = ModelBudgets, or Vec::new();
        /// The part of a budget that may be spent before a warning: in the log, a metric, a header and to the webhook.
        warn: f64 = RealNumber(0.01..=1.0), or 0.8;
        /// The only models that may be used: names, aliases and upstreams such as `groq/openai/gpt-oss-120b`; `*` matches any text.
        models: Option<Vec<ModelPattern>> = PATTERNS;
        /// Models that may not be used, even if `models` has them.
        deny: Option<Vec<ModelPattern>> = PATTERNS;
        /// What an attempt reserves of a budget before it starts.
        reserve: Reserve = choice(), or Reserve::Usual;
        /// An upstream without a price, where there is a budget.
        unpriced: Unpriced = choice(), or Unpriced::Dearest;
        /// Attempts on the caller's own provider key, where there is a budget.
        own_keys: OwnKeys = choice(), or OwnKeys::Free;
    }
}

keys! {
    /// USD by the UTC calendar, as integers of a billionth.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Budget {
        /// From midnight to midnight.
        day: Option<i64> = NanoUsd;
        /// From Monday on.
        week: Option<i64> = NanoUsd;
        /// From the first of a month.
        month: Option<i64> = NanoUsd;
        /// For ever.
        total: Option<i64> = NanoUsd;
    }
}

/// `per_minute` evenly; and `burst` at once after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub per_minute: u64,
    pub burst: u64,
}

names! {
    /// How much of an answer is reserved before it begins.
    pub enum Reserve or Usual {
        /// What 95 of 100 answers of the model stay below, at most what the request allows.
        Usual = "usual",
        /// What the request, or else the model, allows.
        Max = "max",
    }
}

names! {
    /// What a budget does about an upstream without a price.
    pub enum Unpriced or Dearest {
        /// It counts at the dearest price of its provider's models of the same family, else of its provider's; where no price is known, it is
        /// not asked.
        Dearest = "dearest",
        /// It is not asked.
        Refuse = "refuse",
        /// It is asked, and costs what its provider reports.
        Free = "free",
    }
}

names! {
    /// What a budget does about attempts that the caller's own key pays.
    pub enum OwnKeys or Free {
        /// They cost nothing.
        Free = "free",
        /// They cost what others cost.
        Counted = "counted",
    }
}

/// A level between everybody and a user.
#[derive(Clone, Debug, PartialEq)]
pub struct Team {
    pub name: String,
    pub limits: Arc<Limits>,
}

/// A key of a user that was made at run time.
#[derive(Clone, Debug, PartialEq)]
pub struct IssuedKey {
    pub id: String,
    /// The key whose limits it goes on with: the first of those that it replaces.
    pub first: Option<String>,
    pub limits: Arc<Limits>,
}

impl IssuedKey {
    /// Whose limits it uses.
    pub fn limited_as(&self) -> &str {
        self.first.as_deref().unwrap_or(&self.id)
    }
}

impl Limits {
    /// Nothing is limited.
    pub fn is_empty(&self) -> bool {
        // Each kind by name: a new one must be looked at here. The last four limit nothing by themselves.
        let Limits {
            rpm: _,
            tpm: _,
            streams: _,
            budget: _,
            model_budgets: _,
            models,
            deny,
            warn: _,
            reserve: _,
            unpriced: _,
            own_keys: _,
        } = self;
        !self.has_rates() && !self.has_budget() && models.is_none() && deny.is_none()
    }

    /// Has some that requests use up, besides money.
    pub fn has_rates(&self) -> bool {
        self.rpm.is_some() || self.tpm.is_some() || self.streams.is_some()
    }

    pub fn has_budget(&self) -> bool {
        self.budget.is_set() || !self.model_budgets.is_empty()
    }

    /// Those that are set, in the words of the file.
    pub fn settings(&self) -> Map<String, Value> {
        self.entries()
    }

    /// Those for some models alone.
    pub fn for_models(&self, of: &ModelBudget) -> Limits {
        let Limits { warn, reserve, unpriced, own_keys, .. } = *self;
        Limits { budget: of.budget, warn, reserve, unpriced, own_keys, ..Limits::default() }
    }

    /// Whether a model with these names, its aliases among them, may be asked at this upstream, `provider/model`.
    pub fn allows<'n>(&self, names: impl Iterator<Item = &'n str> + Clone, upstream: &'n str) -> bool {
        let has = |patterns: &Vec<ModelPattern>| {
            let mut all = names.clone().chain([upstream]);
            all.any(|name| patterns.iter().any(|pattern| pattern.matches(name)))
        };
        self.models.as_ref().is_none_or(has) && !self.deny.as_ref().is_some_and(has)
    }

    /// Whether whatever is asked of this provider is allowed.
    pub fn allows_all_of(&self, provider: &str) -> bool {
        let start = format!("{provider}/");
        let covers = |pattern: &ModelPattern| pattern.0.ends_with('*') && pattern.matches(&start);
        let may_have = |pattern: &ModelPattern| {
            let (head, _) = pattern.0.split_once('*').unwrap_or((&pattern.0, ""));
            head.starts_with(&start) || head.len() < pattern.0.len() && start.starts_with(head)
        };
        self.models.as_ref().is_none_or(|models| models.iter().any(covers))
            && !self.deny.as_ref().is_some_and(|deny| deny.iter().any(may_have))
    }

    /// Has settings of a budget, and no budget.
    pub(super) fn lacks_budget(&self) -> bool {
        let Limits { warn, reserve, unpriced, own_keys, .. } = Limits::default();
        !self.has_budget()
            && (self.warn, self.reserve, self.unpriced, self.own_keys) != (warn, reserve, unpriced, own_keys)
    }
}

/// What may be spent on some models.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelBudget {
    pub models: ModelPattern,
    pub budget: Budget,
}

/// Budgets by pattern.
#[derive(Clone, Copy)]
struct ModelBudgets;

impl ValueKind for ModelBudgets {
    type Value = Vec<ModelBudget>;

    fn read(&self, table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<Vec<ModelBudget>> {
        let table = table.inner(key)?;
        let (name, scope, offset) = (table.name.clone(), table.scope, table.offset);
        let mut all = Vec::new();
        for (pattern, value) in table.into_entries() {
            let shown = shown(&pattern.value);
            let Some(models) = ModelPattern::parse(&pattern.value) else {
                scope.wrong(pattern.offset, format!("bad value \"{shown}\" in {name}"), PATTERNS.expected);
                continue;
            };
            let title = format!("\"{shown}\" in {name}");
            let Some(mut table) = as_table(scope, &title, title.clone(), value) else { continue };
            let budget = Budget::read(&mut table, &Budget::default());
            table.finish();
            if !budget.is_set() {
                scope.wrong(pattern.offset, format!("{title} has no budget"), "{ day = 5.0 }");
            }
            all.push(ModelBudget { models, budget });
        }
        if all.len() > MODEL_BUDGETS_MAX {
            scope.wrong(offset, format!("{name} has {} patterns", all.len()), format!("at most {MODEL_BUDGETS_MAX}"));
        }
        Some(all)
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        let budget = Value::from(generator.subschema_for::<Budget>());
        json_schema!({ "type": "object", "additionalProperties": budget, "maxProperties": MODEL_BUDGETS_MAX })
    }

    fn written(&self, all: &Vec<ModelBudget>) -> Option<Value> {
        let entry = |of: &ModelBudget| (of.models.0.clone(), Value::from(of.budget.entries()));
        Some(all.iter().map(entry).collect())
    }
}

impl Budget {
    /// In the order of the periods: day, week, month, total.
    pub fn all(&self) -> [Option<i64>; 4] {
        let Budget { day, week, month, total } = *self;
        [day, week, month, total]
    }

    pub fn is_set(&self) -> bool {
        self.all().iter().any(Option::is_some)
    }
}

/// A name in which `*` matches any text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelPattern(String);

const PATTERNS: ParsedTexts<ModelPattern> = ParsedTexts {
    texts: Texts { max: PATTERNS_MAX, noun: "patterns" },
    parse: ModelPattern::parse,
    expected: "names of models, aliases or upstreams, such as \"llama-*\" or \"groq/*\"",
    pattern: r"[^\s,]+",
    format: |pattern| pattern.0.clone(),
};

impl ModelPattern {
    pub fn parse(text: &str) -> Option<ModelPattern> {
        let is_bad = |c: char| c.is_whitespace() || c.is_control() || c == ',';
        ((1..=PATTERN_MAX).contains(&text.len()) && !text.contains(is_bad)).then(|| ModelPattern(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn matches(&self, name: &str) -> bool {
        let Some((head, rest)) = self.0.split_once('*') else { return self.0 == name };
        let Some(mut name) = name.strip_prefix(head) else { return false };
        let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
        // The first place at which a part fits is the best: it leaves most to the others.
        for part in middle.split('*') {
            let Some((_, after)) = name.split_once(part) else { return false };
            name = after;
        }
        name.ends_with(tail)
    }
}

/// A number a minute, or a table with its burst.
#[derive(Clone, Copy)]
struct RateKind {
    unit: &'static str,
    max: u64,
}

impl ValueKind for RateKind {
    type Value = Rate;

    fn read(&self, table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<Rate> {
        let number = WholeNumber(1..=self.max);
        if table.is_string(key) {
            let what = table.what(key);
            let typed = table.take(key)?;
            let expected = format!("{} a minute as a whole number, such as {key} = 60", self.unit);
            table.scope.report(wrong_type(typed.offset, &what, &typed.value, &expected));
            return None;
        }
        if !table.is_table(key) {
            let per_minute = ValueKind::read(&number, table, key)?;
            return Some(Rate { per_minute, burst: per_minute });
        }
        let mut table = table.inner(key)?;
        let (per_minute, burst) =
            (ValueKind::read(&number, &mut table, self.unit), ValueKind::read(&number, &mut table, "burst"));
        if !table.has(self.unit) {
            let message = format!("{} has no \"{}\"", table.name, self.unit);
            table.scope.wrong(table.offset, message, format!("{{ {} = 60, burst = 10 }}", self.unit));
        }
        let is_right = burst.is_some() || !table.has("burst");
        table.finish();
        let per_minute = per_minute.filter(|_| is_right)?;
        Some(Rate { per_minute, burst: burst.unwrap_or(per_minute) })
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        let number = Value::from(ValueKind::schema(&WholeNumber(1..=self.max), generator));
        json_schema!({ "anyOf": [number, {
            "type": "object",
            "properties": { (self.unit): number, "burst": number },
            "required": [self.unit],
            "additionalProperties": false,
        }] })
    }

    fn written(&self, rate: &Rate) -> Option<Value> {
        let Rate { per_minute, burst } = *rate;
        Some(if burst == per_minute { per_minute.into() } else { json!({ (self.unit): per_minute, "burst": burst }) })
    }
}

/// USD, kept as an integer of a billionth.
struct NanoUsd;

const USD: RealNumber = RealNumber(0.000_001..=1_000_000_000.0);

impl ValueKind for NanoUsd {
    type Value = i64;

    fn read(&self, table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<i64> {
        ValueKind::read(&USD, table, key).map(nano_usd)
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        ValueKind::schema(&USD, generator)
    }

    fn written(&self, nano: &i64) -> Option<Value> {
        Some((*nano as f64 / NANO).into())
    }
}

/// An amount in USD as a whole number of its billionths, the nearest.
pub fn nano_usd(usd: f64) -> i64 {
    (usd * NANO).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(models: Option<&[&str]>, deny: &[&str]) -> Limits {
        let parsed = |patterns: &[&str]| patterns.iter().map(|text| ModelPattern::parse(text).unwrap()).collect();
        let deny = (!deny.is_empty()).then(|| parsed(deny));
        Limits { models: models.map(parsed), deny, ..Limits::default() }
    }

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, name, expected) in [
            ("llama", "llama", true),
            ("llama", "llama-3", false),
            ("llama-*", "llama-3", true),
            ("llama-*", "llama-", true),
            ("llama-*", "a-llama-3", false),
            ("*", "", true),
            ("*-70b", "llama-70b", true),
            ("*-70b", "llama-70b-x", false),
            ("groq/*", "groq/a/b", true),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("*b*b*", "b", false),
            ("*b*b*", "bb", true),
            ("**", "x", true),
            ("a**c", "abc", true),
            ("ab*bc", "abc", false),
        ] {
            assert_eq!(ModelPattern::parse(pattern).unwrap().matches(name), expected, "{pattern} {name}");
        }
        assert_eq!(["", "a b", "a,b", &"a".repeat(257)].map(ModelPattern::parse), [const { None }; 4]);
    }

    #[test]
    fn deny_wins_and_a_list_that_is_empty_has_nothing() {
        let names = ["fast", "gpt-4o"];
        for (models, deny, expected) in [
            (None, &[][..], true),
            (Some(&["gpt-*"][..]), &[], true),
            (Some(&["groq/*"]), &[], true),
            (Some(&["other"]), &[], false),
            (Some(&[]), &[], false),
            (None, &["gpt-4o"], false),
            (Some(&["*"]), &["groq/*"], false),
            (Some(&["fast"]), &["cerebras/*"], true),
        ] {
            let limits = limits(models, deny);
            assert_eq!(limits.allows(names.into_iter(), "groq/x"), expected, "{limits:?}");
        }
    }

    #[test]
    fn all_of_a_provider_is_allowed_only_if_nothing_of_it_can_be_denied() {
        for (models, deny, expected) in [
            (None, &[][..], true),
            (Some(&["groq/*"][..]), &[], true),
            (Some(&["g*"]), &[], true),
            (Some(&["groq/llama"]), &[], false),
            (Some(&["*b"]), &[], false),
            (None, &["groq/x"], false),
            (None, &["*-pro"], false),
            (None, &["gpt-4"], true),
            (None, &["groq"], true),
            (None, &["gro*"], false),
            (None, &["cerebras/*"], true),
        ] {
            let limits = limits(models, deny);
            assert_eq!(limits.allows_all_of("groq"), expected, "{limits:?}");
        }
    }
}
