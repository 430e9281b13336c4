//! What an error of SQLite says about the file. Not for confirming it: see `damage`.

use rusqlite::{ErrorCode, ffi};

use crate::store::database::DatabaseError;

/// What an error says about the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symptom {
    /// A page makes no sense.
    Damaged,
    /// The disk does not return a part of the file.
    Unreadable,
}

/// None: the error says nothing about the file, such as a lock or a full disk.
pub(super) fn symptom(error: &DatabaseError) -> Option<Symptom> {
    let DatabaseError::Sqlite(error) = error else { return None };
    of_file(error)
}

/// The same of SQLite's own.
pub(super) fn of_file(error: &rusqlite::Error) -> Option<Symptom> {
    let rusqlite::Error::SqliteFailure(failure, _) = error else { return None };
    match (failure.code, failure.extended_code) {
        (ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase, _) => Some(Symptom::Damaged),
        (
            _,
            ffi::SQLITE_IOERR_READ
            | ffi::SQLITE_IOERR_SHORT_READ
            | ffi::SQLITE_IOERR_DATA
            | ffi::SQLITE_IOERR_CORRUPTFS,
        ) => Some(Symptom::Unreadable),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_and_a_full_disk_say_nothing_about_the_file() {
        let of = |code| of_file(&rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
        for (code, expected) in [
            (ffi::SQLITE_CORRUPT, Some(Symptom::Damaged)),
            (ffi::SQLITE_CORRUPT_INDEX, Some(Symptom::Damaged)),
            (ffi::SQLITE_NOTADB, Some(Symptom::Damaged)),
            (ffi::SQLITE_IOERR_READ, Some(Symptom::Unreadable)),
            (ffi::SQLITE_IOERR_SHORT_READ, Some(Symptom::Unreadable)),
            (ffi::SQLITE_IOERR_CORRUPTFS, Some(Symptom::Unreadable)),
            (ffi::SQLITE_IOERR_WRITE, None),
            (ffi::SQLITE_IOERR_FSYNC, None),
            (ffi::SQLITE_FULL, None),
            (ffi::SQLITE_BUSY, None),
            (ffi::SQLITE_LOCKED, None),
            (ffi::SQLITE_READONLY, None),
            (ffi::SQLITE_CANTOPEN, None),
            (ffi::SQLITE_CONSTRAINT, None),
            (ffi::SQLITE_NOMEM, None),
        ] {
            assert_eq!(of(code), expected, "{code}");
        }
        assert_eq!(of_file(&rusqlite::Error::InvalidQuery), None);
    }
}
