//! The whole estimated distribution of a censored time, for a drawing: the curve of Kaplan and Meier with its band.
//!
//! Not for quantiles: see `survival`.

use super::survival::SurvivalPoint;

/// Two-sided 95 % of the normal distribution.
const Z: f64 = 1.96;

/// The curve falls at this time, or is followed no further.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// Microseconds.
    pub time_us: i64,
    /// The share that still waits after this time.
    pub waiting: f64,
    /// The band around it: 95 %, by Greenwood's variance of the log-log share. None without variance.
    pub band: Option<(f64, f64)>,
    /// Weight under observation just before this time.
    pub at_risk: f64,
    /// Weight of the events since the point before.
    pub events: f64,
    /// Weight that was cut off since the point before.
    pub cut: f64,
}

/// At most `max` points, the last at the longest observation. `effective`: the number of events of equal weight with the same
/// information; it widens the band if audited losers weigh more than one.
pub fn curve(mut points: Vec<SurvivalPoint>, effective: f64, max: usize) -> Vec<CurvePoint> {
    points.sort_unstable_by_key(|point| point.time_us);
    let mut at_risk: f64 = points.iter().map(SurvivalPoint::watched).sum();
    let weight: f64 = points.iter().map(|point| point.events).sum();
    let design = if effective > 0.0 { (weight / effective).max(1.0) } else { 1.0 };
    let (mut waiting, mut variance, mut cut, mut steps) = (1.0_f64, 0.0_f64, 0.0_f64, Vec::new());
    for group in points.chunk_by(|a, b| a.time_us == b.time_us) {
        let sum = |part: fn(&SurvivalPoint) -> f64| group.iter().map(part).sum::<f64>();
        let (before, events, after) = (sum(|p| p.leave_before), sum(|p| p.events), sum(|p| p.leave_after));
        at_risk -= before;
        cut += before;
        if events > 0.0 {
            let watched = at_risk.max(events);
            waiting *= (1.0 - events / watched).max(0.0);
            variance += design * events / (watched * (watched - events));
            steps.push(CurvePoint {
                time_us: group[0].time_us,
                waiting,
                band: band(waiting, variance),
                at_risk: watched,
                events,
                cut: cut.max(0.0),
            });
            cut = 0.0;
        }
        at_risk -= events + after;
        cut += after;
    }
    if let Some(last) = points.last()
        && steps.last().is_none_or(|step: &CurvePoint| step.time_us < last.time_us || cut > 1e-9)
    {
        let (time_us, band) = (last.time_us, band(waiting, variance));
        steps.push(CurvePoint { time_us, waiting, band, at_risk: cut.max(0.0), events: 0.0, cut: cut.max(0.0) });
    }
    thinned(steps, max)
}

/// The curve of the events alone, as if nothing had been cut off: the estimate from winners alone.
pub fn of_events_alone(points: &[SurvivalPoint], max: usize) -> Vec<CurvePoint> {
    let event = |point: &SurvivalPoint| SurvivalPoint { leave_before: 0.0, leave_after: 0.0, ..*point };
    let events: Vec<SurvivalPoint> = points.iter().filter(|point| point.events > 0.0).map(event).collect();
    let count = events.len() as f64;
    curve(events, count, max)
}

/// Of many points those where the curve has fallen furthest since the one before, so that no step is larger than needed.
fn thinned(steps: Vec<CurvePoint>, max: usize) -> Vec<CurvePoint> {
    let Some(last) = steps.len().checked_sub(1).filter(|_| steps.len() > max) else { return steps };
    let lowest = steps[last].waiting;
    let level = |waiting: f64| ((1.0 - waiting) / (1.0 - lowest).max(f64::MIN_POSITIVE) * (max - 2) as f64) as usize;
    let (mut kept, mut events, mut cut, mut reached) = (Vec::with_capacity(max), 0.0, 0.0, 0);
    for (place, step) in steps.into_iter().enumerate() {
        (events, cut) = (events + step.events, cut + step.cut);
        if place == last || (level(step.waiting) > reached && kept.len() + 1 < max) {
            reached = level(step.waiting);
            kept.push(CurvePoint { events, cut, ..step });
            (events, cut) = (0.0, 0.0);
        }
    }
    kept
}

fn band(waiting: f64, variance: f64) -> Option<(f64, f64)> {
    let log = waiting.ln();
    let half = Z * variance.sqrt() / log.abs();
    let bounds = (waiting.powf(half.exp()), waiting.powf((-half).exp()));
    (half.is_finite() && half > 0.0).then_some(bounds)
}

