//! From a request's body to its race, in four phases: [`read`](Preparing::read), [`parse`](Preparing::parse),
//! [`resolve`](Preparing::resolve), [`plan`]. Not for letting it in, nor for running the race.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Response};

use crate::proxy::body;
use crate::proxy::door::caller::Caller;
use crate::proxy::door::overrides;
use crate::proxy::lists::ollama;
use crate::proxy::refusals::rejection::Rejection;
use crate::proxy::request::candidate_set::{self, CandidateSet};
use crate::proxy::run::all_failed;
use crate::proxy::run::gate::Gate;
use crate::proxy::run::launcher::Launcher;
use crate::proxy::run::race_guard::{ParsedRace, Planned, RaceGuard, ReadRace};
use crate::proxy::run::race_policy::RacePolicy;
use crate::proxy::run::running::PreparedRace;
use crate::proxy::state::blocking::StillWanted;
use crate::proxy::state::gateway::Gateway;
use crate::proxy::state::holders::Holders;
use crate::proxy::state::load::AdmissionRoom;
use crate::proxy::stored::calls::UpstreamCall;
use crate::proxy::stored::recall::{Recalled, recall, recalled_bytes};
use photofinish_config::User;
use photofinish_facts::record::{LeftOutReason, RequestOrigin};
use photofinish_limits::LimitLevels;
use photofinish_race::Race;
use photofinish_routing::health::{CallerId, LiveConfig};
use photofinish_translation::ApiRequest;
use photofinish_translation::request::InvalidRequest;
use photofinish_wire::{Dialect, PathCall, Surface};

/// Who asks for a race, and for what. A client has no way to set anything but its user.
#[derive(Clone, Debug, Default)]
pub struct AskedBy {
    pub user: Option<Arc<User>>,
    /// What limits it. Empty for requests of the operator.
    pub levels: LimitLevels,
    /// For the race's row.
    pub origin: RequestOrigin,
    /// The answer ends within this time, whatever the configuration allows: a measurement must not wait for one without end.
    pub ends_within: Option<Duration>,
    /// It goes to this newcomer of its model, `provider/model`, and reaches no client.
    pub shadow: Option<String>,
}

/// What the phases of one request share.
pub struct Preparing<'a> {
    pub gateway: &'a Arc<Gateway>,
    pub live: &'a Arc<LiveConfig>,
    /// What the path says of the request.
    pub call: Option<PathCall>,
    pub by: AskedBy,
    /// It asks an upstream for something that is stored there.
    pub stored: Option<UpstreamCall>,
}

/// A request that is ready to be served.
pub enum PreparedRequest {
    Race(Box<PreparedRace>),
    /// The gateway answers the request itself.
    Answered(Response<Bytes>),
}

/// # Errors
/// Why there is no race.
pub async fn prepare(
    mut preparing: Preparing<'_>,
    headers: &HeaderMap,
    body: Body,
    guard: &mut RaceGuard,
) -> Result<PreparedRequest, Rejection> {
    let caller = preparing.caller();
    let (bytes, race) = preparing.read(headers, body, guard).await?;
    let (request, mut race) = preparing.parse(headers, bytes, race).await?;
    race.charge_to(overrides::charged_to(headers, request.tags.as_deref())?);
    let Recalled { request, holders, keeper } = preparing.recall(request, &race).await?;
    race.set_keeper(keeper.filter(|_| preparing.by.shadow.is_none()));
    let (request, candidates) = match preparing.resolve(headers, &request, holders.clone(), &race).await {
        Err(rejection) if rejection.is_unspoken() && request.surface.counts() => {
            return Ok(PreparedRequest::Answered(all_failed::estimate(&request)));
        }
        // An upstream of another dialect is asked for a summary.
        Err(rejection) if rejection.is_unspoken() => {
            let request = Arc::new(request.as_compaction().ok_or(rejection)?);
            let candidates = preparing.resolve(headers, &request, holders, &race).await?;
            (request, candidates)
        }
        candidates => (request, candidates?),
    };
    if let Some(answer) = ollama::loaded(&request) {
        return Ok(PreparedRequest::Answered(answer));
    }
    let (gateway, levels) = (preparing.gateway, std::mem::take(&mut preparing.by.levels));
    let mut candidates = candidates;
    let gate = Gate::pass(gateway, levels, &request, &mut candidates, caller).await?;
    race.admitted(gateway, gate.admission(), gate.of());
    Ok(PreparedRequest::Race(plan((gateway, gate), headers, request, candidates, race)))
}

