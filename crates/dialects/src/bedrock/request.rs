//! Writes a conversation as a Converse request, and reports what Bedrock or the model does not accept.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::claude;
use crate::claude::signed;
use photofinish_wire::conversation::call_ids::CallIds;
use photofinish_wire::conversation::outgoing::{
    called_names, lose_cache, lose_choices, lose_penalties, lose_tier, lose_verbosity, object_schema,
};
use photofinish_wire::conversation::{
    CacheHint, Conversation, ConversationTurn, Document, Effort, Format, Image, Losses, MessagePart, Reasoning,
    ReasoningPart, Role, Sampling, Source, Tool, ToolCall, ToolChoice, ToolResult,
};
use photofinish_wire::json::numbers::object;
use photofinish_wire::json::values::{PutMember, json};
use photofinish_wire::quirks::{
    ModelFamily, PastReasoning, Quirks, SamplingForm, ThinkingForm, ThinkingOff, TranslationOptions,
};

/// Pairs of Bedrock's `requestMetadata`.
const METADATA_MAX: usize = 16;
/// Characters of a name or a value there.
const METADATA_LENGTH_MAX: usize = 256;

/// Writes a conversation as a request.
pub fn request(conversation: &Conversation, options: &TranslationOptions, losses: &mut Losses) -> Value {
    let mut content = ContentWriter::new(options.quirks, losses);
    let mut system = Vec::new();
    content.system(&conversation.system, &mut system);
    let messages = content.messages(&conversation.turns, &mut system);
    let (quirks, body, fields) = (options.quirks, Map::new(), Map::new());
    let mut writer = BedrockRequestWriter { quirks, body, fields, thinks: false, unsampled: false };
    let tools = tools(conversation, &mut content);
    let begun = claude::is_begun(&messages);
    writer.body.put("messages", Some(messages));
    writer.body.put("system", (!system.is_empty()).then_some(system));
    if let Some(reasoning) = &conversation.reasoning {
        writer.reasoning(reasoning, conversation, begun, losses);
    }
    writer.tool_config(conversation, tools, losses);
    writer.sampling(&conversation.sampling, losses);
    writer.format(conversation.format.as_ref(), losses);
    writer.metadata(conversation.metadata.as_ref(), losses);
    rest(conversation, losses);
    writer.body.put("additionalModelRequestFields", (!writer.fields.is_empty()).then_some(writer.fields));
    Value::Object(writer.body)
}

/// Options that Bedrock has no member for.
fn rest(conversation: &Conversation, losses: &mut Losses) {
    lose_penalties(&conversation.sampling, losses);
    lose_choices(&conversation.sampling, losses);
    let one_at_a_time = conversation.parallel_tool_calls == Some(false) && !conversation.tools.is_empty();
    losses.lose_if(one_at_a_time, "parallel_tool_calls");
    lose_verbosity(conversation, losses);
    losses.lose_if(conversation.user.is_some(), conversation.user_member());
    lose_tier(conversation, losses);
}

/// The offered tools. A request with calls in its history must declare tools. If none is offered, it declares those of
/// the history.
fn tools(conversation: &Conversation, content: &mut ContentWriter<'_>) -> Vec<Value> {
    let offered = conversation.tool_choice != Some(ToolChoice::None);
    if conversation.tools.is_empty() && content.has_tools {
        content.losses.lose("tools");
        return named_in_history(conversation);
    }
    if !offered && !content.has_tools {
        return Vec::new();
    }
    content.losses.lose_if(!offered, "tool_choice");
    let mut specs = Vec::new();
    for (number, tool) in conversation.tools.iter().enumerate() {
        if tool.custom {
            content.losses.content(&tool.name);
            continue;
        }
        let mut strict = tool.strict == Some(true) && content.quirks.schemas;
        content.losses.lose_if(tool.strict == Some(true) && !strict, &format!("tools[{number}].strict"));
        let mut schema = object_schema(tool);
        if strict && content.quirks.family == ModelFamily::Claude {
            let closed = claude::closed_tool(&schema, number, content.losses);
            strict = closed.is_some();
            schema = closed.unwrap_or(schema);
        }
        specs.push(spec(tool, schema, strict));
        match &tool.cache {
            Some(hint) if content.quirks.family == ModelFamily::Claude => specs.push(content.cache_point(hint)),
            Some(_) => content.losses.lose("cache_control"),
            None => {}
        }
    }
    specs
}

