//! What an answer tells of its upstream: what is set aside, what its breaker counts, what is asked once more.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use super::caller::CallerId;
use super::field::{Field, Runner};
use super::gateway::{Gateway, lock};
use crate::clock::Instant;
use crate::config::Breaker;
use crate::failure::{Failure, FailureKind, Phase};
use crate::protocol::error::rejects_stream_options;
use crate::protocol::request::ApiRequest;
use crate::race::verdict::{Counts, Verdict, is_shared_by_all, is_the_requests_fault, verdict};
use crate::routing::cooldown::Aside;
use crate::routing::keyring::Key;

/// What an answer is judged by, also that of a loser that runs on after the race.
pub struct Judge {
    pub gateway: Arc<Gateway>,
    pub runners: Arc<Vec<Runner>>,
    breaker: Breaker,
    caller: CallerId,
    /// Not kept alive: nobody needs it once an answer goes down.
    request: Weak<ApiRequest>,
    /// The client itself sent `stream_options`.
    own_stream_options: bool,
    /// By candidate: its latest start.
    sent: Mutex<Vec<Sent>>,
    /// Failures of upstreams, until it is known whether all attempts share them; none once it is.
    pending: Mutex<Option<Vec<Charge>>>,
}

/// A failure that a breaker counts.
struct Charge {
    candidate: usize,
    /// After its first token.
    broke: bool,
    /// Whose request may have caused it.
    caller: Option<u64>,
    sent_at: Instant,
}

/// What went up.
#[derive(Clone)]
pub struct Sent {
    pub at: Instant,
    pub key: Option<Key>,
    pub stream_options: bool,
    /// In this race it has complained about `stream_options`. Whether that was meant, an answer without them tells.
    pub complained: bool,
    /// In this race a pooled connection to it has died: new starts go over a new one.
    pub stale: bool,
}

impl Judge {
    pub fn new(gateway: &Arc<Gateway>, field: &Field, request: &Arc<ApiRequest>, read_at: Instant) -> Judge {
        let nothing = Sent { at: read_at, key: None, stream_options: false, complained: false, stale: false };
        Judge {
            gateway: gateway.clone(),
            runners: field.runners.clone(),
            breaker: field.settings.breaker,
            caller: field.caller,
            request: Arc::downgrade(request),
            own_stream_options: request.has_stream_options(),
            sent: Mutex::new(vec![nothing; field.runners.len()]),
            pending: Mutex::new(Some(Vec::new())),
        }
    }

    /// The first token of this candidate's latest start is there. `exhausted_for`: one of its rate limits is used up for so
    /// long.
    pub fn answered(&self, candidate: usize, exhausted_for: Option<Duration>) {
        let sent = self.sent(candidate);
        self.first_token(candidate, &sent);
        if let Some(wait) = exhausted_for {
            self.gateway.exhausted(&self.runners[candidate].target(sent.key.as_ref()), wait);
        }
    }

    /// An answer of this candidate's latest start ended, by the failure that broke it or well.
    pub fn ended(&self, candidate: usize, failure: Option<&Failure>) {
        match failure {
            Some(failure) => self.charge(candidate, &self.sent(candidate), failure),
            None => self.gateway.ended_well(self.runners[candidate].asked()),
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
    pub fn note(&self, candidate: usize, sent: Sent) {
        lock(&self.sent)[candidate] = sent;
    }

    /// What went up with this candidate's latest start.
    pub fn sent(&self, candidate: usize) -> Sent {
        lock(&self.sent)[candidate].clone()
    }

    /// The first token is there of what was sent so.
    pub fn first_token(&self, candidate: usize, sent: &Sent) {
        self.settle(&[]);
        self.heard_well(candidate, sent);
        self.gateway.close_breaker(self.runners[candidate].asked(), sent.at);
    }

    fn charge(&self, candidate: usize, sent: &Sent, failure: &Failure) {
        let caller = match verdict(failure).counts {
            Counts::Never => return,
            Counts::Doubtful => self.caller.to_be_told(),
            Counts::Certain => None,
        };
        let charge = Charge { candidate, broke: failure.phase == Phase::Stream, caller, sent_at: sent.at };
        match &mut *lock(&self.pending) {
            Some(pending) => pending.push(charge),
            None => self.apply(&charge),
        }
    }

    fn apply(&self, charge: &Charge) {
        let Charge { candidate, broke, caller, sent_at } = *charge;
        self.gateway.charge(self.runners[candidate].asked(), &self.breaker, broke, caller, sent_at);
    }

    /// What is to be set aside now.
    fn aside(&self, candidate: usize, sent: &Sent, verdict: &Verdict) -> Option<Aside> {
        let target = || self.runners[candidate].target(sent.key.as_ref());
        let is_suspect = |request: &ApiRequest| self.gateway.suspect(&target(), self.caller, request.body());
        let is_certain = || verdict.certain || self.request.upgrade().is_some_and(|request| is_suspect(&request));
        verdict.aside.filter(|_| is_certain())
    }

    fn heard_well(&self, candidate: usize, sent: &Sent) {
        self.forgive(candidate, sent);
        // A complaint about what the client wrote there says nothing of what is added to the requests of others.
        if sent.complained && !sent.stream_options && !self.own_stream_options {
            self.gateway.leave_off_stream_options(&self.runners[candidate].name);
        }
    }

    fn forgive(&self, candidate: usize, sent: &Sent) {
        self.gateway.forgive(|| self.runners[candidate].target(sent.key.as_ref()), sent.at);
    }

    /// True: ask the same candidate once more, for the request to it has changed, or goes over a new connection.
    pub fn failed(&self, candidate: usize, sent: &Sent, failure: &Failure) -> bool {
        self.log(candidate, sent, failure);
        // Whether the upstream or only its old connection is to blame, a new one tells.
        if failure.stale && !sent.stale {
            lock(&self.sent)[candidate].stale = true;
            return true;
        }
        self.charge(candidate, sent, failure);
        let runner = &self.runners[candidate];
        let verdict = verdict(failure);
        let aside = self.aside(candidate, sent, &verdict);
        if let Some(aside) = aside {
            let wait = self.gateway.set_aside(aside, &runner.target(sent.key.as_ref()), failure.retry_after);
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
        let complains = failure.kind == FailureKind::BadRequest
            && sent.stream_options
            && failure.answer.as_ref().is_some_and(|answer| rejects_stream_options(&answer.body));
        if complains {
            tracing::info!(upstream = runner.name, "rejects stream_options: asked again without");
            lock(&self.sent)[candidate].complained = true;
        }
        // Another key makes it another request. A wait may already have run out, so the key itself is looked at too.
        let of_the_key = matches!(aside, Some(Aside::KeyRateLimited | Aside::KeyRefused))
            || aside.is_some() && failure.kind == FailureKind::Forbidden;
        let other_key = of_the_key && runner.has_rested_key_but(&self.gateway, sent.key.as_ref());
        complains || other_key
    }

    fn log(&self, candidate: usize, sent: &Sent, failure: &Failure) {
        let upstream = &self.runners[candidate].name;
        // The message is not logged: vendors quote the prompt in it.
        let (kind, phase, status) = (failure.kind.as_str(), failure.phase.as_str(), failure.status);
        if verdict(failure).loud {
            let key = sent.key.as_ref().map(Key::id).unwrap_or("none");
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

impl Drop for Judge {
    /// The client left before anybody answered.
    fn drop(&mut self) {
        self.settle(&[]);
    }
}
