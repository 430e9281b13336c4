//! The figures of one group: each is declared once in [`FIGURES`], with its name, unit, definition, value and cell, for JSON, CSV,
//! the OpenAPI document, the terminal and `stats --explain`.
//!
//! Not for gathering (`groups`) or for the text of a cell (`cli::stats::table`).

use serde_json::{Map, Value, json};

use self::FigureCell::{Cost, Count, Mostly, Part, PerSecond, Share, ShareWithin};
use super::dimension::{Dimension, GroupValue};
use super::members::{MemberField, MemberKind, field, integer, text};
use photofinish_base::failure::FailureKind;
use photofinish_facts::estimate::class::Input;
use photofinish_facts::estimate::cost::CostSum;
use photofinish_facts::estimate::goodput::SloTargets;
use photofinish_facts::estimate::spread::Times;
use photofinish_facts::estimate::summary::Summary;
use photofinish_facts::estimate::survival::{Estimate, Survival};
use photofinish_facts::record::AttemptOutcome;

/// The quantiles of TTFT, and of the time to the whole plain answer.
const TTFT_SHARES: [f64; 3] = [0.50, 0.95, 0.99];
/// The quantiles of tok/s: the median, and the slow end.
const TOK_S_SHARES: [f64; 2] = [0.50, 0.05];
/// The quantiles of what clients saw.
const CLIENT_SHARES: [f64; 2] = [0.50, 0.95];

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
    /// Of plain answers: from the attempt's dispatch to its last byte.
    pub whole: TimeFigures,
    /// Tokens per second, at each of `TOK_S_SHARES`.
    pub tok_s: [Option<f64>; 2],
    pub tpot_p95_ms: Option<f64>,
    pub tok_s_samples: u64,
    /// Those that the group answered, and those that it tried and no upstream answered.
    pub requests: u64,
    /// Requests that met the targets, per second of the window.
    pub goodput: Option<f64>,
    /// Requests that met the targets, as a share of those of which it is known.
    pub attainment: Option<f64>,
    pub cost: CostSum,
    /// What racing cost of it.
    pub extra_cost: CostSum,
    /// Attempts by the size of their request, in the order of the classes.
    pub inputs: [u64; Input::COUNT],
    /// Output tokens per second of the window: those that clients got, and those of all attempts.
    pub aggregate_tok_s: Option<[f64; 2]>,
    /// What streaming clients saw, at each of `CLIENT_SHARES`; milliseconds.
    pub client_ttft_ms: [Option<f64>; 2],
    pub client_ttft_samples: u64,
    /// Attempts that generated something, but whose tok/s is not known.
    pub without_speed: u64,
    /// Requests in time, but of unknown pace.
    pub without_verdict: f64,
    /// Answers whose calls or structure were checked, and those of them that are broken.
    pub judged: [u64; 2],
}

/// Times of which some are censored.
#[derive(Clone, Debug)]
pub struct TimeFigures {
    /// At each of `TTFT_SHARES`; none without observations.
    pub at: [Option<Estimate>; 3],
    /// Those that were seen.
    pub samples: u64,
    /// First tokens of equal weight that would say as much.
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

    fn ms(&self, place: usize) -> Value {
        json!(self.at[place].and_then(Estimate::reached).map(|us| us as f64 / 1e3))
    }

    fn over_ms(&self, place: usize) -> Value {
        match self.at[place] {
            Some(Estimate::NotReached { over_us }) => json!(over_us as f64 / 1e3),
            _ => Value::Null,
        }
    }

    fn cell(&self, place: usize) -> FigureCell {
        FigureCell::Time(self.at[place], Firmness { effective: self.effective, share: TTFT_SHARES[place] })
    }
}

impl GroupFigures {
    fn share(&self, count: u64) -> Value {
        json!((self.attempts > 0).then(|| count as f64 / self.attempts as f64))
    }

