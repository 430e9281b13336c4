//! Changes a request that goes up in the client's own dialect as its upstream demands it, because the vendor would refuse it
//! otherwise. Members that are not touched keep their bytes.

use std::borrow::Cow;

use serde_json::Value;

use super::repeats::{fold_results, may_repeat_results};
use crate::request::ApiRequest;
use photofinish_dialects::{claude, gemini};
use photofinish_wire::conversation::tool_names::{PLACES, each_name, may_exceed};
use photofinish_wire::conversation::{Effort, Losses, Reasoning, ToolNames};
use photofinish_wire::dialect::Surface;
use photofinish_wire::json::raw_members::{RawMembers, raw_members, written};
use photofinish_wire::json::values::json;
use photofinish_wire::quirks::changes::{RequestChanges, remove, rename};
use photofinish_wire::quirks::turns::{
    REFERENCE, SYSTEM_ROLES, cache_marks, fit_turns, limit_marks, remind, say_references, think_before_calls,
};
use photofinish_wire::quirks::{
    BILLING, CallIdForm, PastReasoning, Quirks, SamplingForm, ThinkingForm, ThinkingLevels, ThinkingOff,
};

/// Whether the upstream may want the request otherwise. A quick look: [`rewritten`] decides.
pub fn concerns(request: &ApiRequest, quirks: &Quirks) -> bool {
    // Most requests say no limit, and most upstreams demand nothing else.
    let quirks = Quirks {
        max_completion_tokens: quirks.max_completion_tokens && request.has_older_limit,
        stream_options: quirks.stream_options || !request.has_stream_options(),
        tool_name_max: quirks.tool_name_max.filter(|_| exceeds_names(request, quirks)),
        ..*quirks
    };
    touches(request.surface, &quirks) && may_need(request.surface, request.body(), &quirks)
        || may_repeat_results(request.surface, request.body())
        || request.surface.repeats_model()
}

/// Whether the conversation itself, or all that is to be embedded, must be parsed for it.
pub fn parses(request: &ApiRequest, quirks: &Quirks) -> bool {
    let is_fitted = match request.surface {
        Surface::Chat => fits_history(quirks) && may_need_a_fit(request.body(), quirks),
        Surface::Messages => {
            reminds(request.body(), quirks) || exceeds_marks(request.body(), quirks) || thinks(request.body(), quirks)
        }
        Surface::Gemini => may_repeat_results(request.surface, request.body()) || signs_calls(request.body(), quirks),
        _ => false,
    };
    is_fitted || request.surface.repeats_model() || exceeds_names(request, quirks)
}

/// Whether the text of a request may have what an upstream that demands something else wants otherwise.
fn may_need(surface: Surface, body: &[u8], quirks: &Quirks) -> bool {
    match surface {
        Surface::Gemini => {
            quirks.tool_name_max.is_some()
                || has(body, "\"thinkingConfig\"")
                || (!quirks.schemas_with_tools && has(body, "\"tools\""))
                || signs_calls(body, quirks)
        }
        Surface::OllamaChat | Surface::OllamaGenerate => quirks.tool_name_max.is_some() || has(body, "\"think\""),
        _ => true,
    }
}

/// Whether calls may lack the signatures that the vendor wants. A client that keeps some keeps all.
fn signs_calls(body: &[u8], quirks: &Quirks) -> bool {
    quirks.past_reasoning == PastReasoning::Wanted
        && has(body, "\"functionCall\"")
        && !["\"thoughtSignature\"", "\"thought_signature\""].iter().any(|name| has(body, name))
}

/// Whether there may be a tool whose name the vendor does not take.
fn exceeds_names(request: &ApiRequest, quirks: &Quirks) -> bool {
    request.has_tools && quirks.tool_name_max.is_some_and(|most| may_exceed(request.body(), bytes(most)))
}

fn bytes(most: u64) -> usize {
    usize::try_from(most).unwrap_or(usize::MAX)
}

/// Whether earlier calls must have a form, or turns their place.
fn fits_history(quirks: &Quirks) -> bool {
    matches!(quirks.past_reasoning, PastReasoning::Wanted | PastReasoning::Never)
        || quirks.call_ids != CallIdForm::Any
        || quirks.system_turns == Some(false)
        || !(quirks.developer_turns && quirks.user_after_tool && quirks.result_media)
}

