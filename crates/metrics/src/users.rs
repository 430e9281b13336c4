//! Figures by user. Those who spent most have series of their own, the others share one.
//!
//! A series counts while its user is one of those. So nothing counts twice, no count falls, and the sum of all series is that of all
//! users. Who is one of those is decided anew when the page is written; a free place is taken at once.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use super::RaceCounts;
use super::costs::BOUNDS;
use super::series::OTHER;
use super::text::MetricsText;
use photofinish_facts::estimate::cost::CostSum;
use photofinish_facts::record::RaceOutcome;

/// Users with metrics of their own: those who spent most since the start, then those who asked most; others share `other`.
pub(super) const USERS_MAX: usize = 64;
/// Users whose spending is compared for that; further ones share `other`.
const COMPARED_MAX: usize = 200_000;

/// All who asked since the start.
#[derive(Debug, Default)]
pub(super) struct UserFigures {
    users: RwLock<HashMap<String, Arc<CountedUser>>>,
    other: UserSeries,
}

#[derive(Debug)]
struct CountedUser {
    name: String,
    /// Nano-USD, by the lower bounds.
    spent: AtomicU64,
    races: AtomicU64,
    is_shown: AtomicBool,
    /// Of one that was shown once.
    series: OnceLock<Box<UserSeries>>,
}

#[derive(Debug, Default)]
struct UserSeries {
    races: RaceCounts,
    cost: Mutex<CostSum>,
}

impl UserFigures {
    pub fn race(&self, user: &str, outcome: RaceOutcome) {
        let user = self.counted(user);
        if let Some(user) = &user {
            user.races.fetch_add(1, Relaxed);
        }
        self.series(user.as_deref()).races[outcome as usize].fetch_add(1, Relaxed);
    }

    pub fn cost(&self, user: &str, cost: &CostSum) {
        let user = self.counted(user);
        let spent = (cost.least_usd() * 1e9) as u64;
        if let Some(user) = &user {
            user.spent.fetch_add(spent, Relaxed);
        }
        self.series(user.as_deref()).cost.lock().unwrap_or_else(PoisonError::into_inner).merge(cost);
    }

    /// Forgets who is no user any more, and decides who has series.
    pub fn choose(&self, is_user: impl Fn(&str) -> bool) {
        let all = self.all();
        let (mut all, gone): (Vec<_>, Vec<_>) = all.into_iter().partition(|user| is_user(&user.name));
        if !gone.is_empty() {
            let mut users = self.users.write().unwrap_or_else(PoisonError::into_inner);
            gone.iter().for_each(|user| drop(users.remove(&user.name)));
        }
        if all.len() > USERS_MAX {
            // Read once: they change meanwhile. Of equals those stay who are shown.
            all.sort_by_cached_key(|user| {
                let (spent, races) = (user.spent.load(Relaxed), user.races.load(Relaxed));
                (Reverse((spent, races, user.is_shown.load(Relaxed))), user.name.clone())
            });
        }
        for (place, user) in all.iter().enumerate() {
            user.is_shown.store(place < USERS_MAX, Relaxed);
        }
    }

    pub fn render(&self, text: &mut MetricsText) {
        let mut shown = self.all();
        shown.retain(|user| user.is_shown.load(Relaxed));
        shown.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let own = shown.iter().filter_map(|user| Some((user.name.as_str(), &**user.series.get()?)));
        let all: Vec<(&str, &UserSeries)> = own.chain([(OTHER, &self.other)]).collect();
        text.family("user_races_total", "counter", "Races that ended, by user and outcome.");
        for (user, of) in &all {
            let counts = of.races.iter().map(|count| count.load(Relaxed));
            for (outcome, count) in RaceOutcome::ALL.iter().zip(counts).filter(|(_, count)| *count > 0) {
                text.sample(&[("user", user), ("outcome", outcome.as_str())], count);
            }
        }
        for (series, help, sample) in BOUNDS {
            text.family(&format!("user_cost_{series}"), "counter", &format!("{help} that a user's attempts cost."));
            for (user, of) in &all {
                let cost = *of.cost.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(sample) = sample(&cost).filter(|_| !cost.is_empty()) {
                    text.sample(&[("user", user)], sample);
                }
            }
        }
    }

