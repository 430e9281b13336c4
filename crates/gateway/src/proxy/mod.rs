//! A client's request on any surface: authenticate, read, plan, race, answer, record. [`serve`] does this in order. Not
//! for the stored state of upstreams: see `health`.

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
mod encoded;
mod fair_share;
mod gateway;
mod launcher;
mod load;
mod models;
mod ollama;
mod outbound;
mod override_cost;
mod overrides;
mod places;
mod policy;
mod race_guard;
mod raced_attempt;
mod refused_configuration;
mod rejection;
mod request_needs;
mod rescuer;
mod running;
mod sessions;
mod shares;
mod shed;
mod wrong_tokens;

pub use body::limited;
pub use caller::{
    Client, admin, admin_user, check_token, has_token, is_admin, is_still_admin, log_in, missing_token, sends_token,
};
pub use gateway::{Gateway, Totals};
pub use models::{gemini_list, gemini_one, list, one};
pub use ollama::{show, tags, version};
pub use refused_configuration::RefusedConfiguration;
pub use rejection::Rejection;
pub use sessions::{COOKIE_NAME, SESSION_FOR, Sessions};

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{Request, Response};
use tracing::Instrument;

use crate::race::Race;
use admission::{Admitted, NotAdmitted};
use blocking::StillWanted;
use caller::Caller;
use early::EarlyBody;
use launcher::Launcher;
use load::AdmissionRoom;
use photofinish_base::telemetry::request_span;
use photofinish_config::config::User;
use photofinish_history::record::RequestOrigin;
use photofinish_routing::health::LiveConfig;
use photofinish_wire::{ApiRequest, PathCall, Surface};
use policy::RacePolicy;
use race_guard::{Planned, RaceGuard};
use running::{PreparedRace, ServedAnswer, response_of};

/// Serves a `POST` on one of the surfaces.
pub async fn serve(gateway: Arc<Gateway>, surface: Surface, request: Request<Body>) -> Response<Body> {
    let live = gateway.live();
    match admission::admit(&gateway, &live, &Client::of(request.extensions())) {
        Ok(admitted) => handle(&gateway, &live, surface, admitted, RequestOrigin::default(), request).await,
        Err(NotAdmitted::Shed(shed)) => admission::turn_away(&gateway, surface, shed, request),
        Err(NotAdmitted::Refused(rejection)) => rejection.answer_to(surface),
    }
}

/// The answer ends within this time, whatever the configuration allows: a measurement must not wait for one without end. An extension
/// of a request of this process; a client has no way to send one.
#[derive(Clone, Copy, Debug)]
pub struct EndsWithin(pub Duration);

/// Serves a request of the operator, without a token, as one of the users or as none: the operator has the
/// configuration and its keys anyway. No HTTP route uses it. The request's row gets the [`RequestOrigin`] among its extensions.
pub async fn serve_as(
    gateway: Arc<Gateway>,
    surface: Surface,
    user: Option<Arc<User>>,
    request: Request<Body>,
) -> Response<Body> {
    let live = gateway.live();
    let place = gateway.enter_own_race();
    let origin = request.extensions().get::<RequestOrigin>().cloned().unwrap_or_default();
    let request = request.map(|body| limited(body, live.config.server.body_max));
    let span = request_span(surface.as_str());
    handle(&gateway, &live, surface, (user, place), origin, request).instrument(span).await
}

async fn handle(
    gateway: &Arc<Gateway>,
    live: &Arc<LiveConfig>,
    surface: Surface,
    (user, place): Admitted,
    origin: RequestOrigin,
    request: Request<Body>,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let mut guard = RaceGuard::new(gateway, surface, user.as_deref(), place, origin);
    let race = match prepare(gateway, live, user, &parts, body, &mut guard).await {
        Ok(PreparedRequest::Race(race)) => race,
        Ok(PreparedRequest::Answered(response)) => return response_of(Ok(ServedAnswer::Whole(response, None)), guard),
        Err(rejection) => {
            return match guard.is_shed() {
                Some(shed) => admission::shed_answer(gateway, surface, shed),
                None => response_of(Err(rejection), guard),
            };
        }
    };
    let Some(every) = race.keepalive() else {
        return response_of(race.run().await, guard);
    };
    let (due, rescues) = (race.read_at + every, race.may_rescue());
    let mut racing = race.run();
    match tokio::time::timeout_at(due, &mut racing).await {
        Ok(served) => response_of(served, guard),
        Err(_) => EarlyBody::new(racing, guard, every).into_response(rescues),
    }
}

