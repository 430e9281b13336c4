//! The rows of the command's races, as they come: put together, race by race. Those of a loser that runs on come late.

use std::collections::BTreeMap;

use super::summary::Done;
use crate::history::{AttemptRecord, RaceRecord};
use crate::store::Record;

/// Rows of races that are not complete, and those that are.
#[derive(Default)]
pub struct Rows {
    /// By id, so in the order of their beginning.
    open: BTreeMap<String, Open>,
    pub done: Vec<Done>,
}

#[derive(Default)]
struct Open {
    race: Option<RaceRecord>,
    attempts: Vec<AttemptRecord>,
    answer: String,
}

impl Rows {
    /// The race that this row makes complete.
    pub fn take(&mut self, record: &Record) -> Option<&Done> {
        let race_id = match record {
            Record::Race(race) => &race.race_id,
            Record::Attempt(attempt) => &attempt.race_id,
        };
        let open = self.open.entry(race_id.clone()).or_default();
        match record {
            Record::Race(race) => open.race = Some((**race).clone()),
            Record::Attempt(attempt) => open.attempts.push((**attempt).clone()),
        }
        let all =
            open.race.as_ref().is_some_and(|race| usize::try_from(race.attempts).ok() <= Some(open.attempts.len()));
        let complete = if all { self.open.remove(race_id) } else { None };
        self.close(complete?);
        self.done.last()
    }

    /// What that race was answered; it is not complete yet.
    pub fn answered(&mut self, race_id: &str, answer: String) {
        self.open.entry(race_id.to_owned()).or_default().answer = answer;
    }

    /// Nothing more comes: races some of whose rows are missing are done too. Gives these.
    pub fn finish(&mut self) -> &[Done] {
        let before = self.done.len();
        for open in std::mem::take(&mut self.open).into_values() {
            self.close(open);
        }
        &self.done[before..]
    }

    fn close(&mut self, open: Open) {
        let Open { race, mut attempts, answer } = open;
        if let Some(race) = race {
            attempts.sort_by_key(|attempt| attempt.ordinal);
            self.done.push(Done { race, attempts, answer });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::sample;

    #[test]
    fn a_race_is_done_when_all_its_rows_are_there() {
        let mut rows = Rows::default();
        let race = RaceRecord { attempts: 2, ..sample::race(1) };
        let (won, lost) = (Record::Attempt(Box::new(sample::won(1))), Record::Attempt(Box::new(sample::lost(1, 5))));
        assert!(rows.take(&lost).is_none());
        rows.answered(&race.race_id, "hello".to_owned());
        assert!(rows.take(&Record::Race(Box::new(race))).is_none());
        let done = rows.take(&won).unwrap();
        assert_eq!(done.attempts.iter().map(|row| row.ordinal).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(done.answer, "hello");
        // A row of another race that never comes.
        rows.take(&Record::Race(Box::new(sample::race(2))));
        rows.take(&Record::Attempt(Box::new(sample::won(3))));
        assert_eq!(rows.finish().len(), 1);
        assert_eq!(rows.done.len(), 2);
    }
}
