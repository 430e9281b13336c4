//! Reads a Responses request as a conversation. Not for requests that are passed through: see [`super::check()`].

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::responses::Invalid;
use photofinish_wire::conversation::members::{
    ARRAY, BOOLEAN, INTEGER, NUMBER, OBJECT, ObjectMembers, STRING, TypeRule, check_types, kind_of, kind_of_text,
    missing, objects, wrong_type, wrong_value,
};
use photofinish_wire::conversation::signature::{SignatureOwner, SignatureUse, held, own, summary};
use photofinish_wire::conversation::{
    Audio, Conversation, ConversationTurn, Document, Effort, Format, Image, Losses, MessagePart, Reasoning,
    ReasoningPart, Role, Source, Tool, ToolCall, ToolChoice, ToolResult,
};
use photofinish_wire::json::numbers::object;
use photofinish_wire::json::values::json;

/// Maximum bytes of the request that an answer repeats: twice before its first token, and once after its last.
const ECHO_MAX: usize = 256 << 10;
/// Members that an answer repeats.
const ECHOED: [&str; 17] = [
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt_cache_key",
    "reasoning",
    "safety_identifier",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
];
const CHOICES: [&str; 3] = ["none", "auto", "required"];
const ROLES: [&str; 4] = ["assistant", "system", "developer", "user"];
/// Members of items and parts that repeat an earlier answer.
const REPEATED: [&str; 5] = ["id", "status", "phase", "parsed", "parsed_arguments"];
const OF_USER: [&str; 4] = ["input_text", "input_image", "input_file", "input_audio"];
const OF_ASSISTANT: [&str; 2] = ["output_text", "refusal"];

/// Reads a request for translation.
///
/// # Errors
/// The problem, in the vendor's words.
pub fn conversation(body: &[u8]) -> Result<Conversation, Invalid> {
    let no_json = || Invalid { message: "We could not parse the JSON body of your request.".to_owned(), param: None };
    let mut body = object(body).ok_or_else(no_json)?;
    lift_tools(&mut body);
    let is_codex = is_codex(&body);
    check_kinds(&|name| body.get(name).map(kind_of))?;
    let mut conversation = Conversation { echo: Arc::new(echo_of(&body)), ..Conversation::default() };
    let mut request = ObjectMembers::new(Value::Object(body), String::new())?;
    for name in ["model", "stream"] {
        request.take(name);
    }
    // It precedes every system message of the input.
    let instructions = request.string("instructions")?;
    conversation.system.extend(instructions.map(|text| MessagePart::Text { text, cache: None }));
    if let Some(input) = request.take("input") {
        read_items(input, &mut conversation)?;
    }
    read_tools(request.objects("tools")?, is_codex, &mut conversation)?;
    if let Some(choice) = request.take("tool_choice") {
        conversation.tool_choice = tool_choice(choice, &mut conversation.losses)?;
    }
    if conversation.compacts {
        ask_for_summary(&mut conversation);
    }
    // Every vendor allows parallel calls by default.
    conversation.parallel_tool_calls = request.boolean("parallel_tool_calls")?.filter(|parallel| !*parallel);
    if let Some(text) = request.object("text")? {
        read_text(text, &mut conversation)?;
    }
    if let Some(reasoning) = request.object("reasoning")? {
        read_reasoning(reasoning, &mut conversation)?;
    }
    read_include(request.take("include"), &mut conversation);
    sampling(&mut request, &mut conversation)?;
    about_the_caller(&mut request, &mut conversation)?;
    // A translated answer is not padded, and the gateway itself stores it.
    if let Some(Value::Object(options)) = request.take("stream_options") {
        conversation.losses.lose_others(&options, "stream_options", &["include_obfuscation"]);
    }
    request.take("store");
    request.leave_out("background", |value| value == false);
    request.leave_out("truncation", |value| value == "disabled");
    // Also `previous_response_id`, `conversation` and `prompt`.
    request.tell_rest(&mut conversation.losses);
    Ok(conversation)
}

