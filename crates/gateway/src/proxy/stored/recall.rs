//! Puts the earlier answers that a request names in front of its input, or finds the upstream that has them.

use std::sync::Arc;

use bytes::Bytes;

use super::keeper::{Keeper, OwnInput};
use super::kept::{Found, StateOwner};
use super::state::StoredState;
use crate::proxy::refusals::rejection::Rejection;
use photofinish_base::memory::MemoryFull;
use photofinish_config::config::UpstreamConfig;
use photofinish_config::keyring::HashedKey;
use photofinish_routing::health::LiveConfig;
use photofinish_wire::request::state::add;
use photofinish_wire::{ApiRequest, Dialect, Surface};

/// A request whose earlier answers are found.
pub struct Recalled {
    pub request: Arc<ApiRequest>,
    /// Where it may go. None: anywhere.
    pub place: Option<Placement>,
    /// None: its answer is not kept.
    pub keeper: Option<Box<Keeper>>,
}

/// The upstreams that a request may go to, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// None: any of the Responses API.
    owner: Option<StateOwner>,
    missing: Missing,
}

/// What a request asks for that may not be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    Previous(String),
    Conversation(String),
    Item(String),
    Response(String),
    /// Who makes a response in the background.
    Job,
}

impl Missing {
    pub fn rejection(&self) -> Rejection {
        match self {
            Missing::Previous(id) => Rejection::no_previous(id),
            Missing::Conversation(id) => Rejection::not_stored("Conversation", id),
            Missing::Response(id) => Rejection::not_stored("Response", id),
            Missing::Item(id) => Rejection::no_item(id),
            Missing::Job => Rejection::no_background(),
        }
    }
}

impl Placement {
    /// Where something was found that is not here.
    ///
    /// # Errors
    /// It is another caller's.
    pub fn of<T>(found: Found<T>, missing: Missing) -> Result<Placement, Rejection> {
        match found {
            Found::At(owner) => Ok(Placement { owner: Some(owner), missing }),
            Found::Foreign => Err(missing.rejection()),
            Found::Here(_) | Found::Unknown => Ok(Placement { owner: None, missing }),
        }
    }

    /// A job that is not paid yet is asked for.
    pub fn is_unpaid(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.is_unpaid)
    }

    /// Leaves only the upstreams that may have it.
    ///
    /// # Errors
    /// There is none.
    pub fn narrow(&self, upstreams: &mut Vec<UpstreamConfig>) -> Result<(), Rejection> {
        upstreams.retain(speaks);
        if let Some(owner) = &self.owner {
            let provider = owner.upstream.split('/').next();
            upstreams.retain(|upstream| Some(upstream.provider.name.as_str()) == provider);
            if let Some(exact) = upstreams.iter().position(|upstream| upstream.name() == owner.upstream) {
                upstreams.swap(0, exact);
            }
            upstreams.truncate(1);
        }
        if upstreams.is_empty() { Err(self.missing.rejection()) } else { Ok(()) }
    }

    /// The key that it was made with, if that is still there.
    pub fn its_key(&self, keys: Vec<HashedKey>) -> Vec<HashedKey> {
        let id = self.owner.as_ref().and_then(|owner| owner.key.as_deref());
        match keys.iter().find(|key| Some(key.id()) == id) {
            Some(key) => vec![key.clone()],
            None => keys,
        }
    }

    /// The upstreams to ask for it, if a request names no model.
    ///
    /// # Errors
    /// There is none.
    pub fn names(&self, live: &LiveConfig) -> Result<String, Rejection> {
        let mut names: Vec<String> = Vec::new();
        if let Some(owner) = &self.owner {
            let provider = owner.upstream.split('/').next().unwrap_or_default();
            names.extend(live.config.providers.contains_key(provider).then(|| owner.upstream.clone()));
        } else {
            let all = live.config.models.values().flat_map(|model| &model.upstreams);
            for upstream in all.filter(|upstream| speaks(upstream) && upstream.provider.is_on()) {
                let prefix = format!("{}/", upstream.provider.name);
                if names.len() < ASKED_MAX && !names.iter().any(|name| name.starts_with(&prefix)) {
                    names.push(upstream.name());
                }
            }
        }
        if names.is_empty() { Err(self.missing.rejection()) } else { Ok(names.join(",")) }
    }
}