fn spec(tool: &Tool, schema: Value, strict: bool) -> Value {
    let mut spec = json!({ "name": tool.name, "inputSchema": { "json": schema } });
    spec.put("description", tool.description.as_deref().filter(|description| !description.is_empty()));
    spec.put("strict", strict.then_some(true));
    json!({ "toolSpec": spec })
}

fn named_in_history(conversation: &Conversation) -> Vec<Value> {
    let described = |name: &str| Tool {
        name: name.to_owned(),
        description: Some("Not available any more.".to_owned()),
        ..Tool::default()
    };
    let spec = |tool: Tool| spec(&tool, object_schema(&tool), false);
    called_names(conversation).into_iter().map(|name| spec(described(name))).collect()
}

/// Writes all members but the messages.
struct BedrockRequestWriter {
    quirks: Quirks,
    body: Map<String, Value>,
    /// `additionalModelRequestFields`: options that only models of this maker support.
    fields: Map<String, Value>,
    /// A Claude with thinking enabled.
    thinks: bool,
    /// Thinks at the highest level, which excludes all other options.
    unsampled: bool,
}

impl BedrockRequestWriter {
    fn is_claude(&self) -> bool {
        self.quirks.family == ModelFamily::Claude
    }

    fn tool_config(&mut self, conversation: &Conversation, tools: Vec<Value>, losses: &mut Losses) {
        if tools.is_empty() {
            return;
        }
        let mut config = json!({ "tools": tools });
        let choice = match &conversation.tool_choice {
            _ if conversation.tools.is_empty() => None,
            None | Some(ToolChoice::Auto | ToolChoice::None) => None,
            // A thinking Claude cannot be forced either.
            Some(_) if !self.quirks.forced_tools || self.thinks => {
                losses.lose("tool_choice");
                None
            }
            Some(ToolChoice::Required) => Some(json!({ "any": {} })),
            Some(ToolChoice::Named(name)) => Some(json!({ "tool": { "name": name } })),
        };
        config.put("toolChoice", choice);
        self.body.put("toolConfig", Some(config));
    }

    /// `begun`: the caller wrote the first words of the answer.
    fn reasoning(&mut self, reasoning: &Reasoning, conversation: &Conversation, begun: bool, losses: &mut Losses) {
        let off =
            reasoning.enabled == Some(false) || reasoning.effort == Some(Effort::None) || reasoning.budget == Some(0);
        let on = reasoning.enabled == Some(true) || reasoning.effort.is_some() || reasoning.budget.is_some();
        let level = self.quirks.thinking_levels.level(effort(reasoning));
        match self.quirks.family {
            _ if !off && !on => {}
            ModelFamily::Claude if off => match self.quirks.thinking_off {
                ThinkingOff::Never => losses.lose("reasoning"),
                // The others do not think unasked.
                off if self.quirks.thinking == ThinkingForm::Effort => {
                    self.fields.put("thinking", Some(json!({ "type": off.as_str() })));
                }
                ThinkingOff::Disabled | ThinkingOff::BetweenTools => {}
            },
            _ if off => losses.lose_if(self.quirks.thinking_off == ThinkingOff::Never, "reasoning"),
            ModelFamily::Claude if begun || self.quirks.thinking == ThinkingForm::Off => {
                losses.lose("reasoning_effort");
            }
            ModelFamily::Claude => self.claude_thinks(reasoning, conversation, losses),
            ModelFamily::Nova if self.quirks.thinking != ThinkingForm::Off => {
                let config = json!({ "type": "enabled", "maxReasoningEffort": level.as_str() });
                self.fields.put("reasoningConfig", Some(config));
                self.unsampled = level == Effort::High;
            }
            ModelFamily::OpenAi => self.fields.put("reasoning_effort", Some(level.as_str())),
            ModelFamily::Qwen => self.fields.put("reasoning_config", Some(level.as_str())),
            ModelFamily::Nova | ModelFamily::Other => losses.lose("reasoning"),
        }
    }

