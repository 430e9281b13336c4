//! Where a request comes from, for the columns of its race.

use super::names::RaceSource;
use photofinish_base::clock::Instant;

/// Who asked for a race, and for which run. An extension of a request of this process; a client has no way to send one.
#[derive(Clone, Debug, Default)]
pub struct RequestOrigin {
    pub source: RaceSource,
    /// The run that the request belongs to.
    pub run_id: Option<String>,
    /// The kind of prompt and answer, such as `1k`.
    pub workload: Option<String>,
    /// When the request was to leave, for requests of a schedule.
    pub scheduled: Option<Instant>,
}
