//! The `gemini` dialect: Google's `streamGenerateContent`, in the Gemini API and in Vertex AI.
//!
//! Only for upstreams: no app calls the gateway in it. Every event is a whole response object. There is no `[DONE]`: a
//! stream is complete when every candidate has a finish reason.

mod contents;
mod frame;
mod model;
mod reader;
mod request;

#[cfg(test)]
mod tests;

use std::fmt::Write;

use bytes::Bytes;
use serde_json::Value;

pub use frame::read;
pub use model::writes_alike;
pub use reader::GeminiReader;
pub use request::request;

/// The events of an answer that was not streamed: one object, or a list of objects from a server that was not asked for
/// server-sent events. None if the body is not an answer.
pub fn events_of_whole(body: &[u8]) -> Option<Bytes> {
    let chunks = match serde_json::from_slice(body).ok()? {
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

/// The path of a request for a model. Names that already are a path (`models/…`, `publishers/google/models/…`) are
/// kept.
pub fn path(model: &str) -> String {
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
    path.push_str(":streamGenerateContent?alt=sse");
    path
}

/// First segments of full model names.
const PREFIXES: [&str; 5] = ["models", "tunedModels", "publishers", "endpoints", "projects"];
