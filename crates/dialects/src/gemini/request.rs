//! Writes a conversation as a `streamGenerateContent` request.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::gemini::signature::NO_SIGNATURE;
use photofinish_wire::conversation::outgoing::{
    arguments, function, lose_cache, lose_choices, lose_detail, lose_extras, results_first, system_texts,
};
use photofinish_wire::conversation::signature::{SignatureOwner, own};
use photofinish_wire::conversation::{
    Audio, Conversation, Document, Effort, Format, Image, Losses, MessagePart, Reasoning, ReasoningPart, Role,
    Sampling, Source, Tool, ToolCall, ToolChoice, ToolResult,
};
use photofinish_wire::json::values::{PutMember, json};
use photofinish_wire::quirks::{PastReasoning, Quirks, ThinkingForm, ThinkingOff, TranslationOptions};

/// Stop sequences that Gemini takes.
const STOPS_MAX: usize = 5;

/// Writes a conversation as a request.
pub fn request(conversation: &Conversation, options: &TranslationOptions, losses: &mut Losses) -> Value {
    let quirks = options.quirks;
    let mut body = Map::new();
    let system = texts(&conversation.system, losses);
    let mut contents = contents(conversation, quirks, losses);
    if contents.is_empty() && !system.is_empty() {
        // A system prompt alone is not a valid request.
        contents.push(json!({ "role": "user", "parts": system }));
    } else if !system.is_empty() {
        body.put("systemInstruction", Some(json!({ "parts": system })));
    }
    body.put("contents", Some(contents));
    let tools = tools(conversation, losses);
    if !tools.is_empty() {
        body.put("tools", Some(json!([{ "functionDeclarations": &tools }])));
        let choice = conversation.tool_choice.as_ref().and_then(choice);
        body.put("toolConfig", choice.map(|choice| json!({ "functionCallingConfig": choice })));
    }
    let mut config = sampling(&conversation.sampling, losses);
    if let Some(format) = &conversation.format {
        if tools.is_empty() || quirks.schemas_with_tools || *format == Format::Text {
            output(format, &mut config);
        } else {
            losses.lose(format.member());
        }
    }
    let thinking = conversation.reasoning.as_ref().and_then(|reasoning| thinking(reasoning, &quirks, losses));
    config.put("thinkingConfig", thinking);
    body.put("generationConfig", (!config.is_empty()).then_some(config));
    lose_extras(conversation, losses);
    Value::Object(body)
}

fn tools(conversation: &Conversation, losses: &mut Losses) -> Vec<Value> {
    let may_call = !conversation.tools.is_empty() && conversation.tool_choice != Some(ToolChoice::None);
    losses.lose_if(may_call && conversation.parallel_tool_calls == Some(false), "parallel_tool_calls");
    conversation.tools.iter().enumerate().filter_map(|(at, tool)| declaration(at, tool, losses)).collect()
}

fn declaration(at: usize, tool: &Tool, losses: &mut Losses) -> Option<Value> {
    let mut function = function(at, tool, losses)?;
    function.put("parametersJsonSchema", tool.parameters.clone().filter(takes_something));
    Some(Value::Object(function))
}

/// False for the schema of an object without members. Some models refuse it, and none needs it.
fn takes_something(schema: &Value) -> bool {
    let is_empty =
        |value: &Value| value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty);
    match schema {
        Value::Object(members) => members.iter().any(|(name, value)| match name.as_str() {
            "type" => value != "object",
            "properties" | "required" => !is_empty(value),
            "additionalProperties" => value != &Value::Bool(false),
            "$schema" | "title" | "description" => false,
            _ => true,
        }),
        _ => !schema.is_null(),
    }
}

fn choice(choice: &ToolChoice) -> Option<Value> {
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some(json!({ "mode": "NONE" })),
        ToolChoice::Required => Some(json!({ "mode": "ANY" })),
        ToolChoice::Named(name) => Some(json!({ "mode": "ANY", "allowedFunctionNames": [name] })),
    }
}

fn output(format: &Format, config: &mut Map<String, Value>) {
    let (Format::Json | Format::Schema { .. }) = format else { return };
    config.put("responseMimeType", Some("application/json"));
    if let Format::Schema { name, description, schema, .. } = format {
        let mut schema = schema.clone();
        if let Value::Object(members) = &mut schema {
            for (member, text) in [("title", name), ("description", description)] {
                if let Some(text) = text {
                    members.entry(member).or_insert_with(|| Value::from(text.as_str()));
                }
            }
        }
        config.put("responseJsonSchema", Some(schema));
    }
}