    fn claude_thinks(&mut self, reasoning: &Reasoning, conversation: &Conversation, losses: &mut Losses) {
        let Quirks { thinking: form, thinking_levels, max_output, .. } = self.quirks;
        let thinking = if self.quirks.wants_budget(reasoning) {
            let budget = claude::budget(reasoning, conversation.sampling.max_tokens, max_output);
            let Some(budget) = budget.filter(|_| !claude::continues_without_thoughts(conversation)) else {
                losses.lose("reasoning_effort");
                return;
            };
            json!({ "type": "enabled", "budget_tokens": budget })
        } else {
            if reasoning.effort.is_some() || reasoning.budget.is_some() {
                let level = thinking_levels.level(effort(reasoning));
                self.fields.put("output_config", Some(json!({ "effort": level.as_str() })));
            }
            let mut thinking = json!({ "type": "adaptive" });
            let show = reasoning.show.filter(|_| form == ThinkingForm::Effort);
            thinking.put("display", show.map(|show| if show { "summarized" } else { "omitted" }));
            thinking
        };
        self.thinks = true;
        self.fields.put("thinking", Some(thinking));
    }

    fn sampling(&mut self, sampling: &Sampling, losses: &mut Losses) {
        let (mut temperature, mut top_p, mut top_k) = (sampling.temperature, sampling.top_p, sampling.top_k);
        let mut max_tokens = sampling.max_tokens;
        if self.unsampled {
            refuse(&mut temperature, "temperature", |_| false, losses);
            refuse(&mut top_p, "top_p", |_| false, losses);
            refuse(&mut max_tokens, "max_tokens", |_| false, losses);
        }
        if self.is_claude() {
            let is_refused = self.quirks.sampling == SamplingForm::Refused;
            if is_refused || self.thinks {
                // Such a model accepts only temperature 1, and with thinking only a high `top_p`.
                refuse(&mut temperature, "temperature", |temperature| temperature == 1.0, losses);
                let least = if is_refused { 1.0 } else { 0.95 };
                let kept = top_p.filter(|top_p| *top_p >= least && *top_p < 1.0);
                refuse(&mut top_p, "top_p", |top_p| top_p >= least, losses);
                top_p = kept;
                refuse(&mut top_k, "top_k", |_| false, losses);
            }
            if temperature.is_some_and(|temperature| temperature > 1.0) {
                refuse(&mut temperature, "temperature", |_| false, losses);
            }
            if self.quirks.sampling != SamplingForm::Free && temperature.is_some() {
                refuse(&mut top_p, "top_p", |top_p| top_p == 1.0, losses);
            }
        }
        let mut config = Map::new();
        config.put("maxTokens", self.quirks.limit(max_tokens, losses));
        config.put("temperature", temperature);
        config.put("topP", top_p);
        let stop: Vec<&str> = sampling.stop.iter().map(String::as_str).filter(|stop| !stop.trim().is_empty()).collect();
        losses.lose_if(stop.len() < sampling.stop.len(), "stop");
        // Asks for the stop sequence that matched. Models without that field ignore this.
        let paths = (!stop.is_empty()).then(|| json!(["/stop_sequence"]));
        config.put("stopSequences", (!stop.is_empty()).then_some(stop));
        self.body.put("inferenceConfig", (!config.is_empty()).then_some(config));
        self.body.put("additionalModelResponseFieldPaths", paths);
        match self.quirks.family {
            ModelFamily::Claude => self.fields.put("top_k", top_k),
            ModelFamily::Nova => self.fields.put("inferenceConfig", top_k.map(|top_k| json!({ "topK": top_k }))),
            _ => losses.lose_if(top_k.is_some(), "top_k"),
        }
    }

