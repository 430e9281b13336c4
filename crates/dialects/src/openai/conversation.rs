//! Reads a chat request as a conversation: its options and tools. `messages` reads the turns.

use serde_json::Value;

use crate::openai::messages;
use crate::openai::messages::cache_hint;
use photofinish_wire::client_error::Invalid;
use photofinish_wire::conversation::members::{
    ARRAY, BOOLEAN, INTEGER, NUMBER, OBJECT, ObjectMembers, STRING, TypeRule, check_types, empty_list, is_empty_list,
    kind_of, kind_of_text, missing, required, wrong_type, wrong_value,
};
use photofinish_wire::conversation::{Conversation, Format, Losses, Reasoning, Sampling, Tool, ToolChoice};
use photofinish_wire::json::numbers::parse;
use photofinish_wire::json::values::json;

/// Values that mean the same as an absent member.
const DEFAULTS: [(&str, &str); 7] = [
    ("store", "false"),
    ("modalities", r#"["text"]"#),
    ("min_p", "0"),
    ("min_p", "0.0"),
    ("repetition_penalty", "1"),
    ("repetition_penalty", "1.0"),
    ("logit_bias", "{}"),
];

/// Reads a request for translation.
///
/// # Errors
/// The problem, in the vendor's words.
pub fn conversation(body: &[u8]) -> Result<Conversation, Invalid> {
    let unreadable =
        || Invalid { message: "We could not parse the JSON body of your request.".to_owned(), param: None };
    let value = parse(body).map_err(|_| unreadable())?;
    let mut request = ObjectMembers::new(value, String::new()).map_err(|_| unreadable())?;
    let mut conversation = Conversation::default();
    for name in ["model", "stream"] {
        request.take(name);
    }
    if let Some(mut options) = request.object("stream_options")? {
        // The gateway does both itself.
        for name in ["include_usage", "include_obfuscation"] {
            options.take(name);
        }
        options.tell_rest(&mut conversation.losses);
    }
    if !request.has("messages") {
        return Err(missing("messages"));
    }
    let list = request.objects("messages")?;
    if list.is_empty() {
        return Err(empty_list("messages"));
    }
    messages::read(list, &mut conversation)?;
    read(&mut request, &mut conversation)?;
    for (name, default) in DEFAULTS {
        request.leave_out(name, |value| value.to_string().as_str() == default);
    }
    conversation.sampling = sampling(&mut request)?;
    conversation.format = format(&mut request, &mut conversation.losses)?;
    conversation.reasoning = reasoning(&mut request, &mut conversation.losses)?;
    conversation.verbosity = request.one_of("verbosity", &["low", "medium", "high"])?;
    about_the_caller(&mut request, &mut conversation)?;
    request.tell_rest(&mut conversation.losses);
    Ok(conversation)
}

const TYPES: [TypeRule; 9] = [
    (&["messages"], "an array of objects", ARRAY),
    (&["temperature", "top_p", "presence_penalty", "frequency_penalty"], "a decimal number", NUMBER),
    (&["max_tokens", "max_completion_tokens", "n", "seed", "top_logprobs"], "an integer", INTEGER),
    (&["tools", "functions"], "an array of objects", ARRAY),
    (&["logprobs", "parallel_tool_calls", "store"], "a boolean", BOOLEAN),
    (&["logit_bias", "metadata", "response_format"], "an object", OBJECT),
    (&["user", "reasoning_effort"], "a string", STRING),
    (&["stop"], "one of a string or array of strings", &["a string", "an array"]),
    (&["tool_choice"], "one of a string or object", &["a string", "an object"]),
];

/// Checks the top level of a request.
///
/// # Errors
/// The problem, in the vendor's words.
pub fn check<'a>(member: &dyn Fn(&str) -> Option<&'a str>) -> Result<(), Invalid> {
    if is_empty_list(required("messages", member)?) {
        return Err(empty_list("messages"));
    }
    check_types(&TYPES, &|name| member(name).map(kind_of_text))
}

fn sampling(request: &mut ObjectMembers) -> Result<Sampling, Invalid> {
    let limits = [request.count("max_completion_tokens", 1)?, request.count("max_tokens", 1)?];
    Ok(Sampling {
        max_tokens: limits.into_iter().flatten().min(),
        temperature: request.number("temperature", 0.0, 2.0)?,
        top_p: request.number("top_p", 0.0, 1.0)?,
        // Local servers, where less than 1 means all.
        top_k: request.integer("top_k")?.filter(|top_k| *top_k > 0),
        presence_penalty: request.number("presence_penalty", -2.0, 2.0)?.filter(|penalty| *penalty != 0.0),
        frequency_penalty: request.number("frequency_penalty", -2.0, 2.0)?.filter(|penalty| *penalty != 0.0),
        seed: request.integer("seed")?,
        n: request.count("n", 1)?.filter(|n| *n > 1),
        stop: request.texts("stop", "one of a string or array of strings")?,
        logprobs: request.boolean("logprobs")?.filter(|wanted| *wanted),
        top_logprobs: request.count("top_logprobs", 0)?.filter(|count| *count > 0),
        logit_bias: request.object("logit_bias")?.map(|bias| Value::Object(bias.into_rest())),
    })
}

