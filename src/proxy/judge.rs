//! What an answer tells of its upstream: what is set aside, what its breaker counts, what is asked once more.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::field::{Field, Runner};
use super::gateway::Gateway;
use crate::clock::Instant;
use crate::config::Breaker;
use crate::failure::{Failure, FailureKind, Phase};
use crate::protocol::error::rejects_stream_options;
use crate::race::verdict::{is_the_requests_fault, verdict};
use crate::routing::cooldown::Aside;
use crate::routing::keyring::Key;

/// What an answer is judged by, also that of a loser that runs on after the race.
pub struct Judge {
    pub gateway: Arc<Gateway>,
    pub runners: Arc<Vec<Runner>>,
    breaker: Breaker,
    /// By candidate: its latest start.
    sent: Mutex<Vec<Sent>>,
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
    pub fn new(gateway: &Arc<Gateway>, field: &Field, read_at: Instant) -> Judge {
        let nothing = Sent { at: read_at, key: None, stream_options: false, complained: false, stale: false };
        Judge {
            gateway: gateway.clone(),
            runners: field.runners.clone(),
            breaker: field.settings.breaker,
            sent: Mutex::new(vec![nothing; field.runners.len()]),
        }
    }

    /// The first token of this candidate's latest start is there. `exhausted_for`: one of its rate limits is used up for so
    /// long.
    pub fn answered(&self, candidate: usize, exhausted_for: Option<Duration>) {
        let sent = self.sent(candidate);
        self.first_token(candidate, &sent);
        if let Some(wait) = exhausted_for {
            let target = self.runners[candidate].target(sent.key.as_ref().map(|key| key.id().to_owned()));
            self.gateway.exhausted(&target, wait);
        }
    }

    /// An answer of this candidate's latest start ended, by the failure that broke it or well.
    pub fn ended(&self, candidate: usize, failure: Option<&Failure>) {
        match failure {
            Some(failure) => self.charge(candidate, &self.sent(candidate), failure),
            None => self.gateway.ended_well(&self.runners[candidate].name),
        }
    }

    /// It is sent now.
    pub fn note(&self, candidate: usize, sent: Sent) {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)[candidate] = sent;
    }

    /// What went up with this candidate's latest start.
    pub fn sent(&self, candidate: usize) -> Sent {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)[candidate].clone()
    }

    /// The first token is there of what was sent so.
    pub fn first_token(&self, candidate: usize, sent: &Sent) {
        self.heard_well(candidate, sent);
        self.gateway.close_breaker(&self.runners[candidate].name, sent.at);
    }

    fn charge(&self, candidate: usize, sent: &Sent, failure: &Failure) {
        if verdict(failure).counts {
            let broke = failure.phase == Phase::Stream;
            self.gateway.charge(&self.runners[candidate].name, &self.breaker, broke, sent.at);
        }
    }

    fn heard_well(&self, candidate: usize, sent: &Sent) {
        self.forgive(candidate, sent);
        if sent.complained && !sent.stream_options {
            self.gateway.leave_off_stream_options(&self.runners[candidate].name);
        }
    }

    fn forgive(&self, candidate: usize, sent: &Sent) {
        let key_id = || sent.key.as_ref().map(|key| key.id().to_owned());
        self.gateway.forgive(|| self.runners[candidate].target(key_id()), sent.at);
    }

    /// True: ask the same candidate once more, for the request to it has changed, or goes over a new connection.
    pub fn failed(&self, candidate: usize, sent: &Sent, failure: &Failure) -> bool {
        self.log(candidate, sent, failure);
        // Whether the upstream or only its old connection is to blame, a new one tells.
        if failure.stale && !sent.stale {
            self.sent.lock().unwrap_or_else(PoisonError::into_inner)[candidate].stale = true;
            return true;
        }
        self.charge(candidate, sent, failure);
        let runner = &self.runners[candidate];
        let aside = verdict(failure).aside;
        if let Some(aside) = aside {
            let target = runner.target(sent.key.as_ref().map(|key| key.id().to_owned()));
            let wait = self.gateway.set_aside(aside, &target, failure.retry_after);
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
            self.sent.lock().unwrap_or_else(PoisonError::into_inner)[candidate].complained = true;
        }
        // Another key makes it another request. A wait may already have run out, so the key itself is looked at too.
        let of_the_key = matches!(aside, Some(Aside::KeyRateLimited | Aside::KeyRefused));
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
