//! Reduces a JSON schema to the part that Claude accepts for strict tools and structured answers. The rest moves into
//! the description, as text.

use serde_json::{Map, Value};

use crate::translate::Losses;

/// Keywords that are kept. None of them contains schemas.
const KEPT: &[&str] = &["$ref", "type", "required", "enum", "const", "default", "title", "description"];
/// String formats that Claude enforces.
const FORMATS: &[&str] = &["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"];
/// Unsupported in a pattern: lookaround, word boundaries, back references, property classes.
const NO_PATTERNS: &[&str] = &["(?", r"\b", r"\B", r"\p", r"\P", r"\k"];

/// The reduced schema of an answer. Reports to `losses` what it no longer contains.
pub fn closed(schema: &Value, losses: &mut Losses) -> Value {
    let (schema, loss) = reduced(schema.clone());
    if loss.meaning {
        losses.content("response_format.schema");
    }
    losses.lose_if(loss.hint, "response_format.schema");
    schema
}

/// The reduced schema of a strict tool. None: the schema asks for more than a strict tool may have, so the tool keeps its
/// schema and is not strict.
pub fn closed_tool(schema: &Value, at: usize, losses: &mut Losses) -> Option<Value> {
    let (schema, loss) = reduced(schema.clone());
    if loss.meaning {
        losses.lose(format!("tools[{at}].function.strict"));
        return None;
    }
    losses.lose_if(loss.hint, &format!("tools[{at}].function.parameters"));
    Some(schema)
}

fn reduced(mut schema: Value) -> (Value, SchemaLoss) {
    let mut loss = SchemaLoss::default();
    loss.close(&mut schema);
    (schema, loss)
}

/// What a schema lost.
#[derive(Default)]
struct SchemaLoss {
    /// A constraint moved into the description.
    hint: bool,
    /// Something that was requested cannot be part of the answer.
    meaning: bool,
}

impl SchemaLoss {
    /// Iterates over keywords, because properties may have any name.
    fn close(&mut self, schema: &mut Value) {
        let Value::Object(members) = schema else { return };
        let mut told = Vec::new();
        let mut is_object = members.contains_key("properties") || of_objects(members.get("type"));
        let has_any = members.contains_key("anyOf");
        for (name, mut value) in std::mem::take(members) {
            match (name.as_str(), &mut value) {
                ("properties" | "$defs" | "definitions", Value::Object(schemas)) => {
                    schemas.values_mut().for_each(|schema| self.close(schema));
                }
                ("items", schema @ Value::Object(_)) => self.close(schema),
                ("anyOf" | "allOf", Value::Array(schemas)) => schemas.iter_mut().for_each(|schema| self.close(schema)),
                ("oneOf", Value::Array(schemas)) if !has_any => {
                    schemas.iter_mut().for_each(|schema| self.close(schema));
                    members.insert("anyOf".to_owned(), value);
                    continue;
                }
                ("additionalProperties", value) => {
                    is_object = true;
                    self.hint |= *value == true;
                    self.meaning |= value.is_object();
                    continue;
                }
                // These keywords do not constrain a value.
                ("$schema" | "$id" | "$comment", _) => continue,
                (name, value) if KEPT.contains(&name) || is_taken(name, value) => {}
                (name, value) => {
                    told.push(format!("{name}: {value}"));
                    continue;
                }
            }
            members.insert(name, value);
        }
        if is_object {
            members.insert("additionalProperties".to_owned(), Value::from(false));
        }
        if !told.is_empty() {
            self.hint = true;
            describe(members, &told.join(", "));
        }
    }
}

fn of_objects(kind: Option<&Value>) -> bool {
    match kind {
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        kind => kind.is_some_and(|kind| kind == "object"),
    }
}

/// Keywords that are accepted only with some values.
fn is_taken(name: &str, value: &Value) -> bool {
    match (name, value) {
        ("minItems", value) => value.as_u64().is_some_and(|least| least <= 1),
        ("format", Value::String(format)) => FORMATS.contains(&format.as_str()),
        ("pattern", Value::String(pattern)) => {
            let refers = pattern.as_bytes().windows(2).any(|pair| pair[0] == b'\\' && (b'1'..=b'9').contains(&pair[1]));
            !refers && !NO_PATTERNS.iter().any(|no| pattern.contains(no))
        }
        _ => false,
    }
}