/// Whether the text of a conversation may have something that must be fitted.
fn may_need_a_fit(conversation: &[u8], quirks: &Quirks) -> bool {
    has(conversation, CALLS)
        || ["reasoning_content", "reasoning_details"].iter().any(|name| has(conversation, &format!("\"{name}\"")))
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

/// Whether calls of Messages may lack the thoughts that the vendor wants.
fn thinks(conversation: &[u8], quirks: &Quirks) -> bool {
    quirks.past_reasoning == PastReasoning::Wanted && has(conversation, "\"tool_use\"")
}

fn exceeds_marks(body: &[u8], quirks: &Quirks) -> bool {
    quirks.cache_marks.is_some_and(|most| cache_marks(body) as u64 > most)
}

/// How calls and their results begin in a conversation.
const CALLS: &str = "\"tool_call";

/// A body as its upstream wants it.
pub struct RewrittenBody {
    pub text: String,
    pub losses: Losses,
    pub names: ToolNames,
}

/// The body as this upstream wants it. None: as it is.
pub fn rewritten(surface: Surface, body: &[u8], quirks: &Quirks, changes: &RequestChanges) -> Option<RewrittenBody> {
    let touches = touches(surface, quirks) && may_need(surface, body, quirks) || may_repeat_results(surface, body);
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
            Surface::Gemini => rewriter.gemini(quirks),
            Surface::OllamaChat | Surface::OllamaGenerate => rewriter.ollama(quirks),
            _ => {}
        }
    }
    let most = quirks.tool_name_max.map(bytes).filter(|most| may_exceed(body, *most));
    let names = most.and_then(|most| rewriter.names(most)).unwrap_or_default();
    let Rewriter { losses, changed, .. } = rewriter;
    changed.then(|| RewrittenBody { text: written(&members), losses, names })
}

