//! The `gemini` dialect: Google's `streamGenerateContent`, in the Gemini API and in Vertex AI.
//!
//! Every event is a whole response object. There is no `[DONE]`: a stream is complete when every candidate has a finish
//! reason.

mod assemble;
mod conversation;
mod frame;
mod reader;
mod request;
mod writer;

use std::fmt::Write;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use bytes::Bytes;
use serde_json::Value;

pub use assemble::GeminiAssembly;
pub use conversation::{check, conversation};
pub use frame::read;
pub use reader::GeminiReader;
pub use request::{request, writes_alike};
pub use writer::GeminiWriter;

use crate::client_error::ErrorShape;
use crate::json::numbers::parse;
use crate::json::surrogates::lenient;
use crate::json::values::{PutMember, json};
use crate::translate::signature::{RemovedReasoning, SignatureOwner, SignatureUse, held, is_tagged, own};

/// The events of an answer that was not streamed: one object, or a list of objects from a server that was not asked for
/// server-sent events. None if the body is not an answer.
pub fn events_of_whole(body: &[u8]) -> Option<Bytes> {
    let chunks = match lenient(body)? {
        Value::Array(chunks) => chunks,
        chunk => vec![chunk],
    };
    chunks.first()?.get("candidates")?.as_array()?;
    let mut events = String::with_capacity(body.len());
    for chunk in chunks {
        write!(events, "data: {chunk}\n\n").ok()?;
    }
    Some(Bytes::from(events))
}

/// An error in the vendor's shape. The gateway's own code is the reason in its details.
pub fn error(error: &ErrorShape<'_>) -> Value {
    let status = match error.status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        408 | 504 => "DEADLINE_EXCEEDED",
        429 => "RESOURCE_EXHAUSTED",
        500 => "INTERNAL",
        501.. => "UNAVAILABLE",
        _ => "INVALID_ARGUMENT",
    };
    let info = json!({
        "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": error.code, "domain": "photofinish",
    });
    let mut shape = json!({
        "code": error.status, "message": error.message, "status": status, "details": [info],
    });
    shape.put("attempts", error.attempts.cloned());
    json!({ "error": shape })
}

/// The path of a request for a model. Names that already are a path (`models/…`, `publishers/google/models/…`) are
/// kept.
pub fn path(model: &str, streams: bool) -> String {
    model_path(model) + if streams { ":streamGenerateContent?alt=sse" } else { ":generateContent" }
}

/// The path of a token count.
pub fn counting_path(model: &str) -> String {
    model_path(model) + ":countTokens"
}

/// The path of a request for the embedding of one content, or of several.
pub fn embedding_path(model: &str, is_batch: bool) -> String {
    model_path(model) + if is_batch { ":batchEmbedContents" } else { ":embedContent" }
}

/// The model's full name, as in `models/gemini-embedding-001`.
pub fn model_name(model: &str) -> String {
    model_path(model).split_off(1)
}

fn model_path(model: &str) -> String {
    let mut segments = model.split('/');
    let is_path = segments.next().is_some_and(|first| PREFIXES.contains(&first))
        && segments.clone().next().is_some()
        && segments.all(|segment| !matches!(segment, "" | "." | ".."));
    let mut path = String::from(if is_path { "/" } else { "/models/" });
    for byte in model.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'@' => path.push(byte.into()),
            b'/' if is_path => path.push('/'),
            _ => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path
}

/// First segments of full model names.
const PREFIXES: [&str; 5] = ["models", "tunedModels", "publishers", "endpoints", "projects"];

// Signatures in Gemini's requests and answers. They are base64, because clients decode them, so a mark of another owner
// is base64 here too. Not for requests that are written for Gemini: those get only its own.

/// Google's placeholder for the signature of a call that another model made.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// For an answer: bare if Gemini made it, else the mark in base64.
fn write_signature(signature: &str) -> String {
    own(SignatureOwner::Gemini, signature).map_or_else(|| STANDARD.encode(signature), str::to_owned)
}

/// From a request.
fn read_signature(text: &str) -> SignatureUse {
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

/// Whether the part goes. None if it has no signature to be removed.
fn clean(part: &mut Value, taken: RemovedReasoning) -> Option<bool> {
    let names = ["thoughtSignature", "thought_signature"];
    let (name, signature) = names.iter().find_map(|name| Some((*name, part.get(*name)?.as_str()?)))?;
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

#[cfg(test)]
mod tests;