    fn format(&mut self, format: Option<&Format>, losses: &mut Losses) {
        match format {
            None | Some(Format::Text) => {}
            Some(Format::Schema { name, description, schema, .. }) if self.quirks.schemas => {
                let schema = match self.is_claude() {
                    true => claude::closed(schema, losses).to_string(),
                    false => schema.to_string(),
                };
                let mut definition = json!({ "schema": schema });
                for (member, value) in [("name", name), ("description", description)] {
                    definition.put(member, value.as_deref().filter(|value| !value.is_empty()));
                }
                let format = json!({ "type": "json_schema", "structure": { "jsonSchema": definition } });
                self.body.put("outputConfig", Some(json!({ "textFormat": format })));
            }
            Some(format) => losses.lose(format.member()),
        }
    }

    /// Only a few short texts are accepted.
    fn metadata(&mut self, metadata: Option<&Map<String, Value>>, losses: &mut Losses) {
        let Some(metadata) = metadata.filter(|metadata| !metadata.is_empty()) else { return };
        let plain = |text: &str| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || c == ' ' || ":_@$#=/+,-.".contains(c);
            text.len() <= METADATA_LENGTH_MAX && text.chars().all(allowed)
        };
        let fits =
            |(name, value): (&String, &Value)| !name.is_empty() && plain(name) && value.as_str().is_some_and(plain);
        let fits = metadata.len() <= METADATA_MAX && metadata.iter().all(fits);
        losses.lose_if(!fits, "metadata");
        self.body.put("requestMetadata", fits.then(|| metadata.clone()));
    }
}

/// Removes an option that the model refuses. It is lost, unless `says_nothing` is true: then it changes nothing.
fn refuse<T: Copy>(option: &mut Option<T>, name: &str, says_nothing: impl Fn(T) -> bool, losses: &mut Losses) {
    if option.take().is_some_and(|value| !says_nothing(value)) {
        losses.lose(name);
    }
}

/// The wanted effort, however it was given.
fn effort(reasoning: &Reasoning) -> Effort {
    reasoning.effort.or(reasoning.budget.map(Effort::of_budget)).unwrap_or(Effort::Medium)
}

// Writes the turns of a conversation as Converse messages, and reports what cannot be written.

/// Characters of the id of a tool use at Bedrock.
const ID_MAX: usize = 64;
/// Characters of a document's name at Bedrock.
const NAME_MAX: usize = 200;

/// Writes the turns of a conversation.
pub(super) struct ContentWriter<'a> {
    pub quirks: Quirks,
    pub losses: &'a mut Losses,
    /// Used document names, with the number of the next document of that name. Names must be unique.
    names: HashMap<String, u32>,
    ids: CallIds,
    /// The conversation contains calls or tool results.
    pub has_tools: bool,
}

