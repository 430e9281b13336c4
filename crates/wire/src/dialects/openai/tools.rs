//! Reads the tools of a chat request: functions, free-form tools, legacy functions, and the tool choice.

use serde_json::Value;

use super::parts::cache_hint;
use crate::client_error::Invalid;
use crate::json::values::json;
use crate::translate::members::ObjectMembers;
use crate::translate::parameter::{kind_of, wrong_type, wrong_value};
use crate::translate::{Conversation, Losses, Tool, ToolChoice};

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
        return Err(Invalid {
            message: "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."
                .to_owned(),
            param: Some("tool_choice".to_owned()),
        });
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
