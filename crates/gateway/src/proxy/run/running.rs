//! One race, from its plan to the head of its answer. Not for the client's request before that, nor for the body after
//! it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::header::TRAILER;
use http::{HeaderValue, Response};

use crate::attempt::ReadyAttempt;
use crate::proxy::refusals::rejection::Rejection;
use crate::proxy::request::candidate_set::CandidateSet;
use crate::proxy::run::all_failed;
use crate::proxy::run::answer;
use crate::proxy::run::launcher::Launcher;
use crate::proxy::run::race_guard::{RaceGuard, StreamedRace, Win};
use crate::proxy::run::rescuer::{self, AnswerRescuer};
use crate::proxy::state::gateway::Gateway;
use crate::proxy::state::kept::StateOwner;
use crate::relay::{RESCUED, RelayBody, RelayObserver as _, RescuedBody};
use photofinish_base::clock::Instant;
use photofinish_config::RescuePolicy;
use photofinish_race::{Race, RaceFinish};
use photofinish_routing::health::OutcomeReporter;
use photofinish_translation::ApiRequest;
use photofinish_wire::Dialect;

/// A race that can begin.
pub struct PreparedRace {
    pub gateway: Arc<Gateway>,
    pub request: Arc<ApiRequest>,
    pub candidates: CandidateSet,
    /// Boxed: it is large, and every future that it moves into would hold a copy.
    pub race: Box<Race<Launcher>>,
    pub outcome_reporter: Arc<OutcomeReporter>,
    pub read_at: Instant,
}

/// A race under way, until it has an answer.
pub type Racing = Pin<Box<dyn Future<Output = Result<ServedAnswer, Rejection>> + Send>>;

/// The answer of a race.
pub enum ServedAnswer {
    /// The head, and the source of its body.
    Streaming(Response<()>, Box<WinnersStream>),
    /// The whole answer. None: no attempt won, and an upstream's own error is passed on.
    Whole(Response<Bytes>, Option<Win>),
}

/// The winner's stream, before its body is sent.
pub struct WinnersStream {
    win: Win,
    ready: ReadyAttempt,
    /// None: an answer that breaks off ends with an error event.
    rescuer: Option<Box<AnswerRescuer>>,
    /// The client asked for the usage chunk itself.
    include_usage: bool,
    is_background: bool,
    gateway: Arc<Gateway>,
}

impl PreparedRace {
    /// After this time without an answer, a streaming client gets the head of its answer and then heartbeats.
    pub fn keepalive(&self) -> Option<Duration> {
        self.candidates.settings.keepalive.filter(|_| self.request.stream)
    }

    /// Whether another upstream continues the answer if it breaks off.
    pub fn may_rescue(&self) -> bool {
        rescuer::may_rescue(&self.candidates, &self.request)
    }

    /// Runs the race to an answer, or until the gateway shuts down. Boxed: it is most of a request's state, and a request
    /// that is rejected earlier needs none of it.
    pub fn run(self: Box<Self>) -> Racing {
        Box::pin(async move {
            let shutdown = self.gateway.shutdown().clone();
            // Pinned first: `select!` would copy the whole future.
            let mut served = std::pin::pin!(self.answer());
            tokio::select! {
                biased;
                served = &mut served => served,
                () = shutdown.cancelled() => Err(Rejection::shutting_down()),
            }
        })
    }