impl<'a> ContentWriter<'a> {
    pub fn new(quirks: Quirks, losses: &'a mut Losses) -> ContentWriter<'a> {
        ContentWriter { quirks, losses, names: HashMap::new(), ids: CallIds::new(id, ID_MAX), has_tools: false }
    }

    /// Roles must alternate, and the user begins: turns of one role become one message. System turns go into `system`.
    pub fn messages(&mut self, turns: &[ConversationTurn], system: &mut Vec<Value>) -> Vec<Value> {
        let mut messages: Vec<(&str, Vec<Value>)> = Vec::new();
        for (number, turn) in turns.iter().enumerate() {
            let role = match turn.role {
                Role::System => {
                    self.losses.lose(format!("messages[{number}].role"));
                    self.system(&turn.parts, system);
                    continue;
                }
                Role::User => "user",
                Role::Assistant => "assistant",
            };
            if messages.last().is_none_or(|(last, _)| *last != role) {
                messages.push((role, Vec::new()));
            }
            let Some((_, blocks)) = messages.last_mut() else { continue };
            for (place, part) in turn.parts.iter().enumerate() {
                self.part(part, &format!("messages[{number}].content[{place}]"), blocks);
            }
            if blocks.is_empty() {
                messages.pop();
            }
        }
        if messages.first().is_none_or(|(role, _)| *role != "user") {
            messages.insert(0, ("user", vec![json!({ "text": "." })]));
        }
        messages.into_iter().map(|(role, content)| json!({ "role": role, "content": ordered(content) })).collect()
    }

    /// System prompts are texts.
    pub fn system(&mut self, parts: &[MessagePart], out: &mut Vec<Value>) {
        for part in parts {
            match part {
                MessagePart::Text { text, cache } => {
                    out.extend(text_block(text));
                    self.cache(cache.as_ref(), out);
                }
                _ => self.losses.lose("system"),
            }
        }
    }

    fn part(&mut self, part: &MessagePart, name: &str, out: &mut Vec<Value>) {
        out.extend(match part {
            MessagePart::Text { text, .. } | MessagePart::Refusal(text) => text_block(text),
            MessagePart::Image(image) => image_block(image).or_else(|| self.losses.part(name)),
            MessagePart::Document(document) => self.document(document).or_else(|| self.losses.part(name)),
            MessagePart::Audio(_) => self.losses.part(name),
            MessagePart::Thinking(thinking) => self.thinking(thinking),
            MessagePart::Call(call) => Some(self.call(call, name)),
            MessagePart::Result(result) => Some(self.result(result, name)),
        });
        match part {
            // A cache point may not follow a document.
            MessagePart::Document(document) => lose_cache(document.cache.as_ref(), self.losses),
            _ => self.cache(part.cache(), out),
        }
    }

    /// Only Claude's own signed reasoning is sent back.
    fn thinking(&mut self, thinking: &ReasoningPart) -> Option<Value> {
        match signed(thinking) {
            Some(signature) if self.quirks.past_reasoning != PastReasoning::Refused => Some(if thinking.redacted {
                json!({ "reasoningContent": { "redactedContent": signature } })
            } else {
                let text = json!({ "text": thinking.text, "signature": signature });
                json!({ "reasoningContent": { "reasoningText": text } })
            }),
            _ => {
                self.losses.lose("thinking");
                None
            }
        }
    }

    fn call(&mut self, call: &ToolCall, name: &str) -> Value {
        self.has_tools = true;
        self.losses.lose_if(call.signature.is_some(), "thought_signature");
        let written = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
        let arguments = match object(written.as_bytes()) {
            Some(arguments) if !call.custom => Value::Object(arguments),
            // Only an object is accepted, so broken arguments are wrapped in one.
            _ => {
                self.losses.lose_if(call.custom, name);
                json!({ "input": call.arguments })
            }
        };
        json!({ "toolUse": { "toolUseId": self.ids.call(&call.id), "name": call.name, "input": arguments } })
    }

    fn result(&mut self, result: &ToolResult, name: &str) -> Value {
        self.has_tools = true;
        let mut content = Vec::new();
        for part in &result.parts {
            content.extend(match part {
                MessagePart::Text { text, cache } => {
                    lose_cache(cache.as_ref(), self.losses);
                    text_block(text)
                }
                MessagePart::Image(image) => image_block(image).or_else(|| self.losses.part(name)),
                MessagePart::Document(document) => self.document(document).or_else(|| self.losses.part(name)),
                _ => self.losses.part(name),
            });
        }
        let mut block = json!({ "toolUseId": self.ids.result(&result.call_id), "content": content });
        if result.is_error && self.caches() {
            block["status"] = Value::from("error");
        } else if result.is_error {
            self.losses.lose(format!("{name}.is_error"));
        }
        json!({ "toolResult": block })
    }

    fn document(&mut self, document: &Document) -> Option<Value> {
        let (format, source) = match &document.source {
            Source::Base64 { media_type, data } => {
                (document_format(media_type, document.name.as_deref())?, json!({ "bytes": data }))
            }
            Source::Text(text) => ("txt", json!({ "bytes": STANDARD.encode(text) })),
            Source::Url(url) if url.starts_with("s3://") => {
                (document_format("", Some(url))?, json!({ "s3Location": { "uri": url } }))
            }
            Source::Url(_) | Source::File(_) => return None,
        };
        let name = self.document_name(document.name.as_deref());
        Some(json!({ "document": { "format": format, "name": name, "source": source } }))
    }

    /// A unique name in the allowed characters.
    fn document_name(&mut self, wanted: Option<&str>) -> String {
        let wanted = wanted.map_or("", |name| name.rsplit_once('.').map_or(name, |(stem, _)| stem));
        let allowed = |c: char| if c.is_ascii_alphanumeric() || "-()[]".contains(c) { c } else { ' ' };
        let plain: String = wanted.chars().map(allowed).collect();
        let words: Vec<&str> = plain.split_ascii_whitespace().collect();
        let mut base = words.join(" ");
        // Leaves room for a number.
        base.truncate(NAME_MAX - 20);
        let base = if base.trim().is_empty() { "document" } else { base.trim_end() };
        let mut name = base.to_owned();
        // Terminates: each round uses another number.
        while self.names.contains_key(&name) {
            let number = self.names.entry(base.to_owned()).or_insert(2);
            name = format!("{base} ({number})");
            *number += 1;
        }
        self.names.insert(name.clone(), 2);
        name
    }

    /// The model takes cache points, and `status` in a tool result.
    fn caches(&self) -> bool {
        matches!(self.quirks.family, ModelFamily::Claude | ModelFamily::Nova)
    }

    /// Adds a cache point after the last block, if the model accepts one there.
    pub fn cache(&mut self, hint: Option<&CacheHint>, out: &mut Vec<Value>) {
        let Some(hint) = hint else { return };
        if !self.caches() || out.last().is_none_or(|block| block.get("cachePoint").is_some()) {
            self.losses.lose("cache_control");
            return;
        }
        out.push(self.cache_point(hint));
    }

    pub fn cache_point(&mut self, hint: &CacheHint) -> Value {
        let mut point = json!({ "type": "default" });
        match hint.ttl.as_deref() {
            None | Some("5m") => {}
            Some("1h") if self.quirks.long_cache => point["ttl"] = Value::from("1h"),
            Some(_) => self.losses.lose("cache_control.ttl"),
        }
        json!({ "cachePoint": point })
    }
}

/// Orders the blocks of a turn as the vendor requires: tool results first, each followed by its cache point, and never
/// a document without a text.
fn ordered(blocks: Vec<Value>) -> Vec<Value> {
    let is = |block: &Value, kind: &str| block.get(kind).is_some();
    let (mut results, mut rest, mut behind_result) = (Vec::new(), Vec::new(), false);
    let wants_text = blocks.iter().any(|block| is(block, "document")) && !blocks.iter().any(|block| is(block, "text"));
    for block in blocks {
        if !is(&block, "cachePoint") {
            behind_result = is(&block, "toolResult");
        }
        if behind_result { results.push(block) } else { rest.push(block) }
    }
    results.append(&mut rest);
    results.extend(wants_text.then(|| json!({ "text": "." })));
    results
}

/// Blank text is refused, and means nothing.
fn text_block(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({ "text": text }))
}

