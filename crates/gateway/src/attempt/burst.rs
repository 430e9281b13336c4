//! Detects buffered answers ("fake streams"): their tokens per second measure nothing.

/// With fewer tokens the answer is not judged as buffered.
const TOKENS_MIN: i64 = 16;
const EVENTS_MAX: i64 = 2;
/// Share of the characters within one window that makes an answer buffered.
const SHARE: f64 = 0.9;
const WINDOW_MS: usize = 10;
const TOKENS_PER_SECOND_MAX: f64 = 5_000.0;

/// Characters in a sliding window of ten milliseconds, and its maximum.
#[derive(Debug, Default)]
pub(super) struct BurstMeter {
    by_ms: [i64; WINDOW_MS],
    now_ms: i64,
    sum: i64,
    most: i64,
}

impl BurstMeter {
    /// Payload of this many characters, this long after the dispatch. Times must not decrease.
    pub fn add(&mut self, at_us: i64, chars: i64) {
        let ms = (at_us / 1_000).max(self.now_ms);
        for passed in self.now_ms + 1..=ms.min(self.now_ms + WINDOW_MS as i64) {
            self.sum -= std::mem::take(&mut self.by_ms[passed as usize % WINDOW_MS]);
        }
        self.now_ms = ms;
        self.by_ms[ms as usize % WINDOW_MS] += chars;
        self.sum += chars;
        self.most = self.most.max(self.sum);
    }

    /// Whether a complete answer was buffered.
    pub fn verdict(&self, tokens: i64, events: i64, chars: i64, took_us: i64) -> bool {
        let share = self.most as f64 / chars.max(1) as f64;
        let rate = tokens as f64 / (took_us.max(1) as f64 / 1e6);
        tokens >= TOKENS_MIN && (events <= EVENTS_MAX || share >= SHARE || rate > TOKENS_PER_SECOND_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn most(events: &[(i64, i64)]) -> i64 {
        let mut burst = BurstMeter::default();
        events.iter().for_each(|(at_ms, chars)| burst.add(at_ms * 1_000, *chars));
        burst.most
    }

    #[test]
    fn the_window_slides() {
        assert_eq!(most(&[(0, 1), (9, 1)]), 2);
        assert_eq!(most(&[(0, 1), (10, 1)]), 1);
        assert_eq!(most(&[(5, 1), (13, 50), (14, 50), (22, 3)]), 103);
        assert_eq!(most(&[(5, 7), (5_000, 2), (5_001, 2)]), 7);
    }
}