    /// The most common size of a request, and its share of the attempts whose size is known.
    fn common_input(&self) -> Option<(&'static str, f64)> {
        let place = (0..Input::COUNT).rev().max_by_key(|place| self.inputs[*place])?;
        let all: u64 = self.inputs.iter().sum();
        (all > 0).then(|| (Input::at(place as u8).name(), self.inputs[place] as f64 / all as f64))
    }

    /// The share of checked answers that is broken, with its 95 % bounds (Wilson).
    pub fn broken_share(&self) -> Option<[f64; 3]> {
        let [judged, broken] = self.judged.map(|count| count as f64);
        let (share, square) = (broken / judged, 1.96_f64.powi(2) / judged);
        let (middle, half) = (share + square / 2.0, (square * (share * (1.0 - share) + square / 4.0)).sqrt());
        let within = |bound: f64| (bound / (1.0 + square)).clamp(0.0, 1.0);
        (judged > 0.0).then(|| [share, within(middle - half), within(middle + half)])
    }

    fn failures_by_kind(&self) -> Map<String, Value> {
        self.failure_kinds.iter().map(|(kind, count)| (kind.as_str().to_owned(), json!(count))).collect()
    }

    fn tok_s_cell(&self, place: usize) -> FigureCell {
        let firmness = Firmness { effective: self.tok_s_samples as f64, share: TOK_S_SHARES[place] };
        FigureCell::TokensPerSecond(self.tok_s[place], firmness)
    }

    /// `seconds`: length of the window.
    pub fn new(keys: Vec<GroupValue>, summary: &Summary, slo: &SloTargets, seconds: f64) -> GroupFigures {
        let judged = summary.requests.judged(slo);
        let known = judged.met + judged.missed;
        let rate = |count: f64| Some(count / seconds).filter(|rate| rate.is_finite());
        let ns_to_rate = |ns: Option<i64>| ns.map(|ns| 1e9 / ns as f64);
        let [tpot_p95] = summary.tpot.quantiles([0.95]);
        let client_ttft_ms = summary.client_ttft.quantiles(CLIENT_SHARES).map(|us| us.map(|us| us as f64 / 1e3));
        let all_tokens = summary.tokens_served + summary.tokens_lost;
        GroupFigures {
            keys,
            attempts: summary.attempts,
            wins: summary.outcome(AttemptOutcome::Won),
            failures: summary.failed(),
            failure_kinds: summary.failures().collect(),
            empty: summary.outcome(AttemptOutcome::Empty),
            censored: summary.ttft.censored,
            ttft: TimeFigures::new(&summary.ttft, &summary.ttft.survival()),
            whole: TimeFigures::new(&summary.whole, &summary.whole.survival()),
            tok_s: summary.tpot.quantiles_from_above(TOK_S_SHARES).map(ns_to_rate),
            tpot_p95_ms: tpot_p95.map(|ns| ns as f64 / 1e6),
            tok_s_samples: summary.tpot.count,
            requests: summary.requests.total(),
            goodput: rate(judged.met).filter(|_| known > 0.0),
            attainment: (known > 0.0).then(|| judged.met / known),
            cost: summary.cost,
            extra_cost: summary.extra_cost(),
            inputs: summary.inputs,
            aggregate_tok_s: rate(summary.tokens_served as f64).zip(rate(all_tokens as f64)).map(|(a, b)| [a, b]),
            client_ttft_ms,
            client_ttft_samples: summary.client_ttft.count,
            without_speed: summary.without_speed(),
            without_verdict: judged.unknown,
            judged: summary.judged,
        }
    }
}

/// A figure of a group.
pub struct Figure {
    pub field: MemberField,
    value: fn(&GroupFigures) -> Value,
    /// Its column in the wide table.
    pub column: Option<FigureColumn>,
}

/// A column of the terminal.
#[derive(Clone, Copy)]
pub struct FigureColumn {
    pub head: &'static str,
    pub when: ColumnUse,
    pub cell: fn(&GroupFigures) -> FigureCell,
}

