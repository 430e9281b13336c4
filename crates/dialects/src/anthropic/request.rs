//! Writes a conversation as a Messages request.
//!
//! `max_tokens` is required here, so a default is written. Anthropic's temperature ends at 1, so a higher one is lost.
//! Newer models accept an effort, older ones a thinking budget. If thinking and a forced tool exclude each other, the
//! tool wins.

use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine as _, alphabet};
use serde_json::{Map, Value};

use crate::claude;
use crate::claude::signed;
use photofinish_wire::conversation::call_ids::CallIds;
use photofinish_wire::conversation::outgoing::{
    arguments, called_names, lose_choices, lose_detail, lose_metadata, lose_penalties, lose_schema_names,
    lose_verbosity, object_schema,
};
use photofinish_wire::conversation::{
    CacheHint, Conversation, ConversationTurn, Document, Effort, Format, Image, Losses, MessagePart, ReasoningPart,
    Role, Sampling, Source, Tool, ToolCall, ToolChoice, ToolResult,
};
use photofinish_wire::json::values::{PutMember, json};
use photofinish_wire::quirks::{
    PastReasoning, Quirks, SamplingForm, ThinkingForm, ThinkingOff, TranslationOptions, reminder, think_before_calls,
};

/// Answer tokens if neither the caller nor the model sets a limit, without thinking.
const MAX_TOKENS: u64 = 8_192;

/// Writes a conversation as a Messages request.
pub fn request(conversation: &Conversation, options: &TranslationOptions, losses: &mut Losses) -> Value {
    let quirks = options.quirks;
    let mut body = Map::new();
    let mut blocks = BlockWriter::new(quirks, losses);
    let (system, mut messages) = (blocks.system(&conversation.system), blocks.messages(&conversation.turns));
    if quirks.past_reasoning == PastReasoning::Wanted {
        think_before_calls(&mut messages);
    }
    let thinking = ThinkingRequest::of(conversation, claude::is_begun(&messages), &quirks, losses);
    body.put("max_tokens", Some(thinking.max_tokens(&conversation.sampling, &quirks, losses)));
    body.put("system", (!system.is_null()).then_some(system));
    body.put("messages", Some(messages));
    let tools = tools(conversation, &quirks, losses);
    if !tools.is_empty() {
        body.put("tool_choice", choice(conversation, &quirks, losses));
        body.put("tools", Some(tools));
    }
    body.put("thinking", thinking.value());
    let config = output_config(conversation, &thinking, &quirks, losses);
    body.put("output_config", (!config.is_empty()).then_some(config));
    sampling(&conversation.sampling, &thinking, &quirks, &mut body, losses);
    accounting(conversation, &quirks, &mut body, losses);
    Value::Object(body)
}

/// How thinking is requested.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct ThinkingRequest {
    mode: Mode,
    effort: Option<Effort>,
    /// The caller does not want to see the thoughts.
    hidden: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Mode {
    /// Nothing is written.
    #[default]
    Unset,
    Disabled,
    BetweenTools,
    Budget(u64),
    Adaptive,
}

impl ThinkingRequest {
    /// `begun`: the caller wrote the first words of the answer.
    fn of(conversation: &Conversation, begun: bool, quirks: &Quirks, losses: &mut Losses) -> ThinkingRequest {
        let Some(asked) = &conversation.reasoning else { return ThinkingRequest::default() };
        if asked.enabled == Some(false) || asked.effort == Some(Effort::None) {
            let mode = match quirks.thinking_off {
                _ if quirks.thinking == ThinkingForm::Off => Mode::Unset,
                ThinkingOff::Disabled => Mode::Disabled,
                ThinkingOff::BetweenTools => Mode::BetweenTools,
                ThinkingOff::Never => {
                    losses.lose("reasoning_effort");
                    Mode::Unset
                }
            };
            return ThinkingRequest { mode, ..ThinkingRequest::default() };
        }
        let hidden = asked.show == Some(false);
        let wanted = asked.enabled == Some(true) || asked.effort.is_some() || asked.budget.is_some();
        if !wanted {
            return ThinkingRequest::default();
        }
        let budget = claude::budget(asked, conversation.sampling.max_tokens, quirks.max_output);
        let thinking = match (quirks.wants_budget(asked), budget) {
            (false, _) => {
                let effort = asked.effort.or(asked.budget.map(Effort::of_budget));
                ThinkingRequest { mode: Mode::Adaptive, effort, hidden }
            }
            (true, Some(budget)) => ThinkingRequest { mode: Mode::Budget(budget), effort: None, hidden },
            (true, None) => ThinkingRequest::default(),
        };
        let forced = quirks.forced_tools
            && matches!(conversation.tool_choice, Some(ToolChoice::Required | ToolChoice::Named(_)));
        let bare = matches!(thinking.mode, Mode::Budget(_))
            && quirks.past_reasoning != PastReasoning::Wanted
            && claude::continues_without_thoughts(conversation);
        if thinking.mode == Mode::Unset || quirks.thinking == ThinkingForm::Off || forced || bare || begun {
            losses.lose("reasoning_effort");
            return ThinkingRequest::default();
        }
        thinking
    }

