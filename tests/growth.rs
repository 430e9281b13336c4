//! Checks that the cost of every reader, writer and assembler is linear in its input, not quadratic: each gets n, 2n
//! and 4n of every structure that a provider, a client or an operator can repeat.
//!
//! To add a structure, add a line to the list of its wire format in `growth/streams.rs` or `growth/requests.rs`: a
//! name, the largest number, and a function that writes an input with that number. To add a reader, call it from a
//! target of `fuzz/src/targets.rs`.
//!
//! It measures the processor time of this thread, so other load does not count. From n to 4n, linear cost grows by a
//! factor of 4, quadratic cost by 16. A factor above [`LIMIT`] is measured again. The minimum times of all rounds
//! count, so a test fails only if the factor stays above the limit.

#![expect(clippy::unwrap_used, reason = "a test's helper fails by panicking")]

#[path = "growth/requests.rs"]
mod requests;
#[path = "growth/streams.rs"]
mod streams;
#[expect(dead_code, reason = "the list of targets is for the fuzzers")]
#[path = "../fuzz/src/targets.rs"]
mod targets;

use std::time::Duration;

use cpu_time::ThreadTime;

/// Maximum factor between the times of n and 4n.
const LIMIT: f64 = 8.0;
/// Rounds before a structure fails.
const ROUNDS: usize = 8;
/// The minimum time for n: below it the clock and the caches dominate.
const ENOUGH: Duration = Duration::from_millis(2);
/// The first n.
const FIRST: usize = 64;

/// A structure that repeats.
pub struct Case {
    pub name: &'static str,
    /// The largest 4n. A larger input would reach a bound of the reader, which ends the growth and hides the cost below
    /// the bound.
    pub most: usize,
    /// An input with this many repetitions.
    pub input: fn(usize) -> String,
}

pub const fn case(name: &'static str, most: usize, input: fn(usize) -> String) -> Case {
    Case { name, most, input }
}

#[test]
fn streams_of_every_dialect_cost_no_more_than_their_length() {
    none(streams::slow());
}

#[test]
fn requests_of_every_surface_cost_no_more_than_their_length() {
    none(requests::slow());
}

#[test]
fn the_probe_tells_linear_from_quadratic() {
    let linear = |n: usize| {
        (0..n * 500).for_each(|i| {
            std::hint::black_box(i);
        })
    };
    let quadratic = |n: usize| {
        (0..n * n / 4).for_each(|i| {
            std::hint::black_box(i);
        })
    };
    assert_eq!(grows(1 << 30, &linear), None);
    let ratio = grows(1 << 30, &quadratic).unwrap();
    assert!(ratio > LIMIT, "{ratio}");
}

fn none(slow: Vec<String>) {
    assert!(slow.is_empty(), "these cost more than their length:\n{}", slow.join("\n"));
}

/// Measures one structure with one reader. Returns a message if the time grows too fast.
pub fn probe(case: &Case, way: &str, run: &dyn Fn(&[u8])) -> Option<String> {
    let prepared = |n: usize| (case.input)(n).into_bytes();
    let ratio = grows_of(case.most, &|n| time_of(&prepared(n), run))?;
    Some(format!("{} by {way}: {ratio:.1} times the time for four times as much", case.name))
}

fn time_of(input: &[u8], run: &dyn Fn(&[u8])) -> Duration {
    let start = ThreadTime::now();
    run(input);
    start.elapsed()
}

fn grows(most: usize, work: &dyn Fn(usize)) -> Option<f64> {
    grows_of(most, &|n| {
        let start = ThreadTime::now();
        work(n);
        start.elapsed()
    })
}

/// The time of 4n divided by that of n, if above the limit.
fn grows_of(most: usize, time: &dyn Fn(usize) -> Duration) -> Option<f64> {
    let mut n = FIRST.min(most / 4);
    while time(n) < ENOUGH && n * 8 <= most {
        n *= 2;
    }
    let mut least = [Duration::MAX; 3];
    let mut ratio = f64::MAX;
    for _ in 0..ROUNDS {
        for (least, n) in least.iter_mut().zip([n, 2 * n, 4 * n]) {
            *least = (*least).min(time(n));
        }
        // A bound may end the growth in either half, so both are checked.
        let [one, two, four] = least.map(|time| time.as_secs_f64().max(1e-9));
        ratio = (four / one).max((four / two).powi(2));
        if four / one <= LIMIT && (four / two).powi(2) <= LIMIT * 1.5 {
            return None;
        }
    }
    Some(ratio)
}
