//! The figures of one group.
//!
//! Not for printing or export: `cli::stats::table` and `export` do that.

use super::dimension::GroupValue;
use crate::estimate::cost::CostSum;
use crate::estimate::goodput::SloTargets;
use crate::estimate::spread::Times;
use crate::estimate::summary::Summary;
use crate::estimate::survival::{Estimate, Survival, is_firm};
use crate::record::AttemptOutcome;
use photofinish_base::failure::FailureKind;

/// The quantiles of TTFT, and of the time to the whole plain answer.
pub const TTFT_SHARES: [f64; 3] = [0.50, 0.95, 0.99];
/// The quantiles of tok/s: the median, and the slow end.
pub const TOK_S_SHARES: [f64; 2] = [0.50, 0.05];
/// The quantiles of the gain from racing.
pub const GAIN_SHARES: [f64; 2] = [0.50, 0.95];

/// An upstream with fewer observations is not considered as possibly better.
const OBSERVED_ENOUGH: u64 = 20;

/// The figures of one group.
#[derive(Clone, Debug)]
pub struct GroupFigures {
    /// One for each dimension.
    pub keys: Vec<GroupValue>,
    pub attempts: u64,
    pub wins: u64,
    /// Failed, failed midway, timed out or refused.
    pub failures: u64,
    /// By kind, with counts.
    pub failure_kinds: Vec<(FailureKind, u64)>,
    pub empty: u64,
    /// No first token was seen, and the attempt had not failed.
    pub censored: u64,
    pub ttft: TimeFigures,
    /// Of plain answers: from the attempt's dispatch to its last byte. Not by stratum.
    pub whole: TimeFigures,
    /// Tokens per second, at each of [`TOK_S_SHARES`].
    pub tok_s: [Option<f64>; 2],
    pub tpot_p95_ms: Option<f64>,
    pub tok_s_samples: u64,
    /// Number of equal weights with the same information.
    pub tok_s_effective: f64,
    /// Judged requests: those that the group answered, and those that it tried and no upstream answered.
    pub requests: u64,
    /// Requests that met the targets, per second of the window.
    pub goodput: Option<f64>,
    /// Requests that met the targets, as a share.
    pub attainment: Option<f64>,
    pub cost: CostSum,
    /// Of losers only.
    pub extra_cost: CostSum,
    /// Output tokens per second of the window: those that clients got, and those of all attempts.
    pub aggregate_tok_s: Option<[f64; 2]>,
    /// What streaming clients saw, at each of [`GAIN_SHARES`]; milliseconds.
    pub client_ttft_ms: [Option<f64>; 2],
    pub client_ttft_samples: u64,
    /// Number of equal weights with the same information.
    pub client_ttft_effective: f64,
    /// At each of [`GAIN_SHARES`], for a group of several upstreams of one model. None if no upstream reached the
    /// quantile, or one that did not reach it may be better.
    pub gain: Option<[Option<RacingGain>; 2]>,
    /// Attempts that generated something, but whose tok/s is not known.
    pub without_speed: u64,
    /// Requests in time, but of unknown pace.
    pub without_verdict: f64,
}

/// Times of which some are censored.
#[derive(Clone, Debug)]
pub struct TimeFigures {
    /// At each of [`TTFT_SHARES`]; none without observations.
    pub at: [Option<Estimate>; 3],
    /// Those that were seen.
    pub samples: u64,
    /// Number of equal weights with the same information.
    pub effective: f64,
}

impl TimeFigures {
    fn new(times: &Times, survival: &Survival) -> TimeFigures {
        let at = TTFT_SHARES.map(|p| survival.quantile(p));
        TimeFigures { at, samples: times.seen, effective: times.effective() }
    }

    /// Nothing was observed, not even a censored time.
    pub fn is_empty(&self) -> bool {
        self.at[0].is_none()
    }
}

/// The gain from racing: the clients' quantile against that of the best upstream alone.
#[derive(Clone, Debug, PartialEq)]
pub struct RacingGain {
    /// The best upstream.
    pub upstream: String,
    /// Estimate for that upstream alone; milliseconds.
    pub alone_ms: f64,
    /// `alone_ms` less what streaming clients saw; milliseconds. Negative where racing, or failures before the answer,
    /// cost time.
    pub gain_ms: f64,
    /// Effective samples behind the best upstream's quantile.
    pub effective: f64,
}

