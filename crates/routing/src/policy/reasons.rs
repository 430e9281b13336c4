//! The reasons behind a race's decisions, collected until the race's row is written. Not for the decisions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use photofinish_history::reason::DecisionReason;

/// A set of [`DecisionReason`]. Clones share one set.
#[derive(Clone, Debug, Default)]
pub struct DecisionReasons {
    bits: Arc<AtomicU16>,
}

impl DecisionReasons {
    pub fn add(&self, why: DecisionReason) {
        self.bits.fetch_or(bit(why), Relaxed);
    }

    pub fn contains(&self, why: DecisionReason) -> bool {
        self.bits.load(Relaxed) & bit(why) != 0
    }

    /// The codes, separated by spaces; none if the set is empty.
    pub fn text(&self) -> Option<String> {
        let codes: Vec<&str> =
            DecisionReason::ALL.into_iter().filter(|why| self.contains(*why)).map(DecisionReason::as_str).collect();
        (!codes.is_empty()).then(|| codes.join(" "))
    }
}

fn bit(why: DecisionReason) -> u16 {
    DecisionReason::ALL.iter().position(|other| *other == why).map_or(0, |place| 1 << place)
}
