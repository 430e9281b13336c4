//! Hands the rows of a probe to whoever sent it. Not for the rows of clients.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::history::speed::Decoding;
use crate::history::table::Subset as _;
use crate::history::{AttemptOutcome, AttemptRecord, RaceOutcome, RaceSource};
use crate::recorder::{AttemptStep, RaceObserver};
use crate::store::Record;

/// How long a probe waits for its rows after its answer has ended.
const ROWS_WITHIN: Duration = Duration::from_secs(10);
/// Probes whose rows nobody has fetched yet, the newest.
const WAITING_MAX: usize = 64;

/// What the rows of one probe say. Times are microseconds from its dispatch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProbeFacts {
    /// Why it was not answered. None: it was.
    pub failure: Option<String>,
    pub ttft_us: Option<i64>,
    pub e2e_us: Option<i64>,
    pub tpot_us: Option<f64>,
    pub input_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    /// USD at most. None: unknown.
    pub cost_usd: Option<f64>,
    /// Nothing was sent to the upstream.
    pub was_rejected: bool,
}

/// The rows of probes that are over.
#[derive(Debug, Default)]
pub struct ProbeFeed {
    settled: Mutex<VecDeque<(String, ProbeFacts)>>,
    more: Notify,
}

impl ProbeFeed {
    pub fn new() -> Arc<ProbeFeed> {
        Arc::default()
    }

    /// What the rows of this race say, once they are there. None: they do not come.
    pub(super) async fn facts(&self, race_id: &str) -> Option<ProbeFacts> {
        let fetched = async {
            loop {
                let more = self.more.notified();
                tokio::pin!(more);
                // Before the look, so that no row comes unnoticed between the two.
                more.as_mut().enable();
                if let Some(facts) = self.take(race_id) {
                    return facts;
                }
                more.await;
            }
        };
        tokio::time::timeout(ROWS_WITHIN, fetched).await.ok()
    }

    fn take(&self, race_id: &str) -> Option<ProbeFacts> {
        let mut settled = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        let found = settled.iter().position(|(settled, _)| settled == race_id)?;
        settled.remove(found).map(|(_, facts)| facts)
    }
}

impl RaceObserver for ProbeFeed {
    fn step(&self, _attempt: &AttemptRecord, _step: AttemptStep, _at_us: i64) {}

    fn committed(&self, _race_id: &str, _ordinal: i64) {}

    fn recorded(&self, _record: &Record) {}

    fn settled(&self, rows: &[Record]) {
        let Some((race_id, facts)) = facts(rows) else { return };
        let mut settled = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        if settled.len() == WAITING_MAX {
            settled.pop_front();
        }
        settled.push_back((race_id, facts));
        drop(settled);
        self.more.notify_waiters();
    }
}

/// None: the rows of a client.
fn facts(rows: &[Record]) -> Option<(String, ProbeFacts)> {
    let race = rows.iter().find_map(|row| if let Record::Race(race) = row { Some(race) } else { None })?;
    if race.source != RaceSource::Probe {
        return None;
    }
    let attempts =
        rows.iter().filter_map(|row| if let Record::Attempt(attempt) = row { Some(&**attempt) } else { None });
    let attempts: Vec<&AttemptRecord> = attempts.collect();
    let winner = attempts.iter().find(|attempt| Some(attempt.ordinal) == race.winner);
    let told = winner.or(attempts.iter().max_by_key(|attempt| attempt.ordinal));
    let decoding = winner.map(|winner| Decoding::of(winner));
    let is_answered =
        race.outcome == RaceOutcome::Ok && winner.is_some_and(|winner| winner.outcome == AttemptOutcome::Won);
    let failure = told.and_then(|attempt| attempt.failure).unwrap_or(race.outcome.as_str());
    let facts = ProbeFacts {
        failure: (!is_answered).then(|| failure.to_owned()),
        ttft_us: winner.and_then(|winner| winner.first_token_us),
        e2e_us: winner.and_then(|winner| winner.last_token_us),
        tpot_us: decoding.as_ref().and_then(|decoding| decoding.tpot_us(race.n_choices)),
        input_tokens: winner.and_then(|winner| winner.input_tokens),
        output_tokens: decoding.as_ref().and_then(Decoding::tokens_out),
        cost_usd: attempts.iter().map(|attempt| attempt.cost_usd_max).sum(),
        was_rejected: attempts.is_empty(),
    };
    Some((race.race_id.clone(), facts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{RaceRecord, sample};

    fn rows(source: RaceSource, outcome: RaceOutcome, attempt: AttemptRecord) -> Vec<Record> {
        let race = RaceRecord { source, outcome, winner: (outcome == RaceOutcome::Ok).then_some(0), ..sample::race(1) };
        vec![Record::Race(Box::new(race)), Record::Attempt(Box::new(attempt))]
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_rows_of_probes_are_kept_and_each_once() {
        let feed = ProbeFeed::default();
        let race_id = sample::race(1).race_id;
        feed.settled(&rows(RaceSource::Client, RaceOutcome::Ok, sample::won(1)));
        assert_eq!(feed.facts(&race_id).await, None, "a client's");
        let (facts, ()) = tokio::join!(feed.facts(&race_id), async {
            tokio::task::yield_now().await;
            feed.settled(&rows(RaceSource::Probe, RaceOutcome::Ok, AttemptRecord { ordinal: 0, ..sample::won(1) }));
        });
        let facts = facts.unwrap();
        assert_eq!((facts.failure, facts.ttft_us), (None, sample::won(1).first_token_us));
        feed.settled(&rows(RaceSource::Probe, RaceOutcome::Error, sample::failed(1)));
        let failed = feed.facts(&race_id).await.unwrap();
        assert_eq!(failed.failure.as_deref(), sample::failed(1).failure);
        assert_eq!(feed.facts(&race_id).await, None);
    }
}
