//! What the probes of one day, or of one call of the command, may cost: reserved before a probe leaves, settled after it. Days
//! are those of UTC, and never begin again when the clock is set back.

use std::sync::{Arc, Mutex, PoisonError};

use crate::bench::measured::MeasuredRequest;
use crate::bench::prompt::INPUT_MARGIN;
use crate::bench::spend::{Reservation, Spend};
use photofinish_base::clock::DAY_US;
use photofinish_base::failure::FailureKind;
use photofinish_config::{PING, ProbeSettings, ProbeWorkload, UpstreamConfig};

/// The caps of the days. Thread-safe.
#[derive(Debug, Default)]
pub struct DayCaps(Mutex<DayState>);

#[derive(Debug, Default)]
struct DayState {
    day: i64,
    usd: Option<Arc<Spend>>,
    tokens: Option<Arc<Spend>>,
}

/// What a probe costs if its upstream keeps to `max_tokens`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProbeEstimate {
    /// None: its price is unknown. A server of one's own costs nothing unless it has a price.
    pub usd: Option<f64>,
    pub tokens: f64,
}

/// The caps of one call, or those of the day on which a probe begins.
#[derive(Debug)]
pub struct ProbeCaps {
    usd: Option<Arc<Spend>>,
    tokens: Option<Arc<Spend>>,
    /// Of both caps, for messages.
    names: [&'static str; 2],
}

/// What is set aside for one probe; given back if it is dropped.
#[derive(Default)]
pub(super) struct ProbeReservation<'s> {
    usd: Option<Reservation<'s>>,
    tokens: Option<Reservation<'s>>,
}

impl DayCaps {
    /// Puts these caps in force. What was spent today stays spent.
    pub fn configure(&self, settings: &ProbeSettings, now_us: i64) {
        let mut state = self.today(now_us);
        let cap = |spend: &Option<Arc<Spend>>, cap: Option<f64>| {
            let cap = cap?;
            match spend {
                Some(spend) if spend.cap() == Some(cap) => Some(Arc::clone(spend)),
                spend => Some(Arc::new(Spend::new(cap, spend.as_ref().map_or(0.0, |spend| spend.committed())))),
            }
        };
        state.usd = cap(&state.usd, settings.max_cost);
        state.tokens = cap(&state.tokens, settings.max_tokens.map(|tokens| tokens as f64));
    }

    /// The rows of this day say that so much was spent, also before a restart and by other processes.
    pub fn recall(&self, (usd, tokens): (f64, f64), now_us: i64) {
        let state = self.today(now_us);
        for (spend, amount) in [(&state.usd, usd), (&state.tokens, tokens)] {
            if let Some(spend) = spend {
                spend.raise(amount);
            }
        }
    }

    /// Spent and set aside today: USD and tokens, each if it has a cap.
    pub fn committed(&self, now_us: i64) -> (Option<f64>, Option<f64>) {
        let state = self.today(now_us);
        (state.usd.as_ref().map(|spend| spend.committed()), state.tokens.as_ref().map(|spend| spend.committed()))
    }

    pub(super) fn of_day(&self, now_us: i64) -> ProbeCaps {
        let state = self.today(now_us);
        let names = ["the day's max_cost", "the day's max_tokens"];
        ProbeCaps { usd: state.usd.clone(), tokens: state.tokens.clone(), names }
    }

    /// Begins a new day if it has come.
    fn today(&self, now_us: i64) -> std::sync::MutexGuard<'_, DayState> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let day = now_us.div_euclid(DAY_US);
        if day > state.day {
            let fresh = |spend: &Option<Arc<Spend>>| {
                spend.as_ref().map(|spend| Arc::new(Spend::new(spend.cap().unwrap_or(f64::INFINITY), 0.0)))
            };
            *state = DayState { day, usd: fresh(&state.usd), tokens: fresh(&state.tokens) };
        }
        state
    }
}

impl ProbeCaps {
    /// Of one call of the command.
    pub fn of_call(max_cost: Option<f64>, max_tokens: Option<u64>) -> ProbeCaps {
        let cap = |cap: f64| Arc::new(Spend::new(cap, 0.0));
        let tokens = max_tokens.map(|tokens| cap(tokens as f64));
        ProbeCaps { usd: max_cost.map(cap), tokens, names: ["--max-cost", "--max-tokens"] }
    }

