//! The neutral form of all dialects: a [`Conversation`] for requests, [`AnswerPiece`]s for answers.
//!
//! A surface reads its requests into a conversation and writes its answers from pieces. A dialect writes its requests
//! from a conversation and reads its answers into pieces. So one reader and one writer translate a dialect to every
//! surface. Content that a dialect cannot express goes to [`Losses`].

pub(crate) mod arguments;
pub mod bounds;
pub(crate) mod call_ids;
pub(crate) mod calls;

pub mod members;

pub(crate) mod outgoing;

pub mod request;
pub mod response;

mod conversation;
mod custom;
mod in_turn;

pub(crate) mod losses;
mod piece;
mod said;
pub mod signature;
mod streams;
pub(crate) mod tool_names;

#[cfg(test)]
pub(crate) mod tests;

pub use calls::{AnswerCalls, Fragment};
pub use conversation::{
    Audio, CacheHint, Conversation, ConversationTurn, Document, Effort, Format, Image, MessagePart, Reasoning,
    ReasoningPart, Role, Sampling, Source, Tool, ToolCall, ToolChoice, ToolResult,
};
pub use custom::{Customs, as_functions};
pub use in_turn::InTurn;
pub use losses::Losses;
pub use piece::{AnswerPiece, Citation, FinishReason, PARAGRAPH};
pub use said::{SaidAnswer, SaidCall};
pub use streams::{ReadPieces, WritePieces};
pub use tool_names::{NameRestorer, ToolNames};
