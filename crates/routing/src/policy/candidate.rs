//! One candidate of a race: what it costs, what it depends on, and its shared statistics. Not for choosing between
//! candidates: that is the driver.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::Guard;

use super::question::CandidateForecast;
use crate::forecast::{LatencyForecast, SendConditions};
use crate::learning::{LatencyClock, UpstreamStats};
use crate::money::tariff::{PromptTokens, Tariff};

/// When a candidate is asked. Lists of candidates are in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CandidateTurn {
    Usual,
    /// Its breaker is half open: it starts in addition to the others and replaces none of them.
    Trial,
    /// When no other candidate is left.
    Last,
}

/// A candidate as the driver keeps it for the whole race.
pub struct CandidateState {
    pub known: Arc<UpstreamStats>,
    /// It is asked for plain answers in every race.
    pub plain: bool,
    pub tariff: Tariff,
    /// The prompt as this upstream would bill it, tokens.
    pub prompt: PromptTokens,
    /// Tokens of the prompt that this upstream has read lately, cached or not.
    pub known_tokens: f64,
    /// Candidates with the same number run on the same machines.
    pub domain: Option<u32>,
    /// For the policy `weighted`.
    pub weight: f64,
    /// It is asked when none of a lower tier is usable.
    pub tier: u32,
    /// While this number of attempts run there, others are asked first.
    pub in_flight_max: Option<u32>,
    /// It answers worse than others, so they are asked first.
    pub worse: bool,
    /// A look at it is read to its end, to be judged.
    pub reads_on: bool,
    /// Timeout from its start to its first token.
    pub first_token: Duration,
    pub turn: CandidateTurn,
    /// Its latest start. The current in-flight count includes that attempt, so predictions use this instead.
    pub started: Option<SendConditions>,
    /// Hardly anything was seen of it before its latest start.
    pub is_new: bool,
}

/// A candidate's shared statistics at one moment.
pub(super) struct Observed {
    forecast: Guard<Arc<LatencyForecast>>,
    throttled: bool,
}

impl CandidateState {
    /// An attempt sent now.
    pub fn sent(&self) -> SendConditions {
        SendConditions { uncached_tokens: self.prompt.uncached, in_flight: self.known.in_flight() }
    }

    /// The attempt that runs, or one sent now.
    pub(super) fn conditions(&self) -> SendConditions {
        self.started.unwrap_or_else(|| self.sent())
    }

    /// As many attempts run there as may.
    pub(super) fn is_full(&self) -> bool {
        self.in_flight_max.is_some_and(|most| self.known.in_flight() >= most)
    }

    /// Cost of starting it and cutting it again.
    pub(super) fn cost(&self, answer_tokens: f64) -> f64 {
        self.tariff.started(self.prompt, answer_tokens)
    }

    /// The most that it may cost to start it and cut it again.
    pub(super) fn worst(&self, answer_tokens: f64) -> f64 {
        self.tariff.worst(self.prompt, answer_tokens)
    }

    /// What its attempts are waited for in a race that is waited for by `race`.
    pub(super) fn clock(&self, race: LatencyClock) -> LatencyClock {
        if self.plain { LatencyClock::WholeAnswer } else { race }
    }

    /// When an attempt is late. Nothing comes of a plain answer before all of it, so a usual one is not late.
    pub(super) fn late_after(&self, race: LatencyClock, now_us: i64) -> Duration {
        let clock = self.clock(race);
        let usual = || self.known.forecast_by(clock).usual_p99_us(self.sent(), now_us);
        match clock {
            LatencyClock::FirstToken => self.first_token,
            LatencyClock::WholeAnswer => usual().map_or(self.first_token, |usual_us| {
                self.first_token.max(Duration::from_micros(2 * usual_us.unsigned_abs()))
            }),
        }
    }

    /// Reads the statistics.
    pub(super) fn observe(&self, race: LatencyClock, now_us: i64) -> Observed {
        Observed { forecast: self.known.forecast_by(self.clock(race)), throttled: self.known.throttled(now_us) }
    }

    pub(super) fn view<'o>(&self, observed: &'o Observed, out: bool, answer_tokens: f64) -> CandidateForecast<'o> {
        CandidateForecast {
            forecast: &observed.forecast,
            sent: self.conditions(),
            cost: self.cost(answer_tokens),
            price: self.tariff.whole(self.prompt, answer_tokens),
            domain: self.domain,
            out,
            throttled: observed.throttled,
        }
    }
}
