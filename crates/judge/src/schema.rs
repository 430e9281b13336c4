//! One JSON schema as a check whose cost is bounded before it runs: a hostile schema is not checked. The crate `jsonschema` checks.
//!
//! A check is not stopped while it runs. So the work is bounded beforehand: how often the schema may look at one value and
//! those around it, times the bytes of what is checked.

mod pattern;

use std::collections::HashMap;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::{Map, Value};

/// Bytes of a schema that answers are checked by.
const SCHEMA_BYTES_MAX: usize = 64 << 10;
/// Nesting of an answer that is checked.
pub(super) const VALUE_DEPTH_MAX: u8 = 32;
/// Schemas inside each other, with references followed: the stack that a check may take.
const HEIGHT_MAX: u32 = 256;
/// Steps of the search for the bound of one schema.
const STEPS_MAX: u32 = 50_000;
/// Looks of a schema at each byte, times the bytes: about 50 ms.
const WORK_MAX: u64 = 8_000_000;
/// A pattern compared with one byte, in looks at a value.
const PATTERN_LOOKS: u64 = 16;
/// The same, if it may go back.
const HARD_LOOKS: u64 = 512;

/// What a schema says of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SchemaVerdict {
    Obeyed,
    Broken,
    /// The check could take too long, or depends on what cannot be checked.
    Unknown,
}

/// A schema, compiled.
pub(super) enum Schema {
    /// There is none: it asks for nothing.
    None,
    Check {
        validator: Box<Validator>,
        looks: u64,
    },
    /// It is too large, does not compile, or a check of it could take too long.
    Unchecked,
}

impl Schema {
    /// Draft 7, unless its `$schema` says another. `format` is not checked: whether a text is a date is an annotation in most
    /// tools' schemas, not a demand. References to elsewhere are not followed: then it does not compile. A pattern that does not compile
    /// leaves unchecked what has to match it, and nothing else.
    pub fn compile(text: &str) -> Schema {
        if text.len() > SCHEMA_BYTES_MAX {
            return Schema::Unchecked;
        }
        // Nested deeper than 128, it is not read.
        let Ok(mut schema) = serde_json::from_str::<Value>(text) else { return Schema::Unchecked };
        if schema.is_null() {
            return Schema::None;
        }
        let mut bound = Bound { root: &schema, known: HashMap::new(), steps: 0, depth: 0 };
        let Some(cost) = bound.of(&schema, VALUE_DEPTH_MAX).filter(|cost| cost.height <= HEIGHT_MAX) else {
            return Schema::Unchecked;
        };
        let draft = draft(&schema);
        if let Value::Object(members) = &mut schema {
            // One that is not known would be looked for.
            members.shift_remove("$schema");
        }
        pattern::set_apart(&mut schema);
        let (regex, size) = (PatternOptions::regex(), pattern::PATTERN_MAX);
        let options = jsonschema::options()
            .with_draft(draft)
            .offline()
            .should_validate_formats(false)
            .with_pattern_options(regex.size_limit(size).dfa_size_limit(size));
        match pattern::known(options).build(&schema) {
            Ok(validator) => Schema::Check { validator: Box::new(validator), looks: cost.looks },
            Err(_) => Schema::Unchecked,
        }
    }

    /// `bytes`: of the text of `value`.
    pub fn check(&self, value: &Value, bytes: usize) -> SchemaVerdict {
        match self {
            Schema::None => SchemaVerdict::Obeyed,
            Schema::Unchecked => SchemaVerdict::Unknown,
            Schema::Check { looks, .. } if looks.saturating_mul(bytes as u64) > WORK_MAX => SchemaVerdict::Unknown,
            Schema::Check { .. } if is_deeper(value, VALUE_DEPTH_MAX) => SchemaVerdict::Unknown,
            Schema::Check { validator, .. } => match pattern::sure(|| validator.is_valid(value)) {
                Some(true) => SchemaVerdict::Obeyed,
                Some(false) => SchemaVerdict::Broken,
                None => SchemaVerdict::Unknown,
            },
        }
    }
}

/// Draft 7, unless `$schema` says another that is known.
fn draft(schema: &Value) -> Draft {
    let named = schema.get("$schema").and_then(Value::as_str).unwrap_or_default();
    match named.trim_end_matches('#').trim_start_matches("https").trim_start_matches("http") {
        "://json-schema.org/draft-04/schema" => Draft::Draft4,
        "://json-schema.org/draft-06/schema" => Draft::Draft6,
        "://json-schema.org/draft/2019-09/schema" => Draft::Draft201909,
        "://json-schema.org/draft/2020-12/schema" => Draft::Draft202012,
        _ => Draft::Draft7,
    }
}

fn is_deeper(value: &Value, levels: u8) -> bool {
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(|item| is_deeper(item, levels - 1)),
        Value::Object(members) => levels == 0 || members.values().any(|member| is_deeper(member, levels - 1)),
        _ => false,
    }
}

/// The most that a schema does for a value and, of what is inside it, the dearest way down.
#[derive(Clone, Copy, Default)]
struct CheckCost {
    looks: u64,
    /// Schemas inside each other.
    height: u32,
}