/// The tools of items `additional_tools` (Codex), and those that a search has found, are tools of the request.
fn lift_tools(body: &mut Map<String, Value>) {
    let Some(Value::Array(items)) = body.get_mut("input") else { return };
    let mut added: Vec<Value> = Vec::new();
    items.retain_mut(|item| {
        let is_lifted = item["type"] == "additional_tools" && item["tools"].is_array();
        if is_lifted || item["type"] == FOUND {
            added.extend(item["tools"].as_array().into_iter().flatten().cloned());
        }
        !is_lifted
    });
    if added.is_empty() {
        return;
    }
    if let Value::Array(tools) = body.entry("tools").or_insert_with(|| Value::Array(Vec::new())) {
        added.into_iter().for_each(|tool| {
            if !tools.contains(&tool) {
                tools.push(tool)
            }
        });
    }
}

/// Codex adds its books to each request.
fn is_codex(body: &Map<String, Value>) -> bool {
    let books = body.get("client_metadata").and_then(Value::as_object);
    books.is_some_and(|books| books.keys().any(|name| name.starts_with("x-codex-")))
}

/// Tools that Codex offers in addition to its own in every request, and works without.
const OPTIONAL_TOOLS: [&str; 3] = ["web_search", "tool_search", "image_generation"];
/// Calls of such tools that the vendor has run: what they gave is in the text behind them.
const RUN_BY_VENDOR: [&str; 2] = ["web_search_call", "tool_search_call"];
/// The tool with which the client searches for more tools, and what it has found. Other dialects have it as a function.
pub(super) const SEARCH: &str = "tool_search";
const FOUND: &str = "tool_search_output";
/// The shell of the client, without a schema. Other dialects have it as a function with the members of its action.
pub(super) const SHELL: &str = "local_shell";

/// Short forms of a conversation.
pub(super) const COMPACTIONS: [&str; 3] = ["compaction", "compaction_summary", "context_compaction"];

/// What asks for one.
const SUMMARIZE: &str = "Write a summary of this conversation now. Another assistant goes on with the task and sees this summary instead \
    of the conversation. Say what the user asked for, in the user's words where they matter; what was done, found and decided, with \
    names of files, commands and values that are needed again; what the user wants or forbids; and what is left to do, step by step. \
    Call no tool, and answer with nothing but the summary.";
/// Before one that is read.
const SUMMARIZED: &str =
    "The conversation so far was replaced by this summary of it. Go on from it, and do not repeat what is done.";

/// The conversation ends with a question for its short form.
fn ask_for_summary(conversation: &mut Conversation) {
    let parts = vec![MessagePart::Text { text: SUMMARIZE.to_owned(), cache: None }];
    conversation.turns.push(ConversationTurn { role: Role::User, parts });
    conversation.tool_choice = Some(ToolChoice::None).filter(|_| !conversation.tools.is_empty());
}

/// What is said in place of a short form that the gateway had made.
pub(super) fn remembered(encrypted: &str) -> Option<String> {
    summary(encrypted).map(|text| format!("{SUMMARIZED}\n\n{text}"))
}

