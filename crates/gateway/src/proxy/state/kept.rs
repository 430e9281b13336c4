//! What is kept, and where something is that a request names.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::attempt::JobCost;
use crate::proxy::refusals::rejection::Rejection;
use photofinish_base::clock::wall_micros;
use photofinish_dialects::responses::stored::{StoredAnswer, item_id};
use photofinish_translation::request::state::add;
use photofinish_wire::client_error::Invalid;

/// The upstream that made something, with the key that it can be found with.
#[derive(Clone, Debug)]
pub struct StateOwner {
    pub caller: u64,
    /// `provider/model`
    pub upstream: String,
    /// The model that was asked for. Empty: the request named its upstreams.
    pub model: String,
    /// The id of the key.
    pub key: Option<String>,
    /// None: what it made is paid for in its own row.
    pub job: Option<JobCost>,
}

impl StateOwner {
    pub fn provider(&self) -> &str {
        self.upstream.split('/').next().unwrap_or_default()
    }

    pub fn bytes(&self) -> usize {
        size_of::<StateOwner>() + self.upstream.len() + self.model.len() + self.key.as_ref().map_or(0, String::len)
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
    /// In order, each the JSON text of one item with its id.
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

    /// The item with this id.
    pub fn item(&self, id: &str) -> Option<&Bytes> {
        self.items.iter().find(|item| text_of(item).and_then(item_id).is_some_and(|own| own == id))
    }

    /// There is no place for this number more.
    pub fn is_full(&self, more: usize) -> bool {
        self.items.len() + more > ITEMS_MAX
    }

    /// Sets what a request says of its metadata.
    pub fn describe(&mut self, metadata: Option<Map<String, Value>>) {
        if let Some(metadata) = metadata {
            self.metadata = metadata;
        }
    }
}

/// Items of a conversation.
pub const ITEMS_MAX: usize = 10_000;

/// An item, which is JSON.
pub fn text_of(item: &Bytes) -> Option<&str> {
    std::str::from_utf8(item).ok()
}

/// Bytes of the metadata of a conversation, before they are read: those of the longest pairs, escaped.
const METADATA_MAX: usize = 64 << 10;
/// Pairs in the metadata of a conversation.
const PAIRS_MAX: usize = 16;
/// Characters of a name there.
const NAME_MAX: usize = 64;
/// Characters of a value there.
const VALUE_MAX: usize = 512;

/// What a request says of the metadata of its conversation. None: nothing.
///
/// # Errors
/// 400 as the vendor's, for more than it may have.
pub fn metadata(said: Option<&RawValue>) -> Result<Option<Map<String, Value>>, Rejection> {
    let is_short = |text: &str, max: usize| text.chars().count() <= max;
    let fits = |(name, value): (&String, &Value)| {
        is_short(name, NAME_MAX) && value.as_str().is_some_and(|text| is_short(text, VALUE_MAX))
    };
    let text = said.map_or("null", RawValue::get);
    let read = (text.len() <= METADATA_MAX).then(|| serde_json::from_str(text).ok()).flatten();
    match read {
        Some(Value::Null) => Ok(None),
        Some(Value::Object(pairs)) if pairs.len() <= PAIRS_MAX && pairs.iter().all(fits) => Ok(Some(pairs)),
        _ => {
            let message = format!(
                "Invalid 'metadata': expected an object with at most {PAIRS_MAX} properties, each a string of at most \
                 {VALUE_MAX} characters under a name of at most {NAME_MAX}."
            );
            Err(Rejection::invalid(&Invalid { message, param: Some("metadata".to_owned()) }))
        }
    }
}

/// Where something is that a request names.
pub enum Found<T> {
    Here(T),
    /// At the upstream that made it. Several made something with this id: the newest first.
    At(Vec<StateOwner>),
    /// It is another caller's.
    Foreign,
    Unknown,
}