impl Preparing<'_> {
    /// The body; from here on the race's clock runs.
    async fn read<'g>(
        &self,
        headers: &HeaderMap,
        body: Body,
        guard: &'g mut RaceGuard,
    ) -> Result<(Bytes, ReadRace<'g>), Rejection> {
        let bytes = body::read(self.gateway, headers, body, self.live.config.server.body_max, guard.place()).await?;
        guard.place().race().map_err(Rejection::overloaded)?;
        let race = guard.read(&bytes);
        Ok((bytes, race))
    }

    /// The request in the body and the path.
    async fn parse<'g>(
        &mut self,
        headers: &HeaderMap,
        bytes: Bytes,
        race: ReadRace<'g>,
    ) -> Result<(Arc<ApiRequest>, ParsedRace<'g>), Rejection> {
        let (surface, call, content_type) = (race.surface(), self.call.take(), headers.get(CONTENT_TYPE).cloned());
        let strict = self.by.user.as_ref().is_some_and(|user| !user.overrides.any_upstream());
        let (length, until) = (bytes.len(), race.read_at() + self.live.config.race.timeouts.total);
        if let Some(UpstreamCall { call, holders }) = &self.stored {
            let names = holders.names(self.live)?;
            let request = Arc::new(call.request(holders.model().unwrap_or(&names), bytes));
            let race = race.parsed(&request, &request.model, headers);
            return Ok((request, race));
        }
        let memory = self.gateway.memory().clone();
        let parse = move |_: &StillWanted| {
            let parsed = match surface {
                Surface::Responses => ApiRequest::parse_responses(bytes.clone(), strict),
                Surface::Passed(_) => {
                    ApiRequest::parse_passed(surface, bytes.clone(), content_type.as_ref(), call.as_ref(), strict)
                }
                _ => ApiRequest::parse_call(surface, bytes.clone(), call.as_ref(), strict),
            };
            match parsed {
                Err(InvalidRequest::ResponsesForm) => body::in_chat_form(&bytes, strict, &memory),
                parsed => Ok(parsed?),
            }
        };
        let request = Arc::new(self.gateway.heavy().run(length, until, parse).await??);
        let known = self.live.config.model(&request.model);
        let race = race.parsed(&request, known.map_or(&request.model, |model| &model.name), headers);
        Ok((request, race))
    }

    /// The earlier answers that the request names.
    async fn recall(&self, request: Arc<ApiRequest>, race: &ParsedRace<'_>) -> Result<Recalled, Rejection> {
        if self.stored.is_some() || request.surface.dialect() != Dialect::Responses {
            let holders = self.stored.as_ref().map(|call| call.holders.clone());
            return Ok(Recalled { request, holders, keeper: None });
        }
        let caller = self.caller();
        let (stored, body_max) = (self.gateway.stored().clone(), self.live.config.server.body_max);
        let (bytes, until) = (recalled_bytes(&request), race.read_at() + self.live.config.race.timeouts.total);
        self.gateway.heavy().run(bytes, until, move |_| recall(&stored, caller, body_max, request)).await?
    }

    fn caller(&self) -> u64 {
        let user = self.by.user.as_ref().map(|user| user.name.as_str());
        CallerId::new(user, self.live.users()).id()
    }

    /// The upstreams that may serve it, with the request to each.
    async fn resolve(
        &self,
        headers: &HeaderMap,
        request: &Arc<ApiRequest>,
        holders: Option<Holders>,
        race: &ParsedRace<'_>,
    ) -> Result<CandidateSet, Rejection> {
        let caller = Caller::new(self.live, self.by.user.clone(), headers)?;
        let mut overrides = overrides::read(headers, caller.user.as_deref())?;
        overrides.session = race.session();
        if let Some(call) = &self.stored {
            overrides.upstreams = Some(call.holders.names(self.live)?);
        }
        overrides.holders = holders;
        let shadow = &self.by.shadow;
        if let Some(shadow) = shadow {
            overrides.upstreams = Some(shadow.clone());
        }
        let is_crowded = || self.gateway.load(self.live, race.in_flight()).room() != AdmissionRoom::Enough;
        let crowded = is_crowded();
        let (gateway, live, asked) = (self.gateway.clone(), self.live.clone(), request.clone());
        let (levels, is_of_shadow) = (self.by.levels.clone(), shadow.is_some());
        let resolve = move |wanted: &StillWanted| {
            let overrides = (&overrides, is_of_shadow);
            candidate_set::resolve(&gateway, &live, &caller, &asked, (overrides, &levels), crowded, wanted)
        };
        let until = race.read_at() + self.live.config.race.timeouts.total;
        let mut candidates = self.gateway.heavy().run(request.len(), until, resolve).await??;
        if let Some(limit) = self.by.ends_within {
            candidates.settings.timeouts = candidates.settings.timeouts.within(limit);
        }
        if crowded || is_crowded() {
            candidates.leave_out_extras();
        }
        if shadow.is_some() {
            candidates.ask_as_shadow();
        }
        Ok(candidates)
    }
}

/// The race, with its plan in its row.
fn plan(
    (gateway, gate): (&Arc<Gateway>, Gate),
    headers: &HeaderMap,
    request: Arc<ApiRequest>,
    mut candidates: CandidateSet,
    race: ParsedRace<'_>,
) -> Box<PreparedRace> {
    let read_at = race.read_at();
    let mut policy = RacePolicy::new(gateway.health(), &candidates, &request, read_at);
    let plan = policy.plan();
    let look = policy.driver.look();
    let drawn = look.and_then(|look| look.drawn).and_then(|place| {
        let (upstream, why) = candidates.drawn(place)?;
        // What could start and is not watched is full, or one that the budget refused.
        let refused = || if policy.driver.is_full(place) { "full" } else { "budget" };
        let refused = (!policy.driver.is_watched(place)).then(refused);
        Some((upstream, why.map(LeftOutReason::as_str).or(refused)))
    });
    let guard = race.planned(Planned {
        look: look.map(|look| look.probability),
        drawn,
        settings: &candidates.settings,
        plan: plan.text(|candidate| candidates.name(candidate)),
        left_out: candidates.left_out(&plan),
        asked_last: candidates.asked_last.clone(),
        reasons: policy.driver.reasons(),
        race_budget: policy.driver.race_budget().clone(),
    });
    let launcher = Launcher::new(gateway, headers, &request, &mut candidates, guard, (policy, gate), read_at);
    let outcome_reporter = launcher.outcome_reporter.clone();
    let race = Box::new(Race::new(plan, launcher, read_at));
    Box::new(PreparedRace { gateway: gateway.clone(), request, candidates, race, outcome_reporter, read_at })
}
