//! What `table`, `notes` and `objects` write.

use super::options::ReplayOptions;
use crate::config::ModelConfig;
use crate::replay::{PastRequests, ReplayReport};

/// The result of one run.
pub(super) struct Report<'a> {
    pub model: &'a ModelConfig,
    pub past: &'a PastRequests,
    pub answer: &'a ReplayReport,
    pub options: &'a ReplayOptions,
    /// Whether there are more requests than are played.
    pub cut: bool,
    /// Of models that were not chosen: name and requests.
    pub others: &'a [(String, usize)],
    /// The row that replays what was done, or why there is none.
    pub as_it_was: Result<(), String>,
}
