//! Finds damage to a file: a quick look, over a connection of its own, whether its newest part can be read and has the rows that
//! were written, and the check of the whole file that confirms it. A writer has the pages that it uses in memory, so it may
//! write for hours into an unreadable file.
//!
//! Not for moving a damaged file away: see `set_aside`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::store::open;
use crate::store::symptom::{Symptom, of_file};
use photofinish_base::clock::Instant;

/// How long one check of a damaged file may take. It reads about 250 MB per second from memory, and rests half of the
/// time.
const EXAMINE_FOR: Duration = Duration::from_secs(300);

/// Pages, or virtual machine steps, between two rests: a few milliseconds of work.
const STEPS_BETWEEN_RESTS: i32 = 1_000;

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileFinding {
    Sound,
    Damaged(String),
    /// The disk does not return a part of it.
    Unreadable(String),
    /// The check did not come to its end.
    Unknown(String),
}

/// Checks every page and every index of the file at the path. Blocks.
pub(super) fn examine(path: &Path, stop: impl Fn() -> bool + Send + 'static) -> FileFinding {
    match first_problem(path, stop) {
        Ok(problem) if problem == "ok" => FileFinding::Sound,
        Ok(problem) => FileFinding::Damaged(problem),
        Err(error) => match of_file(&error) {
            Some(Symptom::Damaged) => FileFinding::Damaged(error.to_string()),
            Some(Symptom::Unreadable) => FileFinding::Unreadable(error.to_string()),
            None => FileFinding::Unknown(error.to_string()),
        },
    }
}

/// `ok`, or what is wrong.
#[expect(
    clippy::disallowed_methods,
    reason = "this thread is for work that blocks, and leaves half of a core to requests"
)]
fn first_problem(path: &Path, stop: impl Fn() -> bool + Send + 'static) -> rusqlite::Result<String> {
    // A connection of its own has no page in memory: it reads what is in the file.
    let connection = open::connect(path)?;
    let (began, mut resumed) = (Instant::now(), Instant::now());
    connection.progress_handler(
        STEPS_BETWEEN_RESTS,
        Some(move || {
            std::thread::sleep(resumed.elapsed());
            resumed = Instant::now();
            stop() || began.elapsed() > EXAMINE_FOR
        }),
    )?;
    connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
}

/// How long one look at a damaged file may take.
const LOOK_FOR: Duration = Duration::from_secs(10);

/// Virtual machine steps of SQLite between two checks of the clock.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;

/// Both ends of each table and the newest end of each index.
pub(super) const EDGES: [&str; 8] = [
    "SELECT (SELECT min(race_id) FROM race), (SELECT max(race_id) FROM race)",
    "SELECT (SELECT min(race_id) FROM attempt), (SELECT max(race_id) FROM attempt)",
    "SELECT max(race_id) FROM race WHERE source <> 'client' AND source = 'bench'",
    "SELECT (SELECT min(rowid) FROM rollup), (SELECT max(rowid) FROM rollup)",
    "SELECT max(start) FROM rollup INDEXED BY rollup_start WHERE hours = 1",
    "SELECT max(start) FROM rollup_span WHERE hours = 1",
    "SELECT max(start) FROM rollup_span INDEXED BY rollup_span_due WHERE hours = 1 AND state = 0",
    "SELECT (SELECT max(run_id) FROM run), (SELECT max(started_at) FROM run INDEXED BY run_started_at)",
];

/// The rows of a race in both tables.
pub(super) const ROWS_OF_RACE: &str = "\
    SELECT (SELECT count(*) FROM race WHERE race_id = ?1) + (SELECT count(*) FROM attempt WHERE race_id = ?1)";

/// How many of these rows are missing. `written`: the number of rows of each race.
pub(super) fn look(path: &Path, written: &BTreeMap<&str, u64>) -> rusqlite::Result<u64> {
    let connection = open::connect(path)?;
    let until = Instant::now() + LOOK_FOR;
    connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(move || Instant::now() >= until))?;
    for sql in EDGES {
        connection.query_row(sql, [], |_| Ok(()))?;
    }
    let mut statement = connection.prepare(ROWS_OF_RACE)?;
    written.iter().try_fold(0, |missing, (race_id, rows)| {
        let found: u64 = statement.query_row([race_id], |row| row.get(0))?;
        Ok(missing + rows.saturating_sub(found))
    })
}
