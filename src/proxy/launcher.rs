//! Starts the attempts of one race and hears of their failures: what is set aside, what is asked once more, who is audited.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};

use super::field::{Field, Runner};
use super::gateway::Gateway;
use super::race_guard::RaceGuard;
use crate::attempt::{self, Attempt, Ready, Spec};
use crate::clock::Instant;
use crate::config::RaceSettings;
use crate::failure::{Failure, FailureKind};
use crate::protocol::error::rejects_stream_options;
use crate::protocol::request::ChatRequest;
use crate::race::verdict::verdict;
use crate::race::{Launch, Starting};
use crate::routing::cooldown::Aside;
use crate::routing::keyring::Key;

/// Client headers that go up to every provider.
const FORWARDED: [&str; 3] = ["anthropic-version", "anthropic-beta", "openai-beta"];
/// These name the caller's own account, so they go up only beside the caller's own key.
const FORWARDED_WITH_OWN_KEY: [&str; 2] = ["openai-organization", "openai-project"];

pub struct Launcher {
    shared: Arc<Shared>,
    request: Arc<ChatRequest>,
    settings: RaceSettings,
    client_headers: HeaderMap,
    race_id: String,
    /// Raised with every start.
    attempts: Arc<AtomicUsize>,
    read_at: Instant,
}

/// What a failure is judged by, also that of an audited loser after the race.
struct Shared {
    gateway: Arc<Gateway>,
    runners: Arc<Vec<Runner>>,
    /// By candidate: the key and whether `stream_options` were sent, of its latest start.
    sent: Mutex<Vec<(Option<Key>, bool)>>,
}

impl Launcher {
    pub fn new(
        gateway: &Arc<Gateway>,
        headers: &HeaderMap,
        request: &Arc<ChatRequest>,
        field: &Field,
        guard: &RaceGuard,
        read_at: Instant,
    ) -> Launcher {
        let sent = Mutex::new(vec![(None, false); field.runners.len()]);
        Launcher {
            shared: Arc::new(Shared { gateway: gateway.clone(), runners: field.runners.clone(), sent }),
            request: request.clone(),
            settings: field.settings.clone(),
            client_headers: headers.clone(),
            race_id: guard.race_id().to_owned(),
            attempts: guard.attempts(),
            read_at,
        }
    }
}

impl Launch for Launcher {
    type Ready = Ready;
    type Attempt = Attempt;

    fn launch(&mut self, starting: Starting) -> Attempt {
        let runner = &self.shared.runners[starting.candidate];
        let gateway = &self.shared.gateway;
        let key = runner.key(gateway).cloned();
        let stream_options = runner.upstream.provider.stream_options && gateway.takes_stream_options(&runner.name);
        self.attempts.fetch_add(1, Ordering::Relaxed);
        self.shared.note(starting.candidate, key.clone(), stream_options);
        attempt::start(Spec {
            client: gateway.client().clone(),
            recorder: gateway.recorder().clone(),
            shutdown: gateway.shutdown().clone(),
            race_id: self.race_id.clone(),
            read_at: self.read_at,
            starting,
            upstream: runner.upstream.clone(),
            endpoint: runner.endpoint.clone(),
            headers: forwarded(&self.client_headers, runner, key.as_ref()),
            key,
            request: self.request.clone(),
            stream_options,
            p_audit: self.settings.audit,
            slot: Some(gateway.enter_attempt(&runner.name)),
        })
    }

    fn failed(&mut self, candidate: usize, failure: &Failure) -> bool {
        self.shared.failed(candidate, failure)
    }

    fn lost(&mut self, mut attempt: Attempt) {
        if fastrand::f64() >= self.settings.audit {
            return;
        }
        let Some(place) = self.shared.gateway.enter_audit() else { return };
        attempt.audit();
        let candidate = attempt.candidate();
        let limit = self.shared.runners[candidate].upstream.timeouts.first_token;
        let (shared, cancelled) = (self.shared.clone(), self.shared.gateway.shutdown().draining());
        self.shared.gateway.shutdown().spawn(async move {
            let _place = place;
            tokio::select! {
                ended = tokio::time::timeout(limit, attempt) => {
                    if let Ok(Err(failure)) = ended {
                        shared.failed(candidate, &failure);
                    }
                }
                () = cancelled => {}
            }
        });
    }
}

impl Shared {
    fn note(&self, candidate: usize, key: Option<Key>, stream_options: bool) {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent[candidate] = (key, stream_options);
    }

    fn failed(&self, candidate: usize, failure: &Failure) -> bool {
        let runner = &self.runners[candidate];
        let (key, stream_options) = self.sent.lock().unwrap_or_else(PoisonError::into_inner)[candidate].clone();
        let verdict = verdict(failure);
        // The message is not logged: vendors quote the prompt in it.
        let (kind, phase, status) = (failure.kind.as_str(), failure.phase.as_str(), failure.status);
        if verdict.loud {
            let key = key.as_ref().map(Key::id).unwrap_or("none");
            tracing::warn!(
                upstream = runner.name,
                failure = kind,
                status,
                key,
                "an upstream refuses us: look at its key and its model"
            );
        } else {
            tracing::info!(upstream = runner.name, failure = kind, phase, status, "an attempt failed");
        }
        if let Some(aside) = verdict.aside {
            let wait =
                self.gateway.set_aside(aside, &runner.target(key.map(|key| key.id().to_owned())), failure.retry_after);
            tracing::info!(upstream = runner.name, ?aside, ?wait, "set aside");
        }
        let rejected = failure.kind == FailureKind::BadRequest
            && stream_options
            && failure.answer.as_ref().is_some_and(|answer| rejects_stream_options(&answer.body));
        if rejected {
            tracing::info!(upstream = runner.name, "rejects stream_options: asked again without");
            self.gateway.leave_off_stream_options(&runner.name);
        }
        // Another key makes it another request.
        let other_key = matches!(verdict.aside, Some(Aside::KeyRateLimited | Aside::KeyRefused))
            && runner.has_rested_key(&self.gateway);
        rejected || other_key
    }
}

/// What of the client's headers goes up.
fn forwarded(client: &HeaderMap, runner: &Runner, key: Option<&Key>) -> HeaderMap {
    let own = key.is_some_and(|key| key.own);
    let with_own = FORWARDED_WITH_OWN_KEY.iter().filter(|_| own);
    let configured = runner.upstream.provider.forward_headers.iter().map(String::as_str);
    let mut headers = HeaderMap::new();
    for name in FORWARDED.iter().chain(with_own).copied().chain(configured) {
        let Ok(name) = HeaderName::try_from(name) else { continue };
        let values: Vec<HeaderValue> = client.get_all(&name).iter().cloned().collect();
        for value in values {
            headers.append(name.clone(), value);
        }
    }
    headers
}
