//! What an answer tells of its upstream: what is set aside, what its breaker counts, what is asked once more.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use super::state::lock;
use super::{CallerId, Candidate, UpstreamHealth, prompt_length};
use crate::clock::Instant;
use crate::config::BreakerSettings;
use crate::failure::{Failure, FailureKind, Phase};
use crate::protocol::error::{rejects_reasoning, rejects_stream_options, too_long};
use crate::protocol::request::ApiRequest;
use crate::race::verdict::{BreakerEffect, Verdict, is_shared_by_all, is_the_requests_fault, verdict};
use crate::routing::cooldown::CooldownReason;
use crate::routing::keyring::HashedKey;

/// A refused prompt tells how long one may be if no more tokens than a share of its bytes were asked for: then it was the
/// prompt that was too long.
const ANSWER_SHARE: usize = 16;

/// What an answer is judged by, also that of a loser that runs on after the race.
pub struct OutcomeReporter {
    pub health: Arc<UpstreamHealth>,
    pub runners: Arc<Vec<Candidate>>,
    breaker: BreakerSettings,
    caller: CallerId,
    /// Not kept alive: nobody needs it once an answer goes down.
    request: Weak<ApiRequest>,
    /// The client itself sent `stream_options`.
    own_stream_options: bool,
    /// By candidate: its latest start.
    sent: Mutex<Vec<SentRequest>>,
    /// Failures of upstreams, until it is known whether all attempts share them; none once it is.
    pending: Mutex<Option<Vec<BreakerCharge>>>,
}

/// A failure that a breaker counts.
struct BreakerCharge {
    candidate: usize,
    /// After its first token.
    broke: bool,
    /// Whose request may have caused it.
    caller: Option<u64>,
    sent_at: Instant,
}

/// What went up.
#[derive(Clone)]
pub struct SentRequest {
    pub at: Instant,
    pub key: Option<HashedKey>,
    pub stream_options: bool,
    /// What it has complained about in this race, and so is left out.
    pub complained: RejectedFeature,
    /// In this race a pooled connection to it has died: new starts go over a new one.
    pub stale: bool,
}

/// What of a request an upstream would not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RejectedFeature {
    /// Whether that was meant, an answer without them tells.
    pub stream_options: bool,
    /// Of earlier turns, which another vendor made.
    pub reasoning: bool,
}

impl OutcomeReporter {
    pub fn new(
        health: &Arc<UpstreamHealth>,
        runners: &Arc<Vec<Candidate>>,
        breaker: BreakerSettings,
        caller: CallerId,
        request: &Arc<ApiRequest>,
        read_at: Instant,
    ) -> OutcomeReporter {
        let nothing = SentRequest {
            at: read_at,
            key: None,
            stream_options: false,
            complained: RejectedFeature::default(),
            stale: false,
        };
        OutcomeReporter {
            health: health.clone(),
            runners: runners.clone(),
            breaker,
            caller,
            request: Arc::downgrade(request),
            own_stream_options: request.has_stream_options(),
            sent: Mutex::new(vec![nothing; runners.len()]),
            pending: Mutex::new(Some(Vec::new())),
        }
    }

    /// The first token of this candidate's latest start is there. `exhausted_for`: one of its rate limits is used up for so
    /// long. Gives what had been left out for it.
    pub fn answered(&self, candidate: usize, exhausted_for: Option<Duration>) -> RejectedFeature {
        let sent = self.sent(candidate);
        self.first_token(candidate, &sent);
        if let Some(wait) = exhausted_for {
            self.health.exhausted(&self.runners[candidate].target(sent.key.as_ref()), wait);
        }
        sent.complained
    }

    /// An answer of this candidate's latest start ended, by the failure that broke it or well.
    pub fn ended(&self, candidate: usize, failure: Option<&Failure>) {
        match failure {
            Some(failure) => self.charge(candidate, &self.sent(candidate), failure),
            None => self.health.ended_well(self.runners[candidate].asked()),
        }
    }

    /// The race is over, or somebody answered; then `failures` are none. What all attempts share is held against nobody.
    pub fn settle(&self, failures: &[(usize, Failure)]) {
        let pending = lock(&self.pending).take().unwrap_or_default();
        if !is_shared_by_all(failures) {
            pending.iter().for_each(|charge| self.apply(charge));
        }
    }

    /// It is sent now.
    pub fn note(&self, candidate: usize, sent: SentRequest) {
        lock(&self.sent)[candidate] = sent;
    }

    /// What went up with this candidate's latest start.
    pub fn sent(&self, candidate: usize) -> SentRequest {
        lock(&self.sent)[candidate].clone()
    }

    /// The first token is there of what was sent so.
    pub fn first_token(&self, candidate: usize, sent: &SentRequest) {
        self.settle(&[]);
        self.heard_well(candidate, sent);
        self.health.close_breaker(self.runners[candidate].asked(), sent.at);
    }

    fn charge(&self, candidate: usize, sent: &SentRequest, failure: &Failure) {
        let caller = match verdict(failure).counts {
            BreakerEffect::Never => return,
            BreakerEffect::Doubtful => self.caller.to_be_told(),
            BreakerEffect::Certain => None,
        };
        let charge = BreakerCharge { candidate, broke: failure.phase == Phase::Stream, caller, sent_at: sent.at };
        match &mut *lock(&self.pending) {
            Some(pending) => pending.push(charge),
            None => self.apply(&charge),
        }
    }

    fn apply(&self, charge: &BreakerCharge) {
        let BreakerCharge { candidate, broke, caller, sent_at } = *charge;
        self.health.charge(self.runners[candidate].asked(), &self.breaker, broke, caller, sent_at);
    }

