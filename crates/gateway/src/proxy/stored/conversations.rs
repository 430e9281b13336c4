//! Conversations of the Responses API, which have no model and so no upstream: they are kept here, and every upstream gets their items.

use bytes::Bytes;
use uuid::Uuid;

use crate::proxy::state::kept::{Kept, KeptConversation};
use crate::proxy::state::stored::StoredState;
use crate::proxy::stored::listed;

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

    /// A new one. None: there is no room.
    pub fn keep_conversation(&self, caller: u64, id: &str, conversation: KeptConversation) -> Option<()> {
        let bytes = conversation.bytes(id);
        self.put(caller, id, Kept::Conversation(conversation), bytes).then_some(())
    }

    /// Changes one, and returns what `change` does. None: it is not here any more, or there is no room.
    pub fn change_conversation<T>(
        &self,
        caller: u64,
        id: &str,
        change: impl FnOnce(&mut KeptConversation) -> T,
    ) -> Option<T> {
        self.change(caller, id, |kept| {
            let Kept::Conversation(conversation) = kept else { return None };
            let mut conversation = conversation.clone();
            let result = change(&mut conversation);
            let bytes = conversation.bytes(id);
            Some((Kept::Conversation(conversation), bytes, result))
        })
    }

    /// Adds items at its end, and returns them with their ids. None as above.
    pub fn extend_conversation(&self, caller: u64, id: &str, items: &[u8]) -> Option<Vec<Bytes>> {
        let base = Uuid::now_v7().simple().to_string();
        let mut added = Vec::new();
        listed::read(items, &base, 0, |_, item| added.push(Bytes::from(item())));
        self.change_conversation(caller, id, |conversation| conversation.items.extend(added.iter().cloned()))?;
        Some(added)
    }
}