    async fn answer(self: Box<Self>) -> Result<ServedAnswer, Rejection> {
        let PreparedRace { gateway, request, candidates, mut race, outcome_reporter, read_at } = *self;
        let (mut ready, candidate, ordinal) = match race.run().await {
            RaceFinish::Won { ready, candidate, ordinal } => (ready, candidate, ordinal),
            RaceFinish::Failed => {
                outcome_reporter.settle(race.failures());
                if request.surface.counts() && all_failed::is_lacking(race.failures()) {
                    return Ok(ServedAnswer::Whole(all_failed::estimate(&request), None));
                }
                return Ok(ServedAnswer::Whole(all_failed::all_failed(&race, &candidates, &request)?, None));
            }
            RaceFinish::Deadline => {
                outcome_reporter.settle(race.failures());
                return Err(Rejection::deadline(&candidates.failed(race.failures())));
            }
        };
        candidates.keep_session(candidate, race.failures(), &gateway);
        let about_race = answer::about_race(&candidates, candidate, &ready, read_at);
        let (token_us, is_plain) = (answer::token_us(&ready), ready.stream.is_plain());
        let owner = owner(&candidates, candidate, &outcome_reporter);
        let win = Win { ordinal, candidate, token_us, is_plain, outcome_reporter, owner };
        if let Some(whole) = ready.whole.take() {
            let whole = if request.listed { [b"[", &whole[..], b"]"].concat().into() } else { whole };
            win.outcome_reporter.ended(candidate, None);
            let response = answer::whole(&ready, about_race, whole);
            ready.stream.read_out(gateway.shutdown());
            return Ok(ServedAnswer::Whole(response, Some(win)));
        }
        let is_rescued = rescuer::may_rescue(&candidates, &request);
        let (continues, others) = (candidates.settings.rescue == RescuePolicy::Continue, candidates.list.len() > 1);
        let timeouts = candidates.list[candidate].candidate.upstream.timeouts;
        ready.stream.serve(timeouts.silence(is_rescued && continues, is_rescued && others));
        let mut head = answer::head(&ready, about_race);
        let rescuer = is_rescued.then(|| Box::new(AnswerRescuer::new(*race, candidate)));
        if rescuer.is_some() {
            head.headers_mut().insert(TRAILER, HeaderValue::from_static(RESCUED));
        }
        let (include_usage, is_background) = (request.include_usage, request.state.background);
        let stream = WinnersStream { win, ready, rescuer, include_usage, is_background, gateway };
        Ok(ServedAnswer::Streaming(head, Box::new(stream)))
    }
}

impl WinnersStream {
    pub fn into_body(self, guard: RaceGuard) -> Body {
        let WinnersStream { win, ready, rescuer, include_usage, is_background, gateway } = self;
        let mut guard: StreamedRace = guard.streams(ready.status, win);
        if is_background {
            // The client may leave and ask for the rest by its id.
            guard.finished(&ready.prelude);
        }
        let relay = RelayBody::new(ready.stream, ready.prelude, include_usage, gateway.shutdown(), guard);
        match rescuer {
            None => Body::new(relay),
            Some(rescuer) => Body::new(RescuedBody::new(relay, rescuer, gateway.memory().lease())),
        }
    }
}

/// The winner as the one who has what it answers, if it speaks the Responses API itself.
fn owner(candidates: &CandidateSet, winner: usize, reporter: &OutcomeReporter) -> Option<StateOwner> {
    let translation = &candidates.list[winner].upload;
    (translation.dialect() == Dialect::Responses && !translation.is_translated()).then(|| StateOwner {
        caller: candidates.caller.id(),
        upstream: candidates.name(winner).to_owned(),
        model: candidates.model.clone(),
        key: reporter.sent(winner).key.map(|key| key.id().to_owned()),
        job: candidates.job.clone(),
    })
}

/// The result of the race, as an answer whose head was not sent yet.
pub fn response_of(served: Result<ServedAnswer, Rejection>, mut guard: RaceGuard) -> Response<Body> {
    match served {
        Ok(ServedAnswer::Streaming(mut head, stream)) => {
            answer::name_race(head.headers_mut(), &guard);
            head.map(|()| stream.into_body(guard))
        }
        Ok(ServedAnswer::Whole(mut response, win)) => {
            answer::name_race(response.headers_mut(), &guard);
            guard.answered(response.status(), win, response.body());
            response.map(Body::from)
        }
        Err(rejection) => {
            guard.name();
            let mut response = rejection.answer_to(guard.surface());
            answer::name_race(response.headers_mut(), &guard);
            guard.rejected(&rejection);
            response
        }
    }
}
