//! Tests against a known truth: worlds with known times, observed only through races. `docs/measurement.md` has their
//! results as tables.
//!
//! Not for speed: `examples/history` measures that.

use super::sample::quantile;
use super::survival::{AuditedLoser, Estimate, Observation, Survival};

/// Name, true median in milliseconds, standard deviation of the logarithm. Times are log-normal.
const WORLD: [(&str, f64, f64); 5] =
    [("a", 300.0, 0.9), ("b", 330.0, 0.8), ("c", 370.0, 0.7), ("d", 420.0, 0.6), ("e", 480.0, 0.5)];
/// Enough races for a hundred in which all three are late; a 90th percentile needs that.
const RACES: usize = 300_000;
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
    let document = include_str!("../../docs/measurement.md");
    for line in table {
        assert!(document.contains(line), "docs/measurement.md lacks\n{}", table.join("\n"));
    }
}

/// Runs the races, three of the five upstreams at a time. An attempt that does not win is cut when the winner's first
/// token comes, or observed to its end with probability `audit`. `shared`: the part of the variance that all attempts
/// of a race have in common.
fn watch(seed: u64, shared: f64, audit: f64) -> Vec<UpstreamEstimate> {
    let mut draws = fastrand::Rng::with_seed(seed);
    let mut all: [Vec<Observation>; 5] = Default::default();
    for _ in 0..RACES {
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
    all.into_iter()
        .zip(WORLD)
        .map(|(observations, (name, median, spread))| see(name, median, spread, &observations))
        .collect()
}

fn see(name: &'static str, median: f64, spread: f64, observations: &[Observation]) -> UpstreamEstimate {
    let winners = observations.iter().filter(|seen| seen.event && seen.audit.is_none());
    let mut won: Vec<f64> = winners.map(|seen| seen.time_us as f64 / 1e3).collect();
    let weighted = observations.iter().map(|seen| seen.points(1.0));
    let weighted = Survival::new(weighted.flat_map(|(end, entry)| [Some(end), entry]).flatten().collect());
    let ordinary = observations.iter().map(|seen| Observation { audit: None, ..*seen }.points(1.0).0);
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
