//! What each subject of limits has used: everybody, a team, a user, a key. Not for decisions: see `admit`.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use super::bucket::RateLeft;
use super::heard::HeardUse;
use super::lengths::AnswerLengths;
use super::level::LevelName;
use super::near_end::{BudgetWarning, NearEnd};
use super::parts::Others;
use super::rate::RateUse;
use super::window::{BudgetWindow, Calendar, LimitClock, Period, Sharing};
use photofinish_config::{Config, Limits, ModelPattern, User};

/// The kinds of levels after everybody.
const NAMED: [fn(Arc<str>) -> LevelName; 4] = [LevelName::Team, LevelName::User, LevelName::Key, LevelName::Models];
/// Lengths of periods.
pub(super) const PERIODS: usize = Calendar::ALL.len();
/// Each report says what was used since this number of reports before, some two seconds: a gateway that missed one still gets it.
const LATELY: usize = 4;
/// Budgets near their ends that were not announced yet. Further ones are not announced.
const WARNINGS_MAX: usize = 1_000;

/// All subjects that were ever limited.
pub struct UsageBook {
    everybody: Arc<Subject>,
    /// By kind, in the order of [`NAMED`].
    named: [RwLock<HashMap<Arc<str>, Arc<Subject>>>; NAMED.len()],
    noted: Arc<Noted>,
    lengths: Arc<AnswerLengths>,
    /// With whom limits are shared, and what was heard of them: also for subjects that come.
    sharing: Mutex<(Sharing, Option<Arc<HeardUse>>)>,
}

/// What the book has to report.
#[derive(Default)]
struct Noted {
    /// Subjects whose budgets changed.
    changed: Mutex<Vec<Arc<Subject>>>,
    warnings: Mutex<Vec<BudgetWarning>>,
}

/// One subject.
pub(super) struct Subject {
    pub name: LevelName,
    used: Mutex<Used>,
    noted: Arc<Noted>,
}

/// What a subject uses.
pub(super) struct Used {
    pub requests: RateUse,
    pub tokens: RateUse,
    pub streams: u32,
    /// Requests since this gateway's last report, and those before that still count as demand.
    pub asked: u64,
    pub demand: f64,
    /// Requests and tokens of its last reports, the newest first.
    pub reported: [[i64; 2]; LATELY],
    /// None: no other gateway shares these limits.
    pub others: Option<Box<Others>>,
    /// In the order of [`Calendar::ALL`].
    pub windows: [BudgetWindow; PERIODS],
    /// It is among the changed ones.
    is_noted: bool,
}

/// What a budget has for one attempt.
pub(super) struct BudgetRoom {
    /// Of its period, in the order of [`super::Calendar::ALL`].
    pub place: usize,
    pub budget: i64,
    pub spent: i64,
    pub left: i64,
    /// By other requests.
    pub reserved: i64,
    pub exposed: i64,
}

/// One level of a request.
#[derive(Clone)]
pub struct LimitLevel {
    pub(super) subject: Arc<Subject>,
    pub(super) limits: Arc<Limits>,
    /// The only upstreams that it is about. Empty: all.
    only: Vec<String>,
}

impl LimitLevel {
    pub fn name(&self) -> &LevelName {
        &self.subject.name
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }
}

/// The levels of a request that limit anything, in the order in which they are checked and locked: everybody, a team, a user, a key, and
/// then those for some models, by name.
#[derive(Clone, Default)]
pub struct LimitLevels(pub(super) Vec<LimitLevel>);

impl fmt::Debug for LimitLevels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(LimitLevel::name)).finish()
    }
}

/// What each level of a request has used, locked in the order of the levels.
pub(super) type LockedLevels<'l> = Vec<MutexGuard<'l, Used>>;

