//! The whole distribution of TTFT of each upstream, for a drawing: the curve that the quantiles of `stats` are read from.
//!
//! Not for the estimate: see `estimate::curve`.

use clap::Args;
use serde_json::{Map, Value, json};

use super::dimension::NameIndex;
use super::question::RaceWindow;
use crate::estimate::ShortBytes;
use crate::estimate::curve::{CurvePoint, curve, of_events_alone};
use crate::estimate::facts::{AttemptFacts, RequestFacts};
use crate::estimate::spread::Times;
use crate::estimate::summary::absorb_ttft;
use crate::store::{Gather, ReadError, RollupCell, Selection, StoreReader};

/// Points of one curve.
pub const POINTS_MAX: usize = 256;
/// Points of the curve of the first tokens alone.
pub const ALONE_MAX: usize = 64;
/// Upstreams of one answer, those with most attempts.
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
    /// Roll-ups were read before this time; microseconds since 1970, UTC. None: only rows.
    pub rolled_until: Option<i64>,
}

/// The curve of one upstream.
#[derive(Debug)]
pub struct UpstreamCurve {
    pub upstream: String,
    /// First tokens that were seen.
    pub seen: u64,
    /// Attempts that were cut off before.
    pub censored: u64,
    /// As many first tokens of equal weight would tell as much.
    pub effective: f64,
    pub points: Vec<CurvePoint>,
    /// What the first tokens alone would tell, as if no attempt had been cut off.
    pub alone: Vec<CurvePoint>,
}

impl DistributionQuestion {
    /// An error in the combination of valid parts.
    pub fn problem(&self, now_us: i64) -> Option<String> {
        self.window.problem(now_us)
    }
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
    Ok(Distribution {
        curves: found.into_iter().map(UpstreamCurve::of).collect(),
        left_out,
        rolled_until: coverage.rolled_until,
    })
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

impl Distribution {
    pub fn json(&self) -> Value {
        let curves: Vec<Value> = self.curves.iter().map(UpstreamCurve::json).collect();
        json!({ "upstreams": curves, "left_out": self.left_out })
    }
}

impl UpstreamCurve {
    fn json(&self) -> Value {
        let alone = self.alone.iter().map(|point| json!({ "ms": ms(point.time_us), "waiting": point.waiting }));
        json!({
            "upstream": self.upstream,
            "ttft_samples": self.seen,
            "censored": self.censored,
            "ttft_effective": self.effective,
            "points": self.points.iter().map(of_point).collect::<Vec<Value>>(),
            "seen_alone": alone.collect::<Vec<Value>>(),
        })
    }
}

fn of_point(point: &CurvePoint) -> Value {
    let (low, high) = point.band.unzip();
    json!({
        "ms": ms(point.time_us), "waiting": point.waiting, "low": low, "high": high, "at_risk": point.at_risk,
        "events": point.events, "cut": point.cut,
    })
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
            self.times(place).add(observation, 1.0, false);
        }
    }

    fn without_attempts(&mut self, _: i64, _: &RequestFacts<'_>) {}

    fn cell(&mut self, cell: &RollupCell<'_>) -> Result<(), ShortBytes> {
        let Some(upstream) = cell.upstream else { return Ok(()) };
        let place = self.names.upstream(upstream);
        absorb_ttft(self.times(place), cell.summary, 1.0)
    }

    fn merge(&mut self, other: Self) {
        for (name, times) in other.names.names().zip(other.times) {
            let place = self.names.place(name);
            self.times(place).merge(times);
        }
    }
}

/// Members of the answer, for the OpenAPI document.
pub fn schema() -> Map<String, Value> {
    let number = |about: &str| json!({ "type": "number", "description": about });
    let point = json!({
        "type": "object",
        "properties": {
            "ms": { "type": "number", "description": "since the dispatch", "x-unit": "ms" },
            "waiting": number("share without a first token after this time, estimated (Kaplan–Meier)"),
            "low": { "type": ["number", "null"], "description": "lower end of the 95 % band (Greenwood, log-log); null where nothing varies" },
            "high": { "type": ["number", "null"], "description": "its upper end" },
            "at_risk": number("attempts under observation just before"),
            "events": number("first tokens since the point before"),
            "cut": number("attempts cut off since the point before")
        },
        "required": ["ms", "waiting", "low", "high", "at_risk", "events", "cut"],
        "additionalProperties": false,
    });
    let alone = json!({
        "type": "object",
        "properties": { "ms": { "type": "number", "x-unit": "ms" }, "waiting": number("share of the first tokens that came later") },
        "required": ["ms", "waiting"],
        "additionalProperties": false,
    });
    let curve = json!({
        "type": "object",
        "description": "The distribution of one upstream's time to first token.",
        "properties": {
            "upstream": { "type": "string", "description": "`PROVIDER/MODEL`" },
            "ttft_samples": { "type": "integer", "description": "first tokens that were seen" },
            "censored": { "type": "integer", "description": "attempts that were cut off before their first token" },
            "ttft_effective": number("as many first tokens of equal weight would tell as much"),
            "points": { "type": "array", "items": point, "maxItems": POINTS_MAX, "description": "the curve falls at these times" },
            "seen_alone": { "type": "array", "items": alone, "maxItems": ALONE_MAX, "description": "what the first tokens alone would tell: too fast where losers are cut off" }
        },
        "required": ["upstream", "ttft_samples", "censored", "ttft_effective", "points", "seen_alone"],
        "additionalProperties": false,
    });
    Map::from_iter([("Curve".to_owned(), curve)])
}
