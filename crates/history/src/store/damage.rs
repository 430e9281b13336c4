//! The check of a whole file, which confirms that it is damaged.
//!
//! Not for a quick look at what was just written (`look`), nor for moving a damaged file away (`set_aside`).

use std::path::Path;
use std::time::Duration;

use super::open;
use super::symptom::{Symptom, symptom};
use photofinish_base::clock::Instant;

/// Time limit of one check. It reads about 250 MB per second from memory, and rests half of the time.
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
        Err(error) => match symptom(&error) {
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
