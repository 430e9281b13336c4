//! Reads a request to `/api/chat` or `/api/generate` as a conversation: its options and messages. Not for
//! requests that are passed through: see [`check_chat`] and [`check_generate`].

use serde_json::Value;

use photofinish_wire::client_error::Invalid;
use photofinish_wire::conversation::call_ids::OpenCalls;
use photofinish_wire::conversation::members::{
    ARRAY, BOOLEAN, OBJECT, ObjectMembers, STRING, TypeRule, check_types, kind_of, kind_of_text, objects, wrong_type,
    wrong_value,
};
use photofinish_wire::conversation::{
    Conversation, ConversationTurn, Effort, Format, Image, Losses, MessagePart, Reasoning, ReasoningPart, Role,
    Sampling, Source, Tool, ToolCall, ToolResult,
};
use photofinish_wire::json::numbers::parse;

/// Options with the value that changes nothing.
const NEUTRAL: [(&str, f64); 6] = [
    ("repeat_penalty", 1.0),
    ("min_p", 0.0),
    ("typical_p", 1.0),
    ("tfs_z", 1.0),
    ("mirostat", 0.0),
    ("repeat_last_n", 0.0),
];
const CHAT_TYPES: [TypeRule; 4] = [
    (&["messages", "tools"], "an array of objects", ARRAY),
    (&["options"], "an object", OBJECT),
    (&["format"], "one of a string or object", &["a string", "an object"]),
    (&["logprobs"], "a boolean", BOOLEAN),
];
const GENERATE_TYPES: [TypeRule; 5] = [
    (&["prompt", "suffix", "system", "template"], "a string", STRING),
    (&["images", "context"], "an array", ARRAY),
    (&["options"], "an object", OBJECT),
    (&["format"], "one of a string or object", &["a string", "an object"]),
    (&["raw", "logprobs"], "a boolean", BOOLEAN),
];

/// Checks the top level of a request to `/api/chat`.
///
/// # Errors
/// The first member with a wrong type.
pub fn check_chat<'a>(member: &dyn Fn(&str) -> Option<&'a str>) -> Result<(), Invalid> {
    check_types(&CHAT_TYPES, &|name| member(name).map(kind_of_text))
}

/// Checks the top level of a request to `/api/generate`.
///
/// # Errors
/// The first member with a wrong type.
pub fn check_generate<'a>(member: &dyn Fn(&str) -> Option<&'a str>) -> Result<(), Invalid> {
    check_types(&GENERATE_TYPES, &|name| member(name).map(kind_of_text))
}

/// Reads a request to `/api/chat` for translation.
///
/// # Errors
/// What is wrong, with its place.
pub fn chat(body: &[u8]) -> Result<Conversation, Invalid> {
    let mut request = members(body)?;
    let mut conversation = Conversation::default();
    read(request.objects("messages")?, &mut conversation)?;
    for mut tool in request.objects("tools")? {
        conversation.tools.extend(read_tool(&mut tool, &mut conversation.losses)?);
        tool.tell_rest(&mut conversation.losses);
    }
    settings(request, &mut conversation)?;
    Ok(conversation)
}

/// Reads a request to `/api/generate` for translation: one question of the user. A request with `raw`, `template`,
/// `suffix` or `context` is about the model's own prompt format, which no other dialect has.
///
/// # Errors
/// What is wrong, with its place.
pub fn generate(body: &[u8]) -> Result<Conversation, Invalid> {
    let mut request = members(body)?;
    let mut conversation = Conversation::default();
    if let Some(system) = request.string("system")?.filter(|text| !text.is_empty()) {
        conversation.add_system(vec![text(system)]);
    }
    let mut parts = Vec::new();
    parts.extend(request.string("prompt")?.filter(|text| !text.is_empty()).map(text));
    parts.extend(images(&mut request)?);
    conversation.turns.push(ConversationTurn { role: Role::User, parts });
    for name in ["suffix", "template"] {
        let given = request.string(name)?.is_some_and(|text| !text.is_empty());
        conversation.losses.lose_if(given, name);
    }
    let raw = request.boolean("raw")? == Some(true);
    conversation.losses.lose_if(raw, "raw");
    settings(request, &mut conversation)?;
    Ok(conversation)
}

