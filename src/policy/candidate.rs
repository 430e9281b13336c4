//! One candidate of a race: what it costs, what it depends on, and its shared statistics. Not for choosing between
//! candidates: that is the driver.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::Guard;

use crate::learning::{Known, Longest};
use crate::routing::adaptive::{Candidate, Outlook, Sent};
use crate::routing::plan::Entry;
use crate::routing::tariff::{Prompt, Tariff};

/// A candidate as the driver keeps it for the whole race.
pub struct CandidateState {
    pub known: Arc<Known>,
    pub tariff: Tariff,
    /// The prompt as this upstream would bill it, tokens.
    pub prompt: Prompt,
    /// Tokens of the prompt that this upstream has read lately, cached or not.
    pub known_tokens: f64,
    /// Candidates with the same number run on the same machines.
    pub domain: Option<u32>,
    /// For the policy `weighted`.
    pub weight: f64,
    /// Timeout from its start to its first token.
    pub first_token: Duration,
    /// Its breaker is half open: it starts in addition to the others and replaces none of them.
    pub trial: bool,
    /// Its latest start. The current in-flight count includes that attempt, so predictions use this instead.
    pub started: Option<Sent>,
}

/// A candidate's shared statistics at one moment.
pub(super) struct Observed {
    outlook: Guard<Arc<Outlook>>,
    waits: Longest,
}

impl CandidateState {
    /// An attempt sent now.
    pub fn sent(&self) -> Sent {
        Sent { uncached_tokens: self.prompt.uncached, in_flight: self.known.in_flight() }
    }

    /// Cost of starting it and cutting it again.
    pub(super) fn cost(&self, answer_tokens: f64) -> f64 {
        self.tariff.started(self.prompt, answer_tokens)
    }

    pub(super) fn is_unknown(&self) -> bool {
        self.known.outlook().is_unknown()
    }

    pub(super) fn entry(&self, candidate: usize) -> Entry {
        Entry::listed(candidate, self.first_token, self.trial)
    }

    /// Reads the statistics; of the waiting attempts only those sent before `began_us`.
    pub(super) fn observe(&self, began_us: i64, now_us: i64) -> Observed {
        Observed { outlook: self.known.outlook(), waits: self.known.longest_waits(began_us, now_us) }
    }

    pub(super) fn view<'o>(&self, observed: &'o Observed, out: bool, answer_tokens: f64) -> Candidate<'o> {
        Candidate {
            outlook: &observed.outlook,
            sent: self.started.unwrap_or_else(|| self.sent()),
            cost: self.cost(answer_tokens),
            domain: self.domain,
            out,
            waiting: observed.waits.as_slice(),
        }
    }
}