/// Members that the answer repeats, as far as they fit.
fn echo_of(body: &Map<String, Value>) -> Map<String, Value> {
    let mut left = ECHO_MAX;
    let mut fits = |value: &Value| {
        let rest = left.checked_sub(value.to_string().len());
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    let echoed = body.iter().filter(|(name, value)| ECHOED.contains(&name.as_str()) && !value.is_null());
    let fitting = echoed.filter_map(|(name, value)| {
        if fits(value) {
            return Some((name.clone(), value.clone()));
        }
        // Calls of a namespace's tools are written with its name.
        let names = (name == "tools").then(|| names_only(value)).flatten();
        names.filter(&mut fits).map(|names| (name.clone(), names))
    });
    fitting.collect()
}

fn sampling(request: &mut ObjectMembers, conversation: &mut Conversation) -> Result<(), Invalid> {
    let mut number = |name: &str| request.take(name).and_then(|value| value.as_f64());
    let penalty = |penalty: Option<f64>| penalty.filter(|penalty| *penalty != 0.0);
    let sampling = &mut conversation.sampling;
    (sampling.temperature, sampling.top_p) = (number("temperature"), number("top_p"));
    sampling.presence_penalty = penalty(number("presence_penalty"));
    sampling.frequency_penalty = penalty(number("frequency_penalty"));
    sampling.top_logprobs = request.take("top_logprobs").and_then(|count| count.as_u64()).filter(|count| *count > 0);
    sampling.logprobs = sampling.top_logprobs.map(|_| true);
    sampling.max_tokens = request.count("max_output_tokens", 1)?;
    Ok(())
}

/// `user` is the former name of `safety_identifier`.
fn about_the_caller(request: &mut ObjectMembers, conversation: &mut Conversation) -> Result<(), Invalid> {
    let (identifier, user) = (request.string("safety_identifier")?, request.string("user")?);
    conversation.user_is_identifier = identifier.is_some();
    conversation.user = identifier.or(user);
    let metadata = request.object("metadata")?.map(ObjectMembers::into_rest);
    conversation.metadata = metadata.filter(|metadata| !metadata.is_empty());
    conversation.service_tier = request.string("service_tier")?.filter(|tier| tier != "auto");
    Ok(())
}

fn read_tools(listed: Vec<ObjectMembers>, is_codex: bool, conversation: &mut Conversation) -> Result<(), Invalid> {
    let Conversation { tools, losses, .. } = conversation;
    let is_beside = listed.iter().any(|tool| matches!(tool.text("type"), Some("function" | "custom" | "namespace")));
    for mut given in listed {
        let kind = given.text("type").unwrap_or_default().to_owned();
        if kind == SEARCH && given.text("execution") == Some("client") {
            let (description, parameters) = (given.string("description")?, given.plain_object("parameters")?);
            tools.push(Tool { name: SEARCH.to_owned(), description, parameters, ..Tool::default() });
            given.tell_others(&["type", "execution"], losses);
        } else if kind == SHELL {
            tools.push(shell());
            given.tell_others(&["type"], losses);
        } else if is_beside && OPTIONAL_TOOLS.iter().any(|optional| kind.starts_with(optional)) {
            // Codex offers them whatever its user asks for: they decide nothing about who may answer.
            match is_codex {
                true => losses.form(kind),
                false => losses.lose(kind),
            }
        } else if kind == "namespace" && given.text("name").is_some() {
            let namespace = given.required_string("name")?;
            for inner in given.objects("tools")? {
                let tool = read_tool(inner, losses)?;
                tools.extend(tool.map(|tool| Tool { name: joined(&namespace, &tool.name), ..tool }));
            }
            given.tell_others(&["type"], losses);
        } else {
            tools.extend(read_tool(given, losses)?);
        }
    }
    Ok(())
}

fn shell() -> Tool {
    let properties = json!({
        "command": { "type": "array", "items": { "type": "string" }, "description": "The program and its arguments" },
        "working_directory": { "type": "string" },
        "timeout_ms": { "type": "integer" },
        "env": { "type": "object", "additionalProperties": { "type": "string" } },
    });
    let parameters = json!({ "type": "object", "properties": properties, "required": ["command"] });
    let description = Some("Runs a command on the user's computer, and gives its output.".to_owned());
    Tool { name: SHELL.to_owned(), description, parameters: Some(parameters), ..Tool::default() }
}

/// None: the vendor runs it, and others have no such tool.
fn read_tool(mut tool: ObjectMembers, losses: &mut Losses) -> Result<Option<Tool>, Invalid> {
    let kind = tool.required_string("type")?;
    let (name, description) = match kind.as_str() {
        "function" | "custom" => (tool.required_string("name")?, tool.string("description")?),
        kind => {
            losses.content(kind);
            return Ok(None);
        }
    };
    let mut read = Tool { name, description, custom: kind == "custom", ..Tool::default() };
    if read.custom {
        read.format = tool.plain_object("format")?.filter(|format| format["type"] != "text");
    } else {
        (read.parameters, read.strict) = (tool.plain_object("parameters")?, tool.boolean("strict")?);
    }
    tool.tell_others(&[], losses);
    Ok(Some(read))
}

fn tool_choice(value: Value, losses: &mut Losses) -> Result<Option<ToolChoice>, Invalid> {
    let mut choice = match value {
        Value::String(choice) => {
            return Ok(Some(match choice.as_str() {
                "auto" => ToolChoice::Auto,
                "none" => ToolChoice::None,
                "required" => ToolChoice::Required,
                other => return Err(wrong_value("tool_choice", other, &CHOICES)),
            }));
        }
        Value::Object(_) => ObjectMembers::new(value, "tool_choice".to_owned())?,
        other => return Err(wrong_type("tool_choice", "one of a string or object", kind_of(&other))),
    };
    match choice.required_string("type")?.as_str() {
        "function" | "custom" => {
            let name = choice.required_string("name")?;
            choice.tell_others(&[], losses);
            Ok(Some(ToolChoice::Named(name)))
        }
        // A tool that the vendor runs, or a choice among some tools.
        kind => {
            losses.content(kind);
            Ok(None)
        }
    }
}

fn read_text(mut text: ObjectMembers, conversation: &mut Conversation) -> Result<(), Invalid> {
    if let Some(format) = text.object("format")? {
        conversation.format = read_format(format, &mut conversation.losses)?.filter(|_| !conversation.compacts);
    }
    conversation.verbosity = text.string("verbosity")?.filter(|word| word != "medium");
    text.tell_rest(&mut conversation.losses);
    Ok(())
}

fn read_format(mut format: ObjectMembers, losses: &mut Losses) -> Result<Option<Format>, Invalid> {
    let read = match format.required_string("type")?.as_str() {
        "text" => None,
        "json_object" => Some(Format::Json),
        "json_schema" => {
            let schema = format.plain_object("schema")?.ok_or_else(|| missing(&format.path_of("schema")))?;
            let (name, description) = (Some(format.required_string("name")?), format.string("description")?);
            Some(Format::Schema { name, description, schema, strict: format.boolean("strict")? })
        }
        other => return Err(wrong_value("text.format.type", other, &["json_object", "json_schema", "text"])),
    };
    format.tell_others(&["name", "description", "schema", "strict"], losses);
    Ok(read)
}

fn read_reasoning(mut wanted: ObjectMembers, conversation: &mut Conversation) -> Result<(), Invalid> {
    if let Some(effort) = wanted.effort("effort")? {
        let reasoning = conversation.reasoning.get_or_insert_with(Reasoning::default);
        reasoning.effort = Some(effort);
        reasoning.enabled = (effort == Effort::None).then_some(false);
    }
    for name in ["summary", "generate_summary"] {
        let Some(word) = wanted.string(name)? else { continue };
        // Others show thoughts or do not; how long a summary is, they decide themselves.
        conversation.losses.lose_if(matches!(word.as_str(), "concise" | "detailed"), "reasoning.summary");
        conversation.reasoning.get_or_insert_with(Reasoning::default).show = Some(word != "none");
    }
    wanted.tell_rest(&mut conversation.losses);
    Ok(())
}

fn read_include(listed: Option<Value>, conversation: &mut Conversation) {
    for (at, entry) in listed.iter().filter_map(Value::as_array).flatten().enumerate() {
        if entry == "reasoning.encrypted_content" {
            conversation.reasoning.get_or_insert_with(Reasoning::default).encrypted = true;
        } else {
            conversation.losses.lose(format!("include[{at}]"));
        }
    }
}

/// Adds the turns of `input`. Consecutive items of the assistant become one turn.
fn read_items(input: Value, conversation: &mut Conversation) -> Result<(), Invalid> {
    if let Value::String(text) = input {
        let parts = vec![MessagePart::Text { text, cache: None }];
        conversation.turns.push(ConversationTurn { role: Role::User, parts });
        return Ok(());
    }
    let mut reader = ItemReader { conversation, names: HashMap::new(), shells: HashMap::new(), signature: None };
    objects(input, "input")?.into_iter().try_for_each(|item| reader.item(item))
}

struct ItemReader<'a> {
    conversation: &'a mut Conversation,
    /// Function names, by call id.
    names: HashMap<String, String>,
    /// Ids of calls of the client's shell, by the ids of their items.
    shells: HashMap<String, String>,
    /// The signature of the next call.
    signature: Option<String>,
}

