//! Reads the messages of an `/api/chat` request as turns. `messages` writes them.

use serde_json::Value;

use crate::client_error::Invalid;
use crate::translate::members::{ObjectMembers, objects};
use crate::translate::open_calls::OpenCalls;
use crate::translate::parameter::{kind_of, wrong_type, wrong_value};
use crate::translate::{
    Conversation, ConversationTurn, Image, MessagePart, ReasoningPart, Role, Source, ToolCall, ToolResult,
};

const ROLES: [&str; 4] = ["system", "user", "assistant", "tool"];

/// Reads all messages into the conversation.
///
/// # Errors
/// What is wrong, with its place.
pub(super) fn read(list: Vec<ObjectMembers>, conversation: &mut Conversation) -> Result<(), Invalid> {
    let mut reader = TurnReader { conversation, calls: OpenCalls::default() };
    list.into_iter().try_for_each(|message| reader.message(message))
}

pub(super) fn text(text: String) -> MessagePart {
    MessagePart::Text { text, cache: None }
}

/// The images of a message or a prompt. They are bare base64: the first bytes tell the type.
pub(super) fn images(members: &mut ObjectMembers) -> Result<Vec<MessagePart>, Invalid> {
    let path = members.path_of("images");
    let images = match members.take("images") {
        None => return Ok(Vec::new()),
        Some(Value::Array(images)) => images,
        Some(other) => return Err(wrong_type(&path, "an array of strings", kind_of(&other))),
    };
    let image = |image| match image {
        Value::String(data) => Ok(MessagePart::Image(Image { source: image_source(data), detail: None, cache: None })),
        other => Err(wrong_type(&path, "an array of strings", kind_of(&other))),
    };
    images.into_iter().map(image).collect()
}

/// The first characters of images in base64.
const IMAGE_TYPES: [(&str, &str); 4] =
    [("iVBOR", "image/png"), ("/9j/", "image/jpeg"), ("R0lG", "image/gif"), ("UklG", "image/webp")];

fn image_source(data: String) -> Source {
    Source::of_data_url(&data).unwrap_or_else(|| {
        let known = IMAGE_TYPES.iter().find(|(start, _)| data.starts_with(start));
        let media_type = known.map_or("image/png", |(_, media_type)| media_type).to_owned();
        Source::Base64 { media_type, data }
    })
}

struct TurnReader<'a> {
    conversation: &'a mut Conversation,
    calls: OpenCalls,
}

impl TurnReader<'_> {
    fn message(&mut self, mut message: ObjectMembers) -> Result<(), Invalid> {
        let role = message.required_string("role")?;
        let mut parts = Vec::new();
        parts.extend(message.string("content")?.filter(|content| !content.is_empty()).map(text));
        parts.extend(images(&mut message)?);
        match role.as_str() {
            "system" if !parts.is_empty() => self.conversation.add_system(parts),
            "user" if !parts.is_empty() => self.push(Role::User, parts),
            "system" | "user" => {}
            "assistant" => self.assistant(&mut message, parts)?,
            "tool" => self.result(&mut message, parts)?,
            other => return Err(wrong_value(&message.path_of("role"), other, &ROLES)),
        }
        message.tell_rest(&mut self.conversation.losses);
        Ok(())
    }

    fn assistant(&mut self, message: &mut ObjectMembers, said: Vec<MessagePart>) -> Result<(), Invalid> {
        let thought = message.string("thinking")?.filter(|text| !text.is_empty());
        let thought = thought.map(|text| MessagePart::Thinking(ReasoningPart { text, ..ReasoningPart::default() }));
        let mut parts: Vec<MessagePart> = thought.into_iter().chain(said).collect();
        let path = message.path_of("tool_calls");
        for call in message.take("tool_calls").map_or(Ok(Vec::new()), |calls| objects(calls, &path))? {
            parts.push(MessagePart::Call(self.call(call)?));
        }
        if !parts.is_empty() {
            self.push(Role::Assistant, parts);
        }
        Ok(())
    }

    /// Older clients send calls without ids.
    fn call(&mut self, mut call: ObjectMembers) -> Result<ToolCall, Invalid> {
        let id = call.string("id")?;
        let mut function = call.required_object("function")?;
        let name = function.required_string("name")?;
        let arguments = match function.take("arguments") {
            None => String::new(),
            // OpenAI's form.
            Some(Value::String(text)) => text,
            Some(arguments @ Value::Object(_)) => arguments.to_string(),
            Some(other) => return Err(wrong_type(&function.path_of("arguments"), "an object", kind_of(&other))),
        };
        // Its own answers number the calls.
        function.take("index");
        call.take("type");
        function.tell_rest(&mut self.conversation.losses);
        call.tell_rest(&mut self.conversation.losses);
        let id = self.calls.call(id, &name);
        Ok(ToolCall { id, name, arguments, ..ToolCall::default() })
    }

    /// A result without an open call is a text of the user: other dialects refuse it.
    fn result(&mut self, message: &mut ObjectMembers, parts: Vec<MessagePart>) -> Result<(), Invalid> {
        let id = message.string("tool_call_id")?;
        let name = message.string("tool_name")?.or(message.string("name")?);
        let Some((call_id, name)) = self.calls.answer(id.as_deref(), name.as_deref()) else {
            self.conversation.losses.lose(message.path_of("role"));
            self.push(Role::User, parts);
            return Ok(());
        };
        self.conversation.add_result(ToolResult { call_id, name: Some(name), parts, ..ToolResult::default() });
        Ok(())
    }

    fn push(&mut self, role: Role, parts: Vec<MessagePart>) {
        self.conversation.turns.push(ConversationTurn { role, parts });
    }
}
