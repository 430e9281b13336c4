//! Reads the members of a request's body, each as its JSON text, and the few values that the gateway needs.

use std::borrow::Cow;
use std::ops::Range;

use serde::Deserialize;
use serde_json::Value;
use serde_json::error::Category;

use photofinish_wire::client_error::Invalid;
use photofinish_wire::dialect::{Dialect, Surface};
use photofinish_wire::json::raw_members::{raw_members, written};

/// The problem in a request's body, for the caller. Contains names of members, never values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRequest {
    #[error("the body is not valid JSON: {0}")]
    Json(String),
    #[error("the body must be a JSON object")]
    NotAnObject,
    #[error("the multipart form {0}")]
    Form(&'static str),
    #[error("`model` is missing: name one of GET /v1/models, or an upstream as provider/model")]
    NoModel,
    #[error("`{0}` occurs twice in the body")]
    Twice(&'static str),
    #[error("`{member}` must be {expected}")]
    Member { member: &'static str, expected: &'static str },
    #[error("the body, or a tool in it, has the form of /v1/responses")]
    ResponsesForm,
    #[error("{}", .0.message)]
    Surface(Invalid),
}

/// Positions in the body.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// From the opening quote of the name to the end of the value.
    pub(super) whole: Range<usize>,
    pub(super) value: Range<usize>,
}

/// The names of a request's members, whatever their order, without those that say whether it streams. Two sets are equal by chance
/// once in 2⁶⁴.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MemberSet(u64);

impl MemberSet {
    pub(super) fn add(&mut self, name: &str) {
        if !matches!(name, "stream" | "stream_options") {
            // FNV-1a.
            self.0 ^= name
                .bytes()
                .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        }
    }
}

/// Position of a member in `text`, which its value was borrowed from.
pub(super) fn span(text: &str, name: &str, value: &str) -> Member {
    let start = (value.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    let value = start..start + value.len();
    // A name written with escapes is not found. Then the range is only the value, which becomes null.
    let whole = name_before(&text[..start], name).unwrap_or(start)..value.end;
    Member { whole, value }
}

/// Where the opening quote of this name is, if `before` ends with it and its colon.
fn name_before(before: &str, name: &str) -> Option<usize> {
    let quoted = before.trim_ascii_end().strip_suffix(':')?.trim_ascii_end();
    let content = quoted.strip_suffix('"')?.strip_suffix(name)?;
    content.ends_with('"').then(|| content.len() - 1)
}

pub(super) fn string(value: &str) -> Result<String, InvalidRequest> {
    serde_json::from_str(value).map_err(|_| InvalidRequest::Member { member: "model", expected: "a string" })
}

/// Whether a list has items, or an object members.
pub(super) fn lists_some(value: &str) -> bool {
    value.len() > 2 && value != "null"
}

/// None for null.
pub(super) fn boolean(value: &str) -> Result<Option<bool>, InvalidRequest> {
    serde_json::from_str(value).map_err(|_| InvalidRequest::Member { member: "stream", expected: "true or false" })
}

#[derive(Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: Option<bool>,
}

pub(super) fn include_usage(value: &str) -> Result<bool, InvalidRequest> {
    let options: Option<StreamOptions> = serde_json::from_str(value).map_err(|_| InvalidRequest::Member {
        member: "stream_options",
        expected: "an object like {\"include_usage\": true}",
    })?;
    Ok(options.and_then(|options| options.include_usage).unwrap_or(false))
}

/// `stream_options` with `include_usage: true` and its other members.
pub(super) fn with_usage(options: &[u8]) -> String {
    let mut members = raw_members(options).unwrap_or_default();
    members.retain(|(name, _)| name != "include_usage");
    members.insert(0, (Cow::Borrowed("include_usage"), Cow::Borrowed("true")));
    written(&members)
}

/// Where parsing failed, without quoting the text.
pub(super) fn position(error: &serde_json::Error) -> String {
    let what = match error.classify() {
        Category::Eof => "it ends too early",
        // What an object may be is all that is asked.
        Category::Data => "an object with too many members",
        Category::Syntax | Category::Io => "syntax error",
    };
    format!("{what} at line {} column {}", error.line(), error.column())
}

/// The largest number of tokens and the number of answers that Ollama's `options` or Gemini's `generationConfig` ask
/// for.
pub(super) fn limits(surface: Surface, value: &str) -> (Option<i64>, Option<i64>) {
    let limits: Value = serde_json::from_str(value).unwrap_or_default();
    let of = |names: [&str; 2]| names.iter().find_map(|name| count(&limits.get(name)?.to_string()));
    match surface.dialect() {
        // Negative numbers mean no limit.
        Dialect::Ollama => (of(["num_predict"; 2]).filter(|tokens| *tokens > 0), None),
        // Servers of its form take both spellings.
        Dialect::Gemini => (of(["maxOutputTokens", "max_output_tokens"]), of(["candidateCount", "candidate_count"])),
        _ => (None, None),
    }
}

/// How many are asked for, as the most lenient servers read it: also as a text, or with a fraction.
pub(super) fn count(value: &str) -> Option<i64> {
    let number: f64 = value.trim_matches('"').trim().parse().ok()?;
    Some(number.ceil() as i64)
}
