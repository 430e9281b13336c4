//! Tokens per byte of request at one upstream, from its recent counts: bounds for the cost of attempts without a count. Not an
//! estimate.

use std::sync::{Mutex, PoisonError};

use photofinish_history::bill::PerByte;

/// Fewer counted prompts than this tell little of the next one.
const FEW: u32 = 20;
/// Counted prompts after which the older half is forgotten.
const GENERATION: u32 = 1_000;

/// For one upstream, or for all.
#[derive(Debug, Default)]
pub struct Prompts {
    seen: Mutex<RatioGenerations>,
}

/// The older one is dropped whole when the newer is full.
#[derive(Debug, Default)]
struct RatioGenerations {
    newer: Option<PerByte>,
    older: Option<PerByte>,
    /// Prompts in the newer one.
    count: u32,
}

impl Prompts {
    /// Records one prompt: its tokens, and the bytes of its request.
    pub fn counted(&self, tokens: i64, bytes: i64) {
        let Some(ratio) = PerByte::of(tokens, bytes) else { return };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.count >= GENERATION {
            seen.older = seen.newer.take();
            seen.count = 0;
        }
        seen.newer = Some(seen.newer.map_or(ratio, |newer| newer.union(ratio)));
        seen.count += 1;
    }

    /// Between which bounds the next one lies; none where nothing was counted.
    pub fn per_byte(&self) -> Option<PerByte> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let both = [seen.newer, seen.older].into_iter().flatten().reduce(PerByte::union)?;
        let few = seen.older.is_none() && seen.count < FEW;
        Some(if few { both.widened() } else { both })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_are_those_of_the_prompts_that_were_counted_lately() {
        let prompts = Prompts::default();
        assert_eq!(prompts.per_byte(), None);
        prompts.counted(0, 100);
        prompts.counted(7, 0);
        assert_eq!(prompts.per_byte(), None, "nothing to divide");
        prompts.counted(50, 100);
        assert_eq!(prompts.per_byte(), Some(PerByte { least: 0.25, most: 1.0 }), "few: twice as wide");
        (1..FEW).for_each(|_| prompts.counted(25, 100));
        assert_eq!(prompts.per_byte(), Some(PerByte { least: 0.25, most: 0.5 }));
        (0..GENERATION).for_each(|_| prompts.counted(30, 100));
        assert_eq!(prompts.per_byte(), Some(PerByte { least: 0.25, most: 0.5 }));
        (0..GENERATION).for_each(|_| prompts.counted(30, 100));
        assert_eq!(prompts.per_byte(), Some(PerByte { least: 0.3, most: 0.3 }), "the rest is long ago");
    }
}
