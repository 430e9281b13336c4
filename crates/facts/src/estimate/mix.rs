//! What an upstream would take for the requests that a model got, from a few of its times and the sizes of them all. Each time is
//! brought to every size by a line, so that few times give tighter bounds, and none has to be of the same size. Pure.

use super::interval::{RankedQuantile, quantile_ranks};

/// Tokens that double the size's part, as in routing.
const TOKENS: f64 = 2_000.0;
/// The slope of ln time by size before any time was seen, and how much it weighs, as a sum of squares.
const SLOPE: (f64, f64) = (0.35, 1.0);
const SLOPE_MOST: f64 = 1.3;
/// A time further from the line than this number of deviations counts as one that far, for the line alone.
const CLAMP: f64 = 2.5;
/// Times that the sizes make of one, at most: unseen stragglers are not in the spread of the seen.
const WORTH_MOST: f64 = 3.0;
/// Sizes that represent all, and pairs of a time and a size that are sorted.
const SIZES: (usize, usize) = (10, 100);
const PAIRS: usize = 50_000;

/// One time of an upstream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizedTime {
    pub us: f64,
    /// Of the prompt.
    pub tokens: f64,
    /// The number of requests that it represents.
    pub weight: f64,
}

/// The sizes of the requests, ready to be asked.
#[derive(Clone, Debug, Default)]
pub struct SizeMix {
    /// By size, with the number of requests that each represents.
    sorted: Vec<(f64, f64)>,
}

impl SizeMix {
    /// Of requests: tokens of the prompt, and the number that it represents.
    pub fn new(requests: impl Iterator<Item = (f64, f64)>) -> SizeMix {
        let mut sorted: Vec<(f64, f64)> = requests.map(|(tokens, weight)| (size(tokens), weight)).collect();
        sorted.sort_by(|one, other| one.0.total_cmp(&other.0));
        SizeMix { sorted }
    }

    /// Sizes that represent all: fewer, the more `times` there are.
    fn points(&self, times: usize) -> Vec<f64> {
        let count = (PAIRS / times.max(1)).clamp(SIZES.0, SIZES.1);
        let all: f64 = self.sorted.iter().map(|(_, weight)| weight).sum();
        let (mut points, mut sum) = (Vec::with_capacity(count), 0.0);
        for (size, weight) in &self.sorted {
            sum += weight;
            while points.len() < count && sum * count as f64 >= (points.len() as f64 + 0.5) * all {
                points.push(*size);
            }
        }
        points
    }
}

fn size(tokens: f64) -> f64 {
    (tokens.max(0.0) / TOKENS).ln_1p()
}

/// The slopes of ln time by size: one for each upstream, drawn to the one of them all.
pub fn slopes(upstreams: &[Vec<SizedTime>]) -> Vec<f64> {
    let sums: Vec<(f64, f64)> = upstreams.iter().map(|times| squares(times, SLOPE.0)).collect();
    let all = sums.iter().fold((SLOPE.1, SLOPE.0 * SLOPE.1), |all, of| (all.0 + of.0, all.1 + of.1));
    let shared = (all.1 / all.0).clamp(0.0, SLOPE_MOST);
    let own = |times: &Vec<SizedTime>| {
        let (xx, xy) = squares(times, shared);
        ((xy + shared * SLOPE.1) / (xx + SLOPE.1)).clamp(0.0, SLOPE_MOST)
    };
    upstreams.iter().map(own).collect()
}

/// Of the distances from the mean: the squares of the sizes, and their products with ln time; `before`: the slope that far ones are
/// found with.
fn squares(times: &[SizedTime], before: f64) -> (f64, f64) {
    let count = times.len().max(1) as f64;
    let points: Vec<(f64, f64)> = times.iter().map(|time| (size(time.tokens), time.us.max(1.0).ln())).collect();
    let mut rest: Vec<f64> = points.iter().map(|(x, y)| y - before * x).collect();
    rest.sort_by(f64::total_cmp);
    let median = rest.get(rest.len() / 2).copied().unwrap_or(0.0);
    let mut far: Vec<f64> = rest.iter().map(|rest| (rest - median).abs()).collect();
    far.sort_by(f64::total_cmp);
    let most = CLAMP * 1.5 * far.get(far.len() / 2).copied().unwrap_or(0.0);
    let kept = |(x, y): &(f64, f64)| (*x, before * x + median + (y - before * x - median).clamp(-most, most));
    let points: Vec<(f64, f64)> = points.iter().map(kept).collect();
    let mean = points.iter().fold((0.0, 0.0), |mean, (x, y)| (mean.0 + x / count, mean.1 + y / count));
    points.iter().fold((0.0, 0.0), |sums, (x, y)| (sums.0 + (x - mean.0).powi(2), sums.1 + (x - mean.0) * (y - mean.1)))
}

