//! The field of a race: which upstreams may serve this caller's request, with which keys.

use std::sync::Arc;

use super::breakers::{Lineup, Trial};
use super::caller::{Caller, CallerId};
use super::cooling::{self, Cooling, SetAside};
use super::gateway::{Gateway, Live};
use super::heavy::Wanted;
use super::outbound::Outbound;
use super::overrides::Overrides;
use super::rejection::{Failed, Rejection, quoted};
use crate::config::{Model, Policy, RaceSettings, Upstream};
use crate::failure::Failure;
use crate::learning::ConversationId;
use crate::protocol::Surface;
use crate::protocol::opening::opening;
use crate::protocol::request::ApiRequest;
use crate::protocol::upward::Upward;
use crate::routing::breaker::Asked;
use crate::routing::cooldown::{Held, Target};
use crate::routing::keyring::Key;
use crate::routing::plan;
use crate::routing::tariff::Basis;
use crate::routing::windows::Window;
use crate::upstream::Endpoint;

/// Upstreams that one request may name itself.
const NAMED_MAX: usize = 64;
/// Bytes of a model's name that a request may give itself: it is kept in rows and goes into a header.
const NAME_MAX: usize = 512;

/// Everyone who may be started.
pub struct Field {
    pub settings: RaceSettings,
    pub caller: CallerId,
    /// The model whose budget pays; empty where the request names its upstreams itself.
    pub model: String,
    /// What its costs are counted in.
    pub basis: Basis,
    /// At least one; extras at the end.
    pub runners: Arc<Vec<Runner>>,
    /// What goes up to each of them. Apart from them, for it is large, and nobody needs it once an answer goes down.
    pub uploads: Vec<Arc<Upward>>,
    /// How long a prompt each of them takes; empty where nothing is known of any.
    pub windows: Vec<Window>,
    /// The right to start some of them, by their place.
    pub trials: Vec<(usize, Trial)>,
    /// The gateway is crowded: nothing is started but the first, and others after failures.
    pub crowded: bool,
    /// Upstreams whose dialect cannot say all of the request.
    pub left_out: Vec<String>,
    /// The conversation that the request goes on with, where a provider has several keys to choose from.
    pub conversation: Option<ConversationId>,
    /// Upstreams that are set aside.
    cooling: Vec<(String, Cooling)>,
}

/// An upstream with what it takes to ask it.
#[derive(Clone)]
pub struct Runner {
    pub upstream: Upstream,
    /// `provider/model`
    pub name: String,
    pub endpoint: Endpoint,
    /// In the order of trying; empty where none is sent.
    pub keys: Vec<Key>,
    /// The surface of it that is asked, whatever the caller's is.
    pub asked: Surface,
    /// No model of the configuration lists it: the caller named it.
    pub named: bool,
    /// Only to try it again, beside the others.
    pub extra: bool,
}

impl Runner {
    pub fn for_plan(&self) -> plan::Runner {
        let Upstream { weight, timeouts, .. } = &self.upstream;
        plan::Runner { weight: *weight, first_token: timeouts.first_token, extra: self.extra }
    }

    /// What is set aside when this upstream fails with that key.
    pub fn target(&self, key: Option<&Key>) -> Target {
        target(&self.upstream, self.asked, self.named, key)
    }

    /// What its breaker is for.
    pub fn asked(&self) -> Asked<'_> {
        Asked { upstream: &self.name, surface: self.asked, named: self.named }
    }

    /// The first key that is not cooling down; the first of all if all are.
    pub fn key(&self, gateway: &Gateway) -> Option<&Key> {
        self.rested_key(gateway).or(self.keys.first())
    }

    /// Whether there is a key that is not cooling down, beside `key`.
    pub fn has_rested_key_but(&self, gateway: &Gateway, key: Option<&Key>) -> bool {
        self.rested_key(gateway).is_some_and(|rested| key.is_none_or(|key| key.id() != rested.id()))
    }

    /// It was told to wait, since the race began.
    pub fn is_cooling(&self, gateway: &Gateway) -> bool {
        wait_for_all(&self.keys, |key| gateway.cooling(|| self.target(key))).is_some()
    }

    /// One with room under its rate limits goes before one without.
    fn rested_key(&self, gateway: &Gateway) -> Option<&Key> {
        let target = |key: &Key| self.target(Some(key));
        let mut rested = self.keys.iter().filter(|key| gateway.cooling(|| target(key)).is_none());
        let first = rested.next()?;
        std::iter::once(first).chain(rested).find(|key| gateway.resting(|| target(key)).is_none()).or(Some(first))
    }
}

impl Field {
    /// What is not needed to serve the request is not started: no hedges, no audits, no losers that run on.
    pub fn leave_out_extras(&mut self) {
        self.crowded = true;
        self.settings.audit = 0.0;
        self.settings.drains.running = 0;
    }

