//! The file for rows that the database will never take, beside it: one line of JSON for each, with the reason. So one bad
//! row holds up no other, and can still be looked at.
//!
//! Not for rows that wait: see `spill`.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::write::TableRow;

/// Largest size of the file in bytes: about ten thousand rows. Further rows are lost.
const BYTES_MAX: u64 = 16 << 20;

/// The file of the database at this path.
pub(super) fn file_of(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(".refused");
    path.into()
}

/// Appends the rows. Returns the number of those that there was no room for.
pub(super) fn append<'r, R: TableRow + 'r>(
    path: &Path,
    rows: impl Iterator<Item = (&'r R, &'r str)>,
) -> io::Result<usize> {
    let mut open = OpenOptions::new();
    open.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut open, 0o600);
    let mut file = open.open(path)?;
    let (mut room, mut lines, mut lost) = (BYTES_MAX.saturating_sub(file.metadata()?.len()), Vec::new(), 0);
    for (row, reason) in rows {
        let line = format!("{}\n", json!({ "table": row.table().name(), "reason": reason, "row": row.shown() }));
        match room.checked_sub(line.len() as u64) {
            Some(left) => {
                room = left;
                lines.extend_from_slice(line.as_bytes());
            }
            None => lost += 1,
        }
    }
    file.write_all(&lines)?;
    Ok(lost)
}
