//! Whether a request may begin: all its levels are checked, then all of them give. Not for what becomes of it: see `hold`.

use super::book::{LEVELS_MAX, LimitLevels, LockedLevels};
use super::hold::{Admission, AttemptCost, Hold, LimitsLeft};
use super::level::LevelName;
use super::window::{Calendar, LimitClock};

/// Why a request may not begin now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitRefusal {
    pub level: LevelName,
    pub by: RefusedBy,
    /// Of all levels.
    pub left: LimitsLeft,
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
    /// Nano-USD.
    Budget {
        calendar: Calendar,
        budget: i64,
        spent: i64,
        reserved: i64,
        /// The least that an attempt may cost.
        asked: i64,
        /// Microseconds since 1970.
        end_us: i64,
    },
    /// No upstream has a price.
    Unpriced,
}

impl RefusedBy {
    /// For a label.
    pub fn as_str(self) -> &'static str {
        match self {
            RefusedBy::Requests { .. } => "rpm",
            RefusedBy::Tokens { .. } => "tpm",
            RefusedBy::Streams { .. } => "streams",
            RefusedBy::Budget { calendar: Calendar::Day, .. } => "budget_day",
            RefusedBy::Budget { calendar: Calendar::Month, .. } => "budget_month",
            RefusedBy::Unpriced => "unpriced",
        }
    }

    /// Microseconds until it refuses no longer. Streams end at any time.
    fn wait_us(self, now: LimitClock) -> i64 {
        match self {
            RefusedBy::Requests { wait_us, .. } | RefusedBy::Tokens { wait_us, .. } => wait_us,
            RefusedBy::Streams { .. } => 1,
            RefusedBy::Budget { end_us, .. } => end_us - now.wall_us,
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
    for (level, used) in levels.0.iter().zip(all.iter_mut().flatten()) {
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
        levels.0.iter().zip(all.iter().flatten()).all(|(level, used)| {
            !cost.is_refused(&level.limits)
                && used.budgets(&level.limits).all(|(_, _, left)| cost.at(&level.limits) <= left.max(0))
        })
    };
    let fitting: Vec<bool> = costs.iter().map(fits).collect();
    if !fitting.contains(&true) {
        refusals.extend(who_refuses(&levels, &all, costs));
    }
    if let Some((level, by)) = refusals.into_iter().max_by_key(|(_, by)| by.wait_us(now)) {
        return Err(Box::new(LimitRefusal { level: level.clone(), by, left: LimitsLeft::of(&levels, &all) }));
    }
    let kept = || costs.iter().zip(&fitting).filter(|(_, fits)| **fits).map(|(cost, _)| cost);
    let (mut first, mut periods) = ([0; LEVELS_MAX], [[0; 2]; LEVELS_MAX]);
    for (place, (level, used)) in levels.0.iter().zip(all.iter_mut().flatten()).enumerate() {
        used.requests.take(1);
        used.tokens.take(tokens);
        used.streams += 1;
        first[place] = kept().map(|cost| cost.at(&level.limits)).max().unwrap_or(0);
        for (number, window) in periods[place].iter_mut().zip(&mut used.windows) {
            let period = window.at(now.wall_us);
            *number = period.number;
            period.reserve(first[place]);
        }
        level.subject.note(used);
    }
    let left = LimitsLeft::of(&levels, &all);
    drop(all);
    Ok((Admission::of(Hold::new(levels, periods, first, tokens, left)), fitting))
}

/// The budgets that no attempt fits.
fn who_refuses<'l>(
    levels: &'l LimitLevels,
    all: &LockedLevels<'_>,
    costs: &[AttemptCost],
) -> Vec<(&'l LevelName, RefusedBy)> {
    let priced = |cost: &&AttemptCost| !levels.0.iter().any(|level| cost.is_refused(&level.limits));
    let Some(cheapest) = costs.iter().filter(priced).min_by_key(|cost| cost.usual) else {
        let by = levels.0.iter().find(|level| costs.iter().any(|cost| cost.is_refused(&level.limits)));
        return by.map(|level| (&level.subject.name, RefusedBy::Unpriced)).into_iter().collect();
    };
    let mut refusals = Vec::new();
    for (level, used) in levels.0.iter().zip(all.iter().flatten()) {
        let asked = cheapest.at(&level.limits);
        for (place, budget, _) in used.budgets(&level.limits).filter(|(_, _, left)| asked > (*left).max(0)) {
            let (window, period) = (&used.windows[place], used.windows[place].current());
            let spent = period.spent.saturating_add(window.spent_elsewhere());
            let (reserved, end_us) = (period.reserved, period.end_us);
            let by = RefusedBy::Budget { calendar: Calendar::ALL[place], budget, spent, reserved, asked, end_us };
            refusals.push((&level.subject.name, by));
        }
    }
    refusals
}
