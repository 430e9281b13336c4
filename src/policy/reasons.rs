//! The reasons behind a race's decisions, collected until the race's row is written. Not for the decisions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use crate::routing::adaptive::Why;

/// A set of [`Why`]. Clones share one set.
#[derive(Clone, Debug, Default)]
pub struct Reasons {
    bits: Arc<AtomicU16>,
}

impl Reasons {
    pub fn add(&self, why: Why) {
        self.bits.fetch_or(bit(why), Relaxed);
    }

    /// The codes, separated by spaces; none if the set is empty.
    pub fn text(&self) -> Option<String> {
        let bits = self.bits.load(Relaxed);
        let codes: Vec<&str> = Why::ALL.into_iter().filter(|why| bits & bit(*why) != 0).map(Why::as_str).collect();
        (!codes.is_empty()).then(|| codes.join(" "))
    }
}

fn bit(why: Why) -> u16 {
    Why::ALL.iter().position(|other| *other == why).map_or(0, |place| 1 << place)
}
