//! The figures of many requests for clients and payers, and their intervals. Not for drawing them.

/// Of streamed requests to the first token, of all to the end of the answer, in microseconds; money or tokens, all
/// together; attempts for each request; the share that nobody answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayFigure {
    TtftP50,
    TtftP95,
    TtftP99,
    WholeP50,
    WholeP95,
    Cost,
    Attempts,
    Unanswered,
}

/// Every one, in the order of a table.
pub const FIGURES: [ReplayFigure; 8] = [
    ReplayFigure::TtftP50,
    ReplayFigure::TtftP95,
    ReplayFigure::TtftP99,
    ReplayFigure::WholeP50,
    ReplayFigure::WholeP95,
    ReplayFigure::Cost,
    ReplayFigure::Attempts,
    ReplayFigure::Unanswered,
];

/// In the order of [`FIGURES`]; NaN where there is nothing to tell it from.
pub type ReplayFigures = [f64; FIGURES.len()];

/// Where a figure lies with a probability of 90 %, as far as draws and the choice of hours go.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

/// A request as it went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PlayedRequest {
    /// The stretch of time that it is resampled with.
    pub block: usize,
    pub ttft_us: Option<i64>,
    pub took_us: Option<i64>,
    pub answered: bool,
    pub cost: f64,
    pub attempts: f64,
}

/// Many of them, ready to be weighed.
#[derive(Debug)]
pub(super) struct PlayedRequests {
    /// Sorted, each with its block.
    ttft: Vec<(i64, u32)>,
    took: Vec<(i64, u32)>,
    blocks: Vec<HourBlock>,
}

#[derive(Clone, Copy, Debug, Default)]
struct HourBlock {
    requests: f64,
    unanswered: f64,
    cost: f64,
    attempts: f64,
}

impl ReplayFigure {
    /// The name in JSON, with its unit.
    pub fn name(self) -> &'static str {
        match self {
            ReplayFigure::TtftP50 => "ttft_p50_ms",
            ReplayFigure::TtftP95 => "ttft_p95_ms",
            ReplayFigure::TtftP99 => "ttft_p99_ms",
            ReplayFigure::WholeP50 => "whole_p50_ms",
            ReplayFigure::WholeP95 => "whole_p95_ms",
            ReplayFigure::Cost => "cost",
            ReplayFigure::Attempts => "attempts_per_request",
            ReplayFigure::Unanswered => "unanswered",
        }
    }

    /// The share of requests that a quantile leaves out, at its far end.
    pub fn beyond(self) -> Option<f64> {
        match self {
            ReplayFigure::TtftP50 | ReplayFigure::WholeP50 => Some(0.5),
            ReplayFigure::TtftP95 | ReplayFigure::WholeP95 => Some(0.05),
            ReplayFigure::TtftP99 => Some(0.01),
            ReplayFigure::Cost | ReplayFigure::Attempts | ReplayFigure::Unanswered => None,
        }
    }

    /// Whether a difference of it is told as a share of what was.
    pub fn is_relative(self) -> bool {
        !matches!(self, ReplayFigure::Attempts | ReplayFigure::Unanswered)
    }

    /// From what was to what would be.
    pub fn change(self, was: f64, would_be: f64) -> f64 {
        if self.is_relative() { would_be / was - 1.0 } else { would_be - was }
    }
}

impl Interval {
    /// Of values drawn again and again; those that are none left out.
    pub(super) fn of(values: impl Iterator<Item = f64>) -> Interval {
        let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        values.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| values.get((share * values.len() as f64) as usize).copied().unwrap_or(f64::NAN);
        Interval { low: at(0.05), high: at(0.95) }
    }
}

