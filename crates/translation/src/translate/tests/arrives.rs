//! Every member of every surface, followed into every dialect: it arrives, or the request is refused, or the member is
//! named, or it is a hint. There is no other outcome.
//!
//! `shapes` has the members, one request a line: those of the vendors' SDKs, and some unknown ones. `SENT` and 7391
//! mark what has to arrive.

use photofinish_dialects::SurfaceFormat as _;
use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use photofinish_wire::dialect::{Dialect, Surface};

use crate::translate::request::RequestTranslation;
use photofinish_wire::conversation::losses::{LossClass, class_of};
use photofinish_wire::quirks::TranslationOptions;

const SHAPES: [(Surface, &str); 6] = [
    (Surface::Chat, include_str!("shapes/chat.jsonl")),
    (Surface::Messages, include_str!("shapes/messages.jsonl")),
    (Surface::Responses, include_str!("shapes/responses.jsonl")),
    (Surface::Gemini, include_str!("shapes/gemini.jsonl")),
    (Surface::OllamaChat, include_str!("shapes/ollama.jsonl")),
    (Surface::OllamaGenerate, include_str!("shapes/generate.jsonl")),
];

/// What another dialect does without a member for it: no tools where none may be called, the usual tier, thoughts that are
/// shown and signed anyway, usage and plain events from the gateway itself.
const DONE_ANYWAY: [&str; 10] = [
    "\"tool_choice\":\"none\"",
    "\"type\":\"none\"",
    "\"mode\":\"NONE\"",
    "\"type\":\"disabled\"",
    "\"think\":false",
    "\"thinkingBudget\":0",
    "standard_only",
    "reasoning.encrypted_content",
    "include_obfuscation",
    "includeThoughts",
];

/// What became of a request.
#[derive(Debug)]
enum Outcome {
    Refused,
    Sent { body: String, lost: Vec<String> },
}

fn outcome(surface: Surface, request: &Value, to: Dialect) -> Outcome {
    let models = [
        (Dialect::Anthropic, "claude-sonnet-4-5"),
        (Dialect::Gemini, "gemini-3-pro"),
        (Dialect::Bedrock, "amazon.nova-pro-v1:0"),
    ];
    let model = models.iter().find(|(dialect, _)| *dialect == to).map_or("m", |(_, model)| model).to_owned();
    let options = TranslationOptions::of_model(to, model);
    let Ok(conversation) = surface.conversation(request.to_string().as_bytes()) else { return Outcome::Refused };
    let Ok(translation) = RequestTranslation::translated(surface, &conversation, to, &options) else {
        return Outcome::Refused;
    };
    if !translation.losses().keeps_content() {
        return Outcome::Refused;
    }
    let body =
        String::from_utf8(translation.body_for("m", photofinish_wire::AnswerForm::Streamed).joined().to_vec()).unwrap();
    Outcome::Sent { body, lost: translation.losses().names().map(str::to_owned).collect() }
}

fn basis(surface: Surface) -> Map<String, Value> {
    let basis = match surface {
        Surface::Chat | Surface::OllamaChat => {
            json!({ "model": "m", "messages": [{ "role": "user", "content": "x" }] })
        }
        Surface::Messages => json!({ "model": "m", "max_tokens": 9, "messages": [{ "role": "user", "content": "x" }] }),
        Surface::Responses => json!({ "model": "m", "input": "x", "store": false }),
        Surface::Gemini => json!({ "contents": [{ "role": "user", "parts": [{ "text": "x" }] }] }),
        _ => json!({ "model": "m", "prompt": "x" }),
    };
    let Value::Object(basis) = basis else { unreachable!() };
    basis
}

fn with(surface: Surface, members: &Map<String, Value>) -> Value {
    let mut request = basis(surface);
    request.extend(members.clone());
    Value::Object(request)
}

/// The paths of all members, as losses name them.
fn paths(value: &Value, at: &str, into: &mut Vec<String>) {
    match value {
        Value::Object(members) => members.iter().for_each(|(name, value)| {
            let path = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
            into.push(path.clone());
            paths(value, &path, into);
        }),
        Value::Array(items) => items.iter().enumerate().for_each(|(n, item)| paths(item, &format!("{at}[{n}]"), into)),
        _ => {}
    }
}

