//! Changes a request that goes up in the client's own dialect as its upstream demands it, because the vendor would refuse it
//! otherwise. Members that are not touched keep their bytes.

use std::borrow::Cow;

use serde_json::Value;

use super::changes::{RequestChanges, remove, rename};
use super::repeats::{fold_results, may_repeat_results};
use super::turns::{SYSTEM_ROLES, cache_marks, fit_turns, limit_marks, remind};
use super::{BILLING, CallIdForm, PastReasoning, Quirks, SamplingForm, ThinkingForm, ThinkingOff, UNKNOWN_REASONING};
use crate::dialect::Surface;
use crate::json::raw_members::{RawMembers, raw_members, written};
use crate::json::values::json;
use crate::request::ApiRequest;
use crate::translate::Losses;
use crate::translate::call_ids::CallIds;

/// Whether the upstream may want the request otherwise. A quick look: [`rewritten`] decides.
pub fn concerns(request: &ApiRequest, quirks: &Quirks) -> bool {
    // Most requests say no limit, and most upstreams demand nothing else.
    let quirks = Quirks { max_completion_tokens: quirks.max_completion_tokens && request.has_older_limit, ..*quirks };
    touches(request.surface, &quirks)
        || may_repeat_results(request.surface, request.body())
        || request.surface.repeats_model()
}

/// Whether the conversation itself, or all that is to be embedded, must be parsed for it.
pub fn parses(request: &ApiRequest, quirks: &Quirks) -> bool {
    let is_fitted = match request.surface {
        Surface::Chat => fits_history(quirks) && may_need_a_fit(request.body(), quirks),
        Surface::Messages => reminds(request.body(), quirks) || exceeds_marks(request.body(), quirks),
        Surface::Gemini => may_repeat_results(request.surface, request.body()),
        _ => false,
    };
    is_fitted || request.surface.repeats_model()
}

/// Whether earlier calls must have a form, or turns their place.
fn fits_history(quirks: &Quirks) -> bool {
    quirks.past_reasoning == PastReasoning::Wanted
        || quirks.call_ids != CallIdForm::Any
        || quirks.system_turns == Some(false)
        || !(quirks.developer_turns && quirks.user_after_tool && quirks.result_media)
}

/// Whether the text of a conversation may have something that must be fitted.
fn may_need_a_fit(conversation: &[u8], quirks: &Quirks) -> bool {
    has(conversation, CALLS)
        || reminds(conversation, quirks)
        || (!quirks.developer_turns && has(conversation, "\"developer\""))
}

fn has(text: &[u8], name: &str) -> bool {
    memchr::memmem::find(text, name.as_bytes()).is_some()
}

/// Whether there may be `system` turns for a vendor that does not take them.
fn reminds(conversation: &[u8], quirks: &Quirks) -> bool {
    quirks.system_turns == Some(false) && SYSTEM_ROLES.iter().any(|role| has(conversation, &format!("\"{role}\"")))
}

fn exceeds_marks(body: &[u8], quirks: &Quirks) -> bool {
    quirks.cache_marks.is_some_and(|most| cache_marks(body) as u64 > most)
}

/// How calls and their results begin in a conversation.
const CALLS: &str = "\"tool_call";

/// The body as this upstream wants it, and what is lost. None: as it is.
pub fn rewritten(surface: Surface, body: &[u8], quirks: &Quirks, changes: &RequestChanges) -> Option<(String, Losses)> {
    let touches = touches(surface, quirks) || may_repeat_results(surface, body);
    if !touches && changes.keeps_bodies() {
        return None;
    }
    let mut members = raw_members(body)?;
    let mut losses = Losses::default();
    // What the operator sets is written as the upstream demands it, too.
    let changed = changes.apply(surface.streams(), &mut members, &mut losses);
    let mut rewriter = Rewriter { members: &mut members, losses, changed };
    if touches {
        match surface {
            Surface::Chat => rewriter.chat(quirks),
            Surface::Messages => rewriter.messages(quirks),
            Surface::Responses => rewriter.responses(quirks),
            Surface::Gemini => rewriter.gemini(),
            _ => {}
        }
    }
    let Rewriter { losses, changed, .. } = rewriter;
    changed.then(|| (written(&members), losses))
}

