//! Reads a `generateContent` request as a conversation: its options and contents. Not for requests that
//! are passed through: see [`check()`].

use serde_json::Value;

use crate::gemini::signature::read_signature;
use photofinish_wire::client_error::Invalid;
use photofinish_wire::conversation::call_ids::OpenCalls;
use photofinish_wire::conversation::members::{
    OBJECT, ObjectMembers, TypeRule, check_types, is_empty_list, kind_of, kind_of_text, objects, wrong_type,
    wrong_value,
};
use photofinish_wire::conversation::signature::SignatureUse;
use photofinish_wire::conversation::{
    Audio, Conversation, ConversationTurn, Document, Effort, Format, Image, Losses, MessagePart, Reasoning,
    ReasoningPart, Role, Sampling, Source, Tool, ToolCall, ToolChoice, ToolResult,
};
use photofinish_wire::json::numbers::parse;

const TYPES: [TypeRule; 2] = [
    (&["contents", "tools", "safetySettings"], "an array of objects", &["an array", "an object"]),
    (&["generationConfig", "toolConfig"], "an object", OBJECT),
];
const MODES: [&str; 4] = ["AUTO", "ANY", "NONE", "VALIDATED"];

/// Checks the top level of a request. `counted`: a token count, whose contents may be in `generateContentRequest`.
///
/// # Errors
/// What is wrong, in the vendor's words where it has some.
pub fn check<'a>(member: &dyn Fn(&str) -> Option<&'a str>, counted: bool) -> Result<(), Invalid> {
    let inner = member("generateContentRequest").filter(|_| counted);
    if inner.is_none() && member("contents").is_none_or(is_empty_list) {
        return Err(without_contents());
    }
    check_types(&TYPES, &|name| member(name).map(kind_of_text))
}

fn without_contents() -> Invalid {
    Invalid::at("contents", "* GenerateContentRequest.contents: contents is not specified")
}

/// Reads a request for translation.
///
/// # Errors
/// What is wrong, with its place.
pub fn conversation(body: &[u8]) -> Result<Conversation, Invalid> {
    let unreadable =
        |_| Invalid { message: "Invalid JSON payload received. The body is not valid JSON".to_owned(), param: None };
    let mut body: Value = parse(body).map_err(unreadable)?;
    to_camel_case(&mut body);
    let mut request = ObjectMembers::new(body, String::new())?;
    request.take("model");
    let mut conversation = Conversation::default();
    system(&mut request, &mut conversation)?;
    if !request.has("contents") {
        return Err(without_contents());
    }
    read(listed(&mut request, "contents")?, &mut conversation)?;
    for tool in listed(&mut request, "tools")? {
        read_tool(tool, &mut conversation)?;
    }
    if let Some(config) = request.object("toolConfig")? {
        conversation.tool_choice = tool_choice(config, &mut conversation.losses)?;
    }
    if let Some(config) = request.object("generationConfig")? {
        generation(config, &mut conversation)?;
    }
    request.tell_rest(&mut conversation.losses);
    Ok(conversation)
}

/// A list of objects. Google takes a single one without its brackets.
fn listed(members: &mut ObjectMembers, name: &str) -> Result<Vec<ObjectMembers>, Invalid> {
    let path = members.path_of(name);
    match members.take(name) {
        None => Ok(Vec::new()),
        Some(one @ Value::Object(_)) => Ok(vec![ObjectMembers::new(one, path)?]),
        Some(value) => objects(value, &path),
    }
}

/// Members whose own members are the caller's words, not the vendor's.
const FREE: [&str; 9] = [
    "args",
    "response",
    "parameters",
    "parametersJsonSchema",
    "responseSchema",
    "responseJsonSchema",
    "responseFormat",
    "labels",
    "schema",
];

/// Google takes names as `maxOutputTokens` and as `max_output_tokens`.
fn to_camel_case(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(to_camel_case),
        Value::Object(members) => {
            *members = std::mem::take(members)
                .into_iter()
                .map(|(name, mut value)| {
                    let name = if name.contains('_') { camel(&name) } else { name };
                    if !FREE.contains(&name.as_str()) {
                        to_camel_case(&mut value);
                    }
                    (name, value)
                })
                .collect();
        }
        _ => {}
    }
}

fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let (head, rest) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
        name + &head.to_uppercase() + rest
    })
}

