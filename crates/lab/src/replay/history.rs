//! A question to the history: which requests are read, of which model, and what came of playing them.
//!
//! Not for playing: see `answer`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::answer::{ProgressReport, ReplayReport, replay};
use super::past_requests::{PastRequests, REQUESTS_MAX};
use super::question::ReplayQuestion;
use photofinish_config::config::{Config, ModelConfig};
use photofinish_history::store::{ReadError, RecordedFilter, StoreReader};

/// What came of it.
pub enum ReplayedHistory {
    /// No request in the window.
    Nothing,
    /// No upstream was watched enough.
    TooLittle {
        model: Arc<ModelConfig>,
        past: PastRequests,
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
        return Ok(ReplayedHistory::TooLittle { model, past });
    };
    let mut others: Vec<(String, usize)> = pasts
        .into_iter()
        .map(|(name, (_, past))| (name, past.requests()))
        .filter(|(_, requests)| *requests > 0)
        .collect();
    others.sort_unstable_by_key(|(_, requests)| std::cmp::Reverse(*requests));
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
        newest: REQUESTS_MAX,
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
    Ok((pasts, requests >= REQUESTS_MAX))
}

/// The model with the most requests that can be played, taken out; none where none has any request.
fn most(pasts: &mut PastsByModel) -> Option<(Arc<ModelConfig>, PastRequests)> {
    let most = pasts.iter().max_by_key(|(_, (_, past))| (past.requests(), past.plain))?;
    let name = Some(most.0.clone()).filter(|_| most.1.1.requests() > 0 || most.1.1.plain > 0)?;
    pasts.remove(&name)
}
