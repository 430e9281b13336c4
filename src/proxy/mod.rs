//! What is done with a client's request, whatever its surface: authenticate, read, plan, race, answer, record.
//!
//! [`serve`] is that order. Every answer of the gateway's own is in `rejection`.

mod admission;
mod all_failed;
mod answer;
mod blocking;
mod body;
mod caller;
mod candidate_set;
mod client_headers;
mod counting;
mod early;
mod gateway;
mod launcher;
mod models;
mod outbound;
mod overrides;
mod policy;
mod race_guard;
mod raced_attempt;
mod rejection;
mod rescuer;
mod shed;

pub use caller::{admin, is_admin};
pub use gateway::{Gateway, Totals};
pub use models::{list, one};
pub use rejection::Rejection;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::header::TRAILER;
use http::{HeaderValue, Request, Response};

use crate::attempt::{InFlightGuard, ReadyAttempt};
use crate::clock::Instant;
use crate::config::User;
use crate::health::{LiveConfig, OutcomeReporter};
use crate::protocol::Surface;
use crate::protocol::request::ApiRequest;
use crate::race::{Race, RaceFinish};
use crate::relay::{RESCUED, RelayBody, RescuedBody};
use admission::AdmissionRoom;
use answer::AnswerFacts;
use blocking::StillWanted;
use caller::{Caller, authenticate};
use candidate_set::CandidateSet;
use early::{EarlyBody, EarlyHead};
use launcher::Launcher;
use policy::RacePolicy;
use race_guard::RaceGuard;
use raced_attempt::AttemptReady;
use rescuer::AnswerRescuer;

/// A `POST` on one of the surfaces.
pub async fn serve(gateway: Arc<Gateway>, surface: Surface, request: Request<Body>) -> Response<Body> {
    let live = gateway.live();
    let slot = match admission::admit(&gateway, &live) {
        Ok(slot) => slot,
        Err(shed) => {
            admission::leave(&gateway, request);
            return Rejection::overloaded(shed).answer_to(surface);
        }
    };
    match authenticate(&gateway, &live, request.headers()) {
        Ok(user) => handle(&gateway, &live, surface, user, request, slot).await,
        Err(rejection) => rejection.answer_to(surface),
    }
}

/// The same for the operator, who has the configuration with its keys and so needs no token: as one of the users, or as
/// nobody. No HTTP route leads here.
pub async fn serve_as(
    gateway: Arc<Gateway>,
    surface: Surface,
    user: Option<Arc<User>>,
    request: Request<Body>,
) -> Response<Body> {
    let live = gateway.live();
    let slot = gateway.enter_race();
    handle(&gateway, &live, surface, user, request, slot).await
}

async fn handle(
    gateway: &Arc<Gateway>,
    live: &Arc<LiveConfig>,
    surface: Surface,
    user: Option<Arc<User>>,
    request: Request<Body>,
    slot: InFlightGuard,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let mut guard = RaceGuard::new(gateway, surface, user.as_deref(), slot);
    let starters = match prepare(gateway, live, user, &parts.headers, body, &mut guard).await {
        Ok(PreparedRequest::Race(starters)) => starters,
        Ok(PreparedRequest::Answered(response)) => return response_of(Ok(ServedAnswer::Whole(response)), guard),
        Err(rejection) => return response_of(Err(rejection), guard),
    };
    let keepalive = starters.field.settings.keepalive.filter(|_| starters.request.stream);
    let Some(every) = keepalive else {
        let (served, guard) = Box::pin(starters.run(guard)).await;
        return response_of(served, guard);
    };
    let (due, head) = (starters.read_at + every, EarlyHead::new(&guard));
    // Boxed, for it is the most of a request's state: those that are turned away before have no room for it.
    let mut racing: Racing = Box::pin(starters.run(guard));
    match tokio::time::timeout_at(due, &mut racing).await {
        Ok((served, guard)) => response_of(served, guard),
        Err(_) => head.response(EarlyBody::new(racing, surface, every)),
    }
}

/// What the race came to, as an answer whose head has not gone out yet.
fn response_of(served: Result<ServedAnswer, Rejection>, mut guard: RaceGuard) -> Response<Body> {
    match served {
        Ok(ServedAnswer::Streaming(relay, response)) => response.map(|()| relay(guard)),
        Ok(ServedAnswer::Whole(mut response)) => {
            guard.answered(response.status());
            answer::name_race(response.headers_mut(), &guard);
            response.map(Body::from)
        }
        Err(rejection) => {
            guard.rejected(&rejection);
            let mut response = rejection.answer_to(guard.surface());
            answer::name_race(response.headers_mut(), &guard);
            response
        }
    }
}

/// A race under way, until it has an answer. It owns the race's guard, so that it can run on inside the answer's body.
type Racing = Pin<Box<dyn Future<Output = (Result<ServedAnswer, Rejection>, RaceGuard)> + Send>>;

type Relay = Box<dyn FnOnce(RaceGuard) -> Body + Send>;

enum ServedAnswer {
    /// The head of the answer, and what makes its body of the race's guard.
    Streaming(Relay, Response<()>),
    Whole(Response<Bytes>),
}

/// What a request came to before anybody was asked.
enum PreparedRequest {
    Race(Box<ReadyRace>),
    /// The gateway knows the answer itself.
    Answered(Response<Bytes>),
}

/// A race that can begin.
struct ReadyRace {
    gateway: Arc<Gateway>,
    request: Arc<ApiRequest>,
    field: CandidateSet,
    /// Boxed, for it is large and would be copied with every future that it moves into.
    race: Box<Race<Launcher>>,
    outcome_reporter: Arc<OutcomeReporter>,
    read_at: Instant,
}

