//! Writes a conversation as a chat request: turns, tools and options. Reports what cannot be written.
//!
//! `top_k` is sent to all servers except OpenAI: most support it, and others report an error. Metadata is not sent:
//! OpenAI accepts it only with `store`.

use serde_json::{Map, Value};

use photofinish_wire::conversation::outgoing::{
    effort_of, lose_cache, lose_metadata, openai_tier, openai_user, results_first, strict_of, system_texts,
};
use photofinish_wire::conversation::{
    Audio, Conversation, ConversationTurn, Document, Effort, Format, Image, Losses, MessagePart, Reasoning, Role,
    Sampling, Source, Tool, ToolCall, ToolChoice, ToolResult,
};
use photofinish_wire::json::values::{PutMember, json};
use photofinish_wire::quirks::{PastReasoning, Quirks, TranslationOptions, fit_turns};

/// Maximum stop sequences that OpenAI accepts.
const STOPS_MAX: usize = 4;

/// Writes a conversation as a chat request.
pub fn request(conversation: &Conversation, options: &TranslationOptions, losses: &mut Losses) -> Value {
    let mut body = Map::new();
    body.put("model", Some(options.model.as_str()));
    let mut messages = Value::Array(messages(conversation, &options.quirks, losses));
    fit_turns(&mut messages, &Quirks { result_media: false, ..options.quirks }, losses);
    body.put("messages", Some(messages));
    if !conversation.tools.is_empty() {
        body.put("tools", Some(conversation.tools.iter().map(|tool| tool_of(tool, losses)).collect::<Value>()));
        let asked = conversation.tool_choice.as_ref().map(|choice| options.quirks.choice(choice, losses));
        body.put("tool_choice", asked.map(|choice| choice_of(&choice, &conversation.tools)));
        body.put("parallel_tool_calls", conversation.parallel_calls());
    }
    body.put("response_format", conversation.format.as_ref().and_then(|format| format_of(format, losses)));
    let effort = conversation.reasoning.as_ref().and_then(|reasoning| effort(reasoning, options, losses));
    body.put("reasoning_effort", effort);
    body.put("verbosity", conversation.verbosity.as_deref());
    sampling(&conversation.sampling, options, &mut body, losses);
    body.put("user", openai_user(conversation, losses));
    lose_metadata(conversation, losses);
    body.put("service_tier", openai_tier(conversation, losses));
    Value::Object(body)
}

fn tool_of(tool: &Tool, losses: &mut Losses) -> Value {
    lose_cache(tool.cache.as_ref(), losses);
    let mut inner = json!({ "name": tool.name });
    inner.put("description", tool.description.as_deref());
    if tool.custom {
        inner.put("format", tool.format.as_ref().map(grammar_of));
        return json!({ "type": "custom", "custom": inner });
    }
    inner.put("parameters", tool.parameters.clone());
    // `strict` is useless without parameters.
    inner.put("strict", tool.parameters.as_ref().and_then(|schema| strict_of(tool.strict, schema, losses)));
    json!({ "type": "function", "function": inner })
}

/// Chat nests a grammar in an object.
pub fn grammar_of(format: &Value) -> Value {
    match (format.get("type").and_then(Value::as_str), format.get("definition")) {
        (Some("grammar"), Some(definition)) => json!({
            "type": "grammar", "grammar": { "definition": definition, "syntax": format["syntax"] },
        }),
        _ => format.clone(),
    }
}

fn choice_of(choice: &ToolChoice, tools: &[Tool]) -> Value {
    match choice {
        ToolChoice::Auto => Value::from("auto"),
        ToolChoice::None => Value::from("none"),
        ToolChoice::Required => Value::from("required"),
        ToolChoice::Named(name) if tools.iter().any(|tool| tool.custom && tool.name == *name) => {
            json!({ "type": "custom", "custom": { "name": name } })
        }
        ToolChoice::Named(name) => json!({ "type": "function", "function": { "name": name } }),
    }
}

fn format_of(format: &Format, losses: &mut Losses) -> Option<Value> {
    match format {
        Format::Text => None,
        Format::Json => Some(json!({ "type": "json_object" })),
        Format::Schema { name, description, schema, strict } => {
            let name = name.as_deref().unwrap_or("answer");
            let mut inner = json!({ "name": name });
            inner.put("description", description.as_deref());
            inner.put("schema", Some(schema.clone()));
            inner.put("strict", strict_of(*strict, schema, losses));
            Some(json!({ "type": "json_schema", "json_schema": inner }))
        }
    }
}