fn format(request: &mut ObjectMembers, losses: &mut Losses) -> Result<Option<Format>, Invalid> {
    let Some(mut format) = request.object("response_format")? else { return Ok(None) };
    let kind = format.required_string("type")?;
    let read = match kind.as_str() {
        "text" => None,
        // Some servers accept a schema here too.
        "json_object" => match format.take("schema") {
            None => Some(Format::Json),
            Some(schema) => Some(Format::Schema { name: None, description: None, schema, strict: None }),
        },
        "json_schema" => {
            let mut wrapper = format.required_object("json_schema")?;
            let name = Some(wrapper.required_string("name")?);
            let description = wrapper.string("description")?;
            let strict = wrapper.boolean("strict")?;
            let schema = wrapper.take("schema").ok_or_else(|| missing(&wrapper.path_of("schema")))?;
            wrapper.tell_rest(losses);
            Some(Format::Schema { name, description, schema, strict })
        }
        other => return Err(wrong_value("response_format.type", other, &["json_object", "json_schema", "text"])),
    };
    format.tell_rest(losses);
    Ok(read)
}

/// Clients request reasoning in three ways: OpenAI's `reasoning_effort`, OpenRouter's `reasoning` and Anthropic's
/// `thinking`.
fn reasoning(request: &mut ObjectMembers, losses: &mut Losses) -> Result<Option<Reasoning>, Invalid> {
    let mut read = Reasoning { effort: request.effort("reasoning_effort")?, ..Reasoning::default() };
    if let Some(mut wanted) = request.object("reasoning")? {
        read.effort = wanted.effort("effort")?.or(read.effort);
        read.budget = wanted.count("max_tokens", 0)?;
        read.enabled = wanted.boolean("enabled")?;
        read.show = wanted.boolean("exclude")?.map(|exclude| !exclude);
        if let Some(summary) = wanted.string("summary")? {
            read.show = Some(summary != "none");
        }
        wanted.tell_rest(losses);
    }
    if let Some(show) = request.boolean("include_reasoning")? {
        read.show = Some(show);
    }
    if let Some(mut thinking) = request.object("thinking")? {
        let kinds = ["enabled", "disabled", "adaptive"];
        let kind = thinking.one_of("type", &kinds)?.ok_or_else(|| missing("thinking.type"))?;
        read.enabled = Some(kind != "disabled");
        read.budget = thinking.count("budget_tokens", 0)?.or(read.budget);
        if let Some(display) = thinking.string("display")? {
            read.show = Some(display != "omitted");
        }
        thinking.tell_rest(losses);
    }
    Ok((read != Reasoning::default()).then_some(read))
}

fn about_the_caller(request: &mut ObjectMembers, conversation: &mut Conversation) -> Result<(), Invalid> {
    conversation.user = request.string("user")?;
    let identifier = request.string("safety_identifier")?;
    if conversation.user.is_none() {
        conversation.user_is_identifier = identifier.is_some();
        conversation.user = identifier;
    } else if identifier.is_some() && identifier != conversation.user {
        conversation.losses.lose("safety_identifier");
    }
    let metadata = request.object("metadata")?.map(ObjectMembers::into_rest);
    conversation.metadata = metadata.filter(|metadata| !metadata.is_empty());
    conversation.service_tier = request.string("service_tier")?.filter(|tier| tier != "auto");
    Ok(())
}

// Reads the tools of a chat request: functions, free-form tools, legacy functions, and the tool choice.

/// Takes all members about tools.
///
/// # Errors
/// The problem, in the vendor's words.
pub(super) fn read(request: &mut ObjectMembers, conversation: &mut Conversation) -> Result<(), Invalid> {
    let listed = request.has("tools") || request.has("functions");
    conversation.legacy_functions = listed && !request.has("tools");
    for mut tool in request.objects("tools")? {
        conversation.tools.extend(read_tool(&mut tool, &mut conversation.losses)?);
        tool.tell_rest(&mut conversation.losses);
    }
    for function in request.objects("functions")? {
        conversation.tools.push(function_of(function, &mut conversation.losses)?);
    }
    let choice = match request.take("tool_choice") {
        Some(value) => Some(choice(value, &mut conversation.losses)?),
        None => legacy_choice(request, &mut conversation.losses)?,
    };
    if !listed && matches!(choice, Some(ToolChoice::Required | ToolChoice::Named(_))) {
        let message = "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.";
        return Err(Invalid::at("tool_choice", message));
    }
    conversation.tool_choice = choice.filter(|_| listed);
    // Every vendor allows parallel calls by default.
    conversation.parallel_tool_calls = request.boolean("parallel_tool_calls")?.filter(|parallel| listed && !*parallel);
    Ok(())
}

