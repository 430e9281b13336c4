//! Whether a request may begin: all its levels are checked, then all of them give. Not for what becomes of it: see `hold`.

use std::sync::MutexGuard;

use super::book::{BudgetRoom, LimitLevel, LimitLevels, PERIODS, Used};
use super::hold::{Admission, AttemptCost, FirstHeld, Hold, LimitsLeft};
use super::level::LevelName;
use super::window::{Calendar, LimitClock};
use photofinish_config::Reserve;

/// Why a request may not begin now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitRefusal {
    pub level: LevelName,
    pub by: RefusedBy,
    /// Of all levels.
    pub left: LimitsLeft,
}

impl LimitRefusal {
    /// Only what others' answers hold refuses it: it may fit in a moment.
    pub fn is_held(&self) -> bool {
        matches!(self.by, RefusedBy::Budget(OverBudget { why: BudgetRefusal::Held, .. }))
    }
}

/// The limit that refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedBy {
    Requests {
        per_minute: u64,
        wait_us: i64,
    },
    Tokens {
        per_minute: u64,
        asked: u64,
        wait_us: i64,
    },
    Streams {
        limit: u32,
    },
    Budget(OverBudget),
    /// No upstream has a price.
    Unpriced,
}

/// What a budget has, and what does not fit: nano-USD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverBudget {
    pub calendar: Calendar,
    pub budget: i64,
    pub spent: i64,
    pub reserved: i64,
    /// The least that an attempt may cost.
    pub asked: i64,
    /// Microseconds since 1970.
    pub end_us: i64,
    pub why: BudgetRefusal,
}

/// Why a budget refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetRefusal {
    /// Answers that still run hold what it would take.
    Held,
    Spent,
    /// The request may cost more than the whole budget.
    TooLarge,
}

impl RefusedBy {
    /// For a label.
    pub fn as_str(self) -> &'static str {
        match self {
            RefusedBy::Requests { .. } => "rpm",
            RefusedBy::Tokens { .. } => "tpm",
            RefusedBy::Streams { .. } => "streams",
            RefusedBy::Budget(over) => over.calendar.budget(),
            RefusedBy::Unpriced => "unpriced",
        }
    }

    /// Microseconds until it refuses no longer. Streams end at any time.
    fn wait_us(self, now: LimitClock) -> i64 {
        match self {
            RefusedBy::Requests { wait_us, .. } | RefusedBy::Tokens { wait_us, .. } => wait_us,
            RefusedBy::Streams { .. } => 1,
            RefusedBy::Budget(over) => match over.why {
                BudgetRefusal::Held => 1,
                BudgetRefusal::Spent => over.end_us - now.wall_us,
                BudgetRefusal::TooLarge => i64::MAX,
            },
            RefusedBy::Unpriced => i64::MAX,
        }
    }
}

