//! What a run or a day of probes may spend: reserved before a request leaves, settled after it, never above the cap.

use std::sync::{Mutex, PoisonError};

/// A reservation is so many times the estimate: a model that thinks may ignore `max_tokens`, and it may begin to do so at any
/// request.
const OVERRUN: f64 = 8.0;

/// A cap in USD. Thread-safe.
#[derive(Debug)]
pub struct Spend {
    cap: f64,
    state: Mutex<SpendState>,
}

#[derive(Clone, Copy, Debug, Default)]
struct SpendState {
    reserved: f64,
    spent: f64,
}

/// Money that is set aside for one request. It is given back in full if it is dropped before it is settled: the request did
/// not leave.
#[derive(Debug)]
pub struct Reservation<'s> {
    spend: &'s Spend,
    usd: f64,
}

impl Spend {
    /// `spent`: before, for example earlier on the same day.
    pub fn new(cap: f64, spent: f64) -> Spend {
        Spend { cap, state: Mutex::new(SpendState { spent, ..SpendState::default() }) }
    }

    /// No cap. What is spent is still counted.
    pub fn unlimited() -> Spend {
        Spend::new(f64::INFINITY, 0.0)
    }

    /// Sets aside what a request may cost; none if that could exceed the cap. `estimate`: its cost if the server keeps to
    /// `max_tokens`.
    pub fn reserve(&self, estimate: f64) -> Option<Reservation<'_>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let usd = estimate * OVERRUN;
        if state.spent + state.reserved + usd > self.cap {
            return None;
        }
        state.reserved += usd;
        Some(Reservation { spend: self, usd })
    }

    /// At least so much was spent, also by others.
    pub fn raise(&self, usd: f64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.spent = state.spent.max(usd);
    }

    /// USD so far.
    pub fn spent(&self) -> f64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).spent
    }

    /// Spent and set aside.
    pub fn committed(&self) -> f64 {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.spent + state.reserved
    }

    pub fn cap(&self) -> Option<f64> {
        self.cap.is_finite().then_some(self.cap)
    }
}

impl Reservation<'_> {
    /// The request cost `usd`, or at most that.
    pub fn settle(mut self, usd: f64) {
        let mut state = self.spend.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.reserved = (state.reserved - self.usd).max(0.0);
        state.spent += usd.max(0.0);
        self.usd = 0.0;
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if self.usd > 0.0 {
            let mut state = self.spend.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.reserved = (state.reserved - self.usd).max(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Prices, failures that cost nothing, thinking beyond `max_tokens` up to the first factor, requests at once, and
        /// restarts: never above the cap.
        #[test]
        fn spent_and_reserved_never_exceed_the_cap(
            cap in 0.01_f64..10.0,
            steps in prop::collection::vec((0.0_f64..0.2, 0.0_f64..1.0, any::<bool>(), 0_usize..4), 1..200),
            thinks in prop::collection::vec(0.0_f64..8.0, 1..20),
        ) {
            let mut spend = Spend::new(cap, 0.0);
            for (estimate, share, restart, at_once) in steps {
                if restart {
                    spend = Spend::new(cap, spend.spent());
                }
                let held: Vec<_> = (0..=at_once).map_while(|_| spend.reserve(estimate)).collect();
                prop_assert!(spend.committed() <= cap + 1e-9);
                for (place, reservation) in held.into_iter().enumerate() {
                    // Every other one fails and is billed in part; the others think as long as they like.
                    let usd = estimate * if place % 2 == 0 { thinks[place % thinks.len()] } else { share };
                    reservation.settle(usd);
                    prop_assert!(spend.committed() <= cap + 1e-9, "{} of {cap}", spend.committed());
                }
            }
        }
    }

    #[test]
    fn a_request_that_never_left_costs_nothing() {
        let spend = Spend::new(1.0, 0.0);
        drop(spend.reserve(0.1));
        assert_eq!((spend.spent(), spend.committed()), (0.0, 0.0));
        assert!(spend.reserve(0.2).is_none(), "a reservation is eight times the estimate");
    }
}