fn sampling(sampling: &Sampling, losses: &mut Losses) -> Map<String, Value> {
    let seed = sampling.seed.filter(|seed| i32::try_from(*seed).is_ok());
    let stops: Vec<&str> = sampling.stop.iter().take(STOPS_MAX).map(String::as_str).collect();
    // Models without penalties refuse even zero.
    let penalty = |penalty: Option<f64>| penalty.filter(|penalty| *penalty != 0.0);
    let mut config = Map::new();
    config.put("maxOutputTokens", sampling.max_tokens);
    config.put("temperature", sampling.temperature);
    config.put("topP", sampling.top_p);
    config.put("topK", sampling.top_k.filter(|top_k| *top_k > 0));
    config.put("presencePenalty", penalty(sampling.presence_penalty));
    config.put("frequencyPenalty", penalty(sampling.frequency_penalty));
    config.put("seed", seed);
    config.put("stopSequences", (!stops.is_empty()).then_some(stops));
    losses.lose_if(sampling.seed != seed, "seed");
    losses.lose_if(sampling.stop.len() > STOPS_MAX, "stop");
    // `candidateCount` and `logprobs` exist, but not for streams, or the answer could not carry them.
    lose_choices(sampling, losses);
    config
}

// Writes the turns of a conversation as Gemini's contents: two alternating roles, and parts.

/// Writes the contents. Joins neighbours of one role.
pub(super) fn contents(conversation: &Conversation, quirks: Quirks, losses: &mut Losses) -> Vec<Value> {
    let mut writer = Contents { all: Vec::new(), calls: HashMap::new(), count: 0, quirks, losses };
    for turn in results_first(&conversation.turns) {
        // Late system messages become user turns: there is no other place for them.
        let is_model = turn.role == Role::Assistant;
        // An empty turn does not separate its neighbours.
        writer.all.pop_if(|content| content.is_empty());
        if writer.all.last().is_none_or(|content| content.is_model != is_model) {
            writer.all.push(GeminiContent { is_model, ..GeminiContent::default() });
        }
        turn.parts.iter().for_each(|part| writer.part(part));
    }
    writer.all.into_iter().filter_map(GeminiContent::write).collect()
}

/// The texts of a system prompt.
pub(super) fn texts(parts: &[MessagePart], losses: &mut Losses) -> Vec<Value> {
    system_texts(parts, losses).into_iter().filter_map(text_part).collect()
}

struct Contents<'a, 'l> {
    all: Vec<GeminiContent>,
    /// Function and position of a call, by its id.
    calls: HashMap<&'a str, (&'a str, usize)>,
    /// Calls so far.
    count: usize,
    quirks: Quirks,
    losses: &'l mut Losses,
}

/// A content being written.
#[derive(Default)]
struct GeminiContent {
    is_model: bool,
    /// Results go first, in the order of their calls: without ids, only the order links them.
    results: Vec<(usize, Value)>,
    parts: Vec<Value>,
    /// The content already has a call. Only the first of several has a signature.
    has_call: bool,
}

impl GeminiContent {
    fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.results.is_empty()
    }

    fn write(mut self) -> Option<Value> {
        self.results.sort_by_key(|(at, _)| *at);
        let parts: Vec<Value> = self.results.into_iter().map(|(_, part)| part).chain(self.parts).collect();
        let role = if self.is_model { "model" } else { "user" };
        (!parts.is_empty()).then(|| json!({ "role": role, "parts": parts }))
    }
}

