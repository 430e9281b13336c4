//! Tools of a namespace (Codex: those of an MCP server), which only Responses has. For other dialects both names are
//! joined into one; the call of such a tool gets its own names back.

use crate::json::values::json;
use std::collections::HashMap;

use serde_json::{Map, Value};

/// Between the names.
const BETWEEN: &str = "__";
/// Maximum bytes of a tool's name: OpenAI's limit, the lowest of all vendors.
const NAME_MAX: usize = 64;

/// One name for a tool of a namespace. A long name ends in a checksum instead.
pub(super) fn joined(namespace: &str, name: &str) -> String {
    let whole = format!("{namespace}{BETWEEN}{name}");
    if whole.len() <= NAME_MAX {
        return whole;
    }
    let checksum = format!("_{:08x}", crc32fast::hash(whole.as_bytes()));
    whole[..whole.floor_char_boundary(NAME_MAX - checksum.len())].to_owned() + &checksum
}

/// The namespaces of a request with nothing but the names of their tools. None: it has none.
pub(super) fn names_only(tools: &Value) -> Option<Value> {
    let namespaces = tools.as_array()?.iter().filter_map(tools_of).map(|(namespace, tools)| {
        let named = tools.iter().map(|tool| json!({ "type": tool["type"], "name": tool["name"] }));
        json!({ "type": "namespace", "name": namespace, "tools": named.collect::<Vec<_>>() })
    });
    let namespaces: Vec<Value> = namespaces.collect();
    (!namespaces.is_empty()).then_some(Value::Array(namespaces))
}

/// The name and the tools, if this is a namespace.
pub(super) fn tools_of(tool: &Value) -> Option<(&str, &[Value])> {
    let is_namespace = tool["type"] == "namespace";
    is_namespace.then_some((tool["name"].as_str()?, tool["tools"].as_array()?.as_slice()))
}

/// The namespace and the name of each tool, by its joined name.
#[derive(Debug, Default)]
pub(super) struct Namespaces(HashMap<String, (String, String)>);

impl Namespaces {
    /// From the members of the request that an answer repeats.
    pub fn of(echo: &Map<String, Value>) -> Namespaces {
        let tools = echo.get("tools").and_then(Value::as_array).into_iter().flatten().filter_map(tools_of);
        let named = tools.flat_map(|(namespace, tools)| {
            let names = tools.iter().filter_map(|tool| tool["name"].as_str());
            names.map(move |name| (joined(namespace, name), (namespace.to_owned(), name.to_owned())))
        });
        Namespaces(named.collect())
    }

    /// The namespace and the name of a called tool.
    pub fn split(&self, name: String) -> (Option<String>, String) {
        match self.0.get(&name) {
            Some((namespace, own)) => (Some(namespace.clone()), own.clone()),
            None => (None, name),
        }
    }
}
