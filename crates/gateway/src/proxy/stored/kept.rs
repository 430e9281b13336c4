//! What is kept, and where something is that a request names.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::listed;
use photofinish_base::clock::wall_micros;
use photofinish_wire::dialects::responses::stored::StoredAnswer;
use photofinish_wire::request::state::add;

/// The upstream that made something, with the key that it can be found with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateOwner {
    pub caller: u64,
    /// `provider/model`
    pub upstream: String,
    /// The id of the key.
    pub key: Option<String>,
    /// A job whose cost is not in any row yet.
    pub is_unpaid: bool,
}

impl StateOwner {
    pub fn bytes(&self) -> usize {
        self.upstream.len() + self.key.as_ref().map_or(0, String::len)
    }
}

/// What is kept whole.
pub enum Kept {
    Response(Arc<StoredResponse>),
    /// Of the response with this id.
    Item(String),
    Conversation(KeptConversation),
}

/// A translated answer, and the input that it answers.
pub struct StoredResponse {
    /// The response that it continues.
    pub previous: Option<String>,
    /// Its own items, as JSON text without brackets.
    pub input: Bytes,
    pub answer: Bytes,
}

impl StoredResponse {
    /// The items of its answer as input, without brackets.
    pub fn output(&self) -> Bytes {
        let mut items = Vec::new();
        for item in StoredAnswer::read(&self.answer).iter().flat_map(|answer| &answer.output) {
            add(&mut items, item.get().as_bytes());
        }
        items.into()
    }
}

/// A conversation, which requests join by its id.
#[derive(Clone)]
pub struct KeptConversation {
    /// Unix seconds.
    created: i64,
    metadata: Map<String, Value>,
    /// In order, each as JSON text without brackets, of one item or more.
    pub items: Vec<Bytes>,
}

impl KeptConversation {
    pub fn new() -> KeptConversation {
        KeptConversation { created: wall_micros() / 1_000_000, metadata: Map::new(), items: Vec::new() }
    }

    /// The object that the SDKs read.
    pub fn object(&self, id: &str) -> Value {
        json!({ "id": id, "object": "conversation", "created_at": self.created, "metadata": self.metadata })
    }

    /// What it takes of the memory for what is kept.
    pub fn bytes(&self, id: &str) -> usize {
        let items = self.items.iter().map(|items| items.len() + size_of::<Bytes>());
        self.object(id).to_string().len() + items.sum::<usize>()
    }

    pub fn all(&self) -> Vec<Value> {
        self.items.iter().flat_map(|items| listed::read(items, "", 0)).collect()
    }

    /// Sets what a request says of its metadata.
    pub fn describe(&mut self, said: &Value) {
        if let Some(metadata) = said["metadata"].as_object() {
            self.metadata.clone_from(metadata);
        }
    }
}

/// Where something is that a request names.
pub enum Found<T> {
    Here(T),
    /// At the upstream that made it.
    At(StateOwner),
    /// It is another caller's.
    Foreign,
    Unknown,
}
