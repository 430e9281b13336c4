//! A row of any of the tables. Not for the columns: see `tables`.

use super::tables::{AttemptRecord, IncidentRecord, RaceRecord, RunRecord};

/// One row to be written.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    Race(Box<RaceRecord>),
    Attempt(Box<AttemptRecord>),
    /// Replaces an earlier record of the run, unless that one has ended and this one has not.
    Run(Box<RunRecord>),
    /// Replaces an earlier record of the incident.
    Incident(Box<IncidentRecord>),
}

impl Record {
    /// None: it is of no race.
    pub fn race_id(&self) -> Option<&str> {
        match self {
            Record::Race(race) => Some(&race.race_id),
            Record::Attempt(attempt) => Some(&attempt.race_id),
            Record::Run(_) | Record::Incident(_) => None,
        }
    }
}
