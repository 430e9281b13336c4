//! Limits that several gateways on one store share. Each reports what it uses; from all reports, each computes its own part of every
//! limit, so no request waits for another machine.
//!
//! A part follows demand, by how many requests were asked for lately. All gateways compute the same parts from the reports; one grows only
//! when all others have heard that theirs are smaller: so the parts never add up to more than the limit. Not for how they report: see the
//! server's `replicas`.

use std::collections::HashMap;
use std::sync::Arc;

use super::book::{BudgetChange, Subject, UsageBook, Used};
use super::heard::{HeardUse, ReplicaUse, SubjectUse, TURN_US};
use super::level::LevelName;
use super::rate::WHOLE;
use super::window::{Calendar, LimitClock, Sharing};

/// What is left of demand after each report: it counts for some ten seconds.
const DEMAND_KEPT: f64 = 0.95;
/// Requests that each gateway is taken to have had besides: a few requests say little about the next.
const DEMAND_GUESSED: f64 = 3.0;
/// Demand of less than this is none.
const DEMAND_LEAST: f64 = 0.01;
/// Limits that a gateway reports to the others, those with most demand. Further ones are shared evenly.
const SUBJECTS_MAX: usize = 5_000;

/// What a gateway heard.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    /// Its own id: another one after each start.
    pub own: i64,
    /// Its own last report, as the others read it.
    pub own_use: HashMap<LevelName, SubjectUse>,
    /// The others that live.
    pub others: Vec<ReplicaUse>,
    /// Spent and reserved by all other gateways, also those that ended, in each period.
    pub budgets: Vec<BudgetChange>,
    /// By the clock of the store, microseconds since 1970: no earlier than when the others can read this gateway's report.
    pub store_us: i64,
}

impl UsageBook {
    /// What this gateway reports to the others, a few times a second.
    pub fn report(&self) -> Vec<(LevelName, SubjectUse)> {
        let mut uses = Vec::new();
        self.each(|subject, used| {
            used.demand = (used.demand + used.asked as f64) * DEMAND_KEPT;
            used.asked = 0;
            let counted = [used.requests.counted(), used.tokens.counted()];
            let before = used.reported[used.reported.len() - 1];
            used.reported.rotate_right(1);
            used.reported[0] = counted;
            if used.demand < DEMAND_LEAST {
                used.demand = 0.0;
            }
            if used.demand > 0.0 || used.streams > 0 {
                let lately = [0, 1].map(|kind| counted[kind] - before[kind]);
                let per_minute = [used.requests.per_minute(), used.tokens.per_minute()];
                let told_of = SubjectUse { counted, lately, per_minute, demand: used.demand, streams: used.streams };
                uses.push((subject.name.clone(), told_of));
            }
        });
        if uses.len() > SUBJECTS_MAX {
            uses.sort_unstable_by(|one, other| other.1.demand.total_cmp(&one.1.demand));
            uses.truncate(SUBJECTS_MAX);
        }
        uses
    }

    /// Takes over the reports of the others.
    pub fn hear(&self, heard: Heard, now: LimitClock) {
        let mut budgets: HashMap<&LevelName, Vec<&BudgetChange>> = HashMap::new();
        heard.budgets.iter().for_each(|change| budgets.entry(&change.level).or_default().push(change));
        let living = heard.others.len() + 1;
        let sharing = Sharing { living: i64::try_from(living).unwrap_or(i64::MAX), outage: None };
        let others = HeardUse::of(heard.own, heard.own_use, heard.others, heard.store_us, now);
        self.share(sharing, Some(others.clone()));
        // Those that only others know have spent something here too.
        budgets.keys().for_each(|name| drop(self.subject_of(name)));
        self.each(|subject, used| {
            used.hear(&others, &subject.name);
            used.divide(&others, &subject.name);
            for calendar in Calendar::ALL {
                let of = |start_us| {
                    let all = budgets.get(&subject.name).into_iter().flatten();
                    let of = all.filter(|of| of.calendar == calendar && of.start_us == start_us);
                    of.map(|of| of.spent.saturating_add(of.reserved)).sum()
                };
                used.windows[calendar as usize].hear(of, sharing, now);
            }
        });
    }

    /// The store does not answer: of each budget all gateways may use at most so much of the whole, in millionths, beyond what was heard, in
    /// equal parts. Turns go on by the clock, `store_us`. What runs elsewhere counts no more, because it would never end.
    pub fn begin_outage(&self, allowance: u32, store_us: i64, now: LimitClock) {
        let (sharing, last) = self.shared();
        let sharing = Sharing { outage: Some(allowance), ..sharing };
        let last = last.map(|last| last.later(store_us, now));
        self.share(sharing, last.clone());
        self.each(|subject, used| {
            if let Some(last) = &last {
                used.divide(last, &subject.name);
            }
            used.windows.iter_mut().for_each(|window| window.set_sharing(sharing));
        });
    }