/// The request without the members that are set for each upstream.
fn members(body: &[u8]) -> Result<ObjectMembers, Invalid> {
    let unreadable = |_| Invalid { message: "the body is not valid JSON".to_owned(), param: None };
    let mut request = ObjectMembers::new(parse(body).map_err(unreadable)?, String::new())?;
    for name in ["model", "stream"] {
        request.take(name);
    }
    Ok(request)
}

/// What both requests have. Reports the rest as lost.
fn settings(mut request: ObjectMembers, conversation: &mut Conversation) -> Result<(), Invalid> {
    conversation.format = format(&mut request)?;
    conversation.reasoning = reasoning(&mut request)?;
    if let Some(options) = request.object("options")? {
        conversation.sampling = sampling(options, &mut conversation.losses)?;
    }
    conversation.sampling.logprobs = request.boolean("logprobs")?.filter(|wanted| *wanted);
    conversation.sampling.top_logprobs = request.count("top_logprobs", 0)?.filter(|count| *count > 0);
    request.tell_rest(&mut conversation.losses);
    Ok(())
}

/// None for a tool that is no function.
fn read_tool(tool: &mut ObjectMembers, losses: &mut Losses) -> Result<Option<Tool>, Invalid> {
    let kind = tool.string("type")?.unwrap_or_else(|| "function".to_owned());
    if kind != "function" {
        losses.content(kind);
        return Ok(None);
    }
    let mut function = tool.required_object("function")?;
    let parameters = function.schema("parameters")?;
    let (name, description) = (function.required_string("name")?, function.string("description")?);
    let strict = function.boolean("strict")?;
    function.tell_rest(losses);
    Ok(Some(Tool { name, description, parameters, strict, ..Tool::default() }))
}

/// An empty string means no format.
fn format(request: &mut ObjectMembers) -> Result<Option<Format>, Invalid> {
    match request.take("format") {
        None => Ok(None),
        Some(Value::String(word)) => match word.as_str() {
            "" => Ok(None),
            "json" => Ok(Some(Format::Json)),
            other => Err(wrong_value("format", other, &["json", "a JSON schema"])),
        },
        Some(schema @ Value::Object(_)) => {
            Ok(Some(Format::Schema { name: None, description: None, schema, strict: None }))
        }
        Some(other) => Err(wrong_type("format", "one of a string or object", kind_of(&other))),
    }
}

/// `think` is a switch, or a level for models that have levels.
fn reasoning(request: &mut ObjectMembers) -> Result<Option<Reasoning>, Invalid> {
    let read = match request.take("think") {
        None => return Ok(None),
        Some(Value::Bool(on)) => Reasoning { enabled: Some(on), show: on.then_some(true), ..Reasoning::default() },
        Some(Value::String(word)) => match Effort::from_name(&word) {
            Some(effort) => Reasoning { effort: Some(effort), show: Some(true), ..Reasoning::default() },
            None => return Err(wrong_value("think", &word, &["low", "medium", "high"])),
        },
        Some(other) => return Err(wrong_type("think", "one of a boolean or string", kind_of(&other))),
    };
    Ok(Some(read))
}

fn sampling(mut options: ObjectMembers, losses: &mut Losses) -> Result<Sampling, Invalid> {
    let sampling = Sampling {
        // A negative number means no limit.
        max_tokens: options
            .integer("num_predict")?
            .and_then(|tokens| u64::try_from(tokens).ok())
            .filter(|tokens| *tokens > 0),
        temperature: options.number("temperature", 0.0, f64::MAX)?,
        top_p: options.number("top_p", 0.0, 1.0)?,
        top_k: options.integer("top_k")?.filter(|top_k| *top_k > 0),
        presence_penalty: options.number("presence_penalty", f64::MIN, f64::MAX)?.filter(|penalty| *penalty != 0.0),
        frequency_penalty: options.number("frequency_penalty", f64::MIN, f64::MAX)?.filter(|penalty| *penalty != 0.0),
        seed: options.integer("seed")?,
        stop: options.texts("stop", "an array of strings")?,
        ..Sampling::default()
    };
    for (name, neutral) in NEUTRAL {
        options.leave_out(name, |value| value.as_f64() == Some(neutral));
    }
    options.tell_rest(losses);
    Ok(sampling)
}

// The messages of an `/api/chat` request, as turns.

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

/// The images of a message or a prompt. They are bare base64: the first bytes show the type.
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