impl LimitLevels {
    pub(super) fn lock(&self) -> LockedLevels<'_> {
        self.0.iter().map(|level| level.subject.used()).collect()
    }

    /// Nothing is limited.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &LimitLevel> {
        self.0.iter()
    }

    /// With what these levels may spend on some models. `about`: the only upstreams that a pattern is about, empty for all; none: it is about
    /// nothing of the request.
    pub fn with_models(
        mut self,
        book: &UsageBook,
        about: impl Fn(&ModelPattern) -> Option<Vec<String>>,
    ) -> LimitLevels {
        let mut more = Vec::new();
        for level in &self.0 {
            for of in &level.limits.model_budgets {
                let Some(only) = about(&of.models) else { continue };
                let name = LevelName::Models(format!("{} of {}", of.models.as_str(), level.name()).into());
                let limits = Arc::new(level.limits.for_models(of));
                more.push(LimitLevel { subject: book.subject_of(&name), limits, only });
            }
        }
        more.sort_unstable_by(|one: &LimitLevel, other| one.name().cmp(other.name()));
        self.0.extend(more);
        self
    }

    /// The levels that are not about this upstream, as bits.
    pub fn outside(&self, upstream: &str) -> u64 {
        let is_about = |level: &LimitLevel| level.only.is_empty() || level.only.iter().any(|name| name == upstream);
        self.0.iter().enumerate().filter(|(_, level)| !is_about(level)).fold(0, |bits, (place, _)| bits | 1 << place)
    }

    /// The level that forbids a model with these names at this upstream, `provider/model`.
    pub fn forbidding<'n>(
        &self,
        names: impl Iterator<Item = &'n str> + Clone,
        upstream: &'n str,
    ) -> Option<&LevelName> {
        self.0.iter().find(|level| !level.limits.allows(names.clone(), upstream)).map(LimitLevel::name)
    }

    /// The level that does not allow whatever a provider has.
    pub fn forbidding_any_of(&self, provider: &str) -> Option<&LevelName> {
        self.0.iter().find(|level| !level.limits.allows_all_of(provider)).map(LimitLevel::name)
    }
}

impl Default for UsageBook {
    fn default() -> UsageBook {
        let noted = Arc::default();
        let everybody = Arc::new(Subject::new(LevelName::Everybody, Arc::clone(&noted)));
        let named = std::array::from_fn(|_| RwLock::default());
        UsageBook { everybody, named, noted, lengths: Arc::default(), sharing: Mutex::default() }
    }
}

impl UsageBook {
    /// The levels of a request of this user that limit anything. None: no user asks.
    pub fn levels(&self, config: &Config, user: Option<&User>) -> LimitLevels {
        let mut levels = LimitLevels::default();
        let mut add = |place: usize, id: &str, limits: &Arc<Limits>| {
            if !limits.is_empty() {
                levels.0.push(LimitLevel {
                    subject: self.subject(place, id),
                    limits: limits.clone(),
                    only: Vec::new(),
                });
            }
        };
        add(0, "", &config.limits);
        if let Some(user) = user {
            let team = user.team.as_deref().and_then(|team| config.teams.get(team));
            team.into_iter().for_each(|team| add(1, &team.name, &team.limits));
            add(2, &user.name, &user.limits);
            user.key.iter().for_each(|key| add(3, key.limited_as(), &key.limits));
        }
        levels
    }

    /// How long the answers of each caller are.
    pub fn lengths(&self) -> &Arc<AnswerLengths> {
        &self.lengths
    }

    /// These levels, in the order of [`LevelName`].
    pub fn levels_of(&self, levels: impl IntoIterator<Item = (LevelName, Arc<Limits>)>) -> LimitLevels {
        let level = |(name, limits): (LevelName, Arc<Limits>)| LimitLevel {
            subject: self.subject_of(&name),
            limits,
            only: Vec::new(),
        };
        LimitLevels(levels.into_iter().map(level).collect())
    }

    pub(super) fn share(&self, sharing: Sharing, heard: Option<Arc<HeardUse>>) {
        *self.sharing.lock().unwrap_or_else(PoisonError::into_inner) = (sharing, heard);
    }

