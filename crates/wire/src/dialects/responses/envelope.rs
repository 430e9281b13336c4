//! The response object around the output, and the error events of a broken stream.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::numbered::Numbered;
use super::{ErrorShape, SseEvent};
use crate::answer::usage::Usage;
use crate::json::numbers::object;
use crate::json::values::{PutMember, json};
use crate::translate::FinishReason;

/// The constant parts of one answer.
#[derive(Debug)]
pub(super) struct Envelope {
    pub id: String,
    pub model: String,
    created: u64,
    /// The common part of item ids.
    base: String,
    /// Members of the request that an answer repeats.
    echo: Arc<Map<String, Value>>,
}

/// The state of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    InProgress,
    Completed,
    /// Incomplete, with the reason.
    Incomplete(&'static str),
}

impl Status {
    pub fn of(finish: Option<&FinishReason>) -> Status {
        match finish {
            Some(FinishReason::Length) => Status::Incomplete("max_output_tokens"),
            // A refusal of another vendor is its filter, which cut the answer.
            Some(FinishReason::Filtered | FinishReason::Refusal) => Status::Incomplete("content_filter"),
            // Nobody knows how it ended: it must not look good.
            Some(FinishReason::Other(_)) => Status::Incomplete("unknown"),
            Some(
                FinishReason::Stop | FinishReason::StopSequence(_) | FinishReason::ToolCalls | FinishReason::Pause,
            )
            | None => Status::Completed,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Status::InProgress => "in_progress",
            Status::Completed => "completed",
            Status::Incomplete(_) => "incomplete",
        }
    }
}

impl Envelope {
    pub fn new(model: &str, echo: Arc<Map<String, Value>>) -> Envelope {
        let base = Uuid::now_v7().simple().to_string();
        Envelope { id: format!("resp_{base}"), model: model.to_owned(), created: now(), base, echo }
    }

    /// The envelope of a response that another upstream began, from one of its events.
    pub fn behind(response: &Map<String, Value>) -> Envelope {
        let text = |name: &str| response.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut echo = response.clone();
        OF_THE_ANSWER.iter().for_each(|name| drop(echo.shift_remove(*name)));
        Envelope {
            id: text("id"),
            model: text("model"),
            created: response.get("created_at").and_then(Value::as_f64).map_or_else(now, |at| at as u64),
            base: Uuid::now_v7().simple().to_string(),
            echo: Arc::new(echo),
        }
    }

    /// Takes the upstream's own id and model.
    pub fn name(&mut self, id: Option<&str>, model: Option<&str>) {
        let visible = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let id: String = id.unwrap_or_default().chars().filter(visible).take(96).collect();
        if !id.is_empty() {
            self.id = if id.starts_with("resp_") { id } else { format!("resp_{id}") };
        }
        if let Some(model) = model.filter(|model| !model.is_empty()) {
            model.clone_into(&mut self.model);
        }
    }

    /// The id of the item at this index: `msg_...`
    pub fn item_id(&self, prefix: &str, index: usize) -> String {
        format!("{prefix}_{}{index:04x}", self.base)
    }

    /// The response object. Members that the request did not set have their defaults.
    pub fn response(&self, status: Status, output: Vec<Value>, usage: Option<&Usage>) -> Value {
        let reason = match status {
            Status::Incomplete(reason) => json!({ "reason": reason }),
            _ => Value::Null,
        };
        let mut response = json!({
            "id": self.id, "object": "response", "created_at": self.created, "status": status.as_str(),
            "background": false, "completed_at": (status == Status::Completed).then(now), "error": null,
            "incomplete_details": reason, "instructions": null, "max_output_tokens": null, "max_tool_calls": null,
            "model": self.model, "output": output, "parallel_tool_calls": true, "previous_response_id": null,
            "prompt_cache_key": null, "reasoning": { "effort": null, "summary": null }, "safety_identifier": null,
            "service_tier": "default", "store": false, "temperature": 1.0, "text": { "format": { "type": "text" } },
            "tool_choice": "auto", "tools": [], "top_logprobs": 0, "top_p": 1.0, "truncation": "disabled",
            "usage": usage.map(usage_of), "user": null, "metadata": {},
        });
        for (name, value) in self.echo.iter() {
            match (&mut response[name], value) {
                // Members of these that the caller omitted have defaults too.
                (Value::Object(whole), Value::Object(given)) if matches!(name.as_str(), "text" | "reasoning") => {
                    let given = given.iter().filter(|(_, value)| !value.is_null());
                    whole.extend(given.map(|(name, value)| (name.clone(), value.clone())));
                }
                (whole, value) => whole.clone_from(value),
            }
        }
        response
    }
}

