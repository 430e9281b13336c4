//! Money by the UTC calendar: what was spent, and what running attempts have reserved, in the present period and in those before
//! it whose answers still run. Integers of nano-USD.
//!
//! Not for rates: see `bucket`.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

/// Periods that are over and kept, the newest.
const OVER_MAX: usize = 8;

/// The moment of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitClock {
    /// Microseconds that never go back: for rates.
    pub us: i64,
    /// Microseconds since 1970, by the wall clock: for budgets.
    pub wall_us: i64,
}

/// The length of a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Calendar {
    Day,
    /// From Monday on.
    Week,
    Month,
    /// All time.
    Total,
}

/// When all time begins and ends: 1970 and 2200.
const ALL_TIME_US: (i64, i64) = (0, 7_258_118_400_000_000);

impl Calendar {
    pub const ALL: [Calendar; 4] = [Calendar::Day, Calendar::Week, Calendar::Month, Calendar::Total];

    pub fn as_str(self) -> &'static str {
        match self {
            Calendar::Day => "day",
            Calendar::Week => "week",
            Calendar::Month => "month",
            Calendar::Total => "total",
        }
    }

    /// A budget of it, for a label.
    pub fn budget(self) -> &'static str {
        match self {
            Calendar::Day => "budget_day",
            Calendar::Week => "budget_week",
            Calendar::Month => "budget_month",
            Calendar::Total => "budget_total",
        }
    }

    /// When the period of this moment began, and when it ends: microseconds since 1970.
    pub fn period_us(self, at_us: i64) -> (i64, i64) {
        let at = Timestamp::from_microsecond(at_us).unwrap_or_default();
        let day = at.to_zoned(TimeZone::UTC).date();
        let (first, length) = match self {
            Calendar::Day => (day, Span::new().days(1)),
            Calendar::Week => (monday(day), Span::new().weeks(1)),
            Calendar::Month => (day.first_of_month(), Span::new().months(1)),
            Calendar::Total => return ALL_TIME_US,
        };
        (midnight_us(first), midnight_us(first.saturating_add(length)))
    }
}

fn monday(day: Date) -> Date {
    day.saturating_sub(Span::new().days(day.weekday().to_monday_zero_offset()))
}

fn midnight_us(day: Date) -> i64 {
    day.to_zoned(TimeZone::UTC).map_or(0, |midnight| midnight.timestamp().as_microsecond())
}

/// One day, or one month.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// Names it within its window, whatever the clock does.
    pub number: u32,
    /// Microseconds since 1970.
    pub start_us: i64,
    pub end_us: i64,
    pub spent: i64,
    /// By attempts whose cost is not known yet.
    pub reserved: i64,
    /// What those may cost if their answers are far longer than usual.
    pub exposed: i64,
    /// Part of `spent` that is not known exactly.
    pub estimated: i64,
    /// Since [`BudgetWindow::take_changes`].
    changed: bool,
    /// The budget that was said to come near its end. 0: none.
    warned_of: i64,
    /// It was among the changes before, so the store may have amounts that are zero here by now.
    reported: bool,
}

impl Period {
    /// What it is filled with, of its budget.
    pub fn used(&self) -> i64 {
        self.spent.saturating_add(self.reserved)
    }

    pub fn reserve(&mut self, amount: i64) {
        self.reserved = self.reserved.saturating_add(amount);
        self.changed = true;
    }

    pub fn expose(&mut self, amount: i64) {
        self.exposed = self.exposed.saturating_add(amount);
    }

    /// This budget comes near its end. False: that was said before.
    pub fn warn(&mut self, budget: i64) -> bool {
        std::mem::replace(&mut self.warned_of, budget) != budget
    }

    /// What was reserved turns into what it cost.
    pub fn book(&mut self, reserved: i64, cost: i64, is_estimate: bool) {
        self.reserve(-reserved);
        // What is given back may have been spent in the period before.
        self.spent = self.spent.saturating_add(cost).max(0);
        if is_estimate {
            self.estimated = self.estimated.saturating_add(cost);
        }
    }
}

/// The periods of one length.
#[derive(Clone, Debug)]
pub struct BudgetWindow {
    calendar: Calendar,
    current: Period,
    /// The oldest first.
    over: Vec<Period>,
    elsewhere: Elsewhere,
    sharing: Sharing,
}

/// Who shares a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sharing {
    /// Gateways that live, this one among them. 0: nothing was heard, or there is no other.
    pub living: i64,
    /// The store does not answer: what all of them may use of a budget beyond what was heard, in millionths. None: it answers.
    pub outage: Option<u32>,
}

/// What other gateways have used of a period, as it was heard last.
#[derive(Clone, Copy, Debug, Default)]
struct Elsewhere {
    /// Of the period that is meant.
    start_us: i64,
    used: i64,
    /// What was used here by then.
    own: i64,
    /// What all of them use in a minute. None: not known yet.
    minute: Option<i64>,
    heard_us: i64,
}