    pub(super) fn shared(&self) -> (Sharing, Option<Arc<HeardUse>>) {
        self.sharing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All that are known.
    pub(super) fn subjects(&self) -> Vec<Arc<Subject>> {
        let mut all = vec![self.everybody.clone()];
        for subjects in &self.named {
            all.extend(subjects.read().unwrap_or_else(PoisonError::into_inner).values().cloned());
        }
        all
    }

    pub(super) fn subject_of(&self, name: &LevelName) -> Arc<Subject> {
        self.subject(name.place(), name.name())
    }

    /// Made on first use.
    fn subject(&self, place: usize, id: &str) -> Arc<Subject> {
        let Some(named) = place.checked_sub(1) else { return self.everybody.clone() };
        let known = self.named[named].read().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
        known.unwrap_or_else(|| {
            let mut subjects = self.named[named].write().unwrap_or_else(PoisonError::into_inner);
            let id: Arc<str> = id.into();
            let made = || {
                let made = Arc::new(Subject::new(NAMED[named](id.clone()), self.noted.clone()));
                let (sharing, heard) = self.shared();
                let mut used = made.used();
                used.windows.iter_mut().for_each(|window| window.set_sharing(sharing));
                if let Some(heard) = heard {
                    used.hear(&heard, &made.name);
                    used.divide(&heard, &made.name);
                }
                drop(used);
                made
            };
            subjects.entry(id.clone()).or_insert_with(made).clone()
        })
    }

    /// Forgets subjects that do not exist any more, unless requests of theirs run or they have spent something this month.
    pub fn retain(&self, exists: impl Fn(&LevelName) -> bool) {
        for subjects in &self.named {
            let mut subjects = subjects.write().unwrap_or_else(PoisonError::into_inner);
            subjects.retain(|_, subject| {
                let has_spent = || subject.used().windows.iter().any(|window| window.current().used() > 0);
                Arc::strong_count(subject) > 1 || exists(&subject.name) || has_spent()
            });
        }
    }

    /// What a level has used, with these limits.
    pub fn usage_of(&self, name: &LevelName, limits: &Limits, now: LimitClock) -> LevelUse {
        let subject = self.subject_of(name);
        let mut used = subject.used();
        used.pass(limits, now);
        let budgets = limits.budget.all();
        let period = |place: usize| PeriodUse::of(Calendar::ALL[place], budgets[place], &used.windows[place]);
        LevelUse {
            requests: limits.rpm.map(|rate| used.requests.left(rate)),
            tokens: limits.tpm.map(|rate| used.tokens.left(rate)),
            streams: (used.streams, limits.streams),
            periods: std::array::from_fn(period),
        }
    }

    /// The levels of this kind that asked since the start or spent something before it, with what they spent this month; nano-USD.
    pub fn spent_this_month(&self, kind: fn(Arc<str>) -> LevelName, now: LimitClock) -> Vec<(LevelName, i64)> {
        let Some(named) = kind("".into()).place().checked_sub(1) else { return Vec::new() };
        let all: Vec<Arc<Subject>> =
            self.named[named].read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        let spent = |subject: Arc<Subject>| {
            let mut used = subject.used();
            let window = &mut used.windows[Calendar::Month as usize];
            let spent = window.at(now.wall_us).spent.saturating_add(window.spent_elsewhere());
            (subject.name.clone(), spent)
        };
        all.into_iter().map(spent).collect()
    }

    /// Whether [`UsageBook::take_changes`] has any.
    pub fn has_changes(&self) -> bool {
        !self.noted.changed.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// The budgets that changed since the last call, to be kept.
    pub fn take_changes(&self) -> Vec<BudgetChange> {
        let changed = std::mem::take(&mut *self.noted.changed.lock().unwrap_or_else(PoisonError::into_inner));
        let mut all = Vec::new();
        for subject in changed {
            let mut used = subject.used();
            used.is_noted = false;
            for (calendar, window) in Calendar::ALL.into_iter().zip(&mut used.windows) {
                let change = |Period { start_us, spent, reserved, estimated, .. }| {
                    let level = subject.name.clone();
                    BudgetChange { level, calendar, start_us, spent, reserved, estimated }
                };
                all.extend(window.take_changes().into_iter().map(change));
            }
        }
        all
    }

    /// The budgets that came near their ends since the last call, each once.
    pub fn take_warnings(&self) -> Vec<BudgetWarning> {
        std::mem::take(&mut *self.noted.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes back what was kept before a start. What was reserved then and never settled counts as spent, and as estimated.
    pub fn restore(&self, changes: impl IntoIterator<Item = BudgetChange>, now: LimitClock) {
        for BudgetChange { level, calendar, start_us, spent, reserved, estimated } in changes {
            let subject = self.subject_of(&level);
            let mut used = subject.used();
            let window = &mut used.windows[calendar as usize];
            window.restore(start_us, spent.saturating_add(reserved), estimated.saturating_add(reserved), now.wall_us);
        }
    }
}

/// The budget of one level in one period, as it is kept over a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetChange {
    pub level: LevelName,
    pub calendar: Calendar,
    pub start_us: i64,
    pub spent: i64,
    pub reserved: i64,
    pub estimated: i64,
}

/// What one level has used, and what is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelUse {
    pub requests: Option<RateLeft>,
    pub tokens: Option<RateLeft>,
    /// At once now, and at most.
    pub streams: (u32, Option<u32>),
    /// The present ones.
    pub periods: [PeriodUse; PERIODS],
}

/// What one limit allows that requests use up, and what is used of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitUse {
    /// Its key in `[limits]`, such as `rpm` or `budget.day`.
    pub key: String,
    /// [`NANO_USD`] if it is money.
    pub unit: &'static str,
    pub allowed: u64,
    pub used: u64,
    pub left: u64,
    /// Microseconds until nothing of it is used, if it comes back evenly.
    pub full_in_us: Option<i64>,
    /// If it is money.
    pub period: Option<PeriodUse>,
}

/// The unit of money.
pub const NANO_USD: &str = "nano_usd";

/// Money of a period, in nano-USD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeriodUse {
    pub calendar: Calendar,
    pub budget: Option<i64>,
    pub spent: i64,
    pub reserved: i64,
    pub estimated: i64,
    pub start_us: i64,
    pub end_us: i64,
}

