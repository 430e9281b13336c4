//! Admission: lets a request in or refuses it before its body is read. Not for the rules: see `load` and `shares`.

use std::sync::Arc;

use axum::body::Body;
use http::{Request, Response};

use crate::proxy::body;
use crate::proxy::door::caller::{Client, authenticate};
use crate::proxy::refusals::rejection::Rejection;
use crate::proxy::refusals::shed::ShedReason;
use crate::proxy::state::gateway::Gateway;
use crate::proxy::state::load::AdmissionRoom;
use crate::proxy::state::places::RequestPlace;
use photofinish_config::User;
use photofinish_routing::health::LiveConfig;
use photofinish_wire::Surface;

/// Why a request is not let in.
pub enum NotAdmitted {
    /// There is no room, or its caller has its share. It is counted and has no race.
    Shed(ShedReason),
    /// Its token is missing or wrong.
    Refused(Rejection),
}

impl From<Rejection> for NotAdmitted {
    fn from(rejection: Rejection) -> NotAdmitted {
        NotAdmitted::Refused(rejection)
    }
}

/// Lets a request in: its user, and its place in the race. When there is no room for anybody, its token does not matter. Places are given to callers with a valid
/// token only, so that strangers take none.
///
/// # Errors
/// Why it is not let in.
pub fn admit(
    gateway: &Gateway,
    live: &LiveConfig,
    client: &Client,
) -> Result<(Option<Arc<User>>, RequestPlace), NotAdmitted> {
    if let AdmissionRoom::None(shed) = gateway.load(live, gateway.races()).room() {
        return Err(NotAdmitted::Shed(shed));
    }
    let user = authenticate(gateway, live, client)?;
    let place = gateway.enter_race(live, user.as_deref(), client.address).map_err(NotAdmitted::Shed)?;
    Ok((user, place))
}

/// The answer to a request that is shed before its body is read. The body is read for a moment, so that a client that reads only
/// after it has sent everything gets the answer.
pub fn turn_away(gateway: &Arc<Gateway>, surface: Surface, shed: ShedReason, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    if body::is_awaited(&parts.headers, &body)
        && let Some(place) = gateway.places().enter_discard()
    {
        let max = gateway.live().config.server.body_max;
        gateway.shutdown().spawn(async move {
            body::discard(body, max).await;
            drop(place);
        });
    }
    shed_answer(gateway, surface, shed)
}

/// The answer to a request that is shed.
pub fn shed_answer(gateway: &Gateway, surface: Surface, shed: ShedReason) -> Response<Body> {
    gateway.totals().shed.count(shed);
    Rejection::overloaded(shed).answer_to(surface)
}
