//! Tests against a known truth: worlds with known times, observed only through races. `docs/records/accuracy.md` has their
//! results as tables.
//!
//! Not for speed: `examples/history` measures that.

use super::curve::{CurvePoint, curve, of_events_alone};
use super::survival::{AuditedLoser, Estimate, Observation, Survival, SurvivalPoint};
use crate::record::sample::quantile;

/// Name, true median in milliseconds, standard deviation of the logarithm. Times are log-normal.
const WORLD: [(&str, f64, f64); 5] =
    [("a", 300.0, 0.9), ("b", 330.0, 0.8), ("c", 370.0, 0.7), ("d", 420.0, 0.6), ("e", 480.0, 0.5)];
/// Enough races for a hundred in which all three are late; a 90th percentile needs that.
const RACES: usize = 300_000;
/// As many as a gateway may see on a day.
const DRAWN_RACES: usize = 5_000;
/// The standard normal distribution's quantile at 0.9.
const Z90: f64 = 1.281_551_6;

/// The estimates for one upstream.
struct UpstreamEstimate {
    name: &'static str,
    rows: usize,
    events: usize,
    /// Estimates of the median and the 90th percentile, in milliseconds.
    figures: [ToldEstimate; 2],
}

#[derive(Clone, Copy)]
struct ToldEstimate {
    truth: f64,
    winners: f64,
    /// Kaplan–Meier over all attempts, with audits as ordinary rows.
    unweighted: f64,
    estimated: f64,
}

#[test]
fn estimates_find_the_truth_where_winners_alone_do_not() {
    let seen = watch(5, 0.0, 0.0);
    let table = lines(&seen, |figure| vec![figure.truth, figure.winners, figure.estimated]);
    hold(&seen, &table, |figure| figure.winners, 8);
}

/// Slow moments are slow for all upstreams: the race contributes half of the variance of each time.
#[test]
fn audits_find_the_truth_where_slowness_is_shared() {
    let seen = watch(11, 0.5, 0.05);
    let table = lines(&seen, |figure| vec![figure.truth, figure.winners, figure.unweighted, figure.estimated]);
    // Without weights every 90th percentile is wrong.
    hold(&seen, &table, |figure| figure.unweighted, 5);
}

/// The curves of the dashboard, of a day's races: how far each is from the true share that waits, at most, as long as a hundred
/// attempts are watched.
#[test]
fn the_curve_finds_the_truth_where_first_tokens_alone_do_not() {
    let mut table = Vec::new();
    for ((name, median, spread), seen) in WORLD.into_iter().zip(raced(DRAWN_RACES, 5, 0.0, 0.0)) {
        let points: Vec<SurvivalPoint> = seen.iter().map(|seen| seen.points().0).collect();
        let events = seen.iter().filter(|seen| seen.event).count() as f64;
        let (drawn, alone) = (curve(points.clone(), events, 256), of_events_alone(&points, 64));
        let until_us = drawn.iter().filter(|point| point.at_risk >= 100.0).map(|point| point.time_us).max().unwrap();
        let truth = |us: i64| waiting(us as f64 / 1e3, median, spread);
        let furthest = |points: &[CurvePoint]| {
            let near = points.iter().filter(|point| point.time_us <= until_us);
            near.map(|point| (point.waiting - truth(point.time_us)).abs()).fold(0.0, f64::max)
        };
        let banded = drawn.iter().filter(|point| point.time_us <= until_us && point.events > 0.0);
        let covered: Vec<bool> = banded
            .filter_map(|point| point.band.map(|(low, high)| (low..=high).contains(&truth(point.time_us))))
            .collect();
        let share = covered.iter().filter(|covered| **covered).count() as f64 / covered.len() as f64;
        let (estimated, winners) = (furthest(&drawn), furthest(&alone));
        table.push(format!(
            "| {name} | {} | {events:.0} | {:.0} ms | {:.1} | {:.1} | {:.0} % |",
            points.len(),
            until_us as f64 / 1e3,
            estimated * 100.0,
            winners * 100.0,
            share * 100.0
        ));
        assert!(estimated < 0.06 && winners > 0.3 && share > 0.75, "{}", table.join("\n"));
    }
    let document = include_str!("../../../../docs/records/accuracy.md");
    assert!(table.iter().all(|line| document.contains(line)), "docs/records/accuracy.md lacks\n{}", table.join("\n"));
}

