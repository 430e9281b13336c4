//! Bounds on a request that is translated, and so is built in memory: how many tools, messages and parts it may have,
//! and why valid JSON may still be unreadable. Not for requests that are passed through: nothing is built of them.

use serde::de::IgnoredAny;
use serde_json::Value;

use crate::client_error::Invalid;
use crate::dialect::{Dialect, Surface};
use crate::json::{InvalidJson, Json, SERDE_DEPTH_MAX};

/// Maximum tools of a request.
pub const TOOLS_MAX: usize = 20_000;
/// Maximum messages, or input items, of a request.
pub const MESSAGES_MAX: usize = 20_000;
/// Maximum parts of all messages and the system prompt: texts, images, calls and so on.
pub const PARTS_MAX: usize = 20_000;

/// Counts the elements of a body without building them. Accepts a body that is not JSON; reading it reports the error.
///
/// # Errors
/// The exceeded bound, in the vendor's words.
pub fn check(surface: Surface, body: &[u8]) -> Result<(), Invalid> {
    let Ok(text) = std::str::from_utf8(body) else { return Ok(()) };
    let (mut tools, mut messages, mut parts) = (0_usize, 0_usize, 0_usize);
    let counted = Json::nested(text, SERDE_DEPTH_MAX).object(|name, json| match name {
        "tools" | "functions" => json.items(|json| {
            tools += 1;
            json.object(|name, json| match name {
                // Tools of a namespace, and Gemini's.
                "tools" | "functionDeclarations" | "function_declarations" => count(json, &mut tools),
                _ => json.skip().map(drop),
            })
        }),
        "systemInstruction" | "system_instruction" => json.object(|_, json| count(json, &mut parts)),
        "messages" | "input" | "contents" => json.items(|json| {
            messages += 1;
            json.object(|_, json| count(json, &mut parts))
        }),
        "system" => count(json, &mut parts),
        _ => json.skip().map(drop),
    });
    if counted.is_err() {
        return Ok(());
    }
    let turns = match surface.dialect() {
        Dialect::Responses => "input",
        Dialect::Gemini => "contents",
        _ => "messages",
    };
    for (name, what, count, most) in [
        ("tools", "tools", tools, TOOLS_MAX),
        (turns, turns, messages, MESSAGES_MAX),
        (turns, "content parts", parts, PARTS_MAX),
    ] {
        if count > most {
            return Err(too_many(surface, name, what, count, most));
        }
    }
    Ok(())
}

/// Counts the items of a list.
fn count(json: &mut Json<'_>, items: &mut usize) -> Result<(), InvalidJson> {
    json.list(|json| {
        *items += 1;
        json.skip().map(drop)
    })
}

fn too_many(surface: Surface, name: &str, what: &str, count: usize, most: usize) -> Invalid {
    let message = match surface.dialect() {
        Dialect::Anthropic if name == what => {
            format!("{name}: List should have at most {most} items after validation, not {count}")
        }
        Dialect::Anthropic => format!("{name}: too many {what}: {count} > {most} maximum"),
        _ if name == what => format!(
            "Invalid '{name}': array too long. Expected an array with maximum length {most}, but got an array with length {count} instead."
        ),
        _ => format!("Invalid '{name}': too many {what}. Expected at most {most}, but got {count} instead."),
    };
    Invalid { message, param: Some(name.to_owned()) }
}

/// Why a body that is syntactically JSON cannot be read. None if it can, or is not JSON at all.
pub fn unreadable(surface: Surface, body: &[u8]) -> Option<Invalid> {
    serde_json::from_slice::<IgnoredAny>(body).ok()?;
    let said = serde_json::from_slice::<Value>(body).err()?.to_string();
    let why = match () {
        () if said.contains("recursion limit") => "it is nested too deeply",
        () if said.contains("hex escape") => "a string in it has a lone surrogate, which stands for no character",
        () => return None,
    };
    let message = match surface.dialect() {
        Dialect::Anthropic => format!("The request body could not be read: {why}."),
        _ => format!("We could not parse the JSON body of your request: {why}."),
    };
    Some(Invalid { message, param: None })
}
