//! A rate: a bucket that empties evenly. It may be filled beyond its brim, and takes back what was not used.
//!
//! Not for money: a budget that refills all the time is never reached.

use photofinish_config::Rate;

/// Parts of one unit: with the microseconds of a minute all of it is exact.
const PARTS: i128 = 60_000_000;

/// What was used of a rate, and has not drained yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    used: i128,
    at_us: i64,
    /// What drained while nothing was used, since [`Bucket::forget_idle`].
    idle: i128,
}

/// What is heard in time may all have been used just now; of what is heard later than this, some has drained. Microseconds.
const LATE_US: i128 = 1_000_000;

impl Bucket {
    /// Empty at this time.
    pub fn at(now_us: i64) -> Bucket {
        Bucket { at_us: now_us, ..Bucket::default() }
    }

    /// The time passes. A clock that goes back changes nothing.
    pub fn drain(&mut self, per_minute: u64, now_us: i64) {
        let passed = now_us.saturating_sub(self.at_us);
        if passed > 0 {
            let rest = self.used - i128::from(passed) * i128::from(per_minute);
            self.used = rest.max(0);
            self.idle = self.idle.saturating_sub(rest.min(0));
            self.at_us = now_us;
        }
    }

    /// Microseconds until `amount` fits; 0: now. More than the burst fits a bucket that is empty.
    pub fn wait_us(&self, rate: Rate, amount: u64) -> i64 {
        self.drains_within(rate, rate.burst - amount.min(rate.burst))
    }

    /// Microseconds until no more than this is used.
    pub fn drains_within(&self, rate: Rate, used: u64) -> i64 {
        let over = (self.used - parts(used)).max(0);
        let per_minute = i128::from(rate.per_minute.max(1));
        i64::try_from((over + per_minute - 1) / per_minute).unwrap_or(i64::MAX)
    }

    pub fn take(&mut self, amount: u64) {
        self.used += parts(amount);
    }

    /// What was taken elsewhere since [`Bucket::forget_idle`]: if that is long ago, what could drain meanwhile has.
    pub fn take_late(&mut self, per_minute: u64, amount: u64) {
        let drained = (self.idle - i128::from(per_minute) * LATE_US).clamp(0, parts(amount));
        self.idle -= drained;
        self.used += parts(amount) - drained;
    }

    pub fn forget_idle(&mut self) {
        self.idle = 0;
    }

    /// It holds at least this multiple of what another one holds.
    pub fn fill(&mut self, other: &Bucket, times: u32) {
        self.used = self.used.max(other.used * i128::from(times));
    }

    pub fn give_back(&mut self, amount: u64) {
        self.used = (self.used - parts(amount)).max(0);
    }

    /// What fits now.
    pub fn left(&self, rate: Rate) -> u64 {
        u64::try_from(self.room(rate).max(0) / PARTS).unwrap_or(u64::MAX)
    }

    /// What fits now, in parts of a unit; less than nothing if it is overdrawn.
    pub(super) fn room(&self, rate: Rate) -> i128 {
        parts(rate.burst) - self.used
    }
}

/// What is left of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLeft {
    pub per_minute: u64,
    pub burst: u64,
    pub left: u64,
    /// Microseconds until all of the burst is there again.
    pub reset_us: i64,
}

impl RateLeft {
    pub(super) fn of(rate: Rate, bucket: &Bucket) -> RateLeft {
        let Rate { per_minute, burst } = rate;
        RateLeft { per_minute, burst, left: bucket.left(rate), reset_us: bucket.drains_within(rate, 0) }
    }
}

fn parts(amount: u64) -> i128 {
    i128::from(amount) * PARTS
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    #[test]
    fn it_holds_the_burst_and_drains_evenly() {
        let rate = Rate { per_minute: 60, burst: 10 };
        let mut bucket = Bucket::default();
        bucket.drain(rate.per_minute, 5 * SECOND);
        (0..10).for_each(|_| {
            assert_eq!(bucket.wait_us(rate, 1), 0);
            bucket.take(1);
        });
        assert_eq!((bucket.left(rate), bucket.wait_us(rate, 1), bucket.wait_us(rate, 3)), (0, SECOND, 3 * SECOND));
        bucket.drain(rate.per_minute, 6 * SECOND - 1);
        assert_eq!(bucket.wait_us(rate, 1), 1);
        bucket.drain(rate.per_minute, 6 * SECOND);
        assert_eq!((bucket.wait_us(rate, 1), bucket.left(rate)), (0, 1));
        bucket.drain(rate.per_minute, SECOND);
        assert_eq!(bucket.left(rate), 1, "a clock that goes back");
        bucket.give_back(4);
        assert_eq!(bucket.left(rate), 5);
        bucket.give_back(400);
        assert_eq!(bucket.left(rate), 10, "never more than the burst");
    }

    #[test]
    fn more_than_the_burst_fits_an_empty_one_and_is_paid_off() {
        let rate = Rate { per_minute: 600, burst: 100 };
        let mut bucket = Bucket::default();
        assert_eq!(bucket.wait_us(rate, 1_000), 0);
        bucket.take(1_000);
        assert_eq!((bucket.left(rate), bucket.wait_us(rate, 1)), (0, 90 * SECOND + SECOND / 10));
        let tight = Rate { burst: 1, ..rate };
        assert_eq!(bucket.wait_us(tight, 1), 100 * SECOND, "a lower burst: what was used stays");
        assert_eq!(bucket.wait_us(Rate { burst: 2_000, ..rate }, 1_000), 0, "a larger one has room at once");
    }

    #[test]
    fn huge_numbers_do_not_overflow() {
        let rate = Rate { per_minute: 1_000_000_000_000, burst: 1_000_000_000_000 };
        let mut bucket = Bucket::default();
        (0..1_000).for_each(|_| bucket.take(u64::MAX / 2));
        bucket.drain(rate.per_minute, i64::MAX);
        assert!(bucket.wait_us(rate, 1) >= 0 && bucket.left(rate) <= rate.burst);
        assert!(Bucket::default().wait_us(Rate { per_minute: 0, burst: 0 }, 1) >= 0);
    }
}
