//! Keeps the answer of one request, if its client wants to name it again. It goes with the request to the end of its answer.

use std::sync::Arc;

use bytes::Bytes;

use super::kept::{Kept, StateOwner, StoredResponse};
use super::state::StoredState;
use photofinish_wire::ApiRequest;
use photofinish_wire::dialects::responses::stored::{StoredAnswer, response_in};
use photofinish_wire::request::state::add;

/// What becomes of one answer.
pub struct Keeper {
    pub stored: Arc<StoredState>,
    pub caller: u64,
    /// The client wants it stored.
    pub stores: bool,
    /// The response that it continues, if that is kept here.
    pub previous: Option<String>,
    /// The conversation that it joins, if that is kept here.
    pub conversation: Option<String>,
    pub input: OwnInput,
    /// The upstream of this API that answers. None: the answer is translated, or not there yet.
    pub owner: Option<StateOwner>,
}

/// The input of the request itself.
pub enum OwnInput {
    Request(Arc<ApiRequest>),
    Items(Bytes),
    /// It is not needed, or there is no memory for it.
    Dropped,
}

impl Keeper {
    /// Notices the end of a job.
    pub fn of_job(stored: Arc<StoredState>, caller: u64) -> Keeper {
        let input = OwnInput::Dropped;
        Keeper { stored, caller, stores: true, previous: None, conversation: None, input, owner: None }
    }

    /// This upstream answers; `owner`: it speaks this API. A stream may take long, so only what will be kept stays.
    pub fn answers(&mut self, owner: Option<StateOwner>) {
        let stays = self.conversation.is_some() || owner.is_none() && self.stores && self.stored.is_on();
        self.owner = owner;
        let input = std::mem::replace(&mut self.input, OwnInput::Dropped);
        let items = match input {
            _ if !stays => None,
            OwnInput::Request(request) => self.stored.held(&request.own_input(|_| None).items),
            OwnInput::Items(items) => self.stored.held(&items),
            OwnInput::Dropped => None,
        };
        self.input = items.map_or(OwnInput::Dropped, OwnInput::Items);
    }

    /// Another upstream continues the answer, so an upstream that stores does not have the whole.
    pub fn is_continued(&mut self) {
        self.stores &= self.owner.take().is_none();
    }

    /// The last events of a stream.
    pub fn keep_end(&self, events: &Bytes) {
        if let Some(answer) = response_in(events) {
            self.keep(&answer);
        }
    }

    /// The whole answer.
    pub fn keep(&self, answer: &[u8]) {
        let Some(read) = StoredAnswer::read(answer) else { return };
        match (&self.owner, &self.input) {
            (Some(owner), _) if self.stores => {
                let owner = StateOwner { is_unpaid: !read.has_ended(), ..owner.clone() };
                self.stored.owned(&read.id, owner.clone());
                read.items().for_each(|(id, _)| self.stored.owned(&id, owner.clone()));
            }
            (None, OwnInput::Items(input)) if self.stores && self.stored.is_on() => {
                let (previous, answer) = (self.previous.clone(), Bytes::copy_from_slice(answer));
                let bytes = input.len() + answer.len();
                let response = StoredResponse { previous, input: Bytes::copy_from_slice(input), answer };
                self.stored.put(self.caller, &read.id, Kept::Response(Arc::new(response)), bytes);
                for (id, _) in read.items() {
                    self.stored.put(self.caller, &id, Kept::Item(read.id.clone().into_owned()), read.id.len());
                }
            }
            _ => {}
        }
        if let (Some(conversation), OwnInput::Items(input)) = (&self.conversation, &self.input) {
            let mut items = input.to_vec();
            read.output.iter().for_each(|item| add(&mut items, item.get().as_bytes()));
            self.stored.extend_conversation(self.caller, conversation, &items);
        }
    }
}