impl LevelUse {
    /// Each limit that is set.
    pub fn uses(&self) -> Vec<LimitUse> {
        let rate = |key: &str, unit, rate: &Option<RateLeft>| {
            rate.map(|RateLeft { per_minute, burst, left, reset_us }| LimitUse {
                key: key.to_owned(),
                unit,
                allowed: per_minute,
                used: burst.saturating_sub(left),
                left,
                full_in_us: Some(reset_us),
                period: None,
            })
        };
        let (running, streams) = self.streams;
        let streams = streams.map(|limit| LimitUse {
            key: "streams".to_owned(),
            unit: "requests at once",
            allowed: limit.into(),
            used: running.into(),
            left: limit.saturating_sub(running).into(),
            full_in_us: None,
            period: None,
        });
        let (requests, tokens) = (&self.requests, &self.tokens);
        let rates = [rate("rpm", "requests a minute", requests), rate("tpm", "tokens a minute", tokens), streams];
        rates.into_iter().flatten().chain(self.periods.iter().filter_map(PeriodUse::as_limit)).collect()
    }
}

impl PeriodUse {
    /// None: there is no budget.
    fn as_limit(&self) -> Option<LimitUse> {
        let (budget, nano) = (self.budget?, |nano: i64| u64::try_from(nano).unwrap_or(0));
        Some(LimitUse {
            key: format!("budget.{}", self.calendar.as_str()),
            unit: NANO_USD,
            allowed: nano(budget),
            used: nano(self.spent),
            left: nano(budget.saturating_sub(self.spent).saturating_sub(self.reserved)),
            full_in_us: None,
            period: Some(*self),
        })
    }

    fn of(calendar: Calendar, budget: Option<i64>, window: &BudgetWindow) -> PeriodUse {
        let Period { spent, reserved, estimated, start_us, end_us, .. } = *window.current();
        let spent = spent.saturating_add(window.spent_elsewhere());
        PeriodUse { calendar, budget, spent, reserved, estimated, start_us, end_us }
    }

    /// When the budget is spent if the rest of the period is like what is over of it; microseconds since 1970. None: not before
    /// the period ends, or less than an eighth of it is over, which says little. All time has no pace.
    pub fn runs_out_us(&self, now_us: i64) -> Option<i64> {
        let over_us = now_us - self.start_us;
        let says_much = self.calendar != Calendar::Total && over_us >= (self.end_us - self.start_us) / 8;
        let left = self.budget?.saturating_sub(self.spent).max(0);
        if !says_much || self.spent <= 0 {
            return None;
        }
        let at_us = now_us.saturating_add((left as f64 * over_us as f64 / self.spent as f64) as i64);
        (at_us < self.end_us).then_some(at_us)
    }
}

