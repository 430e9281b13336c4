//! Which upstream has lately read the beginning of a prompt, and so may have it cached: a guess from hashes of the prompt's blocks.
//! The hashes are salted at every start, and no text is kept.
//!
//! Not for whether the provider caches at all, which is learned from its reports.

use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use foldhash::quality::RandomState;
use photofinish_base::clock::micros;

/// Bytes of a block: about a thousand tokens. Providers cache no shorter prefix.
pub(super) const BLOCK: usize = 4_096;
/// Blocks of one prompt that are looked at.
const BLOCKS_MAX: usize = 128;
/// How long a provider is expected to keep a prompt's prefix.
const KEPT_FOR: Duration = Duration::from_secs(300);
/// Blocks that are remembered, by upstream; 32 bytes each.
const REMEMBERED_MAX: usize = 200_000;

/// What was seen, by the salted hash of upstream and prefix.
#[derive(Debug, Default)]
pub struct Prefixes {
    salt: RandomState,
    seen: Mutex<TwoGenerations<()>>,
}

/// Values by hash, each with when it was noted. The older half is dropped whole when the newer is full or old, so no
/// search is needed.
#[derive(Debug)]
pub(super) struct TwoGenerations<V> {
    began_us: i64,
    newer: HashMap<u64, (i64, V)>,
    older: HashMap<u64, (i64, V)>,
}

impl<V> Default for TwoGenerations<V> {
    fn default() -> TwoGenerations<V> {
        TwoGenerations { began_us: 0, newer: HashMap::new(), older: HashMap::new() }
    }
}

impl<V: Copy> TwoGenerations<V> {
    /// For what is inserted next, so that not much more than `max` are kept.
    pub fn make_room(&mut self, max: usize, now_us: i64) {
        if self.newer.len() >= max / 2 || now_us - self.began_us >= micros(KEPT_FOR) {
            self.older = std::mem::take(&mut self.newer);
            self.began_us = now_us;
        }
    }

    pub fn insert(&mut self, hash: u64, value: V, now_us: i64) {
        self.newer.insert(hash, (now_us, value));
    }

    /// Entries of the last five minutes.
    pub fn get(&self, hash: u64, now_us: i64) -> Option<V> {
        let (at_us, value) = self.newer.get(&hash).or_else(|| self.older.get(&hash))?;
        (now_us - at_us < micros(KEPT_FOR)).then_some(*value)
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.newer.len() + self.older.len()
    }
}

/// The blocks of one prompt.
#[derive(Clone, Debug, Default)]
pub struct PrefixBlocks {
    /// Each over everything before it too. Shared by the attempts of a race.
    hashes: Arc<[u64]>,
}

impl Prefixes {
    /// `parts`: the prompt in the order in which a provider reads it.
    pub fn blocks(&self, parts: &[&[u8]]) -> PrefixBlocks {
        let mut hashes = Vec::new();
        let mut before = 0;
        for block in parts.iter().flat_map(|part| part.chunks_exact(BLOCK)).take(BLOCKS_MAX) {
            before = self.salt.hash_one((before, block));
            hashes.push(before);
        }
        PrefixBlocks { hashes: hashes.into() }
    }

    /// This upstream has read the prompt.
    pub fn note(&self, upstream: &str, blocks: &PrefixBlocks, now_us: i64) {
        if blocks.hashes.is_empty() {
            return;
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.make_room(REMEMBERED_MAX, now_us);
        for hash in blocks.hashes.iter() {
            seen.insert(self.salt.hash_one((upstream, hash)), (), now_us);
        }
    }

    /// How many bytes of the prompt, from its beginning, this upstream has read within the last five minutes.
    pub fn known_bytes(&self, upstream: &str, blocks: &PrefixBlocks, now_us: i64) -> usize {
        if blocks.hashes.is_empty() {
            return 0;
        }
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let known = |hash: &&u64| seen.get(self.salt.hash_one((upstream, hash)), now_us).is_some();
        blocks.hashes.iter().take_while(known).count() * BLOCK
    }
}

/// Conversations with providers that are remembered; about 32 bytes each.
const KEPT_MAX: usize = 50_000;

/// Maps the salted hash of provider and conversation to the hash of a key's id; or that of a session to that of an upstream.
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

    /// One of a caller's sessions with a model.
    pub fn session(&self, caller: u64, model: &str, session: u64) -> ConversationId {
        ConversationId(self.salt.hash_one((caller, model, session)))
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

    #[test]
    fn a_conversation_that_goes_on_is_known_where_it_was() {
        let prefixes = Prefixes::default();
        let tools = vec![b't'; BLOCK + 10];
        let said: Vec<u8> = (0..3 * BLOCK).map(|at| (at / 7) as u8).collect();
        let first = prefixes.blocks(&[&tools, &said]);
        assert_eq!(first.hashes.len(), 4);
        prefixes.note("a/m", &first, 1);
        let longer = prefixes.blocks(&[&tools, &[&said[..], &[b'x'; BLOCK]].concat()]);
        let known = |upstream, blocks: &PrefixBlocks, now| prefixes.known_bytes(upstream, blocks, now) / BLOCK;
        assert_eq!((known("a/m", &longer, 2), known("b/m", &longer, 2)), (4, 0));
        let other = prefixes.blocks(&[&tools, &said[BLOCK..]]);
        assert_eq!(known("a/m", &other, 2), 1, "only the tools are the same");
        assert_eq!(known("a/m", &first, micros(KEPT_FOR) + 1), 0, "long ago");
        assert_eq!(known("a/m", &prefixes.blocks(&[b"short"]), 2), 0);
        assert_eq!(prefixes.blocks(&[&vec![0; BLOCK * (BLOCKS_MAX + 9)]]).hashes.len(), BLOCKS_MAX);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let prefixes = Prefixes::default();
        for n in 0..REMEMBERED_MAX as i64 {
            prefixes.note("a/m", &PrefixBlocks { hashes: [n as u64].into() }, 1 + n / 1_000);
        }
        let latest = PrefixBlocks { hashes: [REMEMBERED_MAX as u64 - 1].into() };
        assert_eq!(prefixes.known_bytes("a/m", &latest, 1_000), BLOCK);
        let seen = prefixes.seen.lock().unwrap();
        assert!(seen.len() <= REMEMBERED_MAX);
    }
}

#[cfg(test)]
mod key_affinity_tests {
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
