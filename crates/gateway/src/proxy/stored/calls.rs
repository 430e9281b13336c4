//! The calls of the Responses API that ask for something stored, and those of its conversations. What is kept here is answered
//! here; all else goes to the upstream that has it, as a request like any other.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::{Method, Request, Response};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::proxy::lists::models::{json_response, json_text};
use crate::proxy::refusals::rejection::Rejection;
use crate::proxy::state::holders::{Holders, Missing};
use crate::proxy::state::kept::{Found, ITEMS_MAX, KeptConversation, StoredResponse, metadata, text_of};
use crate::proxy::state::stored::StoredState;
use crate::proxy::stored::listed::{self, PageQuery};
use photofinish_base::memory::MemoryFull;
use photofinish_translation::ApiRequest;
use photofinish_wire::dialect::behind_version;
use photofinish_wire::json::{InvalidJson, Json};
use photofinish_wire::{PassedCall, Surface};

/// A call, by its path behind `/v1`.
pub struct StoredCall {
    method: Method,
    /// `/responses/ID/cancel`
    path: String,
    query: String,
}

/// A call for an upstream.
pub struct UpstreamCall {
    pub call: StoredCall,
    pub holders: Holders,
}

/// What of an object a call asks for.
type Rest<'a> = &'a [&'a str];

impl StoredCall {
    /// None: the path names nothing that may be stored.
    pub fn of<B>(request: &Request<B>) -> Option<StoredCall> {
        let path = request.uri().path();
        let path = behind_version(path);
        let is_plain = |part: &str| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
            !part.is_empty() && part.bytes().all(is_plain) && !part.bytes().all(|byte| byte == b'.')
        };
        let call = StoredCall {
            method: request.method().clone(),
            path: path.to_owned(),
            query: request.uri().query().unwrap_or_default().to_owned(),
        };
        path.split('/').skip(1).all(is_plain).then_some(call)
    }

    /// It makes a conversation.
    pub fn makes(&self) -> bool {
        self.method == Method::POST && self.path == "/conversations"
    }

    fn parts(&self) -> Vec<&str> {
        self.path.split('/').skip(1).collect()
    }

    fn streams(&self) -> bool {
        self.method == Method::GET && self.query.split('&').any(|pair| pair == "stream=true")
    }

    /// The request to the upstreams of these names.
    pub fn request(&self, names: &str, body: Bytes) -> ApiRequest {
        let mark = if self.query.is_empty() { "" } else { "?" };
        let path = format!("{}{mark}{}", self.path, self.query);
        let surface = if self.streams() { Surface::Responses } else { Surface::Passed(PassedCall::Stored) };
        ApiRequest::calling(surface, self.method.clone(), path, body, names)
    }
}

/// What is answered here, or where it may be.
///
/// # Errors
/// The vendor's.
pub fn find(stored: &StoredState, caller: u64, call: &StoredCall, body: &[u8]) -> Result<Answer, Rejection> {
    match call.parts().as_slice() {
        ["responses", id, rest @ ..] => of_response(stored, caller, id, rest, call),
        parts => of_conversation(stored, caller, parts, body, call),
    }
}

/// Who answers a call.
pub enum Answer {
    Here(Response<Body>),
    Upstream(Holders),
}

fn here(value: Value) -> Answer {
    Answer::Here(json_response(&value))
}

/// A page of what `walk` passes.
///
/// # Errors
/// 400 for a query that is none; 503 without memory for `bytes` of items.
fn page(
    stored: &StoredState,
    bytes: usize,
    query: &str,
    walk: impl FnMut(&mut dyn FnMut(usize, &dyn Fn() -> String)),
) -> Result<Answer, Rejection> {
    let asked = PageQuery::of(query)?;
    // The items of the page, and the page.
    let mut lease = stored.memory.lease();
    lease.cover(2 * bytes).map_err(|MemoryFull| Rejection::no_memory(2 * bytes, stored.memory.max()))?;
    Ok(Answer::Here(json_text(asked.page(walk))))
}

/// What a call says of a conversation.
#[derive(Default, Deserialize)]
struct SaidOfConversation<'a> {
    #[serde(borrow, default)]
    items: Option<&'a RawValue>,
    #[serde(borrow, default)]
    metadata: Option<&'a RawValue>,
}

