//! A request of the Responses API with the items of earlier answers in its input, and the calls of that API that name no model.
//! Not for where these items are kept: the gateway knows.

use std::borrow::Cow;
use std::collections::HashMap;

use bytes::Bytes;
use http::Method;
use serde_json::Value;

use super::state::{TRIGGER, add, items as listed, referred};
use super::{ApiRequest, InvalidRequest};
use photofinish_wire::dialect::{PassedCall, Surface};
use photofinish_wire::json::raw_members::{raw_members, written};
use photofinish_wire::json::values::{PutMember, json};
use photofinish_wire::json::{InvalidJson, Json};

/// The input of a request, with the items in place that it names.
pub struct ResolvedInput {
    /// JSON text of the items, without brackets.
    pub items: Vec<u8>,
    /// The ids of items that are not known.
    pub unknown: Vec<String>,
}

/// It was given up: too long, or no list of items.
#[derive(Clone, Copy, Debug)]
pub struct UnreadInput;

impl ApiRequest {
    /// A call of the Responses API that names no model: it goes to an upstream as it is, with this method, and this path behind
    /// the base URL. `names`: the upstreams, for the row.
    pub fn calling(surface: Surface, method: Method, path: String, body: Bytes, names: &str) -> ApiRequest {
        let stream = surface.streams();
        let (model, end) = (names.to_owned(), body.len());
        ApiRequest { end, body, model, stream, call: Some((method, path)), ..ApiRequest::empty(surface) }
    }

    /// A request for a response. One in the background is another call, unless it is streamed.
    ///
    /// # Errors
    /// As [`ApiRequest::parse_call`].
    pub fn parse_responses(body: Bytes, strict: bool) -> Result<ApiRequest, InvalidRequest> {
        let request = ApiRequest::parse_call(Surface::Responses, body, None, strict)?;
        if !request.state.background || request.stream {
            return Ok(request);
        }
        let job = Surface::Passed(PassedCall::Background);
        Ok(ApiRequest { ambiguous: request.ambiguous, ..ApiRequest::parse_call(job, request.body, None, false)? })
    }

    /// A call for the short form of a conversation, as a request that translates. None: it is none.
    pub fn as_compaction(&self) -> Option<ApiRequest> {
        if self.surface != Surface::Passed(PassedCall::Compaction) {
            return None;
        }
        let mut items = self.own_input(|_| None, |_| true).ok()?.items;
        add(&mut items, json!({ "type": TRIGGER }).to_string().as_bytes());
        let input = [b"[", items.as_slice(), b"]"].concat();
        let mut members = raw_members(&self.body)?;
        members.retain(|(name, _)| !["input", "store", "stream"].contains(&&**name));
        for (name, value) in [("input", str::from_utf8(&input).ok()?), ("store", "false")] {
            members.push((Cow::Borrowed(name), Cow::Borrowed(value)));
        }
        let mut made = ApiRequest::parse(Surface::Responses, written(&members).into()).ok()?;
        made.ambiguous.clone_from(&self.ambiguous);
        made.state.echo.put("object", Some("response.compaction"));
        Some(made)
    }

    /// Its method, and its path behind the base URL. None: it posts to the path of its surface.
    pub fn call(&self) -> Option<&(Method, String)> {
        self.call.as_ref()
    }

    /// The items of its own input. `known` returns the JSON text of an item by its id; it is asked once for each. `room`: whether so
    /// many bytes may be made.
    ///
    /// # Errors
    /// There is no room, or the items are nested too deeply.
    pub fn own_input(
        &self,
        known: impl Fn(&str) -> Option<Bytes>,
        mut room: impl FnMut(usize) -> bool,
    ) -> Result<ResolvedInput, UnreadInput> {
        let [.., input] = self.prompt();
        let (mut items, mut unknown) = (Vec::new(), Vec::new());
        match (self.state.refers.then(|| listed(input)).flatten(), input.first()) {
            (Some(listed), _) => {
                let mut found = HashMap::new();
                Json::listed(listed, |item| {
                    let id = referred(item);
                    let named = id.map(|id| found.entry(id.clone()).or_insert_with(|| known(&id).ok_or(id)).clone());
                    let text = match named {
                        None => Bytes::copy_from_slice(item.as_bytes()),
                        Some(Ok(found)) => found,
                        Some(Err(id)) => {
                            // In one form, so that an upstream reads the id that is judged here.
                            let reference = json!({ "type": "item_reference", "id": id }).to_string();
                            unknown.push(id);
                            reference.into()
                        }
                    };
                    if !room(items.len() + text.len()) {
                        return Err(InvalidJson);
                    }
                    add(&mut items, &text);
                    Ok(())
                })
                .map_err(|InvalidJson| UnreadInput)?;
            }
            (None, Some(b'[')) => add(&mut items, &input[1..input.len() - 1]),
            (None, Some(b'"')) => {
                items.extend_from_slice(br#"{"type":"message","role":"user","content":"#);
                items.extend_from_slice(input);
                items.push(b'}');
            }
            (None, _) => {}
        }
        Ok(ResolvedInput { items, unknown })
    }

    /// The same with this input. `replaces`: it has the state that other members name, and they are left out. `hold` makes the body.
    ///
    /// # Errors
    /// None for items that were read before.
    pub fn with_input(
        &self,
        input: &[u8],
        replaces: bool,
        hold: impl FnOnce(String) -> Bytes,
    ) -> Result<ApiRequest, InvalidRequest> {
        let mut members = raw_members(&self.body).ok_or(InvalidRequest::NotAnObject)?;
        members.retain(|(name, _)| {
            name != "input" && !(replaces && matches!(name.as_ref(), "previous_response_id" | "conversation"))
        });
        let input = std::str::from_utf8(input).map_err(|_| InvalidRequest::NotAnObject)?;
        members.push((Cow::Borrowed("input"), Cow::Borrowed(input)));
        let made = ApiRequest::parse(self.surface, hold(written(&members)))?;
        let (ambiguous, mut state) = (self.ambiguous.clone(), made.state.clone());
        if replaces {
            let named = |id: &String| Value::from(id.as_str());
            state.echo.put("previous_response_id", self.state.previous.as_ref().map(named));
            state.echo.put("conversation", self.state.conversation.as_ref().map(|id| json!({ "id": id })));
        }
        Ok(ApiRequest { ambiguous, state, ..made })
    }
}
