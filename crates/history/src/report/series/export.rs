//! The points for programs: one object each, with names that are part of the public interface.
//!
//! Not for CSV syntax: `report::export` writes it.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{Metric, PointPlace, SeriesDimension, SeriesLine, SeriesPoint, SeriesQuestion, SeriesReport};

/// All names that an object may have, in order; the columns of CSV.
pub fn names(question: &SeriesQuestion) -> Vec<&'static str> {
    let mut names = vec![question.by.name()];
    names.extend(if question.by == SeriesDimension::Concurrency { &["concurrency"][..] } else { &["start", "span_s"] });
    names.extend(question.metric.has_quantile().then_some("quantile"));
    names.push(question.metric.field());
    names.extend((question.metric == Metric::Ttft).then_some("ttft_over_ms"));
    if question.metric == Metric::Cost {
        names.extend(["cost_basis", "cost_usd_min", "cost_usd_max"]);
    }
    names.extend(["samples", "firm"]);
    names
}

/// One object for each point, series by series.
pub fn objects(question: &SeriesQuestion, series: &SeriesReport) -> Vec<Map<String, Value>> {
    let points = series.lines.iter().flat_map(|line| line.points.iter().map(move |point| (line, point)));
    points.map(|(line, point)| object(question, line, point)).collect()
}

impl SeriesDimension {
    /// The name of a series in JSON.
    pub fn name(self) -> &'static str {
        match self {
            SeriesDimension::Upstream | SeriesDimension::Concurrency => "upstream",
            SeriesDimension::Model => "model",
            SeriesDimension::User => "user",
        }
    }
}

impl Metric {
    /// The name in JSON, with the unit; the same as in `stats` where it has the figure.
    fn field(self) -> &'static str {
        match self {
            Metric::Ttft => "ttft_ms",
            Metric::ClientTtft => "client_ttft_ms",
            Metric::TokS => "tok_s",
            Metric::Goodput => "goodput",
            Metric::Failures => "failure_share",
            Metric::Cost => "cost_usd",
        }
    }
}

fn object(question: &SeriesQuestion, line: &SeriesLine, point: &SeriesPoint) -> Map<String, Value> {
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
    put(question.by.name(), line.name.json());
    match point.place {
        PointPlace::Time { start_us, span_us } => {
            put("start", json!(Timestamp::from_microsecond(start_us).ok().map(|start| start.to_string())));
            put("span_s", json!(span_us / 1_000_000));
        }
        PointPlace::Class(class) => {
            put("concurrency", json!(class.name()));
        }
    }
    if let Some(quantile) = question.quantile() {
        put("quantile", json!(quantile));
    }
    put(question.metric.field(), json!(point.value));
    if let Some(over) = point.over {
        put("ttft_over_ms", json!(over));
    }
    if let Some(cost) = &point.cost {
        put("cost_basis", json!(cost.basis().as_str()));
        put("cost_usd_min", json!(cost.min_usd()));
        put("cost_usd_max", json!(cost.max_usd()));
    }
    put("samples", json!(point.samples));
    put("firm", json!(point.firm));
    object
}
