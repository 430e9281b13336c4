//! The `bedrock` dialect: AWS's ConverseStream, whatever model stands behind it. What its frames carry, its requests written
//! from a conversation, its errors. How a stream is cut into frames is `binary`'s matter, how a request is signed the
//! upstream's.

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

/// What a part of a path is encoded by: all but the characters that RFC 3986 calls unreserved.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Where a request for a model goes. The id may be an ARN, with colons and slashes.
pub fn path(model: &str) -> String {
    format!("/model/{}/converse-stream", utf8_percent_encode(model, RESERVED))
}