/// Members of a response that describe the answer, not the request.
const OF_THE_ANSWER: [&str; 10] =
    ["id", "object", "created_at", "status", "completed_at", "error", "incomplete_details", "model", "output", "usage"];

fn usage_of(usage: &Usage) -> Value {
    let count = |count: Option<i64>| count.unwrap_or(0);
    let (input, output) = (count(usage.input_tokens), count(usage.output_tokens));
    let (cached, written) = (count(usage.cached_input_tokens), count(usage.cache_creation_tokens));
    json!({
        "input_tokens": input,
        // The SDKs require both.
        "input_tokens_details": { "cached_tokens": cached, "cache_write_tokens": written },
        "output_tokens": output,
        "output_tokens_details": { "reasoning_tokens": count(usage.reasoning_tokens) },
        "total_tokens": input.saturating_add(output),
    })
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map(|since| since.as_secs()).unwrap_or(0)
}

/// The error events of a broken stream, if nothing of it is known.
pub fn error_event(error: &ErrorShape<'_>) -> Bytes {
    let mut out = BytesMut::new();
    let response = Envelope::new("", Arc::default()).response(Status::InProgress, Vec::new(), None);
    fail(response, &mut Numbered::default(), error, &mut out);
    out.freeze()
}

/// The error events of a broken stream of the vendor. `first` contains the response, and `last`, the last event with
/// data, the sequence number.
pub fn error_event_behind(first: &SseEvent, last: &SseEvent, error: &ErrorShape<'_>) -> Bytes {
    let member = |event: &SseEvent, name: &str| {
        let mut data = object(event.fields().data.as_deref()?)?;
        data.shift_remove(name)
    };
    let response = member(first, "response").filter(Value::is_object);
    let number = member(last, "sequence_number").and_then(|number| number.as_u64());
    let (Some(response), Some(number)) = (response, number) else { return error_event(error) };
    let mut out = BytesMut::new();
    fail(response, &mut Numbered::behind(number), error, &mut out);
    out.freeze()
}

/// Writes the error events of a broken stream: `error`, whose member of that name the official SDKs raise, and
/// `response.failed`, which Codex reads. The vendor sends both too. `response` must be an object.
pub(super) fn fail(mut response: Value, numbered: &mut Numbered, error: &ErrorShape<'_>, out: &mut BytesMut) {
    let mut said = json!({ "type": error.kind, "code": error.code, "message": error.message, "param": error.param });
    said.put("attempts", error.attempts.cloned());
    let raised = json!({ "code": error.code, "message": error.message, "param": error.param, "error": said });
    numbered.emit("error", raised, out);
    response["status"] = Value::from("failed");
    response["error"] = json!({ "code": code_of(error), "message": error.message });
    numbered.emit("response.failed", json!({ "response": response }), out);
}

/// Error codes that clients distinguish.
const CODES: [&str; 6] = [
    "server_error",
    "rate_limit_exceeded",
    "invalid_prompt",
    "context_length_exceeded",
    "insufficient_quota",
    "image_content_policy_violation",
];

/// The error as one of the vendor's few codes.
fn code_of<'a>(error: &ErrorShape<'a>) -> &'a str {
    match error.status {
        _ if CODES.contains(&error.code) => error.code,
        429 => "rate_limit_exceeded",
        400 | 413 | 422 => "invalid_prompt",
        _ => "server_error",
    }
}
