//! The answer for programs: one JSON object, times in milliseconds. Not for people: see `cli`.

use serde_json::{Map, Value, json};

use super::answer::ReplayRow;
use super::figures::{FIGURES, Interval, ReplayFigure, ReplayFigures};
use super::history::PlayedHistory;
use photofinish_history::report::question::time;

/// The answer as one object.
pub fn object(report: &PlayedHistory) -> Value {
    let (past, answer) = (&report.past, &report.answer);
    let mut rows = vec![row("recorded", &answer.recorded, &answer.recorded_intervals, None)];
    rows.extend(answer.rows.iter().map(|one| row(&one.name, &one.figures, &one.intervals, Some(one))));
    let upstreams = answer.counts.iter().zip(&answer.expected).map(|(counts, expected)| {
        json!({
            "upstream": counts.upstream,
            "seen": counts.seen,
            "cut": counts.cut,
            "failed": counts.failed,
            "never_tried": counts.never,
            "beyond": number(expected.unknown()),
            "load_slope": number(expected.load_slope()),
        })
    });
    let left_out = past.left_out.iter().map(|(name, watched)| json!({ "upstream": name, "watched": watched }));
    json!({
        "model": report.model.name,
        "since": time(answer.span_us.0),
        "until": time(answer.span_us.1),
        "requests": answer.requests,
        "warm_up": answer.warm_up,
        "counted": answer.counted,
        "cut_to_newest": report.cut,
        "client_left": past.gone,
        "plain": past.plain,
        "policies": past.policies,
        "draws": answer.draws,
        "stretches": answer.blocks,
        "seed": report.question.seed,
        "cost_unit": if past.priced { "usd" } else { "tokens" },
        "rows": rows,
        "upstreams": upstreams.collect::<Vec<_>>(),
        "left_out": left_out.collect::<Vec<_>>(),
    })
}

fn row(name: &str, figures: &ReplayFigures, intervals: &[Interval], replayed: Option<&ReplayRow>) -> Value {
    let mut object = Map::new();
    object.insert("row".to_owned(), json!(name));
    for (place, figure) in FIGURES.iter().enumerate() {
        let scale = scale(*figure);
        let mut value = json!({
            "value": number(figures[place] * scale),
            "low": number(intervals[place].low * scale),
            "high": number(intervals[place].high * scale),
        });
        if let (Some(row), Some(value)) = (replayed, value.as_object_mut()) {
            let interval = row.change_intervals[place];
            value.insert("guess".to_owned(), json!(row.is_guess(*figure)));
            value.insert("change".to_owned(), number(row.changes[place]));
            value.insert("change_low".to_owned(), number(interval.low));
            value.insert("change_high".to_owned(), number(interval.high));
        }
        object.insert(figure.name().to_owned(), value);
    }
    if let Some(row) = replayed {
        object.insert("drawn".to_owned(), number(1.0 - row.seen));
        object.insert("assumed".to_owned(), number(row.assumed));
    }
    Value::Object(object)
}

fn scale(figure: ReplayFigure) -> f64 {
    if figure.name().ends_with("_ms") { 1e-3 } else { 1.0 }
}

/// To nine digits behind the point; null for what is none.
fn number(value: f64) -> Value {
    if value.is_finite() { json!((value * 1e9).round() / 1e9) } else { Value::Null }
}
