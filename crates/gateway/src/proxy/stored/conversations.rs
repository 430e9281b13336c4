//! Conversations of the Responses API, which have no model and so no upstream: they are kept here, and every upstream gets their items.

use bytes::Bytes;
use serde_json::Value;
use uuid::Uuid;

use super::kept::{Kept, KeptConversation};
use super::listed;
use super::state::StoredState;

impl StoredState {
    pub fn new_conversation_id() -> String {
        format!("conv_{}", Uuid::now_v7().simple())
    }

    pub fn conversation(&self, caller: u64, id: &str) -> Option<KeptConversation> {
        self.get(caller, id, |kept| match kept {
            Kept::Conversation(conversation) => Some(conversation.clone()),
            Kept::Response(_) | Kept::Item(_) => None,
        })
    }

    pub fn keep_conversation(&self, caller: u64, id: &str, conversation: KeptConversation) {
        let items = conversation.items.iter().map(|items| items.len() + size_of::<Bytes>());
        let bytes = conversation.object(id).to_string().len() + items.sum::<usize>();
        self.put(caller, id, Kept::Conversation(conversation), bytes);
    }

    /// Adds items at its end, and returns them with their ids. None: it is not here any more, or there is no memory.
    pub fn extend_conversation(&self, caller: u64, id: &str, items: &[u8]) -> Option<Vec<Value>> {
        let mut conversation = self.conversation(caller, id)?;
        let base = Uuid::now_v7().simple().to_string();
        let added = listed::read(items, &base, 0);
        conversation.items.extend(added.iter().map(|item| Bytes::from(item.to_string())));
        self.keep_conversation(caller, id, conversation);
        self.conversation(caller, id).map(|_| added)
    }
}
