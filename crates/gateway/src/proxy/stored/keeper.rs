//! Keeps the answer of one request, if its client wants to name it again. It goes with the request to the end of its answer.

use std::sync::Arc;

use bytes::Bytes;

use crate::proxy::state::kept::{Kept, StateOwner, StoredResponse};
use crate::proxy::state::stored::StoredState;
use photofinish_base::pace::aside;
use photofinish_dialects::responses::stored::{StoredAnswer, response_in};
use photofinish_translation::ApiRequest;
use photofinish_translation::request::state::add;

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
    /// It is not needed.
    Dropped,
}

impl OwnInput {
    /// A copy, to be kept.
    fn items(&self) -> Option<Bytes> {
        match self {
            OwnInput::Request(request) => Some(request.own_input(|_| None, |_| true).ok()?.items.into()),
            OwnInput::Items(items) => Some(Bytes::copy_from_slice(items)),
            OwnInput::Dropped => None,
        }
    }
}

impl Keeper {
    /// Notes that an upstream answers; `owner`: it speaks this API. A stream may take long, so only what will be kept stays.
    pub fn note_answer(&mut self, owner: Option<StateOwner>) {
        if self.conversation.is_none() && (owner.is_some() || !self.stores || !self.stored.is_on()) {
            self.input = OwnInput::Dropped;
        }
        self.owner = owner;
    }

    /// Another upstream continues the answer, so an upstream that stores does not have the whole.
    pub fn note_continued(&mut self) {
        self.stores &= self.owner.take().is_none();
    }

    /// The last events of a stream.
    pub fn keep_end(&self, events: &Bytes) {
        aside(events.len(), || {
            if let Some(answer) = response_in(events) {
                self.keep(&answer);
            }
        });
    }

    /// The whole answer.
    pub fn keep(&self, answer: &[u8]) {
        aside(answer.len(), || self.keep_here(answer));
    }

    fn keep_here(&self, answer: &[u8]) {
        let Some(read) = StoredAnswer::read(answer) else { return };
        if let (Some(owner), true) = (&self.owner, self.stores) {
            self.stored.owned(&read.id, owner);
            read.items().for_each(|(id, _)| self.stored.owned(&id, owner));
        }
        let Some(input) = self.input.items() else { return };
        if self.owner.is_none() && self.stores && self.stored.is_on() {
            let bytes = input.len() + answer.len();
            let (previous, answer) = (self.previous.clone(), Bytes::copy_from_slice(answer));
            let response = StoredResponse { previous, input: input.clone(), answer };
            self.stored.put(self.caller, &read.id, Kept::Response(Arc::new(response)), bytes);
            for (id, _) in read.items() {
                self.stored.put(self.caller, &id, Kept::Item(read.id.clone().into_owned()), read.id.len());
            }
        }
        if let Some(conversation) = &self.conversation {
            let mut items = input.into();
            read.output.iter().for_each(|item| add(&mut items, item.get().as_bytes()));
            self.stored.extend_conversation(self.caller, conversation, &items);
        }
    }
}