/// Functions are the caller's. Everything else Google runs itself.
fn read_tool(mut tool: ObjectMembers, conversation: &mut Conversation) -> Result<(), Invalid> {
    for mut function in listed(&mut tool, "functionDeclarations")? {
        let path = function.path_of("parameters");
        let parameters = match function.take("parametersJsonSchema").or_else(|| function.take("parameters")) {
            Some(mut schema @ Value::Object(_)) => {
                to_json_schema(&mut schema);
                Some(schema)
            }
            None => None,
            Some(other) => return Err(wrong_type(&path, "an object", kind_of(&other))),
        };
        let (name, description) = (function.required_string("name")?, function.string("description")?);
        function.tell_rest(&mut conversation.losses);
        conversation.tools.push(Tool { name, description, parameters, ..Tool::default() });
    }
    for (name, _) in tool.into_rest() {
        conversation.losses.content(name);
    }
    Ok(())
}

/// Google's schemas have types in capitals, and `nullable`.
fn to_json_schema(schema: &mut Value) {
    let Value::Object(members) = schema else { return };
    members.shift_remove("propertyOrdering");
    if let Some(Value::String(name)) = members.get_mut("type") {
        *name = name.to_ascii_lowercase();
    }
    if members.shift_remove("nullable") == Some(Value::Bool(true))
        && let Some(kind) = members.get_mut("type")
    {
        *kind = Value::from(vec![kind.take(), Value::from("null")]);
    }
    for (name, value) in members {
        match (name.as_str(), value) {
            ("properties" | "$defs" | "defs", Value::Object(members)) => members.values_mut().for_each(to_json_schema),
            ("items" | "additionalProperties", schema) => to_json_schema(schema),
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(schemas)) => {
                schemas.iter_mut().for_each(to_json_schema);
            }
            // Counts are texts in Google's form.
            ("minItems" | "maxItems" | "minLength" | "maxLength" | "minProperties" | "maxProperties", count) => {
                if let Some(number) = count.as_str().and_then(|text| text.parse::<u64>().ok()) {
                    *count = Value::from(number);
                }
            }
            _ => {}
        }
    }
}

