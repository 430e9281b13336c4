//! A client's request on any surface: authenticate, prepare, race, answer, record. [`serve`] does this in order. Not for the stored
//! state of upstreams: see `health`.

mod body;
mod door;
mod lists;
mod pass;
mod prepare;
mod refusals;
mod request;
mod run;
mod shadow;
mod state;
mod stored;
mod trace;

pub use crate::proxy::body::limited;
pub use crate::proxy::door::caller::{
    Asker, Client, Unsettled, authenticate, check_token, has_right, has_token, log_in, missing_token, open_session,
    permitted, sends_token, still_has_right, unsettled,
};
pub use crate::proxy::lists::models::{gemini_list, gemini_one, list, one};
pub use crate::proxy::lists::ollama::{running, show, tags, version};
pub use crate::proxy::pass::{UPLOAD_MAX, pass};
pub use crate::proxy::prepare::AskedBy;
pub use crate::proxy::refusals::code::{CODES, ErrorCode};
pub use crate::proxy::refusals::rejection::Rejection;
pub use crate::proxy::request::message::SocketMessage;
pub use crate::proxy::state::configuration::{Acceptance, RefusedConfiguration};
pub use crate::proxy::state::gateway::{Gateway, Totals};
pub use crate::proxy::state::load::LimitedCounts;
pub use crate::proxy::stored::calls::StoredCall;
pub use crate::proxy::trace::{RaceTrace, SpanSink, TracedCall};

use std::sync::Arc;

use axum::body::Body;
use http::header::CONTENT_ENCODING;
use http::{Request, Response};

use crate::proxy::door::admission::{self, NotAdmitted};
use crate::proxy::prepare::{PreparedRequest, Preparing, prepare};
use crate::proxy::run::early::EarlyBody;
use crate::proxy::run::gate::enter;
use crate::proxy::run::race_guard::RaceGuard;
use crate::proxy::run::running::{ServedAnswer, response_of};
use crate::proxy::shadow::{ShadowRequest, ShadowServed};
use crate::proxy::state::blocking::INLINE_MAX;
use crate::proxy::state::places::RequestPlace;
use crate::proxy::stored::calls::{self, Answer, UpstreamCall};
use photofinish_base::clock::{Instant, wall_micros};
use photofinish_base::telemetry::{LogContext, WithLogContext};
use photofinish_limits::{AttemptCost, LimitClock};
use photofinish_routing::health::{CallerId, LiveConfig};
use photofinish_wire::{PassedCall, PathCall, Surface};

/// An extension of a request that came as a frame of a WebSocket, whose pings keep it alive: its answer needs no early head.
#[derive(Clone, Copy)]
pub struct OverSocket;

/// Serves a `POST` on one of the surfaces. `call`: what the path says of the request, on surfaces whose path says it.
pub async fn serve(
    gateway: Arc<Gateway>,
    surface: Surface,
    client: Client,
    call: Option<PathCall>,
    request: Request<Body>,
) -> Response<Body> {
    let (live, mut request) = (gateway.live(), request);
    match admit_to(&gateway, &live, &client, surface, &mut request) {
        Ok((by, place)) => {
            handle(Preparing { gateway: &gateway, live: &live, call, by, stored: None }, surface, place, request).await
        }
        Err(answer) => *answer,
    }
}

/// Serves a call of the Responses API for something that is stored. What is kept here is answered here; all else goes to the
/// upstream that has it, as a request like any other.
pub async fn serve_stored(
    gateway: Arc<Gateway>,
    client: Client,
    call: StoredCall,
    mut request: Request<Body>,
) -> Response<Body> {
    let (live, surface) = (gateway.live(), Surface::Passed(PassedCall::Stored));
    let (by, mut place) = match admit_to(&gateway, &live, &client, surface, &mut request) {
        Ok(admitted) => admitted,
        Err(answer) => return *answer,
    };
    if call.makes()
        && let Err(rejection) = count_call(&gateway, &by)
    {
        return rejection.answer_to(surface);
    }
    let (mut parts, body) = request.into_parts();
    let max = live.config.server.body_max;
    let found = match body::read(&gateway, &parts.headers, body, max, &mut place).await {
        Ok(bytes) => {
            let caller = CallerId::new(by.user.as_ref().map(|user| user.name.as_str()), live.users()).id();
            let (stored, until) = (gateway.stored().clone(), Instant::now() + live.config.race.timeouts.total);
            // How much is stored is not known.
            let length = bytes.len().max(INLINE_MAX + 1);
            let find = move |_: &_| calls::find(&stored, caller, &call, &bytes).map(|answer| (answer, call, bytes));
            gateway.heavy().run(length, until, find).await.and_then(|found| found)
        }
        Err(rejection) => Err(rejection),
    };
    match found {
        Ok((Answer::Here(answer), ..)) => answer,
        Ok((Answer::Upstream(holders), call, bytes)) => {
            let stored = Some(UpstreamCall { call, holders });
            // The body was decoded.
            parts.headers.remove(CONTENT_ENCODING);
            let preparing = Preparing { gateway: &gateway, live: &live, call: None, by, stored };
            handle(preparing, surface, place, Request::from_parts(parts, Body::from(bytes))).await
        }
        Err(rejection) => rejection.answer_to(surface),
    }
}