    /// The caller's limit, else the model's, so that no default cuts an answer.
    fn max_tokens(&self, sampling: &Sampling, quirks: &Quirks, losses: &mut Losses) -> u64 {
        let budget = match self.mode {
            Mode::Budget(budget) => budget,
            Mode::Unset | Mode::Disabled | Mode::BetweenTools | Mode::Adaptive => 0,
        };
        let limit = quirks.limit(sampling.max_tokens, losses).or(quirks.max_output);
        limit.unwrap_or_else(|| budget.saturating_add(MAX_TOKENS))
    }

    fn value(&self) -> Option<Value> {
        let mut value = match self.mode {
            Mode::Unset => return None,
            Mode::Disabled => return Some(json!({ "type": "disabled" })),
            Mode::BetweenTools => return Some(json!({ "type": "between_tools" })),
            Mode::Budget(budget) => json!({ "type": "enabled", "budget_tokens": budget }),
            Mode::Adaptive => json!({ "type": "adaptive" }),
        };
        // Newer models omit thoughts by default.
        if self.hidden || self.mode == Mode::Adaptive {
            value["display"] = Value::from(if self.hidden { "omitted" } else { "summarized" });
        }
        Some(value)
    }

    fn is_on(&self) -> bool {
        matches!(self.mode, Mode::Budget(_) | Mode::Adaptive)
    }
}

fn tools(conversation: &Conversation, quirks: &Quirks, losses: &mut Losses) -> Vec<Value> {
    let mut tools = Vec::new();
    for (index, tool) in conversation.tools.iter().enumerate() {
        if tool.custom {
            losses.content(&tool.name);
            continue;
        }
        let lost = tool.strict == Some(true) && !quirks.schemas;
        losses.lose_if(lost, &format!("tools[{index}].function.strict"));
        tools.push(one_tool(tool, index, quirks, losses));
    }
    // A history with calls but without tools is refused. So the called functions are declared, and may not be called.
    if conversation.tools.is_empty() {
        let schema = json!({ "type": "object" });
        tools
            .extend(called_names(conversation).into_iter().map(|name| json!({ "name": name, "input_schema": schema })));
    }
    tools
}

fn one_tool(tool: &Tool, index: usize, quirks: &Quirks, losses: &mut Losses) -> Value {
    let mut value = json!({ "name": tool.name });
    value.put("description", tool.description.as_deref().filter(|text| !text.is_empty()));
    let mut schema = object_schema(tool);
    if tool.strict == Some(true) && quirks.schemas {
        let closed = claude::closed_tool(&schema, index, losses);
        value.put("strict", closed.is_some().then_some(true));
        schema = closed.unwrap_or(schema);
    }
    value["input_schema"] = schema;
    value.put("cache_control", tool.cache.as_ref().map(cache_control));
    value
}

fn choice(conversation: &Conversation, quirks: &Quirks, losses: &mut Losses) -> Option<Value> {
    if conversation.tools.is_empty() {
        return Some(json!({ "type": "none" }));
    }
    let one_at_a_time = conversation.parallel_calls() == Some(false);
    let asked = conversation.tool_choice.as_ref().map(|choice| quirks.choice(choice, losses));
    let mut choice = match &asked {
        None if one_at_a_time => json!({ "type": "auto" }),
        None => return None,
        Some(ToolChoice::Auto) => json!({ "type": "auto" }),
        Some(ToolChoice::None) => return Some(json!({ "type": "none" })),
        Some(ToolChoice::Required) => json!({ "type": "any" }),
        Some(ToolChoice::Named(name)) => json!({ "type": "tool", "name": name }),
    };
    choice.put("disable_parallel_tool_use", one_at_a_time.then_some(true));
    Some(choice)
}