/// Chat has efforts but no budgets, and no switch for showing thoughts.
fn effort(reasoning: &Reasoning, options: &TranslationOptions, losses: &mut Losses) -> Option<Value> {
    losses.lose_if(reasoning.encrypted, "reasoning.encrypted_content");
    losses.lose_if(reasoning.show == Some(false), "reasoning.exclude");
    let has_budget = reasoning.effort.is_none() && reasoning.enabled != Some(false) && reasoning.budget.is_some();
    losses.lose_if(has_budget, "budget_tokens");
    losses.lose_if(reasoning.is_off_without_effort(), "reasoning_effort");
    let effort = effort_of(reasoning)?;
    // OpenAI's scale ends here.
    let most = if options.quirks.max_completion_tokens { Effort::XHigh } else { Effort::Max };
    Some(Value::from(effort.min(most).as_str()))
}

/// OpenAI itself accepts no `top_k` and only a few stop sequences.
fn sampling(sampling: &Sampling, options: &TranslationOptions, body: &mut Map<String, Value>, losses: &mut Losses) {
    let is_openai = options.quirks.max_completion_tokens;
    let stops_max = if is_openai { STOPS_MAX } else { usize::MAX };
    losses.lose_if(is_openai && sampling.top_k.is_some(), "top_k");
    losses.lose_if(sampling.stop.len() > stops_max, "stop");
    let stop: Vec<&str> = sampling.stop.iter().map(String::as_str).take(stops_max).collect();
    body.put(
        if is_openai { "max_completion_tokens" } else { "max_tokens" },
        options.quirks.limit(sampling.max_tokens, losses),
    );
    body.put("temperature", sampling.temperature);
    body.put("top_p", sampling.top_p);
    body.put("top_k", sampling.top_k.filter(|_| !is_openai));
    body.put("presence_penalty", sampling.presence_penalty);
    body.put("frequency_penalty", sampling.frequency_penalty);
    body.put("seed", sampling.seed);
    body.put("n", sampling.n);
    body.put("stop", (!stop.is_empty()).then_some(stop));
    body.put("logprobs", sampling.logprobs);
    body.put("top_logprobs", sampling.top_logprobs);
    body.put("logit_bias", sampling.logit_bias.clone());
}

// Writes the turns of a conversation as chat messages.
//
// Parts without a place in chat move: tool results directly after their calls, their images and files into a user
// message after them, and the texts of a message into one string (many servers accept nothing else). Thoughts are sent
// back as the vendor takes them.

/// Joins texts.
const GAP: &str = "\n\n";

/// Writes all messages.
pub(super) fn messages(conversation: &Conversation, quirks: &Quirks, losses: &mut Losses) -> Vec<Value> {
    let mut writing = TurnsWriter { messages: Vec::new(), losses, past_reasoning: quirks.past_reasoning };
    if !conversation.system.is_empty() {
        writing.system(&conversation.system);
    }
    let turns = results_first(&conversation.turns);
    // After the user's last words there are only tool calls: the current loop. Words together with results do not end
    // it.
    let loop_start = turns.iter().rposition(|turn| turn.role == Role::User && !has_results(turn)).unwrap_or(0);
    let mut at = 0;
    while let Some(turn) = turns.get(at) {
        let run = turns[at..].iter().take_while(|next| next.role == turn.role).count();
        let same = &turns[at..at + run];
        match turn.role {
            Role::System => same.iter().for_each(|turn| writing.system(&turn.parts)),
            Role::User => writing.user(same),
            Role::Assistant => writing.assistant(same, at > loop_start),
        }
        at += run;
    }
    writing.messages
}

fn has_results(turn: &ConversationTurn) -> bool {
    turn.parts.iter().any(|part| matches!(part, MessagePart::Result(_)))
}

struct TurnsWriter<'a> {
    messages: Vec<Value>,
    losses: &'a mut Losses,
    past_reasoning: PastReasoning,
}

