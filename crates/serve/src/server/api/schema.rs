//! The parts of the OpenAPI document that follow from declarations: parameters from the command line's arguments, schemas from
//! field lists and from types. Not for the paths: see `openapi`.

use std::any::TypeId;

use clap::builder::PossibleValue;
use clap::{Arg, Args, Command};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use photofinish_history::report::fields::{FieldKind, MemberField};

/// The arguments of a question as query parameters.
pub(super) fn parameters<Q: Args>() -> Vec<Value> {
    let command = Q::augment_args(Command::new("query").disable_help_flag(true));
    command.get_arguments().filter_map(parameter).collect()
}

/// The schemas of a type and of the types in it, by name: OpenAPI 3.1 uses JSON Schema 2020-12.
pub(super) fn derived<T: JsonSchema>() -> Map<String, Value> {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let settings = settings.with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    generator.subschema_for::<T>();
    generator.take_definitions(true)
}

/// An object with these members and no others.
pub(super) fn object(about: &str, fields: &[&[MemberField]]) -> Value {
    let fields = || fields.iter().copied().flatten();
    let properties: Map<String, Value> = fields().map(|field| (field.name.to_owned(), member(field))).collect();
    let required: Vec<&str> = fields().filter(|field| !field.optional).map(|field| field.name).collect();
    json!({
        "type": "object",
        "description": about,
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn member(field: &MemberField) -> Value {
    let kind = match field.kind {
        FieldKind::Integer => "integer",
        FieldKind::Number => "number",
        FieldKind::Text => "string",
        FieldKind::Boolean => "boolean",
        FieldKind::Counts => "object",
    };
    let mut schema = json!({ "type": kind, "description": field.about });
    if field.nullable {
        schema["type"] = json!([kind, "null"]);
    }
    if field.kind == FieldKind::Counts {
        schema["additionalProperties"] = json!({ "type": "integer" });
    }
    if !field.unit.is_empty() {
        schema["x-unit"] = json!(field.unit);
    }
    schema
}

fn parameter(argument: &Arg) -> Option<Value> {
    let name = argument.get_long()?;
    // Options have dashes; parameters do not.
    let about = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let about = about.replace("since --since", "`since`").replace(" --", " ");
    let mut one = kind(argument);
    let mut defaults: Vec<Value> =
        argument.get_default_values().iter().map(|value| default(&one, &value.to_string_lossy())).collect();
    let list = argument.get_value_delimiter().is_some();
    if list {
        one = json!({ "type": "array", "items": one });
    }
    if !defaults.is_empty() {
        one["default"] = if list { json!(defaults) } else { defaults.remove(0) };
    }
    let mut parameter = json!({ "name": name, "in": "query", "description": about, "schema": one });
    if argument.is_required_set() {
        parameter["required"] = json!(true);
    }
    if list {
        // Separated by commas.
        parameter["style"] = json!("form");
        parameter["explode"] = json!(false);
    }
    Some(parameter)
}

/// The schema of one value.
fn kind(argument: &Arg) -> Value {
    if !argument.get_action().takes_values() {
        return json!({ "type": "boolean", "default": false });
    }
    let possible = argument.get_possible_values();
    if !possible.is_empty() {
        return json!({ "type": "string", "enum": possible.iter().map(PossibleValue::get_name).collect::<Vec<_>>() });
    }
    let parsed = argument.get_value_parser().type_id();
    let is = |types: &[TypeId]| types.iter().any(|known| parsed == *known);
    if is(&[TypeId::of::<u64>(), TypeId::of::<u32>(), TypeId::of::<u16>(), TypeId::of::<usize>()]) {
        return json!({ "type": "integer", "minimum": 0 });
    }
    json!({ "type": if is(&[TypeId::of::<f64>()]) { "number" } else { "string" } })
}

fn default(schema: &Value, typed: &str) -> Value {
    match schema["type"].as_str() {
        Some("integer" | "number") => serde_json::from_str(typed).unwrap_or(Value::Null),
        Some("boolean") => json!(typed == "true"),
        _ => json!(typed),
    }
}
