//! Writes a conversation as a Responses request.

use serde_json::{Map, Value};

use photofinish_wire::conversation::outgoing::{
    effort_of, lose_cache, lose_choices, lose_penalties, openai_tier, openai_user, strict_of, system_texts,
};
use photofinish_wire::conversation::signature::{SignatureOwner, own};
use photofinish_wire::conversation::{
    Conversation, Document, Effort, Format, Losses, MessagePart, Reasoning, ReasoningPart, Role, Source, Tool,
    ToolCall, ToolChoice, ToolResult,
};
use photofinish_wire::json::values::{PutMember, json};
use photofinish_wire::quirks::TranslationOptions;

/// The vendor's minimum limit, in tokens.
const TOKENS_MIN: u64 = 16;

/// Writes a conversation as a request. The vendor stores nothing, because each request is complete.
pub fn request(conversation: &Conversation, options: &TranslationOptions, losses: &mut Losses) -> Value {
    let mut body = Map::new();
    body.put("model", Some(options.model.as_str()));
    let instructions = system_texts(&conversation.system, losses).join("\n\n");
    let mut input = input(conversation, losses);
    if input.is_empty() && !instructions.is_empty() {
        // A system prompt alone is not a valid request.
        flush(Role::System, &mut vec![json!({ "type": "input_text", "text": instructions })], &mut input);
    } else {
        body.put("instructions", (!instructions.is_empty()).then_some(instructions));
    }
    body.put("input", Some(input));
    if !conversation.tools.is_empty() {
        body.put("tools", Some(conversation.tools.iter().map(|tool| write_tool(tool, losses)).collect::<Value>()));
        // Both are refused without tools.
        let choice = conversation.tool_choice.as_ref().map(|choice| options.quirks.choice(choice, losses));
        body.put("tool_choice", choice.map(|choice| write_choice(&choice, &conversation.tools)));
        body.put("parallel_tool_calls", conversation.parallel_calls());
    }
    let mut text = Map::new();
    text.put("format", conversation.format.as_ref().and_then(|format| write_format(format, losses)));
    text.put("verbosity", conversation.verbosity.as_deref());
    body.put("text", (!text.is_empty()).then_some(text));
    if let Some(reasoning) = &conversation.reasoning {
        let wanted = write_reasoning(reasoning, losses);
        body.put("reasoning", (!wanted.is_empty()).then_some(wanted));
        body.put("include", thinks(reasoning).then(|| json!(["reasoning.encrypted_content"])));
    }
    sampling(conversation, &mut body, losses);
    about(conversation, &mut body, losses);
    body.put("store", Some(false));
    body.put("stream", Some(true));
    Value::Object(body)
}

fn sampling(conversation: &Conversation, body: &mut Map<String, Value>, losses: &mut Losses) {
    let sampling = &conversation.sampling;
    losses.lose_if(sampling.max_tokens.is_some_and(|tokens| tokens < TOKENS_MIN), "max_tokens");
    body.put("max_output_tokens", sampling.max_tokens.map(|tokens| tokens.max(TOKENS_MIN)));
    body.put("temperature", sampling.temperature);
    body.put("top_p", sampling.top_p);
    losses.lose_if(sampling.top_k.is_some(), "top_k");
    lose_penalties(sampling, losses);
    losses.lose_if(!sampling.stop.is_empty(), "stop");
    // The vendor supports log probabilities, but a translated answer does not.
    lose_choices(sampling, losses);
}

/// Writes the end user, the metadata and the service tier.
fn about(conversation: &Conversation, body: &mut Map<String, Value>, losses: &mut Losses) {
    body.put("safety_identifier", openai_user(conversation, losses));
    let fits = |metadata: &&Map<String, Value>| metadata.len() <= 16 && metadata.values().all(Value::is_string);
    let metadata = conversation.metadata.as_ref().filter(fits);
    losses.lose_if(metadata.is_none() && conversation.metadata.is_some(), "metadata");
    body.put("metadata", metadata.cloned());
    body.put("service_tier", openai_tier(conversation, losses));
}

