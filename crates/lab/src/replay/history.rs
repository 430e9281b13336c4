//! A question to the history: which requests are read, of which model, and the result of playing them.
//!
//! Not for playing: see `answer`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::answer::{FIGURES, Interval, ProgressReport, ReplayFigure, ReplayFigures, ReplayReport, ReplayRow, replay};
use super::past_requests::PastRequests;
use super::question::ReplayQuestion;
use photofinish_config::{Config, ModelConfig};
use photofinish_history::report::question::time;
use photofinish_history::store::{ReadError, RecordedFilter, StoreReader};

/// The result.
pub enum ReplayedHistory {
    /// No request in the window.
    Nothing,
    /// Of no upstream enough is known.
    TooLittle {
        model: Arc<ModelConfig>,
        past: Box<PastRequests>,
    },
    Played(Box<PlayedHistory>),
}

/// The requests of one model, and what they were under each policy.
pub struct PlayedHistory {
    pub model: Arc<ModelConfig>,
    pub past: PastRequests,
    pub answer: ReplayReport,
    pub question: ReplayQuestion,
    /// Whether there are more requests than are played.
    pub cut: bool,
    /// Of models that were not chosen: name and requests.
    pub others: Vec<(String, usize)>,
    /// The row that replays what was done, or why there is none.
    pub as_it_was: Result<(), String>,
}

/// By name.
type PastsByModel = BTreeMap<String, (Arc<ModelConfig>, PastRequests)>;

/// Reads the requests and plays them on at most `threads`. `wanted`: None is the model with the most requests.
///
/// # Errors
/// The history cannot be read.
pub fn ask(
    reader: &StoreReader,
    config: &Config,
    (question, wanted): (ReplayQuestion, Option<&Arc<ModelConfig>>),
    now_us: i64,
    threads: usize,
    progress: ProgressReport<'_>,
) -> Result<ReplayedHistory, ReadError> {
    let (mut pasts, cut) = read(reader, config, wanted, &question, now_us)?;
    let Some((model, mut past)) = most(&mut pasts) else { return Ok(ReplayedHistory::Nothing) };
    past.settle();
    let (plans, as_it_was) = question.plans(&model, &past);
    let Some(answer) = replay(&past, &plans, question.seed, threads, progress) else {
        return Ok(ReplayedHistory::TooLittle { model, past: Box::new(past) });
    };
    let mut others: Vec<(String, usize)> = pasts
        .into_iter()
        .map(|(name, (_, past))| (name, past.requests()))
        .filter(|(_, requests)| *requests > 0)
        .collect();
    others.sort_by_key(|(_, requests)| std::cmp::Reverse(*requests));
    Ok(ReplayedHistory::Played(Box::new(PlayedHistory { model, past, answer, question, cut, others, as_it_was })))
}

/// Of the wanted model, or of every one; and whether older requests of the window were left out.
fn read(
    reader: &StoreReader,
    config: &Config,
    wanted: Option<&Arc<ModelConfig>>,
    question: &ReplayQuestion,
    now_us: i64,
) -> Result<(PastsByModel, bool), ReadError> {
    let filter = RecordedFilter {
        since: question.since.map(|since| since.micros(now_us)),
        until: question.until.map(|until| until.micros(now_us)),
        model: None,
        newest: question.newest,
        source: question.source,
    };
    let models = config.models.values().filter(|model| wanted.is_none_or(|wanted| wanted.name == model.name));
    let mut pasts: PastsByModel =
        models.map(|model| (model.name.clone(), (model.clone(), PastRequests::new(model)))).collect();
    let mut requests = 0;
    reader.recorded(&filter, |recorded| {
        requests += 1;
        let model = config.model(&recorded.model);
        if let Some((_, past)) = model.and_then(|model| pasts.get_mut(&model.name)) {
            past.add(&recorded);
        }
    })?;
    Ok((pasts, requests >= question.newest))
}

/// The model with the most requests that can be played, taken out; None if no model has a request.
fn most(pasts: &mut PastsByModel) -> Option<(Arc<ModelConfig>, PastRequests)> {
    let most = pasts.iter().max_by_key(|(_, (_, past))| (past.requests(), past.plain))?;
    let name = Some(most.0.clone()).filter(|_| most.1.1.requests() > 0 || most.1.1.plain > 0)?;
    pasts.remove(&name)
}

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
    let little_known = past.little_known.iter().map(|(name, tried)| json!({ "upstream": name, "attempts": tried }));
    json!({
        "model": report.model.name,
        "since": time(answer.span_us.0),
        "until": time(answer.span_us.1),
        "requests": answer.requests,
        "warm_up": answer.warm_up,
        "counted": answer.counted,
        "cut_to_newest": report.cut,
        "newest": report.question.newest,
        "client_left": past.gone,
        "plain": past.plain,
        "policies": past.policies,
        "draws": answer.draws,
        "stretches": answer.blocks,
        "seed": report.question.seed,
        "cost_unit": if past.priced { "usd" } else { "tokens" },
        "rows": rows,
        "upstreams": upstreams.collect::<Vec<_>>(),
        "little_known": little_known.collect::<Vec<_>>(),
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
        object.insert("little_known".to_owned(), json!(row.little_known));
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
