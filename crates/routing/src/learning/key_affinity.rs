//! Which of a provider's keys a conversation used last: that account has the conversation's beginning cached. Conversations and keys
//! are salted hashes; no text and no key is kept. Not for choosing a key, which is `routing::keyring`'s.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use super::prefixes::{BLOCK, TwoGenerations};

/// Conversations with providers that are remembered; about 32 bytes each.
const KEPT_MAX: usize = 50_000;

/// Maps the salted hash of provider and conversation to the hash of a key's id.
#[derive(Debug, Default)]
pub struct KeptKeys {
    salt: RandomState,
    used: Mutex<TwoGenerations<u64>>,
}

/// One conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConversationId(u64);

impl KeptKeys {
    /// `opening`: what every request of it begins with. `prompt`: bytes of this one's; none for one that is too short to be
    /// cached, so that short ones take their turns.
    pub fn conversation(&self, opening: &[&[u8]], prompt: usize) -> Option<ConversationId> {
        (prompt >= BLOCK).then(|| ConversationId(self.salt.hash_one(opening)))
    }

    /// It uses this key now.
    pub fn note(&self, provider: &str, conversation: ConversationId, key_id: &str, now_us: i64) {
        let (place, key) = (self.place(provider, conversation), self.salt.hash_one(key_id));
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.make_room(KEPT_MAX, now_us);
        used.insert(place, key, now_us);
    }

    /// The place of the key among these that it used within the last five minutes.
    pub fn place_of<'k>(
        &self,
        provider: &str,
        conversation: ConversationId,
        mut key_ids: impl Iterator<Item = &'k str>,
        now_us: i64,
    ) -> Option<usize> {
        let place = self.place(provider, conversation);
        let key = self.used.lock().unwrap_or_else(PoisonError::into_inner).get(place, now_us)?;
        key_ids.position(|key_id| self.salt.hash_one(key_id) == key)
    }

    fn place(&self, provider: &str, conversation: ConversationId) -> u64 {
        self.salt.hash_one((provider, conversation.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use photofinish_base::clock::SECOND_US;

    #[test]
    fn a_conversation_keeps_its_key_for_five_minutes_after_its_latest_use() {
        let kept = KeptKeys::default();
        let conversation = |text: &str| kept.conversation(&[b"tools", text.as_bytes()], BLOCK).unwrap();
        let (one, other) = (conversation("one"), conversation("other"));
        let place = |provider, conversation, seconds| {
            kept.place_of(provider, conversation, ["k1", "k2", "k3"].into_iter(), seconds * SECOND_US)
        };
        assert_eq!(place("p", one, 0), None);
        kept.note("p", one, "k2", 0);
        assert_eq!((place("p", one, 1), place("p", other, 1), place("q", one, 1)), (Some(1), None, None));
        kept.note("p", one, "k3", 200 * SECOND_US);
        assert_eq!((place("p", one, 499), place("p", one, 500)), (Some(2), None), "the latest one");
        kept.note("p", one, "gone", 600 * SECOND_US);
        assert_eq!(place("p", one, 600), None, "a reload took it away");
        assert_eq!(kept.conversation(&[b"short"], BLOCK - 1), None, "too short to be cached");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let kept = KeptKeys::default();
        for number in 0..KEPT_MAX as u64 + 10 {
            kept.note("p", ConversationId(number), "k1", 1);
        }
        assert!(kept.used.lock().unwrap().len() <= KEPT_MAX);
        let latest = ConversationId(KEPT_MAX as u64 + 9);
        assert_eq!(kept.place_of("p", latest, ["k1"].into_iter(), 2), Some(0));
    }
}
