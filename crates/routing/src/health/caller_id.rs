//! An anonymous id of a caller. One caller's failures must not close an upstream for all callers. Not for
//! authentication.

use std::hash::{DefaultHasher, Hash, Hasher};

/// A hash of the user's name.
#[derive(Clone, Copy, Debug)]
pub struct CallerId {
    id: u64,
    /// The configuration has fewer than two users, so one caller's failures concern all requests.
    alone: bool,
}

impl CallerId {
    /// `user`: None if the configuration has no users. `users`: their number.
    pub fn new(user: Option<&str>, users: usize) -> CallerId {
        let mut hasher = DefaultHasher::new();
        user.hash(&mut hasher);
        CallerId { id: hasher.finish(), alone: users < 2 }
    }

    pub(super) fn id(self) -> u64 {
        self.id
    }

    /// None if there is only one caller.
    pub(super) fn for_breaker(self) -> Option<u64> {
        (!self.alone).then_some(self.id)
    }

    /// How many callers must meet the same failure before it applies to all callers.
    pub(super) fn witnesses(self) -> usize {
        if self.alone { 1 } else { 2 }
    }
}