/// Whether the vendor's help in it, such as a cache mark, may be dropped silently.
fn is_hint(members: &Map<String, Value>) -> bool {
    let mut all = Vec::new();
    paths(&Value::Object(members.clone()), "", &mut all);
    all.iter().any(|path| class_of(path) == LossClass::Hint)
}

/// Whether a mark is there, as it is or in Base64.
fn arrives(body: &str, mark: &str) -> bool {
    body.contains(mark) || body.contains(STANDARD.encode(mark).trim_end_matches('='))
}

/// The places of all objects in a value.
fn pointers(value: &Value, at: String, all: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(name, value)| pointers(value, format!("{at}/{name}"), all));
            all.push(at);
        }
        Value::Array(items) => items.iter().enumerate().for_each(|(n, item)| pointers(item, format!("{at}/{n}"), all)),
        _ => {}
    }
}

#[test]
fn what_nobody_knows_is_refused_or_named_wherever_it_stands() {
    let mut wrong = BTreeSet::new();
    for (surface, shapes) in SHAPES {
        for line in shapes.lines() {
            let whole = with(surface, &serde_json::from_str(line).unwrap());
            let mut places = Vec::new();
            pointers(&whole, String::new(), &mut places);
            for to in Dialect::ALL.into_iter().filter(|to| *to != surface.dialect()) {
                // What is lost anyway may take the unknown member along.
                let usual = outcome(surface, &whole, to);
                if !matches!(usual, Outcome::Sent { ref lost, .. } if lost.is_empty()) {
                    continue;
                }
                for place in &places {
                    let mut request = whole.clone();
                    request.pointer_mut(place).unwrap()["zz_unknown"] = json!("UNKNOWN");
                    let Outcome::Sent { body, lost } = outcome(surface, &request, to) else { continue };
                    if lost.is_empty() && !arrives(&body, "UNKNOWN") && !is_left_out(place, &whole) {
                        wrong.insert(format!("{surface:?} to {to:?}: {place} in {line}"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.into_iter().collect::<Vec<_>>().join("\n"));
}

/// Whether what is in this place goes silently: hints, tools where none may be called, and the form of earlier thoughts.
fn is_left_out(place: &str, request: &Value) -> bool {
    let text = request.to_string();
    let no_tools = text.contains("\"none\"") || text.contains("\"NONE\"");
    ["cache_control", "metadata"].iter().any(|hint| place.contains(hint))
        || (no_tools && place.starts_with("/tools"))
        || (text.contains("\"reasoning\"") && place.starts_with("/input/1/"))
}

#[test]
fn every_member_arrives_or_is_refused_or_named() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (surface, shapes) in SHAPES {
        for line in shapes.lines() {
            let members: Map<String, Value> = serde_json::from_str(line).unwrap();
            for to in Dialect::ALL.into_iter().filter(|to| *to != surface.dialect()) {
                count += 1;
                let Outcome::Sent { body, lost } = outcome(surface, &with(surface, &members), to) else { continue };
                let marks: Vec<&str> = ["SENT", "7391"].into_iter().filter(|mark| line.contains(mark)).collect();
                let plain = outcome(surface, &Value::Object(basis(surface)), to);
                let Outcome::Sent { body: plain, lost: usual } = plain else { panic!("{surface:?} to {to:?}") };
                let arrived = match marks.is_empty() {
                    true => body != plain,
                    false => marks.iter().all(|mark| arrives(&body, mark)),
                };
                let named = lost.iter().any(|name| !usual.contains(name));
                // The gateway itself stores the answer.
                let stores = surface == Surface::Responses && line.contains("\"store\":true");
                let done = stores || DONE_ANYWAY.iter().any(|done| line.contains(done));
                if !arrived && !named && !done && !is_hint(&members) {
                    wrong.push(format!("{surface:?} to {to:?}: {line}\n    {body}"));
                }
            }
        }
    }
    assert!(count > 1_800, "{count}");
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}
