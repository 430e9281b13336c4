//! Chat requests in the form of the Responses API: Cursor sends its agent's whole body so, and single tools of its other modes,
//! always to chat completions, whose answers it reads. Not for the Responses API's own path.

use photofinish_dialects::DialectFormat as _;
use photofinish_dialects::SurfaceFormat as _;
use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use photofinish_dialects::openai::grammar_of;
use photofinish_wire::client_error::Invalid;
use photofinish_wire::conversation::Losses;
use photofinish_wire::dialect::{Dialect, Surface};
use photofinish_wire::json::raw_members::{raw_members, written};
use photofinish_wire::quirks::TranslationOptions;

/// Whether the body has that form, or a tool in it. Only a tool that takes free text is looked for.
pub(super) fn has_it<'a>(member: &dyn Fn(&str) -> Option<&'a str>) -> bool {
    if member("messages").is_none() && member("input").is_some_and(|input| input.starts_with('[')) {
        return true;
    }
    member("tools").is_some_and(|tools| {
        let maybe = tools.contains("\"custom\"");
        maybe && serde_json::from_str::<Vec<ToolForm<'_>>>(tools).is_ok_and(|tools| tools.iter().any(ToolForm::is_flat))
    })
}

#[derive(Deserialize)]
struct ToolForm<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    custom: Option<&'a RawValue>,
    function: Option<&'a RawValue>,
}

impl ToolForm<'_> {
    fn is_flat(&self) -> bool {
        self.name.is_some() && self.custom.is_none() && self.function.is_none()
    }
}

/// The body in the form of chat completions, and what that form cannot say.
///
/// # Errors
/// What is wrong with it in its own form.
pub fn as_chat(body: &[u8]) -> Result<(Vec<u8>, Losses), Invalid> {
    let mut members = raw_members(body).unwrap_or_default();
    let mut losses = Losses::default();
    let has = |name: &str| members.iter().any(|(member, value)| member == name && value != "null");
    if has("messages") {
        for (_, tools) in members.iter_mut().filter(|(name, _)| name == "tools") {
            if let Some(nested) = nested(tools) {
                *tools = Cow::Owned(nested);
            }
        }
        return Ok((written(&members).into_bytes(), losses));
    }
    // Chat's own, and kept below.
    let options = members.iter().position(|(name, _)| name == "stream_options").map(|at| members.remove(at));
    let body = written(&members);
    let find = |name: &str| members.iter().rev().find(|(member, _)| member == name).map(|(_, value)| &**value);
    Surface::Responses.check(&|name| find(name).filter(|value| *value != "null"))?;
    let conversation = Surface::Responses.conversation(body.as_bytes())?;
    losses.extend(&conversation.losses);
    let mut chat = Dialect::OpenAi.request(&conversation, &TranslationOptions::default(), &mut losses);
    let own =
        members.iter().chain(&options).filter(|(name, _)| ["model", "stream", "stream_options"].contains(&&**name));
    for (name, value) in own {
        chat[&**name] = serde_json::from_str(value).unwrap_or_default();
    }
    Ok((chat.to_string().into_bytes(), losses))
}

/// The tools, each in the form of chat completions. None: they are not read here.
fn nested(tools: &str) -> Option<String> {
    let mut all: Vec<Value> = serde_json::from_str(tools).ok()?;
    for tool in all.iter_mut().filter_map(Value::as_object_mut) {
        let kind = match tool.get("type").and_then(Value::as_str) {
            Some(kind @ ("custom" | "function")) if !tool.contains_key(kind) => kind.to_owned(),
            _ => continue,
        };
        let mut inner = std::mem::take(tool);
        let named = inner.remove("type").map(|named| ("type".to_owned(), named));
        if let Some(format) = inner.get_mut("format") {
            *format = grammar_of(format);
        }
        tool.extend(named);
        tool.insert(kind, Value::Object(inner));
    }
    Some(Value::from(all).to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ApiRequest;
    use crate::request::InvalidRequest;

    /// The body that goes on, and the names of what it lost. None: it came in chat's own form.
    fn reshaped(body: &Value) -> Option<(Value, String)> {
        let text = body.to_string();
        match ApiRequest::parse(Surface::Chat, text.clone().into()) {
            Err(InvalidRequest::ResponsesForm) => {}
            parsed => return parsed.map(|_| None).unwrap(),
        }
        let (chat, losses) = as_chat(text.as_bytes()).unwrap();
        ApiRequest::parse(Surface::Chat, chat.clone().into()).unwrap();
        Some((serde_json::from_slice(&chat).unwrap(), losses.names().collect::<Vec<_>>().join(",")))
    }

    #[test]
    fn a_whole_body_of_the_responses_api_becomes_chat() {
        let (chat, losses) = reshaped(&json!({
            "model": "m", "stream": true, "stream_options": { "include_usage": true }, "store": false,
            "previous_response_id": "resp_1",
            "input": [
                { "role": "system", "content": "Be brief." },
                { "role": "user", "content": [{ "type": "input_text", "text": "Hi" }] },
                { "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}" },
                { "type": "function_call_output", "call_id": "c", "output": "done" },
            ],
            "tools": [{ "type": "function", "name": "f", "parameters": { "type": "object" } }],
        }))
        .unwrap();
        assert_eq!(chat["model"], "m");
        assert_eq!((&chat["stream"], &chat["stream_options"]), (&json!(true), &json!({ "include_usage": true })));
        let roles: Vec<&str> =
            chat["messages"].as_array().unwrap().iter().map(|turn| turn["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "tool"]);
        assert_eq!(chat["tools"][0]["function"]["name"], "f");
        assert_eq!(losses, "previous_response_id");
    }

    #[test]
    fn a_single_tool_of_the_responses_api_is_nested() {
        let function = json!({ "type": "function", "function": { "name": "f" } });
        let (chat, losses) = reshaped(&json!({
            "model": "m", "seed": 7, "messages": [{ "role": "user", "content": "Hi" }],
            "tools": [function, {
                "type": "custom", "name": "ApplyPatch", "description": "Edits.",
                "format": { "type": "grammar", "syntax": "lark", "definition": "start: /./" },
            }],
        }))
        .unwrap();
        assert_eq!(chat["seed"], 7);
        let grammar = json!({ "type": "grammar", "grammar": { "syntax": "lark", "definition": "start: /./" } });
        let custom = json!({ "name": "ApplyPatch", "description": "Edits.", "format": grammar });
        assert_eq!(chat["tools"], json!([function, { "type": "custom", "custom": custom }]));
        assert_eq!(losses, "");
    }

    #[test]
    fn other_bodies_stay_as_they_are() {
        let turns = json!([{ "role": "user", "content": "Hi" }]);
        let custom = json!({ "type": "custom", "custom": { "name": "custom" } });
        assert_eq!(reshaped(&json!({ "model": "m", "messages": turns, "input": [], "tools": [custom] })), None);
        let missing = ApiRequest::parse(Surface::Chat, json!({ "model": "m", "input": "x" }).to_string().into());
        assert!(
            matches!(missing, Err(InvalidRequest::Surface(invalid)) if invalid.param.as_deref() == Some("messages"))
        );
    }

    #[test]
    fn what_is_wrong_is_said_in_its_own_form() {
        let invalid =
            as_chat(json!({ "model": "m", "input": [{ "role": "user" }] }).to_string().as_bytes()).unwrap_err();
        assert_eq!(invalid.param.as_deref(), Some("input[0].content"));
    }
}
