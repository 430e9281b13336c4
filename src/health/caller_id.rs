//! Tells callers apart, for what one alone must not do to all.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Who asks, as a hash of the user's name.
#[derive(Clone, Copy, Debug)]
pub struct CallerId {
    id: u64,
    /// The configuration has no two users, so what one caller meets, all meet.
    alone: bool,
}

impl CallerId {
    /// `user`: none where the configuration has no users; `users`: how many it has.
    pub fn new(user: Option<&str>, users: usize) -> CallerId {
        let mut hasher = DefaultHasher::new();
        user.hash(&mut hasher);
        CallerId { id: hasher.finish(), alone: users < 2 }
    }

    pub(super) fn id(self) -> u64 {
        self.id
    }

    /// None where there is but one.
    pub(super) fn to_be_told(self) -> Option<u64> {
        (!self.alone).then_some(self.id)
    }

    /// How many callers must have met what is to concern all.
    pub(super) fn witnesses(self) -> usize {
        if self.alone { 1 } else { 2 }
    }
}
