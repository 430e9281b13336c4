//! Reports one attempt to the statistics of its upstream and to the budget of its race, as it happens: a first token counts
//! when it comes, not when the answer ends.
//!
//! An attempt that the gateway cancelled is a censored wait, never a failure.

use std::sync::Arc;

use super::upstream_stats::{LatencyClock, UpstreamStats};
use super::{Learning, PrefixBlocks};
use crate::forecast::{Learner, SendConditions};
use crate::money::RaceBudget;
use crate::money::tariff::{PromptTokens, Tariff};
use photofinish_facts::bill::PerByte;

/// The most tokens that count for one attempt: a provider with a wrong count must not distort a budget for hours.
const TOKENS_MAX: i64 = 2_000_000;

/// An attempt as it is started.
pub struct ObserverSpec {
    /// Number of the attempt in its race, from 0.
    pub ordinal: usize,
    pub learning: Arc<Learning>,
    pub known: Arc<UpstreamStats>,
    /// What it is waited for.
    pub clock: LatencyClock,
    /// Pays for it.
    pub race_budget: Arc<RaceBudget>,
    pub tariff: Tariff,
    pub sent: SendConditions,
    /// The prompt as it should be billed.
    pub prompt: PromptTokens,
    /// The prompt's blocks, and how many of its tokens the upstream has read lately.
    pub blocks: PrefixBlocks,
    pub known_tokens: f64,
    /// Bytes of the request.
    pub bytes: usize,
}

impl ObserverSpec {
    /// How many tokens the bytes of a request make: at its upstream, and anywhere.
    pub fn per_byte(&self) -> (Option<PerByte>, Option<PerByte>) {
        (self.known.prompts.per_byte(), self.learning.prompts.per_byte())
    }
}

/// The end of an attempt.
#[derive(Clone, Copy, Debug, Default)]
pub struct ObservedEnd {
    /// How long it waited in vain for what its clock counts, microseconds. None if it failed, or if that came.
    pub waited_us: Option<i64>,
    /// How long a whole answer took that was streamed to a client that does not stream, microseconds.
    pub whole_us: Option<i64>,
    /// It failed by the upstream's fault, or with a 429.
    pub failed: bool,
    /// It broke off after its first token.
    pub broke: bool,
    /// It was answered 429.
    pub limited: bool,
    /// It was started and not refused: it is billed.
    pub billed: bool,
    /// It served the client to its end.
    pub served: bool,
    /// Microseconds for each token after the first.
    pub tpot_us: Option<f64>,
    pub input_tokens: Option<i64>,
    /// None where its usage says nothing of a cache.
    pub cached_tokens: Option<i64>,
    /// None if the provider did not count.
    pub output_tokens: Option<i64>,
    /// Estimated tokens of output, for attempts that were cut before the provider counted.
    pub generated: i64,
}

/// Reports one attempt. Not `Clone`: a copy would report everything twice.
pub struct AttemptObserver {
    observer_spec: ObserverSpec,
    /// Where it waits for its first token.
    place: Option<usize>,
}

impl AttemptObserver {
    /// It is sent now.
    pub fn start(observer_spec: ObserverSpec) -> AttemptObserver {
        let now_us = observer_spec.learning.now_us();
        let ObserverSpec { known, clock, sent, .. } = &observer_spec;
        known.learn(*clock, |learner| learner.launched(now_us));
        let place = known.wait(*clock, *sent, now_us);
        AttemptObserver { observer_spec, place }
    }

    /// How long its first token, or its plain answer, should take from now, microseconds. None where too little is known.
    pub fn predicted_us(&self) -> Option<i64> {
        let ObserverSpec { learning, known, clock, sent, .. } = &self.observer_spec;
        known.forecast_by(*clock).typical_us(*sent, learning.now_us())
    }

    /// Notes that its upstream streams although it was not asked to.
    pub fn note_stream(&mut self) {
        self.leave();
        self.observer_spec.clock = LatencyClock::FirstToken;
    }

