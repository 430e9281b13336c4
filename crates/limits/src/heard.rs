//! What was heard of all gateways that share limits, and whose turn it is. Not for what follows from it: see `replicas`.

use std::collections::HashMap;
use std::sync::Arc;

use super::level::LevelName;
use super::window::LimitClock;

/// How long one gateway has its turn to use what is too large for its part. In the last quarter none has it, so that the next one knows
/// what was used.
pub(super) const TURN_US: i64 = 4_000_000;

/// What one gateway reports of one subject.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SubjectUse {
    /// Requests and tokens since its start, less those given back.
    pub counted: [i64; 2],
    /// Of these, in the last two seconds.
    pub lately: [i64; 2],
    /// What its limits let in each minute, for one that knows no limit of this subject yet. 0: no limit.
    pub per_minute: [u64; 2],
    /// Requests that were asked for lately, let in or not.
    pub demand: f64,
    /// At once, now.
    pub streams: u32,
}

/// The last report of another gateway.
#[derive(Clone, Debug)]
pub struct ReplicaUse {
    pub id: i64,
    /// When it reported this, by the clock of the store, microseconds since 1970.
    pub beat_at: i64,
    /// When it had heard the others last before that, by the same clock. `i64::MIN`: never.
    pub heard_at: i64,
    pub subjects: HashMap<LevelName, SubjectUse>,
}

/// What was heard of all gateways, for each subject.
#[derive(Debug)]
pub(super) struct HeardUse {
    pub own: i64,
    pub own_use: HashMap<LevelName, SubjectUse>,
    pub others: Vec<ReplicaUse>,
    /// Of all, in order.
    pub ids: Vec<i64>,
    /// The number of the turn. None: between two turns.
    pub turn: Option<i64>,
    /// By the clock of the store.
    pub store_us: i64,
    pub now_us: i64,
    /// Each of the others has read the reports before this, by the clock of the store.
    pub agreed_us: i64,
}

impl HeardUse {
    pub fn of(
        own: i64,
        own_use: HashMap<LevelName, SubjectUse>,
        others: Vec<ReplicaUse>,
        store_us: i64,
        now: LimitClock,
    ) -> Arc<HeardUse> {
        let mut ids: Vec<i64> = others.iter().map(|other| other.id).chain([own]).collect();
        ids.sort_unstable();
        let is_open = store_us.rem_euclid(TURN_US) < TURN_US / 4 * 3;
        let turn = is_open.then(|| store_us.div_euclid(TURN_US));
        let agreed_us = others.iter().map(|other| other.heard_at).min().unwrap_or(i64::MAX);
        Arc::new(HeardUse { own, own_use, others, ids, turn, store_us, now_us: now.us, agreed_us })
    }

    /// The same, without what runs.
    pub fn later(&self, store_us: i64, now: LimitClock) -> Arc<HeardUse> {
        let mut others = self.others.clone();
        others.iter_mut().flat_map(|other| other.subjects.values_mut()).for_each(|of| of.streams = 0);
        HeardUse::of(self.own, self.own_use.clone(), others, store_us, now)
    }
}