impl TurnsWriter<'_> {
    fn system(&mut self, parts: &[MessagePart]) {
        let text = system_texts(parts, self.losses).join(GAP);
        self.messages.push(json!({ "role": "system", "content": text }));
    }

    /// Consecutive user turns: results first, because they must follow the calls.
    fn user(&mut self, turns: &[&ConversationTurn]) {
        for result in turns.iter().flat_map(|turn| &turn.parts).filter_map(as_result) {
            let content = self.result(result);
            self.messages.push(json!({ "role": "tool", "tool_call_id": result.call_id, "content": content }));
        }
        for turn in turns {
            let parts: Vec<Value> = turn.parts.iter().filter_map(|part| self.user_part(part)).collect();
            if !parts.is_empty() || turn.parts.is_empty() {
                self.messages.push(json!({ "role": "user", "content": content_of(parts, GAP) }));
            }
        }
    }

    /// A text, if there is only text.
    fn result(&mut self, result: &ToolResult) -> Value {
        lose_cache(result.cache.as_ref(), self.losses);
        self.losses.lose_if(result.is_error, "is_error");
        content_of(result.parts.iter().filter_map(|part| self.user_part(part)).collect(), "\n")
    }

    /// None for a result, which is a separate message, and for lost parts.
    fn user_part(&mut self, part: &MessagePart) -> Option<Value> {
        lose_cache(part.cache(), self.losses);
        match part {
            MessagePart::Text { text, .. } | MessagePart::Refusal(text) => {
                Some(json!({ "type": "text", "text": text }))
            }
            MessagePart::Image(image) => self.image(image),
            MessagePart::Document(document) => self.document(document),
            MessagePart::Audio(Audio { format, data }) => {
                Some(json!({ "type": "input_audio", "input_audio": { "data": data, "format": format } }))
            }
            MessagePart::Result(_) => None,
            MessagePart::Thinking(_) => self.losses.part("thinking"),
            MessagePart::Call(_) => self.losses.part("tool_calls"),
        }
    }

    fn image(&mut self, image: &Image) -> Option<Value> {
        let Some(url) = image.source.url() else {
            return self.losses.part(if matches!(image.source, Source::File(_)) { "file_id" } else { "image" });
        };
        let mut inner = json!({ "url": url });
        inner.put("detail", image.detail.as_deref());
        Some(json!({ "type": "image_url", "image_url": inner }))
    }

    fn document(&mut self, document: &Document) -> Option<Value> {
        match &document.source {
            Source::Base64 { media_type, data } => Some(json!({ "type": "file", "file": {
                "filename": document.name.as_deref().unwrap_or("document.pdf"),
                "file_data": format!("data:{media_type};base64,{data}"),
            } })),
            Source::Text(text) => {
                let title = document.name.as_deref().map(|name| format!("{name}{GAP}")).unwrap_or_default();
                Some(json!({ "type": "text", "text": format!("{title}{text}") }))
            }
            Source::File(_) => self.losses.part("file_id"),
            Source::Url(_) => self.losses.part("document_url"),
        }
    }

    /// Consecutive assistant turns become one message: parallel calls must be in one.
    fn assistant(&mut self, turns: &[&ConversationTurn], in_loop: bool) {
        let (mut texts, mut thoughts, mut calls) = (Vec::new(), Vec::new(), Vec::new());
        for part in turns.iter().flat_map(|turn| &turn.parts) {
            lose_cache(part.cache(), self.losses);
            match part {
                // Only OpenAI has a member for refusals.
                MessagePart::Text { text, .. } | MessagePart::Refusal(text) => texts.push(text.as_str()),
                MessagePart::Thinking(thinking) => {
                    self.losses.lose_if(thinking.signature.is_some(), "signature");
                    if !thinking.text.is_empty() {
                        thoughts.push(thinking.text.as_str());
                    }
                }
                MessagePart::Call(call) => calls.push(self.call(call)),
                MessagePart::Image(_) => self.losses.content("image"),
                MessagePart::Document(_) => self.losses.content("document"),
                MessagePart::Audio(_) => self.losses.content("audio"),
                MessagePart::Result(_) => self.losses.content("tool_result"),
            }
        }
        let content = (!texts.is_empty() || calls.is_empty()).then(|| texts.join(GAP));
        let mut message = json!({ "role": "assistant", "content": content });
        let takes_thoughts = !calls.is_empty()
            && match self.past_reasoning {
                PastReasoning::Refused | PastReasoning::Never => false,
                PastReasoning::Loop => in_loop,
                PastReasoning::Wanted => true,
            };
        self.losses.lose_if(!takes_thoughts && !thoughts.is_empty(), "thinking");
        message.put("reasoning_content", (takes_thoughts && !thoughts.is_empty()).then(|| thoughts.join(GAP)));
        message.put("tool_calls", (!calls.is_empty()).then_some(calls));
        self.messages.push(message);
    }

    fn call(&mut self, call: &ToolCall) -> Value {
        self.losses.lose_if(call.signature.is_some(), "thought_signature");
        let id = &call.id;
        if call.custom {
            let custom = json!({ "name": call.name, "input": call.arguments });
            return json!({ "id": id, "type": "custom", "custom": custom });
        }
        let arguments = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
        json!({ "id": id, "type": "function", "function": { "name": call.name, "arguments": arguments } })
    }
}

fn as_result(part: &MessagePart) -> Option<&ToolResult> {
    match part {
        MessagePart::Result(result) => Some(result),
        _ => None,
    }
}

/// A string, if there is only text.
fn content_of(parts: Vec<Value>, gap: &str) -> Value {
    let texts: Option<Vec<&str>> = parts.iter().map(|part| part.get("text").and_then(Value::as_str)).collect();
    match texts {
        Some(texts) => Value::from(texts.join(gap)),
        None => Value::Array(parts),
    }
}
