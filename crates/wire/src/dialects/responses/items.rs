//! Reads input items into turns. Consecutive items of the assistant become one turn.

use std::collections::HashMap;

use serde_json::Value;

use super::check::{members_of, optional, required, wrong_type};
use super::namespaces::joined;
use super::{Invalid, content};
use crate::translate::parameter::wrong_value;
use crate::translate::signature::{SignatureOwner, SignatureUse, held, own};
use crate::translate::{
    Conversation, ConversationTurn, Losses, MessagePart, ReasoningPart, Role, ToolCall, ToolResult,
};

const ROLES: [&str; 4] = ["assistant", "system", "developer", "user"];

/// Known members of items, apart from `type`, `id` and `status`.
const KNOWN: [(&str, &[&str]); 6] = [
    ("message", &["role", "content", "phase"]),
    ("function_call", &["call_id", "name", "namespace", "arguments", "parsed_arguments"]),
    ("custom_tool_call", &["call_id", "name", "namespace", "input"]),
    ("function_call_output", &["call_id", "output"]),
    ("custom_tool_call_output", &["call_id", "output"]),
    ("reasoning", &["summary", "content", "encrypted_content"]),
];
/// Known members of their parts.
const KNOWN_OF_PARTS: [(&str, &[&str]); 6] = [
    ("input_text", &["text"]),
    ("output_text", &["text", "parsed"]),
    ("refusal", &["refusal"]),
    ("input_image", &["image_url", "file_id", "detail"]),
    ("input_file", &["filename", "file_data", "file_url", "file_id"]),
    ("input_audio", &["input_audio"]),
];

fn tell(object: &Value, path: &str, known: &[&str], losses: &mut Losses) {
    let others = members_of(object).filter(|(name, _)| !matches!(name.as_str(), "type" | "id" | "status"));
    losses.lose_others(others, path, known);
}

/// Adds the turns of `input`.
pub(super) fn read(input: &Value, conversation: &mut Conversation) -> Result<(), Invalid> {
    let items = match input {
        Value::String(text) => {
            let parts = vec![MessagePart::Text { text: text.clone(), cache: None }];
            conversation.turns.push(ConversationTurn { role: Role::User, parts });
            return Ok(());
        }
        Value::Array(items) => items,
        _ => return Ok(()),
    };
    let mut reader = ItemReader { conversation, names: HashMap::new(), signature: None };
    items.iter().enumerate().try_for_each(|(at, item)| reader.item(item, &format!("input[{at}]")))
}

struct ItemReader<'a> {
    conversation: &'a mut Conversation,
    /// Function names, by call id.
    names: HashMap<String, String>,
    /// The signature of the next call.
    signature: Option<String>,
}

