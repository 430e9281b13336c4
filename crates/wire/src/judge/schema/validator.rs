//! Whether a value obeys a schema: drafts 4 to 2020-12, without what [`super::Schema`] does not let through. Not for its cost.

use std::collections::{HashMap, HashSet};

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Number, Value};

/// Bytes of a compiled pattern.
const PATTERN_MAX: usize = 64 << 10;

/// The version of JSON Schema, of those that differ here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SchemaDraft {
    Draft4,
    Draft6,
    Draft7,
    Draft2019,
    Draft2020,
}

impl SchemaDraft {
    /// Draft 7, unless `$schema` says another that is known.
    fn of(schema: &Value) -> SchemaDraft {
        let named = schema.get("$schema").and_then(Value::as_str).unwrap_or_default();
        let named = named.trim_end_matches('#').trim_start_matches("https").trim_start_matches("http");
        match named {
            "://json-schema.org/draft-04/schema" => SchemaDraft::Draft4,
            "://json-schema.org/draft-06/schema" => SchemaDraft::Draft6,
            "://json-schema.org/draft/2019-09/schema" => SchemaDraft::Draft2019,
            "://json-schema.org/draft/2020-12/schema" => SchemaDraft::Draft2020,
            _ => SchemaDraft::Draft7,
        }
    }

    /// Whether this keyword asks for something.
    fn has(self, keyword: &str) -> bool {
        use SchemaDraft::{Draft6, Draft7, Draft2019, Draft2020};
        match keyword {
            "const" | "contains" | "propertyNames" => self >= Draft6,
            "if" => self >= Draft7,
            "dependentRequired" | "dependentSchemas" => self >= Draft2019,
            "prefixItems" => self >= Draft2020,
            "dependencies" => self < Draft2019,
            _ => true,
        }
    }
}

/// A schema that is one.
pub(in crate::judge) struct Validator {
    root: Value,
    draft: SchemaDraft,
    patterns: HashMap<String, Regex>,
}

impl Validator {
    /// None: it is no schema, or has more than `height_max` inside each other, references followed.
    pub fn new(root: Value, height_max: u32) -> Option<Validator> {
        let draft = SchemaDraft::of(&root);
        let (patterns, seen) = Default::default();
        let mut parts = SchemaParts { root: &root, patterns, seen, left: height_max };
        let is_one = is_schema(&root, draft, &mut parts);
        let patterns = parts.patterns;
        is_one.then_some(Validator { root, draft, patterns })
    }

    pub fn is_valid(&self, value: &Value) -> bool {
        self.obeys(&self.root, value)
    }

    fn obeys(&self, schema: &Value, value: &Value) -> bool {
        let Value::Object(members) = schema else { return schema != &Value::Bool(false) };
        if let Some(Value::String(target)) = members.get("$ref") {
            let there = pointed(&self.root, target).is_none_or(|schema| self.obeys(schema, value));
            // Before 2019 it stands for all.
            if !there || self.draft < SchemaDraft::Draft2019 {
                return there;
            }
        }
        members.iter().filter(|(name, _)| self.draft.has(name)).all(|(name, asked)| match value {
            Value::Object(value) => self.object_obeys(members, name, asked, value),
            Value::Array(value) => self.array_obeys(members, name, asked, value),
            Value::String(text) => self.text_obeys(name, asked, text),
            Value::Number(number) => self.number_obeys(members, name, asked, number),
            Value::Bool(_) | Value::Null => true,
        } && self.any_obeys(members, name, asked, value))
    }