impl Subject {
    fn new(name: LevelName, noted: Arc<Noted>) -> Subject {
        let used = Used {
            requests: RateUse::default(),
            tokens: RateUse::default(),
            streams: 0,
            asked: 0,
            demand: 0.0,
            reported: Default::default(),
            others: None,
            windows: Calendar::ALL.map(BudgetWindow::new),
            is_noted: false,
        };
        Subject { name, used: Mutex::new(used), noted }
    }

    pub fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A budget of it changes: it is to be kept.
    pub fn note(self: &Arc<Subject>, used: &mut Used) {
        if !std::mem::replace(&mut used.is_noted, true) {
            self.noted.changed.lock().unwrap_or_else(PoisonError::into_inner).push(self.clone());
        }
    }

    /// Something may have been spent in the periods with these numbers: their budgets that come near their ends are announced once.
    pub fn warn(&self, used: &mut Used, limits: &Limits, numbers: [u32; PERIODS]) {
        for (place, number) in numbers.into_iter().enumerate() {
            let near = used.near_end(limits, place).filter(|_| used.windows[place].current().number == number);
            let Some(near) = near else { continue };
            let is_new = used.windows[place].period(number).is_some_and(|period| period.warn(near.budget));
            let mut warnings = self.noted.warnings.lock().unwrap_or_else(PoisonError::into_inner);
            if is_new && warnings.len() < WARNINGS_MAX {
                warnings.push(BudgetWarning { level: self.name.clone(), near });
            }
        }
    }
}

impl Used {
    /// The time passes.
    pub fn pass(&mut self, limits: &Limits, now: LimitClock) {
        limits.rpm.into_iter().for_each(|rate| self.requests.drain(rate, now.us));
        limits.tpm.into_iter().for_each(|rate| self.tokens.drain(rate, now.us));
        self.windows.iter_mut().for_each(|window| {
            window.at(now.wall_us);
        });
    }

    /// What each budget of these limits has for one attempt, in the present periods or in these. `spare`: what is reserved and exposed for
    /// it already.
    pub fn rooms(
        &self,
        limits: &Limits,
        periods: Option<[u32; PERIODS]>,
        spare: (i64, i64),
    ) -> impl Iterator<Item = BudgetRoom> {
        limits.budget.all().into_iter().enumerate().filter_map(move |(place, budget)| {
            let (budget, window) = (budget?, &self.windows[place]);
            let period = match periods {
                None => *window.current(),
                Some(numbers) => window.period_of(numbers[place]).copied().unwrap_or_default(),
            };
            Some(BudgetRoom {
                place,
                budget,
                spent: period.spent.saturating_add(window.spent_elsewhere()),
                // What costs nothing fits also where too much was spent.
                left: window.left(budget, &period).saturating_add(spare.0).max(0),
                reserved: period.reserved.saturating_sub(spare.0),
                exposed: period.exposed.saturating_sub(spare.1),
            })
        })
    }

    /// What is left of each budget that these limits have.
    pub fn budgets(&self, limits: &Limits) -> impl Iterator<Item = i64> {
        let left = |(window, budget): (&BudgetWindow, Option<i64>)| Some(window.left(budget?, window.current()));
        self.windows.iter().zip(limits.budget.all()).filter_map(left)
    }

    /// The budget with this place, if it comes near its end.
    pub fn near_end(&self, limits: &Limits, place: usize) -> Option<NearEnd> {
        let (budget, window) = (limits.budget.all()[place]?, &self.windows[place]);
        let spent = window.current().spent.saturating_add(window.spent_elsewhere());
        let (calendar, end_us) = (Calendar::ALL[place], window.current().end_us);
        (spent as f64 >= budget as f64 * limits.warn).then_some(NearEnd { calendar, budget, spent, end_us })
    }
}

#[cfg(test)]
mod tests;