#[cfg(test)]
mod tests {
    use super::super::survival::{AuditedLoser, Estimate, Observation, Survival};
    use super::*;

    fn points(times: &[(i64, bool)]) -> Vec<SurvivalPoint> {
        times.iter().map(|&(time_us, event)| Observation { time_us, event, audit: None }.points().0).collect()
    }

    #[test]
    fn hand_computed_with_its_band() {
        // As in `survival`: at risk 6, 5, 3, 2; 4 and 7 are cut off.
        let points = points(&[(4, false), (1, true), (6, true), (3, true), (5, true), (7, false)]);
        let curve = curve(points, 4.0, 256);
        let found: Vec<(i64, f64, f64)> = curve.iter().map(|point| (point.time_us, point.at_risk, point.cut)).collect();
        assert_eq!(found, [(1, 6.0, 0.0), (3, 5.0, 0.0), (5, 3.0, 1.0), (6, 2.0, 0.0), (7, 1.0, 1.0)]);
        let expected = [5.0 / 6.0, 4.0 / 6.0, 4.0 / 9.0, 2.0 / 9.0, 2.0 / 9.0];
        assert!(curve.iter().zip(expected).all(|(point, waiting)| (point.waiting - waiting).abs() < 1e-12));
        // Greenwood at 5: 1/30 + 1/20 + 1/6 = 0.25, so 1.96 · 0.5 / |ln 4/9| = 1.2085.
        let (low, high) = curve[2].band.unwrap();
        assert!((low - (4.0_f64 / 9.0).powf(1.2085_f64.exp())).abs() < 1e-4, "{low}");
        assert!((high - (4.0_f64 / 9.0).powf((-1.2085_f64).exp())).abs() < 1e-4, "{high}");
    }

    #[test]
    fn it_is_the_estimate_of_the_quantiles_thinned_or_not() {
        let mut random = fastrand::Rng::with_seed(7);
        let audited = |n: i64| Some(AuditedLoser { lost_us: n / 2, probability: 0.25 });
        let observed = (0..5_000).flat_map(|_| {
            let time_us = random.i64(1_000..400_000);
            let audit = audited(time_us).filter(|_| random.f64() < 0.05);
            let (end, entry) = Observation { time_us, event: random.f64() < 0.6, audit }.points();
            [Some(end), entry].into_iter().flatten()
        });
        let points: Vec<SurvivalPoint> = observed.collect();
        let survival = Survival::new(points.clone());
        let thin = curve(points.clone(), 1_000.0, 256);
        assert!(thin.len() <= 256 && thin.len() > 200, "{}", thin.len());
        for point in thin.iter().filter(|point| point.events > 0.0) {
            let quantile = survival.quantile(1.0 - point.waiting);
            assert_eq!(quantile, Some(Estimate::Reached(point.time_us)), "{point:?}");
        }
        let whole = curve(points, 1_000.0, usize::MAX);
        for part in [|point: &CurvePoint| point.events, |point: &CurvePoint| point.cut] {
            let (thin, whole): (f64, f64) = (thin.iter().map(part).sum(), whole.iter().map(part).sum());
            assert!((thin - whole).abs() < 1e-6 * whole, "{thin} {whole}");
        }
        assert!(
            thin.windows(2).all(|pair| pair[0].waiting - pair[1].waiting < 0.02 && pair[0].time_us < pair[1].time_us)
        );
    }

    #[test]
    fn nothing_one_and_only_cut_off() {
        assert!(curve(Vec::new(), 0.0, 256).is_empty());
        let one = curve(points(&[(5, true)]), 1.0, 256);
        assert_eq!((one.len(), one[0].waiting, one[0].band), (1, 0.0, None));
        let cut = curve(points(&[(5, false), (8, false)]), 0.0, 256);
        assert_eq!((cut.len(), cut[0].time_us, cut[0].waiting, cut[0].cut), (1, 8, 1.0, 2.0));
    }

    #[test]
    fn winners_alone_look_faster() {
        let points = points(&[(1, true), (2, false), (2, false), (2, false), (9, true)]);
        let alone = of_events_alone(&points, 64);
        assert_eq!(alone.iter().map(|point| (point.time_us, point.waiting)).collect::<Vec<_>>(), [(1, 0.5), (9, 0.0)]);
        assert!(curve(points, 2.0, 64)[0].waiting > 0.7);
    }
}
