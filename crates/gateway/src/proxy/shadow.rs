//! Shadows: a share of a model's requests is also sent to a newcomer. Its answers are read to their end, judged and recorded; they
//! reach no client, and the client's request does not wait for them. Not for how such a request is run: it is served like any other.

use std::sync::Arc;

use axum::body::Body;
use http::{HeaderMap, Request};
use http_body_util::BodyExt as _;

use super::door::load::AdmissionRoom;
use super::gateway::Gateway;
use super::prepare::{AskedBy, Preparing};
use super::run::race_guard::ParsedRace;
use super::{limited, serve_shadow};
use crate::attempt::InFlightGuard;
use photofinish_config::config::UpstreamConfig;
use photofinish_history::record::{RaceSource, RequestOrigin};
use photofinish_wire::{ApiRequest, PathCall};

/// Headers of the client that say how its body is to be read.
const KEPT: [&str; 4] = ["content-type", "anthropic-version", "anthropic-beta", "openai-beta"];

/// A request that was drawn.
pub struct ShadowRequest {
    call: PathCall,
    by: AskedBy,
    request: Request<Body>,
    slot: InFlightGuard,
}

impl ShadowRequest {
    /// None: this one was not drawn, or there is no room for it.
    pub fn draw(
        preparing: &Preparing<'_>,
        headers: &HeaderMap,
        request: &ApiRequest,
        race: &ParsedRace<'_>,
    ) -> Option<Box<ShadowRequest>> {
        let (gateway, live) = (preparing.gateway, preparing.live);
        let shadow = live.config.model(&request.model)?.shadow.as_ref()?;
        // What it would use up could be missing for what the caller asks next.
        let counts = preparing.by.levels.iter().map(|level| level.limits());
        let is_counted = counts.into_iter().any(|of| of.rpm.is_some() || of.tpm.is_some() || of.streams.is_some());
        let may = race.is_of_client() && request.surface.streams() && !request.state.background && !is_counted;
        if !may || fastrand::f64() >= shadow.share || !live.config.provider_is_on(&shadow.upstream.provider) {
            return None;
        }
        let upstream = &shadow.upstream;
        let running = gateway.learning().upstream(&upstream.name()).in_flight();
        let is_it =
            |listed: &&UpstreamConfig| listed.provider.name == upstream.provider.name && listed.model == upstream.model;
        let listed = live.config.models.values().flat_map(|model| &model.upstreams).filter(is_it);
        if listed.filter_map(|listed| listed.in_flight_max).min().is_some_and(|most| running >= most)
            || gateway.load(live, race.in_flight()).room() != AdmissionRoom::Enough
        {
            return None;
        }
        let origin = RequestOrigin { source: RaceSource::Shadow, ..RequestOrigin::default() };
        let AskedBy { user, levels, .. } = preparing.by.clone();
        let by = AskedBy { user, levels, origin, ends_within: None, shadow: Some(upstream.name()) };
        let body = limited(Body::from(request.body().clone()), live.config.server.body_max);
        let mut copy = Request::new(body);
        let kept = headers.iter().filter(|(name, _)| KEPT.contains(&name.as_str()));
        copy.headers_mut().extend(kept.map(|(name, value)| (name.clone(), value.clone())));
        let call = PathCall {
            surface: request.surface,
            model: request.model.clone(),
            stream: request.stream,
            listed: request.listed,
        };
        Some(Box::new(ShadowRequest { call, by, request: copy, slot: gateway.enter_shadow()? }))
    }

    /// Runs it until it has ended, or the gateway drains.
    pub fn start(self: Box<Self>, gateway: &Arc<Gateway>) {
        let ShadowRequest { call, by, request, slot } = *self;
        let (served, draining) = (gateway.clone(), gateway.shutdown().draining());
        gateway.shutdown().spawn(async move {
            let _slot = slot;
            let read = async {
                let mut body = serve_shadow(served, call, by, request).await.into_body();
                while let Some(Ok(_)) = body.frame().await {}
            };
            tokio::select! {
                () = read => {}
                () = draining => {}
            }
        });
    }
}
