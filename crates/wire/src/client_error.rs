//! Errors for the client, before they have a surface's shape: an invalid request, and an error of the gateway. Not for
//! errors that providers send: see [`crate::answer::error`].

use serde_json::Value;

/// An error to be written in a surface's shape.
#[derive(Clone, Debug)]
pub struct ErrorShape<'a> {
    pub status: u16,
    /// OpenAI's `type`, such as `invalid_request_error`. Other surfaces derive the type from the status.
    pub kind: &'a str,
    pub code: &'a str,
    pub message: &'a str,
    pub param: Option<&'a str>,
    /// Failed attempts, as a JSON list.
    pub attempts: Option<&'a Value>,
}

/// The problem with a request, in the words of the surface's vendor. Never quotes a value of the prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    pub message: String,
    /// `messages[0].content`, or the vendor's own notation.
    pub param: Option<String>,
}

impl Invalid {
    /// A problem with this member.
    pub fn at(param: impl Into<String>, message: impl Into<String>) -> Invalid {
        Invalid { message: message.into(), param: Some(param.into()) }
    }
}