/// Which tables have a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnUse {
    Always,
    /// Those with plain attempts.
    Whole,
    /// Those with judged answers.
    Judged,
    /// Where groups are not by upstream.
    Clients,
}

/// What a cell of the terminal shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FigureCell {
    Count(u64),
    /// A count, and of how many.
    Part(u64, u64),
    /// Microseconds.
    Time(Option<Estimate>, Firmness),
    TokensPerSecond(Option<f64>, Firmness),
    Share(Option<f64>),
    /// A share with its 95 % bounds.
    ShareWithin(Option<[f64; 3]>),
    PerSecond(Option<f64>),
    Cost(CostSum),
    /// The most common class, and its share.
    Mostly(Option<(&'static str, f64)>),
}

/// What decides whether a quantile may be printed without a mark: see [`is_firm`](photofinish_facts::estimate::survival::is_firm).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Firmness {
    /// First tokens of equal weight that would say as much.
    pub effective: f64,
    /// The share of the quantile.
    pub share: f64,
}

/// The keys of a group; an object has only the dimensions of the question.
pub const KEYS: [MemberField; 7] = [
    text("upstream", "provider and its name for the model: `PROVIDER/MODEL`").or_null().if_known(),
    text("model", "as the app asked for it").or_null().if_known(),
    integer("hour", "h", "hour of the day at which the race began, UTC, 0 to 23").or_null().if_known(),
    text("weekday", "on which the race began, UTC: `Mon` to `Sun`").or_null().if_known(),
    MemberField { unit: "tokens", ..text("input", "class of the request's size, estimated by its bytes") }
        .or_null()
        .if_known(),
    text("concurrency", "class of the attempts running at the upstream at dispatch, itself included")
        .or_null()
        .if_known(),
    text("user", "the caller").or_null().if_known(),
];

