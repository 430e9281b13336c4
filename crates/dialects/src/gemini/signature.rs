//! Signatures in Gemini's requests and answers. They are base64, because clients decode them, so a mark of another owner
//! is base64 here too. Not for requests that are written for Gemini: those get only its own.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use serde_json::Value;

use photofinish_wire::conversation::signature::{RemovedReasoning, SignatureOwner, SignatureUse, held, is_tagged, own};
use photofinish_wire::json::numbers::parse;
use photofinish_wire::json::values::{PutMember as _, json};

/// Google's placeholder for the signature of a call that another model made.
pub(super) const NO_SIGNATURE: &str = "skip_thought_signature_validator";
/// Its member, in both spellings.
const SIGNATURES: [&str; 2] = ["thoughtSignature", "thought_signature"];

/// For an answer: bare if Gemini made it, else the mark in base64.
pub(super) fn write_signature(signature: &str) -> String {
    own(SignatureOwner::Gemini, signature).map_or_else(|| STANDARD.encode(signature), str::to_owned)
}

/// From a request.
pub(super) fn read_signature(text: &str) -> SignatureUse {
    if text == NO_SIGNATURE {
        return SignatureUse::Unsigned;
    }
    held(SignatureOwner::Gemini, marked(text).as_deref().unwrap_or(text))
}

/// The mark that it encodes, in any alphabet: clients encode anew.
fn marked(text: &str) -> Option<String> {
    let engines = [STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD];
    let bytes = engines.iter().find_map(|engine| engine.decode(text).ok())?;
    String::from_utf8(bytes).ok().filter(|text| is_tagged(text))
}

/// The request without signatures that others made, or without any. None if there are none.
pub fn without_reasoning(body: &[u8], taken: RemovedReasoning) -> Option<Vec<u8>> {
    // Most requests have no signature, and need not be parsed.
    memchr::memmem::find(body, b"hought")?;
    let mut whole = parse(body).ok()?;
    let mut found = false;
    for content in whole.get_mut("contents").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(parts) = content.get_mut("parts").and_then(Value::as_array_mut) else { continue };
        parts.retain_mut(|part| {
            let goes = clean(part, taken);
            found |= goes.is_some();
            goes != Some(true)
        });
        if parts.is_empty() && found {
            parts.push(json!({ "text": "" }));
        }
    }
    found.then(|| whole.to_string().into_bytes())
}

/// Gives the first call of each turn of the model a signature, if it has none. Returns whether one lacked it.
pub fn sign_calls(contents: &mut Value) -> bool {
    let mut signed = false;
    for content in contents.as_array_mut().into_iter().flatten() {
        let parts = content.get_mut("parts").and_then(Value::as_array_mut).into_iter().flatten();
        let first = parts.filter_map(Value::as_object_mut).find(|part| part.contains_key("functionCall"));
        if let Some(part) = first.filter(|part| !SIGNATURES.iter().any(|name| part.contains_key(*name))) {
            part.put("thoughtSignature", Some(NO_SIGNATURE));
            signed = true;
        }
    }
    signed
}

/// Whether the part goes. None if it has no signature to be removed.
fn clean(part: &mut Value, taken: RemovedReasoning) -> Option<bool> {
    let (name, signature) = SIGNATURES.iter().find_map(|name| Some((*name, part.get(*name)?.as_str()?)))?;
    let goes = taken == RemovedReasoning::All || marked(signature).is_some();
    if !goes {
        return None;
    }
    let is_call = part.get("functionCall").or_else(|| part.get("function_call")).is_some();
    let says = part["thought"] != true && part["text"].as_str().is_some_and(|text| !text.is_empty());
    if is_call {
        // Newer models refuse a call without one.
        part[name] = NO_SIGNATURE.into();
    } else if let Some(members) = part.as_object_mut().filter(|_| says) {
        members.shift_remove(name);
    }
    Some(!is_call && !says)
}