impl ItemReader<'_> {
    fn item(&mut self, mut item: ObjectMembers) -> Result<(), Invalid> {
        // A bare id refers to an item that the vendor stored.
        let unnamed = if item.has("role") || item.text("id").is_none() { "message" } else { "item_reference" };
        let kind = item.string("type")?.unwrap_or_else(|| unnamed.to_owned());
        match kind.as_str() {
            "message" => self.message(&mut item)?,
            "function_call" => self.call(&mut item, "arguments")?,
            "custom_tool_call" => self.call(&mut item, "input")?,
            "function_call_output" | "custom_tool_call_output" => self.output(&mut item, kind.starts_with("custom"))?,
            "local_shell_call" if item.text("call_id").is_some() => self.shell(&mut item)?,
            "local_shell_call_output" => self.shell_output(&mut item)?,
            "reasoning" => self.reasoning(&mut item)?,
            "compaction_trigger" => self.conversation.compacts = true,
            kind if COMPACTIONS.contains(&kind) && self.summary(&mut item) => {}
            "tool_search_call" if item.text("call_id").is_some() => self.search(&mut item)?,
            FOUND if item.text("call_id").is_some() => self.found(&mut item)?,
            _ if RUN_BY_VENDOR.contains(&kind.as_str()) || kind == FOUND => {
                self.conversation.losses.form(kind);
                return Ok(());
            }
            // Items that the vendor runs or stores itself.
            _ => {
                self.conversation.losses.content(kind);
                return Ok(());
            }
        }
        item.tell_others(&REPEATED, &mut self.conversation.losses);
        Ok(())
    }

    fn search(&mut self, item: &mut ObjectMembers) -> Result<(), Invalid> {
        item.take("execution");
        let id = item.required_string("call_id")?;
        let arguments = item.take("arguments").unwrap_or_else(|| json!({})).to_string();
        self.names.insert(id.clone(), SEARCH.to_owned());
        let call = ToolCall {
            id,
            name: SEARCH.to_owned(),
            arguments,
            signature: self.signature.take(),
            ..ToolCall::default()
        };
        self.add(Role::Assistant, vec![MessagePart::Call(call)]);
        Ok(())
    }

    fn shell(&mut self, item: &mut ObjectMembers) -> Result<(), Invalid> {
        let id = item.required_string("call_id")?;
        let mut action = item.take("action").unwrap_or_else(|| json!({}));
        action.as_object_mut().map(|members| members.shift_remove("type"));
        // Its output may name either id.
        if let Some(own) = item.text("id") {
            self.shells.insert(own.to_owned(), id.clone());
        }
        self.names.insert(id.clone(), SHELL.to_owned());
        let (name, arguments, signature) = (SHELL.to_owned(), action.to_string(), self.signature.take());
        self.add(
            Role::Assistant,
            vec![MessagePart::Call(ToolCall { id, name, arguments, signature, ..ToolCall::default() })],
        );
        Ok(())
    }

    fn shell_output(&mut self, item: &mut ObjectMembers) -> Result<(), Invalid> {
        let call_id = match item.string("call_id")? {
            Some(id) => id,
            None => item.required_string("id")?,
        };
        let call_id = self.shells.get(&call_id).cloned().unwrap_or(call_id);
        let parts = read_content(item, "output", false, &mut self.conversation.losses)?;
        self.conversation.add_result(ToolResult {
            call_id,
            name: Some(SHELL.to_owned()),
            parts,
            ..ToolResult::default()
        });
        Ok(())
    }

    /// What was found are tools of the request now: the result names them.
    fn found(&mut self, item: &mut ObjectMembers) -> Result<(), Invalid> {
        item.take("execution");
        let call_id = item.required_string("call_id")?;
        let found = item.take("tools").unwrap_or_default();
        let names = found.as_array().into_iter().flatten().flat_map(|tool| match tools_of(tool) {
            Some((namespace, tools)) => {
                tools.iter().filter_map(|tool| Some(joined(namespace, tool["name"].as_str()?))).collect::<Vec<_>>()
            }
            None => tool["name"].as_str().map(str::to_owned).into_iter().collect(),
        });
        let text = json!({ "tools": names.collect::<Vec<_>>() }).to_string();
        let (name, parts) = (Some(SEARCH.to_owned()), vec![MessagePart::Text { text, cache: None }]);
        self.conversation.add_result(ToolResult { call_id, name, parts, ..ToolResult::default() });
        Ok(())
    }

    /// False: another vendor made it, and only that vendor can open it.
    fn summary(&mut self, item: &mut ObjectMembers) -> bool {
        let Some(text) = item.text("encrypted_content").and_then(remembered) else { return false };
        item.take("encrypted_content");
        let parts = vec![MessagePart::Text { text, cache: None }];
        self.conversation.turns.push(ConversationTurn { role: Role::User, parts });
        true
    }

    fn message(&mut self, item: &mut ObjectMembers) -> Result<(), Invalid> {
        let role = match item.required_string("role")?.as_str() {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "system" | "developer" => Role::System,
            other => return Err(wrong_value(&item.path_of("role"), other, &ROLES)),
        };
        let parts = read_content(item, "content", role == Role::Assistant, &mut self.conversation.losses)?;
        match role {
            Role::User => self.conversation.turns.push(ConversationTurn { role, parts }),
            Role::Assistant => self.add(role, parts),
            Role::System => {
                let (texts, others): (Vec<MessagePart>, Vec<MessagePart>) =
                    parts.into_iter().partition(|part| matches!(part, MessagePart::Text { .. }));
                self.conversation.losses.lose_if(!others.is_empty(), &item.path_of("content"));
                self.conversation.add_system(texts);
            }
        }
        Ok(())
    }

    fn call(&mut self, item: &mut ObjectMembers, arguments: &str) -> Result<(), Invalid> {
        let (id, name) = (item.required_string("call_id")?, item.required_string("name")?);
        let (custom, arguments) = (arguments == "input", item.required_string(arguments)?);
        let name = match item.take("namespace") {
            Some(Value::String(namespace)) => joined(&namespace, &name),
            _ => name,
        };
        self.names.insert(id.clone(), name.clone());
        let call = ToolCall { id, name, arguments, custom, signature: self.signature.take(), cache: None };
        self.add(Role::Assistant, vec![MessagePart::Call(call)]);
        Ok(())
    }

    fn output(&mut self, item: &mut ObjectMembers, custom: bool) -> Result<(), Invalid> {
        let call_id = item.required_string("call_id")?;
        let parts = read_content(item, "output", false, &mut self.conversation.losses)?;
        let name = self.names.get(&call_id).cloned();
        self.conversation.add_result(ToolResult { call_id, name, parts, custom, ..ToolResult::default() });
        Ok(())
    }

    fn reasoning(&mut self, item: &mut ObjectMembers) -> Result<(), Invalid> {
        let (encrypted, id) = (item.string("encrypted_content")?.unwrap_or_default(), item.string("id")?);
        let text = thoughts(item.take("content").as_ref(), item.take("summary").as_ref());
        let mut thinking = ReasoningPart { text, ..ReasoningPart::default() };
        match held(SignatureOwner::Responses, &encrypted) {
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

/// The reasoning text of an item: its thoughts if shown, else their summary.
pub(super) fn thoughts(content: Option<&Value>, summary: Option<&Value>) -> String {
    let texts = |parts: Option<&Value>| -> String {
        // Some servers write the text itself.
        if let Some(Value::String(text)) = parts {
            return text.clone();
        }
        let parts = parts.and_then(Value::as_array).into_iter().flatten();
        let texts: Vec<&str> = parts.filter_map(|part| part["text"].as_str()).filter(|text| !text.is_empty()).collect();
        // Parts are paragraphs, as in a stream.
        texts.join("\n\n")
    };
    Some(texts(content)).filter(|text| !text.is_empty()).unwrap_or_else(|| texts(summary))
}

/// Reads a string or a list of parts.
fn read_content(
    item: &mut ObjectMembers,
    name: &str,
    assistant: bool,
    losses: &mut Losses,
) -> Result<Vec<MessagePart>, Invalid> {
    let path = item.path_of(name);
    let parts = match item.take(name) {
        Some(Value::String(text)) => return Ok(vec![MessagePart::Text { text, cache: None }]),
        Some(parts @ Value::Array(_)) => objects(parts, &path)?,
        Some(other) => return Err(wrong_type(&path, "one of a string or array of objects", kind_of(&other))),
        None => return Err(missing(&path)),
    };
    let read = |mut part: ObjectMembers| {
        let read = read_part(&mut part, assistant, losses)?;
        part.tell_others(&REPEATED, losses);
        Ok(read)
    };
    parts.into_iter().map(read).collect()
}

fn read_part(part: &mut ObjectMembers, assistant: bool, losses: &mut Losses) -> Result<MessagePart, Invalid> {
    let kind = part.required_string("type")?;
    match kind.as_str() {
        "input_text" | "output_text" if assistant == (kind == "output_text") => {
            Ok(MessagePart::Text { text: part.required_string("text")?, cache: None })
        }
        "refusal" if assistant => Ok(MessagePart::Refusal(part.required_string("refusal")?)),
        "input_image" if !assistant => image(part),
        "input_file" if !assistant => file(part),
        "input_audio" if !assistant => {
            let mut audio = part.required_object("input_audio")?;
            let read = Audio { format: audio.required_string("format")?, data: audio.required_string("data")? };
            audio.tell_others(&[], losses);
            Ok(MessagePart::Audio(read))
        }
        other => {
            let supported: &[&str] = if assistant { &OF_ASSISTANT } else { &OF_USER };
            Err(wrong_value(&part.path_of("type"), other, supported))
        }
    }
}

fn image(part: &mut ObjectMembers) -> Result<MessagePart, Invalid> {
    let detail = part.string("detail")?.filter(|detail| detail != "auto");
    let at = part.path_of("image_url");
    let source = match (part.string("image_url")?, part.string("file_id")?) {
        (Some(url), _) if url.starts_with("https://") || url.starts_with("http://") => Source::Url(url),
        (Some(url), _) => data_url(&url).ok_or_else(|| no_url(&at, "image", "image/png"))?,
        (None, Some(id)) => Source::File(id),
        (None, None) => return Err(missing(&at)),
    };
    Ok(MessagePart::Image(Image { source, detail, cache: None }))
}

fn file(part: &mut ObjectMembers) -> Result<MessagePart, Invalid> {
    let name = part.string("filename")?;
    let source = match (part.string("file_data")?, part.string("file_url")?, part.string("file_id")?) {
        (Some(data), _, _) => {
            data_url(&data).ok_or_else(|| no_url(&part.path_of("file_data"), "supported", "application/pdf"))?
        }
        (None, Some(url), _) => Source::Url(url),
        (None, None, Some(id)) => Source::File(id),
        (None, None, None) => return Err(missing(&part.path_of("file_id"))),
    };
    Ok(MessagePart::Document(Document { source, name, cache: None }))
}

fn no_url(param: &str, what: &str, media_type: &str) -> Invalid {
    Invalid {
        message: format!(
            "Invalid '{param}'. Expected a valid URL or a base64-encoded data URL with a {what} MIME type (e.g. 'data:{media_type};base64,aW1n')."
        ),
        param: Some(param.to_owned()),
    }
}

fn data_url(url: &str) -> Option<Source> {
    Source::of_data_url(url)
        .filter(|source| !matches!(source, Source::Base64 { media_type, .. } if media_type.is_empty()))
}

/// Types of top-level members. Null counts as absent, but not for `model`.
const TYPES: [TypeRule; 8] = [
    (
        &["model", "instructions", "previous_response_id", "safety_identifier", "service_tier", "user"],
        "a string",
        STRING,
    ),
    (&["input"], "one of a string or array of objects", &["a string", "an array"]),
    (&["background", "parallel_tool_calls", "store", "stream"], "a boolean", BOOLEAN),
    (&["frequency_penalty", "presence_penalty", "temperature", "top_p"], "a decimal", NUMBER),
    (&["max_output_tokens", "top_logprobs"], "an integer", INTEGER),
    (&["include"], "an array of strings", ARRAY),
    (&["tools"], "an array of objects", ARRAY),
    (&["metadata", "reasoning", "text"], "an object", OBJECT),
];

/// Members that can replace `input`.
const INPUTS: [&str; 4] = ["input", "previous_response_id", "prompt", "conversation"];

/// Checks the top level of a request.
///
/// # Errors
/// The problem, in the vendor's words.
pub fn check<'a>(member: &dyn Fn(&str) -> Option<&'a str>) -> Result<(), Invalid> {
    check_kinds(&|name| member(name).map(kind_of_text))
}

fn check_kinds(kind_of: &dyn Fn(&str) -> Option<&'static str>) -> Result<(), Invalid> {
    match kind_of("model") {
        None => return Err(missing("model")),
        Some("null") => return Err(wrong_type("model", "a string", "null")),
        Some(_) => {}
    }
    if !INPUTS.iter().any(|name| kind_of(name).is_some_and(|kind| kind != "null")) {
        return Err(missing("input"));
    }
    check_types(&TYPES, kind_of)
}

// Tools of a namespace (Codex: those of an MCP server), which only Responses has. For other dialects both names are
// joined into one; the call of such a tool gets its own names back.

/// Between the names.
const BETWEEN: &str = "__";

/// One name for a tool of a namespace.
pub(super) fn joined(namespace: &str, name: &str) -> String {
    format!("{namespace}{BETWEEN}{name}")
}

/// The namespaces of a request with nothing but the names of their tools, and its search for tools. None: it has neither.
pub(super) fn names_only(tools: &Value) -> Option<Value> {
    let namespaces = tools.as_array()?.iter().filter_map(tools_of).map(|(namespace, tools)| {
        let named = tools.iter().map(|tool| json!({ "type": tool["type"], "name": tool["name"] }));
        json!({ "type": "namespace", "name": namespace, "tools": named.collect::<Vec<_>>() })
    });
    let searches = tools
        .as_array()?
        .iter()
        .filter(|tool| is_search(tool))
        .map(|_| json!({ "type": SEARCH, "execution": "client" }));
    let shells = tools.as_array()?.iter().filter(|tool| tool["type"] == SHELL).map(|_| json!({ "type": SHELL }));
    let namespaces: Vec<Value> = namespaces.chain(searches).chain(shells).collect();
    (!namespaces.is_empty()).then_some(Value::Array(namespaces))
}

/// The name and the tools, if this is a namespace.
pub(super) fn tools_of(tool: &Value) -> Option<(&str, &[Value])> {
    let is_namespace = tool["type"] == "namespace";
    is_namespace.then_some((tool["name"].as_str()?, tool["tools"].as_array()?.as_slice()))
}

/// Whether this is a search for tools that the client runs.
fn is_search(tool: &Value) -> bool {
    tool["type"] == SEARCH && tool["execution"] == "client"
}

/// The tools of a request that only Responses has.
#[derive(Debug, Default)]
pub(super) struct Namespaces {
    /// The namespace and the name of each tool in one, by its joined name.
    names: HashMap<String, (String, String)>,
    has_search: bool,
    has_shell: bool,
}

/// How the call of a tool is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallForm {
    Function,
    Custom,
    /// The client searches for tools.
    Search,
    /// The client's shell.
    Shell,
}