fn output_config(
    conversation: &Conversation,
    thinking: &ThinkingRequest,
    quirks: &Quirks,
    losses: &mut Losses,
) -> Map<String, Value> {
    let mut config = Map::new();
    if let Some(effort) = thinking.effort {
        config.put("effort", Some(quirks.thinking_levels.level(effort).as_str()));
    }
    match &conversation.format {
        None | Some(Format::Text) => {}
        Some(Format::Schema { name, description, schema, .. }) if quirks.schemas => {
            lose_schema_names(name, description, losses);
            let schema = claude::closed(schema, losses);
            config.insert("format".to_owned(), json!({ "type": "json_schema", "schema": schema }));
        }
        // There is no free JSON mode, and older models accept no schemas.
        Some(format) => losses.lose(format.member()),
    }
    config
}

fn sampling(
    sampling: &Sampling,
    thinking: &ThinkingRequest,
    quirks: &Quirks,
    body: &mut Map<String, Value>,
    losses: &mut Losses,
) {
    let is_taken = quirks.sampling != SamplingForm::Refused;
    let free = !thinking.is_on() && is_taken;
    let heated = free && sampling.temperature.is_some_and(|temperature| temperature != 1.0);
    if let Some(temperature) = sampling.temperature.filter(|temperature| *temperature != 1.0) {
        losses.lose_if(!free || !(0.0..=1.0).contains(&temperature), "temperature");
        body.put("temperature", free.then(|| temperature.clamp(0.0, 1.0)));
    }
    if let Some(top_p) = sampling.top_p.filter(|top_p| *top_p != 1.0) {
        // With thinking, the vendor accepts only a high `top_p`. Newer models accept either `temperature` or `top_p`.
        let alone = !(heated && quirks.sampling == SamplingForm::One);
        let fits = alone && (free || (is_taken && top_p >= 0.95));
        losses.lose_if(!fits, "top_p");
        body.put("top_p", fits.then_some(top_p));
    }
    losses.lose_if(!free && sampling.top_k.is_some(), "top_k");
    body.put("top_k", sampling.top_k.filter(|_| free));
    let stop: Vec<&str> = sampling.stop.iter().map(String::as_str).filter(|stop| !stop.trim().is_empty()).collect();
    losses.lose_if(stop.len() < sampling.stop.len(), "stop");
    body.put("stop_sequences", (!stop.is_empty()).then_some(stop));
    lose_penalties(sampling, losses);
    lose_choices(sampling, losses);
}

/// The end user, and the service tier.
fn accounting(conversation: &Conversation, quirks: &Quirks, body: &mut Map<String, Value>, losses: &mut Losses) {
    let user = conversation.user.as_ref().filter(|user| !user.is_empty());
    let sent = |user: &String| {
        let fitted = quirks.user_id(user);
        fitted.is_some().then(|| losses.form("metadata.user_id"));
        json!({ "user_id": fitted.unwrap_or_else(|| user.clone()) })
    };
    body.put("metadata", user.map(sent));
    lose_metadata(conversation, losses);
    match conversation.service_tier.as_deref() {
        None => {}
        Some("auto") => body.put("service_tier", Some("auto")),
        Some("default" | "standard_only") => body.put("service_tier", Some("standard_only")),
        Some(_) => losses.lose("service_tier"),
    }
    lose_verbosity(conversation, losses);
}

// Writes the turns of a conversation as Messages: alternating user and assistant turns, each a list of blocks.
//
// Joins neighbours of one role, moves tool results to the front of their turn, and drops blank text, which the vendor
// refuses. A system turn keeps its place: as a system turn if the model takes it, else as user text in
// `<system-reminder>`. A conversation that begins with the assistant gets a first user turn with one full stop.

/// Writes the blocks of one request.
pub(super) struct BlockWriter<'a> {
    quirks: Quirks,
    losses: &'a mut Losses,
    ids: CallIds,
}

/// A turn being written.
struct TurnDraft {
    role: Role,
    blocks: Vec<Value>,
}

pub(super) fn cache_control(hint: &CacheHint) -> Value {
    let mut value = json!({ "type": "ephemeral" });
    value.put("ttl", hint.ttl.as_deref());
    value
}