async fn prepare(
    gateway: &Arc<Gateway>,
    live: &Arc<LiveConfig>,
    user: Option<Arc<User>>,
    headers: &http::HeaderMap,
    body: Body,
    guard: &mut RaceGuard,
) -> Result<PreparedRequest, Rejection> {
    let bytes = body::read(headers, body, live.config.server.body_max, gateway.budget()).await?;
    let read_at = guard.request_read(&bytes);
    let (surface, length) = (guard.surface(), bytes.len());
    let until = read_at + live.config.race.timeouts.total;
    let request = gateway.heavy().run(length, until, move |_| ApiRequest::parse(surface, bytes)).await??;
    let request = Arc::new(request);
    guard.request(&request);
    let caller = Caller::new(live, user, headers)?;
    let overrides = overrides::read(headers, caller.user.as_deref())?;
    let is_crowded = |guard: &RaceGuard| gateway.load(live, guard.in_flight()).room() != AdmissionRoom::Enough;
    let crowded = is_crowded(guard);
    let resolve = {
        let (gateway, live, request) = (gateway.clone(), live.clone(), request.clone());
        move |wanted: &StillWanted| {
            candidate_set::resolve(&gateway, &live, &caller, &request, &overrides, crowded, wanted)
        }
    };
    let mut field = match gateway.heavy().run(length, until, resolve).await? {
        Err(rejection) if rejection.is_unspoken() && request.surface == Surface::CountTokens => {
            return Ok(PreparedRequest::Answered(counting::estimate(&request)));
        }
        field => field?,
    };
    if crowded || is_crowded(guard) {
        field.leave_out_extras();
    }
    guard.settings(&field.settings);
    let mut policy = RacePolicy::new(gateway.learning(), &field, &request, read_at);
    let plan = policy.driver.plan(policy.now_us());
    guard.planned(plan.text(|candidate| &field.runners[candidate].name), &policy.driver);
    let launcher = Launcher::new(gateway, headers, &request, &mut field, guard, policy, read_at);
    let (gateway, outcome_reporter) = (gateway.clone(), launcher.outcome_reporter());
    let race = Box::new(Race::new(plan, launcher, read_at));
    Ok(PreparedRequest::Race(Box::new(ReadyRace { gateway, request, field, race, outcome_reporter, read_at })))
}

impl ReadyRace {
    /// Runs the race to an answer, or until the gateway ends.
    async fn run(self: Box<Self>, mut guard: RaceGuard) -> (Result<ServedAnswer, Rejection>, RaceGuard) {
        let ReadyRace { gateway, request, field, race, outcome_reporter, read_at } = *self;
        let served = {
            // Pinned first: `select!` would copy all of it.
            let mut served =
                std::pin::pin!(run(&gateway, &request, &field, race, outcome_reporter, read_at, &mut guard));
            tokio::select! {
                biased;
                served = &mut served => served,
                () = gateway.shutdown().cancelled() => Err(Rejection::shutting_down()),
            }
        };
        (served, guard)
    }
}

/// A winner's stream, on which a rescuer has others go on where it breaks off.
fn streamed(
    gateway: &Gateway,
    request: &ApiRequest,
    ready: ReadyAttempt,
    mut head: Response<()>,
    rescuer: Option<AnswerRescuer>,
) -> ServedAnswer {
    let (shutdown, include_usage) = (gateway.shutdown().clone(), request.include_usage);
    let rescuer = rescuer.map(|rescuer| {
        head.headers_mut().insert(TRAILER, HeaderValue::from_static(RESCUED));
        (rescuer, gateway.budget().lease())
    });
    let relay: Relay = Box::new(move |guard| {
        let relay = RelayBody::new(ready.stream, ready.prelude, include_usage, &shutdown, guard);
        match rescuer {
            None => Body::new(relay),
            Some((rescuer, lease)) => Body::new(RescuedBody::new(relay, Box::new(rescuer), lease)),
        }
    });
    ServedAnswer::Streaming(relay, head)
}

/// Runs the race to an answer.
async fn run(
    gateway: &Gateway,
    request: &ApiRequest,
    field: &CandidateSet,
    mut race: Box<Race<Launcher>>,
    outcome_reporter: Arc<OutcomeReporter>,
    read_at: Instant,
    guard: &mut RaceGuard,
) -> Result<ServedAnswer, Rejection> {
    let (begun, candidate, ordinal) = match race.run().await {
        RaceFinish::Won { ready, candidate, ordinal } => (ready, candidate, ordinal),
        RaceFinish::Failed => {
            outcome_reporter.settle(race.failures());
            return all_failed::all_failed(&race, field, request);
        }
        RaceFinish::Deadline => {
            outcome_reporter.settle(race.failures());
            return Err(Rejection::deadline(&field.failed(race.failures())));
        }
    };
    let facts = AnswerFacts::new(field, candidate, &begun, read_at);
    let AttemptReady { mut ready, whole, .. } = begun;
    guard.won(ordinal, facts.token_us, request.stream.then_some(ready.status));
    if let Some(whole) = whole {
        outcome_reporter.ended(candidate, None);
        let response = answer::whole(&ready, &facts, whole);
        ready.stream.read_out(gateway.shutdown());
        return Ok(ServedAnswer::Whole(response));
    }
    ready.stream.serve(field.runners[candidate].upstream.timeouts.idle);
    let mut head = answer::head(&ready, &facts);
    answer::name_race(head.headers_mut(), guard);
    guard.watched_by(outcome_reporter, candidate);
    let rescuer = rescuer::may_rescue(field, request).then(|| AnswerRescuer::new(*race, candidate));
    Ok(streamed(gateway, request, ready, head, rescuer))
}