    /// Its first token came, or its plain answer; `after_us` counts from its dispatch.
    pub fn first_token(&mut self, after_us: i64) {
        self.leave();
        let ObserverSpec { learning, known, clock, sent, blocks, .. } = &self.observer_spec;
        let now_us = learning.now_us();
        known.answered(now_us);
        known.learn(*clock, |learner| learner.first_token(*sent, after_us, now_us));
        if *clock == LatencyClock::WholeAnswer && known.forecast().counts_failures(now_us) {
            known.learn(LatencyClock::FirstToken, |learner| learner.answered(now_us));
        }
        learning.prefixes.note(known.name(), blocks, now_us);
    }

    /// The attempt is over. Call once, and last.
    pub fn ended(&mut self, ending: &ObservedEnd) {
        self.leave();
        let ObserverSpec { learning, known, clock, sent, .. } = &self.observer_spec;
        let now_us = learning.now_us();
        if ending.limited {
            known.limited(now_us);
        }
        let waited = |by: LatencyClock| ending.waited_us.filter(|_| *clock == by);
        let decoded = ending.tpot_us.zip(ending.output_tokens);
        let waited_us = waited(LatencyClock::FirstToken);
        if waited_us.is_some() || ending.failed || decoded.is_some() || ending.served || ending.broke {
            known.learn(LatencyClock::FirstToken, |learner| {
                if let Some(waited_us) = waited_us {
                    learner.censored(*sent, waited_us, now_us);
                }
                if ending.failed {
                    learner.failed(now_us);
                }
                if ending.served || ending.broke {
                    learner.ended(ending.broke, now_us);
                }
                if let Some((tpot_us, tokens)) = decoded {
                    learner.decoded(tpot_us, tokens, sent.in_flight, now_us);
                }
            });
        }
        if ending.failed {
            known.learn(*clock, Learner::forget_launch);
        }
        // Either it is waited for by this clock, or it streamed.
        if let Some(waited_us) = waited(LatencyClock::WholeAnswer) {
            known.learn(LatencyClock::WholeAnswer, |learner| learner.censored(*sent, waited_us, now_us));
        } else if let Some(whole_us) = ending.whole_us {
            known.learn(LatencyClock::WholeAnswer, |learner| {
                learner.launched(now_us);
                learner.first_token(*sent, whole_us, now_us);
            });
        }
        let known_tokens = self.observer_spec.known_tokens;
        if known_tokens > 0.0 && ending.input_tokens.is_some() {
            known.reported_cached(ending.cached_tokens.unwrap_or(0), known_tokens);
        }
        if let Some(tokens) = ending.input_tokens {
            learning.counted(known, tokens, i64::try_from(self.observer_spec.bytes).unwrap_or(i64::MAX));
        }
        self.pay(ending);
    }

    /// As [`ObserverSpec::per_byte`].
    pub fn per_byte(&self) -> (Option<PerByte>, Option<PerByte>) {
        self.observer_spec.per_byte()
    }

    fn pay(&self, ending: &ObservedEnd) {
        let ObserverSpec { race_budget, tariff, prompt, .. } = &self.observer_spec;
        if !ending.billed {
            return;
        }
        let bounded = |tokens: i64| tokens.clamp(0, TOKENS_MAX) as f64;
        let counted = ending.input_tokens.map(|input| {
            let cached = bounded(ending.cached_tokens.unwrap_or(0)).min(bounded(input));
            PromptTokens { uncached: bounded(input) - cached, cached }
        });
        let answer_tokens =
            if tariff.billed_on && !ending.served { race_budget.terms().answer_tokens / 2.0 } else { 0.0 };
        let output = ending.output_tokens.map_or(bounded(ending.generated).max(answer_tokens), bounded);
        race_budget.paid(self.observer_spec.ordinal, tariff.whole(counted.unwrap_or(*prompt), output));
        if ending.served {
            race_budget.finished(None, ending.output_tokens);
        }
    }

    fn leave(&mut self) {
        if let Some(place) = self.place.take() {
            self.observer_spec.known.leave(self.observer_spec.clock, place);
        }
    }
}

impl Drop for AttemptObserver {
    fn drop(&mut self) {
        self.leave();
    }
}
