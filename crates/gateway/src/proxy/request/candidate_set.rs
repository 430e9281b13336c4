//! The candidates of a race: which upstreams may serve this request, with which keys. Not for their order: see `policy`.

use std::sync::{Arc, Mutex, PoisonError};

use crate::attempt::JobCost;
use crate::proxy::door::caller::Caller;
use crate::proxy::door::overrides::Overrides;
use crate::proxy::refusals::code::UNKNOWN_MODEL;
use crate::proxy::refusals::rejection::{self, FailedUpstream, Rejection};
use crate::proxy::request::outbound::Outbound;
use crate::proxy::state::blocking::StillWanted;
use crate::proxy::state::gateway::Gateway;
use photofinish_base::failure::Failure;
use photofinish_config::keyring::HashedKey;
use photofinish_config::{ModelConfig, Policy, QualityRule, RaceSettings, RescuePolicy, UpstreamConfig};
use photofinish_facts::record::{LeftOutReason, LeftOutUpstream};
use photofinish_limits::{LevelName, LimitLevels};
pub use photofinish_routing::health::Candidate;
use photofinish_routing::health::{
    self, BreakerAdmission, CallerId, CooldownState, LastResort, LiveConfig, RaceCandidate, RequestNeeds, named,
    why_off,
};
use photofinish_routing::learning::ConversationId;
use photofinish_routing::money::tariff::Basis;
use photofinish_routing::policy::plan::{RacePlan, StartRule};
use photofinish_translation::ApiRequest;
use photofinish_translation::RequestTranslation;
use photofinish_translation::request::opening;
use photofinish_wire::Surface;

/// The candidates of one race, and its settings.
pub struct CandidateSet {
    pub settings: RaceSettings,
    /// A larger budget that pays too. None: that of `settings` alone.
    pub within_budget: Option<f64>,
    pub caller: CallerId,
    /// The model whose budget pays; empty if the request names its upstreams.
    pub model: String,
    /// The model in which answers are compared, if that is not the one whose budget pays.
    pub judged_in: Option<String>,
    /// The request names its upstreams.
    names_upstreams: bool,
    /// The unit of its costs.
    pub basis: Basis,
    /// At least one; behind the usual ones trials, and at the end those of the last resort.
    pub list: Vec<RaceCandidate>,
    /// The gateway is crowded: only the first attempt starts, others after failures.
    pub crowded: bool,
    /// Upstreams that this race cannot start because of their dialect.
    unable: Vec<LeftOutUpstream>,
    /// The conversation that the request continues, if a provider has several keys.
    pub conversation: Option<ConversationId>,
    /// It makes a job, or asks for what is stored.
    pub job: Option<JobCost>,
    pub session: Session,
    /// Upstreams that cool down.
    cooling: Vec<(String, CooldownState)>,
    /// None: there is no last resort.
    pub asked_last: Option<AskedLast>,
}

impl CandidateSet {
    /// Starts only what the request needs: no hedges, no audits, no losers that run on.
    pub fn leave_out_extras(&mut self) {
        self.crowded = true;
        self.settings.audit = 0.0;
        self.settings.drains.running = 0;
    }

    /// For the request of a shadow: it is asked once, and the model's budget does not hear of it.
    pub fn ask_as_shadow(&mut self) {
        self.leave_out_extras();
        (self.settings.retries, self.settings.rescue) = (0, RescuePolicy::Off);
        self.judged_in = Some(std::mem::take(&mut self.model));
    }

    /// Leaves out the candidates that the budgets of the caller do not allow; at least one stays.
    pub fn keep(&mut self, allowed: &[bool]) {
        if !allowed.contains(&false) {
            return;
        }
        let kept_before = |place: usize| allowed[..place].iter().filter(|allowed| **allowed).count();
        self.session.pinned = self.session.pinned.filter(|pinned| allowed[*pinned]).map(kept_before);
        for (one, is_allowed) in std::mem::take(&mut self.list).into_iter().zip(allowed) {
            match is_allowed {
                true => self.list.push(one),
                false => self.unable.push(left_out_for(&one.candidate.name, LeftOutReason::Limit)),
            }
        }
    }

    /// `provider/model` of the candidate at this place.
    pub fn name(&self, place: usize) -> &str {
        &self.list[place].candidate.name
    }