/// Whether the upstream demands anything of requests of this surface.
fn touches(surface: Surface, quirks: &Quirks) -> bool {
    quirks.tool_name_max.is_some()
        || match surface {
            Surface::Chat => {
                quirks.max_completion_tokens
                    || !quirks.stream_options
                    || !quirks.forced_tools
                    || quirks.max_output.is_some()
                    || fits_history(quirks)
            }
            Surface::Messages => {
                !quirks.forced_tools
                    || quirks.system_turns == Some(false)
                    || quirks.cache_marks.is_some()
                    || quirks.plain_user_ids
                    || !quirks.claude
                    || quirks.thinking_off != ThinkingOff::Disabled
                    || matches!(quirks.thinking, ThinkingForm::Effort | ThinkingForm::Off)
                    || quirks.thinking_levels != ThinkingLevels::USUAL
                    || quirks.sampling != SamplingForm::Free
                    || !quirks.schemas
                    || quirks.max_output.is_some()
            }
            Surface::Responses => !quirks.forced_tools,
            Surface::Gemini => {
                quirks.thinking != ThinkingForm::Budget
                    || quirks.thinking_off != ThinkingOff::Disabled
                    || quirks.thinking_min.or(quirks.thinking_max).is_some()
                    || quirks.past_reasoning == PastReasoning::Wanted
                    || !quirks.schemas_with_tools
            }
            Surface::OllamaChat | Surface::OllamaGenerate => quirks.thinking == ThinkingForm::Effort,
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

    /// Tools get names that the vendor takes, wherever they are named. None: all have one.
    fn names(&mut self, most: usize) -> Option<ToolNames> {
        let values = PLACES.iter().filter_map(|place| Some((*place, self.value(place)?)));
        let (mut values, mut found): (Vec<(&str, Value)>, Vec<String>) = (values.collect(), Vec::new());
        values.iter_mut().for_each(|(_, value)| each_name(value, &mut |name| found.push(name.clone())));
        let names = ToolNames::of(found.iter().map(String::as_str), most)?;
        for (place, mut value) in values {
            each_name(&mut value, &mut |name| names.send(name));
            self.put(place, &value);
        }
        Some(names)
    }

    fn chat(&mut self, quirks: &Quirks) {
        if quirks.max_completion_tokens {
            self.changed |= rename(self.members, "max_tokens", "max_completion_tokens");
        }
        if !quirks.stream_options {
            self.remove("stream_options");
        }
        if !quirks.forced_tools {
            self.free_choice();
        }
        self.limit(["max_tokens", "max_completion_tokens"], quirks);
        if fits_history(quirks)
            && self.text("messages").is_some_and(|text| may_need_a_fit(text.as_bytes(), quirks))
            && let Some(mut messages) = self.value("messages")
            && fit_turns(&mut messages, quirks, &mut self.losses)
        {
            self.put("messages", &messages);
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

    fn gemini(&mut self, quirks: &Quirks) {
        let may_need = |text: &[u8]| [may_repeat_results(Surface::Gemini, text), signs_calls(text, quirks)];
        if let [repeats, signs] = self.text("contents").map_or([false; 2], |text| may_need(text.as_bytes()))
            && (repeats || signs)
            && let Some(mut contents) = self.value("contents")
            && fold_results(&mut contents) | (signs && gemini::sign_calls(&mut contents))
        {
            self.put("contents", &contents);
        }
        let has_tools = self.text("tools").is_some_and(|tools| tools != "[]");
        if let Some(Value::Object(mut config)) = self.value("generationConfig")
            && gemini::fit(&mut config, has_tools, quirks, &mut self.losses)
        {
            self.put("generationConfig", &Value::Object(config));
        }
    }

    fn ollama(&mut self, quirks: &Quirks) {
        let asked = self.value("think").and_then(|think| Effort::from_name(think.as_str()?));
        let fitted = asked.map(|effort| (effort, quirks.thinking_levels.level(effort)));
        if let Some((_, level)) = fitted.filter(|(asked, level)| asked != level) {
            self.put("think", &Value::from(level.as_str()));
            self.losses.form("think");
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
        if !quirks.claude {
            self.without_claudes();
        }
        self.output_config(quirks);
        if self.text("messages").is_some_and(|text| [reminds, thinks].iter().any(|may| may(text.as_bytes(), quirks)))
            && let Some(mut messages) = self.value("messages")
        {
            let reminded = quirks.system_turns == Some(false) && remind(&mut messages, &mut self.losses);
            let wants = quirks.past_reasoning == PastReasoning::Wanted;
            if messages.as_array_mut().is_some_and(|list| wants && think_before_calls(list)) | reminded {
                self.put("messages", &messages);
            }
        }
        self.marks(quirks);
        if let Some(mut metadata) = self.value("metadata").filter(|_| quirks.plain_user_ids)
            && let Some(id) = metadata["user_id"].as_str().and_then(|id| quirks.user_id(id))
        {
            metadata["user_id"] = Value::from(id);
            self.put("metadata", &metadata);
            self.losses.form("metadata.user_id");
        }
        if !quirks.claude
            && self.text("system").is_some_and(|text| has(text.as_bytes(), BILLING))
            && let Some(Value::Array(mut blocks)) = self.value("system")
        {
            blocks.retain(|block| !block["text"].as_str().is_some_and(|text| text.starts_with(BILLING)));
            self.put("system", &Value::Array(blocks));
        }
        self.sampling(quirks);
    }

    fn sampling(&mut self, quirks: &Quirks) {
        // One changes nothing.
        let changes = |value: &Value| value.as_f64() != Some(1.0);
        let is_heated = self.value("temperature").is_some_and(|value| changes(&value));
        let refused: &[&str] = match quirks.sampling {
            SamplingForm::Refused => &["temperature", "top_p", "top_k"],
            SamplingForm::One if is_heated => &["top_p"],
            SamplingForm::One | SamplingForm::Free => &[],
        };
        for name in refused {
            let Some(value) = self.value(name) else { continue };
            self.remove(name);
            self.losses.lose_if(*name == "top_k" || changes(&value), name);
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
            (asked, _) if quirks.thinking == ThinkingForm::Off => {
                self.remove("thinking");
                self.losses.lose_if(asked != Some("disabled"), "thinking");
            }
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
            (Some("adaptive"), _) if quirks.thinking == ThinkingForm::Budget => {
                let effort =
                    self.value("output_config").and_then(|config| Effort::from_name(config["effort"].as_str()?));
                let limit = self.value("max_tokens").and_then(|tokens| tokens.as_u64());
                // High is what such a request means without an effort.
                let asked = Reasoning { effort: effort.or(Some(Effort::High)), ..Reasoning::default() };
                match claude::budget(&asked, limit, quirks.max_output) {
                    Some(budget) => self.put("thinking", &json!({ "type": "enabled", "budget_tokens": budget })),
                    None => self.remove("thinking"),
                }
                self.losses.form("thinking.type");
            }
            _ => {}
        }
    }

    /// Leaves out what only Claude's own API has, but for an effort.
    fn without_claudes(&mut self) {
        self.losses.lose_if(self.text("context_management").is_some(), "context_management");
        self.remove("context_management");
        if self.text("messages").is_some_and(|text| has(text.as_bytes(), REFERENCE))
            && let Some(mut messages) = self.value("messages")
            && say_references(&mut messages)
        {
            self.put("messages", &messages);
        }
    }

    /// An effort that is taken, and a schema of the answer and strict tools where they are.
    fn output_config(&mut self, quirks: &Quirks) {
        let takes_effort = quirks.claude || matches!(quirks.thinking, ThinkingForm::Effort | ThinkingForm::Either);
        if let Some(Value::Object(mut config)) = self.value("output_config") {
            let before = config.clone();
            if !takes_effort {
                config.shift_remove("effort");
            } else if let Some(effort) = config.get("effort").and_then(|name| Effort::from_name(name.as_str()?)) {
                config.insert("effort".to_owned(), quirks.thinking_levels.level(effort).as_str().into());
            }
            if config.get("effort") != before.get("effort") {
                self.losses.form("output_config.effort");
            }
            let has_format = !quirks.schemas && config.shift_remove("format").is_some();
            self.losses.lose_if(has_format, "output_config.format");
            match config.is_empty() {
                _ if config == before => {}
                true => self.remove("output_config"),
                false => self.put("output_config", &Value::Object(config)),
            }
        }
        if !quirks.schemas
            && self.text("tools").is_some_and(|text| has(text.as_bytes(), "\"strict\""))
            && let Some(Value::Array(mut tools)) = self.value("tools")
        {
            for (at, tool) in tools.iter_mut().enumerate() {
                let strict = tool.as_object_mut().and_then(|tool| tool.shift_remove("strict"));
                self.losses.lose_if(strict == Some(Value::Bool(true)), &format!("tools[{at}].strict"));
            }
            self.put("tools", &Value::Array(tools));
        }
    }
}
