//! Reads the messages of a chat request as turns. `parts` reads their content.

use std::collections::HashMap;

use serde_json::Value;

use super::parts::{self, Speaker};
use crate::client_error::Invalid;
use crate::translate::members::ObjectMembers;
use crate::translate::parameter::{kind_of, missing, wrong_type, wrong_value};
use crate::translate::{CacheHint, Conversation, ConversationTurn, Losses, MessagePart, Role, ToolCall, ToolResult};

const ROLES: [&str; 6] = ["system", "assistant", "user", "function", "tool", "developer"];
/// The speaker's name. Agent frameworks send it with every message, so it is reported once and not by message.
const SPEAKER_NAME: &str = "messages.name";
/// Maximum ids that an error names.
const IDS_MAX: usize = 8;

/// Reads all messages into the conversation.
///
/// # Errors
/// The problem, in the vendor's words.
pub(super) fn read(list: Vec<ObjectMembers>, conversation: &mut Conversation) -> Result<(), Invalid> {
    let mut reading = MessageReader { conversation, calls: HashMap::new(), ids: Vec::new(), function: None };
    let count = list.len();
    for (at, message) in list.into_iter().enumerate() {
        reading.message(message, at)?;
    }
    reading.all_answered(count)
}

struct MessageReader<'a> {
    conversation: &'a mut Conversation,
    /// Calls of the last assistant message, by id.
    calls: HashMap<String, UnansweredCall>,
    /// Their ids, in order.
    ids: Vec<String>,
    /// Id and name of the last legacy function call.
    function: Option<(String, String)>,
}

/// A call that must be answered.
struct UnansweredCall {
    name: String,
    custom: bool,
    answered: bool,
}

