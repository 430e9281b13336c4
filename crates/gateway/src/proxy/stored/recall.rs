//! Puts the earlier answers that a request names in front of its input, or finds the upstream that has them.

use std::sync::Arc;

use bytes::Bytes;

use crate::attempt::JobCost;
use crate::proxy::refusals::rejection::Rejection;
use crate::proxy::state::blocking::INLINE_MAX;
use crate::proxy::state::holders::{Holders, Missing};
use crate::proxy::state::kept::{Found, ITEMS_MAX};
use crate::proxy::state::stored::StoredState;
use crate::proxy::stored::keeper::{Keeper, OwnInput};
use photofinish_base::memory::{Lease, MemoryFull};
use photofinish_translation::ApiRequest;
use photofinish_translation::request::state::{StateUse, add, without_repeated};
use photofinish_wire::Surface;

/// A request whose earlier answers are found.
pub struct Recalled {
    pub request: Arc<ApiRequest>,
    /// Where it may go. None: anywhere.
    pub holders: Option<Holders>,
    /// None: its answer is not kept.
    pub keeper: Option<Box<Keeper>>,
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
        let any = Holders::any(Missing::Job);
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