/// Upstreams that are asked for an id that nobody knows.
const ASKED_MAX: usize = 8;

fn speaks(upstream: &UpstreamConfig) -> bool {
    upstream.spoken_for(Surface::Responses).is_some_and(|spoken| spoken.dialect == Dialect::Responses)
}

/// Finds what a request names.
///
/// # Errors
/// The vendor's, for what is another caller's; 413 or 503 for more items than there is memory for.
pub fn recall(
    stored: &Arc<StoredState>,
    caller: u64,
    body_max: usize,
    request: Arc<ApiRequest>,
) -> Result<Recalled, Rejection> {
    let state = &request.state;
    let mut place = state.background.then_some(Placement { owner: None, missing: Missing::Job });
    let (mut before, mut previous, mut conversation) = (None, None, None);
    match (&state.previous, &state.conversation) {
        (Some(_), Some(_)) => return Err(Rejection::previous_and_conversation()),
        (Some(id), None) => match stored.find(caller, id, || stored.items_until(caller, id)) {
            Found::Here(items) => (before, previous) = (Some(items), Some(id.clone())),
            found => place = Some(Placement::of(found, Missing::Previous(id.clone()))?),
        },
        (None, Some(id)) => match stored.find(caller, id, || stored.conversation(caller, id)) {
            Found::Here(kept) => (before, conversation) = (Some(kept.items), Some(id.clone())),
            found => place = Some(Placement::of(found, Missing::Conversation(id.clone()))?),
        },
        (None, None) => {}
    }
    let mut input = OwnInput::Request(request.clone());
    let mut made = None;
    if before.is_some() || state.refers {
        let own = request.own_input(|id| stored.item(caller, id));
        for id in &own.unknown {
            let missing = Missing::Item(id.clone());
            let found = Placement::of(stored.find::<()>(caller, id, || None), missing.clone())?;
            match place.as_ref().and_then(|place| place.owner.as_ref()) {
                // No upstream has what two of them made.
                Some(owner) if found.owner.as_ref().is_some_and(|other| other.upstream != owner.upstream) => {
                    return Err(missing.rejection());
                }
                Some(_) => {}
                None => place = Some(found),
            }
        }
        made = Some(with_items(stored, body_max, &request, before, &own.items)?);
        input = OwnInput::Items(own.items.into());
    }
    let keeps = request.surface == Surface::Responses || state.background;
    let keeper = (keeps && (!state.unstored || conversation.is_some())).then(|| {
        let (stored, stores) = (stored.clone(), !state.unstored);
        Box::new(Keeper { stored, caller, stores, previous, conversation, input, owner: None })
    });
    Ok(Recalled { request: made.unwrap_or(request), place, keeper })
}

/// The request with these items as its input. `before`: the state that it names, if that is here.
fn with_items(
    stored: &StoredState,
    body_max: usize,
    request: &ApiRequest,
    before: Option<Vec<Bytes>>,
    own: &[u8],
) -> Result<Arc<ApiRequest>, Rejection> {
    let length = before.iter().flatten().map(Bytes::len).sum::<usize>() + request.len() + own.len();
    if length > body_max {
        return Err(Rejection::too_large(body_max));
    }
    let mut lease = stored.memory.lease();
    lease.cover(3 * length).map_err(|MemoryFull| Rejection::no_memory(3 * length, stored.memory.max()))?;
    let mut items = Vec::with_capacity(length);
    before.iter().flatten().for_each(|more| add(&mut items, more));
    add(&mut items, own);
    let input = [b"[", &items[..], b"]"].concat();
    let made = request.with_input(&input, before.is_some(), |body| {
        lease.settle(body.len());
        lease.hold(body)
    })?;
    Ok(Arc::new(made))
}