    /// # Errors
    /// Why the probe does not run.
    pub(super) fn reserve(&self, estimate: ProbeEstimate) -> Result<ProbeReservation<'_>, &'static str> {
        let usd = match (&self.usd, estimate.usd) {
            (Some(cap), Some(usd)) => Some(cap.reserve(usd).ok_or(self.names[0])?),
            (Some(_), None) if self.tokens.is_none() => return Err("its price is unknown, and there is no max_tokens"),
            _ => None,
        };
        let tokens = match &self.tokens {
            Some(cap) => Some(cap.reserve(estimate.tokens).ok_or(self.names[1])?),
            None => None,
        };
        Ok(ProbeReservation { usd, tokens })
    }
}

impl ProbeReservation<'_> {
    pub(super) fn settle(self, usd: f64, tokens: f64) {
        // What cost nothing says nothing about how far the upstream exceeds `max_tokens`: it is given back.
        for (reservation, amount) in [(self.usd, usd), (self.tokens, tokens)] {
            if let Some(reservation) = reservation.filter(|_| amount > 0.0) {
                reservation.settle(amount);
            }
        }
    }
}

impl ProbeEstimate {
    /// Of a workload at an upstream, with the ping before it.
    pub fn of(workload: &ProbeWorkload, upstream: &UpstreamConfig) -> ProbeEstimate {
        let measured = of_request(workload.input_tokens, workload.output_tokens, upstream);
        let (ping, at_once) = (of_request(PING.1, PING.2, upstream), f64::from(workload.at_once));
        ProbeEstimate {
            usd: measured.usd.zip(ping.usd).map(|(usd, ping)| usd * at_once + ping),
            tokens: measured.tokens * at_once + ping.tokens,
        }
    }

    /// What the requests of a probe used, at most: the ping, and then those of its workload.
    pub(super) fn used(sent: &[MeasuredRequest], workload: &ProbeWorkload, upstream: &UpstreamConfig) -> ProbeEstimate {
        let (mut usd, mut tokens) = (Some(0.0), 0.0);
        for (place, request) in sent.iter().enumerate().filter(|(_, request)| request.attempts > 0) {
            let (_, input, output) =
                if place == 0 { PING } else { ("", workload.input_tokens, workload.output_tokens) };
            let cost = request.cost.max_usd().or_else(|| of_request(input, output, upstream).usd);
            usd = usd.zip(cost).map(|(usd, cost)| usd + cost);
            let asked = (f64::from(input) * INPUT_MARGIN, f64::from(output));
            let failure = request.failure.and_then(FailureKind::from_name);
            tokens += tokens_used((request.input_tokens, request.output_tokens), asked, failure);
        }
        ProbeEstimate { usd, tokens }
    }
}

/// Of one request.
fn of_request(input: u32, output: u32, upstream: &UpstreamConfig) -> ProbeEstimate {
    let (input, output) = (f64::from(input) * INPUT_MARGIN, f64::from(output));
    let for_nothing = || (!upstream.provider.is_hosted()).then_some(0.0);
    let usd = upstream.price.map(|price| price.most_usd(input, output, false)).or_else(for_nothing);
    ProbeEstimate { usd, tokens: input + output }
}

/// An endless answer has this multiple of the tokens that were asked for.
const ENDLESS: f64 = 4.0;

/// Tokens, in and out, of a request that was sent: as its server counts them, or else as many as were asked for, since a server
/// that reports no usage bills all the same. One that refused the request, or never got it, used none.
pub(super) fn tokens_used(
    (input, output): (Option<i64>, Option<i64>),
    asked: (f64, f64),
    failure: Option<FailureKind>,
) -> f64 {
    let is_refused = failure.is_some_and(is_refusal);
    let written = if failure == Some(FailureKind::Endless) { ENDLESS * asked.1 } else { asked.1 };
    let used = |counted: Option<i64>, asked: f64| match counted {
        Some(tokens) => tokens.max(0) as f64,
        None if is_refused => 0.0,
        None => asked,
    };
    used(input, asked.0) + used(output, written)
}