impl<'a> Contents<'a, '_> {
    fn part(&mut self, part: &'a MessagePart) {
        lose_cache(part.cache(), self.losses);
        let written = match part {
            MessagePart::Text { text, .. } | MessagePart::Refusal(text) => text_part(text),
            MessagePart::Image(image) => self.image(image),
            MessagePart::Document(document) => self.document(document),
            MessagePart::Audio(audio) => Some(sound(audio)),
            MessagePart::Thinking(thinking) => self.thinking(thinking),
            MessagePart::Call(call) => return self.call(call),
            MessagePart::Result(result) => return self.result(result),
        };
        if let (Some(written), Some(content)) = (written, self.all.last_mut()) {
            content.parts.push(written);
        }
    }

    fn image(&mut self, image: &Image) -> Option<Value> {
        lose_detail(image, self.losses);
        match &image.source {
            Source::Base64 { media_type, data } => Some(inline(media_type, data)),
            Source::Url(url) => self.file(url, "image_url"),
            Source::File(id) => self.file(id, "file_id"),
            Source::Text(text) => text_part(text),
        }
    }

    fn document(&mut self, document: &Document) -> Option<Value> {
        self.losses.lose_if(document.name.is_some(), "document.title");
        match &document.source {
            Source::Base64 { media_type, data } => Some(inline(media_type, data)),
            Source::Text(text) => text_part(text),
            Source::Url(url) => self.file(url, "document.url"),
            Source::File(id) => self.file(id, "file_id"),
        }
    }

    /// Google's own file names are passed on. Newer models fetch public addresses themselves.
    fn file(&mut self, uri: &str, name: &str) -> Option<Value> {
        let own = uri.starts_with("gs://") || uri.starts_with("https://generativelanguage.googleapis.com/");
        let public = uri.starts_with("https://") || uri.starts_with("http://");
        let readable = own || (public && self.quirks.fetches);
        if !readable {
            return self.losses.part(name);
        }
        let mut file = Map::new();
        file.put("mimeType", media_type_of(uri));
        file.put("fileUri", Some(uri));
        Some(json!({ "fileData": file }))
    }

    /// Thoughts are sent back only with Gemini's own signature. An empty thought is only a signature.
    fn thinking(&mut self, thinking: &ReasoningPart) -> Option<Value> {
        let signature = thinking.signature.as_deref().and_then(|signature| own(SignatureOwner::Gemini, signature));
        let Some(signature) = signature else {
            self.losses.lose("thinking");
            return None;
        };
        let mut part = json!({ "text": thinking.text, "thoughtSignature": signature });
        part.put("thought", (!thinking.text.is_empty()).then_some(true));
        Some(part)
    }

    /// Ids are omitted: Vertex AI rejects them.
    fn call(&mut self, call: &'a ToolCall) {
        self.calls.insert(&call.id, (&call.name, self.count));
        self.count += 1;
        let Some(content) = self.all.last_mut() else { return };
        let mut part = json!({ "functionCall": { "name": call.name, "args": arguments(call) } });
        let needed = (self.quirks.past_reasoning == PastReasoning::Wanted && !content.has_call).then_some(NO_SIGNATURE);
        let signature = call.signature.as_deref().and_then(|signature| own(SignatureOwner::Gemini, signature));
        part.put("thoughtSignature", signature.or(needed));
        content.has_call = true;
        content.parts.push(part);
    }

    fn result(&mut self, result: &'a ToolResult) {
        let (mut texts, mut media) = (Vec::new(), Vec::new());
        for part in &result.parts {
            lose_cache(part.cache(), self.losses);
            match part {
                MessagePart::Text { text, .. } | MessagePart::Document(Document { source: Source::Text(text), .. }) => {
                    texts.push(text.as_str())
                }
                MessagePart::Image(image) => media.extend(self.image(image)),
                MessagePart::Document(document) => media.extend(self.document(document)),
                MessagePart::Audio(audio) => media.push(sound(audio)),
                _ => self.losses.content("tool_result.content"),
            }
        }
        let known = self.calls.get(result.call_id.as_str()).copied();
        let name = result.name.as_deref().or(known.map(|(name, _)| name)).filter(|name| !name.is_empty());
        let key = if result.is_error { "error" } else { "output" };
        let response = json!({
            "functionResponse": { "name": name.unwrap_or("unknown"), "response": { key: texts.join("\n") } },
        });
        if let Some(content) = self.all.last_mut() {
            content.results.push((known.map_or(usize::MAX, |(_, number)| number), response));
            // Parts that are not text follow all results.
            content.parts.extend(media);
        }
    }
}

/// Gemini refuses empty texts.
fn text_part(text: &str) -> Option<Value> {
    (!text.is_empty()).then(|| json!({ "text": text }))
}

fn inline(media_type: &str, data: &str) -> Value {
    json!({ "inlineData": { "mimeType": media_type, "data": data } })
}

fn sound(audio: &Audio) -> Value {
    let format = if audio.format == "pcm16" { "pcm" } else { audio.format.as_str() };
    inline(&format!("audio/{format}"), &audio.data)
}

