//! What a rehearsal is played against: the requests, the upstreams' times and prices, and the rules that all policies share.

use crate::clock::SECOND_US;

/// One client's request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimulatedRequest {
    /// Its number, as the field knows it.
    pub id: usize,
    /// When it arrives; microseconds on the rehearsal's clock. Requests come in this order.
    pub at_us: i64,
    /// Tokens that its answer has, whoever gives it; at least 1.
    pub output_tokens: u32,
    /// The client waits for the whole answer: first tokens decide nothing, the first to finish wins.
    pub whole: bool,
}

/// A request's input as one upstream would read it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SimulatedPrompt {
    /// Input tokens that it must read.
    pub uncached: f64,
    /// Input tokens that it has read before, for the same conversation.
    pub cached: f64,
}

/// A start that is about to happen.
#[derive(Clone, Copy, Debug)]
pub struct SimulatedStart {
    pub request: SimulatedRequest,
    pub upstream: usize,
    pub prompt: SimulatedPrompt,
    pub at_us: i64,
    /// Attempts that this upstream serves already.
    pub in_flight: u32,
}

/// What becomes of a start if nobody cuts it; times are microseconds since the start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SimulatedOutcome {
    Answers {
        ttft_us: i64,
        /// Between two tokens, on average.
        tpot_us: f64,
    },
    /// An error before the first token.
    Fails {
        after_us: i64,
    },
    /// 429: the upstream is left alone for so long.
    Limited {
        after_us: i64,
        retry_after_us: i64,
    },
    Hangs,
}

/// What an upstream takes. Tokens have no unit of money: only relations count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimulatedTariff {
    /// For a token that must be read.
    pub input: f64,
    /// For a token that was read before.
    pub cached: f64,
    /// For a token that is written.
    pub output: f64,
    /// A cut attempt is billed for its whole answer.
    pub bills_on: bool,
    /// Two upstreams with the same one stand in one machine park.
    pub domain: Option<u32>,
}

impl SimulatedTariff {
    /// What the input alone costs, in the unit of the prices.
    pub fn input_cost(&self, prompt: SimulatedPrompt) -> f64 {
        self.input * prompt.uncached + self.cached * prompt.cached
    }

    /// What an attempt costs that has written so many tokens.
    pub fn cost(&self, prompt: SimulatedPrompt, written: f64) -> f64 {
        self.input_cost(prompt) + self.output * written
    }
}

/// The upstreams, by index. The same question must get the same answer whoever asks, so that policies can be compared.
pub trait SimulatedUpstreams {
    /// One for each upstream; the length is their number.
    fn tariffs(&self) -> &[SimulatedTariff];

    /// The request's input, if it were sent there now.
    fn prompt(&self, request: &SimulatedRequest, upstream: usize, at_us: i64) -> SimulatedPrompt;

    fn fate(&mut self, launch: &SimulatedStart) -> SimulatedOutcome;
}

/// What holds for every policy.
#[derive(Clone, Copy, Debug)]
pub struct RaceRules {
    /// An attempt without a first token is given up after so long.
    pub attempt_timeout_us: i64,
    /// So many failures in a row open an upstream's breaker.
    pub breaker_failures: u32,
    /// For so long.
    pub breaker_open_us: i64,
    /// Then, and every so long, one request tries it beside another upstream, and it is left out until it answers. Else it is
    /// used as before.
    pub trials: bool,
    /// A provider goes on writing, and billing, for so long after a cut.
    pub cut_lag_us: i64,
    /// A first token is never held back for longer.
    pub hold_max_us: i64,
    /// Where the whole answer is waited for, a look is taken at each attempt when it has written so many tokens.
    pub look_after_tokens: u32,
}

impl Default for RaceRules {
    fn default() -> RaceRules {
        RaceRules {
            attempt_timeout_us: 20 * SECOND_US,
            breaker_failures: 2,
            breaker_open_us: 10 * SECOND_US,
            trials: false,
            cut_lag_us: 150_000,
            hold_max_us: 300_000,
            look_after_tokens: 8,
        }
    }
}