impl BudgetWindow {
    pub fn new(calendar: Calendar) -> BudgetWindow {
        BudgetWindow {
            calendar,
            current: Period::default(),
            over: Vec::new(),
            elsewhere: Elsewhere::default(),
            sharing: Sharing::default(),
        }
    }

    /// The period of this moment. A clock that goes back by less than a period stays in the one it was in, so that no caller gets a
    /// budget twice by it; if it goes back further, what was spent goes with it.
    pub fn at(&mut self, now_us: i64) -> &mut Period {
        if now_us >= self.current.end_us {
            self.begin(self.calendar.period_us(now_us));
        } else if now_us < self.current.start_us - (self.current.end_us - self.current.start_us) {
            (self.current.start_us, self.current.end_us) = self.calendar.period_us(now_us);
            self.current.changed = true;
        }
        &mut self.current
    }

    fn begin(&mut self, (start_us, end_us): (i64, i64)) {
        let number = self.current.number + 1;
        self.over.push(std::mem::replace(&mut self.current, Period { number, start_us, end_us, ..Period::default() }));
        self.over.retain(|over| over.reserved > 0 || over.changed);
        let more = self.over.len().saturating_sub(OVER_MAX);
        self.over.drain(..more);
    }

    pub fn current(&self) -> &Period {
        &self.current
    }

    /// What is left of a budget to this gateway in this period. Other gateways use the same budget, and what they used is heard late: when
    /// less is left than all use in a minute, each has an equal part of the rest.
    pub fn left(&self, budget: i64, period: &Period) -> i64 {
        let mut left = budget.saturating_sub(period.used());
        let Sharing { living, outage } = self.sharing;
        if living == 0 && outage.is_none() {
            return left;
        }
        // Of a period that began since, nothing was heard.
        let nothing = Elsewhere { start_us: period.start_us, ..Elsewhere::default() };
        let there = if self.elsewhere.start_us == period.start_us { &self.elsewhere } else { &nothing };
        left = left.saturating_sub(there.used);
        let mut at_most = |more: i64| left = left.min(there.own.saturating_add(more).saturating_sub(period.used()));
        let was_left = budget.saturating_sub(there.used).saturating_sub(there.own);
        if living > 1 && there.minute.is_none_or(|minute| was_left < minute) {
            at_most(was_left / living);
        }
        // One that was alone knows all that is spent.
        if let Some(outage) = outage.filter(|_| living != 1) {
            let allowance = (i128::from(budget) * i128::from(outage) / 1_000_000) as i64;
            at_most(allowance.min(was_left) / living.max(1));
        }
        left
    }

    /// What other gateways have used of the present period.
    pub fn spent_elsewhere(&self) -> i64 {
        if self.elsewhere.start_us == self.current.start_us { self.elsewhere.used } else { 0 }
    }

    /// Takes over what others have used of the present period; `used_in`: by its start.
    pub fn hear(&mut self, used_in: impl FnOnce(i64) -> i64, sharing: Sharing, now: LimitClock) {
        let start_us = self.at(now.wall_us).start_us;
        let (used, own) = (used_in(start_us), self.current.used());
        let before = self.elsewhere;
        let passed_us = now.us - before.heard_us;
        let minute = match before.start_us == start_us && passed_us > 0 && before.heard_us > 0 {
            true => {
                let more = used.saturating_add(own).saturating_sub(before.used).saturating_sub(before.own).max(0);
                let now_so_much = i128::from(more) * 60_000_000 / i128::from(passed_us);
                // It falls slowly: a pause is not the end of it.
                let still = before.minute.map_or(0, |minute| minute - minute / 100);
                Some(i64::try_from(now_so_much).unwrap_or(i64::MAX).max(still))
            }
            false => None,
        };
        self.elsewhere = Elsewhere { start_us, used, own, minute, heard_us: now.us };
        self.sharing = sharing;
    }

    /// Who shares the budget from now on.
    pub fn set_sharing(&mut self, sharing: Sharing) {
        self.sharing = sharing;
    }

    /// The period with this number, if it is kept.
    pub fn period(&mut self, number: u32) -> Option<&mut Period> {
        std::iter::once(&mut self.current).chain(&mut self.over).find(|period| period.number == number)
    }

    /// As [`BudgetWindow::period`].
    pub fn period_of(&self, number: u32) -> Option<&Period> {
        std::iter::once(&self.current).chain(&self.over).find(|period| period.number == number)
    }

    /// Every period that changed since the last call.
    pub fn take_changes(&mut self) -> Vec<Period> {
        let mut changed = Vec::new();
        for period in self.over.iter_mut().chain([&mut self.current]) {
            if std::mem::take(&mut period.changed) {
                period.reported = true;
                changed.push(*period);
            }
        }
        self.over.retain(|over| over.reserved > 0);
        changed
    }

