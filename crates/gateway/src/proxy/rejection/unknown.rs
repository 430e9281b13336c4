//! Answers to those who ask the history for what it does not have.

use super::{Rejection, code};

impl Rejection {
    pub fn unknown_race(race_id: &str) -> Rejection {
        let message = format!(
            "there is no race {race_id}: it is not written yet, its row was removed, or it never was. GET /api/races \
             lists the newest"
        );
        Rejection::new(code::UNKNOWN_RACE, message)
    }

    /// `why` names the run.
    pub fn unknown_run(why: &str) -> Rejection {
        Rejection::new(code::UNKNOWN_RUN, format!("{why}. GET /api/runs lists the newest"))
    }
}