    pub fn each(&self) -> impl Iterator<Item = &Candidate> {
        self.list.iter().map(|one| &*one.candidate)
    }

    /// Upstreams that a budget of the caller does not allow.
    pub fn limited(&self) -> Vec<String> {
        let limited = self.unable.iter().filter(|left_out| left_out.reason == LeftOutReason::Limit);
        limited.map(|left_out| left_out.upstream.clone()).collect()
    }

    /// Upstreams that are not asked because they, or their dialects, cannot take all of the request, or no longer have the model.
    pub fn passed_over(&self) -> Vec<&str> {
        let is_reported =
            |reason| matches!(reason, LeftOutReason::Capability | LeftOutReason::TooLong | LeftOutReason::Unlisted);
        let unable = self.unable.iter().filter(|left_out| is_reported(left_out.reason));
        unable.map(|left_out| left_out.upstream.as_str()).collect()
    }

    /// The upstreams that this race cannot start, and why, for its row; the last resort is among them until it starts. Policies that
    /// learn may start any other candidate.
    pub fn left_out(&self, plan: &RacePlan) -> Vec<LeftOutUpstream> {
        let mut all = self.unable.clone();
        let last = self.each().filter_map(|candidate| Some((candidate, candidate.last?)));
        all.extend(last.map(|(candidate, last)| left_out_for(&candidate.name, last.reason())));
        all.extend(self.cooling.iter().map(|(upstream, cooling)| left_out_for(upstream, cooling.reason())));
        if !self.settings.policy.learns() {
            let usual = || plan.entries.iter().filter(|entry| entry.start != StartRule::Last);
            let chosen = usual().filter(|entry| entry.start != StartRule::AfterFailure).count();
            let behind = usual().skip(chosen + self.settings.failovers);
            all.extend(behind.map(|entry| left_out_for(self.name(entry.candidate), LeftOutReason::Failovers)));
        }
        all
    }

    /// This candidate answers. Its session stays where it was, unless that upstream is not there or has failed: a rescue does not
    /// move it.
    pub fn keep_session(&self, winner: usize, failures: &[(usize, Failure)], gateway: &Gateway) {
        let Some(session) = self.session.id else { return };
        let stays = self.session.pinned.filter(|pinned| failures.iter().all(|(failed, _)| failed != pinned));
        gateway.learning().pin(session, self.name(stays.unwrap_or(winner)));
    }

    /// The number of upstreams of which this request may draw one, those that it cannot start included. None: it names its upstreams, or
    /// there is nothing to compare.
    pub fn draws_look(&self) -> Option<usize> {
        let upstreams = self.list.len() + self.unable.len() + self.cooling.len();
        Some(upstreams).filter(|upstreams| *upstreams > 1 && !self.crowded && !self.names_upstreams)
    }

    /// The upstream at this place of the draw, and why it cannot start: the candidates come first.
    pub fn drawn(&self, place: usize) -> Option<(&str, Option<LeftOutReason>)> {
        let why = |candidate: &Candidate| candidate.last.map(LastResort::reason);
        let able = self.each().map(|candidate| (candidate.name.as_str(), why(candidate)));
        let unable = self.unable.iter().map(|left_out| (left_out.upstream.as_str(), Some(left_out.reason)));
        let cooling = self.cooling.iter().map(|(upstream, cooling)| (upstream.as_str(), Some(cooling.reason())));
        able.chain(unable).chain(cooling).nth(place)
    }

    /// Every failure with its upstream's name, including upstreams that cool down.
    pub fn failed(&self, failures: &[(usize, Failure)]) -> Vec<FailedUpstream> {
        let started = failures.iter().map(|(candidate, failure)| FailedUpstream {
            upstream: self.name(*candidate).to_owned(),
            failure: failure.clone(),
        });
        let unasked =
            |candidate: &Candidate| self.asked_last.as_ref().is_none_or(|asked| !asked.contains(&candidate.name));
        let held = self.each().filter(|candidate| unasked(candidate)).filter_map(|candidate| match candidate.last {
            Some(LastResort::Held(cooling)) => Some((&candidate.name, cooling)),
            _ => None,
        });
        let cooling = held.chain(self.cooling.iter().map(|(upstream, cooling)| (upstream, *cooling)));
        started
            .chain(cooling.map(|(upstream, cooling)| FailedUpstream {
                upstream: upstream.clone(),
                failure: health::cooling_down(cooling),
            }))
            .collect()
    }
}

