//! What of a delta is generated output, and how many characters of it. Strings stay where they are.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Payload;
use crate::protocol::PayloadKind;

/// Nesting of `content` parts that is looked into.
const PART_DEPTH: usize = 4;

#[derive(Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow, default)]
    thinking: Option<&'a RawValue>,
    #[serde(borrow, default)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_calls: Option<&'a RawValue>,
    #[serde(borrow, default)]
    function_call: Option<&'a RawValue>,
    #[serde(borrow, default)]
    audio: Option<&'a RawValue>,
}

impl Delta<'_> {
    pub fn payload(&self) -> Option<Payload> {
        let reasoning = [self.reasoning_content, self.reasoning, self.thinking]
            .into_iter()
            .flatten()
            .find_map(|raw| content(raw, PayloadKind::Reasoning));
        let answer = [
            self.content.and_then(|raw| content(raw, PayloadKind::Text)),
            self.tool_calls.and_then(tool_calls),
            self.function_call.and_then(function).map(|chars| Payload { kind: PayloadKind::Tool, chars }),
            self.refusal.and_then(|raw| content(raw, PayloadKind::Refusal)),
            self.audio.and_then(audio),
        ];
        answer.into_iter().fold(reasoning, merge)
    }
}

/// Two payloads of one chunk are one: the answer's kind goes before reasoning, else the first.
pub(super) fn merge(a: Option<Payload>, b: Option<Payload>) -> Option<Payload> {
    match (a, b) {
        (Some(a), Some(b)) => {
            let kind = if a.kind == PayloadKind::Reasoning { b.kind } else { a.kind };
            Some(Payload { kind, chars: a.chars.saturating_add(b.chars) })
        }
        (a, b) => a.or(b),
    }
}

/// A string, or a list of parts (Mistral: `thinking` and `text`).
fn content(raw: &RawValue, kind: PayloadKind) -> Option<Payload> {
    match raw.get().as_bytes().first() {
        Some(b'"') => string_chars(raw).map(|chars| Payload { kind, chars }),
        Some(b'[') => parts(raw, kind, 0),
        _ => None,
    }
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    thinking: Option<&'a RawValue>,
}

fn parts(raw: &RawValue, kind: PayloadKind, depth: usize) -> Option<Payload> {
    if depth == PART_DEPTH {
        return None;
    }
    let list: Vec<Part<'_>> = serde_json::from_str(raw.get()).ok()?;
    list.iter().fold(None, |payload, part| {
        let thinking = part.kind.is_some_and(|kind| kind.get() == "\"thinking\"");
        let kind = if thinking { PayloadKind::Reasoning } else { kind };
        let inner =
            [part.text, part.thinking].into_iter().flatten().find_map(|raw| match raw.get().as_bytes().first() {
                Some(b'"') => string_chars(raw).map(|chars| Payload { kind, chars }),
                Some(b'[') => parts(raw, kind, depth + 1),
                _ => None,
            });
        merge(payload, inner)
    })
}

#[derive(Deserialize)]
struct ToolCall<'a> {
    #[serde(borrow, default)]
    function: Option<&'a RawValue>,
    #[serde(borrow, default)]
    custom: Option<&'a RawValue>,
}

fn tool_calls(raw: &RawValue) -> Option<Payload> {
    if raw.get().len() <= 2 {
        return None;
    }
    let calls: Vec<ToolCall<'_>> = serde_json::from_str(raw.get()).ok()?;
    let chars: Vec<u32> = calls.iter().filter_map(|call| call.function.or(call.custom)).filter_map(function).collect();
    (!chars.is_empty()).then(|| Payload { kind: PayloadKind::Tool, chars: chars.iter().sum() })
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    /// A custom tool's input.
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
}

/// Characters of a call's name and arguments; none where both are empty.
fn function(raw: &RawValue) -> Option<u32> {
    let function: Function<'_> = serde_json::from_str(raw.get()).ok()?;
    let chars = |raw: Option<&RawValue>| match raw {
        Some(raw) if raw.get().starts_with('"') => string_chars(raw).unwrap_or(0),
        // Some servers send arguments as an object.
        Some(raw) if raw.get().starts_with('{') => u32::try_from(raw.get().len()).unwrap_or(u32::MAX),
        _ => 0,
    };
    let total = chars(function.name) + chars(function.arguments) + chars(function.input);
    (total > 0).then_some(total)
}

#[derive(Deserialize)]
struct Audio<'a> {
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
    #[serde(borrow, default)]
    transcript: Option<&'a RawValue>,
}

fn audio(raw: &RawValue) -> Option<Payload> {
    let audio: Audio<'_> = serde_json::from_str(raw.get()).ok()?;
    let data = audio.data.and_then(string_chars);
    let transcript = audio.transcript.and_then(string_chars);
    (data.is_some() || transcript.is_some())
        .then(|| Payload { kind: PayloadKind::Audio, chars: transcript.unwrap_or(0) })
}

/// Unicode characters of a JSON string; none if it is empty or no string.
pub(super) fn string_chars(raw: &RawValue) -> Option<u32> {
    let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?.as_bytes();
    if inner.is_empty() {
        return None;
    }
    let characters = inner.iter().filter(|byte| (**byte as i8) >= -0x40).count();
    let mut escaped = 0;
    let mut position = 0;
    while let Some(offset) = memchr::memchr(b'\\', &inner[position..]) {
        let at = position + offset;
        let unicode = inner.get(at + 1) == Some(&b'u');
        // A low surrogate is the second half of a character that was counted.
        let low = unicode
            && inner
                .get(at + 2..at + 4)
                .is_some_and(|hex| hex[0].eq_ignore_ascii_case(&b'd') && hex[1].to_ascii_lowercase() >= b'c');
        escaped += if !unicode { 1 } else { 5 + usize::from(low) };
        position = at + if unicode { 6 } else { 2 };
        if position >= inner.len() {
            break;
        }
    }
    Some(u32::try_from(characters.saturating_sub(escaped).max(1)).unwrap_or(u32::MAX))
}