fn image_block(image: &Image) -> Option<Value> {
    let (format, source) = match &image.source {
        Source::Base64 { media_type, data } => (image_format(media_type)?, json!({ "bytes": data })),
        Source::Url(url) if url.starts_with("s3://") => {
            (image_format(url.rsplit_once('.')?.1)?, json!({ "s3Location": { "uri": url } }))
        }
        _ => return None,
    };
    Some(json!({ "image": { "format": format, "source": source } }))
}

/// By media type, or by file extension.
fn image_format(name: &str) -> Option<&'static str> {
    let name = name.split(';').next().unwrap_or(name).trim().to_ascii_lowercase();
    Some(match name.strip_prefix("image/").unwrap_or(&name) {
        "png" => "png",
        "jpeg" | "jpg" => "jpeg",
        "gif" => "gif",
        "webp" => "webp",
        _ => return None,
    })
}

/// By media type, else by file extension.
fn document_format(media_type: &str, name: Option<&str>) -> Option<&'static str> {
    let media_type = media_type.split(';').next().unwrap_or(media_type).trim().to_ascii_lowercase();
    let ending = || name.and_then(|name| Some(name.rsplit_once('.')?.1.to_ascii_lowercase()));
    Some(match media_type.as_str() {
        "application/pdf" => "pdf",
        "text/plain" => "txt",
        "text/markdown" => "md",
        "text/html" => "html",
        "text/csv" => "csv",
        "application/msword" => "doc",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document" => "docx",
        "application/vnd.ms-excel" => "xls",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" => "xlsx",
        "" | "application/octet-stream" => {
            let ending = ending()?;
            ["pdf", "txt", "md", "html", "csv", "doc", "docx", "xls", "xlsx"]
                .into_iter()
                .find(|known| *known == ending)?
        }
        _ => return None,
    })
}