/// The names of those of the last resort that were asked.
#[derive(Clone, Default)]
pub struct AskedLast(Arc<Mutex<Vec<String>>>);

impl AskedLast {
    pub fn add(&self, name: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(name.to_owned());
    }

    pub fn contains(&self, name: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|asked| asked == name)
    }
}

/// The upstreams that the limits of the caller allow; and what forbids another one.
fn allowed_by<'l>(
    levels: &'l LimitLevels,
    (live, known): (&LiveConfig, Option<&Arc<ModelConfig>>),
    mut upstreams: Vec<UpstreamConfig>,
    outbound: &mut Outbound<'_>,
) -> (Vec<UpstreamConfig>, Option<&'l LevelName>) {
    let mut by = None;
    if !levels.is_empty() {
        upstreams.retain(|upstream| {
            let name = upstream.name();
            let forbidding = levels.forbidding(live.config.names_of(known, upstream), &name);
            by = by.or(forbidding);
            let is_allowed = forbidding.is_none();
            if !is_allowed {
                outbound.leave_out([name], LeftOutReason::Forbidden);
            }
            is_allowed
        });
    }
    (upstreams, by)
}

/// The answer if no upstream is left, with the names of all of them for the race's row.
fn none_left(
    outbound: Outbound<'_>,
    model: &str,
    (off, forbidden): (&[String], Option<&LevelName>),
    cooling: Vec<(String, CooldownState)>,
) -> Rejection {
    let cool = cooling.iter().map(|(upstream, cooling)| left_out_for(upstream, cooling.reason()));
    let all = outbound.left_out().iter().cloned().chain(cool).collect();
    let rejection = match (cooling.is_empty(), forbidden) {
        (true, Some(level)) => Rejection::forbidden_model(level, model),
        (true, None) => outbound.rejection(model, off),
        (false, _) => rejection::all_cooling_down(cooling),
    };
    rejection.leaving_out(all)
}

fn left_out_for(upstream: &str, reason: LeftOutReason) -> LeftOutUpstream {
    LeftOutUpstream { upstream: upstream.to_owned(), reason }
}

/// Why a model without a host is not served.
fn without_host(live: &LiveConfig, known: Option<&Arc<ModelConfig>>) -> Vec<String> {
    let model = known.filter(|model| model.upstreams.is_empty());
    model.and_then(|model| live.config.why_not_served(&model.name)).into_iter().collect()
}