    /// Keywords for values of every type.
    fn any_obeys(&self, members: &Map<String, Value>, name: &str, asked: &Value, value: &Value) -> bool {
        let schemas = || asked.as_array().into_iter().flatten();
        match name {
            "type" => match asked {
                Value::Array(types) => types.iter().any(|one| self.is_of(one, value)),
                one => self.is_of(one, value),
            },
            "enum" => schemas().any(|one| is_same(one, value)),
            "const" => is_same(asked, value),
            "allOf" => schemas().all(|schema| self.obeys(schema, value)),
            "anyOf" => schemas().any(|schema| self.obeys(schema, value)),
            "oneOf" => {
                schemas().filter(|schema| self.obeys(schema, value)).nth(1).is_none()
                    && schemas().any(|schema| self.obeys(schema, value))
            }
            "not" => !self.obeys(asked, value),
            "if" => {
                let next = if self.obeys(asked, value) { "then" } else { "else" };
                members.get(next).is_none_or(|schema| self.obeys(schema, value))
            }
            _ => true,
        }
    }

    fn is_of(&self, kind: &Value, value: &Value) -> bool {
        match (kind.as_str().unwrap_or_default(), value) {
            ("object", Value::Object(_))
            | ("array", Value::Array(_))
            | ("string", Value::String(_))
            | ("number", Value::Number(_))
            | ("boolean", Value::Bool(_))
            | ("null", Value::Null) => true,
            // To draft 4, 1.0 is none.
            ("integer", Value::Number(number)) if self.draft == SchemaDraft::Draft4 => {
                number.is_i64() || number.is_u64()
            }
            ("integer", Value::Number(number)) => match Decimal::of(number) {
                Some(decimal) => decimal.exponent >= 0,
                None => float(number).fract() == 0.0,
            },
            _ => false,
        }
    }

    fn object_obeys(
        &self,
        members: &Map<String, Value>,
        name: &str,
        asked: &Value,
        value: &Map<String, Value>,
    ) -> bool {
        let has = |names: &Value| names.as_array().into_iter().flatten().all(|name| value.contains_key(text(name)));
        match name {
            "required" => has(asked),
            "minProperties" => !is_below(value.len(), asked),
            "maxProperties" => !is_above(value.len(), asked),
            "propertyNames" => value.keys().all(|name| self.obeys(asked, &Value::String(name.clone()))),
            "properties" => asked.as_object().is_none_or(|schemas| {
                let both = schemas.iter().filter_map(|(name, schema)| Some((schema, value.get(name)?)));
                both.into_iter().all(|(schema, value)| self.obeys(schema, value))
            }),
            "patternProperties" => asked.as_object().is_none_or(|schemas| {
                schemas.iter().all(|(pattern, schema)| {
                    value.iter().all(|(name, value)| !self.matches(pattern, name) || self.obeys(schema, value))
                })
            }),
            "additionalProperties" => {
                let named = members.get("properties").and_then(Value::as_object);
                let patterns = members.get("patternProperties").and_then(Value::as_object);
                value.iter().all(|(name, value)| {
                    named.is_some_and(|named| named.contains_key(name))
                        || patterns.is_some_and(|all| all.keys().any(|pattern| self.matches(pattern, name)))
                        || self.obeys(asked, value)
                })
            }
            "dependencies" | "dependentRequired" | "dependentSchemas" => {
                let whole = Value::Object(value.clone());
                asked.as_object().into_iter().flatten().filter(|(name, _)| value.contains_key(*name)).all(
                    |(_, then)| match then {
                        Value::Array(_) => has(then),
                        Value::String(name) => value.contains_key(name),
                        schema => self.obeys(schema, &whole),
                    },
                )
            }
            _ => true,
        }
    }

