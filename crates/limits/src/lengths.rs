//! How long the answers of each caller are, by model: what its next one is likely to cost. Not for what others' answers are like: see
//! `money`.

use std::sync::{Mutex, PoisonError};

use photofinish_base::recent::Recent;

/// Answers of one caller and model that are remembered.
const REMEMBERED_MAX: usize = 64;
/// Callers and models that are remembered.
const CALLERS_MAX: usize = 2_000;
/// Answers from which on a caller's own are what is usual.
const ENOUGH: usize = 30;

/// By caller and model, as hashes.
pub struct AnswerLengths(Mutex<Recent<(u64, u64), Vec<u32>>>);

/// What a caller's answers of a model were like lately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnLengths {
    /// What 95 of 100 stay below, in tokens.
    pub p95: u32,
    /// There are enough of them to go by.
    pub is_known: bool,
}

impl Default for AnswerLengths {
    fn default() -> AnswerLengths {
        AnswerLengths(Mutex::new(Recent::new(CALLERS_MAX)))
    }
}

impl AnswerLengths {
    /// A whole answer had `tokens`.
    pub fn add(&self, of: (u64, u64), tokens: u64) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lengths = all.remove(&of).unwrap_or_default();
        if lengths.len() == REMEMBERED_MAX {
            lengths.remove(0);
        }
        lengths.push(u32::try_from(tokens).unwrap_or(u32::MAX));
        all.get_or_make(&of, || lengths);
    }

    /// None: no answer is known.
    pub fn of(&self, of: (u64, u64)) -> Option<OwnLengths> {
        let mut lengths = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&of)?;
        let (at, is_known) = ((lengths.len() * 95 / 100).min(lengths.len() - 1), lengths.len() >= ENOUGH);
        let (_, p95, _) = lengths.select_nth_unstable(at);
        Some(OwnLengths { p95: *p95, is_known })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirty_answers_are_enough_and_old_ones_are_forgotten() {
        let lengths = AnswerLengths::default();
        assert_eq!(lengths.of((1, 1)), None);
        for count in 1..=ENOUGH {
            lengths.add((1, 1), 10);
            assert_eq!(lengths.of((1, 1)), Some(OwnLengths { p95: 10, is_known: count == ENOUGH }));
        }
        (0..REMEMBERED_MAX).for_each(|_| lengths.add((1, 1), 1_000));
        assert_eq!(lengths.of((1, 1)).map(|own| own.p95), Some(1_000));
        assert_eq!(lengths.of((2, 1)), None, "another caller");
    }
}