/// Quantile `p` of what the upstream would take for all requests, with bounds of 95 %. Weights count by what they leave of the
/// accuracy (Kish). None if the times are too few to bound both sides: see [`quantile_ranks`].
pub fn mix_quantile(times: &[SizedTime], slope: f64, mix: &SizeMix, p: f64) -> Option<RankedQuantile> {
    let points = mix.points(times.len());
    let total: f64 = times.iter().map(|time| time.weight).sum();
    let mut pairs: Vec<(f64, usize)> = Vec::with_capacity(times.len() * points.len().max(1));
    for (place, time) in times.iter().enumerate() {
        let ln_us = time.us.max(1.0).ln();
        match points.is_empty() {
            true => pairs.push((ln_us, place)),
            false => pairs.extend(points.iter().map(|at| (ln_us + slope * (at - size(time.tokens)), place))),
        }
    }
    pairs.sort_by(|one, other| one.0.total_cmp(&other.0));
    let each = 1.0 / points.len().max(1) as f64;
    let at = |share: f64| {
        let mut sum = 0.0;
        let reaches = |(_, place): &&(f64, usize)| {
            sum += times[*place].weight * each;
            sum >= share * total * (1.0 - 1e-9)
        };
        pairs.iter().find(reaches).or(pairs.last()).map(|(ln_us, _)| *ln_us)
    };
    let ln_us = at(p)?;
    let worth = worth(times, &pairs, (ln_us, each), p);
    let (low, high) = quantile_ranks(worth, p)?;
    // Whole microseconds, as what was measured.
    let us = |ln_us: f64| ln_us.exp().round();
    let of_rank = |rank: usize| at(rank as f64 / worth as f64).map(us);
    Some(RankedQuantile { value: us(ln_us), low: of_rank(low)?, high: of_rank(high)? })
}

/// The number of unweighted times of one size that would give the share below the quantile as exactly.
fn worth(times: &[SizedTime], pairs: &[(f64, usize)], (ln_us, each): (f64, f64), p: f64) -> usize {
    let mut below = vec![0.0; times.len()];
    pairs.iter().take_while(|pair| pair.0 <= ln_us + 1e-9).for_each(|(_, place)| below[*place] += each);
    let total: f64 = times.iter().map(|time| time.weight).sum();
    let squares: f64 = times.iter().map(|time| (time.weight / total).powi(2)).sum();
    let variance: f64 = times.iter().zip(&below).map(|(time, below)| (time.weight / total * (below - p)).powi(2)).sum();
    let plain = 1.0 / squares.max(f64::MIN_POSITIVE);
    ((p * (1.0 - p) / variance.max(f64::MIN_POSITIVE)).clamp(plain, WORTH_MOST * plain) + 1e-6) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::interval::weighted_quantile;

    fn time(us: f64, tokens: f64) -> SizedTime {
        SizedTime { us, tokens, weight: 1.0 }
    }

    #[test]
    fn of_one_size_it_is_the_weighted_quantile() {
        let times: Vec<SizedTime> =
            (1..=100).map(|n| SizedTime { weight: 1.0 + f64::from(n % 3), ..time(f64::from(n), 500.0) }).collect();
        let plain: Vec<(f64, f64)> = times.iter().map(|time| (time.us, time.weight)).collect();
        for (p, mix) in [(0.5, SizeMix::default()), (0.5, SizeMix::new([(500.0, 1.0); 7].into_iter()))] {
            let (found, expected) =
                (mix_quantile(&times, 0.4, &mix, p).unwrap(), weighted_quantile(&plain, p).unwrap());
            for (found, expected) in
                [(found.value, expected.value), (found.low, expected.low), (found.high, expected.high)]
            {
                assert!((found - expected).abs() <= 1.0 + 1e-9, "{found} {expected}");
            }
        }
        assert_eq!(mix_quantile(&times[..5], 0.4, &SizeMix::default(), 0.5), None);
        assert_eq!(mix_quantile(&[], 0.4, &SizeMix::default(), 0.5), None);
    }

    #[test]
    fn times_of_short_prompts_tell_what_long_ones_take() {
        let took = |tokens: f64| 300e3 * (0.6 * size(tokens)).exp();
        let times: Vec<SizedTime> = (0..40).map(|n| time(took(50.0 * f64::from(n)), 50.0 * f64::from(n))).collect();
        let slopes = slopes(&[times.clone(), times[..3].to_vec()]);
        assert!((slopes[0] - 0.6).abs() < 0.1 && (slopes[1] - 0.6).abs() < 0.2, "{slopes:?}");
        let mix = SizeMix::new((0..1_000).map(|n| (4_000.0 + f64::from(n), 1.0)));
        let found = mix_quantile(&times, slopes[0], &mix, 0.5).unwrap();
        assert!((found.value / took(4_500.0) - 1.0).abs() < 0.1, "{found:?}");
        assert!(found.low <= found.value && found.value <= found.high);
    }
}