fn tool_choice(mut config: ObjectMembers, losses: &mut Losses) -> Result<Option<ToolChoice>, Invalid> {
    let Some(mut calling) = config.object("functionCallingConfig")? else {
        config.tell_rest(losses);
        return Ok(None);
    };
    let names: Vec<String> = match calling.take("allowedFunctionNames") {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let choice = match calling.one_of("mode", &MODES)?.as_deref() {
        Some("ANY") => match names.as_slice() {
            [name] => Some(ToolChoice::Named(name.clone())),
            _ => {
                losses.lose_if(!names.is_empty(), "allowedFunctionNames");
                Some(ToolChoice::Required)
            }
        },
        Some("NONE") => Some(ToolChoice::None),
        _ => None,
    };
    calling.tell_rest(losses);
    config.tell_rest(losses);
    Ok(choice)
}

fn generation(mut config: ObjectMembers, conversation: &mut Conversation) -> Result<(), Invalid> {
    let stop = match config.take("stopSequences") {
        None => Vec::new(),
        Some(Value::Array(texts)) => texts.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(other) => {
            return Err(wrong_type(&config.path_of("stopSequences"), "an array of strings", kind_of(&other)));
        }
    };
    let penalty = |penalty: Option<f64>| penalty.filter(|penalty| *penalty != 0.0);
    conversation.sampling = Sampling {
        max_tokens: config.count("maxOutputTokens", 1)?,
        temperature: config.number("temperature", 0.0, 2.0)?,
        top_p: config.number("topP", 0.0, 1.0)?,
        // A decimal number in older clients.
        top_k: config.integer("topK")?.filter(|top_k| *top_k > 0),
        presence_penalty: penalty(config.number("presencePenalty", -2.0, 2.0)?),
        frequency_penalty: penalty(config.number("frequencyPenalty", -2.0, 2.0)?),
        seed: config.integer("seed")?,
        n: config.count("candidateCount", 1)?.filter(|n| *n > 1),
        stop,
        logprobs: config.boolean("responseLogprobs")?.filter(|wanted| *wanted),
        top_logprobs: config.count("logprobs", 0)?.filter(|count| *count > 0),
        logit_bias: None,
    };
    conversation.format = format(&mut config)?;
    if let Some(thinking) = config.object("thinkingConfig")? {
        conversation.reasoning = reasoning(thinking, &mut conversation.losses)?;
    }
    let only_text = |value: &Value| *value == Value::from(vec!["TEXT"]);
    let modalities = config.take("responseModalities").filter(|value| !only_text(value));
    conversation.losses.lose_if(modalities.is_some(), "generationConfig.responseModalities");
    config.tell_rest(&mut conversation.losses);
    Ok(())
}

fn format(config: &mut ObjectMembers) -> Result<Option<Format>, Invalid> {
    let schema = config.take("responseJsonSchema").or_else(|| config.take("responseSchema"));
    let schema = schema.map(|mut schema| {
        to_json_schema(&mut schema);
        schema
    });
    let path = config.path_of("responseMimeType");
    match (config.string("responseMimeType")?.as_deref(), schema) {
        (None | Some("text/plain"), None) => Ok(None),
        (None | Some("application/json"), Some(schema)) => {
            Ok(Some(Format::Schema { name: None, description: None, schema, strict: None }))
        }
        (Some("application/json"), None) => Ok(Some(Format::Json)),
        (Some(other), _) => Err(wrong_value(&path, other, &["text/plain", "application/json"])),
    }
}

fn reasoning(mut thinking: ObjectMembers, losses: &mut Losses) -> Result<Option<Reasoning>, Invalid> {
    let mut read = Reasoning { show: thinking.boolean("includeThoughts")?, ..Reasoning::default() };
    match thinking.integer("thinkingBudget")? {
        None => {}
        Some(0) => read.enabled = Some(false),
        // The model decides.
        Some(budget) if budget < 0 => read.enabled = Some(true),
        Some(budget) => read.budget = u64::try_from(budget).ok(),
    }
    if let Some(level) = thinking.string("thinkingLevel")? {
        let effort = Effort::from_name(&level.to_ascii_lowercase());
        let known = ["MINIMAL", "LOW", "MEDIUM", "HIGH"];
        read.effort = Some(effort.ok_or_else(|| wrong_value(&thinking.path_of("thinkingLevel"), &level, &known))?);
    }
    thinking.tell_rest(losses);
    Ok((read != Reasoning::default()).then_some(read))
}

// The contents of a `generateContent` request, as turns.
//
// Google's SDKs send an earlier answer as one content per event that they got, so neighbours of one speaker are
// joined, and so are neighbouring texts in them.

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
    for mut part in listed(&mut content, "parts")? {
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
        for part in listed(&mut content, "parts")? {
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
            self.inline(data)?.into_iter().for_each(|part| self.add(role, part));
        } else if let Some(file) = part.object("fileData")? {
            let file = self.file(file)?;
            self.add(role, file);
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
        let mut parts = vec![text(said)];
        for mut part in listed(&mut result, "parts")? {
            if let Some(data) = part.object("inlineData")? {
                parts.extend(self.inline(data)?);
            } else if let Some(file) = part.object("fileData")? {
                parts.push(self.file(file)?);
            }
            part.tell_rest(&mut self.conversation.losses);
        }
        result.tell_rest(&mut self.conversation.losses);
        if id.as_deref().is_some_and(|id| self.conversation.repeats_result(id, &parts)) {
            return Ok(());
        }
        let Some((call_id, name)) = self.calls.answer(id.as_deref(), name.as_deref()) else {
            self.conversation.losses.lose(place);
            parts.into_iter().for_each(|part| self.add(Role::User, part));
            return Ok(());
        };
        self.conversation.add_result(ToolResult {
            call_id,
            name: Some(name),
            parts,
            is_error,
            ..ToolResult::default()
        });
        Ok(())
    }

    fn inline(&mut self, mut data: ObjectMembers) -> Result<Option<MessagePart>, Invalid> {
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
                return Ok(None);
            }
            _ => {
                let source = Source::Base64 { media_type, data: bytes };
                MessagePart::Document(Document { source, name, cache: None })
            }
        };
        Ok(Some(part))
    }

    /// An address. Google's own files have addresses that other vendors cannot read.
    fn file(&mut self, mut file: ObjectMembers) -> Result<MessagePart, Invalid> {
        let uri = file.required_string("fileUri")?;
        let media_type = file.string("mimeType")?.unwrap_or_default();
        let name = file.string("displayName")?;
        let own = uri.starts_with("gs://") || uri.starts_with("https://generativelanguage.googleapis.com/");
        let source = if own { Source::File(uri) } else { Source::Url(uri) };
        let is_image = media_type.starts_with("image/");
        self.conversation.losses.lose_if(name.is_some() && is_image, &file.path_of("displayName"));
        file.tell_rest(&mut self.conversation.losses);
        Ok(match is_image {
            true => MessagePart::Image(Image { source, detail: None, cache: None }),
            false => MessagePart::Document(Document { source, name, cache: None }),
        })
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
