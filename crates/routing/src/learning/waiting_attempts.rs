//! The longest waiting attempts at one upstream, readable without a lock.
//!
//! Not a count of running attempts, and not complete: with all places taken an attempt is not listed.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use crate::routing::adaptive::{OtherWaiting, SendConditions, WAITING_MAX};

/// Waiting attempts that are seen at one upstream.
const PLACES: usize = 16;

/// The places of one upstream.
#[derive(Debug, Default)]
pub struct WaitingPlaces {
    places: [WaitingPlace; PLACES],
}

/// Read in two halves, so for a moment a place may show the time of one attempt with the size of another. For an estimate that makes no
/// difference.
#[derive(Debug, Default)]
struct WaitingPlace {
    /// When it was sent, microseconds of the routing clock; 0: free.
    sent_us: AtomicI64,
    /// The uncached tokens as the bits of an `f32`, and what was in flight.
    sent: AtomicU64,
}

/// The longest waits, longest first.
#[derive(Clone, Copy, Debug)]
pub struct LongestWaiting {
    list: [OtherWaiting; WAITING_MAX],
    len: usize,
}

impl WaitingPlaces {
    /// An attempt was sent at `now_us`, which is above 0. Returns its place. None if all are taken.
    pub fn enter(&self, sent: SendConditions, now_us: i64) -> Option<usize> {
        let take = |place: &WaitingPlace| place.sent_us.compare_exchange(0, now_us, Relaxed, Relaxed).is_ok();
        let taken = self.places.iter().position(take)?;
        let tokens = u64::from((sent.uncached_tokens as f32).to_bits());
        self.places[taken].sent.store(tokens << 32 | u64::from(sent.in_flight), Relaxed);
        Some(taken)
    }

    pub fn leave(&self, place: usize) {
        if let Some(place) = self.places.get(place) {
            place.sent_us.store(0, Relaxed);
        }
    }

    /// Only attempts sent before `before_us`.
    pub fn longest(&self, before_us: i64, now_us: i64) -> LongestWaiting {
        let nothing = OtherWaiting { sent: SendConditions::default(), waited_us: 0 };
        let mut longest = LongestWaiting { list: [nothing; WAITING_MAX], len: 0 };
        for place in &self.places {
            let sent_us = place.sent_us.load(Relaxed);
            if sent_us == 0 || sent_us >= before_us {
                continue;
            }
            let sent = place.sent.load(Relaxed);
            let uncached_tokens = f64::from(f32::from_bits((sent >> 32) as u32));
            let sent = SendConditions { uncached_tokens, in_flight: sent as u32 };
            longest.insert(OtherWaiting { sent, waited_us: now_us - sent_us });
        }
        longest
    }
}

impl LongestWaiting {
    pub fn as_slice(&self) -> &[OtherWaiting] {
        &self.list[..self.len]
    }

    fn insert(&mut self, mut waiting: OtherWaiting) {
        for place in &mut self.list[..self.len] {
            if waiting.waited_us > place.waited_us {
                std::mem::swap(place, &mut waiting);
            }
        }
        if let Some(place) = self.list.get_mut(self.len) {
            *place = waiting;
            self.len += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(tokens: f64) -> SendConditions {
        SendConditions { uncached_tokens: tokens, in_flight: tokens as u32 }
    }

    #[test]
    fn the_longest_waits_come_first() {
        let waits = WaitingPlaces::default();
        for (at_us, tokens) in [(30, 3.0), (10, 1.0), (50, 5.0), (40, 4.0), (20, 2.0), (60, 6.0)] {
            waits.enter(sent(tokens), at_us);
        }
        let listed: Vec<(f64, u32, i64)> = waits
            .longest(60, 100)
            .as_slice()
            .iter()
            .map(|waiting| (waiting.sent.uncached_tokens, waiting.sent.in_flight, waiting.waited_us))
            .collect();
        assert_eq!(listed, [(1.0, 1, 90), (2.0, 2, 80), (3.0, 3, 70), (4.0, 4, 60)]);
        waits.leave(1);
        assert_eq!(waits.longest(25, 100).as_slice(), [OtherWaiting { sent: sent(2.0), waited_us: 80 }]);
        assert!(waits.longest(20, 100).as_slice().is_empty());
    }

    #[test]
    fn an_attempt_without_a_place_is_not_seen() {
        let waits = WaitingPlaces::default();
        let places: Vec<Option<usize>> = (0..PLACES as i64 + 2).map(|at| waits.enter(sent(1.0), 1 + at)).collect();
        assert_eq!(places[PLACES..], [None, None]);
        waits.leave(3);
        waits.leave(PLACES);
        assert_eq!(waits.enter(sent(1.0), 150), Some(3));
    }
}
