//! How often something happened within a minute, by whom it is of. Not for what follows.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use photofinish_base::clock::Instant;
use photofinish_routing::callers::forget_oldest;

/// How long a count lasts, from the first one.
const COUNTED_FOR: Duration = Duration::from_secs(60);
/// Those that are counted at the same time; the longest counted is forgotten for a further one.
const COUNTED_MAX: usize = 10_000;

pub struct MinuteCounts<K>(Mutex<HashMap<K, MinuteCount>>);

struct MinuteCount {
    since: Instant,
    times: u32,
}

impl<K> Default for MinuteCounts<K> {
    fn default() -> MinuteCounts<K> {
        MinuteCounts(Mutex::default())
    }
}

impl<K: Copy + Eq + Hash> MinuteCounts<K> {
    /// Counts one. Returns how many there were, this one included, and for how long they still count.
    pub fn count(&self, of: K, now: Instant) -> (u32, Duration) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |count: &MinuteCount| now.saturating_duration_since(count.since) >= COUNTED_FOR;
        if counts.len() >= COUNTED_MAX && !counts.contains_key(&of) {
            counts.retain(|_, count| !is_over(count));
            forget_oldest(&mut counts, COUNTED_MAX - 1, |count| count.since);
        }
        let count = counts.entry(of).or_insert(MinuteCount { since: now, times: 0 });
        if is_over(count) {
            *count = MinuteCount { since: now, times: 0 };
        }
        count.times = count.times.saturating_add(1);
        (count.times, COUNTED_FOR.saturating_sub(now.saturating_duration_since(count.since)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_take_bounded_memory() {
        let (counts, now) = (MinuteCounts::default(), Instant::now());
        for of in 0..12_000_u64 {
            counts.count(of, now + Duration::from_millis(of));
        }
        let counted = counts.0.lock().unwrap();
        assert_eq!(counted.len(), COUNTED_MAX);
        assert!(!counted.contains_key(&0), "the longest counted is forgotten");
    }
}