impl<'a> BlockWriter<'a> {
    pub fn new(quirks: Quirks, losses: &'a mut Losses) -> BlockWriter<'a> {
        BlockWriter { quirks, losses, ids: CallIds::new(id, usize::MAX) }
    }

    /// The system prompt: a string if it is one text; null if there is none.
    pub fn system(&mut self, parts: &[MessagePart]) -> Value {
        let blocks = self.blocks(parts);
        if blocks.is_empty() { Value::Null } else { plain(blocks) }
    }

    pub fn messages(&mut self, turns: &[ConversationTurn]) -> Vec<Value> {
        let mut drafts: Vec<TurnDraft> = Vec::new();
        let behind = roles_behind(turns);
        for (at, turn) in turns.iter().enumerate() {
            let (mut role, mut blocks) = (turn.role, self.blocks(&turn.parts));
            if role == Role::System {
                let behind_user = drafts.last().is_some_and(|draft| draft.role != Role::Assistant);
                if !(self.quirks.system_turns == Some(true) && behind_user && behind[at] != Some(Role::User)) {
                    role = Role::User;
                    blocks.iter_mut().for_each(remind);
                    if !blocks.is_empty() {
                        self.losses.lose(format!("messages[{at}].role"));
                    }
                }
            }
            match drafts.last_mut() {
                _ if blocks.is_empty() => {}
                Some(draft) if draft.role == role => draft.blocks.append(&mut blocks),
                _ => drafts.push(TurnDraft { role, blocks }),
            }
        }
        if drafts.first().is_none_or(|draft| draft.role != Role::User) {
            drafts.insert(0, TurnDraft { role: Role::User, blocks: vec![json!({ "type": "text", "text": "." })] });
        }
        end_without_space(&mut drafts);
        drafts.into_iter().map(TurnDraft::finish).collect()
    }

    fn blocks(&mut self, parts: &[MessagePart]) -> Vec<Value> {
        parts.iter().filter_map(|part| self.block(part)).collect()
    }

    /// None if the part is empty or Messages has no block for it.
    fn block(&mut self, part: &MessagePart) -> Option<Value> {
        match part {
            MessagePart::Text { text, cache } => text_block(text, cache.as_ref()),
            MessagePart::Refusal(text) => text_block(text, None),
            MessagePart::Image(image) => self.image(image),
            MessagePart::Document(document) => self.document(document),
            MessagePart::Audio(_) => self.losses.part("input_audio"),
            MessagePart::Thinking(thinking) => self.thinking(thinking),
            MessagePart::Call(call) => Some(self.call(call)),
            MessagePart::Result(result) => Some(self.result(result)),
        }
    }

    fn image(&mut self, image: &Image) -> Option<Value> {
        lose_detail(image, self.losses);
        let source = match &image.source {
            Source::Url(url) if is_https(url) => json!({ "type": "url", "url": url }),
            Source::Url(_) => return self.losses.part("image_url"),
            Source::Base64 { media_type, data } => {
                let media_type = if media_type == "image/jpg" { "image/jpeg" } else { media_type };
                if !["image/jpeg", "image/png", "image/gif", "image/webp"].contains(&media_type) {
                    return self.losses.part(format!("image_url:{media_type}"));
                }
                json!({ "type": "base64", "media_type": media_type, "data": data })
            }
            Source::Text(_) | Source::File(_) => return self.losses.part("file_id"),
        };
        Some(cached(json!({ "type": "image", "source": source }), image.cache.as_ref()))
    }

    fn document(&mut self, document: &Document) -> Option<Value> {
        let source = match &document.source {
            Source::Url(url) if is_https(url) => json!({ "type": "url", "url": url }),
            Source::Url(_) => return self.losses.part("file_url"),
            Source::Text(text) => json!({ "type": "text", "media_type": "text/plain", "data": text }),
            Source::Base64 { media_type, data } if media_type == "application/pdf" => {
                json!({ "type": "base64", "media_type": media_type, "data": data })
            }
            Source::Base64 { media_type, data } => {
                let is_text = media_type.starts_with("text/") || media_type == "application/json";
                match is_text.then(|| text_of_base64(data)).flatten() {
                    Some(text) => json!({ "type": "text", "media_type": "text/plain", "data": text }),
                    None => return self.losses.part(format!("file:{media_type}")),
                }
            }
            Source::File(_) => return self.losses.part("file_id"),
        };
        let mut block = json!({ "type": "document", "source": source });
        block.put("title", document.name.as_deref().filter(|name| !name.is_empty()));
        Some(cached(block, document.cache.as_ref()))
    }

    fn thinking(&mut self, thinking: &ReasoningPart) -> Option<Value> {
        // Who wants it back takes it from anybody.
        let takes_any = self.quirks.past_reasoning == PastReasoning::Wanted && !thinking.text.is_empty();
        let Some(signature) = signed(thinking).or(takes_any.then_some("")) else {
            self.losses.lose("reasoning_content");
            return None;
        };
        Some(match thinking.redacted {
            true => json!({ "type": "redacted_thinking", "data": signature }),
            false => json!({ "type": "thinking", "thinking": thinking.text, "signature": signature }),
        })
    }

    fn call(&mut self, call: &ToolCall) -> Value {
        self.losses.lose_if(call.signature.is_some(), "thought_signature");
        let block =
            json!({ "type": "tool_use", "id": self.ids.call(&call.id), "name": call.name, "input": arguments(call) });
        cached(block, call.cache.as_ref())
    }

    fn result(&mut self, result: &ToolResult) -> Value {
        let mut block = json!({ "type": "tool_result", "tool_use_id": self.ids.result(&result.call_id) });
        let content = self.blocks(&result.parts);
        block.put("content", (!content.is_empty()).then(|| plain(content)));
        block.put("is_error", result.is_error.then_some(true));
        cached(block, result.cache.as_ref())
    }
}

impl TurnDraft {
    fn finish(mut self) -> Value {
        // The sort is stable: results keep their order, and so does the rest.
        self.blocks.sort_by_key(|block| block["type"] != "tool_result");
        json!({ "role": self.role.as_str(), "content": plain(self.blocks) })
    }
}

/// For each turn, the role of the next turn other than system.
fn roles_behind(turns: &[ConversationTurn]) -> Vec<Option<Role>> {
    let mut next = None;
    let mut behind = vec![None; turns.len()];
    for (behind, turn) in behind.iter_mut().zip(turns).rev() {
        *behind = next;
        next = Some(turn.role).filter(|role| *role != Role::System).or(next);
    }
    behind
}

fn text_block(text: &str, cache: Option<&CacheHint>) -> Option<Value> {
    let block = json!({ "type": "text", "text": text });
    (!text.trim().is_empty()).then(|| cached(block, cache))
}

fn cached(mut block: Value, cache: Option<&CacheHint>) -> Value {
    block.put("cache_control", cache.map(cache_control));
    block
}

/// The vendor fetches HTTPS addresses only.
fn is_https(url: &str) -> bool {
    url.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"))
}

/// A single plain text block is written as a string.
fn plain(mut blocks: Vec<Value>) -> Value {
    match blocks.as_mut_slice() {
        [Value::Object(block)] if block.len() == 2 && block.get("type").is_some_and(|kind| kind == "text") => {
            block.remove("text").unwrap_or_default()
        }
        _ => Value::Array(blocks),
    }
}

fn remind(block: &mut Value) {
    if let Some(Value::String(text)) = block.get_mut("text") {
        *text = reminder(text);
    }
}

/// The vendor refuses a last assistant turn that ends in white space.
fn end_without_space(drafts: &mut [TurnDraft]) {
    let Some(TurnDraft { role: Role::Assistant, blocks }) = drafts.last_mut() else { return };
    if let Some(Value::String(text)) = blocks.last_mut().and_then(|block| block.get_mut("text")) {
        text.truncate(text.trim_end().len());
    }
}

/// An id with the characters that the vendor accepts: letters, digits, `_` and `-`.
fn id(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' }).collect()
}

/// Decodes base64 in either alphabet, with or without padding. None if the bytes are not text.
fn text_of_base64(data: &str) -> Option<String> {
    const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let bytes = data.bytes().filter(|byte| !byte.is_ascii_whitespace());
    let in_standard = |byte| match byte {
        b'-' => b'+',
        b'_' => b'/',
        byte => byte,
    };
    let standard: Vec<u8> = bytes.map(in_standard).collect();
    String::from_utf8(GeneralPurpose::new(&alphabet::STANDARD, LENIENT).decode(standard).ok()?).ok()
}
