//! Turns and cache marks of a request as its upstream takes them: for translations, and for clients of its own dialect. Not for
//! which upstream demands it: see `quirks`.

use serde_json::Value;

use super::{PastReasoning, Quirks, UNKNOWN_REASONING, reference, reminder};
use crate::conversation::Losses;
use crate::conversation::call_ids::CallIds;
use crate::json::values::json;

const MARK: &str = "cache_control";
/// Bedrock's, a block of its own.
const POINT: &str = "cachePoint";

/// How many cache marks a request has, at most: a text may have the word too.
pub fn cache_marks(body: &[u8]) -> usize {
    memchr::memmem::find_iter(body, MARK.as_bytes()).count()
}

/// The roles that instruct the model.
pub const SYSTEM_ROLES: [&str; 2] = ["system", "developer"];

/// Leaves out cache marks, from the end, once `left` are there. Returns whether it did.
pub fn limit_marks(value: &mut Value, left: &mut u64) -> bool {
    match value {
        Value::Array(items) => {
            let before = items.len();
            let mut changed = false;
            for at in (0..before).rev() {
                match (items[at].get(POINT), left.checked_sub(1)) {
                    (None, _) => changed |= limit_marks(&mut items[at], left),
                    (Some(_), Some(less)) => *left = less,
                    (Some(_), None) => drop(items.remove(at)),
                }
            }
            changed || items.len() < before
        }
        Value::Object(members) => {
            let mut changed = members.get_mut("content").is_some_and(|content| limit_marks(content, left));
            if members.get(MARK).is_some_and(|mark| !mark.is_null()) {
                match left.checked_sub(1) {
                    Some(less) => *left = less,
                    None => changed |= members.shift_remove(MARK).is_some(),
                }
            }
            changed
        }
        _ => false,
    }
}

/// The turns of a chat with the roles, the order, the ids and the reasoning that the vendor takes. Returns whether anything was
/// changed.
pub fn fit_turns(messages: &mut Value, quirks: &Quirks, losses: &mut Losses) -> bool {
    let ids = CallIds::of_form(quirks.call_ids);
    let mut changed = chat_history(messages, quirks.past_reasoning, ids, losses);
    changed |= quirks.system_turns == Some(false) && remind(messages, losses);
    let Value::Array(list) = messages else { return changed };
    for message in list.iter_mut().filter(|message| !quirks.developer_turns && message["role"] == "developer") {
        message["role"] = Value::from("system");
        changed = true;
    }
    if !quirks.result_media {
        changed |= attach(list);
    }
    let is_behind = |pair: &[Value]| pair[0]["role"] == "tool" && pair[1]["role"] == "user";
    let gaps: Vec<usize> =
        list.windows(2).enumerate().filter(|(_, pair)| is_behind(pair)).map(|(at, _)| at + 1).collect();
    if !quirks.user_after_tool {
        gaps.iter().rev().for_each(|at| list.insert(*at, json!({ "role": "assistant", "content": "OK." })));
        changed |= !gaps.is_empty();
    }
    changed
}

/// What results of tools have apart from text goes into a user turn after them. Returns whether there was any.
fn attach(list: &mut Vec<Value>) -> bool {
    let (mut changed, mut held, mut ordered) = (false, Vec::new(), Vec::with_capacity(list.len()));
    for mut message in list.drain(..) {
        let is_result = message["role"] == "tool";
        if !is_result && !held.is_empty() {
            ordered.push(json!({ "role": "user", "content": std::mem::take(&mut held) }));
        }
        if is_result && has_parts(&message) {
            changed = true;
            let parts = message["content"].as_array_mut().map(std::mem::take).unwrap_or_default();
            let (mut texts, others): (Vec<Value>, Vec<Value>) =
                parts.into_iter().partition(|part| part["type"] == "text");
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            held.push(json!({ "type": "text", "text": format!("Attachments of the result of tool call {id}:") }));
            held.extend(others);
            if texts.is_empty() {
                texts.push(json!({ "text": "The result is attached in the next message of the user." }));
            }
            let texts: Vec<&str> = texts.iter().filter_map(|part| part["text"].as_str()).collect();
            message["content"] = Value::from(texts.join("\n"));
        }
        ordered.push(message);
    }
    if !held.is_empty() {
        ordered.push(json!({ "role": "user", "content": held }));
    }
    *list = ordered;
    changed
}

