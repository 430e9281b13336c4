//! Reads the contents of a `generateContent` request as turns. `contents` writes them.
//!
//! Google's SDKs send an earlier answer as one content per event that they got, so neighbours of one speaker are
//! joined, and so are neighbouring texts in them.

use serde_json::Value;

use super::signed::read_signature;
use crate::client_error::Invalid;
use crate::translate::members::ObjectMembers;
use crate::translate::open_calls::OpenCalls;
use crate::translate::parameter::{kind_of, wrong_type, wrong_value};
use crate::translate::signature::SignatureUse;
use crate::translate::{
    Audio, Conversation, ConversationTurn, Document, Image, MessagePart, ReasoningPart, Role, Source, ToolCall,
    ToolResult,
};

const ROLES: [&str; 3] = ["user", "model", "function"];

/// Reads `systemInstruction`: a content, or a text.
///
/// # Errors
/// What is wrong, with its place.
pub(super) fn system(request: &mut ObjectMembers, conversation: &mut Conversation) -> Result<(), Invalid> {
    let mut content = match request.take("systemInstruction") {
        None => return Ok(()),
        Some(Value::String(said)) => {
            conversation.add_system(vec![text(said)]);
            return Ok(());
        }
        Some(content) => ObjectMembers::new(content, "systemInstruction".to_owned())?,
    };
    let mut parts = Vec::new();
    for mut part in content.objects("parts")? {
        parts.extend(part.string("text")?.filter(|said| !said.is_empty()).map(text));
        part.tell_rest(&mut conversation.losses);
    }
    content.take("role");
    content.tell_rest(&mut conversation.losses);
    if !parts.is_empty() {
        conversation.add_system(parts);
    }
    Ok(())
}

/// Reads all contents into the conversation.
///
/// # Errors
/// What is wrong, with its place.
pub(super) fn read(contents: Vec<ObjectMembers>, conversation: &mut Conversation) -> Result<(), Invalid> {
    let mut reader = ContentReader { conversation, calls: OpenCalls::default() };
    contents.into_iter().try_for_each(|content| reader.content(content))
}

fn text(text: String) -> MessagePart {
    MessagePart::Text { text, cache: None }
}

struct ContentReader<'a> {
    conversation: &'a mut Conversation,
    calls: OpenCalls,
}

