//! Patterns that take more than one pass over a text: with look-around or references back. What is not decided within the bound, or is no
//! pattern at all, is unsure. Not for other patterns, which the crate `jsonschema` checks.

use std::cell::Cell;

use jsonschema::paths::Location;
use jsonschema::{Keyword, ValidationError, ValidationOptions};
use serde_json::{Map, Value};

/// Bytes of a compiled pattern of a schema.
pub(super) const PATTERN_MAX: usize = 64 << 10;
/// How often a match may go back.
const BACKTRACKS_MAX: usize = 1_000;
/// What replaces `pattern`.
const HARD: &str = "photofinish-pattern";
/// Members whose content is no schema.
const NO_SCHEMAS: [&str; 4] = ["const", "enum", "default", "examples"];

thread_local! {
    /// A check of this thread met a text of which a pattern says nothing.
    static IS_UNSURE: Cell<bool> = const { Cell::new(false) };
}

/// A pattern. None: it is none, or too large.
struct HardPattern(Option<fancy_regex::Regex>);

impl HardPattern {
    fn new(pattern: &str) -> HardPattern {
        let rust = jsonschema_regex::to_rust_regex(pattern).ok().filter(|_| goes_back(pattern));
        HardPattern(rust.and_then(|rust| {
            fancy_regex::RegexBuilder::new(&rust)
                .backtrack_limit(BACKTRACKS_MAX)
                .delegate_size_limit(PATTERN_MAX)
                .delegate_dfa_size_limit(PATTERN_MAX)
                .build()
                .ok()
        }))
    }
}

impl<'i> Keyword<'i> for HardPattern {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        match self.is_valid(instance) {
            true => Ok(()),
            false => Err(ValidationError::custom("it does not match")),
        }
    }

    fn is_valid(&self, instance: &'i Value) -> bool {
        let Value::String(text) = instance else { return true };
        let matches = self.0.as_ref().and_then(|pattern| pattern.is_match(text).ok());
        matches.unwrap_or_else(|| {
            IS_UNSURE.set(true);
            true
        })
    }
}

fn keyword<'a>(
    _: &'a Map<String, Value>,
    asked: &'a Value,
    _: Location,
) -> Result<Box<dyn for<'i> Keyword<'i>>, ValidationError<'a>> {
    Ok(Box::new(HardPattern::new(asked.as_str().unwrap_or_default())))
}

/// Lets a schema have what [`set_apart`] made.
pub(super) fn known(options: ValidationOptions<'_>) -> ValidationOptions<'_> {
    options.with_keyword(HARD, keyword)
}

/// Whether a pattern may have to be matched in more than one pass.
pub(super) fn goes_back(pattern: &str) -> bool {
    let refers =
        || pattern.as_bytes().windows(2).any(|two| two[0] == b'\\' && (two[1].is_ascii_digit() || two[1] == b'k'));
    ["(?=", "(?!", "(?<"].iter().any(|open| pattern.contains(open)) || refers()
}

/// Marks the patterns that are not matched in one pass. The others of the schema stay what they are.
pub(super) fn set_apart(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(set_apart),
        Value::Object(members) => {
            if let Some(Value::String(pattern)) = members.get("pattern").filter(|pattern| !is_linear(pattern)) {
                let pattern = pattern.clone().into();
                members.shift_remove("pattern");
                members.insert(HARD.to_owned(), pattern);
            }
            let schemas = members.iter_mut().filter(|(name, _)| !NO_SCHEMAS.contains(&name.as_str()));
            schemas.for_each(|(_, value)| set_apart(value));
        }
        _ => {}
    }
}

fn is_linear(pattern: &Value) -> bool {
    let Some(rust) = pattern.as_str().and_then(|text| jsonschema_regex::to_rust_regex(text).ok()) else { return false };
    regex::RegexBuilder::new(&rust).size_limit(PATTERN_MAX).dfa_size_limit(PATTERN_MAX).build().is_ok()
}

/// Runs a check. None: it depends on a pattern that is unsure.
pub(super) fn sure<T>(check: impl FnOnce() -> T) -> Option<T> {
    IS_UNSURE.set(false);
    let checked = check();
    (!IS_UNSURE.get()).then_some(checked)
}