fn input(conversation: &Conversation, losses: &mut Losses) -> Vec<Value> {
    let mut items = Vec::new();
    for turn in &conversation.turns {
        let mut message = Vec::new();
        for part in &turn.parts {
            let item = match part {
                MessagePart::Result(result) => Some(write_result(result, losses)),
                MessagePart::Call(call) => Some(write_call(call, losses)),
                MessagePart::Thinking(thinking) => match write_thinking(thinking) {
                    Some(item) => Some(item),
                    None => {
                        losses.lose("reasoning");
                        continue;
                    }
                },
                _ => None,
            };
            if let Some(item) = item {
                flush(turn.role, &mut message, &mut items);
                items.push(item);
                continue;
            }
            message.extend(match (turn.role, part) {
                (Role::Assistant, _) => write_output(part, losses),
                _ => write_input(part, losses),
            });
        }
        flush(turn.role, &mut message, &mut items);
    }
    items
}

/// Ends a message, unless it is empty.
fn flush(role: Role, message: &mut Vec<Value>, items: &mut Vec<Value>) {
    if message.is_empty() {
        return;
    }
    items.push(json!({ "type": "message", "role": role.as_str(), "content": std::mem::take(message) }));
}

/// A part of an assistant message.
fn write_output(part: &MessagePart, losses: &mut Losses) -> Option<Value> {
    match part {
        MessagePart::Text { text, cache } => {
            lose_cache(cache.as_ref(), losses);
            Some(json!({ "type": "output_text", "text": text, "annotations": [] }))
        }
        MessagePart::Refusal(text) => Some(json!({ "type": "refusal", "refusal": text })),
        MessagePart::Image(_) => losses.part("image"),
        MessagePart::Document(_) => losses.part("document"),
        MessagePart::Audio(_) => losses.part("audio"),
        MessagePart::Thinking(_) | MessagePart::Call(_) | MessagePart::Result(_) => None,
    }
}

fn write_call(call: &ToolCall, losses: &mut Losses) -> Value {
    lose_cache(call.cache.as_ref(), losses);
    losses.lose_if(call.signature.is_some(), "thought_signature");
    let (id, name) = (&call.id, &call.name);
    if call.custom {
        return json!({ "type": "custom_tool_call", "call_id": id, "name": name, "input": call.arguments });
    }
    let arguments = if call.arguments.is_empty() { "{}" } else { call.arguments.as_str() };
    json!({ "type": "function_call", "call_id": id, "name": name, "arguments": arguments })
}

fn write_result(result: &ToolResult, losses: &mut Losses) -> Value {
    lose_cache(result.cache.as_ref(), losses);
    // Responses has no such member. The text contains the error.
    losses.lose_if(result.is_error, "is_error");
    let kind = if result.custom { "custom_tool_call_output" } else { "function_call_output" };
    let output = match result.parts.as_slice() {
        [] => Value::from(""),
        [MessagePart::Text { text, cache: None }] => Value::from(text.as_str()),
        parts => parts.iter().filter_map(|part| write_input(part, losses)).collect(),
    };
    json!({ "type": kind, "call_id": result.call_id, "output": output })
}

/// Reasoning that the Responses API made itself. None for other reasoning, which it would refuse.
fn write_thinking(thinking: &ReasoningPart) -> Option<Value> {
    let encrypted = thinking.signature.as_deref().and_then(|signature| own(SignatureOwner::Responses, signature))?;
    let mut item = json!({ "type": "reasoning", "summary": [], "encrypted_content": encrypted });
    if !thinking.text.is_empty() {
        item["summary"] = json!([{ "type": "summary_text", "text": thinking.text }]);
    }
    item.put("id", thinking.id.as_deref().filter(|id| !id.is_empty()));
    Some(item)
}

fn write_tool(tool: &Tool, losses: &mut Losses) -> Value {
    lose_cache(tool.cache.as_ref(), losses);
    let kind = if tool.custom { "custom" } else { "function" };
    let mut written = json!({ "type": kind, "name": tool.name });
    written.put("description", tool.description.as_deref());
    if tool.custom {
        written.put("format", tool.format.as_ref().map(write_grammar));
        return written;
    }
    let none = || json!({ "type": "object", "properties": {}, "additionalProperties": false });
    let parameters = tool.parameters.clone().unwrap_or_else(none);
    // Only this vendor is strict by default.
    written["strict"] = Value::from(strict_of(tool.strict, &parameters, losses).unwrap_or(false));
    written["parameters"] = parameters;
    written
}

