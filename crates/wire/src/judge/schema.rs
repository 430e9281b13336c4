//! One JSON schema as a check whose cost is bounded before it runs: a hostile schema is not checked. Not for what is checked.
//!
//! A check is not stopped while it runs. So the work is bounded beforehand: how often the schema may look at one value and
//! those around it, times the bytes of what is checked.

mod validator;

use std::collections::HashMap;

use serde_json::{Map, Value};

use validator::{Validator, pointed};

/// Bytes of a schema.
const SCHEMA_BYTES_MAX: usize = 64 << 10;
/// Nesting of what is checked.
pub(super) const VALUE_DEPTH_MAX: u8 = 32;
/// Schemas inside each other, with references followed: the stack that a check may take.
const HEIGHT_MAX: u32 = 256;
/// Steps of the search for the bound of one schema.
const STEPS_MAX: u32 = 50_000;
/// Looks of a schema at each byte, times the bytes: about 50 ms.
const WORK_MAX: u64 = 8_000_000;
/// A pattern compared with one byte, in looks at a value.
const PATTERN_LOOKS: u64 = 16;

/// What a schema says of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SchemaVerdict {
    Obeyed,
    Broken,
    /// The check could take too long.
    Unknown,
}

/// A schema, compiled.
pub(super) enum Schema {
    /// It is none, or does not compile: it asks for nothing.
    None,
    Check {
        validator: Box<Validator>,
        looks: u64,
    },
    /// It is too large, or a check of it could take too long.
    TooDear,
}

impl Schema {
    /// Draft 7, unless its `$schema` says another. `format` is not checked: whether a text is a date is an annotation in most
    /// tools' schemas, not a demand. References to elsewhere are not followed: then it does not compile.
    pub fn compile(text: &str) -> Schema {
        if text.len() > SCHEMA_BYTES_MAX {
            return Schema::TooDear;
        }
        // Nested deeper than 128, it is not read.
        let Ok(schema) = serde_json::from_str::<Value>(text) else { return Schema::TooDear };
        let mut bound =
            Bound { root: &schema, known: HashMap::new(), steps: 0, depth: 0, is_named: false, is_elsewhere: false };
        let Some(cost) = bound.of(&schema, VALUE_DEPTH_MAX).filter(|cost| cost.height <= HEIGHT_MAX) else {
            return Schema::TooDear;
        };
        let (is_named, is_elsewhere) = (bound.is_named, bound.is_elsewhere);
        // A name may be of a part of the schema, which is not looked for.
        let may_be_here = is_named || text.contains("\"$id\"");
        match Validator::new(schema, HEIGHT_MAX) {
            None => Schema::None,
            Some(_) if is_elsewhere && !may_be_here => Schema::None,
            Some(_) if is_elsewhere || is_named => Schema::TooDear,
            Some(validator) => Schema::Check { validator: Box::new(validator), looks: cost.looks },
        }
    }

    /// `bytes`: of the text of `value`.
    pub fn check(&self, value: &Value, bytes: usize) -> SchemaVerdict {
        match self {
            Schema::None => SchemaVerdict::Obeyed,
            Schema::TooDear => SchemaVerdict::Unknown,
            Schema::Check { looks, .. } if looks.saturating_mul(bytes as u64) > WORK_MAX => SchemaVerdict::Unknown,
            Schema::Check { .. } if is_deeper(value, VALUE_DEPTH_MAX) => SchemaVerdict::Unknown,
            Schema::Check { validator, .. } if validator.is_valid(value) => SchemaVerdict::Obeyed,
            Schema::Check { .. } => SchemaVerdict::Broken,
        }
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
    /// A reference names a part of the schema, instead of pointing to it.
    is_named: bool,
    /// A reference is to no part of the schema.
    is_elsewhere: bool,
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
            // Whether a text is of such a kind is not known here.
            ("contentMediaType" | "contentEncoding", _) => None,
            ("pattern", _) => looks(PATTERN_LOOKS),
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
        let Some(schema) = pointed(self.root, target) else {
            let is_name = target.starts_with('#') && !target.starts_with("#/");
            self.is_named |= is_name;
            self.is_elsewhere |= !is_name;
            return Some(CheckCost::default());
        };
        self.known.insert((target, levels), None);
        let cost = self.of(schema, levels)?;
        self.known.insert((target, levels), Some(cost));
        Some(cost)
    }
}

#[cfg(test)]
mod tests;