/// Whether a result has something other than texts.
pub fn has_parts(message: &Value) -> bool {
    message["content"].as_array().is_some_and(|parts| parts.iter().any(|part| part["type"] != "text"))
}

/// Turns of Messages that call tools get a thought where they have none. Returns whether any did.
pub fn think_before_calls(messages: &mut [Value]) -> bool {
    let mut changed = false;
    let is = |block: &Value, kinds: &[&str]| kinds.iter().any(|kind| block["type"] == *kind);
    for message in messages.iter_mut().filter(|message| message["role"] == "assistant") {
        let Some(Value::Array(blocks)) = message.get_mut("content") else { continue };
        let thinks = blocks.iter().any(|block| is(block, &["thinking", "redacted_thinking"]));
        if !thinks && blocks.iter().any(|block| is(block, &["tool_use"])) {
            blocks.insert(0, json!({ "type": "thinking", "thinking": UNKNOWN_REASONING, "signature": "" }));
            changed = true;
        }
    }
    changed
}

/// The type of blocks that name a tool that was found.
pub const REFERENCE: &str = "tool_reference";

/// The tools that results name are named in words. Returns whether there were any.
pub fn say_references(value: &mut Value) -> bool {
    match value {
        Value::Array(items) => items.iter_mut().fold(false, |said, item| say_references(item) | said),
        Value::Object(block) if block.get("type").is_some_and(|kind| kind == REFERENCE) => {
            let name = block.get("tool_name").and_then(Value::as_str).unwrap_or_default();
            *value = json!({ "type": "text", "text": reference(name) });
            true
        }
        Value::Object(members) => members.get_mut("content").is_some_and(say_references),
        _ => false,
    }
}

/// What the system says behind other turns becomes the user's. Returns whether anything was changed.
pub fn remind(messages: &mut Value, losses: &mut Losses) -> bool {
    let is_system = |message: &Value| message["role"].as_str().is_some_and(|role| SYSTEM_ROLES.contains(&role));
    let list = messages.as_array_mut().map(Vec::as_mut_slice).unwrap_or_default();
    let first = list.iter().take_while(|message| is_system(message)).count();
    let mut changed = false;
    for (at, message) in list.iter_mut().enumerate().skip(first).filter(|(_, message)| is_system(message)) {
        message["role"] = Value::from("user");
        match &mut message["content"] {
            Value::String(text) => *text = reminder(text),
            Value::Array(parts) => {
                for part in parts {
                    if let Some(Value::String(text)) = part.get_mut("text") {
                        *text = reminder(text);
                    }
                }
            }
            _ => {}
        }
        losses.lose(format!("messages[{at}].role"));
        changed = true;
    }
    changed
}

/// Fits ids of calls, and adds a text for missing reasoning. Returns whether anything was changed.
fn chat_history(messages: &mut Value, reasoning: PastReasoning, mut ids: Option<CallIds>, losses: &mut Losses) -> bool {
    let mut changed = false;
    for message in messages.as_array_mut().into_iter().flatten() {
        let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut).filter(|calls| !calls.is_empty());
        let has_calls = calls.is_some();
        for call in calls.into_iter().flatten() {
            changed |= fit(call.get_mut("id"), |id| ids.as_mut().map(|ids| ids.call(id)));
        }
        changed |= fit(message.get_mut("tool_call_id"), |id| ids.as_mut().map(|ids| ids.result(id)));
        let has_reasoning = message["reasoning_content"].as_str().is_some_and(|text| !text.is_empty());
        for name in ["reasoning_content", "reasoning_details"] {
            let members = message.as_object_mut().filter(|_| reasoning == PastReasoning::Never);
            let Some(was) = members.and_then(|members| members.shift_remove(name)) else { continue };
            losses.lose_if(has_reasoning || was.is_array(), name);
            changed = true;
        }
        if reasoning == PastReasoning::Wanted && has_calls && !has_reasoning && message.is_object() {
            message["reasoning_content"] = Value::from(UNKNOWN_REASONING);
            changed = true;
        }
    }
    changed
}

fn fit(id: Option<&mut Value>, fitted: impl FnOnce(&str) -> Option<String>) -> bool {
    let Some(id) = id else { return false };
    match id.as_str().and_then(fitted) {
        Some(other) if id.as_str() != Some(other.as_str()) => {
            *id = Value::from(other);
            true
        }
        _ => false,
    }
}