impl MessageReader<'_> {
    fn message(&mut self, mut message: ObjectMembers, at: usize) -> Result<(), Invalid> {
        let role = message.required_string("role")?;
        if role != "tool" && role != "function" {
            self.all_answered(at)?;
        }
        let cache = message.take("cache_control").map(|value| parts::cache_hint(&value));
        match role.as_str() {
            "system" | "developer" => {
                let content = self.content(&mut message, Speaker::System, cache)?;
                self.conversation.add_system(content);
            }
            "user" => {
                let content = self.content(&mut message, Speaker::User, cache)?;
                self.conversation.turns.push(ConversationTurn { role: Role::User, parts: content });
            }
            "assistant" => self.assistant(&mut message, at, cache)?,
            "tool" => self.tool(&mut message, at, cache)?,
            "function" => self.function(&mut message, cache)?,
            other => return Err(wrong_value(&message.path_of("role"), other, &ROLES)),
        }
        self.conversation.losses.lose_if(message.take("name").is_some(), SPEAKER_NAME);
        message.tell_rest(&mut self.conversation.losses);
        Ok(())
    }

    /// Required content.
    fn content(
        &mut self,
        message: &mut ObjectMembers,
        speaker: Speaker,
        cache: Option<CacheHint>,
    ) -> Result<Vec<MessagePart>, Invalid> {
        let path = message.path_of("content");
        let content = message.take("content").ok_or_else(|| no_content(path.replacen('[', ".[", 1)))?;
        let mut content = parts::read(content, &path, speaker, &mut self.conversation.losses)?;
        parts::mark(&mut content, cache);
        Ok(content)
    }

    fn assistant(&mut self, message: &mut ObjectMembers, at: usize, cache: Option<CacheHint>) -> Result<(), Invalid> {
        let mut turn = parts::thinking_of(message);
        let path = message.path_of("content");
        let content = match message.take("content") {
            Some(Value::String(text)) if text.is_empty() => Some(Vec::new()),
            Some(content) => Some(parts::read(content, &path, Speaker::Assistant, &mut self.conversation.losses)?),
            None => None,
        };
        let empty = content.is_none();
        turn.extend(content.into_iter().flatten());
        let refusal = message.string("refusal")?.filter(|text| !text.is_empty());
        turn.extend(refusal.map(MessagePart::Refusal));
        turn.extend(parts::images_of(message));
        turn.extend(self.calls(message, at)?);
        if turn.is_empty() && empty && !message.has("audio") {
            return Err(no_content(format!("messages.[{at}].content")));
        }
        parts::mark(&mut turn, cache);
        self.conversation.turns.push(ConversationTurn { role: Role::Assistant, parts: turn });
        Ok(())
    }

    fn calls(&mut self, message: &mut ObjectMembers, at: usize) -> Result<Vec<MessagePart>, Invalid> {
        let mut calls = Vec::new();
        for mut call in message.objects("tool_calls")? {
            let read = read_call(&mut call, &mut self.conversation.losses)?;
            let open = UnansweredCall { name: read.name.clone(), custom: read.custom, answered: false };
            if self.calls.insert(read.id.clone(), open).is_none() {
                self.ids.push(read.id.clone());
            }
            calls.push(MessagePart::Call(read));
            call.tell_rest(&mut self.conversation.losses);
        }
        if let Some(mut function) = message.object("function_call")? {
            let name = function.required_string("name")?;
            let arguments = function.string("arguments")?.unwrap_or_default();
            // Legacy calls have no ids. The position makes this one unique.
            let id = format!("call_{at}");
            self.function = Some((id.clone(), name.clone()));
            calls.push(MessagePart::Call(ToolCall { id, name, arguments, ..ToolCall::default() }));
            function.tell_rest(&mut self.conversation.losses);
        }
        Ok(calls)
    }

    fn tool(&mut self, message: &mut ObjectMembers, at: usize, cache: Option<CacheHint>) -> Result<(), Invalid> {
        if self.calls.is_empty() {
            return Err(Invalid {
                message: "Invalid parameter: messages with role 'tool' must be a response to a preceding message with \
                          'tool_calls'."
                    .to_owned(),
                param: Some(format!("messages.[{at}].role")),
            });
        }
        let call_id = message.required_string("tool_call_id")?;
        let Some(open) = self.calls.get_mut(&call_id) else {
            return Err(Invalid {
                message: "Invalid parameter: 'tool_call_id' not found in 'tool_calls' of previous message.".to_owned(),
                param: Some(format!("messages.[{at}].tool_call_id")),
            });
        };
        open.answered = true;
        let (name, custom) = (open.name.clone(), open.custom);
        message.take("name");
        let is_error = message.boolean("is_error")?.unwrap_or(false);
        let parts = self.content(message, Speaker::Tool, None)?;
        self.conversation.add_result(ToolResult { call_id, name: Some(name), parts, is_error, custom, cache });
        Ok(())
    }

    fn function(&mut self, message: &mut ObjectMembers, cache: Option<CacheHint>) -> Result<(), Invalid> {
        let name = message.required_string("name")?;
        let Some((call_id, _)) = self.function.take_if(|(_, called)| *called == name) else {
            return Err(Invalid {
                message: "Invalid parameter: messages with role 'function' must be a response to a preceding message \
                          with 'function_call'."
                    .to_owned(),
                param: Some(message.path_of("name")),
            });
        };
        let path = message.path_of("content");
        let parts = match message.take("content") {
            None => Vec::new(),
            Some(content) => parts::read(content, &path, Speaker::Tool, &mut self.conversation.losses)?,
        };
        let name = Some(name);
        self.conversation.add_result(ToolResult { call_id, name, parts, cache, ..ToolResult::default() });
        Ok(())
    }

    /// Forgets the calls of the last assistant message.
    fn all_answered(&mut self, at: usize) -> Result<(), Invalid> {
        let calls = std::mem::take(&mut self.calls);
        let open =
            std::mem::take(&mut self.ids).into_iter().filter(|id| calls.get(id).is_some_and(|call| !call.answered));
        let ids: Vec<String> = open.take(IDS_MAX).map(|id| id.chars().take(64).collect()).collect();
        if ids.is_empty() {
            return Ok(());
        }
        Err(Invalid {
            message: format!(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each \
                 'tool_call_id'. The following tool_call_ids did not have response messages: {}",
                ids.join(", ")
            ),
            param: Some(format!("messages.[{at}].role")),
        })
    }
}

fn no_content(param: String) -> Invalid {
    let message = "Invalid value for 'content': expected a string, got null.".to_owned();
    Invalid { message, param: Some(param) }
}

fn read_call(call: &mut ObjectMembers, losses: &mut Losses) -> Result<ToolCall, Invalid> {
    let id = call.required_string("id")?;
    call.take("index");
    let signature = parts::call_signature(call);
    let kind = call.string("type")?.unwrap_or_else(|| "function".to_owned());
    let cache = call.take("cache_control").map(|value| parts::cache_hint(&value));
    let custom = match kind.as_str() {
        "function" => false,
        "custom" => true,
        other => return Err(wrong_value(&call.path_of("type"), other, &["function", "custom"])),
    };
    let (member, text) = if custom { ("custom", "input") } else { ("function", "arguments") };
    let mut function = call.required_object(member)?;
    let name = function.required_string("name")?;
    let arguments = match function.take(text) {
        Some(Value::String(arguments)) => arguments,
        // Some clients send the parsed arguments.
        Some(object @ Value::Object(_)) => object.to_string(),
        Some(other) => return Err(wrong_type(&function.path_of(text), "a string", kind_of(&other))),
        None if custom => return Err(missing(&function.path_of(text))),
        None => String::new(),
    };
    function.tell_rest(losses);
    Ok(ToolCall { id, name, arguments, signature, custom, cache })
}
