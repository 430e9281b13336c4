//! Sums of the last few periods of a clock, such as the requests of ten seconds. Not for means that decay.

/// `KINDS` sums over the last `PERIODS` periods, the present one among them.
#[derive(Clone, Debug)]
pub struct RecentSums<const PERIODS: usize, const KINDS: usize> {
    /// Length of a period, µs.
    period_us: i64,
    /// The number of each period since 1970, and its sums.
    periods: [(i64, [f64; KINDS]); PERIODS],
}

impl<const PERIODS: usize, const KINDS: usize> RecentSums<PERIODS, KINDS> {
    pub fn new(period_us: i64) -> RecentSums<PERIODS, KINDS> {
        RecentSums { period_us, periods: [(i64::MIN, [0.0; KINDS]); PERIODS] }
    }

    pub fn add(&mut self, now_us: i64, amounts: [f64; KINDS]) {
        let number = now_us.div_euclid(self.period_us);
        let Some(period) = self.periods.get_mut(number.rem_euclid(PERIODS as i64) as usize) else { return };
        // What is older than a period of this place is of no use.
        if period.0 > number {
            return;
        }
        if period.0 < number {
            *period = (number, [0.0; KINDS]);
        }
        period.1.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum += amount);
    }

    pub fn sums(&self, now_us: i64) -> [f64; KINDS] {
        let number = now_us.div_euclid(self.period_us);
        let mut sums = [0.0; KINDS];
        for (_, of_period) in
            self.periods.iter().filter(|(of, _)| (0..PERIODS as i64).contains(&number.saturating_sub(*of)))
        {
            sums.iter_mut().zip(of_period).for_each(|(sum, amount)| *sum += amount);
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_is_left_out_and_a_clock_that_jumps_keeps_it_bounded() {
        let mut sums = RecentSums::<3, 1>::new(10);
        sums.add(5, [1.0]);
        sums.add(15, [2.0]);
        sums.add(29, [4.0]);
        assert_eq!((sums.sums(29), sums.sums(30), sums.sums(49), sums.sums(60)), ([7.0], [6.0], [4.0], [0.0]));
        sums.add(1_000, [8.0]);
        sums.add(10, [16.0]);
        assert_eq!((sums.sums(1_000), sums.sums(10)), ([8.0], [1.0]), "what comes too late has no place");
        assert_eq!(sums.sums(i64::MIN), [0.0]);
    }
}
