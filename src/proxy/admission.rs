//! Admission: lets a request in or refuses it before its body is read. Not for the rule: see `load`.

use std::sync::Arc;

use axum::body::Body;
use http::{Request, Response};

use super::body;
use super::gateway::Gateway;
use super::load::AdmissionRoom;
use super::rejection::Rejection;
use crate::protocol::Surface;

/// Lets a request in. Its permit, an `Arc<InFlightGuard>`, is attached as an extension. The race's guard holds the
/// permit, and the response body holds the guard, so the permit is returned when the body ends.
///
/// # Errors
/// The answer to a client if there is no room. It is counted by its reason.
#[expect(clippy::result_large_err, reason = "a response is passed on at once, as it would be without the refusal")]
pub fn admit(
    gateway: &Arc<Gateway>,
    surface: Surface,
    mut request: Request<Body>,
) -> Result<Request<Body>, Response<Body>> {
    let slot = gateway.enter_race();
    if let AdmissionRoom::None(shed) = gateway.load(&gateway.live(), slot.before).room() {
        gateway.totals().shed.count(shed);
        leave(gateway, request);
        return Err(Rejection::overloaded(shed).answer_to(surface));
    }
    request.extensions_mut().insert(Arc::new(slot));
    Ok(request)
}

/// Continues to read the body of a refused request for a moment, so that a client that reads only after it has sent
/// everything gets the answer.
fn leave(gateway: &Arc<Gateway>, request: Request<Body>) {
    let (parts, body) = request.into_parts();
    if body::is_awaited(&parts.headers, &body)
        && let Some(place) = gateway.enter_discard()
    {
        let max = gateway.live().config.server.body_max;
        gateway.shutdown().spawn(async move {
            body::discard(body, max).await;
            drop(place);
        });
    }
}