    /// The others are not heard now. Together they may have used as much as all of them let in: what this gateway used of its part counts as
    /// no less than its part of that.
    pub fn miss_others(&self, now: LimitClock) {
        self.each(|_, used| [&mut used.requests, &mut used.tokens].into_iter().for_each(|rate| rate.miss(now.us)));
    }

    /// The store may have lost this gateway's last report: [`UsageBook::take_changes`] has every budget once more.
    pub fn tell_all_budgets(&self) {
        self.each(|subject, used| {
            if used.windows.iter_mut().fold(false, |any, window| window.tell_again() | any) {
                subject.note(used);
            }
        });
    }
}

impl Used {
    /// What the others have taken.
    pub fn hear(&mut self, heard: &HeardUse, name: &LevelName) {
        let mut others = self.others.take().unwrap_or_default();
        let mut rates = [&mut self.requests, &mut self.tokens];
        for (kind, rate) in rates.iter_mut().enumerate() {
            let of = heard.others.iter().filter_map(|other| other.subjects.get(name));
            rate.begin_hearing(of.map(|uses| uses.per_minute[kind]).max().unwrap_or_default(), heard.now_us);
        }
        // A gateway that does not report it now may report it again.
        others.counted.retain(|id, _| heard.ids.binary_search(id).is_ok());
        for other in &heard.others {
            let Some(uses) = other.subjects.get(name) else { continue };
            let first = || (i64::MIN, [0, 1].map(|kind| uses.counted[kind] - uses.lately[kind]));
            let (told_at, before) = others.counted.get(&other.id).copied().unwrap_or_else(first);
            // After a failover the store may have an older report for a moment. If its clock went back, the report by the new clock counts.
            if other.beat_at >= told_at || told_at > heard.store_us && other.beat_at <= heard.store_us {
                for (kind, rate) in rates.iter_mut().enumerate() {
                    rate.hear(uses.counted[kind].saturating_sub(before[kind]));
                }
                others.counted.insert(other.id, (other.beat_at, uses.counted));
            }
        }
        rates.iter_mut().for_each(|rate| rate.end_hearing());
        self.others = Some(others);
    }

    /// Finds the part of this gateway.
    pub fn divide(&mut self, heard: &HeardUse, name: &LevelName) {
        let others = self.others.take().filter(|_| !heard.others.is_empty());
        let Some(mut others) = others else {
            self.requests.set_part(None);
            self.tokens.set_part(None);
            return;
        };
        let of = |id: i64| match heard.others.iter().find(|other| other.id == id) {
            Some(other) => other.subjects.get(name).copied().unwrap_or_default(),
            None => heard.own_use.get(name).copied().unwrap_or_default(),
        };
        let uses: Vec<SubjectUse> = heard.ids.iter().map(|id| of(*id)).collect();
        let shares = shares(&uses);
        others.own = heard.ids.iter().position(|id| *id == heard.own).unwrap_or_default();
        others.turn = heard.turn.map(|turn| holder(&shares, turn));
        others.parts = uses.iter().map(|uses| uses.streams).zip(shares.iter().copied()).collect();
        let share = others.agree(heard);
        let part = (share, others.turn == Some(others.own), TURN_US);
        self.requests.set_part(Some(part));
        self.tokens.set_part(Some(part));
        self.others = Some(others);
    }
}

/// The part of each gateway, of [`WHOLE`].
fn shares(uses: &[SubjectUse]) -> Vec<u32> {
    let demand = |uses: &SubjectUse| uses.demand + DEMAND_GUESSED;
    let all: f64 = uses.iter().map(demand).sum();
    uses.iter().map(|uses| (f64::from(WHOLE) * demand(uses) / all) as u32).collect()
}

/// Whose turn it is: over many turns each has as many as its part says, and they are spread evenly.
fn holder(shares: &[u32], turn: i64) -> usize {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let whole: u64 = shares.iter().map(|share| u64::from(*share)).sum();
    let point = ((turn as f64 * GOLDEN).rem_euclid(1.0) * whole as f64) as u64;
    let mut end = 0;
    shares
        .iter()
        .position(|share| {
            end += u64::from(*share);
            point < end
        })
        .unwrap_or_default()
}

impl UsageBook {
    fn each(&self, mut work: impl FnMut(&Arc<Subject>, &mut Used)) {
        self.subjects().iter().for_each(|subject| work(subject, &mut subject.used()));
    }
}