/// Declares figures: `name: Kind ["unit"] flags = value, when "head of the column": cell;`, where the comment is the definition.
macro_rules! figures {
    ($(#[doc = $meta:literal])* $table:ident, |$of:ident| {
        $($(#[doc = $about:literal])+
        $name:ident: $kind:ident $([$unit:literal])? $($flag:ident)* = $value:expr $(, $when:ident $head:literal: $cell:expr)?;)+
    }) => {
        $(#[doc = $meta])*
        pub static $table: &[Figure] = &[$(Figure {
            field: field(
                stringify!($name),
                MemberKind::$kind,
                concat!("" $(, $unit)?),
                concat!($($about),+).trim_ascii_start(),
            )$(.$flag())*,
            value: |$of: &GroupFigures| json!($value),
            column: figures!(@column $of $($when, $head, $cell)?),
        }),+];
    };
    (@column $of:ident) => { None };
    (@column $of:ident $when:ident, $head:literal, $cell:expr) => {
        Some(FigureColumn { head: $head, when: ColumnUse::$when, cell: |$of: &GroupFigures| $cell })
    };
}

figures! {
    /// The figures of a group, in the order of JSON, CSV and the terminal.
    FIGURES, |of| {
        /// attempts in the group
        attempts: Integer = of.attempts, Always "attempts": Count(of.attempts);
        /// attempts that served their client to the end
        wins: Integer = of.wins, Always "wins": Part(of.wins, of.attempts);
        /// `wins` as a share of `attempts`
        win_share: Number or_null = of.share(of.wins);
        /// attempts that failed, failed midway, timed out or were refused
        failures: Integer = of.failures, Always "failures": Part(of.failures, of.attempts);
        /// `failures` as a share of `attempts`
        failure_share: Number or_null = of.share(of.failures);
        /// failures by their kind
        failures_by_kind: Counts = of.failures_by_kind();
        /// attempts that finished well without a token
        empty: Integer = of.empty, Always "empty": Part(of.empty, of.attempts);
        /// attempts that were cut off before their first token
        censored: Integer = of.censored, Always "censored": Part(of.censored, of.attempts);
        /// median of the time to first token, estimated (Kaplan–Meier); null where not reached
        ttft_p50_ms: Number ["ms"] or_null = of.ttft.ms(0), Always "TTFT p50": of.ttft.cell(0);
        /// the data say only that the median is over this
        ttft_p50_over_ms: Number ["ms"] if_known = of.ttft.over_ms(0);
        /// 95th percentile, likewise
        ttft_p95_ms: Number ["ms"] or_null = of.ttft.ms(1), Always "TTFT p95": of.ttft.cell(1);
        /// the data say only that it is over this
        ttft_p95_over_ms: Number ["ms"] if_known = of.ttft.over_ms(1);
        /// 99th percentile, likewise
        ttft_p99_ms: Number ["ms"] or_null = of.ttft.ms(2), Always "TTFT p99": of.ttft.cell(2);
        /// the data say only that it is over this
        ttft_p99_over_ms: Number ["ms"] if_known = of.ttft.over_ms(2);
        /// first tokens that were seen
        ttft_samples: Integer = of.ttft.samples, Always "TTFT n": Count(of.ttft.samples);
        /// effective sample size: first tokens of equal weight that would be as precise
        ttft_effective: Number = (of.ttft.effective * 10.0).round() / 10.0;
        /// median of the time from dispatch to the last byte of a plain answer, estimated likewise; left out without
        /// such attempts
        whole_p50_ms: Number ["ms"] if_known = of.whole.ms(0), Whole "whole p50": of.whole.cell(0);
        /// the data say only that the median is over this
        whole_p50_over_ms: Number ["ms"] if_known = of.whole.over_ms(0);
        /// 95th percentile, likewise
        whole_p95_ms: Number ["ms"] if_known = of.whole.ms(1), Whole "whole p95": of.whole.cell(1);
        /// the data say only that it is over this
        whole_p95_over_ms: Number ["ms"] if_known = of.whole.over_ms(1);
        /// 99th percentile, likewise
        whole_p99_ms: Number ["ms"] if_known = of.whole.ms(2), Whole "whole p99": of.whole.cell(2);
        /// the data say only that it is over this
        whole_p99_over_ms: Number ["ms"] if_known = of.whole.over_ms(2);
        /// plain answers that came whole; left out without an attempt that was asked for one
        whole_samples: Integer if_known = (!of.whole.is_empty()).then_some(of.whole.samples),
            Whole "whole n": Count(of.whole.samples);
        /// median of tok/s: 1 / TPOT, by the provider's own count; not of bursts and of requests for several choices
        tok_s_p50: Number ["tokens/s"] or_null = of.tok_s[0], Always "tok/s p50": of.tok_s_cell(0);
        /// the slow end of tok/s: 5 % of the answers are slower
        tok_s_p5: Number ["tokens/s"] or_null = of.tok_s[1], Always "tok/s p5": of.tok_s_cell(1);
        /// 95th percentile of the time per output token after the first
        tpot_p95_ms: Number ["ms"] or_null = of.tpot_p95_ms,
            Always "TPOT p95": time(of.tpot_p95_ms, of.tok_s_samples as f64, 0.95);
        /// attempts whose tok/s is known
        tok_s_samples: Integer = of.tok_s_samples, Always "tok/s n": Count(of.tok_s_samples);
        /// requests that the group answered, and those that it tried and no upstream answered; not those that the client left
        requests: Integer = of.requests, Always "requests": Count(of.requests);
        /// requests that met the targets, per second of the window
        goodput: Number ["requests/s"] or_null = of.goodput, Always "goodput": PerSecond(of.goodput);
        /// requests that met the targets, as a share of those of which it is known: an answer in time whose speed is unknown is left out
        attainment: Number or_null = of.attainment, Always "attained": Share(of.attainment);
        /// lower bound of what all attempts and shadows cost; null where none has a price
        cost_usd_min: Number ["USD"] or_null = of.cost.min_usd(), Always "cost": Cost(of.cost);
        /// its upper bound, the same where the cost is exact; null where nothing bounds an attempt
        cost_usd_max: Number ["USD"] or_null = of.cost.max_usd();
        /// lower bound of what racing cost of it: attempts that were not the answer, and shadows
        extra_cost_usd_min: Number ["USD"] or_null = of.extra_cost.min_usd(), Always "racing": Cost(of.extra_cost);
        /// its upper bound
        extra_cost_usd_max: Number ["USD"] or_null = of.extra_cost.max_usd();
        /// the most common size of the requests, a class of tokens estimated by their bytes; left out of old roll-ups
        common_input: Text ["tokens"] if_known = of.common_input().map(|(name, _)| name), Always "mostly": Mostly(of.common_input());
        /// its share of the attempts
        common_input_share: Number if_known = of.common_input().map(|(_, share)| share);
        /// answers to requests with tools or a schema whose calls or structure were checked; left out without any
        judged: Integer if_known = (of.judged[0] > 0).then_some(of.judged[0]);
        /// those of them that are broken: no JSON, an unknown tool, or against the schema; the first defect of a request
        broken: Integer if_known = (of.judged[0] > 0).then_some(of.judged[1]);
        /// `broken` as a share of `judged`
        broken_share: Number if_known = of.broken_share().map(|[share, ..]| share), Judged "broken": ShareWithin(of.broken_share());
        /// its lower bound, with 95 % confidence (Wilson)
        broken_share_min: Number if_known = of.broken_share().map(|[_, low, _]| low);
        /// its upper bound
        broken_share_max: Number if_known = of.broken_share().map(|[.., high]| high);
        /// output tokens that clients got, per second of the window
        aggregate_tok_s: Number ["tokens/s"] or_null = of.aggregate_tok_s.map(|[served, _]| served);
        /// the same of all attempts
        aggregate_tok_s_with_losers: Number ["tokens/s"] or_null = of.aggregate_tok_s.map(|[_, all]| all);
        /// median of what streaming clients saw, from request to first payload
        client_ttft_p50_ms: Number ["ms"] or_null = of.client_ttft_ms[0],
            Clients "client p50": time(of.client_ttft_ms[0], of.client_ttft_samples as f64, 0.5);
        /// 95th percentile of the same
        client_ttft_p95_ms: Number ["ms"] or_null = of.client_ttft_ms[1],
            Clients "client p95": time(of.client_ttft_ms[1], of.client_ttft_samples as f64, 0.95);
        /// streaming clients that got a first payload
        client_ttft_samples: Integer = of.client_ttft_samples;
    }
}

/// One object for each group: its keys and its figures.
pub fn objects(by: &[Dimension], groups: &[GroupFigures]) -> Vec<Map<String, Value>> {
    let one = |of: &GroupFigures| {
        let keys = by.iter().zip(&of.keys).map(|(dimension, key)| (dimension.as_str().to_owned(), key.json()));
        let known = FIGURES.iter().map(|figure| (figure.field, (figure.value)(of)));
        let known = known.filter(|(field, value)| !(field.optional && value.is_null()));
        keys.chain(known.map(|(field, value)| (field.name.to_owned(), value))).collect()
    };
    groups.iter().map(one).collect()
}

/// The names of the members, in their order.
pub fn names(by: &[Dimension]) -> Vec<&'static str> {
    by.iter().map(|dimension| dimension.as_str()).chain(FIGURES.iter().map(|figure| figure.field.name)).collect()
}

/// The column of this figure.
pub fn column(name: &str) -> Option<FigureColumn> {
    FIGURES.iter().find(|figure| figure.field.name == name)?.column
}

fn time(ms: Option<f64>, effective: f64, share: f64) -> FigureCell {
    let at = ms.map(|ms| Estimate::Reached((ms * 1e3) as i64));
    FigureCell::Time(at, Firmness { effective, share })
}
