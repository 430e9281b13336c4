//! Names and meanings of the members of JSON answers, for the OpenAPI document. Definitions: `docs/measurement.md`.
//!
//! Not for the columns of the two tables: `record::tables` declares those.

use crate::record::table::{Column, SqlType};

/// One member of an object.
#[derive(Clone, Copy, Debug)]
pub struct MemberField {
    pub name: &'static str,
    pub kind: FieldKind,
    /// Of a number; empty for a count, a share and text.
    pub unit: &'static str,
    pub about: &'static str,
    /// It may be null.
    pub nullable: bool,
    /// It is left out where there is no value.
    pub optional: bool,
}

/// Its type in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    Integer,
    Number,
    Text,
    Boolean,
    /// An object of counts by name.
    Counts,
}

impl MemberField {
    pub const fn or_null(self) -> MemberField {
        MemberField { nullable: true, ..self }
    }

    /// It is left out instead of null.
    pub const fn if_known(self) -> MemberField {
        MemberField { optional: true, ..self }
    }
}

/// The members that have the names of these columns.
pub fn of_columns(columns: &[Column]) -> Vec<MemberField> {
    let member = |column: &Column| {
        let kind = match column.sql_type {
            SqlType::Integer => FieldKind::Integer,
            SqlType::Real => FieldKind::Number,
            SqlType::Text => FieldKind::Text,
        };
        MemberField { nullable: column.nullable, ..field(column.name, kind, column.unit(), column.about) }
    };
    columns.iter().map(member).collect()
}

/// Figures of a race, after its columns.
pub const OF_RACE: [MemberField; 5] = [
    text("upstream", "", "the winner's `provider` / `model_sent`; null when none won").or_null(),
    number("client_ttft_ms", "ms", "from the request to the first payload byte handed to the client").or_null(),
    number(
        "overhead_ms",
        "ms",
        "part of `client_ttft_ms` added by the gateway; null for a client that does not stream",
    )
    .or_null(),
    number("duration_ms", "ms", "from the request to the end of the answer").or_null(),
    text("started", "", "`started_at` in the format of RFC 3339"),
];

/// Figures of an attempt, after its columns.
pub const OF_ATTEMPT: [MemberField; 4] = [
    text("upstream", "", "`provider` / `model_sent`"),
    number("ttft_ms", "ms", "first token − dispatch; null where no token was seen").or_null(),
    number("tpot_ms", "ms", "time per output token after the first; null where it cannot be measured").or_null(),
    number("tok_s", "tokens/s", "1 / TPOT: decoding speed for one user").or_null(),
];

/// The times of a run, after its columns.
pub const OF_RUN: [MemberField; 2] = [
    text("started", "", "`started_at` in the format of RFC 3339"),
    text("ended", "", "`ended_at` likewise; null while it runs").or_null(),
];

pub const fn integer(name: &'static str, unit: &'static str, about: &'static str) -> MemberField {
    field(name, FieldKind::Integer, unit, about)
}

pub const fn number(name: &'static str, unit: &'static str, about: &'static str) -> MemberField {
    field(name, FieldKind::Number, unit, about)
}

pub const fn text(name: &'static str, unit: &'static str, about: &'static str) -> MemberField {
    field(name, FieldKind::Text, unit, about)
}

pub const fn boolean(name: &'static str, about: &'static str) -> MemberField {
    field(name, FieldKind::Boolean, "", about)
}

const fn field(name: &'static str, kind: FieldKind, unit: &'static str, about: &'static str) -> MemberField {
    MemberField { name, kind, unit, about, nullable: false, optional: false }
}