impl ContentReader<'_> {
    fn content(&mut self, mut content: ObjectMembers) -> Result<(), Invalid> {
        let role = match content.string("role")?.as_deref() {
            None | Some("user" | "function") => Role::User,
            Some("model") => Role::Assistant,
            Some(other) => return Err(wrong_value(&content.path_of("role"), other, &ROLES)),
        };
        for part in content.objects("parts")? {
            self.part(part, role)?;
        }
        content.tell_rest(&mut self.conversation.losses);
        Ok(())
    }

    fn part(&mut self, mut part: ObjectMembers, role: Role) -> Result<(), Invalid> {
        let signature = part.string("thoughtSignature")?.unwrap_or_default();
        let is_thought = part.boolean("thought")? == Some(true);
        let said = part.string("text")?;
        if let Some(call) = part.object("functionCall")? {
            self.call(call, &signature)?;
        } else if let Some(result) = part.object("functionResponse")? {
            self.result(result)?;
        } else if is_thought || (!signature.is_empty() && said.as_deref().is_none_or(str::is_empty)) {
            self.thought(said.unwrap_or_default(), &signature);
        } else if let Some(said) = said {
            self.conversation.losses.lose_if(!signature.is_empty(), &part.path_of("thoughtSignature"));
            if !said.is_empty() {
                self.add(role, text(said));
            }
        } else if let Some(data) = part.object("inlineData")? {
            self.inline(data, role)?;
        } else if let Some(file) = part.object("fileData")? {
            self.file(file, role)?;
        }
        part.tell_rest(&mut self.conversation.losses);
        Ok(())
    }

    /// A signature ends a thought. One without a thought follows the thought that it is for.
    fn thought(&mut self, text: String, signature: &str) {
        let read = read_signature(signature);
        let (signature, redacted) = match read {
            SignatureUse::Thought(signature) => (Some(signature), false),
            SignatureUse::Redacted(data) => (Some(data), true),
            SignatureUse::Call(_) | SignatureUse::Unsigned => (None, false),
        };
        if !redacted
            && let Some(turn) = self.conversation.turns.last_mut().filter(|turn| turn.role == Role::Assistant)
            && let Some(MessagePart::Thinking(open)) = turn.parts.last_mut()
            && open.signature.is_none()
        {
            open.text.push_str(&text);
            open.signature = signature;
            return;
        }
        if !text.is_empty() || signature.is_some() {
            let thought = ReasoningPart { text, signature, redacted, ..ReasoningPart::default() };
            self.add(Role::Assistant, MessagePart::Thinking(thought));
        }
    }

    fn call(&mut self, mut call: ObjectMembers, signature: &str) -> Result<(), Invalid> {
        let name = call.required_string("name")?;
        let id = call.string("id")?;
        let arguments = match call.take("args") {
            None => String::new(),
            Some(arguments @ Value::Object(_)) => arguments.to_string(),
            Some(other) => return Err(wrong_type(&call.path_of("args"), "an object", kind_of(&other))),
        };
        let signature = match read_signature(signature) {
            SignatureUse::Thought(signature) | SignatureUse::Call(signature) => Some(signature),
            SignatureUse::Redacted(_) | SignatureUse::Unsigned => None,
        };
        let id = self.calls.call(id, &name);
        call.tell_rest(&mut self.conversation.losses);
        let call = ToolCall { id, name, arguments, signature, ..ToolCall::default() };
        self.add(Role::Assistant, MessagePart::Call(call));
        Ok(())
    }

    /// The text of a result is in one member of an object, or it is the object. A result without a call is a text of the
    /// user: other dialects refuse it.
    fn result(&mut self, mut result: ObjectMembers) -> Result<(), Invalid> {
        let (id, name) = (result.string("id")?, result.string("name")?);
        let response = result.take("response").unwrap_or_default();
        let only = response.as_object().filter(|members| members.len() == 1).and_then(|members| members.iter().next());
        let (said, is_error) = match only {
            Some((key, Value::String(said))) if ["output", "result", "content"].contains(&key.as_str()) => {
                (said.clone(), false)
            }
            Some((key, value)) if key == "error" => {
                (value.as_str().map_or_else(|| value.to_string(), str::to_owned), true)
            }
            _ => (response.to_string(), false),
        };
        let place = result.path_of("name");
        result.tell_rest(&mut self.conversation.losses);
        let Some((call_id, name)) = self.calls.answer(id.as_deref(), name.as_deref()) else {
            self.conversation.losses.lose(place);
            self.add(Role::User, text(said));
            return Ok(());
        };
        let parts = vec![text(said)];
        self.conversation.add_result(ToolResult {
            call_id,
            name: Some(name),
            parts,
            is_error,
            ..ToolResult::default()
        });
        Ok(())
    }

    fn inline(&mut self, mut data: ObjectMembers, role: Role) -> Result<(), Invalid> {
        let media_type = data.required_string("mimeType")?.to_ascii_lowercase();
        let bytes = data.required_string("data")?;
        let name = data.string("displayName")?;
        let is_file = !["image", "audio", "video"].iter().any(|kind| media_type.starts_with(kind));
        self.conversation.losses.lose_if(name.is_some() && !is_file, &data.path_of("displayName"));
        data.tell_rest(&mut self.conversation.losses);
        let part = match media_type.split('/').next() {
            Some("image") => {
                let source = Source::Base64 { media_type, data: bytes };
                MessagePart::Image(Image { source, detail: None, cache: None })
            }
            Some("audio") => {
                let format = media_type.trim_start_matches("audio/").trim_start_matches("x-");
                let format = if format == "mpeg" { "mp3" } else { format }.to_owned();
                MessagePart::Audio(Audio { format, data: bytes })
            }
            Some("video") => {
                self.conversation.losses.content(media_type);
                return Ok(());
            }
            _ => {
                let source = Source::Base64 { media_type, data: bytes };
                MessagePart::Document(Document { source, name, cache: None })
            }
        };
        self.add(role, part);
        Ok(())
    }

    /// An address. Google's own files have addresses that other vendors cannot read.
    fn file(&mut self, mut file: ObjectMembers, role: Role) -> Result<(), Invalid> {
        let uri = file.required_string("fileUri")?;
        let media_type = file.string("mimeType")?.unwrap_or_default();
        let name = file.string("displayName")?;
        let own = uri.starts_with("gs://") || uri.starts_with("https://generativelanguage.googleapis.com/");
        let source = if own { Source::File(uri) } else { Source::Url(uri) };
        let is_image = media_type.starts_with("image/");
        self.conversation.losses.lose_if(name.is_some() && is_image, &file.path_of("displayName"));
        file.tell_rest(&mut self.conversation.losses);
        let part = if is_image {
            MessagePart::Image(Image { source, detail: None, cache: None })
        } else {
            MessagePart::Document(Document { source, name, cache: None })
        };
        self.add(role, part);
        Ok(())
    }

    /// Adds to the last turn if it has the same role, and a text to the text before it.
    fn add(&mut self, role: Role, part: MessagePart) {
        let turns = &mut self.conversation.turns;
        let Some(turn) = turns.last_mut().filter(|turn| turn.role == role && !has_results(turn)) else {
            turns.push(ConversationTurn { role, parts: vec![part] });
            return;
        };
        match (turn.parts.last_mut(), part) {
            (Some(MessagePart::Text { text: before, .. }), MessagePart::Text { text, .. })
                if role == Role::Assistant =>
            {
                before.push_str(&text);
            }
            (_, part) => turn.parts.push(part),
        }
    }
}

fn has_results(turn: &ConversationTurn) -> bool {
    turn.parts.iter().any(|part| matches!(part, MessagePart::Result(_)))
}