/// The true share that still waits after these milliseconds: log-normal.
fn waiting(ms: f64, median: f64, spread: f64) -> f64 {
    // Abramowitz and Stegun 7.1.26, exact to 1.5e-7.
    let z = (ms / median).ln() / spread / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * z.abs());
    let poly =
        t * (0.254_829_592 + t * (-0.284_496_736 + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    let tail = poly * (-z * z).exp() / 2.0;
    if z > 0.0 { tail } else { 1.0 - tail }
}

/// Checks that every estimate is close, that at least `least` of the `other` estimates are far off, and that the
/// documentation has the same numbers.
fn hold(seen: &[UpstreamEstimate], table: &[String], other: fn(&ToldEstimate) -> f64, least: usize) {
    let mut misled = 0;
    for upstream in seen.iter().filter(|upstream| upstream.events >= 100) {
        for figure in &upstream.figures {
            let off = (figure.estimated / figure.truth - 1.0).abs();
            assert!(off <= 0.05, "{}: {} for {}\n{}", upstream.name, figure.estimated, figure.truth, table.join("\n"));
            misled += usize::from((other(figure) / figure.truth - 1.0).abs() >= 0.40);
        }
    }
    assert!(misled >= least, "the world is too easy: only {misled} are far off\n{}", table.join("\n"));
    let document = include_str!("../../../../docs/records/accuracy.md");
    for line in table {
        assert!(document.contains(line), "docs/records/accuracy.md lacks\n{}", table.join("\n"));
    }
}

/// Runs the races, three of the five upstreams at a time. An attempt that does not win is cut when the winner's first
/// token comes, or observed to its end with probability `audit`. `shared`: the part of the variance that all attempts
/// of a race have in common.
fn raced(races: usize, seed: u64, shared: f64, audit: f64) -> [Vec<Observation>; 5] {
    let mut draws = fastrand::Rng::with_seed(seed);
    let mut all: [Vec<Observation>; 5] = Default::default();
    for _ in 0..races {
        let mut field = [0, 1, 2, 3, 4];
        draws.shuffle(&mut field);
        let [a, b, c, ..] = field;
        let in_common = if shared > 0.0 { shared.sqrt() * normal(&mut draws) } else { 0.0 };
        let own = (1.0 - shared).sqrt();
        let times = [a, b, c].map(|i| {
            let deviation = in_common + own * normal(&mut draws);
            (i, (WORLD[i].1 * 1e3 * (WORLD[i].2 * deviation).exp()) as i64)
        });
        let first = times.iter().map(|(_, time)| *time).min().unwrap();
        for (i, time) in times {
            let audited = time > first && audit > 0.0 && draws.f64() < audit;
            all[i].push(match (time == first, audited) {
                (true, _) => Observation { time_us: time, event: true, audit: None },
                (_, true) => {
                    let audit = Some(AuditedLoser { lost_us: first, probability: audit });
                    Observation { time_us: time, event: true, audit }
                }
                _ => Observation { time_us: first, event: false, audit: None },
            });
        }
    }
    all
}

fn watch(seed: u64, shared: f64, audit: f64) -> Vec<UpstreamEstimate> {
    raced(RACES, seed, shared, audit)
        .into_iter()
        .zip(WORLD)
        .map(|(observations, (name, median, spread))| see(name, median, spread, &observations))
        .collect()
}

fn see(name: &'static str, median: f64, spread: f64, observations: &[Observation]) -> UpstreamEstimate {
    let winners = observations.iter().filter(|seen| seen.event && seen.audit.is_none());
    let mut won: Vec<f64> = winners.map(|seen| seen.time_us as f64 / 1e3).collect();
    let weighted = observations.iter().map(|seen| seen.points());
    let weighted = Survival::new(weighted.flat_map(|(end, entry)| [Some(end), entry]).flatten().collect());
    let ordinary = observations.iter().map(|seen| Observation { audit: None, ..*seen }.points().0);
    let unweighted = Survival::new(ordinary.collect());
    let figure = |survival: &Survival, p| match survival.quantile(p) {
        Some(Estimate::Reached(us)) => us as f64 / 1e3,
        _ => f64::INFINITY,
    };
    let figures = [(0.5, median), (0.9, median * (spread * Z90).exp())].map(|(p, truth)| ToldEstimate {
        truth,
        winners: quantile(&mut won, p).unwrap(),
        unweighted: figure(&unweighted, p),
        estimated: figure(&weighted, p),
    });
    let events = observations.iter().filter(|seen| seen.event).count();
    UpstreamEstimate { name, rows: observations.len(), events, figures }
}

/// The table of the documentation: the truth of each quantile, then each estimate with its error.
fn lines(seen: &[UpstreamEstimate], columns: fn(&ToldEstimate) -> Vec<f64>) -> Vec<String> {
    let line = |seen: &UpstreamEstimate, p: usize| {
        let figure = &seen.figures[p];
        let percent = |value: f64| format!("{:+.1} %", (value / figure.truth - 1.0) * 100.0).replace('-', "−");
        let cells = columns(figure).into_iter().skip(1).map(|value| format!("{value:.0} ({})", percent(value)));
        let cells: Vec<String> = cells.collect();
        let (name, quantile) = (seen.name, ["p50", "p90"][p]);
        format!(
            "| {name} | {quantile} | {} | {} | {:.0} | {} |",
            seen.rows,
            seen.events,
            figure.truth,
            cells.join(" | ")
        )
    };
    seen.iter().flat_map(|seen| [line(seen, 0), line(seen, 1)]).collect()
}

/// One draw of the standard normal distribution (Box and Muller).
fn normal(draws: &mut fastrand::Rng) -> f64 {
    (-2.0 * (1.0 - draws.f64()).ln()).sqrt() * (std::f64::consts::TAU * draws.f64()).cos()
}