/// An id that Bedrock accepts, derived from the original. Ids of other vendors may be too long or have other
/// characters.
fn id(id: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
    if !id.is_empty() && id.len() <= ID_MAX && id.chars().all(allowed) {
        return id.to_owned();
    }
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(id);
    let kept: String = id.chars().filter(|c| allowed(*c)).take(ID_MAX - 17).collect();
    format!("{kept}_{hash:016x}")
}

#[cfg(test)]
mod content_tests {
    use super::*;

    #[test]
    fn ids_are_made_to_fit_and_stay_apart() {
        assert_eq!(id("call_1-a.b:c"), "call_1-a.b:c");
        let (long, other) = (id(&"x".repeat(100)), id(&"x".repeat(101)));
        assert_eq!((long.len(), other.len()), (ID_MAX, ID_MAX));
        assert_ne!(long, other);
        for odd in ["", "a b", "é"] {
            assert_eq!(id(odd), id(odd));
            assert!((1..=ID_MAX).contains(&id(odd).len()), "{odd}");
        }
        assert_ne!(id("a b"), id("a-b"));
    }

    #[test]
    fn documents_have_names_of_their_own() {
        let mut losses = Losses::default();
        let mut content = ContentWriter::new(Quirks::default(), &mut losses);
        let names = [Some("my_report.v2.pdf"), Some("my report v2.pdf"), None, Some("???"), Some("my report v2")]
            .map(|name| content.document_name(name));
        assert_eq!(names, ["my report v2", "my report v2 (2)", "document", "document (2)", "my report v2 (3)"]);
        assert!(content.document_name(Some(&"x".repeat(1_000))).len() <= NAME_MAX);
    }

    #[test]
    fn formats_go_by_media_type_and_then_by_name() {
        assert_eq!(document_format("text/plain; charset=utf-8", None), Some("txt"));
        assert_eq!(document_format("application/octet-stream", Some("a.b.DOCX")), Some("docx"));
        assert_eq!(document_format("application/zip", Some("a.pdf")), None);
        assert_eq!(document_format("", None), None);
        assert_eq!((image_format("IMAGE/JPG"), image_format("image/tiff")), (Some("jpeg"), None));
    }
}