/// The result of preparing a request.
enum PreparedRequest {
    Race(Box<PreparedRace>),
    /// The gateway answers the request itself.
    Answered(Response<Bytes>),
}

async fn prepare(
    gateway: &Arc<Gateway>,
    live: &Arc<LiveConfig>,
    user: Option<Arc<User>>,
    parts: &Parts,
    body: Body,
    guard: &mut RaceGuard,
) -> Result<PreparedRequest, Rejection> {
    let (headers, call) = (&parts.headers, parts.extensions.get::<PathCall>().cloned());
    let bytes = encoded::read(gateway, headers, body, live.config.server.body_max, guard.place()).await?;
    guard.place().race().map_err(Rejection::overloaded)?;
    let (surface, length, in_flight) = (guard.surface(), bytes.len(), guard.in_flight());
    let read = guard.read(&bytes);
    let read_at = read.at();
    let until = read_at + live.config.race.timeouts.total;
    let content_type = headers.get(CONTENT_TYPE).cloned();
    let strict = user.as_ref().is_some_and(|user| !user.overrides.any_upstream());
    let parse = move |_: &StillWanted| match surface {
        Surface::Passed(_) => ApiRequest::parse_passed(surface, bytes, content_type.as_ref(), strict),
        _ => ApiRequest::parse_call(surface, bytes, call.as_ref(), strict),
    };
    let request = Arc::new(gateway.heavy().run(length, until, parse).await??);
    let parsed = read.parsed(&request);
    let caller = Caller::new(live, user, headers)?;
    let overrides = overrides::read(headers, caller.user.as_deref())?;
    let is_crowded = || gateway.load(live, in_flight).room() != AdmissionRoom::Enough;
    let crowded = is_crowded();
    let resolve = {
        let (gateway, live, request) = (gateway.clone(), live.clone(), request.clone());
        move |wanted: &StillWanted| {
            candidate_set::resolve(&gateway, &live, &caller, &request, &overrides, crowded, wanted)
        }
    };
    let mut candidates = match gateway.heavy().run(length, until, resolve).await? {
        Err(rejection) if rejection.is_unspoken() && request.surface.counts() => {
            return Ok(PreparedRequest::Answered(counting::estimate(&request)));
        }
        candidates => candidates?,
    };
    if let Some(EndsWithin(limit)) = parts.extensions.get() {
        candidates.settings.timeouts = candidates.settings.timeouts.within(*limit);
    }
    if let Some(answer) = ollama::loaded(&request) {
        return Ok(PreparedRequest::Answered(answer));
    }
    if crowded || is_crowded() {
        candidates.leave_out_extras();
    }
    let mut policy = RacePolicy::new(gateway.health(), &candidates, &request, read_at);
    let plan = policy.plan();
    let guard = parsed.planned(Planned {
        settings: &candidates.settings,
        plan: plan.text(|candidate| &candidates.list[candidate].name),
        left_out: candidates.left_out(&plan),
        reasons: policy.driver.reasons(),
        race_budget: policy.driver.race_budget().clone(),
    });
    let launcher = Launcher::new(gateway, headers, &request, &mut candidates, guard, policy, read_at);
    let (gateway, outcome_reporter) = (gateway.clone(), launcher.outcome_reporter());
    let race = Box::new(Race::new(plan, launcher, read_at));
    Ok(PreparedRequest::Race(Box::new(PreparedRace { gateway, request, candidates, race, outcome_reporter, read_at })))
}
