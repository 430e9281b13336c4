//! What requests to Claude have in common at Anthropic and at Bedrock: schemas and thinking. What a model takes: see `quirks`.

use serde_json::{Map, Value};

use photofinish_wire::conversation::signature::{SignatureOwner, own};
use photofinish_wire::conversation::{
    Conversation, ConversationTurn, Effort, Losses, MessagePart, Reasoning, ReasoningPart, Role,
};

// Reduces a JSON schema to the part that Claude accepts for strict tools and structured answers. The rest moves into
// the description, as text.

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
        let mut constraints = Vec::new();
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
                    constraints.push(format!("{name}: {value}"));
                    continue;
                }
            }
            members.insert(name, value);
        }
        if is_object {
            members.insert("additionalProperties".to_owned(), Value::from(false));
        }
        if !constraints.is_empty() {
            self.hint = true;
            describe(members, &constraints.join(", "));
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

fn describe(members: &mut Map<String, Value>, constraints: &str) {
    let description = match members.get("description").and_then(Value::as_str) {
        Some(before) if !before.is_empty() => format!("{before}\n({constraints})"),
        _ => format!("({constraints})"),
    };
    members.insert("description".to_owned(), Value::from(description));
}

// How much thinking may be requested from a Claude, and when none may be requested. The same for Anthropic and
// Bedrock.

/// The vendor's minimum budget, in tokens.
const BUDGET_MIN: u64 = 1_024;
/// Tokens left for the answer if the caller set a budget but no limit.
const ANSWER: u64 = 4_096;

/// The signature with which a thinking block can be sent back: only Anthropic's own.
pub fn signed(thinking: &ReasoningPart) -> Option<&str> {
    own(SignatureOwner::Anthropic, thinking.signature.as_deref()?)
}

/// The budget that fits below the limit: a requested budget up to the limit, the budget of an effort up to half of it.
/// None if the minimum does not fit. `most` is the model's own limit, if known.
pub fn budget(asked: &Reasoning, max_tokens: Option<u64>, most: Option<u64>) -> Option<u64> {
    let budget = asked.budget.unwrap_or_else(|| asked.effort.unwrap_or(Effort::Medium).budget());
    // A higher limit is cut to the model's.
    let max_tokens = max_tokens.map(|limit| limit.min(most.unwrap_or(u64::MAX)));
    let room = match (max_tokens, most, asked.budget) {
        (Some(limit), _, Some(_)) => limit.saturating_sub(1),
        (None, Some(most), Some(_)) => most.saturating_sub(ANSWER),
        (Some(limit), _, None) | (None, Some(limit), None) => (limit / 2).max(BUDGET_MIN.min(limit.saturating_sub(1))),
        (None, None, _) => u64::MAX,
    };
    (room >= BUDGET_MIN).then(|| budget.clamp(BUDGET_MIN, room))
}

/// True if the last turn answers calls of a turn without signed thoughts. Models with budgets then refuse to think.
pub fn continues_without_thoughts(conversation: &Conversation) -> bool {
    let turns = conversation.turns.iter().rev().skip_while(|turn| turn.role != Role::Assistant);
    // Neighbours become one turn.
    let last: Vec<&ConversationTurn> = turns.take_while(|turn| turn.role == Role::Assistant).collect();
    let any = |says: fn(&MessagePart) -> bool| last.iter().flat_map(|turn| &turn.parts).any(says);
    any(|part| matches!(part, MessagePart::Call(_)))
        && !any(|part| matches!(part, MessagePart::Thinking(thinking) if signed(thinking).is_some()))
}

/// True if the caller wrote the beginning of the answer, which cannot have thoughts. `messages`: the messages to send.
pub fn is_begun(messages: &[Value]) -> bool {
    messages.last().is_some_and(|message| message["role"] == "assistant")
}

#[cfg(test)]
mod schema_tests {
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
        assert_eq!(close(expected["properties"]["s"].clone()).1, Vec::<String>::new(), "nothing is described twice");
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

#[cfg(test)]
mod thinking_tests {
    use super::*;

    #[test]
    fn budgets_leave_room_for_the_answer() {
        let effort = Reasoning { effort: Some(Effort::High), ..Reasoning::default() };
        let asked = |budget| Reasoning { budget: Some(budget), ..Reasoning::default() };
        let table = [
            (&effort, None, None, Some(16_384)),
            (&effort, None, Some(64_000), Some(16_384)),
            (&effort, None, Some(20_000), Some(10_000)),
            (&effort, Some(16_385), None, Some(8_192)),
            (&effort, Some(1_500), None, Some(1_024)),
            (&effort, Some(1_024), None, None),
            (&asked(9_000), Some(5_000), Some(64_000), Some(4_999)),
            (&asked(90_000), None, Some(64_000), Some(59_904)),
            (&asked(90_000), None, None, Some(90_000)),
            (&asked(1), None, None, Some(1_024)),
            (&asked(90_000), Some(100_000), Some(64_000), Some(63_999)),
        ];
        for (asked, limit, most, expected) in table {
            assert_eq!(budget(asked, limit, most), expected, "{asked:?} {limit:?} {most:?}");
        }
    }
}