    /// [`BudgetWindow::take_changes`] has every period again that has or had anything. False: there is none.
    pub fn tell_again(&mut self) -> bool {
        let mut any = false;
        for period in self.over.iter_mut().chain([&mut self.current]) {
            period.changed |= period.reported || period.spent != 0;
            any |= period.changed;
        }
        any
    }

    /// What was spent before the start, in the period that began then. One that is over by now counts for nothing.
    pub fn restore(&mut self, start_us: i64, spent: i64, estimated: i64, now_us: i64) {
        let period = self.at(now_us);
        if period.start_us == start_us {
            period.spent = period.spent.saturating_add(spent);
            period.estimated = period.estimated.saturating_add(estimated);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_microsecond()
    }

    #[test]
    fn periods_are_those_of_the_calendar() {
        for (at, calendar, start, end) in [
            ("2026-11-27T07:40:00Z", Calendar::Day, "2026-11-27T00:00:00Z", "2026-11-28T00:00:00Z"),
            ("2026-11-27T00:00:00Z", Calendar::Day, "2026-11-27T00:00:00Z", "2026-11-28T00:00:00Z"),
            ("2026-11-26T23:59:59.999999Z", Calendar::Day, "2026-11-26T00:00:00Z", "2026-11-27T00:00:00Z"),
            ("2024-02-29T12:00:00Z", Calendar::Month, "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z"),
            ("2026-12-31T23:59:59Z", Calendar::Month, "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"),
            ("1969-12-31T23:59:59Z", Calendar::Day, "1969-12-31T00:00:00Z", "1970-01-01T00:00:00Z"),
        ] {
            assert_eq!(calendar.period_us(us(at)), (us(start), us(end)), "{at} {calendar:?}");
        }
    }

    #[test]
    fn a_period_that_is_over_settles_what_it_has_reserved() {
        let mut window = BudgetWindow::new(Calendar::Day);
        let number = {
            let period = window.at(us("2026-11-27T23:59:59Z"));
            period.reserve(100);
            period.number
        };
        assert_eq!(window.take_changes().len(), 1);
        let next = *window.at(us("2026-11-28T00:00:00Z"));
        assert_eq!((next.used(), next.number), (0, number + 1));
        window.period(number).unwrap().book(100, 70, true);
        let changed = window.take_changes();
        let over: Vec<_> =
            changed.iter().map(|over| (over.start_us, over.spent, over.reserved, over.estimated)).collect();
        assert_eq!(over, [(us("2026-11-27T00:00:00Z"), 70, 0, 70)]);
        assert!(window.period(number).is_none() && window.take_changes().is_empty());
    }

    #[test]
    fn a_reservation_that_was_told_and_given_back_is_told_again() {
        let mut window = BudgetWindow::new(Calendar::Day);
        assert!(!window.tell_again());
        for amount in [100, -100] {
            window.at(us("2026-11-27T12:00:00Z")).reserve(amount);
            assert_eq!(window.take_changes().len(), 1);
        }
        assert!(window.tell_again());
        let reported: Vec<_> = window.take_changes().iter().map(|period| (period.start_us, period.reserved)).collect();
        assert_eq!(reported, [(us("2026-11-27T00:00:00Z"), 0)]);
    }

    #[test]
    fn nobody_gets_a_budget_twice_by_a_clock_that_goes_back() {
        let mut window = BudgetWindow::new(Calendar::Day);
        window.at(us("2026-11-27T12:00:00Z")).book(0, 5, false);
        assert_eq!(window.at(us("2026-11-28T12:00:00Z")).spent, 0, "a day later");
        window.at(us("2026-11-28T12:00:00Z")).book(0, 7, false);
        assert_eq!(window.at(us("2026-11-27T12:00:01Z")).spent, 7, "a day back");
        assert_eq!(window.at(us("2026-11-01T12:00:00Z")).spent, 7, "many days back");
        assert_eq!(window.current().end_us, us("2026-11-02T00:00:00Z"));
        assert_eq!(window.at(us("2026-11-02T00:00:00Z")).spent, 0);
    }

    #[test]
    fn what_is_over_is_bounded_and_what_was_spent_before_a_start_comes_back() {
        let mut window = BudgetWindow::new(Calendar::Day);
        for day in 0..100 {
            window.at(day * 86_400_000_000).reserve(1);
        }
        assert_eq!(window.over.len(), OVER_MAX);
        let mut window = BudgetWindow::new(Calendar::Month);
        let now_us = us("2026-11-27T12:00:00Z");
        window.restore(us("2026-10-01T00:00:00Z"), 9, 9, now_us);
        window.restore(us("2026-11-01T00:00:00Z"), 3, 1, now_us);
        assert_eq!((window.current().spent, window.current().estimated), (3, 1));
    }
}