impl CallForm {
    /// Whether its arguments are an object, which is not written in parts.
    pub fn is_whole(self) -> bool {
        matches!(self, CallForm::Search | CallForm::Shell)
    }
}

/// The own names of tools in namespaces, each with its joined one: some models call a tool by its own. Not those that several
/// tools have.
pub fn own_names(conversation: &Conversation) -> Vec<(String, String)> {
    let known = Namespaces::of(&conversation.echo).names;
    let is_alone = |own: &String| {
        let alike = known.values().filter(|(_, other)| other == own);
        alike.count() == 1 && conversation.tools.iter().all(|tool| tool.name != *own)
    };
    let own = known.iter().filter(|(_, (_, own))| is_alone(own));
    own.map(|(joined, (_, own))| (own.clone(), joined.clone())).collect()
}

impl Namespaces {
    /// From the members of the request that an answer repeats.
    pub fn of(echo: &Map<String, Value>) -> Namespaces {
        let tools = || echo.get("tools").and_then(Value::as_array).into_iter().flatten();
        let named = tools().filter_map(tools_of).flat_map(|(namespace, tools)| {
            let names = tools.iter().filter_map(|tool| tool["name"].as_str());
            names.map(move |name| (joined(namespace, name), (namespace.to_owned(), name.to_owned())))
        });
        let has_shell = tools().any(|tool| tool["type"] == SHELL);
        Namespaces { names: named.collect(), has_search: tools().any(is_search), has_shell }
    }

    /// How a call of this tool is written.
    pub fn form(&self, name: &str, custom: bool) -> CallForm {
        match name {
            SEARCH if self.has_search => CallForm::Search,
            SHELL if self.has_shell => CallForm::Shell,
            _ if custom => CallForm::Custom,
            _ => CallForm::Function,
        }
    }

    /// The namespace and the name of a called tool.
    pub fn split(&self, name: String) -> (Option<String>, String) {
        match self.names.get(&name) {
            Some((namespace, own)) => (Some(namespace.clone()), own.clone()),
            None => (None, name),
        }
    }
}
