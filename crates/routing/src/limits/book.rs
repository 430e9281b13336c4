//! What each subject of limits has used: everybody, a team, a user, a key. Not for decisions: see `admit`.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use super::bucket::RateLeft;
use super::heard::HeardUse;
use super::lengths::AnswerLengths;
use super::level::LevelName;
use super::parts::Others;
use super::rate::RateUse;
use super::window::{BudgetWindow, Calendar, LimitClock, Period, Sharing};
use photofinish_config::config::{Config, Limits, User};

/// The levels of a request after everybody, in the order in which they are checked and locked.
const NAMED: [fn(Arc<str>) -> LevelName; LEVELS_MAX - 1] = [LevelName::Team, LevelName::User, LevelName::Key];
pub(super) const LEVELS_MAX: usize = 4;
/// Lengths of periods.
pub(super) const PERIODS: usize = Calendar::ALL.len();
/// Each telling says what was used since so many tellings before, some two seconds: a gateway that missed one still hears of it.
const LATELY: usize = 4;

/// All subjects that were ever limited.
pub struct UsageBook {
    everybody: Arc<Subject>,
    /// Teams, users and keys.
    named: [RwLock<HashMap<Arc<str>, Arc<Subject>>>; LEVELS_MAX - 1],
    changed: Arc<Mutex<Vec<Arc<Subject>>>>,
    lengths: Arc<AnswerLengths>,
    /// With whom limits are shared, and what was heard of them: also for subjects that come.
    sharing: Mutex<(Sharing, Option<Arc<HeardUse>>)>,
}

/// One subject.
pub(super) struct Subject {
    pub name: LevelName,
    used: Mutex<Used>,
    /// Of the book: subjects whose budgets changed.
    changed: Arc<Mutex<Vec<Arc<Subject>>>>,
}

/// What a subject uses.
pub(super) struct Used {
    pub requests: RateUse,
    pub tokens: RateUse,
    pub streams: u32,
    /// Requests since this gateway told of them, and those before that still count as demand.
    pub asked: u64,
    pub demand: f64,
    /// Requests and tokens that it told lately, the newest first.
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
}

impl LimitLevel {
    pub fn name(&self) -> &LevelName {
        &self.subject.name
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }
}

/// The levels of a request that limit anything.
#[derive(Clone, Default)]
pub struct LimitLevels(pub(super) Vec<LimitLevel>);

impl fmt::Debug for LimitLevels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(LimitLevel::name)).finish()
    }
}

/// What each level of a request has used, locked in the order of the levels.
pub(super) type LockedLevels<'l> = [Option<MutexGuard<'l, Used>>; LEVELS_MAX];

impl LimitLevels {
    pub(super) fn lock(&self) -> LockedLevels<'_> {
        std::array::from_fn(|place| self.0.get(place).map(|level| level.subject.used()))
    }

    /// Nothing is limited.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &LimitLevel> {
        self.0.iter()
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
        let changed = Arc::default();
        let everybody = Arc::new(Subject::new(LevelName::Everybody, Arc::clone(&changed)));
        let named = std::array::from_fn(|_| RwLock::default());
        UsageBook { everybody, named, changed, lengths: Arc::default(), sharing: Mutex::default() }
    }
}

