//! What a run or a day of probes may spend: reserved before a request leaves, settled after it.
//!
//! Spent and reserved together never pass the cap as long as no request costs more than its reservation. A provider may write
//! more than it was asked for, and nothing can stop it. Later reservations are then as many times the estimate as that
//! request cost, so the cap is passed at most by the excess of the requests that were in flight.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

/// The ratio of a reservation to its estimate: a model that thinks may ignore `max_tokens`, and it may begin to do so at any
/// request.
pub const OVERRUN: f64 = 8.0;

/// A cap in USD. Thread-safe.
#[derive(Debug)]
pub struct Spend {
    cap: f64,
    state: Mutex<SpendState>,
    /// A reservation ended.
    ended: Notify,
    /// Held by the task that waits for reservations to end, so that one of many is woken.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Clone, Copy, Debug)]
struct SpendState {
    /// Reservations that have not ended, and their sum.
    held: usize,
    reserved: f64,
    spent: f64,
    /// The ratio of a reservation to its estimate.
    factor: f64,
}

/// Money that is set aside for one request. It is given back in full if it is dropped before it is settled: the request did
/// not leave.
#[derive(Debug)]
pub struct Reservation<'s> {
    spend: &'s Spend,
    estimate: f64,
    usd: f64,
    /// What it came to, once it is settled.
    cost: f64,
}

impl Spend {
    /// `spent`: before, for example earlier on the same day.
    pub fn new(cap: f64, spent: f64) -> Spend {
        let state = SpendState { held: 0, reserved: 0.0, spent, factor: OVERRUN };
        Spend { cap, state: Mutex::new(state), ended: Notify::new(), turn: tokio::sync::Mutex::new(()) }
    }

    /// No cap. What is spent is still counted.
    pub fn unlimited() -> Spend {
        Spend::new(f64::INFINITY, 0.0)
    }