/// Finds the upstreams of a model or alias, or those that the request names. A shadow is the operator's trial: no caller's own key pays
/// for it.
///
/// # Errors
/// 404 for an unknown model, 403 for overrides that this caller may not send, 400 if no upstream can serve the caller, 429 or 502 if
/// all cool down.
pub fn resolve(
    gateway: &Arc<Gateway>,
    live: &LiveConfig,
    caller: &Caller,
    request: &Arc<ApiRequest>,
    ((overrides, is_of_shadow), levels): ((&Overrides, bool), &LimitLevels),
    crowded: bool,
    wanted: &StillWanted,
) -> Result<CandidateSet, Rejection> {
    let (model, known) = (request.model.as_str(), live.config.model(&request.model));
    let asked = asked_for(live, known, request, (overrides, caller));
    let (upstreams, settings, allowed) = asked.inspect_err(|rejection| tell_unknown(gateway, rejection))?;
    let within_budget = Some(allowed.budget).filter(|budget| overrides.are_bounded() && *budget > settings.budget);
    let basis = Basis::of(known.iter().flat_map(|model| &model.upstreams).chain(&upstreams));
    let caller_id = caller.id(live);
    let may_try = settings.max_attempts > 1 && !crowded && !request.surface.counts();
    let mut admission = BreakerAdmission::new(gateway.health(), &settings, caller_id, may_try, upstreams.len());
    let mut outbound = Outbound::new(request, settings.lossy, gateway.memory(), gateway.stored().is_on());
    let (mut choices, mut off) = (Choices::default(), without_host(live, known));
    let needs = RequestNeeds::of(request);
    let mut conversation = LazyConversation { gateway, request, known: None };
    let (upstreams, forbidden) = allowed_by(levels, (live, known), upstreams, &mut outbound);
    for upstream in upstreams.into_iter().map(|upstream| timed(upstream, request.surface)) {
        let (provider, name) = (&upstream.provider, upstream.name());
        let Some(route) = live.route(&provider.name) else { continue };
        let named = !live.is_configured(&name);
        let own_key = if is_of_shadow { None } else { caller.own_key(live, &provider.name) };
        may_share(caller, &upstream, (live, named, is_of_shadow), own_key.as_ref(), request)?;
        let Some(keys) = route.keys(own_key).into_keys() else {
            off.push(why_off(&upstream));
            continue;
        };
        let keys = overrides.its_key(conversation.its_key_first(&provider.name, keys));
        wanted.check()?;
        let lessons = |surface| gateway.health().lessons(&name, surface);
        let Some(request_translation) = outbound.for_upstream(&upstream, lessons)? else { continue };
        let Some(endpoint) = route.endpoint(request_translation.dialect()).cloned() else { continue };
        let surface = request_translation.asked();
        let worse = why_worse(gateway, known, request, &name);
        let refuses = gateway.health().refuses(&name, caller_id, request, surface);
        let (trial, room, last) = (false, None, refuses.then_some(LastResort::Refuses));
        let candidate = Candidate { upstream, name, endpoint, surface, keys, named, trial, room, worse, last };
        let lacks = (needs.unmet_by(&candidate.upstream), outbound.is_second_choice(&request_translation));
        choices.add(lacks, settings.quality, (candidate, request_translation));
    }
    let cooling = choices.admit(&mut admission, &mut outbound);
    let list = admission.candidates;
    if list.is_empty() {
        return Err(none_left(outbound, model, (&off, forbidden), cooling));
    }
    Ok(CandidateSet {
        settings,
        within_budget,
        caller: caller_id,
        conversation: conversation.known.flatten(),
        job: overrides.holders.as_ref().and_then(|holders| holders.job.clone()),
        session: Session::of(gateway, caller_id, request, overrides, &list),
        crowded: false,
        unable: outbound.into_left_out(),
        model: known.map_or(String::new(), |model| model.name.clone()),
        judged_in: None,
        names_upstreams: overrides.upstreams.is_some(),
        basis,
        asked_last: list.last().and_then(|one| one.candidate.last).map(|_| AskedLast::default()),
        list,
        cooling,
    })
}

/// How good a choice an upstream is, the best first.
#[derive(Clone, Copy)]
enum ChoiceRank {
    /// It gets the whole request and lacks nothing.
    Whole,
    /// It answers worse than others, or refuses such requests: the last resort while another can be asked.
    Worse,
    /// Its dialect cannot express all of it.
    Lossy,
    /// By the catalogue the model cannot serve it. The catalogue may be wrong, so the provider decides if no other is left.
    Unfit,
    /// Its provider does not list the model now. A list may be incomplete, so it is asked if no other is left.
    Unlisted,
    UnlistedAndUnfit,
}

impl ChoiceRank {
    const COUNT: usize = 6;
}

/// The upstreams that could be asked, by rank.
#[derive(Default)]
struct Choices([Vec<RankedChoice>; ChoiceRank::COUNT]);

/// A candidate with the request to it, and why it is left out if a better choice is available.
type RankedChoice = (LeftOutReason, (Candidate, Arc<RequestTranslation>));

impl Choices {
    /// `unmet`: what it surely cannot do. `is_lossy`: its dialect cannot express all of the request.
    fn add(
        &mut self,
        (unmet, is_lossy): (Option<LeftOutReason>, bool),
        rule: QualityRule,
        choice: (Candidate, Arc<RequestTranslation>),
    ) {
        let is_worse = rule == QualityRule::Exclude && choice.0.worse.is_some();
        let refuses = choice.0.last.is_some();
        let (rank, reason) = match (choice.0.upstream.unlisted.is_some(), unmet) {
            (true, Some(_)) => (ChoiceRank::UnlistedAndUnfit, LeftOutReason::Unlisted),
            (true, None) => (ChoiceRank::Unlisted, LeftOutReason::Unlisted),
            (false, Some(reason)) => (ChoiceRank::Unfit, reason),
            (false, None) if refuses && !is_lossy => (ChoiceRank::Worse, LeftOutReason::Refuses),
            (false, None) if is_worse && !is_lossy => (ChoiceRank::Worse, LeftOutReason::Quality),
            (false, None) if is_lossy => (ChoiceRank::Lossy, LeftOutReason::Capability),
            (false, None) => (ChoiceRank::Whole, LeftOutReason::Capability),
        };
        self.0[rank as usize].push((reason, choice));
    }