/// The media type of a URL, by its file extension. None if the extension is unknown.
fn media_type_of(uri: &str) -> Option<&'static str> {
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    let (_, ending) = path.rsplit_once('.')?;
    Some(match ending.to_ascii_lowercase().as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "gif" => "image/gif",
        "heic" => "image/heic",
        "heif" => "image/heif",
        "pdf" => "application/pdf",
        "txt" | "md" => "text/plain",
        "html" | "htm" => "text/html",
        "csv" => "text/csv",
        "mp3" => "audio/mp3",
        "wav" => "audio/wav",
        "mp4" => "video/mp4",
        _ => return None,
    })
}

fn thinking(reasoning: &Reasoning, quirks: &Quirks, losses: &mut Losses) -> Option<Value> {
    let off = reasoning.enabled == Some(false)
        || reasoning.effort == Some(Effort::None)
        || (reasoning.effort.is_none() && reasoning.budget == Some(0));
    if quirks.thinking == ThinkingForm::Off {
        losses.lose_if(!off, "reasoning");
        return None;
    }
    let mut config = Map::new();
    let asked = reasoning.enabled.is_some() || reasoning.effort.is_some() || reasoning.budget.is_some();
    config.put("includeThoughts", reasoning.show.or(asked.then_some(true)).filter(|_| !off));
    if quirks.wants_budget(reasoning) {
        config.put("thinkingBudget", budget(reasoning, off, quirks));
    } else {
        let asked = reasoning.effort.or(reasoning.budget.map(Effort::of_budget));
        let effort = if off { Some(Effort::None) } else { asked };
        let level = effort.map(|effort| quirks.thinking_levels.level(effort));
        config.put("thinkingLevel", level.map(|level| level.as_str().to_ascii_uppercase()));
    }
    (!config.is_empty()).then_some(Value::Object(config))
}

/// The settings of a request that Gemini's own client wrote, as the model takes them. A budget and a level each keep their form. Returns
/// whether something changed.
pub fn fit(config: &mut Map<String, Value>, has_tools: bool, quirks: &Quirks, losses: &mut Losses) -> bool {
    let before = config.clone();
    if let Some(Value::Object(thinking)) = config.get_mut("thinkingConfig") {
        if let Some(asked) = thinking.get("thinkingBudget").and_then(Value::as_i64).filter(|asked| *asked >= 0)
            && quirks.thinking != ThinkingForm::Effort
        {
            let reasoning = Reasoning { budget: u64::try_from(asked).ok(), ..Reasoning::default() };
            thinking.put("thinkingBudget", budget(&reasoning, asked == 0, quirks));
        }
        let level = thinking.get("thinkingLevel").and_then(Value::as_str).map(str::to_ascii_lowercase);
        if let Some(asked) = level.and_then(|level| Effort::from_name(&level))
            && quirks.thinking != ThinkingForm::Budget
        {
            let level = Some(quirks.thinking_levels.level(asked)).filter(|level| *level != asked);
            thinking.put("thinkingLevel", level.map(|level| level.as_str().to_ascii_uppercase()));
        }
        if quirks.thinking == ThinkingForm::Off {
            config.shift_remove("thinkingConfig");
        }
        if config.get("thinkingConfig") != before.get("thinkingConfig") {
            losses.form("generationConfig.thinkingConfig");
        }
    }
    if has_tools && !quirks.schemas_with_tools && config.get("responseMimeType").is_some_and(|of| of != "text/plain") {
        ["responseMimeType", "responseSchema", "responseJsonSchema"]
            .iter()
            .for_each(|name| drop(config.shift_remove(*name)));
        losses.lose("generationConfig.responseMimeType");
    }
    *config != before
}

/// The budget within the model's range. -1 leaves it to the model.
fn budget(reasoning: &Reasoning, off: bool, quirks: &Quirks) -> Option<i64> {
    let signed = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
    let (least, most) = (signed(quirks.thinking_min.unwrap_or(0)), signed(quirks.thinking_max.unwrap_or(u64::MAX)));
    if off {
        return Some(if quirks.thinking_off == ThinkingOff::Never { least } else { 0 });
    }
    match reasoning.budget.or(reasoning.effort.map(Effort::budget)) {
        Some(budget) => Some(signed(budget).min(most).max(least)),
        None => (reasoning.enabled == Some(true)).then_some(-1),
    }
}