impl<'a> SaidOfConversation<'a> {
    /// # Errors
    /// 400: it is no object.
    fn read(body: &'a [u8]) -> Result<SaidOfConversation<'a>, Rejection> {
        if body.trim_ascii().is_empty() {
            return Ok(SaidOfConversation::default());
        }
        let read = serde_json::from_slice(body).ok().filter(|_| body.trim_ascii_start().first() == Some(&b'{'));
        read.ok_or_else(|| Rejection::parameter(None, "expected a JSON object, without members that occur twice"))
    }

    /// Its items, without brackets, and how many there are.
    ///
    /// # Errors
    /// 400: it is no list of objects.
    fn items(&self) -> Result<Option<(&'a str, usize)>, Rejection> {
        let Some(text) = self.items.map(RawValue::get).filter(|text| *text != "null") else { return Ok(None) };
        let mut count = 0;
        let listed = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        let walked = listed.ok_or(InvalidJson).and_then(|listed| {
            Json::listed(listed, |item| {
                count += 1;
                item.starts_with('{').then_some(()).ok_or(InvalidJson)
            })
        });
        let wrong = || Rejection::parameter(Some("items".to_owned()), "items: expected a list of objects");
        walked.map_err(|InvalidJson| wrong())?;
        Ok(listed.map(|listed| (listed, count)))
    }
}

/// Refuses more items than a conversation may have.
fn has_room_for(conversation: &KeptConversation, more: usize) -> Result<(), Rejection> {
    if !conversation.is_full(more) {
        return Ok(());
    }
    let message = format!("items: a conversation has at most {ITEMS_MAX} items");
    Err(Rejection::parameter(Some("items".to_owned()), &message))
}

fn asked<T>(found: Found<T>, missing: Missing) -> Result<Answer, Rejection> {
    Holders::of(found, missing).map(|holders| Answer::Upstream(holders.asked()))
}

fn of_response(
    stored: &StoredState,
    caller: u64,
    id: &str,
    rest: Rest<'_>,
    call: &StoredCall,
) -> Result<Answer, Rejection> {
    let response: Arc<StoredResponse> = match stored.find(caller, id, || stored.response(caller, id)) {
        Found::Here(response) => response,
        found => return asked(found, Missing::Response(id.to_owned())),
    };
    match (call.method.as_str(), rest) {
        ("GET", []) if call.streams() => Err(Rejection::not_streamed()),
        ("GET" | "HEAD", []) => Ok(Answer::Here(json_text(response.answer.clone()))),
        ("DELETE", []) => {
            stored.forget(caller, &response, id);
            Ok(here(json!({ "id": id, "object": "response", "deleted": true })))
        }
        ("GET" | "HEAD", ["input_items"]) => {
            let base = id.trim_start_matches("resp_");
            let chain = stored.chain(caller, id).unwrap_or_else(|| vec![response]);
            let bytes = chain.iter().map(|response| response.input.len() + response.answer.len()).sum();
            page(stored, bytes, &call.query, |each| {
                let mut next = 0;
                for (at, response) in chain.iter().enumerate().rev() {
                    next = listed::read(&response.input, base, next, &mut *each);
                    if at > 0 {
                        next = listed::read(&response.output(), base, next, &mut *each);
                    }
                }
            })
        }
        ("POST", ["cancel"]) => Err(Rejection::not_in_background()),
        _ => Err(Rejection::method("GET, DELETE")),
    }
}

/// A page of the items of a conversation.
fn page_of(stored: &StoredState, items: &[Bytes], query: &str) -> Result<Answer, Rejection> {
    let texts = || items.iter().filter_map(text_of);
    page(stored, items.iter().map(Bytes::len).sum(), query, |each| {
        texts().enumerate().for_each(|(place, item)| each(place, &|| item.to_owned()));
    })
}

fn of_conversation(
    stored: &StoredState,
    caller: u64,
    parts: &[&str],
    body: &[u8],
    call: &StoredCall,
) -> Result<Answer, Rejection> {
    let body = if call.method == Method::POST { body } else { b"" };
    let said = SaidOfConversation::read(body)?;
    let (items, more) = said.items()?.unwrap_or_default();
    let add = |id: &str| stored.extend_conversation(caller, id, items.as_bytes());
    let [_, id, rest @ ..] = parts else {
        if call.method != Method::POST {
            return Err(Rejection::method("POST"));
        }
        if !stored.is_on() {
            return Err(Rejection::keeps_nothing());
        }
        let (id, mut conversation) = (StoredState::new_conversation_id(), KeptConversation::new());
        conversation.describe(metadata(said.metadata)?);
        has_room_for(&conversation, more)?;
        let object = conversation.object(&id);
        stored.keep_conversation(caller, &id, conversation).ok_or_else(Rejection::keeps_no_more)?;
        add(&id).ok_or_else(Rejection::keeps_no_more)?;
        return Ok(here(object));
    };
    let missing = Missing::Conversation((*id).to_owned());
    let conversation = match stored.find(caller, id, || stored.conversation(caller, id)) {
        Found::Here(conversation) => conversation,
        found => return asked(found, missing),
    };
    match (call.method.as_str(), rest) {
        ("GET" | "HEAD", []) => {}
        ("POST", []) => {
            let metadata = metadata(said.metadata)?;
            let described = stored.change_conversation(caller, id, |kept| {
                kept.describe(metadata);
                kept.object(id)
            });
            return described.map(here).ok_or_else(Rejection::keeps_no_more);
        }
        ("DELETE", []) => {
            stored.remove(caller, id);
            return Ok(here(json!({ "id": id, "object": "conversation.deleted", "deleted": true })));
        }
        ("GET" | "HEAD", ["items"]) => return page_of(stored, &conversation.items, &call.query),
        ("POST", ["items"]) => {
            if said.items.is_none() {
                return Err(Rejection::parameter(Some("items".to_owned()), "items: expected a list of objects"));
            }
            has_room_for(&conversation, more)?;
            let added = add(id).ok_or_else(Rejection::keeps_no_more)?;
            return page_of(stored, &added, "limit=100&order=asc");
        }
        ("GET" | "HEAD", ["items", item]) => {
            let found = conversation.item(item).and_then(text_of);
            let answer = found.map(|item| Answer::Here(json_text(item.to_owned())));
            return answer.ok_or_else(|| Rejection::not_stored("Item", item));
        }
        ("DELETE", ["items", item]) => {
            let gone = conversation.item(item).ok_or_else(|| Rejection::not_stored("Item", item))?;
            stored.change_conversation(caller, id, |kept| kept.items.retain(|other| other != gone));
        }
        _ => return Err(Rejection::method("GET, POST, DELETE")),
    }
    Ok(here(conversation.object(id)))
}