impl CheckCost {
    fn and(self, other: CheckCost) -> CheckCost {
        CheckCost { looks: self.looks.saturating_add(other.looks), height: self.height.max(other.height) }
    }

    fn or(self, other: CheckCost) -> CheckCost {
        CheckCost { looks: self.looks.max(other.looks), height: self.height.max(other.height) }
    }
}

/// The search for the bound of one schema.
struct Bound<'s> {
    root: &'s Value,
    /// By the target of a reference, and the levels below. None: it is being searched, so it goes round in a circle.
    known: HashMap<(&'s str, u8), Option<CheckCost>>,
    steps: u32,
    /// Schemas inside each other now.
    depth: u32,
}

impl<'s> Bound<'s> {
    /// `levels`: how deep the value may go on. None: no bound was found.
    fn of(&mut self, schema: &'s Value, levels: u8) -> Option<CheckCost> {
        self.steps += 1;
        if self.steps > STEPS_MAX || self.depth >= HEIGHT_MAX {
            return None;
        }
        let Value::Object(members) = schema else { return Some(CheckCost { looks: 1, height: 1 }) };
        self.depth += 1;
        let mut cost = Some(CheckCost { looks: 1, height: 0 });
        for (name, value) in members {
            cost = cost.and_then(|cost| Some(cost.and(self.of_keyword(name, value, levels)?)));
        }
        self.depth -= 1;
        cost.map(|cost| CheckCost { height: cost.height + 1, ..cost })
    }

    fn of_keyword(&mut self, name: &str, value: &'s Value, levels: u8) -> Option<CheckCost> {
        let below = levels.checked_sub(1);
        let looks = |looks| Some(CheckCost { looks, height: 0 });
        match (name, value) {
            ("$ref", Value::String(target)) => self.of_target(target, levels),
            // What they mean depends on what was looked at before.
            ("$dynamicRef" | "$recursiveRef" | "unevaluatedProperties" | "unevaluatedItems", _) => None,
            ("contentMediaType" | "contentEncoding", _) => looks(PATTERN_LOOKS),
            ("pattern", Value::String(pattern)) => looks(looks_of(pattern)),
            ("enum" | "required", Value::Array(items)) => looks(items.len() as u64),
            ("uniqueItems", _) => looks(PATTERN_LOOKS),
            ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => self.sum(schemas.iter(), levels),
            ("not" | "if" | "then" | "else", schema) => self.of(schema, levels),
            ("dependencies" | "dependentSchemas", Value::Object(schemas)) => self.sum(schemas.values(), levels),
            // A member has one name, and an item one place.
            ("properties", Value::Object(schemas)) => self.dearest(schemas, below),
            ("items" | "prefixItems", Value::Array(schemas)) => below.map_or(looks(0), |below| {
                schemas.iter().try_fold(CheckCost::default(), |most, schema| Some(most.or(self.of(schema, below)?)))
            }),
            ("patternProperties", Value::Object(schemas)) => below.map_or(looks(0), |below| {
                let patterns = CheckCost { looks: PATTERN_LOOKS * schemas.len() as u64, height: 0 };
                Some(self.sum(schemas.values(), below)?.and(patterns))
            }),
            ("items" | "additionalItems" | "additionalProperties" | "contains" | "propertyNames", schema) => {
                below.map_or(looks(0), |below| self.of(schema, below))
            }
            _ => looks(0),
        }
    }

    fn sum(&mut self, schemas: impl Iterator<Item = &'s Value>, levels: u8) -> Option<CheckCost> {
        schemas.into_iter().try_fold(CheckCost::default(), |sum, schema| Some(sum.and(self.of(schema, levels)?)))
    }

    fn dearest(&mut self, schemas: &'s Map<String, Value>, below: Option<u8>) -> Option<CheckCost> {
        let Some(below) = below else { return Some(CheckCost::default()) };
        schemas.values().try_fold(CheckCost::default(), |most, schema| Some(most.or(self.of(schema, below)?)))
    }

    fn of_target(&mut self, target: &'s str, levels: u8) -> Option<CheckCost> {
        if let Some(known) = self.known.get(&(target, levels)) {
            return *known;
        }
        // What is elsewhere, or is found by its name, has no bound.
        let schema = pointed(self.root, target)?;
        self.known.insert((target, levels), None);
        let cost = self.of(schema, levels)?;
        self.known.insert((target, levels), Some(cost));
        Some(cost)
    }
}

fn looks_of(pattern: &str) -> u64 {
    if pattern::goes_back(pattern) { HARD_LOOKS } else { PATTERN_LOOKS }
}

/// What a JSON pointer in a reference points to.
fn pointed<'s>(root: &'s Value, target: &str) -> Option<&'s Value> {
    let pointer = target.strip_prefix('#').filter(|pointer| pointer.is_empty() || pointer.starts_with('/'))?;
    root.pointer(&percent_encoding::percent_decode_str(pointer).decode_utf8_lossy())
}

#[cfg(test)]
mod tests;
