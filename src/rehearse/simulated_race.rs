//! One race that is being rehearsed: its attempts, what each of them costs, and what is said of it in the end.

use super::policy::{RunningView, SimulatedReason};
use super::upstreams::{RaceRules, SimulatedOutcome, SimulatedRequest, SimulatedStart, SimulatedTariff};

/// A race that is over, and how it went.
#[derive(Clone, Copy, Debug)]
pub struct Outcome<'a> {
    pub request: &'a SimulatedRequest,
    /// From the request to the first token that the client saw, in microseconds; for one that waits for the whole answer,
    /// to its end. None: every attempt failed.
    pub ttft_us: Option<i64>,
    /// From the request to the end of its answer, or to the last failure; microseconds.
    pub took_us: i64,
    /// Index into `started`.
    pub winner: Option<usize>,
    /// Of the winner's answer, microseconds.
    pub tpot_us: Option<f64>,
    /// In the order of their start.
    pub started: &'a [FinishedAttempt],
}

/// An attempt that is over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FinishedAttempt {
    pub upstream: usize,
    /// Since the request, in microseconds.
    pub after_us: i64,
    pub reason: SimulatedReason,
    /// By its own fault, before a first token.
    pub failed: bool,
    /// Its whole bill, in the unit of the prices.
    pub cost: f64,
}

impl Outcome<'_> {
    /// What the answer itself cost.
    pub fn base(&self) -> f64 {
        self.winner.map_or(0.0, |winner| self.started[winner].cost)
    }

    /// What was paid beyond a single attempt. A failed one that had to be replaced is not counted: any policy pays that.
    pub fn extra(&self) -> f64 {
        let chosen = |(place, started): &(usize, &FinishedAttempt)| {
            Some(*place) != self.winner && !(started.failed && started.reason != SimulatedReason::Extra)
        };
        self.started.iter().enumerate().filter(chosen).map(|(_, started)| started.cost).sum()
    }
}

/// A race under way.
#[derive(Debug)]
pub(super) struct SimulatedRace {
    pub(super) request: SimulatedRequest,
    pub(super) attempts: Vec<SimulatedAttempt>,
    /// Index into `attempts`, and when the client got it.
    pub(super) winner: Option<(usize, i64)>,
    /// Timers and holds that were set before the last one are void.
    pub(super) turn: u32,
    /// No first token is held back beyond this.
    pub(super) hold_until_us: Option<i64>,
}

/// One attempt of it.
#[derive(Debug)]
pub(super) struct SimulatedAttempt {
    pub(super) launch: SimulatedStart,
    pub(super) reason: SimulatedReason,
    /// Of an upstream whose breaker is open: nobody counts on it.
    pub(super) trial: bool,
    pub(super) fate: SimulatedOutcome,
    pub(super) state: FlightState,
    pub(super) first_token_us: Option<i64>,
    pub(super) ended_us: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlightState {
    /// For its first token.
    Waits,
    Writes,
    Finished,
    Cut,
    Failed,
    /// It was given up: it may have failed by nothing but its slowness, and is billed.
    GivenUp,
}

impl SimulatedRace {
    pub(super) fn new(request: SimulatedRequest) -> SimulatedRace {
        SimulatedRace { request, attempts: Vec::new(), winner: None, turn: 0, hold_until_us: None }
    }

    pub(super) fn was_tried(&self, upstream: usize) -> bool {
        self.attempts.iter().any(|attempt| attempt.launch.upstream == upstream)
    }

    pub(super) fn is_running(&self) -> bool {
        self.attempts.iter().any(SimulatedAttempt::runs)
    }

    pub(super) fn has_first_token(&self) -> bool {
        self.attempts.iter().any(|attempt| attempt.state == FlightState::Writes)
    }

    /// Those that run, but for trials without a token, as a policy sees them, and where they stand among the attempts.
    pub(super) fn running(&self, now_us: i64) -> impl Iterator<Item = (usize, RunningView)> {
        let counts =
            |attempt: &SimulatedAttempt| attempt.runs() && !(attempt.trial && attempt.state == FlightState::Waits);
        let running = self.attempts.iter().enumerate().filter(move |(_, attempt)| counts(attempt));
        running.map(move |(place, attempt)| (place, attempt.seen(now_us)))
    }

    /// What each attempt came to.
    pub(super) fn bill(&self, tariffs: &[SimulatedTariff], rules: &RaceRules, started: &mut Vec<FinishedAttempt>) {
        started.clear();
        started.extend(self.attempts.iter().map(|attempt| FinishedAttempt {
            upstream: attempt.launch.upstream,
            after_us: attempt.launch.at_us - self.request.at_us,
            reason: attempt.reason,
            failed: matches!(attempt.state, FlightState::Failed | FlightState::GivenUp),
            cost: attempt.cost(&tariffs[attempt.launch.upstream], rules),
        }));
    }
}

impl SimulatedAttempt {
    pub(super) fn runs(&self) -> bool {
        matches!(self.state, FlightState::Waits | FlightState::Writes)
    }

    pub(super) fn tpot_us(&self) -> Option<f64> {
        if let SimulatedOutcome::Answers { tpot_us, .. } = self.fate { Some(tpot_us) } else { None }
    }

    fn seen(&self, now_us: i64) -> RunningView {
        RunningView {
            upstream: self.launch.upstream,
            sent_us: self.launch.at_us,
            prompt: self.launch.prompt,
            in_flight: self.launch.in_flight,
            first_token_us: self.first_token_us,
            written: self.written(now_us) as u32,
        }
    }

    /// Tokens that it has written by then, if it is not stopped.
    fn written(&self, by_us: i64) -> f64 {
        let SimulatedOutcome::Answers { ttft_us, tpot_us } = self.fate else { return 0.0 };
        let writing_us = (by_us - self.launch.at_us - ttft_us) as f64;
        let whole = f64::from(self.launch.request.output_tokens);
        if writing_us < 0.0 { 0.0 } else { (1.0 + writing_us / tpot_us.max(1.0)).floor().min(whole) }
    }

    fn cost(&self, tariff: &SimulatedTariff, rules: &RaceRules) -> f64 {
        let written = match self.state {
            // An error is not billed.
            FlightState::Failed => return 0.0,
            FlightState::GivenUp => 0.0,
            FlightState::Cut if !tariff.bills_on => self.written(self.ended_us + rules.cut_lag_us),
            _ if self.tpot_us().is_none() => 0.0,
            _ => f64::from(self.launch.request.output_tokens),
        };
        tariff.cost(self.launch.prompt, written)
    }
}