fn describe(members: &mut Map<String, Value>, told: &str) {
    let description = match members.get("description").and_then(Value::as_str) {
        Some(before) if !before.is_empty() => format!("{before}\n({told})"),
        _ => format!("({told})"),
    };
    members.insert("description".to_owned(), Value::from(description));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn close(schema: Value) -> (Value, Vec<String>, bool) {
        let mut losses = Losses::default();
        let schema = closed(&schema, &mut losses);
        (schema, losses.names().map(str::to_owned).collect(), losses.keeps_content())
    }

    #[test]
    fn what_is_refused_is_told_in_words() {
        let schema = json!({
            "$schema": "x", "type": "object", "required": ["n"], "minProperties": 1,
            "properties": {
                "n": { "type": "integer", "minimum": 1, "exclusiveMaximum": 9, "description": "A number." },
                "s": { "type": "string", "pattern": "^[a-z]+$", "format": "email", "maxLength": 3 },
                "l": { "type": "array", "minItems": 1, "maxItems": 2, "items": { "type": "object", "const": { "minimum": 1 } } },
                "o": { "oneOf": [{ "type": ["object", "null"] }, { "$ref": "#/$defs/maximum" }] },
            },
            "$defs": { "maximum": { "properties": { "minItems": { "type": "string" } } } },
        });
        let expected = json!({
            "type": "object", "required": ["n"], "additionalProperties": false, "description": "(minProperties: 1)",
            "properties": {
                "n": { "type": "integer", "description": "A number.\n(minimum: 1, exclusiveMaximum: 9)" },
                "s": { "type": "string", "pattern": "^[a-z]+$", "format": "email", "description": "(maxLength: 3)" },
                "l": { "type": "array", "minItems": 1, "description": "(maxItems: 2)",
                    "items": { "type": "object", "additionalProperties": false, "const": { "minimum": 1 } } },
                "o": { "anyOf": [{ "type": ["object", "null"], "additionalProperties": false }, { "$ref": "#/$defs/maximum" }] },
            },
            "$defs": { "maximum": { "properties": { "minItems": { "type": "string" } }, "additionalProperties": false } },
        });
        assert_eq!(close(schema), (expected.clone(), vec!["response_format.schema".to_owned()], true));
        assert_eq!(close(expected["properties"]["s"].clone()).1, Vec::<String>::new(), "nothing is told twice");
    }

    #[test]
    fn objects_take_no_other_members() {
        let closed = json!({ "type": "object", "additionalProperties": false });
        for (schema, lost, keeps) in [
            (json!({ "type": "object" }), vec![], true),
            (json!({ "type": "object", "additionalProperties": false }), vec![], true),
            (
                json!({ "type": "object", "additionalProperties": true }),
                vec!["response_format.schema".to_owned()],
                true,
            ),
            (
                json!({ "type": "object", "additionalProperties": { "type": "string" } }),
                vec!["response_format.schema".to_owned()],
                false,
            ),
        ] {
            assert_eq!(close(schema.clone()), (closed.clone(), lost, keeps), "{schema}");
        }
    }

    #[test]
    fn some_values_of_a_keyword_are_taken() {
        let table = [
            ("minItems", json!(0), true),
            ("minItems", json!(2), false),
            ("format", json!("uuid"), true),
            ("format", json!("binary"), false),
            ("pattern", json!(r"^\d{3}$"), true),
            ("pattern", json!("(?=a)"), false),
            ("pattern", json!(r"(a)\1"), false),
            ("pattern", json!(r"\bword"), false),
            ("pattern", json!(1), false),
        ];
        for (name, value, taken) in table {
            let (schema, lost, _) = close(json!({ name: value }));
            assert_eq!((schema.get(name).is_some(), lost.is_empty()), (taken, taken), "{name} {value}");
        }
    }
}
