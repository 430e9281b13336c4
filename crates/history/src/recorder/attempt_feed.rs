//! Attempts of clients on their way to the store, for those who watch for incidents. The writer task puts them here, so that it costs no
//! request.
//!
//! Not for whole rows: see `race_rows`.

use std::sync::{Mutex, PoisonError};

use photofinish_facts::estimate::facts::{MeasuredAttempt, RequestRow, of_race};
use photofinish_facts::estimate::incident::usual::IncidentAttempt;
use photofinish_facts::record::recorded::Recorded;
use photofinish_facts::record::table::Subset as _;
use photofinish_facts::record::{RaceSource, Record};

/// Attempts that wait to be taken; further ones are left out. They are taken several times a minute.
const WAITING_MAX: usize = 100_000;

/// None: no watcher.
#[derive(Debug, Default)]
pub(super) struct AttemptFeed(Mutex<Option<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    attempts: Vec<(String, IncidentAttempt)>,
    /// The race that is read, kept for its memory: the writer reads thousands a second.
    request: RequestRow,
    measured: Vec<MeasuredAttempt>,
}

impl AttemptFeed {
    /// What came since the last call, by upstream; nothing before the first one.
    pub fn take(&self) -> Vec<(String, IncidentAttempt)> {
        std::mem::take(&mut self.waiting().get_or_insert_default().attempts)
    }

    /// The rows of a race follow each other.
    pub fn add(&self, batch: &[Record]) {
        let mut waiting = self.waiting();
        let Some(waiting) = &mut *waiting else { return };
        batch.chunk_by(|a, b| a.race_id() == b.race_id()).for_each(|rows| waiting.add(rows));
    }

    /// A request that another gateway recorded.
    pub fn add_recorded(&self, request: &Recorded) {
        let mut waiting = self.waiting();
        let Some(waiting) = waiting.as_mut().filter(|_| request.source == RaceSource::Client) else { return };
        let room = WAITING_MAX.saturating_sub(waiting.attempts.len());
        let attempts = request.attempts.iter().take(room).map(|attempt| {
            (format!("{}/{}", attempt.provider, attempt.model_sent), IncidentAttempt::of_recorded(request, attempt))
        });
        waiting.attempts.extend(attempts);
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Option<Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// All rows of one race.
    fn add(&mut self, rows: &[Record]) {
        let race = rows.iter().find_map(|row| if let Record::Race(race) = row { Some(race) } else { None });
        let Some(race) = race.filter(|race| race.source == RaceSource::Client) else { return };
        self.request.copy(race);
        let mut count = 0;
        for attempt in
            rows.iter().filter_map(|row| if let Record::Attempt(attempt) = row { Some(attempt) } else { None })
        {
            if count == self.measured.len() {
                self.measured.push(MeasuredAttempt::default());
            }
            self.measured[count].copy(attempt);
            count += 1;
        }
        of_race((0, race.started_at), Some(&self.request), &self.measured[..count], |facts| {
            if self.attempts.len() < WAITING_MAX {
                self.attempts.push((format!("{}/{}", facts.provider, facts.model_sent), IncidentAttempt::of(facts)));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use photofinish_facts::record::{RaceRecord, sample};

    #[test]
    fn attempts_of_clients_are_handed_on() {
        let rows = |n: i64, source| {
            let race = Record::Race(Box::new(RaceRecord { source, ..sample::race(n) }));
            let attempts = [sample::won(n), sample::lost(n, 101_000), sample::failed(n)];
            [race].into_iter().chain(attempts.map(|attempt| Record::Attempt(Box::new(attempt))))
        };
        let incident = Record::Incident(Box::new(sample::incident(0)));
        let batch: Vec<Record> =
            rows(1, RaceSource::Probe).chain(rows(2, RaceSource::Client)).chain([incident]).collect();
        let feed = AttemptFeed::default();
        feed.add(&batch);
        assert!(feed.take().is_empty(), "no watcher");
        feed.add(&batch);
        let taken = feed.take();
        let received: Vec<_> = taken
            .iter()
            .map(|(upstream, attempt)| (upstream.as_str(), attempt.outcome_known, attempt.failed))
            .collect();
        assert_eq!(
            received,
            [("groq/llama-70b", true, false), ("cerebras/llama-70b", false, false), ("my-vllm/llama-70b", true, true)]
        );
        assert!(taken.iter().all(|(_, attempt)| attempt.at_us == sample::race(2).started_at));
        assert!(feed.take().is_empty());
        feed.add(&[Record::Race(Box::new(sample::race(3))), Record::Attempt(Box::new(sample::won(3)))]);
        assert_eq!(feed.take().len(), 1, "nothing of the race before");
    }

    #[test]
    fn so_many_wait() {
        let feed = AttemptFeed::default();
        feed.take();
        let batch: Vec<Record> = (0..1_000)
            .flat_map(|n| [Record::Race(Box::new(sample::race(n))), Record::Attempt(Box::new(sample::won(n)))])
            .collect();
        (0..101).for_each(|_| feed.add(&batch));
        assert_eq!(feed.take().len(), WAITING_MAX);
    }
}