/// Chat nests a grammar in an object.
fn write_grammar(format: &Value) -> Value {
    let mut flat = format.clone();
    if let (Some(grammar), Some(members)) = (format["grammar"].as_object(), flat.as_object_mut()) {
        members.shift_remove("grammar");
        members.extend(grammar.clone());
    }
    flat
}

fn write_choice(choice: &ToolChoice, tools: &[Tool]) -> Value {
    match choice {
        ToolChoice::Auto => Value::from("auto"),
        ToolChoice::None => Value::from("none"),
        ToolChoice::Required => Value::from("required"),
        ToolChoice::Named(name) => {
            let custom = tools.iter().any(|tool| tool.name == *name && tool.custom);
            json!({ "type": if custom { "custom" } else { "function" }, "name": name })
        }
    }
}

fn write_format(format: &Format, losses: &mut Losses) -> Option<Value> {
    match format {
        Format::Text => None,
        Format::Json => Some(json!({ "type": "json_object" })),
        Format::Schema { name, description, schema, strict } => {
            let name = name.as_deref().unwrap_or("response");
            let mut written = json!({ "type": "json_schema", "name": name, "schema": schema });
            written.put("description", description.as_deref());
            written.put("strict", strict_of(*strict, schema, losses));
            Some(written)
        }
    }
}

fn write_reasoning(reasoning: &Reasoning, losses: &mut Losses) -> Map<String, Value> {
    let mut written = Map::new();
    losses.lose_if(reasoning.is_off_without_effort(), "reasoning_effort");
    let effort = effort_of(reasoning);
    // The vendor's scale ends at XHigh.
    written.put("effort", effort.map(|effort| effort.min(Effort::XHigh).as_str()));
    let show = reasoning.show.unwrap_or(reasoning.enabled == Some(true));
    let thinks = effort != Some(Effort::None) && reasoning.enabled != Some(false);
    written.put("summary", (show && thinks).then_some("auto"));
    written
}

/// Whether thinking is requested. Then its thoughts are requested too, to be sent back with the next turn.
fn thinks(reasoning: &Reasoning) -> bool {
    let asked = reasoning.enabled == Some(true)
        || reasoning.encrypted
        || reasoning.show == Some(true)
        || reasoning.budget.is_some_and(|budget| budget > 0)
        || reasoning.effort.is_some();
    asked && reasoning.enabled != Some(false) && reasoning.effort != Some(Effort::None)
}

/// Writes a part of a user message or a tool result. None if the dialect does not support the part; that is reported to
/// `losses`.
fn write_input(part: &MessagePart, losses: &mut Losses) -> Option<Value> {
    lose_cache(part.cache(), losses);
    match part {
        MessagePart::Text { text, .. } | MessagePart::Refusal(text) => {
            Some(json!({ "type": "input_text", "text": text }))
        }
        MessagePart::Image(image) => {
            let detail = image.detail.as_deref().unwrap_or("auto");
            let url = url_of(&image.source, losses)?;
            Some(json!({ "type": "input_image", "image_url": url, "detail": detail }))
        }
        MessagePart::Document(document) => write_document(document, losses),
        MessagePart::Audio(audio) => Some(json!({
            "type": "input_audio", "input_audio": { "data": audio.data, "format": audio.format },
        })),
        // These are separate items.
        MessagePart::Thinking(_) | MessagePart::Call(_) | MessagePart::Result(_) => None,
    }
}

fn write_document(document: &Document, losses: &mut Losses) -> Option<Value> {
    match &document.source {
        Source::Text(text) => {
            let name = document.name.iter().map(|name| format!("{name}\n\n"));
            Some(json!({ "type": "input_text", "text": name.chain([text.clone()]).collect::<String>() }))
        }
        Source::Url(url) => Some(json!({ "type": "input_file", "file_url": url })),
        source => {
            let name = document.name.as_deref().unwrap_or(match source {
                Source::Base64 { media_type, .. } if media_type == "application/pdf" => "document.pdf",
                _ => "document",
            });
            let data = url_of(source, losses)?;
            Some(json!({ "type": "input_file", "filename": name, "file_data": data }))
        }
    }
}

/// A URL of the bytes. None if they are in one vendor's file store.
fn url_of(source: &Source, losses: &mut Losses) -> Option<String> {
    source.url().or_else(|| losses.part("file_id"))
}