    /// Sets aside what a request may cost; none if that could exceed the cap. `estimate`: its cost if the server keeps to
    /// `max_tokens`.
    pub fn reserve(&self, estimate: f64) -> Option<Reservation<'_>> {
        let mut state = self.state();
        let usd = self.may_cost(&state, estimate)?;
        if state.spent + state.reserved + usd > self.cap {
            return None;
        }
        state.held += 1;
        state.reserved += usd;
        Some(Reservation { spend: self, estimate, usd, cost: 0.0 })
    }

    /// Whether the cap covers such a request once no other is in flight.
    pub fn is_enough_for(&self, estimate: f64) -> bool {
        let state = self.state();
        self.may_cost(&state, estimate).is_some_and(|usd| state.spent + usd <= self.cap)
    }

    /// Like `reserve`, but waits while other reservations are in the way. None: it will never be covered.
    pub async fn reserve_in_turn(&self, estimate: f64) -> Option<Reservation<'_>> {
        let _turn = self.turn.lock().await;
        loop {
            // Before the look at the state, so that no end is missed.
            let ended = self.ended.notified();
            match self.reserve(estimate) {
                Some(reservation) => return Some(reservation),
                None if !self.is_enough_for(estimate) => return None,
                None => ended.await,
            }
        }
    }

    /// At least so much was spent, also by others.
    pub fn raise(&self, usd: f64) {
        let mut state = self.state();
        state.spent = state.spent.max(usd);
    }

    /// USD so far.
    pub fn spent(&self) -> f64 {
        self.state().spent
    }

    /// Spent and set aside.
    pub fn committed(&self) -> f64 {
        let state = self.state();
        state.spent + state.reserved
    }

    pub fn cap(&self) -> Option<f64> {
        self.cap.is_finite().then_some(self.cap)
    }

    /// None: what was free by its price was billed, so nothing bounds the next.
    fn may_cost(&self, state: &SpendState, estimate: f64) -> Option<f64> {
        if self.cap.is_infinite() {
            return Some(0.0);
        }
        state.factor.is_finite().then_some(estimate * state.factor)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, SpendState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reservation<'_> {
    /// The request cost `usd`, or at most that.
    pub fn settle(mut self, usd: f64) {
        self.cost = usd.max(0.0);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut state = self.spend.state();
        state.spent += self.cost;
        if self.cost > self.usd {
            state.factor = state.factor.max(self.cost / self.estimate);
        }
        state.held -= 1;
        // Sums of fractions leave a rest, which would be in the way of the last cents.
        state.reserved = if state.held == 0 { 0.0 } else { (state.reserved - self.usd).max(0.0) };
        drop(state);
        self.spend.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What happens to money, one thing after the other.
    #[derive(Clone, Debug)]
    enum Event {
        /// A request at this price (USD per million tokens, in and out) with `tokens` in and at most out.
        Reserve { prices: (f64, f64), tokens: (f64, f64) },
        /// One in flight fails: it is billed this share of its estimate, often nothing.
        Fail { which: usize, share: f64 },
        /// One in flight is answered, with this multiple of the tokens that it was to have at most.
        Answer { which: usize, thinking: f64 },
        /// One in flight never left.
        Drop { which: usize },
        /// The process begins again, with what was spent.
        Restart,
    }

    fn event() -> impl Strategy<Value = Event> {
        let which = 0_usize..100;
        let share = prop_oneof![Just(0.0), 0.0_f64..1.0];
        let thinking = prop_oneof![4 => 0.0_f64..2.0, 2 => 2.0_f64..8.0, 1 => 8.0_f64..60.0];
        prop_oneof![
            8 => ((0.0_f64..10.0, 0.0_f64..60.0), (1.0_f64..10_000.0, 1.0_f64..2_000.0))
                .prop_map(|(prices, tokens)| Event::Reserve { prices, tokens }),
            2 => (which.clone(), share).prop_map(|(which, share)| Event::Fail { which, share }),
            4 => (which.clone(), thinking).prop_map(|(which, thinking)| Event::Answer { which, thinking }),
            1 => which.prop_map(|which| Event::Drop { which }),
            1 => Just(Event::Restart),
        ]
    }

    /// Room for what sums of fractions leave.
    const REST: f64 = 1e-9;

    proptest! {
        /// While no request costs more than its reservation, spent and reserved never pass the cap. Else they pass it at most by
        /// the excess of the requests that were in flight, and nothing leaves before it is below the cap again. Who exceeds
        /// its reservation once does so no second time by the same factor.
        #[test]
        fn the_cap_is_passed_at_most_by_the_excess_of_what_was_in_flight(
            cap in 0.01_f64..10.0,
            events in prop::collection::vec(event(), 1..300),
        ) {
            let mut spend = Spend::new(cap, 0.0);
            let mut held: Vec<(f64, f64)> = Vec::new();
            let (mut excess, mut dearest) = (0.0, OVERRUN);
            for event in events {
                let mut end = |which: usize, cost: &dyn Fn(f64) -> f64| {
                    if held.is_empty() {
                        return None;
                    }
                    let (estimate, usd) = held.swap_remove(which % held.len());
                    let cost = cost(estimate);
                    Reservation { spend: &spend, estimate, usd, cost: 0.0 }.settle(cost);
                    Some((estimate, usd, cost))
                };
                match event {
                    Event::Reserve { prices, tokens } => {
                        let estimate = (prices.0 * tokens.0 + prices.1 * tokens.1) / 1e6;
                        let is_enough = spend.is_enough_for(estimate);
                        let Some(reservation) = spend.reserve(estimate) else {
                            prop_assert!(!is_enough || !held.is_empty(), "nothing is in its way");
                            continue;
                        };
                        prop_assert!(is_enough && reservation.usd >= estimate * dearest - REST);
                        held.push((estimate, reservation.usd));
                        std::mem::forget(reservation);
                        excess = 0.0;
                    }
                    Event::Fail { which, share } => {
                        end(which, &|estimate| estimate * share);
                    }
                    Event::Answer { which, thinking } => {
                        if let Some((estimate, usd, cost)) = end(which, &|estimate| estimate * thinking)
                            && cost > usd
                        {
                            excess += cost - usd;
                            dearest = dearest.max(cost / estimate);
                        }
                    }
                    Event::Drop { which } => {
                        end(which, &|_| 0.0);
                    }
                    Event::Restart => {
                        // What is in flight ends with the process; what it was billed is in no row.
                        held.clear();
                        spend = Spend::new(cap, spend.spent());
                        dearest = OVERRUN;
                    }
                }
                prop_assert!(spend.committed() <= cap + excess + REST, "{} of {cap} + {excess}", spend.committed());
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

    #[test]
    fn an_answer_beyond_its_reservation_makes_all_later_ones_dearer() {
        let spend = Spend::new(1.0, 0.0);
        spend.reserve(0.01).unwrap().settle(0.2);
        assert!(spend.reserve(0.041).is_none(), "twenty times as much");
        assert!(spend.reserve(0.03).is_some());
        let free = Spend::new(1.0, 0.0);
        free.reserve(0.0).unwrap().settle(0.01);
        assert!(free.reserve(0.0).is_none(), "what was free by its price was billed: nothing bounds the next");
        let unlimited = Spend::unlimited();
        unlimited.reserve(0.0).unwrap().settle(0.01);
        assert!(unlimited.reserve(0.0).is_some() && unlimited.reserve(1.0).is_some());
    }

    #[tokio::test]
    async fn whoever_waits_gets_what_others_give_back() {
        let spend = Spend::new(1.0, 0.0);
        let first = spend.reserve(0.1).unwrap();
        assert!(spend.reserve(0.1).is_none() && spend.is_enough_for(0.1));
        let waits = async || spend.reserve_in_turn(0.1).await.map(|own| own.settle(0.1)).is_some();
        let (one, two, three, ()) = tokio::join!(waits(), waits(), waits(), async { first.settle(0.05) });
        assert_eq!([one, two, three], [true, true, false], "what is left covers no reservation of 0.8");
        assert!((spend.spent() - 0.25).abs() < 1e-9);
    }
}