/// The keys of a group; an object has only the dimensions of the question.
pub const KEYS: [MemberField; 7] = [
    text("upstream", "", "provider and its name for the model: `PROVIDER/MODEL`").or_null().if_known(),
    text("model", "", "as the app asked for it").or_null().if_known(),
    integer("hour", "h", "hour of the day at which the race began, UTC, 0 to 23").or_null().if_known(),
    text("weekday", "", "on which the race began, UTC: `Mon` to `Sun`").or_null().if_known(),
    text("input", "tokens", "class of the request's size, estimated by its bytes").or_null().if_known(),
    text("concurrency", "", "class of the attempts running at the upstream at dispatch, itself included")
        .or_null()
        .if_known(),
    text("user", "", "the caller").or_null().if_known(),
];

/// The figures of a group, in the order of JSON and CSV.
pub const FIGURES: [MemberField; 47] = [
    integer("attempts", "", "attempts in the group"),
    integer("wins", "", "attempts that served their client to the end"),
    number("win_share", "", "`wins` as a share of `attempts`").or_null(),
    integer("failures", "", "attempts that failed, failed midway, timed out or were refused"),
    number("failure_share", "", "`failures` as a share of `attempts`").or_null(),
    field("failures_by_kind", FieldKind::Counts, "", "failures by their kind"),
    integer("empty", "", "attempts that finished well without a token"),
    integer("censored", "", "attempts that were cut off before their first token"),
    number("ttft_p50_ms", "ms", "median of the time to first token, estimated (Kaplan–Meier); null where not reached")
        .or_null(),
    number("ttft_p50_over_ms", "ms", "the data say only that the median is over this").if_known(),
    number("ttft_p95_ms", "ms", "95th percentile, likewise").or_null(),
    number("ttft_p95_over_ms", "ms", "the data say only that it is over this").if_known(),
    number("ttft_p99_ms", "ms", "99th percentile, likewise").or_null(),
    number("ttft_p99_over_ms", "ms", "the data say only that it is over this").if_known(),
    integer("ttft_samples", "", "first tokens that were seen"),
    number("ttft_effective", "", "as many first tokens of equal weight would tell as much"),
    number(
        "whole_p50_ms",
        "ms",
        "median of the time to the whole plain answer, estimated likewise; none without such attempts",
    )
    .if_known(),
    number("whole_p50_over_ms", "ms", "the data say only that the median is over this").if_known(),
    number("whole_p95_ms", "ms", "95th percentile, likewise").if_known(),
    number("whole_p95_over_ms", "ms", "the data say only that it is over this").if_known(),
    number("whole_p99_ms", "ms", "99th percentile, likewise").if_known(),
    number("whole_p99_over_ms", "ms", "the data say only that it is over this").if_known(),
    integer("whole_samples", "", "plain answers that came whole; none without an attempt that was asked for one")
        .if_known(),
    number("tok_s_p50", "tokens/s", "median of tok/s: 1 / TPOT, by the provider's own count").or_null(),
    number("tok_s_p5", "tokens/s", "the slow end of tok/s: 5 % of the answers are slower").or_null(),
    number("tpot_p95_ms", "ms", "95th percentile of the time per output token after the first").or_null(),
    integer("tok_s_samples", "", "attempts whose tok/s is known"),
    integer("requests", "", "requests that were judged by the targets"),
    number("goodput", "requests/s", "requests that met the targets, per second of the window").or_null(),
    number("attainment", "", "requests that met the targets, as a share of `requests`").or_null(),
    number("cost_usd", "USD", "what all attempts cost, as `cost_basis` says").or_null(),
    number("extra_cost_usd", "USD", "what the losers among them cost, as `extra_cost_basis` says").or_null(),
    text("cost_basis", "", "whether the cost is exact, a bound or not known"),
    text("extra_cost_basis", "", "the same of the losers' cost"),
    number("cost_usd_min", "USD", "all attempts cost no less than this; null where none has a price").or_null(),
    number("cost_usd_max", "USD", "and no more than this; null where nothing bounds one of them").or_null(),
    number("extra_cost_usd_min", "USD", "the losers among them cost no less than this").or_null(),
    number("extra_cost_usd_max", "USD", "and no more than this").or_null(),
    number("aggregate_tok_s", "tokens/s", "output tokens that clients got, per second of the window").or_null(),
    number("aggregate_tok_s_with_losers", "tokens/s", "the same of all attempts").or_null(),
    number("client_ttft_p50_ms", "ms", "median of what streaming clients saw, from request to first payload").or_null(),
    number("client_ttft_p95_ms", "ms", "its 95th percentile").or_null(),
    integer("client_ttft_samples", "", "streaming clients that got a first payload"),
    text("best_upstream_p50", "", "the upstream with the best median, in a group of several").if_known(),
    number("gain_p50_ms", "ms", "what it alone would have given, less what the clients saw").if_known(),
    text("best_upstream_p95", "", "the upstream with the best 95th percentile, in a group of several").if_known(),
    number("gain_p95_ms", "ms", "what it alone would have given, less what the clients saw").if_known(),
];

