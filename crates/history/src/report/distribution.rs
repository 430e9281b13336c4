//! The whole distribution of TTFT of each upstream, for a drawing: the curve that the quantiles of `stats` are read from.
//!
//! Not for the estimate: see `estimate::curve`.

use clap::Args;
use serde_json::Value;

use super::dimension::NameIndex;
use super::members::members;
use super::question::RaceWindow;
use crate::store::{Coverage, Gather, ReadError, RollupCell, Selection, StoreReader};
use photofinish_facts::estimate::ShortBytes;
use photofinish_facts::estimate::curve::{CurvePoint, curve, of_events_alone};
use photofinish_facts::estimate::facts::{AttemptFacts, RequestFacts};
use photofinish_facts::estimate::spread::Times;
use photofinish_facts::estimate::summary::absorb_ttft;

/// Points of one curve of a distribution.
pub const POINTS_MAX: usize = 256;
/// Points of the curve of the first tokens alone.
pub const ALONE_MAX: usize = 64;
/// Upstreams of one answer on distributions, those with most attempts.
pub const CURVES_MAX: usize = 16;

/// The attempts.
#[derive(Args, Clone, Debug)]
pub struct DistributionQuestion {
    #[command(flatten)]
    pub window: RaceWindow,
    /// Read rows instead of roll-ups, for at most 30 s, as far back as rows are kept.
    #[arg(long)]
    pub exact: bool,
}

/// The answer.
#[derive(Debug)]
pub struct Distribution {
    /// With most attempts first.
    pub curves: Vec<UpstreamCurve>,
    /// Upstreams beyond [`CURVES_MAX`].
    pub left_out: usize,
    pub coverage: Coverage,
}

/// The curve of one upstream.
#[derive(Debug)]
pub struct UpstreamCurve {
    pub upstream: String,
    /// First tokens that were seen.
    pub seen: u64,
    /// Attempts that were cut off before.
    pub censored: u64,
    /// Number of first tokens of equal weight with the same information.
    pub effective: f64,
    pub points: Vec<CurvePoint>,
    /// The curve of the first tokens alone, as if no attempt had been cut off.
    pub alone: Vec<CurvePoint>,
}

/// Reads the answer.
///
/// # Errors
/// For an operator.
pub fn ask(reader: &StoreReader, question: &DistributionQuestion, now_us: i64) -> Result<Distribution, ReadError> {
    let filter = question.window.filter(now_us);
    let selection = Selection { filter, now_us, classes: false, hourly: false, exact: question.exact };
    let (gathered, coverage) =
        reader.gather(&selection, || TimesByUpstream { now_us, ..TimesByUpstream::default() })?;
    let TimesByUpstream { names, times, .. } = gathered;
    let mut found: Vec<(String, Times)> =
        names.names().map(str::to_owned).zip(times).filter(|(_, times)| times.count() > 0).collect();
    found.sort_by(|a, b| b.1.count().cmp(&a.1.count()).then_with(|| a.0.cmp(&b.0)));
    let left_out = found.len().saturating_sub(CURVES_MAX);
    found.truncate(CURVES_MAX);
    Ok(Distribution { curves: found.into_iter().map(UpstreamCurve::of).collect(), left_out, coverage })
}

impl UpstreamCurve {
    fn of((upstream, times): (String, Times)) -> UpstreamCurve {
        let (points, effective) = (times.points(), times.effective());
        UpstreamCurve {
            upstream,
            seen: times.seen,
            censored: times.censored,
            effective,
            alone: of_events_alone(&points, ALONE_MAX),
            points: curve(points, effective, POINTS_MAX),
        }
    }
}

members! {
    /// The upstreams with most attempts first.
    pub DISTRIBUTION: distribution_object(of: &Distribution) {
        upstreams: List("Curve", CURVES_MAX) = of.curves.iter().map(curve_object).collect::<Vec<_>>();
        /// further upstreams
        left_out: Integer = of.left_out;
    }
}

impl Distribution {
    pub fn json(&self) -> Value {
        distribution_object(self).into()
    }
}

members! {
    /// A point of a curve.
    pub CURVE_POINT: curve_point(of: &CurvePoint) {
        /// since the dispatch
        ms: Number ["ms"] = ms(of.time_us);
        /// share without a first token after this time, estimated (Kaplan–Meier)
        waiting: Number = of.waiting;
        /// lower end of the 95 % band (Greenwood, log-log); null where nothing varies
        low: Number or_null = of.band.map(|band| band.0);
        /// its upper end
        high: Number or_null = of.band.map(|band| band.1);
        /// attempts under observation just before
        at_risk: Number = of.at_risk;
        /// first tokens since the point before
        events: Number = of.events;
        /// attempts cut off since the point before
        cut: Number = of.cut;
    }
}

members! {
    /// A point of the curve of the first tokens alone.
    pub POINT_ALONE: point_alone(of: &CurvePoint) {
        /// since the dispatch
        ms: Number ["ms"] = ms(of.time_us);
        /// share of the first tokens that came later
        waiting: Number = of.waiting;
    }
}

members! {
    /// The distribution of one upstream.
    pub CURVE: curve_object(of: &UpstreamCurve) {
        /// `PROVIDER/MODEL`
        upstream: Text = of.upstream;
        /// first tokens that were seen
        ttft_samples: Integer = of.seen;
        /// attempts that were cut off before their first token
        censored: Integer = of.censored;
        /// effective sample size: first tokens of equal weight that would be as precise
        ttft_effective: Number = of.effective;
        /// the curve falls at these times
        points: List("CurvePoint", POINTS_MAX) = of.points.iter().map(curve_point).collect::<Vec<_>>();
        /// the curve of the first tokens alone: too fast where losers are cut off
        seen_alone: List("PointAlone", ALONE_MAX) = of.alone.iter().map(point_alone).collect::<Vec<_>>();
    }
}

fn ms(us: i64) -> f64 {
    us as f64 / 1e3
}

#[derive(Debug, Default)]
struct TimesByUpstream {
    now_us: i64,
    names: NameIndex,
    times: Vec<Times>,
}

impl TimesByUpstream {
    fn times(&mut self, place: usize) -> &mut Times {
        if place >= self.times.len() {
            self.times.resize_with(place + 1, Times::default);
        }
        &mut self.times[place]
    }
}

impl Gather for TimesByUpstream {
    fn attempt(&mut self, facts: &AttemptFacts<'_>) {
        if let Some(observation) = facts.ttft.as_ref().filter(|_| !facts.is_of_a_running_race(self.now_us)) {
            let place = self.names.upstream((facts.provider, facts.model_sent));
            self.times(place).add(observation, false);
        }
    }

    fn without_attempts(&mut self, _: i64, _: &RequestFacts<'_>) {}

    fn cell(&mut self, cell: &RollupCell<'_>) -> Result<(), ShortBytes> {
        let Some(upstream) = cell.upstream else { return Ok(()) };
        let place = self.names.upstream(upstream);
        absorb_ttft(self.times(place), cell.summary)
    }

    fn merge(&mut self, other: Self) {
        for (name, times) in other.names.names().zip(other.times) {
            let place = self.names.place(name);
            self.times(place).merge(times);
        }
    }
}
