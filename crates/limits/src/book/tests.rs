//! What goes on after a restart and over midnight, and who is forgotten.

use super::*;
use crate::{Admission, AttemptCost, KnownCost, admit};
use photofinish_config::Budget;

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
    let first = admission.reserve("p/m", 0, |_| cost).unwrap();
    let _second = admission.reserve("p/m", 1, |_| cost).unwrap();
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

/// What began before midnight is paid in the period in which it began, whatever the clock does meanwhile.
#[test]
fn a_clock_that_jumps_over_midnight_gives_nobody_a_budget_twice() {
    const DAY_US: i64 = 86_400_000_000;
    let at = |us: i64| LimitClock { us: 1, wall_us: NOW.wall_us + us };
    let (book, name) = (UsageBook::default(), LevelName::User("ann".into()));
    let cost = AttemptCost { usual: 60, max: 60, ..AttemptCost::default() };
    let begin = |now| admit(level(&book, &name), 0, &[cost], now).map(|(admission, _)| admission);
    let reserve = |admission: &Admission| admission.reserve("p/m", 0, |_| cost).unwrap();
    let day = |now| {
        let used = book.usage_of(&name, &level(&book, &name).0[0].limits, now).periods[0];
        (used.spent, used.reserved)
    };
    let before = begin(at(0)).unwrap();
    let reserved = reserve(&before);
    assert!(begin(at(0)).is_err(), "60 of 100 are reserved");
    let next = begin(at(DAY_US)).unwrap();
    assert_eq!(day(at(DAY_US)), (0, 60), "forward: a new day");
    reserved.book(KnownCost::Exact(50));
    assert_eq!(day(at(DAY_US)), (0, 60), "paid in the day in which it began");
    reserve(&next).book(KnownCost::Exact(55));
    assert_eq!(day(at(DAY_US)), (55, 0));
    assert_eq!(day(at(0)), (55, 0), "back: still the new day");
    assert!(begin(at(0)).is_err() && begin(at(DAY_US)).is_err());
    assert!(begin(at(2 * DAY_US)).is_ok());
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
    admission.reserve("p/m", 0, |_| cost).unwrap().book(KnownCost::Exact(20));
    drop(admission);
    book.take_changes();
    book.retain(|_| false);
    let mut kept: Vec<String> = book.named[1].read().unwrap().keys().map(|name| (**name).to_owned()).collect();
    kept.sort_unstable();
    assert_eq!(kept, ["running", "spent"]);
}

#[test]
fn a_budget_runs_out_at_the_pace_of_its_period() {
    const DAY: i64 = 86_400_000_000;
    let of = |calendar, spent| PeriodUse {
        calendar,
        budget: Some(1_000),
        spent,
        reserved: 0,
        estimated: 0,
        start_us: 10 * DAY,
        end_us: 11 * DAY,
    };
    for (spent, over, expected) in [
        (500, DAY / 4, Some(10 * DAY + DAY / 2)),
        (1_000, DAY / 4, Some(10 * DAY + DAY / 4)),
        (2_000, DAY / 4, Some(10 * DAY + DAY / 4)),
        // Just enough, less, nothing at all, and too early to say.
        (250, DAY / 4, None),
        (100, DAY / 4, None),
        (0, DAY / 4, None),
        (500, DAY / 8 - 1, None),
        (500, DAY / 8, Some(10 * DAY + DAY / 4)),
    ] {
        assert_eq!(of(Calendar::Day, spent).runs_out_us(10 * DAY + over), expected, "{spent} after {over}");
    }
    assert_eq!(of(Calendar::Total, 500).runs_out_us(10 * DAY + DAY / 4), None, "all time has no pace");
    assert_eq!(PeriodUse { budget: None, ..of(Calendar::Day, 500) }.runs_out_us(10 * DAY + DAY / 4), None);
}
