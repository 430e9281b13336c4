//! The part of `photofinish check` about the database: its size and the time it covers. A database that cannot be read is a
//! warning.
//!
//! Not for a repair: `serve` upgrades a database.

use std::io;

use crate::cli::screen::ScreenSettings;
use crate::cli::text::{YELLOW, brief_bytes, write_section};
use photofinish_config::{self as config, Retention, StoreAddress, units};
use photofinish_history::report::question::time;
use photofinish_history::store::{Extent, OpenError, ReadError, StoreReader, set_aside_files};

/// False: `serve` cannot use it.
pub(super) fn render(
    store: &config::StoreConfig,
    screen: ScreenSettings,
    out: &mut impl io::Write,
) -> io::Result<bool> {
    let retention = match store.retention {
        Retention::Forever => "forever".to_owned(),
        Retention::For(kept) => units::format_duration(kept),
    };
    let (mut rows, usable) = match extent(&store.address) {
        Err(DatabaseProblem::Absent) => {
            (vec![["file".into(), "none yet: `photofinish serve` creates it".into()]], true)
        }
        Ok(extent) => (described(&extent, store.address.is_server()), true),
        Err(DatabaseProblem::Unread { text, usable }) => (vec![["WARNING".into(), text]], usable),
    };
    rows.push(["retention".into(), retention]);
    rows.extend(damaged(&store.address));
    let shaded = |row: [String; 2]| {
        let shade = (row[0] == "WARNING").then_some(YELLOW);
        (Vec::from(row), shade)
    };
    write_section("History", rows.into_iter().map(shaded).collect(), screen, out)?;
    Ok(usable)
}

/// Why a database cannot be read.
enum DatabaseProblem {
    Absent,
    Unread {
        text: String,
        /// `serve` can use it, or it can be read later.
        usable: bool,
    },
}

fn extent(store: &StoreAddress) -> Result<Extent, DatabaseProblem> {
    let reader = StoreReader::open(store).map_err(|error| {
        let passes = |error: &OpenError| matches!(error, OpenError::Server { may_pass: true, .. });
        let usable = passes(&error)
            || matches!(error, OpenError::Empty { .. } | OpenError::Older { .. } | OpenError::Locked { .. });
        match error {
            OpenError::Absent { .. } => DatabaseProblem::Absent,
            error => DatabaseProblem::Unread { text: error.to_string(), usable },
        }
    })?;
    reader.extent().map_err(|error| {
        let usable = !matches!(error, ReadError::Failed { .. });
        DatabaseProblem::Unread { text: error.to_string(), usable }
    })
}

/// Damaged databases that were set aside.
fn damaged(store: &StoreAddress) -> Option<[String; 2]> {
    let files = set_aside_files(store.file()?);
    let newest = files.last()?;
    let others = if files.len() > 1 { format!(", and {} older", files.len() - 1) } else { String::new() };
    let text = format!("a damaged database was set aside: {}{others}. Earlier rows are in it", newest.name);
    Some(["WARNING".into(), text])
}

/// `on_server`: it has no file, and its log is the server's.
fn described(extent: &Extent, on_server: bool) -> Vec<[String; 2]> {
    let Extent { file_bytes, log_bytes, free_bytes, attempts, more, since, rolled_until } = extent;
    let free = match brief_bytes(*free_bytes) {
        _ if *free_bytes == 0 => String::new(),
        free => format!(", {free} of it free"),
    };
    let file = format!("{}{free}", brief_bytes(*file_bytes));
    let log = format!("{} (write-ahead)", brief_bytes(*log_bytes));
    let about = if *more { "more than " } else { "" };
    let since = since.map_or_else(String::new, |since| format!(", since {}", time(since)));
    let rolled = rolled_until.map_or_else(|| "nothing yet".to_owned(), |until| format!("until {}", time(until)));
    let space = match on_server {
        true => vec![["database".into(), file]],
        false => vec![["file".into(), file], ["log".into(), log]],
    };
    let content = [["attempts".into(), format!("{about}{attempts}{since}")], ["rolled up".into(), rolled]];
    space.into_iter().chain(content).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::cli::screen::PIPED;
    use crate::cli::text::joined;
    use photofinish_facts::record::{Record, sample};
    use photofinish_history::store::Store;

    fn rendered(path: &Path, retention: Retention) -> (bool, String) {
        let mut out = Vec::new();
        let usable =
            render(&config::StoreConfig { address: path.into(), retention, outage_allowance: 0.05 }, PIPED, &mut out)
                .unwrap();
        (usable, String::from_utf8(out).unwrap())
    }

    #[tokio::test]
    async fn a_database_is_described_and_a_bad_one_is_a_warning() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history.db");
        let (usable, text) = rendered(&path, Retention::Forever);
        assert!(usable && text.contains("none yet") && text.contains("forever") && !path.exists(), "{text}");
        let store = Store::open(&path).unwrap();
        store.write(&[Record::Attempt(Box::new(sample::won(0)))]).unwrap();
        let (usable, text) = rendered(&path, Retention::For(Duration::from_secs(90 * 86_400)));
        for words in ["KiB\n", "1, since 2026-01-02T03:04:05Z", "nothing yet", "90d"] {
            assert!(usable && text.contains(words), "{words}: {text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        store.close();
        for name in ["history.db.damaged-20260102T030405Z", "history.db.damaged-20260103T030405Z"] {
            std::fs::write(path.with_file_name(name), "").unwrap();
        }
        let (usable, text) = rendered(&path, Retention::Forever);
        let said = joined(&text);
        assert!(usable && said.contains("set aside: history.db.damaged-20260103T030405Z, and 1 older"), "{text}");
        std::fs::write(&path, "").unwrap();
        let (usable, text) = rendered(&path, Retention::Forever);
        assert!(usable && text.contains("WARNING") && text.contains("photofinish serve"), "{text}");
        std::fs::write(&path, "not a database ".repeat(100)).unwrap();
        let (usable, text) = rendered(&path, Retention::Forever);
        assert!(!usable && text.contains("WARNING") && text.contains("not an SQLite database"), "{text}");
    }
}
