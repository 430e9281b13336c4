//! Why there is no update. Not for objections that somebody may overrule: see `mod`.

/// A sentence for the user.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UpdateError(pub(super) String);