impl UsageBook {
    /// The levels of a request of this user that limit anything. None: no user asks.
    pub fn levels(&self, config: &Config, user: Option<&User>) -> LimitLevels {
        let mut levels = LimitLevels::default();
        let mut add = |place: usize, id: &str, limits: &Arc<Limits>| {
            if !limits.is_empty() {
                levels.0.push(LimitLevel { subject: self.subject(place, id), limits: limits.clone() });
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
        let level = |(name, limits): (LevelName, Arc<Limits>)| LimitLevel { subject: self.subject_of(&name), limits };
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
                let made = Arc::new(Subject::new(NAMED[named](id.clone()), self.changed.clone()));
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

    /// Whether [`UsageBook::take_changes`] has any.
    pub fn has_changes(&self) -> bool {
        !self.changed.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// The budgets that changed since the last call, to be kept.
    pub fn take_changes(&self) -> Vec<BudgetChange> {
        let changed = std::mem::take(&mut *self.changed.lock().unwrap_or_else(PoisonError::into_inner));
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

impl PeriodUse {
    fn of(calendar: Calendar, budget: Option<i64>, window: &BudgetWindow) -> PeriodUse {
        let Period { spent, reserved, estimated, start_us, end_us, .. } = *window.current();
        let spent = spent.saturating_add(window.spent_elsewhere());
        PeriodUse { calendar, budget, spent, reserved, estimated, start_us, end_us }
    }
}

impl Subject {
    fn new(name: LevelName, changed: Arc<Mutex<Vec<Arc<Subject>>>>) -> Subject {
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
        Subject { name, used: Mutex::new(used), changed }
    }

    pub fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A budget of it changes: it is to be kept.
    pub fn note(self: &Arc<Subject>, used: &mut Used) {
        if !std::mem::replace(&mut used.is_noted, true) {
            self.changed.lock().unwrap_or_else(PoisonError::into_inner).push(self.clone());
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

    /// What is left of each budget that these limits have, with the place of its window.
    pub fn budgets(&self, limits: &Limits) -> impl Iterator<Item = (usize, i64, i64)> {
        let of = |place: usize, budget: Option<i64>| {
            budget.map(|budget| (place, budget, self.windows[place].left(budget, self.windows[place].current())))
        };
        limits.budget.all().into_iter().enumerate().filter_map(move |(place, budget)| of(place, budget))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{AttemptCost, KnownCost, admit};
    use photofinish_config::config::Budget;

    const NOW: LimitClock = LimitClock { us: 1, wall_us: 1_796_000_000_000_000 };

    fn level(book: &UsageBook, name: &LevelName) -> LimitLevels {
        let limits =
            Limits { budget: Budget { day: Some(100), month: Some(500), ..Budget::default() }, ..Limits::default() };
        book.levels_of([(name.clone(), Arc::new(limits))])
    }

    #[test]
    fn budgets_go_on_after_a_restart_with_what_was_reserved_as_spent() {
        let (before, name) = (UsageBook::default(), LevelName::User("ann".into()));
        let cost = AttemptCost { usual: 30, max: 30, ..AttemptCost::default() };
        let (admission, _) = admit(level(&before, &name), 0, &[cost], NOW).unwrap();
        let first = admission.reserve("p/m", 0, || cost).unwrap();
        let _second = admission.reserve("p/m", 1, || cost).unwrap();
        first.book(KnownCost::Exact(20));
        let changes = before.take_changes();
        let of_day = changes.iter().find(|change| change.calendar == Calendar::Day).unwrap();
        assert_eq!((changes.len(), of_day.spent, of_day.reserved), (4, 20, 30));
        assert!(before.take_changes().is_empty());
        let after = UsageBook::default();
        after.restore(changes, NOW);
        let limits = level(&after, &name).0[0].limits.clone();
        let used = after.usage_of(&name, &limits, NOW);
        let periods = used.periods.map(|period| (period.budget, period.spent, period.reserved, period.estimated));
        assert_eq!(periods, [Some(100), None, Some(500), None].map(|budget| (budget, 50, 0, 30)));
        let next = admit(level(&after, &name), 0, &[AttemptCost { usual: 51, ..cost }], NOW);
        assert!(next.is_err(), "50 of 100 are spent");
    }

    #[test]
    fn who_is_gone_is_forgotten_unless_something_of_it_counts() {
        let book = UsageBook::default();
        let [idle, running, spent] = ["idle", "running", "spent"].map(|name| LevelName::User(name.into()));
        let cost = AttemptCost { usual: 30, max: 30, ..AttemptCost::default() };
        level(&book, &idle);
        let free = AttemptCost::default();
        let (_running, _) = admit(level(&book, &running), 0, &[free], NOW).unwrap();
        let (admission, _) = admit(level(&book, &spent), 0, &[cost], NOW).unwrap();
        admission.reserve("p/m", 0, || cost).unwrap().book(KnownCost::Exact(20));
        drop(admission);
        book.take_changes();
        book.retain(|_| false);
        let mut kept: Vec<String> = book.named[1].read().unwrap().keys().map(|name| (**name).to_owned()).collect();
        kept.sort_unstable();
        assert_eq!(kept, ["running", "spent"]);
    }
}