/// The gathered data of a group.
#[derive(Debug, Default)]
pub struct GatheredGroup {
    pub summary: Summary,
    /// TTFT by stratum; empty if the question has no strata.
    pub strata: Vec<Times>,
    /// TTFT by upstream; empty if groups are by upstream.
    pub upstreams: Vec<(String, Times)>,
}

impl GroupFigures {
    /// Of whole plain answers, or of first tokens.
    pub fn times(&self, whole: bool) -> &TimeFigures {
        if whole { &self.whole } else { &self.ttft }
    }

    /// `seconds`: length of the window.
    pub fn new(keys: Vec<GroupValue>, gathered: GatheredGroup, slo: &SloTargets, seconds: f64) -> GroupFigures {
        let GatheredGroup { summary, strata, upstreams } = gathered;
        let survival = if strata.is_empty() {
            summary.ttft.survival()
        } else {
            let strata: Vec<(f64, Survival)> =
                strata.iter().map(|times| (times.count() as f64, times.survival())).collect();
            Survival::mixed(&strata)
        };
        let judged = summary.requests.judged(slo);
        let requests = judged.met + judged.missed;
        let rate = |count: f64| Some(count / seconds).filter(|rate| rate.is_finite());
        let ns_to_rate = |ns: Option<i64>| ns.map(|ns| 1e9 / ns as f64);
        let [tpot_p95] = summary.tpot.quantiles([0.95]);
        let client_ttft_ms = summary.client_ttft.quantiles(GAIN_SHARES).map(|us| us.map(|us| us as f64 / 1e3));
        let all_tokens = summary.tokens_served + summary.tokens_lost;
        GroupFigures {
            keys,
            attempts: summary.attempts,
            wins: summary.outcome(AttemptOutcome::Won),
            failures: summary.failed(),
            failure_kinds: summary.failures().collect(),
            empty: summary.outcome(AttemptOutcome::Empty),
            censored: summary.ttft.censored,
            ttft: TimeFigures::new(&summary.ttft, &survival),
            whole: TimeFigures::new(&summary.whole, &summary.whole.survival()),
            tok_s: summary.tpot.quantiles_from_above(TOK_S_SHARES).map(ns_to_rate),
            tpot_p95_ms: tpot_p95.map(|ns| ns as f64 / 1e6),
            tok_s_samples: summary.tpot.count,
            tok_s_effective: summary.tpot.effective(),
            requests: requests.round() as u64,
            goodput: rate(judged.met).filter(|_| requests > 0.0),
            attainment: (requests > 0.0).then(|| judged.met / requests),
            cost: summary.cost,
            extra_cost: summary.extra_cost,
            aggregate_tok_s: rate(summary.tokens_served as f64).zip(rate(all_tokens as f64)).map(|(a, b)| [a, b]),
            client_ttft_ms,
            client_ttft_samples: summary.client_ttft.count,
            client_ttft_effective: summary.client_ttft.effective(),
            gain: (!upstreams.is_empty()).then(|| gains(&upstreams, client_ttft_ms)),
            without_speed: summary.without_speed(),
            without_verdict: judged.unknown,
        }
    }
}

/// The best upstream among those with a firm quantile; among the others only if none is firm.
fn gains(upstreams: &[(String, Times)], client_ttft_ms: [Option<f64>; 2]) -> [Option<RacingGain>; 2] {
    let alone: Vec<(&String, &Times, Survival)> =
        upstreams.iter().map(|(name, times)| (name, times, times.survival())).collect();
    let mut shares = GAIN_SHARES.into_iter().zip(client_ttft_ms);
    [(); 2].map(|()| {
        let (share, client_ms) = shares.next()?;
        let any_firm = alone.iter().any(|(_, times, _)| is_firm(times.effective(), share));
        let compete = alone.iter().filter(|(_, times, _)| !any_firm || is_firm(times.effective(), share));
        let reached = compete.filter_map(|(name, times, survival)| {
            Some((survival.quantile(share)?.reached()?, *name, times.effective()))
        });
        let (best_us, upstream, effective) = reached.min_by_key(|(us, name, _)| (*us, *name))?;
        let may_be_better = |(_, times, survival): &(&String, &Times, Survival)| {
            let short = |at| matches!(at, Estimate::NotReached { over_us } if over_us < best_us);
            times.count() >= OBSERVED_ENOUGH && survival.quantile(share).is_some_and(short)
        };
        if alone.iter().any(may_be_better) {
            return None;
        }
        let alone_ms = best_us as f64 / 1e3;
        Some(RacingGain { upstream: upstream.clone(), alone_ms, gain_ms: alone_ms - client_ms?, effective })
    })
}
