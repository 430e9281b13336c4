//! How much later first tokens come now: a quantile of the Kaplan–Meier curves of both sides.
//!
//! It gives the size of a difference. Not for deciding whether there is a difference: the log-rank test does that.
//! Strata are pooled, and those of `before` are weighted to the current sizes; otherwise more large inputs would look
//! like a slower upstream.

use super::log_rank::{EventTime, WatchedSide, moments};
use super::strata::RegressionStratum;

/// A curve ends where fewer equal weights are at risk: a single attempt would move it too far.
const AT_RISK_MIN: f64 = 10.0;
/// Below this share, a few early events decide the result.
const SHARE_MIN: f64 = 0.1;
/// Sums and products of many factors differ from round shares by a few units in the last place.
const ROUNDING: f64 = 1e-9;

/// One quantile of TTFT, estimated by Kaplan–Meier on both sides. `before` is weighted to the current strata.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// The share of the quantile, 0 to 1.
    pub share: f64,
    /// Microseconds.
    pub before_us: i64,
    /// Microseconds.
    pub now_us: i64,
}

impl Shift {
    /// The quantile now divided by the one before.
    pub fn ratio(&self) -> f64 {
        self.now_us as f64 / self.before_us.max(1) as f64
    }
}

/// The shifts of the median and of the 90th percentile, as far as both sides reach them. If they do not reach the
/// median, the largest percentile that they do reach replaces it, unless that is small.
pub fn shifts(strata: &[RegressionStratum<'_>]) -> Vec<Shift> {
    let sizes = strata.iter().map(|stratum| (stratum, stratum.before.watched(), stratum.now.watched()));
    let shared = sizes.filter(|(_, before, now)| *before > 0.0 && *now > 0.0);
    let moments = moments(shared.map(|(stratum, before, now)| (stratum, now / before)));
    let before = curve(&moments, |moment| &moment.before);
    let now = curve(&moments, |moment| &moment.now);
    let end = |curve: &[(i64, f64)]| curve.last().map_or(0.0, |step| step.1);
    let reached = ((end(&before).min(end(&now)) + ROUNDING) * 100.0).floor() / 100.0;
    let at = |share: f64| {
        let quantile =
            |curve: &[(i64, f64)]| Some(curve.get(curve.partition_point(|step| step.1 < share - ROUNDING))?.0);
        Some(Shift { share, before_us: quantile(&before)?, now_us: quantile(&now)? })
    };
    let shares = [reached.min(0.5), 0.9];
    shares.into_iter().filter(|share| *share >= SHARE_MIN).filter_map(at).collect()
}

/// The share that has ended after each time.
fn curve(moments: &[EventTime], side: fn(&EventTime) -> &WatchedSide) -> Vec<(i64, f64)> {
    let mut surviving = 1.0;
    let firm = moments.iter().map(|moment| (moment.time_us, side(moment)));
    firm.take_while(|(_, watched)| watched.effective() >= AT_RISK_MIN)
        .filter(|(_, watched)| watched.events > 0.0)
        .map(|(time_us, watched)| {
            surviving *= 1.0 - watched.events / watched.at_risk;
            (time_us, 1.0 - surviving)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::survival::SurvivalPoint;
    use super::super::strata::Sample;
    use super::*;

    /// `count` first tokens, evenly spread from `from_us` to `until_us`; tokens after `cut_us` are not seen.
    fn even(count: i64, from_us: i64, until_us: i64, cut_us: i64) -> Vec<SurvivalPoint> {
        let times = (1..=count).map(|i| from_us + (until_us - from_us) * i / count);
        let point = |time_us: i64| match time_us <= cut_us {
            true => SurvivalPoint { time_us, events: 1.0, ..SurvivalPoint::default() },
            false => SurvivalPoint { time_us: cut_us, leave_after: 1.0, ..SurvivalPoint::default() },
        };
        times.map(point).collect()
    }

    fn stratum<'a>(before: &'a [SurvivalPoint], now: &'a [SurvivalPoint]) -> RegressionStratum<'a> {
        let sample = |points| Sample { ttft: points, ttft_squares: points, ..Sample::default() };
        RegressionStratum { before: sample(before), now: sample(now) }
    }

    #[test]
    fn before_is_weighted_to_the_strata_of_now() {
        let (small, small_now) = (even(400, 0, 1_000, 9_999), even(100, 0, 1_500, 9_999));
        let (large, large_now) = (even(100, 4_000, 8_000, 9_999), even(400, 6_000, 12_000, 99_999));
        let shift = shifts(&[stratum(&small, &small_now), stratum(&large, &large_now)])[0];
        assert_eq!(shift.share, 0.5);
        assert!((shift.ratio() - 1.5).abs() < 0.01, "{shift:?}");
        // The median of now: 250 of 500 have ended, all 100 small ones and 150 of the 400 large ones.
        assert!((shift.now_us - 8_250).abs() <= 15, "{shift:?}");
    }

    #[test]
    fn a_longer_tail_is_a_shift() {
        let before = even(200, 100, 300, 999);
        let now = [even(160, 100, 260, 999), even(40, 2_000, 3_000, 9_999)].concat();
        let tail = Shift { share: 0.9, before_us: 280, now_us: 2_500 };
        assert_eq!(shifts(&[stratum(&before, &now)]), [Shift { share: 0.5, before_us: 200, now_us: 200 }, tail]);
    }

    #[test]
    fn what_both_sides_reach_stands_for_the_median() {
        let before = even(200, 0, 1_000, 999);
        let reached = |cut_us: i64| shifts(&[stratum(&before, &even(200, 0, 2_000, cut_us))]);
        assert_eq!(reached(600), [Shift { share: 0.3, before_us: 300, now_us: 600 }]);
        assert_eq!(reached(100), [], "a twentieth");
        assert_eq!(reached(0), [], "nothing");
        let few = even(15, 0, 2_000, 9_999);
        assert!(shifts(&[stratum(&before, &few)])[0].share < 0.5, "the curve ends where ten are left");
    }
}
