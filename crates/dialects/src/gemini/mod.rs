//! The `gemini` dialect: Google's `streamGenerateContent`, in the Gemini API and in Vertex AI.
//!
//! Every event is a whole response object. There is no `[DONE]`: a stream is complete when every candidate has a finish
//! reason.

mod conversation;
mod format;
mod frame;
mod reader;
mod request;
mod signature;
mod whole;
mod writer;

use std::fmt::Write;

use bytes::Bytes;
use serde_json::Value;

pub use conversation::{check, conversation};
pub use format::GeminiFormat;
pub use frame::read;
pub use reader::GeminiReader;
pub use request::{fit, request};
pub use signature::{sign_calls, without_reasoning};
pub use whole::GeminiWhole;
pub use writer::GeminiWriter;

use photofinish_wire::client_error::ErrorShape;
use photofinish_wire::json::surrogates::lenient;
use photofinish_wire::json::values::{PutMember, json};

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

#[cfg(test)]
mod tests;
