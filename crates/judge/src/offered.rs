//! Where each surface has its tools, and the schema that an answer must follow. Not for judging answers.

use serde_json::Value;

use photofinish_wire::dialect::Surface;

/// A tool's name, its schema, and whether its input is free text.
type OfferedTool<'a> = (&'a str, Option<&'a Value>, bool);

/// The tools in one item of the list: None: the names of what it offers are not known here.
pub(super) fn tools_in(surface: Surface, item: &Value) -> Option<Vec<OfferedTool<'_>>> {
    match surface {
        Surface::Gemini => {
            let declared = item.get("functionDeclarations").or_else(|| item.get("function_declarations"))?;
            // `parameters` are of OpenAPI, with other names of types.
            declared
                .as_array()
                .into_iter()
                .flatten()
                .map(|one| Some((one["name"].as_str()?, one.get("parametersJsonSchema"), false)))
                .collect()
        }
        Surface::Messages => {
            let is_own = item.get("type").is_none_or(|kind| kind == "custom");
            let name = item["name"].as_str().filter(|_| is_own)?;
            Some(vec![(name, item.get("input_schema"), false)])
        }
        _ => {
            let inner = item.get("function").or_else(|| item.get("custom")).unwrap_or(item);
            let is_free = item["type"] == "custom";
            let name = inner["name"]
                .as_str()
                .filter(|_| is_free || item["type"] == "function" || item.get("type").is_none())?;
            Some(vec![(name, inner.get("parameters"), is_free)])
        }
    }
}

/// The schema in the member that asks for an answer in JSON. A schema of OpenAPI asks only for JSON, and so does Gemini without one.
pub(super) fn schema_in(surface: Surface, format: &str) -> String {
    let format: Value = serde_json::from_str(format).unwrap_or_default();
    let paths: &[&str] = match surface {
        Surface::Chat => &["/json_schema/schema"],
        Surface::Responses => &["/format/schema"],
        Surface::Messages => &["/schema", "/format/schema"],
        Surface::Gemini => &["/responseJsonSchema"],
        _ => &[""],
    };
    let schema = paths.iter().find_map(|path| format.pointer(path)).filter(|schema| !schema.is_string());
    match schema {
        Some(schema) => schema.to_string(),
        None if surface == Surface::Gemini => "true".to_owned(),
        None => r#"{"type":"object"}"#.to_owned(),
    }
}
