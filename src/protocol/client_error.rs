//! Errors for the client before they have a surface's shape: what is wrong with a request, and what the gateway answers
//! instead of a provider. Not for errors that providers send: see [`super::error`].

use serde_json::Value;

/// An error to be written in a surface's shape.
#[derive(Clone, Debug)]
pub struct ErrorShape<'a> {
    pub status: u16,
    /// OpenAI's `type`, such as `invalid_request_error`. A surface with names of its own goes by the status.
    pub kind: &'a str,
    pub code: &'a str,
    pub message: &'a str,
    pub param: Option<&'a str>,
    /// Failed attempts, as a JSON list; none where there are none.
    pub attempts: Option<&'a Value>,
}

/// What is wrong with a request, as the surface's own vendor would say it. Never quotes a value of the prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    pub message: String,
    /// `messages[0].content`, or in the vendor's own way of pointing.
    pub param: Option<String>,
}