impl ItemReader<'_> {
    fn item(&mut self, item: &Value, path: &str) -> Result<(), Invalid> {
        if !item.is_object() {
            return Err(wrong_type(path, "an object", item));
        }
        let kind = optional(item, path, "type")?;
        // A bare id refers to an item that the vendor stored.
        let kind = match kind.as_deref() {
            None if item["role"].is_null() && item["id"].is_string() => "item_reference",
            None => "message",
            Some(kind) => kind,
        };
        self.tell_unknown(item, kind, path);
        match kind {
            "message" => self.message(item, path),
            "function_call" => self.call(item, path, "arguments"),
            "custom_tool_call" => self.call(item, path, "input"),
            "function_call_output" => self.output(item, path, false),
            "custom_tool_call_output" => self.output(item, path, true),
            "reasoning" => self.reasoning(item, path),
            // Items that the vendor runs or stores itself.
            _ => {
                self.conversation.losses.content(kind);
                Ok(())
            }
        }
    }

    /// Reports members that are not read here, but not those that repeat an earlier answer.
    fn tell_unknown(&mut self, item: &Value, kind: &str, path: &str) {
        let Some((_, known)) = KNOWN.iter().find(|(name, _)| *name == kind) else { return };
        tell(item, path, known, &mut self.conversation.losses);
        for list in ["content", "output"] {
            for (at, part) in item[list].as_array().into_iter().flatten().enumerate() {
                let found = KNOWN_OF_PARTS.iter().find(|(name, _)| part["type"] == *name);
                if let Some((_, known)) = found.filter(|_| kind != "reasoning") {
                    let (path, losses) = (format!("{path}.{list}[{at}]"), &mut self.conversation.losses);
                    tell(part, &path, known, losses);
                    let sound = members_of(&part["input_audio"]);
                    losses.lose_others(sound, &format!("{path}.input_audio"), &["data", "format"]);
                }
            }
        }
    }

    fn message(&mut self, item: &Value, path: &str) -> Result<(), Invalid> {
        let role = match required(item, path, "role")? {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "system" | "developer" => Role::System,
            other => return Err(wrong_value(&format!("{path}.role"), other, &ROLES)),
        };
        let parts = content::read(&item["content"], &format!("{path}.content"), role == Role::Assistant)?;
        match role {
            Role::User => self.conversation.turns.push(ConversationTurn { role, parts }),
            Role::Assistant => self.add(role, parts),
            Role::System => {
                let (texts, others): (Vec<MessagePart>, Vec<MessagePart>) =
                    parts.into_iter().partition(|part| matches!(part, MessagePart::Text { .. }));
                self.conversation.losses.lose_if(!others.is_empty(), &format!("{path}.content"));
                self.conversation.add_system(texts);
            }
        }
        Ok(())
    }

    fn call(&mut self, item: &Value, path: &str, arguments: &str) -> Result<(), Invalid> {
        let text = |name: &str| required(item, path, name).map(str::to_owned);
        let (id, name, arguments, custom) = (text("call_id")?, text("name")?, text(arguments)?, arguments == "input");
        let name = item["namespace"].as_str().map_or(name.clone(), |namespace| joined(namespace, &name));
        self.names.insert(id.clone(), name.clone());
        let call = ToolCall { id, name, arguments, custom, signature: self.signature.take(), cache: None };
        self.add(Role::Assistant, vec![MessagePart::Call(call)]);
        Ok(())
    }

    fn output(&mut self, item: &Value, path: &str, custom: bool) -> Result<(), Invalid> {
        let call_id = required(item, path, "call_id")?.to_owned();
        let parts = content::read(&item["output"], &format!("{path}.output"), false)?;
        let name = self.names.get(&call_id).cloned();
        self.conversation.add_result(ToolResult { call_id, name, parts, custom, ..ToolResult::default() });
        Ok(())
    }

    fn reasoning(&mut self, item: &Value, path: &str) -> Result<(), Invalid> {
        let encrypted = optional(item, path, "encrypted_content")?;
        let id = optional(item, path, "id")?;
        let mut thinking = ReasoningPart { text: content::thoughts(item), ..ReasoningPart::default() };
        match held(SignatureOwner::Responses, &encrypted.unwrap_or_default()) {
            SignatureUse::Thought(signature) => {
                if own(SignatureOwner::Responses, &signature).is_some() {
                    thinking.redacted = thinking.text.is_empty();
                    thinking.id = id;
                }
                thinking.signature = Some(signature);
            }
            SignatureUse::Redacted(data) => {
                thinking.signature = Some(data);
                thinking.redacted = true;
            }
            SignatureUse::Call(signature) => self.signature = Some(signature),
            SignatureUse::Unsigned => {}
        }
        if !thinking.text.is_empty() || thinking.signature.is_some() {
            self.add(Role::Assistant, vec![MessagePart::Thinking(thinking)]);
        }
        Ok(())
    }

    /// Adds to the last turn if it is of this role, else begins one.
    fn add(&mut self, role: Role, parts: Vec<MessagePart>) {
        match self.conversation.turns.last_mut() {
            Some(turn) if turn.role == role => turn.parts.extend(parts),
            _ => self.conversation.turns.push(ConversationTurn { role, parts }),
        }
    }
}