    fn array_obeys(&self, members: &Map<String, Value>, name: &str, asked: &Value, value: &[Value]) -> bool {
        let pairs_obey = |schemas: &[Value]| schemas.iter().zip(value).all(|(schema, item)| self.obeys(schema, item));
        // The items that have schemas of their own.
        let placed = |name: &str| members.get(name).and_then(Value::as_array).map(Vec::len);
        let rest_obeys = |from: usize| value.iter().skip(from).all(|item| self.obeys(asked, item));
        match (name, asked) {
            ("items", Value::Array(schemas)) if self.draft < SchemaDraft::Draft2020 => pairs_obey(schemas),
            ("prefixItems", Value::Array(schemas)) => pairs_obey(schemas),
            ("items", _) if self.draft >= SchemaDraft::Draft2020 => rest_obeys(placed("prefixItems").unwrap_or(0)),
            ("items", _) => rest_obeys(0),
            ("additionalItems", _) if self.draft < SchemaDraft::Draft2020 => placed("items").is_none_or(rest_obeys),
            ("minItems", _) => !is_below(value.len(), asked),
            ("maxItems", _) => !is_above(value.len(), asked),
            ("uniqueItems", Value::Bool(true)) => {
                let mut seen = HashSet::with_capacity(value.len());
                value.iter().all(|item| seen.insert(canonical(item)))
            }
            ("contains", _) => {
                let found = value.iter().filter(|item| self.obeys(asked, item)).count();
                let bound = |name: &str| members.get(name).filter(|_| self.draft >= SchemaDraft::Draft2019);
                bound("minContains").map_or(found > 0, |least| !is_below(found, least))
                    && bound("maxContains").is_none_or(|most| !is_above(found, most))
            }
            _ => true,
        }
    }

    fn text_obeys(&self, name: &str, asked: &Value, value: &str) -> bool {
        match name {
            "minLength" => !is_below(value.chars().count(), asked),
            "maxLength" => !is_above(value.chars().count(), asked),
            "pattern" => self.matches(text(asked), value),
            _ => true,
        }
    }

    fn number_obeys(&self, members: &Map<String, Value>, name: &str, asked: &Value, value: &Number) -> bool {
        // To draft 4, it says how the bound of the same schema is meant.
        let is_strict = |name: &str| members.get(name) == Some(&Value::Bool(true));
        let Value::Number(bound) = asked else { return true };
        let order = order(value, bound);
        match name {
            "minimum" => order.is_gt() || order.is_eq() && !is_strict("exclusiveMinimum"),
            "maximum" => order.is_lt() || order.is_eq() && !is_strict("exclusiveMaximum"),
            "exclusiveMinimum" => order.is_gt(),
            "exclusiveMaximum" => order.is_lt(),
            "multipleOf" => is_multiple(value, bound),
            _ => true,
        }
    }

    fn matches(&self, pattern: &str, text: &str) -> bool {
        self.patterns.get(pattern).is_some_and(|pattern| pattern.is_match(text))
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn is_below(count: usize, least: &Value) -> bool {
    least.as_f64().is_some_and(|least| (count as f64) < least)
}

fn is_above(count: usize, most: &Value) -> bool {
    most.as_f64().is_some_and(|most| count as f64 > most)
}

/// Digits of which `exponent` more follow, or stand behind the point.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Decimal {
    digits: i128,
    /// The largest with which the digits are whole; 0 for 0.
    exponent: i32,
}

impl Decimal {
    /// Exactly. None: it has too many digits.
    fn of(number: &Number) -> Option<Decimal> {
        let text = number.as_str();
        let (text, exponent) = text.split_once(['e', 'E']).map_or(Some((text, 0)), |(text, exponent)| {
            Some((text, exponent.parse::<i32>().ok().filter(|exponent| exponent.abs() < 1_000_000)?))
        })?;
        let (whole, behind) = text.split_once('.').unwrap_or((text, ""));
        let (mut digits, mut exponent) =
            (format!("{whole}{behind}").parse::<i128>().ok()?, exponent - i32::try_from(behind.len()).ok()?);
        while digits != 0 && digits % 10 == 0 {
            (digits, exponent) = (digits / 10, exponent + 1);
        }
        Some(Decimal { digits, exponent: if digits == 0 { 0 } else { exponent } })
    }