    /// Every failure with its upstream's name, those that were not started because they cool down included.
    pub fn failed(&self, failures: &[(usize, Failure)]) -> Vec<Failed> {
        let started = failures.iter().map(|(candidate, failure)| Failed {
            upstream: self.runners[*candidate].name.clone(),
            failure: failure.clone(),
        });
        let cooling = self
            .cooling
            .iter()
            .map(|(upstream, cooling)| Failed { upstream: upstream.clone(), failure: cooling::cooling_down(*cooling) });
        started.chain(cooling).collect()
    }
}

/// Finds the upstreams of a model, an alias, or of a request that names them itself.
///
/// # Errors
/// 404 for an unknown model, 400 where none can serve the caller, 429 or 502 where all are set aside.
pub fn resolve(
    gateway: &Arc<Gateway>,
    live: &Live,
    caller: &Caller,
    request: &Arc<ApiRequest>,
    overrides: &Overrides,
    crowded: bool,
    wanted: &Wanted,
) -> Result<Field, Rejection> {
    let model = request.model.as_str();
    let known = live.config.model(model);
    let (upstreams, settings) = asked_for(live, known, model, overrides)?;
    let settings = for_surface(overrides.apply(settings), request.surface);
    let basis = Basis::of(known.iter().flat_map(|model| &model.upstreams).chain(&upstreams));
    let caller_id = caller.id(live);
    // A token count is never raced.
    let beside = settings.max_attempts > 1 && !crowded && request.surface != Surface::CountTokens;
    let mut lineup = Lineup::new(gateway, &settings, caller_id, beside);
    let mut outbound = Outbound::new(request, settings.lossy, gateway.budget());
    let (mut set_aside, mut off) = (Vec::new(), Vec::new());
    let mut conversation = Conversing { gateway, request, known: None };
    for upstream in upstreams {
        let provider = &upstream.provider;
        let name = upstream.name();
        let Some(line) = live.line(&provider.name) else { continue };
        let named = !live.is_configured(&name);
        let own_key = caller.own_key(live, &provider.name);
        may_share(caller, &upstream, named && own_key.is_none())?;
        let Some(keys) = line.keys(own_key).into_keys() else {
            off.push(why_off(&upstream));
            continue;
        };
        let keys = conversation.its_key_first(&provider.name, keys);
        if wanted.is_over() {
            // Nobody sees it.
            return Err(Rejection::shutting_down());
        }
        let Some(upward) = outbound.for_upstream(&upstream)? else { continue };
        let Some(endpoint) = line.endpoint(upward.dialect()).cloned() else { continue };
        let runner = Runner { upstream, name, endpoint, asked: upward.asked(), keys, named, extra: false };
        match wait_for_all(&runner.keys, |key| gateway.cooling(|| runner.target(key))) {
            Some(held) => set_aside.push(SetAside { runner, upward, held }),
            None => lineup.add(runner, upward),
        }
    }
    let cooling = cooling::finish(gateway, set_aside, &mut lineup);
    let Lineup { runners, uploads, trials, .. } = lineup;
    if runners.is_empty() {
        return Err(if cooling.is_empty() { outbound.rejection(model, &off) } else { cooling::rejection(cooling) });
    }
    let model = known.map_or(String::new(), |model| model.name.clone());
    let (windows, runners) = (gateway.windows_of(&runners), Arc::new(runners));
    let (left_out, caller, crowded) = (outbound.left_out().to_vec(), caller_id, false);
    let conversation = conversation.known.flatten();
    Ok(Field {
        settings,
        caller,
        conversation,
        crowded,
        left_out,
        model,
        basis,
        runners,
        uploads,
        windows,
        trials,
        cooling,
    })
}

/// The upstreams of the model, or those that the request names; and the settings that are theirs.
fn asked_for<'l>(
    live: &'l Live,
    known: Option<&'l Arc<Model>>,
    model: &str,
    overrides: &Overrides,
) -> Result<(Vec<Upstream>, &'l RaceSettings), Rejection> {
    match (&overrides.upstreams, known) {
        (Some(names), model) => {
            let settings = model.map_or(&live.config.race, |model| &model.race);
            let upstreams = named(live, model, names, settings)
                .map_err(|why| Rejection::header(Overrides::upstreams_header(), &why))?;
            Ok((upstreams, settings))
        }
        (None, Some(model)) => Ok((model.upstreams.clone(), &model.race)),
        (None, None) => {
            let unknown = |why: String| Rejection::unknown_model(model, &live.config.nearest_models(model), &why);
            let upstreams = named(live, None, model, &live.config.race).map_err(unknown)?;
            Ok((upstreams, &live.config.race))
        }
    }
}

/// The conversation of a request, found when it is first asked for: few providers have several keys.
struct Conversing<'a> {
    gateway: &'a Gateway,
    request: &'a ApiRequest,
    known: Option<Option<ConversationId>>,
}

