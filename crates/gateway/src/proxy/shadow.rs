//! Shadows: a share of a model's requests is also sent to a newcomer. Its answers are read to their end, judged and recorded; they
//! reach no client, and the client's request does not wait for them. Not for how such a request is run: it is served like any other.

use std::pin::Pin;

use axum::body::Body;
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt as _;

use crate::attempt::InFlightGuard;
use crate::proxy::body::limited;
use crate::proxy::prepare::AskedBy;
use crate::proxy::run::race_guard::RaceGuard;
use crate::proxy::run::running::PreparedRace;
use crate::proxy::state::gateway::Gateway;
use photofinish_config::UpstreamConfig;
use photofinish_facts::record::{RaceSource, RequestOrigin};
use photofinish_routing::health::LiveConfig;
use photofinish_wire::PathCall;

/// Headers of the client that say how its body is to be read.
const KEPT: [&str; 4] = ["content-type", "anthropic-version", "anthropic-beta", "openai-beta"];

/// The answer to a shadow request, under way.
pub type ShadowServed = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// A request that was drawn.
pub struct ShadowRequest {
    call: PathCall,
    by: AskedBy,
    request: Request<Body>,
    slot: InFlightGuard,
}

impl ShadowRequest {
    /// None: this one was not drawn, or there is no room for it. `by`: who asks for `race`.
    pub fn draw(
        live: &LiveConfig,
        by: AskedBy,
        headers: &HeaderMap,
        race: &PreparedRace,
        guard: &RaceGuard,
    ) -> Option<Box<ShadowRequest>> {
        let (gateway, request) = (&race.gateway, &race.request);
        let shadow = live.config.model(&request.model)?.shadow.as_ref()?;
        // What it would use up could be missing for what the caller asks next.
        let is_counted = by.levels.iter().any(|level| level.limits().has_rates());
        let may = guard.is_of_client()
            && request.surface.streams()
            && request.call().is_none()
            && !request.state.background
            && !is_counted;
        if !may || fastrand::f64() >= shadow.share || !live.config.provider_is_on(&shadow.upstream.provider) {
            return None;
        }
        let upstream = &shadow.upstream;
        let running = gateway.learning().upstream(&upstream.name()).in_flight();
        let is_it =
            |listed: &&UpstreamConfig| listed.provider.name == upstream.provider.name && listed.model == upstream.model;
        let listed = live.config.models.values().flat_map(|model| &model.upstreams).filter(is_it);
        if listed.filter_map(|listed| listed.in_flight_max).min().is_some_and(|most| running >= most)
            || race.candidates.crowded
        {
            return None;
        }
        let slot = gateway.extras().enter_shadow()?;
        let origin = RequestOrigin { source: RaceSource::Shadow, ..RequestOrigin::default() };
        let by = AskedBy { origin, ends_within: None, shadow: Some(upstream.name()), ..by };
        let mut copy = Request::new(limited(Body::from(request.body().clone()), live.config.server.body_max));
        let kept = headers.iter().filter(|(name, _)| KEPT.contains(&name.as_str()));
        copy.headers_mut().extend(kept.map(|(name, value)| (name.clone(), value.clone())));
        let (surface, model) = (request.surface, request.model.clone());
        let call = PathCall { surface, model, stream: request.stream, listed: request.listed };
        Some(Box::new(ShadowRequest { call, by, request: copy, slot }))
    }

    /// Reads what `serve` answers until it has ended, or the gateway drains.
    pub fn start(
        self: Box<Self>,
        gateway: &Gateway,
        serve: impl FnOnce(PathCall, AskedBy, Request<Body>) -> ShadowServed,
    ) {
        let ShadowRequest { call, by, request, slot } = *self;
        let (served, draining) = (serve(call, by, request), gateway.shutdown().draining());
        gateway.shutdown().spawn(async move {
            let _slot = slot;
            let read = async {
                let mut body = served.await.into_body();
                while let Some(Ok(_)) = body.frame().await {}
            };
            tokio::select! {
                () = read => {}
                () = draining => {}
            }
        });
    }
}