    /// Admits the first choice of which any can start. Returns the upstreams that cool down. While one that can serve the request
    /// cools down or is broken, none is asked that cannot: its answer would ignore a part of the request. While one waits
    /// for a rate limit, none is asked that its provider does not list: its failure would hide when to try again.
    fn admit(self, admission: &mut BreakerAdmission<'_>, outbound: &mut Outbound<'_>) -> Vec<(String, CooldownState)> {
        let (mut cooling, mut last) = (Vec::<(String, CooldownState)>::new(), Vec::new());
        for (rank, choice) in self.0.into_iter().enumerate() {
            let is_limited = |(_, cooling): &(String, CooldownState)| cooling.why.is_some_and(|why| !why.is_refusal());
            let waits = match rank {
                _ if rank == ChoiceRank::Unlisted as usize => cooling.iter().any(is_limited),
                rank => rank >= ChoiceRank::Unfit as usize && !cooling.is_empty(),
            };
            if admission.candidates.is_empty() && !waits {
                // With no better one it is no last resort.
                let alone = |(_, (candidate, sent)): RankedChoice| (Candidate { last: None, ..candidate }, sent);
                let choice = choice.into_iter().map(alone).collect();
                cooling.extend(admission.admit(choice));
            } else if rank == ChoiceRank::Worse as usize && !admission.candidates.is_empty() {
                last = choice.into_iter().map(|(_, candidate)| candidate).collect();
            } else {
                for (reason, (candidate, _)) in choice {
                    outbound.leave_out([candidate.name], reason);
                }
            }
        }
        admission.admit_last(last);
        cooling
    }
}

/// Why this upstream of the model answers worse than others, if that matters for the request.
fn why_worse(
    gateway: &Gateway,
    known: Option<&Arc<ModelConfig>>,
    request: &ApiRequest,
    name: &str,
) -> Option<Arc<str>> {
    let model = known.filter(|_| request.has_tools || request.asks_json)?;
    gateway.learning().quality().why_worse(&model.name, name)
}

/// The upstreams of the model, or those that the request names; and their settings.
fn asked_for<'l>(
    live: &'l LiveConfig,
    known: Option<&'l Arc<ModelConfig>>,
    request: &ApiRequest,
    (overrides, caller): (&Overrides, &Caller),
) -> Result<(Vec<UpstreamConfig>, RaceSettings, &'l RaceSettings), Rejection> {
    let (mut upstreams, allowed) = named_or_listed(live, known, &request.model, overrides)?;
    let settings = for_surface(overrides.settings(allowed)?, request.surface);
    let Some(holders) = &overrides.holders else { return Ok((upstreams, settings, allowed)) };
    holders.narrow(&mut upstreams)?;
    if holders.are_unknown() {
        // Under a shared key it may be another user's.
        let pays =
            |upstream: &UpstreamConfig| caller.own_key(live, &upstream.provider.name).is_some_and(|key| key.pays);
        upstreams.retain(|upstream| caller.user.is_none() || pays(upstream));
        if upstreams.is_empty() {
            return Err(holders.missing());
        }
    }
    Ok((upstreams, one_after_the_other(settings), allowed))
}

/// By now a provider may list what no configuration names.
fn tell_unknown(gateway: &Gateway, rejection: &Rejection) {
    if rejection.code() == UNKNOWN_MODEL.code {
        gateway.unknown_model().notify_one();
    }
}