impl Conversing<'_> {
    /// Its cache is the account's. Another is used only where this one is set aside.
    fn its_key_first(&mut self, provider: &str, mut keys: Vec<Key>) -> Vec<Key> {
        if keys.len() < 2 {
            return keys;
        }
        let (learning, request) = (self.gateway.learning(), self.request);
        let find = || learning.conversation(&opening(request)?, request.prompt().iter().map(|part| part.len()).sum());
        let conversation = *self.known.get_or_insert_with(find);
        let ids = keys.iter().map(Key::id);
        let place = conversation.and_then(|conversation| learning.kept_key(provider, conversation, ids));
        keys.rotate_left(place.unwrap_or(0));
        keys
    }
}

/// Whether the caller may ask an upstream without a key of their own. `named`: no model lists it.
fn may_share(caller: &Caller, upstream: &Upstream, named: bool) -> Result<(), Rejection> {
    match &caller.user {
        Some(user) if named && !user.overrides.any_upstream() => {
            Err(Rejection::forbidden_upstream(&upstream.name(), &upstream.provider.name, &user.name))
        }
        _ => Ok(()),
    }
}

/// A token count is never raced.
fn for_surface(settings: RaceSettings, surface: Surface) -> RaceSettings {
    match surface {
        Surface::CountTokens => RaceSettings { policy: Policy::Fallback, audit: 0.0, ..settings },
        _ => settings,
    }
}

/// The shortest wait, if every key of an upstream has to; of one without keys, its own.
pub(super) fn wait_for_all(keys: &[Key], wait: impl Fn(Option<&Key>) -> Option<Held>) -> Option<Held> {
    if keys.is_empty() {
        return wait(None);
    }
    let waits: Option<Vec<Held>> = keys.iter().map(|key| wait(Some(key))).collect();
    waits.and_then(|waits| waits.into_iter().min_by_key(|held| held.wait))
}

/// Upstreams with commas between. One that the model lists too keeps the prices and timeouts that it has there.
pub(super) fn named(
    live: &Live,
    model: Option<&Arc<Model>>,
    names: &str,
    settings: &RaceSettings,
) -> Result<Vec<Upstream>, String> {
    let mut upstreams: Vec<Upstream> = Vec::new();
    for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let (provider, model_name) =
            name.split_once('/').ok_or_else(|| format!("{} is not written as provider/model", quoted(name)))?;
        let known = live
            .config
            .providers
            .get(provider)
            .ok_or_else(|| format!("there is no provider {} in the configuration", quoted(provider)))?;
        if known.is_at(&live.config.server.listen) {
            return Err(format!("the provider {} is at the gateway's own address", quoted(provider)));
        }
        if model_name.is_empty() {
            return Err(format!("{} names no model", quoted(name)));
        }
        if model_name.len() > NAME_MAX || model_name.contains(char::is_control) {
            return Err(format!("{} has more than {NAME_MAX} bytes or control characters in it", quoted(name)));
        }
        // Some dialects have the model in the path.
        if model_name.split('/').any(|part| matches!(part, "." | "..")) {
            return Err(format!("{} has a part that is only dots", quoted(name)));
        }
        let twice = upstreams.iter().any(|upstream| upstream.provider.name == provider && upstream.model == model_name);
        if twice || upstreams.len() == NAMED_MAX {
            return Err(format!("{} is named twice, or there are more than {NAMED_MAX}", quoted(name)));
        }
        let listed = model.and_then(|model| {
            model.upstreams.iter().find(|upstream| upstream.provider.name == provider && upstream.model == model_name)
        });
        upstreams.push(listed.cloned().unwrap_or_else(|| Upstream {
            provider: known.clone(),
            model: model_name.to_owned(),
            weight: 1.0,
            price: None,
            context: None,
            timeouts: settings.timeouts,
        }));
    }
    if upstreams.is_empty() { Err("it names no upstream".to_owned()) } else { Ok(upstreams) }
}

pub(super) fn target(upstream: &Upstream, surface: Surface, named: bool, key: Option<&Key>) -> Target {
    Target {
        provider: upstream.provider.name.clone(),
        model: upstream.model.clone(),
        surface,
        key_id: key.map(|key| key.id().to_owned()),
        own_key: key.is_some_and(|key| key.own),
        named,
    }
}

pub(super) fn why_off(upstream: &Upstream) -> String {
    let provider = &upstream.provider;
    match provider.why_off() {
        Some(why) => format!("{} is off because {why}", provider.name),
        None => format!("{} is off", provider.name),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::path::Path;

    use super::*;

    #[test]
    fn a_request_that_names_the_gateway_itself_is_refused() {
        let text = "server.listen = \"127.0.0.1:8080\"\nproviders.me.base_url = \"http://localhost:8080/v1\"\n\
                    providers.other.base_url = \"http://localhost:8081/v1\"";
        let config = crate::config::parse(text, Path::new("x"), &|_| None).unwrap();
        let live = Live::new(config, &HashMap::new()).unwrap();
        let named = |names: &str| named(&live, None, names, &live.config.race).map(|upstreams| upstreams.len());
        assert_eq!(named("other/m"), Ok(1));
        assert_eq!(named("other/m,me/m"), Err("the provider \"me\" is at the gateway's own address".to_owned()));
    }
}