/// Whether the upstream demands anything of requests of this surface.
fn touches(surface: Surface, quirks: &Quirks) -> bool {
    match surface {
        Surface::Chat => {
            quirks.max_completion_tokens || !quirks.forced_tools || quirks.max_output.is_some() || fits_history(quirks)
        }
        Surface::Messages => {
            !quirks.forced_tools
                || quirks.system_turns == Some(false)
                || quirks.cache_marks.is_some()
                || !quirks.billing_line
                || quirks.thinking_off != ThinkingOff::Disabled
                || quirks.thinking == ThinkingForm::Effort
                || quirks.sampling == SamplingForm::Refused
                || quirks.max_output.is_some()
        }
        Surface::Responses => !quirks.forced_tools,
        _ => false,
    }
}

struct Rewriter<'m, 'a> {
    members: &'m mut RawMembers<'a>,
    losses: Losses,
    changed: bool,
}

impl Rewriter<'_, '_> {
    fn text(&self, name: &str) -> Option<&str> {
        self.members.iter().rfind(|(member, text)| member == name && text != "null").map(|(_, text)| text.as_ref())
    }

    fn value(&self, name: &str) -> Option<Value> {
        serde_json::from_str(self.text(name)?).ok()
    }

    fn put(&mut self, name: &str, value: &Value) {
        if let Some((_, text)) = self.members.iter_mut().rfind(|(member, _)| member == name) {
            *text = Cow::Owned(value.to_string());
            self.changed = true;
        }
    }

    fn remove(&mut self, name: &str) {
        self.changed |= remove(self.members, name);
    }

    fn chat(&mut self, quirks: &Quirks) {
        if quirks.max_completion_tokens {
            self.changed |= rename(self.members, "max_tokens", "max_completion_tokens");
        }
        if !quirks.forced_tools {
            self.free_choice();
        }
        self.limit(["max_tokens", "max_completion_tokens"], quirks);
        let ids = CallIds::of_form(quirks.call_ids);
        if fits_history(quirks)
            && self.text("messages").is_some_and(|text| may_need_a_fit(text.as_bytes(), quirks))
            && let Some(mut messages) = self.value("messages")
        {
            let fits = fit_turns(&mut messages, quirks, &mut self.losses);
            if chat_history(&mut messages, quirks.past_reasoning == PastReasoning::Wanted, ids) | fits {
                self.put("messages", &messages);
            }
        }
    }

    fn limit(&mut self, names: [&str; 2], quirks: &Quirks) {
        let Some(most) = quirks.max_output else { return };
        for name in names {
            if self.value(name).and_then(|tokens| tokens.as_u64()).is_some_and(|asked| asked > most) {
                self.put(name, &Value::from(most));
                self.losses.lose(name);
            }
        }
    }

    /// A forced call in OpenAI's words becomes a free one. A list of allowed tools stays.
    fn free_choice(&mut self) {
        let Some(mut choice) = self.value("tool_choice") else { return };
        match choice["type"].as_str() {
            Some("allowed_tools") => {
                let place =
                    if choice["allowed_tools"].is_object() { &mut choice["allowed_tools"] } else { &mut choice };
                if place["mode"] != "required" {
                    return;
                }
                place["mode"] = Value::from("auto");
            }
            Some(_) => choice = Value::from("auto"),
            None if choice == "required" => choice = Value::from("auto"),
            None => return,
        }
        self.put("tool_choice", &choice);
        self.losses.lose("tool_choice");
    }

    fn responses(&mut self, quirks: &Quirks) {
        if !quirks.forced_tools {
            self.free_choice();
        }
    }

    fn gemini(&mut self) {
        if let Some(mut contents) = self.value("contents")
            && fold_results(&mut contents)
        {
            self.put("contents", &contents);
        }
    }