    /// What is to be set aside now.
    fn aside(&self, candidate: usize, sent: &SentRequest, verdict: &Verdict) -> Option<CooldownReason> {
        let target = || self.runners[candidate].target(sent.key.as_ref());
        let is_suspect = |request: &ApiRequest| self.health.suspect(&target(), self.caller, request.body());
        let is_certain = || verdict.certain || self.request.upgrade().is_some_and(|request| is_suspect(&request));
        verdict.aside.filter(|_| is_certain())
    }

    fn heard_well(&self, candidate: usize, sent: &SentRequest) {
        self.forgive(candidate, sent);
        let length = || self.request.upgrade().map(|request| prompt_length(&request));
        self.health.took_length(&self.runners[candidate].name, length);
        // A complaint about what the client wrote there says nothing of what is added to the requests of others.
        if sent.complained.stream_options && !sent.stream_options && !self.own_stream_options {
            self.health.leave_off_stream_options(&self.runners[candidate].name);
        }
    }

    /// What it takes, as it says, or else how long the prompt is that it refused.
    fn learn_window(&self, candidate: usize, failure: &Failure) {
        let Candidate { name, named, .. } = &self.runners[candidate];
        // What callers name themselves is not remembered.
        let Some(request) = self.request.upgrade().filter(|_| !named) else { return };
        let length = prompt_length(&request);
        // The answer that was asked for may be what is too long.
        let most_answer = request.max_tokens.and_then(|tokens| usize::try_from(tokens).ok()).unwrap_or(0);
        let by_length = !length.has_media && most_answer <= length.bytes / ANSWER_SHARE;
        let window = too_long(&failure.message).window;
        self.health.refused_length(name, window, by_length.then_some(length.bytes));
    }

    fn forgive(&self, candidate: usize, sent: &SentRequest) {
        self.health.forgive(|| self.runners[candidate].target(sent.key.as_ref()), sent.at);
    }

    /// True: ask the same candidate once more, for the request to it has changed, or goes over a new connection.
    pub fn failed(&self, candidate: usize, sent: &SentRequest, failure: &Failure) -> bool {
        self.log(candidate, sent, failure);
        // Whether the upstream or only its old connection is to blame, a new one tells.
        if failure.stale && !sent.stale {
            lock(&self.sent)[candidate].stale = true;
            return true;
        }
        self.charge(candidate, sent, failure);
        if failure.kind == FailureKind::ContextLength {
            self.learn_window(candidate, failure);
        }
        let runner = &self.runners[candidate];
        let verdict = verdict(failure);
        let aside = self.aside(candidate, sent, &verdict);
        if let Some(aside) = aside {
            let wait = self.health.set_aside(aside, runner, sent.key.as_ref(), failure.retry_after);
            if !verdict.certain {
                let (upstream, failure) = (&runner.name, failure.kind.as_str());
                tracing::warn!(upstream, failure, "an upstream refuses whatever is asked of it: look at its model");
            }
            tracing::info!(upstream = runner.name, ?aside, ?wait, "set aside");
        }
        if failure.kind == FailureKind::Empty {
            self.heard_well(candidate, sent);
        } else if is_the_requests_fault(failure.kind) {
            // It was let in and read.
            self.forgive(candidate, sent);
        }
        let complains = sent.stream_options && refuses(failure, rejects_stream_options);
        if complains {
            tracing::info!(upstream = runner.name, "rejects stream_options: asked again without");
            lock(&self.sent)[candidate].complained.stream_options = true;
        }
        // Another key makes it another request. A wait may already have run out, so the key itself is looked at too.
        let of_the_key = matches!(
            aside,
            Some(CooldownReason::RateLimited | CooldownReason::AccountRateLimited | CooldownReason::KeyRefused)
        ) || aside.is_some() && failure.kind == FailureKind::Forbidden;
        let other_key = of_the_key && self.health.has_rested_key_but(runner, sent.key.as_ref());
        complains || other_key
    }

    /// True if it refused reasoning that it was sent, for the first time in this race: it may be asked once more without.
    pub fn refuses_reasoning(&self, sent: &SentRequest, failure: &Failure) -> bool {
        !sent.complained.reasoning && refuses(failure, rejects_reasoning)
    }

    /// It is asked without from now on.
    pub fn leave_out_reasoning(&self, candidate: usize) {
        lock(&self.sent)[candidate].complained.reasoning = true;
        tracing::info!(
            upstream = self.runners[candidate].name,
            "rejects reasoning of earlier turns: asked again without"
        );
    }

    fn log(&self, candidate: usize, sent: &SentRequest, failure: &Failure) {
        let upstream = &self.runners[candidate].name;
        // The message is not logged: vendors quote the prompt in it.
        let (kind, phase, status) = (failure.kind.as_str(), failure.phase.as_str(), failure.status);
        if verdict(failure).loud {
            let key = sent.key.as_ref().map(HashedKey::id).unwrap_or("none");
            tracing::warn!(
                upstream,
                failure = kind,
                status,
                key,
                "an upstream refuses us: look at its key and its model"
            );
        } else {
            tracing::info!(upstream, failure = kind, phase, status, "an attempt failed");
        }
    }
}

fn refuses(failure: &Failure, complains: fn(&[u8]) -> bool) -> bool {
    // Of a stored item that is not the vendor's own it may say that there is none.
    matches!(failure.kind, FailureKind::BadRequest | FailureKind::NotFound)
        && failure.answer.as_ref().is_some_and(|answer| complains(&answer.body))
}

impl Drop for OutcomeReporter {
    /// The client left before anybody answered.
    fn drop(&mut self) {
        self.settle(&[]);
    }
}
