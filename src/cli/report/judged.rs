//! Broken calls in the traffic of clients, for the report. Not for how they are judged.

use serde_json::{Value, json};

use photofinish_history::report::figures::GroupFigures;
use photofinish_history::report::question::TimePoint;
use photofinish_history::report::stats::{self, StatsQuestion};
use photofinish_history::store::{ReadError, StoreReader};

/// The checked answers of one upstream, of clients.
pub struct JudgedCalls {
    pub upstream: String,
    pub judged: u64,
    pub broken: u64,
    /// The share that is broken, with its 95 % bounds.
    pub share: [f64; 3],
}

impl JudgedCalls {
    /// For programs.
    pub fn json(&self) -> Value {
        let [share, low, high] = self.share;
        json!({ "upstream": self.upstream, "judged": self.judged, "broken": self.broken, "broken_share": share,
            "broken_share_min": low, "broken_share_max": high })
    }
}

/// Upstreams of which some answer to tools or a schema was checked.
///
/// # Errors
/// For an operator.
pub fn ask(reader: &StoreReader, since: TimePoint, now_us: i64) -> Result<Vec<JudgedCalls>, ReadError> {
    let stats = stats::ask(reader, &StatsQuestion::by_upstream(since), now_us)?;
    let one = |figures: &GroupFigures| {
        let (share, [judged, broken]) = (figures.broken_share()?, figures.judged);
        Some(JudgedCalls { upstream: figures.keys.first()?.text(), judged, broken, share })
    };
    Ok(stats.groups.iter().filter_map(one).collect())
}
