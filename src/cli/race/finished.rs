//! The races of the command that are over, with their rows and what was answered. Those of a loser that runs on come late.

use std::collections::BTreeMap;

use super::summary::FinishedRace;
use photofinish_history::store::Record;

/// Races that are over, and the answers of races that still run.
#[derive(Default)]
pub struct FinishedRaces {
    answers: BTreeMap<String, String>,
    pub done: Vec<FinishedRace>,
}

impl FinishedRaces {
    /// All rows of one race. None where the race's own is not among them.
    pub fn take(&mut self, rows: &[Record]) -> Option<&FinishedRace> {
        let (mut of_race, mut attempts) = (None, Vec::new());
        for row in rows {
            match row {
                Record::Race(race) => of_race = Some((**race).clone()),
                Record::Attempt(attempt) => attempts.push((**attempt).clone()),
                Record::Run(_) => {}
            }
        }
        let race = of_race?;
        attempts.sort_by_key(|attempt| attempt.ordinal);
        let answer = self.answers.remove(&race.race_id).unwrap_or_default();
        self.done.push(FinishedRace { race, attempts, answer });
        self.done.last()
    }

    /// What that race was answered; it is not over yet.
    pub fn answered(&mut self, race_id: &str, answer: String) {
        self.answers.insert(race_id.to_owned(), answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use photofinish_history::record::sample;

    #[test]
    fn a_race_is_done_with_its_attempts_in_order() {
        let mut rows = FinishedRaces::default();
        let (won, lost) = (Record::Attempt(Box::new(sample::won(1))), Record::Attempt(Box::new(sample::lost(1, 5))));
        rows.answered(&sample::race_id(1), "hello".to_owned());
        let done = rows.take(&[lost, won.clone(), Record::Race(Box::new(sample::race(1)))]).unwrap();
        assert_eq!(done.attempts.iter().map(|row| row.ordinal).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(done.answer, "hello");
        assert!(rows.take(&[won]).is_none() && rows.done.len() == 1);
    }
}
