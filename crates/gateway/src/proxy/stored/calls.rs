//! The calls of the Responses API that ask for something stored, and those of its conversations. What is kept here is answered
//! here; all else goes to the upstream that has it, as a request like any other.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::{Method, Request, Response};
use serde_json::{Value, json};

use super::kept::{Found, KeptConversation, StoredResponse, metadata};
use super::listed;
use super::recall::{Holders, Missing};
use super::state::StoredState;
use crate::proxy::lists::models::json_response;
use crate::proxy::refusals::rejection::Rejection;
use photofinish_wire::dialect::behind_version;
use photofinish_wire::{ApiRequest, PassedCall, Surface};

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
        parts => of_conversation(stored, caller, parts, &serde_json::from_slice(body).unwrap_or_default(), call),
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
        ("GET" | "HEAD", []) => Ok(here(serde_json::from_slice(&response.answer).unwrap_or_default())),
        ("DELETE", []) => {
            stored.forget(caller, &response, id);
            Ok(here(json!({ "id": id, "object": "response", "deleted": true })))
        }
        ("GET" | "HEAD", ["input_items"]) => {
            let base = id.trim_start_matches("resp_");
            let chain = stored.chain(caller, id).unwrap_or_else(|| vec![response]);
            let mut items = Vec::new();
            for (at, response) in chain.iter().enumerate().rev() {
                items.extend(listed::read(&response.input, base, items.len()));
                if at > 0 {
                    items.extend(listed::read(&response.output(), base, items.len()));
                }
            }
            listed::page(items, &call.query).map(here)
        }
        ("POST", ["cancel"]) => Err(Rejection::not_in_background()),
        _ => Err(Rejection::method("GET, DELETE")),
    }
}

fn of_conversation(
    stored: &StoredState,
    caller: u64,
    parts: &[&str],
    said: &Value,
    call: &StoredCall,
) -> Result<Answer, Rejection> {
    let given = || said["items"].as_array().map(|items| Value::from(items.clone()).to_string());
    let add = |id: &str| {
        let text = given().unwrap_or_else(|| "[]".to_owned());
        stored.extend_conversation(caller, id, &text.as_bytes()[1..text.len() - 1])
    };
    let [_, id, rest @ ..] = parts else {
        if call.method != Method::POST {
            return Err(Rejection::method("POST"));
        }
        if !stored.is_on() {
            return Err(Rejection::keeps_nothing());
        }
        let (id, mut conversation) = (StoredState::new_conversation_id(), KeptConversation::new());
        conversation.describe(metadata(said)?);
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
    let find = |item: &str| conversation.all().into_iter().find(|one| one["id"] == item);
    match (call.method.as_str(), rest) {
        ("GET" | "HEAD", []) => {}
        ("POST", []) => {
            let metadata = metadata(said)?;
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
        ("GET" | "HEAD", ["items"]) => return listed::page(conversation.all(), &call.query).map(here),
        ("POST", ["items"]) => {
            let added = add(id).ok_or_else(Rejection::keeps_no_more)?;
            return listed::page(added, "limit=100&order=asc").map(here);
        }
        ("GET" | "HEAD", ["items", item]) => {
            return find(item).map(here).ok_or_else(|| Rejection::not_stored("Item", item));
        }
        ("DELETE", ["items", item]) => {
            find(item).ok_or_else(|| Rejection::not_stored("Item", item))?;
            let others = |text: &Bytes| listed::read(text, "", 0).iter().all(|one| one["id"] != *item);
            stored.change_conversation(caller, id, |kept| kept.items.retain(others));
        }
        _ => return Err(Rejection::method("GET, POST, DELETE")),
    }
    Ok(here(conversation.object(id)))
}