    fn all(&self) -> Vec<Arc<CountedUser>> {
        self.users.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// None: it shares a series in any case.
    fn counted(&self, name: &str) -> Option<Arc<CountedUser>> {
        let known = self.users.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        known.or_else(|| {
            let mut users = self.users.write().unwrap_or_else(PoisonError::into_inner);
            if name == OTHER || !users.contains_key(name) && users.len() >= COMPARED_MAX {
                return None;
            }
            let is_shown = AtomicBool::new(users.len() < USERS_MAX);
            let made = || CountedUser {
                name: name.to_owned(),
                spent: AtomicU64::new(0),
                races: AtomicU64::new(0),
                is_shown,
                series: OnceLock::new(),
            };
            Some(Arc::clone(users.entry(name.to_owned()).or_insert_with(|| Arc::new(made()))))
        })
    }

    fn series<'s>(&'s self, user: Option<&'s CountedUser>) -> &'s UserSeries {
        let shown = user.filter(|user| user.is_shown.load(Relaxed));
        shown.map_or(&self.other, |user| user.series.get_or_init(Box::default))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::MetricsFormat;
    use photofinish_facts::estimate::cost::Cost;

    /// US dollars and races by label.
    fn shown(figures: &UserFigures) -> BTreeMap<String, [f64; 2]> {
        let mut text = MetricsText::new(MetricsFormat::Text);
        figures.render(&mut text);
        let mut all = BTreeMap::<String, [f64; 2]>::new();
        for line in text.finish().lines() {
            let Some((name, rest)) = line.split_once("{user=\"") else { continue };
            let place = ["user_cost_usd_total", "user_races_total"]
                .map(|of| name.split_once('_').is_some_and(|name| name.1 == of));
            let Some(place) = place.iter().position(|is| *is) else { continue };
            let (user, value) = (rest.split('"').next().unwrap(), rest.rsplit(' ').next().unwrap());
            all.entry(user.to_owned()).or_default()[place] = value.parse().unwrap();
        }
        all
    }

    fn asks(figures: &UserFigures, user: &str, usd: f64) {
        figures.race(user, RaceOutcome::Ok);
        figures.cost(user, &CostSum::of([Cost { cost_usd_min: Some(usd), cost_usd_max: Some(usd) }]));
    }

    fn own(figures: &UserFigures) -> BTreeSet<String> {
        shown(figures).into_keys().filter(|name| name != OTHER).collect()
    }

    #[test]
    fn who_spends_most_has_series_whoever_came_first() {
        let figures = UserFigures::default();
        let first: Vec<String> = (0..USERS_MAX).map(|n| format!("a{n:03}")).collect();
        first.iter().for_each(|user| asks(&figures, user, 1.0));
        assert_eq!(own(&figures), first.iter().cloned().collect());

        // Who comes later counts in `other` until the page is written, then in a series of its own that begins at zero.
        asks(&figures, "late", 5.0);
        assert_eq!(shown(&figures)[OTHER], [5.0, 1.0]);
        figures.choose(|_| true);
        asks(&figures, "late", 0.25);
        assert_eq!((shown(&figures)["late"], shown(&figures)[OTHER]), ([0.25, 1.0], [5.0, 1.0]));
        let left: Vec<&String> = first.iter().filter(|user| !own(&figures).contains(*user)).collect();
        assert_eq!(left, ["a063"], "the last one by name of those who spent and asked the same");

        // Whose place is lost counts in `other`; back again, its series goes on.
        asks(&figures, "a063", 0.5);
        assert_eq!(shown(&figures)[OTHER], [5.5, 2.0]);
        figures.choose(|_| true);
        asks(&figures, "a063", 1.0);
        assert_eq!(shown(&figures)["a063"], [2.0, 2.0]);
        assert_eq!(own(&figures).len(), USERS_MAX);
        assert!(!own(&figures).contains("a062"));
    }

    #[test]
    fn of_equal_spenders_those_who_ask_more_have_series_and_then_those_who_had() {
        let figures = UserFigures::default();
        (0..USERS_MAX).for_each(|n| figures.race(&format!("b{n:03}"), RaceOutcome::Ok));
        figures.race("a-same", RaceOutcome::Ok);
        figures.choose(|_| true);
        assert!(!own(&figures).contains("a-same"));
        figures.race("a-same", RaceOutcome::Ok);
        figures.choose(|_| true);
        figures.race("a-same", RaceOutcome::Ok);
        assert!(own(&figures).contains("a-same") && own(&figures).len() == USERS_MAX);
    }

    /// As a scraper sees it, over changes of places.
    #[test]
    fn no_count_falls_and_the_sum_is_that_of_all() {
        let figures = UserFigures::default();
        let (mut before, mut asked) = (BTreeMap::<String, [f64; 2]>::new(), 0_u32);
        for round in 0..50_u32 {
            for n in 0..200_u32 {
                let draw = (n * 7_919 + round * 104_729) % 97;
                if draw < 20 {
                    asks(&figures, &format!("u{n}"), f64::from(draw * (1 + (n + round) % 5)));
                    asked += 1;
                }
            }
            figures.choose(|_| true);
            let now = shown(&figures);
            assert!(now.len() <= USERS_MAX + 1);
            for (user, counts) in now {
                let last = before.entry(user.clone()).or_default();
                assert!(counts[0] >= last[0] && counts[1] >= last[1], "{user}: {last:?}, {counts:?}");
                *last = counts;
            }
            // The last counts of those who are not shown now too.
            let sum: f64 = before.values().map(|counts| counts[1]).sum();
            assert!(sum <= f64::from(asked), "{sum} of {asked}");
        }
        let all = figures.all();
        let own: u64 = all.iter().filter_map(|user| user.series.get()).map(|of| of.races[0].load(Relaxed)).sum();
        assert_eq!(own + figures.other.races[0].load(Relaxed), u64::from(asked));
    }

    #[test]
    fn a_removed_user_has_no_series_and_a_user_named_other_shares_one() {
        let figures = UserFigures::default();
        ["ann", "bob", OTHER].iter().for_each(|user| asks(&figures, user, 1.0));
        figures.choose(|user| user == "bob");
        assert_eq!(shown(&figures), [("bob".to_owned(), [1.0; 2]), (OTHER.to_owned(), [1.0; 2])].into());
    }
}
