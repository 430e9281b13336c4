//! Why there is no update. Not for objections, which `--accept` overrules: see `mod`.

/// A sentence for the user.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UpdateError(pub(super) String);

/// The work on the file stopped; the next try is as good.
impl From<tokio::task::JoinError> for UpdateError {
    fn from(error: tokio::task::JoinError) -> UpdateError {
        UpdateError(error.to_string())
    }
}
