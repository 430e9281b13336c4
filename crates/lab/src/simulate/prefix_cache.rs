//! A prefix cache as model servers have it: which blocks of 16 tokens were read before, each by a hash of all bytes up to its
//! end. Pure. Not for what a hit saves: see `service`.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hasher};
use std::mem;

/// Bytes of a block: 16 tokens.
const BLOCK: usize = 64;
/// Blocks in one generation, so that two hold 2,097,152 tokens at most.
const GENERATION_MAX: usize = 65_536;

/// The blocks in use lately. When the younger generation is full, the older one is forgotten.
#[derive(Default)]
pub(super) struct PrefixCache {
    young: HashSet<u64>,
    old: HashSet<u64>,
}

impl PrefixCache {
    /// Puts a prompt into the cache. Returns the bytes at its beginning that were there before: whole blocks only, and never the
    /// last byte, since a server has to read something to answer.
    pub(super) fn take_in(&mut self, prompt: &[u8]) -> usize {
        let mut hasher = DefaultHasher::new();
        let (mut found, mut is_prefix) = (0, true);
        for block in prompt[..prompt.len().saturating_sub(1)].chunks_exact(BLOCK) {
            hasher.write(block);
            let hash = hasher.finish();
            is_prefix = is_prefix && self.knows(hash);
            found += if is_prefix { BLOCK } else { 0 };
            if self.young.len() == GENERATION_MAX {
                self.old = mem::take(&mut self.young);
            }
            self.young.insert(hash);
        }
        found
    }

    fn knows(&self, hash: u64) -> bool {
        self.young.contains(&hash) || self.old.contains(&hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_beginning_is_found_in_whole_blocks() {
        let mut cache = PrefixCache::default();
        let text: Vec<u8> = (0..1_000_u32).map(|at| (at % 251) as u8).collect();
        assert_eq!(cache.take_in(&text), 0);
        assert_eq!(cache.take_in(&text), 960, "15 whole blocks");
        assert_eq!(cache.take_in(&text[..640]), 576, "the last byte is always read");
        assert_eq!(cache.take_in(&text[..641]), 640);
        let mut other_end = text.clone();
        other_end[400] ^= 1;
        assert_eq!(cache.take_in(&other_end), 384);
        let mut other_start = text.clone();
        other_start[0] ^= 1;
        assert_eq!(cache.take_in(&other_start), 0, "the same blocks after another beginning");
        assert_eq!((cache.take_in(b""), cache.take_in(b"hi")), (0, 0));
    }

    #[test]
    fn it_forgets_what_is_long_unused_and_stays_small() {
        let mut cache = PrefixCache::default();
        let prompt = |number: u32| number.to_le_bytes().repeat(5 * BLOCK);
        assert_eq!(cache.take_in(&prompt(0)), 0);
        for number in 1..10_000 {
            cache.take_in(&prompt(number));
            assert!(cache.young.len() <= GENERATION_MAX && cache.old.len() <= GENERATION_MAX);
            if number % 2_000 == 0 {
                assert!(cache.take_in(&prompt(1)) > 0, "in use");
            }
        }
        assert_eq!(cache.take_in(&prompt(0)), 0);
    }
}