    fn messages(&mut self, quirks: &Quirks) {
        if !quirks.forced_tools
            && let Some(choice) = self.value("tool_choice")
            && (choice["type"] == "any" || choice["type"] == "tool")
        {
            let mut free = json!({ "type": "auto" });
            if let Some(one) = choice.get("disable_parallel_tool_use") {
                free["disable_parallel_tool_use"] = one.clone();
            }
            self.put("tool_choice", &free);
            self.losses.lose("tool_choice");
        }
        if let Some(thinking) = self.value("thinking") {
            self.thinking(&thinking, quirks);
        }
        self.limit(["max_tokens", ""], quirks);
        if self.text("messages").is_some_and(|text| reminds(text.as_bytes(), quirks))
            && let Some(mut messages) = self.value("messages")
            && remind(&mut messages, &mut self.losses)
        {
            self.put("messages", &messages);
        }
        self.marks(quirks);
        if !quirks.billing_line
            && self.text("system").is_some_and(|text| has(text.as_bytes(), BILLING))
            && let Some(Value::Array(mut blocks)) = self.value("system")
        {
            blocks.retain(|block| !block["text"].as_str().is_some_and(|text| text.starts_with(BILLING)));
            self.put("system", &Value::Array(blocks));
        }
        if quirks.sampling == SamplingForm::Refused {
            for name in ["temperature", "top_p", "top_k"] {
                let Some(value) = self.value(name) else { continue };
                self.remove(name);
                // One changes nothing.
                self.losses.lose_if(name == "top_k" || value.as_f64() != Some(1.0), name);
            }
        }
    }

    /// The last marks stay: what is before them is cached with them.
    fn marks(&mut self, quirks: &Quirks) {
        const PLACES: [&str; 3] = ["messages", "system", "tools"];
        let Some(most) = quirks.cache_marks else { return };
        let texts = PLACES.map(|name| self.text(name).map_or(0, |text| cache_marks(text.as_bytes())));
        if texts.iter().sum::<usize>() as u64 <= most {
            return;
        }
        let mut left = most;
        for name in PLACES {
            if let Some(mut value) = self.value(name)
                && limit_marks(&mut value, &mut left)
            {
                self.put(name, &value);
            }
        }
    }

    fn thinking(&mut self, thinking: &Value, quirks: &Quirks) {
        match (thinking["type"].as_str(), quirks.thinking_off) {
            (Some("disabled"), ThinkingOff::Never) => {
                self.remove("thinking");
                self.losses.lose("thinking");
            }
            (Some("disabled"), ThinkingOff::BetweenTools) => self.put("thinking", &json!({ "type": "between_tools" })),
            (Some("enabled"), _) if quirks.thinking == ThinkingForm::Effort => {
                // Newer models omit thoughts by default.
                let display = thinking.get("display").cloned().unwrap_or(Value::from("summarized"));
                self.put("thinking", &json!({ "type": "adaptive", "display": display }));
                self.losses.lose("thinking.budget_tokens");
            }
            _ => {}
        }
    }
}

/// Fits ids of calls, and adds a text for missing reasoning. Returns whether anything was changed.
fn chat_history(messages: &mut Value, wants_reasoning: bool, mut ids: Option<CallIds>) -> bool {
    let mut changed = false;
    for message in messages.as_array_mut().into_iter().flatten() {
        let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut).filter(|calls| !calls.is_empty());
        let has_calls = calls.is_some();
        for call in calls.into_iter().flatten() {
            changed |= fit(call.get_mut("id"), |id| ids.as_mut().map(|ids| ids.call(id)));
        }
        changed |= fit(message.get_mut("tool_call_id"), |id| ids.as_mut().map(|ids| ids.result(id)));
        let has_reasoning = message["reasoning_content"].as_str().is_some_and(|text| !text.is_empty());
        if wants_reasoning && has_calls && !has_reasoning && message.is_object() {
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
