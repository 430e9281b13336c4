//! The wire formats: the only room that knows a provider's JSON.
//!
//! Pure: bytes in, facts out. Nothing here waits, connects or decides what a fact means for a race.

pub mod assemble;
pub mod error;
pub mod headers;
pub mod json;
pub mod limits;
pub mod openai;
pub mod request;
pub mod sse;
pub mod usage;

/// What kind of output an event carries. Only an event with a non-empty payload of one of these can win a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadKind {
    Text,
    Reasoning,
    Tool,
    Refusal,
    Audio,
}

impl PayloadKind {
    /// The stored name.
    pub fn as_str(self) -> &'static str {
        match self {
            PayloadKind::Text => "text",
            PayloadKind::Reasoning => "reasoning",
            PayloadKind::Tool => "tool",
            PayloadKind::Refusal => "refusal",
            PayloadKind::Audio => "audio",
        }
    }
}