/// Nothing was generated.
fn is_refusal(failure: FailureKind) -> bool {
    use FailureKind::{
        BadRequest, Connect, ContextLength, CoolingDown, Dns, Forbidden, NotFound, Overloaded, RateLimited,
        ServerError, Tls, TooLarge, Unauthorized,
    };
    matches!(
        failure,
        Dns | Connect
            | Tls
            | CoolingDown
            | RateLimited
            | Overloaded
            | ServerError
            | Unauthorized
            | Forbidden
            | NotFound
            | BadRequest
            | ContextLength
            | TooLarge
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn settings(max_cost: Option<f64>, max_tokens: Option<u64>) -> ProbeSettings {
        ProbeSettings { workloads: Vec::new(), models: Vec::new(), max_cost, max_tokens, from: None }
    }

    const CHEAP: ProbeEstimate = ProbeEstimate { usd: Some(0.01), tokens: 100.0 };

    #[test]
    fn a_new_day_begins_once() {
        let caps = DayCaps::default();
        caps.configure(&settings(Some(1.0), None), 5 * DAY_US);
        caps.of_day(5 * DAY_US).reserve(CHEAP).ok().unwrap().settle(0.3, 0.0);
        assert_eq!(caps.committed(5 * DAY_US).0, Some(0.3));
        assert_eq!(caps.committed(4 * DAY_US).0, Some(0.3), "the clock was set back");
        assert_eq!(caps.committed(6 * DAY_US).0, Some(0.0));
        caps.recall((0.9, 0.0), 6 * DAY_US);
        caps.configure(&settings(Some(0.95), None), 6 * DAY_US);
        assert_eq!(caps.committed(6 * DAY_US).0, Some(0.9), "a reload keeps what was spent");
        assert!(caps.of_day(6 * DAY_US).reserve(CHEAP).is_err());
    }

    #[test]
    fn what_others_spent_counts_and_what_was_spent_here_counts_once() {
        let caps = DayCaps::default();
        caps.configure(&settings(Some(1.0), None), DAY_US);
        caps.of_day(DAY_US).reserve(CHEAP).ok().unwrap().settle(0.3, 0.0);
        caps.recall((0.2, 0.0), DAY_US);
        assert_eq!(caps.committed(DAY_US).0, Some(0.3), "its own row is not there yet");
        caps.recall((0.7, 0.0), DAY_US);
        assert_eq!(caps.committed(DAY_US).0, Some(0.7));
    }

    #[test]
    fn without_a_price_tokens_are_what_counts() {
        let caps = DayCaps::default();
        let unpriced = ProbeEstimate { usd: None, ..CHEAP };
        caps.configure(&settings(Some(1.0), None), DAY_US);
        assert!(caps.of_day(DAY_US).reserve(unpriced).is_err());
        caps.configure(&settings(Some(1.0), Some(10_000)), DAY_US);
        assert!(caps.of_day(DAY_US).reserve(unpriced).is_ok());
        caps.configure(&settings(None, Some(10)), DAY_US);
        assert!(caps.of_day(DAY_US).reserve(CHEAP).is_err());
    }

    #[test]
    fn what_is_not_counted_was_used_unless_it_was_refused() {
        let used = |counted, failure| tokens_used(counted, (300.0, 16.0), failure);
        assert_eq!(used((Some(210), Some(9)), None), 219.0);
        assert_eq!(used((None, None), None), 316.0, "no usage");
        assert_eq!(used((Some(210), None), Some(FailureKind::IdleTimeout)), 226.0, "cut in the middle");
        assert_eq!(used((None, None), Some(FailureKind::Endless)), 364.0, "four times what was asked for");
        for refused in [FailureKind::RateLimited, FailureKind::ServerError, FailureKind::Connect] {
            assert_eq!(used((None, None), Some(refused)), 0.0, "{refused:?}");
        }
    }

    proptest! {
        /// Over days, reloads and restarts; failures cost nothing, and thinking costs up to eight times the estimate, from the
        /// first answer on.
        #[test]
        fn the_cap_of_a_day_is_never_passed(
            cap in 0.05_f64..5.0,
            steps in prop::collection::vec((0.0_f64..0.1, any::<bool>(), 0_u8..10), 1..200),
            thinks in 1.0_f64..8.0,
        ) {
            let mut caps = DayCaps::default();
            let mut now_us = DAY_US;
            caps.configure(&settings(Some(cap), None), now_us);
            for (usd, is_answered, event) in steps {
                match event {
                    0 => now_us += DAY_US,
                    1 => now_us -= DAY_US / 2,
                    2 => {
                        let spent = caps.committed(now_us).0.unwrap();
                        caps = DayCaps::default();
                        caps.configure(&settings(Some(cap), None), now_us);
                        caps.recall((spent, 0.0), now_us);
                    }
                    3 => caps.configure(&settings(Some(cap), None), now_us),
                    _ => {}
                }
                let today = caps.of_day(now_us);
                let reserved = today.reserve(ProbeEstimate { usd: Some(usd), tokens: 0.0 });
                prop_assert!(caps.committed(now_us).0.unwrap() <= cap + 1e-9);
                if let Ok(reserved) = reserved {
                    reserved.settle(if is_answered { usd * thinks } else { 0.0 }, 0.0);
                }
                prop_assert!(caps.committed(now_us).0.unwrap() <= cap + 1e-9);
            }
        }
    }
}