    /// Both with the same exponent. None: the digits are too many.
    fn aligned(self, other: Decimal) -> Option<(i128, i128)> {
        let exponent = self.exponent.min(other.exponent);
        let scaled = |decimal: Decimal| {
            let factor = 10_i128.checked_pow(u32::try_from(decimal.exponent - exponent).ok()?)?;
            decimal.digits.checked_mul(factor)
        };
        Some((scaled(self)?, scaled(other)?))
    }
}

impl Decimal {
    /// What is left of the digits, with a smaller exponent, divided by this number.
    fn rest(self, exponent: i32, by: u64) -> u128 {
        let by = u128::from(by);
        let (mut rest, mut power, mut zeros) = (self.digits.unsigned_abs() % by, 10 % by, self.exponent - exponent);
        while zeros > 0 {
            if zeros % 2 == 1 {
                rest = rest * power % by;
            }
            (power, zeros) = (power * power % by, zeros / 2);
        }
        rest
    }
}

fn float(number: &Number) -> f64 {
    number.as_str().parse().unwrap_or(f64::NAN)
}

fn order(left: &Number, right: &Number) -> std::cmp::Ordering {
    let exactly = Decimal::of(left).zip(Decimal::of(right)).and_then(|(left, right)| left.aligned(right));
    exactly.map_or_else(|| float(left).total_cmp(&float(right)), |(left, right)| left.cmp(&right))
}

fn is_multiple(value: &Number, of: &Number) -> bool {
    let by_float = || (float(value) / float(of)).fract() == 0.0;
    let Some((value, of)) = Decimal::of(value).zip(Decimal::of(of)).filter(|(_, of)| of.digits != 0) else {
        return by_float();
    };
    match value.aligned(of) {
        Some((value, of)) => value % of == 0,
        None if value.exponent < of.exponent => value.digits == 0,
        None => {
            u64::try_from(of.digits.unsigned_abs()).map_or_else(|_| by_float(), |by| value.rest(of.exponent, by) == 0)
        }
    }
}

fn is_same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => order(left, right).is_eq(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| is_same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            let other = |name| right.get(name);
            left.len() == right.len()
                && left.iter().all(|(name, left)| other(name).is_some_and(|right| is_same(left, right)))
        }
        _ => left == right,
    }
}

/// The same text for values that are the same.
fn canonical(value: &Value) -> String {
    match value {
        Value::Number(number) => Decimal::of(number)
            .map_or_else(|| float(number).to_string(), |decimal| format!("{}e{}", decimal.digits, decimal.exponent)),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(members) => {
            let mut members: Vec<String> =
                members.iter().map(|(name, value)| format!("{name:?}:{}", canonical(value))).collect();
            members.sort_unstable();
            format!("{{{}}}", members.join(","))
        }
        Value::String(text) => format!("{text:?}"),
        Value::Bool(_) | Value::Null => value.to_string(),
    }
}

const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// What is found while a schema is looked through.
struct SchemaParts<'s> {
    root: &'s Value,
    patterns: HashMap<String, Regex>,
    /// The schemas that were looked at.
    seen: HashSet<*const Value>,
    /// Schemas that may still be inside the one that is looked at.
    left: u32,
}

/// Whether its keywords have values of their types, as the schema of its draft demands. Keeps what its patterns compile to.
fn is_schema(schema: &Value, draft: SchemaDraft, parts: &mut SchemaParts<'_>) -> bool {
    let Value::Object(members) = schema else { return schema.is_boolean() && draft >= SchemaDraft::Draft6 };
    if !parts.seen.insert(std::ptr::from_ref(schema)) {
        return true;
    }
    let Some(left) = parts.left.checked_sub(1) else { return false };
    parts.left = left;
    let is_one = members.iter().all(|(name, asked)| is_keyword(name, asked, draft, parts));
    parts.left += 1;
    is_one
}