/// Counts a call that is answered here towards the rates of its caller.
///
/// # Errors
/// A limit is reached.
fn count_call(gateway: &Gateway, by: &AskedBy) -> Result<(), Rejection> {
    gateway.totals().count_conversation();
    let now = LimitClock { us: gateway.learning().now_us(), wall_us: wall_micros() };
    let (admission, _) = enter(gateway, by.levels.clone(), 0, &[AttemptCost::default()], now)?;
    // A request that starts nothing gives its place back.
    drop(admission.reserve("", 0, |_| AttemptCost::default()));
    Ok(())
}

/// Who asks, and the request's place; or the answer to one that is not let in.
fn admit_to(
    gateway: &Arc<Gateway>,
    live: &LiveConfig,
    client: &Client,
    surface: Surface,
    request: &mut Request<Body>,
) -> Result<(AskedBy, RequestPlace), Box<Response<Body>>> {
    match admission::admit(gateway, live, client) {
        Ok((user, place)) => {
            let levels = gateway.usage().levels(&live.config, user.as_deref());
            Ok((AskedBy { user, levels, ..AskedBy::default() }, place))
        }
        Err(NotAdmitted::Shed(shed)) => {
            Err(admission::turn_away(gateway, surface, shed, std::mem::take(request)).into())
        }
        Err(NotAdmitted::Refused(rejection)) => Err(rejection.answer_to(surface).into()),
    }
}

/// Serves a request of the operator, without a token, as one of the users or as none: the operator has the
/// configuration and its keys anyway. No HTTP route uses it.
pub async fn serve_as(gateway: Arc<Gateway>, surface: Surface, by: AskedBy, request: Request<Body>) -> Response<Body> {
    let live = gateway.live();
    let place = gateway.enter_own_race();
    let request = request.map(|body| limited(body, live.config.server.body_max));
    let preparing = Preparing { gateway: &gateway, live: &live, call: None, by, stored: None };
    handle(preparing, surface, place, request).in_context(LogContext::request(surface.as_str())).await
}

/// Serves a client's request once more at a newcomer. Boxed: serving a request may begin this.
fn serve_shadow(gateway: Arc<Gateway>, call: PathCall, by: AskedBy, request: Request<Body>) -> ShadowServed {
    Box::pin(async move {
        let (live, surface) = (gateway.live(), call.surface);
        let (place, call) = (gateway.enter_own_race(), surface.has_model_in_path().then_some(call));
        let preparing = Preparing { gateway: &gateway, live: &live, call, by, stored: None };
        handle(preparing, surface, place, request).in_context(LogContext::request(surface.as_str())).await
    })
}

async fn handle(
    mut preparing: Preparing<'_>,
    surface: Surface,
    place: RequestPlace,
    request: Request<Body>,
) -> Response<Body> {
    let (gateway, origin) = (preparing.gateway, std::mem::take(&mut preparing.by.origin));
    let mut guard = RaceGuard::new(gateway, surface, preparing.by.user.as_deref(), place, origin);
    guard.traced(gateway, preparing.live, &request);
    let (parts, body) = request.into_parts();
    let (live, by) = (preparing.live, preparing.live.has_shadows().then(|| preparing.by.clone()));
    let race = match prepare(preparing, &parts.headers, body, &mut guard).await {
        Ok(PreparedRequest::Race(race)) => {
            if let Some(shadow) = by.and_then(|by| ShadowRequest::draw(live, by, &parts.headers, &race, &guard)) {
                let served = gateway.clone();
                shadow.start(gateway, move |call, by, request| serve_shadow(served, call, by, request));
            }
            race
        }
        Ok(PreparedRequest::Answered(response)) => return response_of(Ok(ServedAnswer::Whole(response, None)), guard),
        Err(rejection) => {
            return match guard.is_shed() {
                Some(shed) => admission::shed_answer(gateway, surface, shed),
                None => response_of(Err(rejection), guard),
            };
        }
    };
    let has_pings = parts.extensions.get::<OverSocket>().is_some();
    let Some(every) = race.keepalive().filter(|_| !has_pings) else {
        return response_of(race.run().await, guard);
    };
    let (due, rescues) = (race.read_at + every, race.may_rescue());
    let mut racing = race.run();
    match tokio::time::timeout_at(due, &mut racing).await {
        Ok(served) => response_of(served, guard),
        Err(_) => EarlyBody::new(racing, guard, every).into_response(rescues),
    }
}
