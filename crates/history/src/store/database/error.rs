//! What went wrong at a Postgres server, and whether it may pass.

use std::borrow::Cow;

/// For the operator. It has no password, and no content of a row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::store) enum PostgresError {
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

impl PostgresError {
    pub fn code(&self) -> &str {
        match self {
            PostgresError::Refused { code, .. } => code,
            _ => "",
        }
    }

    /// Whether the same may succeed later, once the server is back or its operator has acted. False: it is about what was sent.
    pub fn may_pass(&self) -> bool {
        // Data, constraints, and the number of columns.
        !["22", "23", "21"].iter().any(|class| self.code().starts_with(class))
    }

    /// Whether it concerns all that is asked: the server is away, full or read-only.
    pub fn is_of_the_server(&self) -> bool {
        match self {
            PostgresError::Refused { code, .. } => {
                ["08", "57P", "53", "25006"].iter().any(|class| code.starts_with(class))
            }
            PostgresError::Lost(_) | PostgresError::Stopped | PostgresError::Settings(_) => true,
            PostgresError::TimeLimit => false,
        }
    }

    /// Whether the connection is of no more use: it is gone, it goes to a server that takes nothing, or its plans are of an older schema.
    pub fn ends_connection(&self) -> bool {
        match self {
            PostgresError::Refused { code, .. } => {
                ["08", "57P", "58", "XX"].iter().any(|class| code.starts_with(class))
                    || ["25006", "0A000"].contains(&code.as_str())
            }
            PostgresError::Lost(_) | PostgresError::Settings(_) | PostgresError::TimeLimit | PostgresError::Stopped => {
                true
            }
        }
    }

    /// With what to do about it.
    pub fn advised(&self) -> String {
        match self.code() {
            "42P01" => {
                format!(
                    "{self}. A table of the history is missing: restore it, or name an empty database under [store]"
                )
            }
            "42501" => format!("{self}. Grant this user its tables"),
            _ => self.to_string(),
        }
    }

    /// Its statement ran longer than it may.
    pub fn is_time_limit(&self) -> bool {
        *self == PostgresError::TimeLimit || self.code() == "57014"
    }
}

impl From<sqlx::Error> for PostgresError {
    fn from(error: sqlx::Error) -> PostgresError {
        match error {
            sqlx::Error::Database(error) => PostgresError::Refused {
                code: error.code().map_or_else(String::new, Cow::into_owned),
                message: error.message().to_owned(),
            },
            // It may quote the URL.
            sqlx::Error::Configuration(_) => PostgresError::Settings("its url makes no sense".to_owned()),
            sqlx::Error::Io(error) => PostgresError::Lost(error.to_string()),
            sqlx::Error::Tls(error) => PostgresError::Lost(format!("TLS: {error}")),
            error => PostgresError::Lost(error.to_string()),
        }
    }
}

impl From<std::io::Error> for PostgresError {
    fn from(error: std::io::Error) -> PostgresError {
        PostgresError::Lost(error.to_string())
    }
}