impl PlayedRequests {
    pub(super) fn new(all: impl Iterator<Item = PlayedRequest>, blocks: usize) -> PlayedRequests {
        let mut played =
            PlayedRequests { ttft: Vec::new(), took: Vec::new(), blocks: vec![HourBlock::default(); blocks] };
        for went in all {
            let (block, number) = (&mut played.blocks[went.block], went.block as u32);
            block.requests += 1.0;
            block.unanswered += f64::from(u8::from(!went.answered));
            block.cost += went.cost;
            block.attempts += went.attempts;
            played.ttft.extend(went.ttft_us.map(|ttft_us| (ttft_us, number)));
            played.took.extend(went.took_us.map(|took_us| (took_us, number)));
        }
        played.ttft.sort_unstable();
        played.took.sort_unstable();
        played
    }

    /// With each block counted so often.
    pub(super) fn figures(&self, times: &[f64]) -> ReplayFigures {
        let sum = |of: fn(&HourBlock) -> f64| {
            self.blocks.iter().zip(times).map(|(block, times)| of(block) * times).sum::<f64>()
        };
        let requests = sum(|block| block.requests);
        let all: f64 = self.blocks.iter().map(|block| block.requests).sum();
        let [ttft_p50, ttft_p95, ttft_p99] = quantiles(&self.ttft, times, [0.5, 0.95, 0.99]);
        let [took_p50, took_p95] = quantiles(&self.took, times, [0.5, 0.95]);
        // By the request, so that a resample with more requests does not look dearer.
        let cost = sum(|block| block.cost) / requests * all;
        let attempts = sum(|block| block.attempts) / requests;
        [ttft_p50, ttft_p95, ttft_p99, took_p50, took_p95, cost, attempts, sum(|block| block.unanswered) / requests]
    }
}

/// The least value that at least the share lies at or below.
fn quantiles<const N: usize>(sorted: &[(i64, u32)], times: &[f64], shares: [f64; N]) -> [f64; N] {
    let weight = |block: u32| times.get(block as usize).copied().unwrap_or(0.0);
    let whole: f64 = sorted.iter().map(|(_, block)| weight(*block)).sum();
    let (mut found, mut sum, mut next) = ([f64::NAN; N], 0.0, 0);
    for (value, block) in sorted {
        sum += weight(*block);
        while next < N && sum > 0.0 && sum >= shares[next] * whole - 1e-9 {
            found[next] = *value as f64;
            next += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn went(block: usize, ttft_us: i64) -> PlayedRequest {
        let took_us = Some(2 * ttft_us);
        PlayedRequest { block, ttft_us: Some(ttft_us), took_us, answered: true, cost: 1.0, attempts: 2.0 }
    }

    #[test]
    fn figures_by_the_weight_of_blocks() {
        let unanswered = PlayedRequest { ttft_us: None, took_us: None, answered: false, ..went(1, 0) };
        let all = (1..=100).map(|n| went(usize::from(n > 50), n)).chain([unanswered]);
        let played = PlayedRequests::new(all, 2);
        let figures = played.figures(&[1.0, 1.0]);
        assert_eq!(figures[..7], [50.0, 95.0, 99.0, 100.0, 190.0, 101.0, 2.0]);
        assert!((figures[7] - 1.0 / 101.0).abs() < 1e-12);
        assert_eq!(played.figures(&[1.0, 0.0])[..3], [25.0, 48.0, 50.0]);
        assert_eq!(played.figures(&[0.0, 3.0])[0], 75.0);
        let nothing = PlayedRequests::new(std::iter::empty(), 1).figures(&[1.0]);
        assert!(nothing.iter().all(|figure| figure.is_nan()), "{nothing:?}");
    }

    #[test]
    fn changes_and_intervals() {
        assert_eq!(ReplayFigure::TtftP50.change(200.0, 150.0), -0.25);
        assert_eq!(ReplayFigure::Attempts.change(3.0, 1.0), -2.0);
        let interval = Interval::of((0..100).map(f64::from).chain([f64::NAN]));
        assert_eq!((interval.low, interval.high), (5.0, 95.0));
    }
}
