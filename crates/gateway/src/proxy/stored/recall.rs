//! Puts the earlier answers that a request names in front of its input, or finds the upstream that has them.

use std::sync::Arc;

use bytes::Bytes;

use super::keeper::{Keeper, OwnInput};
use super::kept::{Found, ITEMS_MAX, StateOwner};
use super::state::StoredState;
use crate::attempt::JobCost;
use crate::proxy::refusals::rejection::Rejection;
use crate::proxy::request::blocking::INLINE_MAX;
use photofinish_base::memory::{Lease, MemoryFull};
use photofinish_config::config::UpstreamConfig;
use photofinish_config::keyring::HashedKey;
use photofinish_routing::health::LiveConfig;
use photofinish_translation::ApiRequest;
use photofinish_translation::request::state::{StateUse, add, without_repeated};
use photofinish_wire::{Dialect, Surface};

/// A request whose earlier answers are found.
pub struct Recalled {
    pub request: Arc<ApiRequest>,
    /// Where it may go. None: anywhere.
    pub holders: Option<Holders>,
    /// None: its answer is not kept.
    pub keeper: Option<Box<Keeper>>,
}

/// The upstreams that hold what a request names. It goes to them alone, one after the other.
#[derive(Clone, Debug)]
pub struct Holders {
    /// Those that made it, the newest first. None: any of the Responses API.
    owners: Vec<StateOwner>,
    missing: Missing,
    /// It makes a job, or asks for what is stored.
    pub job: Option<JobCost>,
}

/// What a request asks for that may not be there.
#[derive(Clone, Debug)]
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

impl Holders {
    /// Of what was found and is not here.
    ///
    /// # Errors
    /// It is another caller's.
    pub fn of<T>(found: Found<T>, missing: Missing) -> Result<Holders, Rejection> {
        let owners = match found {
            Found::At(owners) => owners,
            Found::Foreign => return Err(missing.rejection()),
            Found::Here(_) | Found::Unknown => Vec::new(),
        };
        Ok(Holders { owners, missing, job: None })
    }

    /// The same for a call that asks for it: it is paid for already, unless it is a job whose end nobody has seen.
    pub fn asked(mut self) -> Holders {
        let job = self.owners.first().and_then(|owner| owner.job.clone());
        self.job = Some(job.unwrap_or_else(JobCost::booked));
        self
    }

    /// Those that hold this too.
    ///
    /// # Errors
    /// No upstream has what two of them made.
    fn and(mut self, other: Holders) -> Result<Holders, Rejection> {
        if self.owners.is_empty() {
            return Ok(other);
        }
        let holds = |owner: &StateOwner| other.owners.iter().any(|holder| holder.upstream == owner.upstream);
        self.owners.retain(|owner| other.owners.is_empty() || holds(owner));
        if self.owners.is_empty() { Err(other.missing.rejection()) } else { Ok(self) }
    }

    /// Leaves only the upstreams that may have it.
    ///
    /// # Errors
    /// There is none.
    pub fn narrow(&self, upstreams: &mut Vec<UpstreamConfig>) -> Result<(), Rejection> {
        upstreams.retain(speaks);
        if !self.owners.is_empty() {
            let mut held: Vec<UpstreamConfig> = Vec::new();
            for owner in &self.owners {
                let of_provider = || upstreams.iter().find(|upstream| upstream.provider.name == owner.provider());
                let found = upstreams.iter().find(|upstream| upstream.name() == owner.upstream).or_else(of_provider);
                held.extend(found.filter(|found| held.iter().all(|other| other.name() != found.name())).cloned());
            }
            *upstreams = held;
        }
        if upstreams.is_empty() { Err(self.missing.rejection()) } else { Ok(()) }
    }

    /// The model that was asked for when it was made: what its caller may do is judged by it. None: it is not known.
    pub fn model(&self) -> Option<&str> {
        self.owners.first().map(|owner| owner.model.as_str()).filter(|model| !model.is_empty())
    }

    /// Nobody knows who made what the request names.
    pub fn are_unknown(&self) -> bool {
        self.owners.is_empty() && !matches!(self.missing, Missing::Job)
    }

    pub fn missing(&self) -> Rejection {
        self.missing.rejection()
    }

    /// The key that it was made with, if that is still there.
    pub fn its_key(&self, keys: Vec<HashedKey>) -> Vec<HashedKey> {
        let is_its = |key: &&HashedKey| self.owners.iter().any(|owner| owner.key.as_deref() == Some(key.id()));
        match keys.iter().find(is_its) {
            Some(key) => vec![key.clone()],
            None => keys,
        }
    }

