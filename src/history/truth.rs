//! The truth test: a world whose times are known, seen only as races show it. The table of `docs/measurement.md` is what
//! it finds.

use super::survival::{Estimate, Observation, Survival, quantile};

/// Name, true median in milliseconds, spread (of the logarithm). Times are independent and lognormal.
const WORLD: [(&str, f64, f64); 5] =
    [("a", 300.0, 0.9), ("b", 330.0, 0.8), ("c", 370.0, 0.7), ("d", 420.0, 0.6), ("e", 480.0, 0.5)];
/// So many that all three of a race are late, as a 90th percentile needs it, in a hundred or more.
const RACES: usize = 300_000;
/// The standard normal distribution's quantile at 0.9.
const Z90: f64 = 1.281_551_6;

/// What is estimated of one upstream.
struct Seen {
    name: &'static str,
    rows: usize,
    events: usize,
    /// For the median and the 90th percentile: the truth, winners alone, Kaplan–Meier; milliseconds.
    figures: [[f64; 3]; 2],
}

#[test]
fn estimates_find_the_truth_where_winners_alone_do_not() {
    let seen = watch();
    let table: Vec<String> = seen.iter().flat_map(|seen| [0, 1].map(|p| line(seen, p))).collect();
    let mut misled = 0;
    for upstream in seen.iter().filter(|upstream| upstream.events >= 100) {
        for [truth, winners, estimated] in upstream.figures {
            assert!(
                (estimated / truth - 1.0).abs() <= 0.05,
                "{}: {estimated} for {truth}\n{}",
                upstream.name,
                table.join("\n")
            );
            misled += usize::from((winners / truth - 1.0).abs() >= 0.40);
        }
    }
    assert!(misled >= 8, "the world is too easy: winners alone are far off {misled} times\n{}", table.join("\n"));
    let document = include_str!("../../docs/measurement.md");
    for line in table {
        assert!(document.contains(&line), "docs/measurement.md lacks\n{line}");
    }
}

/// Runs the races: three of the five at a time, and who has not won is cut when the winner's first token comes.
fn watch() -> Vec<Seen> {
    let mut draws = fastrand::Rng::with_seed(5);
    let mut all: [Vec<Observation>; 5] = Default::default();
    for _ in 0..RACES {
        let mut field = [0, 1, 2, 3, 4];
        draws.shuffle(&mut field);
        let [a, b, c, ..] = field;
        let times = [a, b, c].map(|i| (i, (WORLD[i].1 * 1e3 * (WORLD[i].2 * normal(&mut draws)).exp()) as i64));
        let first = times.iter().map(|(_, time)| *time).min().unwrap();
        for (i, time) in times {
            all[i].push(Observation { time_us: first, event: time == first, audit: None });
        }
    }
    all.into_iter()
        .zip(WORLD)
        .map(|(observations, (name, median, spread))| see(name, median, spread, observations))
        .collect()
}

fn see(name: &'static str, median: f64, spread: f64, observations: Vec<Observation>) -> Seen {
    let mut won: Vec<f64> =
        observations.iter().filter(|seen| seen.event).map(|seen| seen.time_us as f64 / 1e3).collect();
    let events = won.len();
    let rows = observations.len();
    let survival = Survival::new(observations.iter().map(|seen| seen.points(1.0).0).collect());
    let figures = [(0.5, median), (0.9, median * (spread * Z90).exp())].map(|(p, truth)| {
        let estimated = match survival.quantile(p) {
            Some(Estimate::Reached(us)) => us as f64 / 1e3,
            _ => f64::INFINITY,
        };
        [truth, quantile(&mut won, p).unwrap(), estimated]
    });
    Seen { name, rows, events, figures }
}

/// A line of the table in the documentation.
fn line(seen: &Seen, p: usize) -> String {
    let [truth, winners, estimated] = seen.figures[p];
    let percent = |value: f64| format!("{:+.1} %", (value / truth - 1.0) * 100.0).replace('-', "−");
    format!(
        "| {} | {} | {} | {} | {truth:.0} | {winners:.0} ({}) | {estimated:.0} ({}) |",
        seen.name,
        ["p50", "p90"][p],
        seen.rows,
        seen.events,
        percent(winners),
        percent(estimated),
    )
}

/// One draw of the standard normal distribution (Box and Muller).
fn normal(draws: &mut fastrand::Rng) -> f64 {
    (-2.0 * (1.0 - draws.f64()).ln()).sqrt() * (std::f64::consts::TAU * draws.f64()).cos()
}
