//! Why nothing was done about teams, users and keys. Not for the error that a client gets: see the server's `api`.

use AccountRefusal::{Away, Conflict};

use photofinish_history::store::{ChangeError, OpenError, ReadError};

/// Why nothing was done, for whoever asked.
#[derive(Debug, thiserror::Error)]
pub enum AccountRefusal {
    #[error("{0}")]
    Wrong(String),
    #[error("{0}")]
    Unknown(String),
    #[error("{0}")]
    Conflict(String),
    /// It is of another user or team.
    #[error("{0}")]
    Forbidden(String),
    /// The store cannot be read or written.
    #[error("{0}")]
    Away(String),
}

impl From<OpenError> for AccountRefusal {
    fn from(error: OpenError) -> AccountRefusal {
        Away(error.to_string())
    }
}

impl From<ReadError> for AccountRefusal {
    fn from(error: ReadError) -> AccountRefusal {
        Away(error.to_string())
    }
}

impl From<ChangeError> for AccountRefusal {
    fn from(error: ChangeError) -> AccountRefusal {
        match error {
            ChangeError::Conflict(_) => Conflict(error.to_string()),
            ChangeError::Write(error) => Away(format!("nothing was changed: {error}")),
        }
    }
}