    /// The upstreams to ask for it, if a request names no model.
    ///
    /// # Errors
    /// There is none.
    pub fn names(&self, live: &LiveConfig) -> Result<String, Rejection> {
        let is_there = |owner: &&StateOwner| live.config.providers.contains_key(owner.provider());
        let mut names: Vec<String> = self.owners.iter().filter(is_there).map(|owner| owner.upstream.clone()).collect();
        if self.owners.is_empty() {
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

/// Bytes of the work to find what a request names. How large the earlier answers are is known no sooner.
pub fn recalled_bytes(request: &ApiRequest) -> usize {
    let StateUse { previous, conversation, refers, .. } = &request.state;
    let names = previous.is_some() || conversation.is_some() || *refers;
    if names { request.len().max(INLINE_MAX + 1) } else { 0 }
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
    let (mut before, mut previous, mut conversation, mut holders) = (None, None, None, None);
    match (&state.previous, &state.conversation) {
        (Some(_), Some(_)) => return Err(Rejection::previous_and_conversation()),
        (Some(id), None) => match stored.find(caller, id, || stored.items_until(caller, id)) {
            Found::Here(items) => (before, previous) = (Some(items), Some(id.clone())),
            found => holders = Some(Holders::of(found, Missing::Previous(id.clone()))?),
        },
        (None, Some(id)) => match stored.find(caller, id, || stored.conversation(caller, id)) {
            Found::Here(kept) if kept.is_full(1) => {
                let message =
                    format!("conversation: it has {ITEMS_MAX} items, the most that is kept: begin another one");
                return Err(Rejection::parameter(Some("conversation".to_owned()), &message));
            }
            Found::Here(kept) => (before, conversation) = (Some(kept.items), Some(id.clone())),
            found => holders = Some(Holders::of(found, Missing::Conversation(id.clone()))?),
        },
        (None, None) => {}
    }
    let mut input = OwnInput::Request(request.clone());
    let mut made = None;
    if before.is_some() || state.refers {
        let mut lease = stored.memory.lease();
        let base = before.iter().flatten().map(Bytes::len).sum::<usize>() + request.len();
        let mut wanted = base;
        // Three times: these items, the input, and the body.
        let mut room = |bytes: usize| {
            wanted = base + bytes;
            wanted <= body_max && lease.cover(3 * wanted).is_ok()
        };
        let own = if room(0) { request.own_input(|id| stored.item(caller, id), &mut room).ok() } else { None };
        let mut own = own.ok_or_else(|| too_much(stored, body_max, wanted))?;
        let earlier = before.iter().flatten().map(|items| &items[..]);
        if let Some(kept) = without_repeated(&own.items, earlier) {
            own.items = kept;
        }
        for id in &own.unknown {
            let found = Holders::of(stored.find::<()>(caller, id, || None), Missing::Item(id.clone()))?;
            holders = Some(match holders.take() {
                Some(before) => Holders::and(before, found)?,
                None => found,
            });
        }
        made = Some(with_items((stored, lease), body_max, &request, before, &own.items)?);
        input = OwnInput::Items(stored.memory.lease().another(own.items.len()).hold(own.items));
    }
    if state.background {
        let any = Holders { owners: Vec::new(), missing: Missing::Job, job: None };
        holders.get_or_insert(any).job = Some(JobCost::default());
    }
    let keeps = request.surface == Surface::Responses || state.background;
    let keeper = (keeps && (!state.unstored || conversation.is_some())).then(|| {
        let (stored, stores) = (stored.clone(), !state.unstored);
        Box::new(Keeper { stored, caller, stores, previous, conversation, input, owner: None })
    });
    Ok(Recalled { request: made.unwrap_or(request), holders, keeper })
}

/// The request with these items as its input. `before`: the state that it names, if that is here.
fn with_items(
    (stored, mut lease): (&StoredState, Lease),
    body_max: usize,
    request: &ApiRequest,
    before: Option<Vec<Bytes>>,
    own: &[u8],
) -> Result<Arc<ApiRequest>, Rejection> {
    let length = before.iter().flatten().map(Bytes::len).sum::<usize>() + request.len() + own.len();
    if length > body_max {
        return Err(Rejection::too_large(body_max));
    }
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

/// Why the input of a request with `bytes` of earlier items was not made.
fn too_much(stored: &StoredState, body_max: usize, bytes: usize) -> Rejection {
    if bytes > body_max {
        return Rejection::too_large(body_max);
    }
    if stored.memory.has_room(3 * bytes) {
        return Rejection::parameter(Some("input".to_owned()), "input: its items are nested too deeply to be resolved");
    }
    Rejection::no_memory(3 * bytes, stored.memory.max())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_something_leaves_the_serving_threads() {
        let bytes = |member: &str| {
            let body = format!("{{\"model\":\"m\",\"input\":[{{\"role\":\"user\",\"content\":\"x\"}}]{member}}}");
            recalled_bytes(&ApiRequest::parse(Surface::Responses, body.into()).unwrap())
        };
        assert_eq!(bytes(""), 0, "there is nothing to do");
        for names in [",\"previous_response_id\":\"r\"", ",\"conversation\":{\"id\":\"c\"}"] {
            assert!(bytes(names) > INLINE_MAX, "{names}");
        }
    }
}
