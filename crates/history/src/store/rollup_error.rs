//! Why a roll-up, or what goes with it, failed. Not for what happens then: see `rollup`.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode::{CannotOpen, DatabaseBusy, DatabaseLocked, OperationInterrupted, ReadOnly};

use super::open::OpenError;
use super::symptom::symptom;

/// A roll-up or a removal that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot roll up {path}: {reason}")]
pub struct RollupError {
    pub(super) path: PathBuf,
    pub(super) reason: String,
    /// The failed work is postponed: the next step does other work.
    pub is_postponed: bool,
    /// It says that the file may be damaged.
    pub is_of_damage: bool,
}

impl RollupError {
    pub fn new(path: &Path, reason: String) -> RollupError {
        RollupError { path: path.into(), reason, is_postponed: false, is_of_damage: false }
    }

    pub(super) fn unopened(path: &Path, error: &OpenError) -> RollupError {
        RollupError { is_of_damage: error.is_of_damage(), ..RollupError::new(path, error.to_string()) }
    }

    pub(super) fn of(path: &Path, error: &rusqlite::Error) -> RollupError {
        RollupError { is_of_damage: symptom(error).is_some(), ..RollupError::new(path, error.to_string()) }
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum RollupFailure {
    #[error(transparent)]
    Database(#[from] rusqlite::Error),
    #[error("another process rolls it up too")]
    Shared,
    #[error("it panicked")]
    Panic,
}

impl RollupFailure {
    /// Whether the work concerns the whole file, or ends by itself soon.
    pub fn is_of_the_file(&self) -> bool {
        let RollupFailure::Database(error) = self else { return false };
        let code = error.sqlite_error_code();
        matches!(code, Some(DatabaseBusy | DatabaseLocked | OperationInterrupted | CannotOpen | ReadOnly))
    }

    pub fn is_of_damage(&self) -> bool {
        matches!(self, RollupFailure::Database(error) if symptom(error).is_some())
    }
}
