//! The `bedrock` dialect: AWS's ConverseStream, for any model behind it. Reads its frames and errors, and writes its
//! requests. Not for cutting streams into frames (see `binary`) or for signing requests (see `upstream`).

mod content;
mod errors;
mod model;
mod payload;
mod reader;
mod request;
mod sealed;
mod whole;

#[cfg(test)]
mod tests;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

pub use errors::kind_of as kind_of_exception;
pub use model::writes_alike;
pub use payload::read;
pub use reader::BedrockReader;
pub use request::request;
pub use whole::events_of_whole;

/// Characters to encode in a path segment: all except the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The path of a request in a model's own format.
pub fn invoke_path(model: &str) -> String {
    format!("/model/{}/invoke", utf8_percent_encode(model, RESERVED))
}

/// The path of a request for a model. The id may be an ARN with colons and slashes.
pub fn path(model: &str, streams: bool) -> String {
    let call = if streams { "converse-stream" } else { "converse" };
    format!("/model/{}/{call}", utf8_percent_encode(model, RESERVED))
}
