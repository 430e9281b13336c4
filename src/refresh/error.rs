//! Why there is no update. Not for objections, which `--accept` overrules: see `mod`.

/// A sentence for the user.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UpdateError(pub(super) String);
