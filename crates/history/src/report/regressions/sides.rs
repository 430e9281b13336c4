//! The data of each upstream on one side of the comparison, before or now, by stratum.
//!
//! All times are on the grid, also those of rows: exact times of one side would differ from the other side's buckets.
//! Not for the tests.

use std::collections::{BTreeMap, HashMap};

use crate::history::class::Input;
use crate::history::facts::{AttemptFacts, RequestFacts};
use crate::history::goodput;
use crate::history::regression::{RegressionStratum, Sample};
use crate::history::spread::{Spread, Times};
use crate::history::summary::Summary;
use crate::history::survival::{AuditedLoser, Observation, SurvivalPoint};
use crate::history::{AttemptOutcome, ShortBytes};
use crate::report::names::NameIndex;
use crate::store::{Gather, RollupCell};

/// By upstream and stratum.
#[derive(Debug, Default)]
pub(super) struct UpstreamSides {
    names: NameIndex,
    /// By the place of the name.
    upstreams: HashMap<usize, Strata>,
}

/// By hour of the day, UTC, and input class; ordered, because sums of fractions depend on the order.
type Strata = BTreeMap<(i64, Input), StratumSide>;

/// One stratum of one side.
#[derive(Debug, Default)]
struct StratumSide {
    ttft: Times,
    /// The same with squared weights.
    squares: Times,
    /// Of rolled-up hours.
    rolled: Times,
    /// Nanoseconds.
    tpot: Spread,
    attempts: u64,
    failures: u64,
}

/// Strata of one upstream with attempts on both sides.
#[derive(Debug, Default)]
pub(super) struct SharedStrata {
    strata: Vec<(FlatSide, FlatSide)>,
    /// In these strata.
    pub attempts_before: u64,
    /// In these strata.
    pub attempts_now: u64,
}

/// One side, in the form that the tests take.
#[derive(Debug)]
struct FlatSide {
    ttft: Vec<SurvivalPoint>,
    squares: Vec<SurvivalPoint>,
    tpot: Vec<(f64, u64)>,
    attempts: u64,
    failures: u64,
}

impl UpstreamSides {
    /// The upstreams with attempts on this side.
    pub fn upstreams(&self) -> impl Iterator<Item = &str> {
        self.names.names()
    }

    /// Strata of one upstream.
    pub fn attempts(&self, upstream: &str) -> u64 {
        self.strata(upstream).map_or(0, |strata| strata.values().map(|side| side.attempts).sum())
    }

    /// With this as `now`: what can be compared of an upstream.
    pub fn shared(&self, before: &UpstreamSides, upstream: &str) -> SharedStrata {
        let mut shared = SharedStrata::default();
        let (Some(now), Some(before)) = (self.strata(upstream), before.strata(upstream)) else {
            return shared;
        };
        for (stratum, now) in now {
            let Some(before) = before.get(stratum) else { continue };
            shared.attempts_before += before.attempts;
            shared.attempts_now += now.attempts;
            shared.strata.push((before.flat(), now.flat()));
        }
        shared
    }

    fn side(&mut self, upstream: (&str, &str), started_at: i64, input: Input) -> &mut StratumSide {
        let strata = self.upstreams.entry(self.names.upstream(upstream)).or_default();
        strata.entry((goodput::hour(started_at), input)).or_default()
    }

    fn strata(&self, upstream: &str) -> Option<&Strata> {
        self.upstreams.get(&self.names.find(upstream)?)
    }
}

impl SharedStrata {
    pub fn strata(&self) -> Vec<RegressionStratum<'_>> {
        self.strata
            .iter()
            .map(|(before, now)| RegressionStratum { before: before.sample(), now: now.sample() })
            .collect()
    }
}

impl StratumSide {
    fn add(&mut self, observation: &Observation) {
        self.ttft.add(observation, 1.0, true);
        // Weights are 1, and for an audit with probability p, 1/p from the loss on; 1/p² is the weight of an audit with
        // p².
        let square = |audit: AuditedLoser| AuditedLoser { probability: audit.probability.min(1.0).powi(2), ..audit };
        self.squares.add(&Observation { audit: observation.audit.map(square), ..*observation }, 1.0, true);
    }

    fn flat(&self) -> FlatSide {
        let tpot = self.tpot.values().into_iter().map(|(ns, weight)| (ns as f64 / 1e3, weight.round() as u64));
        FlatSide {
            ttft: [self.ttft.points(), self.rolled.points()].concat(),
            squares: [self.squares.points(), self.rolled.coarse_squares()].concat(),
            tpot: tpot.collect(),
            attempts: self.attempts,
            failures: self.failures,
        }
    }

    fn merge(&mut self, other: StratumSide) {
        self.ttft.merge(other.ttft);
        self.squares.merge(other.squares);
        self.rolled.merge(other.rolled);
        self.tpot.merge(other.tpot);
        self.attempts += other.attempts;
        self.failures += other.failures;
    }
}

impl FlatSide {
    fn sample(&self) -> Sample<'_> {
        Sample {
            ttft: &self.ttft,
            ttft_squares: &self.squares,
            tpot: &self.tpot,
            attempts: self.attempts,
            failures: self.failures,
        }
    }
}

impl Gather for UpstreamSides {
    fn attempt(&mut self, facts: &AttemptFacts<'_>) {
        use AttemptOutcome::{Failed, FailedMid, Refused, Timeout};
        // A running race has rows of losers only: each upstream would look too slow.
        let Some(request) = &facts.request else { return };
        let input = Input::of(request.input_tokens_estimate);
        let side = self.side((facts.provider, facts.model_sent), facts.started_at, input);
        side.attempts += 1;
        side.failures += u64::from(matches!(facts.outcome, Failed | FailedMid | Timeout | Refused));
        if let Some(observation) = &facts.ttft {
            side.add(observation);
        }
        if let Some(tpot_us) = facts.tpot_us {
            side.tpot.add((tpot_us * 1e3) as i64, 1.0, true);
        }
    }

    fn without_attempts(&mut self, _: i64, _: &RequestFacts<'_>) {}

    fn cell(&mut self, cell: &RollupCell<'_>) -> Result<(), ShortBytes> {
        // Without a model: attempts without the row of their race, which are left out as rows are.
        let (Some(upstream), Some(_), Some(class)) = (cell.upstream, cell.model, cell.class) else { return Ok(()) };
        let mut summary = Summary::default();
        summary.absorb(cell.summary, 1.0, false)?;
        let side = self.side(upstream, cell.start_us, class.input);
        side.attempts += summary.attempts;
        side.failures += summary.failed();
        side.rolled.merge(summary.ttft);
        side.tpot.merge(summary.tpot);
        Ok(())
    }

    fn merge(&mut self, other: UpstreamSides) {
        for (place, strata) in other.upstreams {
            let mine = self.upstreams.entry(self.names.place(other.names.name(place))).or_default();
            strata.into_iter().for_each(|(stratum, side)| mine.entry(stratum).or_default().merge(side));
        }
    }
}
