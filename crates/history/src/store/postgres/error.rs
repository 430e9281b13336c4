//! What went wrong at a Postgres server, and whether it may pass.

use std::borrow::Cow;

/// For the operator. It has no password, and no content of a row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::store) enum Error {
    /// The server refused. <https://www.postgresql.org/docs/current/errcodes-appendix.html>
    #[error("{message} (SQLSTATE {code})")]
    Refused { code: String, message: String },
    #[error("the connection to Postgres failed: {0}")]
    Lost(String),
    /// The URL, or a file that it names, makes no sense.
    #[error("{0}")]
    Settings(String),
    #[error("Postgres did not answer in time")]
    TimeLimit,
    #[error("it was stopped")]
    Stopped,
}

impl Error {
    pub fn code(&self) -> &str {
        match self {
            Error::Refused { code, .. } => code,
            _ => "",
        }
    }

    /// Whether the same may succeed later, once the server is back or its operator has acted. False: it is about what was sent.
    pub fn may_pass(&self) -> bool {
        // Data, constraints, and the number of columns.
        !["22", "23", "21"].iter().any(|class| self.code().starts_with(class))
    }

    /// Whether the connection is of no more use: it is gone, it goes to a server that takes nothing, or its plans are of an older schema.
    pub fn ends_connection(&self) -> bool {
        match self {
            Error::Refused { code, .. } => {
                ["08", "57P", "58", "XX"].iter().any(|class| code.starts_with(class))
                    || ["25006", "0A000"].contains(&code.as_str())
            }
            Error::Lost(_) | Error::Settings(_) | Error::TimeLimit | Error::Stopped => true,
        }
    }

    /// Its statement ran longer than it may.
    pub fn is_time_limit(&self) -> bool {
        *self == Error::TimeLimit || self.code() == "57014"
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Error {
        match error {
            sqlx::Error::Database(error) => Error::Refused {
                code: error.code().map_or_else(String::new, Cow::into_owned),
                message: error.message().to_owned(),
            },
            // It may quote the URL.
            sqlx::Error::Configuration(_) => Error::Settings("its url makes no sense".to_owned()),
            sqlx::Error::Io(error) => Error::Lost(error.to_string()),
            sqlx::Error::Tls(error) => Error::Lost(format!("TLS: {error}")),
            error => Error::Lost(error.to_string()),
        }
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        Error::Lost(error.to_string())
    }
}