/// Lets a request begin, or refuses it and takes nothing. `tokens`: what its client may get. `costs`: of an attempt at each of its
/// upstreams. Returns which of the upstreams its budgets allow, at least one.
///
/// # Errors
/// Of the limits that refuse it, the one that does so for longest.
pub fn admit(
    levels: LimitLevels,
    tokens: u64,
    costs: &[AttemptCost],
    now: LimitClock,
) -> Result<(Admission, Vec<bool>), Box<LimitRefusal>> {
    let mut all = levels.lock();
    let mut refusals = Vec::new();
    for (level, used) in levels.0.iter().zip(&mut all) {
        let limits = &*level.limits;
        used.pass(limits, now);
        used.asked += 1;
        let mut refuse = |by| refusals.push((&level.subject.name, by));
        if let Some((rate, wait_us)) = limits.rpm.map(|rate| (rate, used.requests.wait_us(rate, 1)))
            && wait_us > 0
        {
            refuse(RefusedBy::Requests { per_minute: rate.per_minute, wait_us });
        }
        if let Some((rate, wait_us)) = limits.tpm.map(|rate| (rate, used.tokens.wait_us(rate, tokens)))
            && wait_us > 0
        {
            refuse(RefusedBy::Tokens { per_minute: rate.per_minute, asked: tokens, wait_us });
        }
        let streams = |limit: u32| used.others.as_ref().map_or(limit, |others| others.streams(limit));
        if let Some(limit) = limits.streams.filter(|limit| used.streams >= streams(*limit)) {
            refuse(RefusedBy::Streams { limit });
        }
    }
    let fits = |cost: &AttemptCost| {
        let at = |((place, level), used): ((usize, &LimitLevel), &MutexGuard<'_, Used>)| {
            let (limits, cost) = (&*level.limits, cost.in_level(place, &level.limits));
            let fits = cost.fits(limits, used.rooms(limits, None, (0, 0))).filter(|_| !cost.is_refused(limits));
            fits.map(|fits| (fits, cost.exposes(limits)))
        };
        levels.0.iter().enumerate().zip(&all).map(at).collect::<Option<FirstHeld>>()
    };
    let fitting: Vec<Option<FirstHeld>> = costs.iter().map(fits).collect();
    if fitting.iter().all(Option::is_none) {
        refusals.extend(who_refuses(&levels, &all, costs));
    }
    if let Some((level, by)) = refusals.into_iter().max_by_key(|(_, by)| by.wait_us(now)) {
        return Err(Box::new(LimitRefusal { level: level.clone(), by, left: LimitsLeft::of(&levels, &all) }));
    }
    let (mut first, mut periods) = (vec![(0, 0); all.len()], vec![[0; PERIODS]; all.len()]);
    for (place, (level, used)) in levels.0.iter().zip(&mut all).enumerate() {
        used.requests.take(1);
        used.tokens.take(tokens);
        used.streams += 1;
        let held = fitting.iter().flatten().map(|held| held[place]);
        first[place] = held.reduce(|most, held| (most.0.max(held.0), most.1.max(held.1))).unwrap_or_default();
        for (number, window) in periods[place].iter_mut().zip(&mut used.windows) {
            let period = window.at(now.wall_us);
            *number = period.number;
            period.reserve(first[place].0);
            period.expose(first[place].1);
        }
        level.subject.note(used);
    }
    let left = LimitsLeft::of(&levels, &all);
    drop(all);
    let fitting = fitting.iter().map(Option::is_some).collect();
    Ok((Admission::of(Hold::new(levels, periods, first, tokens, left)), fitting))
}

/// The budgets that no attempt fits.
fn who_refuses<'l>(
    levels: &'l LimitLevels,
    all: &[MutexGuard<'_, Used>],
    costs: &[AttemptCost],
) -> Vec<(&'l LevelName, RefusedBy)> {
    let each = || levels.0.iter().enumerate();
    let refuses = |cost: &AttemptCost, (place, level): (usize, &LimitLevel)| {
        cost.in_level(place, &level.limits).is_refused(&level.limits)
    };
    let priced = |cost: &&AttemptCost| !each().any(|level| refuses(cost, level));
    let Some(cheapest) = costs.iter().filter(priced).min_by_key(|cost| cost.usual) else {
        let by = each().find(|level| costs.iter().any(|cost| refuses(cost, *level)));
        return by.map(|(_, level)| (&level.subject.name, RefusedBy::Unpriced)).into_iter().collect();
    };
    let mut refusals = Vec::new();
    for ((place, level), used) in each().zip(all) {
        let cheapest = cheapest.in_level(place, &level.limits);
        let asked = cheapest.at(&level.limits);
        let alone = cheapest.least.filter(|_| level.limits.reserve == Reserve::Usual);
        let least = alone.map_or(asked, |least| least.min(asked));
        for room in used.rooms(&level.limits, None, (0, 0)) {
            let BudgetRoom { place, budget, spent, reserved, .. } = room;
            if cheapest.fits(&level.limits, std::iter::once(room)).is_some() {
                continue;
            }
            let (calendar, end_us) = (Calendar::ALL[place], used.windows[place].current().end_us);
            let why = match budget.saturating_sub(spent) {
                _ if least > budget => BudgetRefusal::TooLarge,
                left if least > left => BudgetRefusal::Spent,
                _ => BudgetRefusal::Held,
            };
            let by = RefusedBy::Budget(OverBudget { calendar, budget, spent, reserved, asked, end_us, why });
            refusals.push((&level.subject.name, by));
        }
    }
    refusals
}