fn is_keyword(name: &str, asked: &Value, draft: SchemaDraft, parts: &mut SchemaParts<'_>) -> bool {
    let is_count = |count: &Value| match count {
        Value::Number(number) => Decimal::of(number).is_some_and(|count| count.digits >= 0 && count.exponent >= 0),
        _ => false,
    };
    let are_names = |names: &Value| {
        let names = names.as_array();
        let differ = |names: &Vec<Value>| names.iter().map(text).collect::<HashSet<_>>().len() == names.len();
        names.is_some_and(|names| names.iter().all(Value::is_string) && differ(names))
    };
    let is_type = |one: &Value| TYPES.contains(&text(one));
    let are_schemas = |schemas: &Value, parts: &mut SchemaParts<'_>| match schemas {
        Value::Array(schemas) => !schemas.is_empty() && schemas.iter().all(|schema| is_schema(schema, draft, parts)),
        _ => false,
    };
    match name {
        "type" if asked.is_array() => {
            are_names(asked) && asked.as_array().is_some_and(|types| !types.is_empty() && types.iter().all(is_type))
        }
        "type" => is_type(asked),
        "properties" | "definitions" | "$defs" | "dependentSchemas" => {
            asked.as_object().is_some_and(|schemas| schemas.values().all(|schema| is_schema(schema, draft, parts)))
        }
        "patternProperties" => asked.as_object().is_some_and(|schemas| {
            schemas.iter().all(|(pattern, schema)| is_pattern(pattern, parts) && is_schema(schema, draft, parts))
        }),
        "dependencies" => asked.as_object().is_some_and(|then| {
            then.values().all(|then| if then.is_array() { are_names(then) } else { is_schema(then, draft, parts) })
        }),
        "dependentRequired" => asked.as_object().is_some_and(|then| then.values().all(are_names)),
        "items" if asked.is_array() && draft < SchemaDraft::Draft2020 => are_schemas(asked, parts),
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => !draft.has(name) || are_schemas(asked, parts),
        "additionalItems" | "additionalProperties" if asked.is_boolean() => true,
        "items"
        | "additionalItems"
        | "additionalProperties"
        | "contains"
        | "propertyNames"
        | "not"
        | "if"
        | "then"
        | "else" => !draft.has(name) || is_schema(asked, draft, parts),
        "required" => are_names(asked),
        "enum" => asked.is_array(),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" | "minContains"
        | "maxContains" => is_count(asked),
        "exclusiveMinimum" | "exclusiveMaximum" if draft == SchemaDraft::Draft4 => asked.is_boolean(),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => asked.is_number(),
        "multipleOf" => asked.as_number().is_some_and(|number| float(number) > 0.0),
        "uniqueItems" => asked.is_boolean(),
        "pattern" => asked.as_str().is_some_and(|pattern| is_pattern(pattern, parts)),
        "$ref" => asked
            .as_str()
            .is_some_and(|target| pointed(parts.root, target).is_none_or(|schema| is_schema(schema, draft, parts))),
        _ => true,
    }
}

/// The time of a match is linear in the text, whatever the pattern. Look-around does not compile.
fn is_pattern(pattern: &str, parts: &mut SchemaParts<'_>) -> bool {
    if parts.patterns.contains_key(pattern) {
        return true;
    }
    let compiled = jsonschema_regex::to_rust_regex(pattern)
        .ok()
        .and_then(|rust| RegexBuilder::new(&rust).size_limit(PATTERN_MAX).dfa_size_limit(PATTERN_MAX).build().ok());
    compiled.is_some_and(|regex| parts.patterns.insert(pattern.to_owned(), regex).is_none())
}

/// What a JSON pointer in a reference points to.
pub(super) fn pointed<'s>(root: &'s Value, target: &str) -> Option<&'s Value> {
    let pointer = target.strip_prefix('#').filter(|pointer| pointer.is_empty() || pointer.starts_with('/'))?;
    root.pointer(&percent_encoding::percent_decode_str(pointer).decode_utf8_lossy())
}