/// What is worse, in the order of JSON and CSV. A figure has no members of the other figures: these are null.
pub const REGRESSION: [MemberField; 13] = [
    text("upstream", "", "provider and its name for the model: `PROVIDER/MODEL`"),
    text("figure", "", "what is worse: `ttft`, `tpot` or `failures`"),
    number("quantile", "", "which quantile `before_ms` and `now_ms` are; null where none was reached").or_null(),
    number("before_ms", "ms", "the quantile in the same hours before").or_null(),
    number("now_ms", "ms", "the quantile now").or_null(),
    number("ratio", "", "`now_ms` / `before_ms`").or_null(),
    number("before_share", "", "share of attempts that failed in the same hours before").or_null(),
    number("now_share", "", "share of attempts that fail now").or_null(),
    number("difference", "", "`now_share` − `before_share`").or_null(),
    number(
        "hazard_ratio",
        "",
        "the rate at which first tokens come at equal waiting times, now over before; below 1: later",
    )
    .or_null(),
    number("p_value", "", "how often anything at all would be reported with nothing changed"),
    integer("attempts_before", "", "attempts of the upstream in the same hours before"),
    integer("attempts_now", "", "attempts of the upstream now"),
];

/// A point of a series: its series, its place, and the value under the name of the figure.
pub const POINT: [MemberField; 19] = [
    text("upstream", "", "of which upstream").or_null().if_known(),
    text("model", "", "of which model").or_null().if_known(),
    text("user", "", "of which caller").or_null().if_known(),
    text("concurrency", "", "class of the attempts running at the upstream").if_known(),
    text("start", "", "where the step begins, as RFC 3339 has it").if_known(),
    number("span_s", "s", "how much of the window lies in the step: what rates are over").if_known(),
    number("quantile", "", "the share that the value does not exceed").if_known(),
    number("ttft_ms", "ms", "time to first token, estimated (Kaplan–Meier); null where not reached")
        .or_null()
        .if_known(),
    number("ttft_over_ms", "ms", "the data say only that it is over this").if_known(),
    number("client_ttft_ms", "ms", "what streaming clients saw, from request to first payload").or_null().if_known(),
    number("tok_s", "tokens/s", "1 / TPOT, by the provider's own count").or_null().if_known(),
    number("goodput", "requests/s", "requests that met the targets, per second").or_null().if_known(),
    number("failure_share", "", "failures as a share of attempts").or_null().if_known(),
    number("cost_usd", "USD", "what the attempts cost, as `cost_basis` says").or_null().if_known(),
    text("cost_basis", "", "whether the cost is exact, a bound or not known").if_known(),
    number("cost_usd_min", "USD", "they cost no less than this").or_null().if_known(),
    number("cost_usd_max", "USD", "and no more than this").or_null().if_known(),
    integer("samples", "", "what the value is from"),
    boolean("firm", "enough samples for such a figure"),
];

/// An event of a race's timeline.
pub const EVENT: [MemberField; 3] = [
    number("at_ms", "ms", "since the client's request was read"),
    integer("attempt", "", "its ordinal; null for what the client saw").or_null(),
    text("event", "", "what happened"),
];
