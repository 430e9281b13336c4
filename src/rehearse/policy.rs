//! What a policy is asked, and what it hears.

use super::simulated_race::Outcome;
use super::upstreams::{SimulatedPrompt, SimulatedRequest};

/// Decides for one race after the other, many of them at once. Everything it is told happens in the order of time.
pub trait SimulatedPolicy {
    /// Whom to start now, and when to be asked again. What may not be started is ignored. Where nothing runs and nothing
    /// is started, the first upstream in the list that may be is.
    fn decide(&mut self, view: &RaceView<'_>, moment: AskReason) -> PolicyAnswer;

    /// A first token is there: how long, in microseconds, it is to be held back for one that finishes sooner. `ready` is an
    /// index into `view.running`.
    fn hold(&mut self, _view: &RaceView<'_>, _ready: usize) -> Option<i64> {
        None
    }

    /// Which of those with a first token gets the client; an index into `view.running`.
    fn choose(&mut self, _view: &RaceView<'_>, ready: usize) -> usize {
        ready
    }

    /// For a client that waits for the whole answer: whom to cut; indices into `view.running`.
    fn hopeless(&mut self, _view: &RaceView<'_>) -> Vec<usize> {
        Vec::new()
    }

    /// An attempt was started.
    fn launched(&mut self, _upstream: usize, _now_us: i64) {}

    /// Something about an attempt came to light.
    fn saw(&mut self, _upstream: usize, _seen: ObservedProgress, _now_us: i64) {}

    /// The client's request is over, and so are its attempts.
    fn ended(&mut self, _outcome: &Outcome<'_>) {}
}

/// Why a policy is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskReason {
    Arrival,
    /// The time that it named.
    Timer,
    /// An attempt has just failed.
    Failure,
}

/// A policy's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyAnswer {
    /// In this order; the first of a race is its primary, others while one runs are extra.
    pub start: Vec<usize>,
    /// Microseconds from now. None: only after a failure.
    pub again_after_us: Option<i64>,
}

/// Why an attempt was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimulatedReason {
    Primary,
    /// While another ran.
    Extra,
    /// Because no other ran any more.
    Fallback,
}

/// What is known of one race when a policy is asked.
#[derive(Clone, Copy, Debug)]
pub struct RaceView<'a> {
    pub request: &'a SimulatedRequest,
    pub now_us: i64,
    /// One for each upstream.
    pub seats: &'a [UpstreamView],
    /// Neither failed nor cut, in the order of their start.
    pub running: &'a [RunningView],
    /// By upstream: the attempts of all races that wait for their first token, the oldest first.
    pub waiting: &'a [Vec<WaitingAttempt>],
}

/// One upstream, for one race.
#[derive(Clone, Copy, Debug)]
pub struct UpstreamView {
    pub prompt: SimulatedPrompt,
    /// What starting it and cutting it before its first token costs.
    pub input_cost: f64,
    /// Attempts that it serves now.
    pub in_flight: u32,
    /// It was not tried in this race, and is not set aside.
    pub open: bool,
}

/// An attempt of this race.
#[derive(Clone, Copy, Debug)]
pub struct RunningView {
    pub upstream: usize,
    pub sent_us: i64,
    pub prompt: SimulatedPrompt,
    /// Attempts that the upstream served already when it was sent.
    pub in_flight: u32,
    pub first_token_us: Option<i64>,
    /// Tokens that it has written.
    pub written: u32,
}

/// An attempt of any race that has no first token yet.
#[derive(Clone, Copy, Debug)]
pub struct WaitingAttempt {
    /// The request that it belongs to.
    pub request: usize,
    pub sent_us: i64,
    pub uncached: f64,
    pub in_flight: u32,
}

/// What an attempt has shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ObservedProgress {
    FirstToken {
        uncached: f64,
        in_flight: u32,
        ttft_us: i64,
    },
    /// Cut after so long without a first token, or given up.
    Censored {
        uncached: f64,
        in_flight: u32,
        waited_us: i64,
    },
    /// By its own fault, a 429 among them.
    Failed,
    /// It came to its end.
    Decoded {
        tpot_us: f64,
        tokens: u32,
        in_flight: u32,
    },
}