fn named_or_listed<'l>(
    live: &'l LiveConfig,
    known: Option<&'l Arc<ModelConfig>>,
    model: &str,
    overrides: &Overrides,
) -> Result<(Vec<UpstreamConfig>, &'l RaceSettings), Rejection> {
    match (&overrides.upstreams, known) {
        (Some(names), model) => {
            let settings = model.map_or(&live.config.race, |model| &model.race);
            let upstreams = named(live, model, names, settings)
                .map_err(|why| Rejection::header(Overrides::upstreams_header(), &why))?;
            Ok((upstreams, settings))
        }
        (None, Some(model)) => Ok((model.upstreams.clone(), &model.race)),
        (None, None) => {
            let unknown = |why: String| {
                Rejection::unknown_model(&live.config, model, model.contains('/').then_some(why.as_str()))
            };
            let upstreams = named(live, None, model, &live.config.race).map_err(unknown)?;
            Ok((upstreams, &live.config.race))
        }
    }
}

/// The session that a request belongs to.
#[derive(Clone, Copy)]
pub struct Session {
    /// None: it has none, or there is nothing to choose.
    id: Option<ConversationId>,
    /// The candidate that answered it before.
    pub pinned: Option<usize>,
}

impl Session {
    fn of(
        gateway: &Gateway,
        caller: CallerId,
        request: &ApiRequest,
        overrides: &Overrides,
        candidates: &[RaceCandidate],
    ) -> Session {
        let learning = gateway.learning();
        let named = overrides.session.filter(|_| candidates.len() > 1);
        let id = named.map(|session| learning.session(caller.id(), &request.model, session));
        let names = || candidates.iter().map(|one| one.candidate.name.as_str());
        Session { id, pinned: id.and_then(|id| learning.pinned(id, names())) }
    }
}

/// The conversation of a request, looked up on first use: few providers have several keys.
struct LazyConversation<'a> {
    gateway: &'a Gateway,
    request: &'a ApiRequest,
    known: Option<Option<ConversationId>>,
}

impl LazyConversation<'_> {
    /// Prompt caches belong to the account, so the conversation's key comes first.
    fn its_key_first(&mut self, provider: &str, mut keys: Vec<HashedKey>) -> Vec<HashedKey> {
        if keys.len() < 2 {
            return keys;
        }
        let (learning, request) = (self.gateway.learning(), self.request);
        let find = || learning.conversation(&opening(request)?, request.prompt().iter().map(|part| part.len()).sum());
        let conversation = *self.known.get_or_insert_with(find);
        let ids = keys.iter().map(HashedKey::id);
        let place = conversation.and_then(|conversation| learning.kept_key(provider, conversation, ids));
        keys.rotate_left(place.unwrap_or(0));
        keys
    }
}

/// Checks that the caller may use an upstream, and with a shared key reaches no other by this request. `named`: no model
/// lists it.
fn may_share(
    caller: &Caller,
    upstream: &UpstreamConfig,
    (live, named, is_of_shadow): (&LiveConfig, bool, bool),
    own_key: Option<&HashedKey>,
    request: &ApiRequest,
) -> Result<(), Rejection> {
    let pays = own_key.is_some_and(|key| key.pays);
    let restricted = caller.user.as_ref().filter(|user| !pays && !user.overrides.any_upstream());
    let (Some(user), provider) = (restricted, &upstream.provider.name) else { return Ok(()) };
    match &request.ambiguous {
        _ if named || !is_of_shadow && live.is_only_shadow(upstream) => {
            Err(Rejection::forbidden_upstream(&upstream.name(), provider, &user.name))
        }
        Some(member) => Err(Rejection::forbidden_member(member, provider, &user.name)),
        None => Ok(()),
    }
}

/// With the timeouts of a surface: an answer that is not read has no first token, and making an image takes long.
fn timed(mut upstream: UpstreamConfig, surface: Surface) -> UpstreamConfig {
    if surface.is_passed() {
        upstream.timeouts.first_token = upstream.timeouts.total;
    }
    upstream
}

/// A token count is never raced.
fn for_surface(settings: RaceSettings, surface: Surface) -> RaceSettings {
    if surface.counts() { one_after_the_other(settings) } else { settings }
}

fn one_after_the_other(settings: RaceSettings) -> RaceSettings {
    RaceSettings { policy: Policy::Fallback, audit: 0.0, patience: 0.0, ..settings }
}

#[cfg(test)]
mod tests;