/// None for a tool that the vendor runs itself.
fn read_tool(tool: &mut ObjectMembers, losses: &mut Losses) -> Result<Option<Tool>, Invalid> {
    let kind = tool.required_string("type")?;
    let cache = tool.take("cache_control").map(|value| cache_hint(&value));
    let mut read = match kind.as_str() {
        "function" => function_of(tool.required_object("function")?, losses)?,
        "custom" => custom_of(tool.required_object("custom")?, losses)?,
        kind => {
            losses.content(kind);
            return Ok(None);
        }
    };
    read.cache = read.cache.or(cache);
    Ok(Some(read))
}

fn function_of(mut function: ObjectMembers, losses: &mut Losses) -> Result<Tool, Invalid> {
    let parameters = function.schema("parameters")?;
    let read = Tool {
        name: function.required_string("name")?,
        description: function.string("description")?,
        parameters,
        strict: function.boolean("strict")?,
        cache: function.take("cache_control").map(|value| cache_hint(&value)),
        ..Tool::default()
    };
    function.tell_rest(losses);
    Ok(read)
}

fn custom_of(mut custom: ObjectMembers, losses: &mut Losses) -> Result<Tool, Invalid> {
    let name = custom.required_string("name")?;
    let description = custom.string("description")?;
    // Chat nests a grammar in an object; the neutral form is Responses' flat one.
    let format = match custom.object("format")? {
        None => None,
        Some(format) => grammar_of(format, losses)?,
    };
    custom.tell_rest(losses);
    Ok(Tool { name, description, format, custom: true, ..Tool::default() })
}

/// None for free text.
fn grammar_of(mut format: ObjectMembers, losses: &mut Losses) -> Result<Option<Value>, Invalid> {
    let grammar = match format.required_string("type")?.as_str() {
        "text" => None,
        "grammar" => {
            let mut grammar = format.required_object("grammar")?;
            let syntax = grammar.required_string("syntax")?;
            let definition = grammar.required_string("definition")?;
            grammar.tell_rest(losses);
            Some(json!({ "type": "grammar", "syntax": syntax, "definition": definition }))
        }
        other => return Err(wrong_value(&format.path_of("type"), other, &["text", "grammar"])),
    };
    format.tell_rest(losses);
    Ok(grammar)
}

fn choice(value: Value, losses: &mut Losses) -> Result<ToolChoice, Invalid> {
    let mut object = match value {
        Value::String(word) => return named_choice(&word, "tool_choice"),
        Value::Object(_) => ObjectMembers::new(value, "tool_choice".to_owned())?,
        other => return Err(wrong_type("tool_choice", "one of a string or object", kind_of(&other))),
    };
    let kind = object.required_string("type")?;
    match kind.as_str() {
        "function" | "custom" => {
            let mut named = object.required_object(&kind)?;
            let name = named.required_string("name")?;
            named.tell_rest(losses);
            object.tell_rest(losses);
            Ok(ToolChoice::Named(name))
        }
        "allowed_tools" => {
            // No other dialect can restrict the choice to some tools. All tools stay listed, which keeps the vendor's
            // cache valid.
            losses.lose("tool_choice.allowed_tools");
            let mode = object.required_object("allowed_tools")?.string("mode")?.unwrap_or_else(|| "auto".to_owned());
            named_choice(&mode, "tool_choice.allowed_tools.mode")
        }
        other => Err(wrong_value("tool_choice.type", other, &["function", "allowed_tools", "custom"])),
    }
}

fn named_choice(word: &str, path: &str) -> Result<ToolChoice, Invalid> {
    match word {
        "auto" => Ok(ToolChoice::Auto),
        "none" => Ok(ToolChoice::None),
        // `any` is Mistral's name.
        "required" | "any" => Ok(ToolChoice::Required),
        other => Err(wrong_value(path, other, &["none", "auto", "required"])),
    }
}

fn legacy_choice(request: &mut ObjectMembers, losses: &mut Losses) -> Result<Option<ToolChoice>, Invalid> {
    match request.take("function_call") {
        None => Ok(None),
        Some(Value::String(word)) => named_choice(&word, "function_call").map(Some),
        Some(object) => {
            let mut object = ObjectMembers::new(object, "function_call".to_owned())?;
            let name = object.required_string("name")?;
            object.tell_rest(losses);
            Ok(Some(ToolChoice::Named(name)))
        }
    }
}
