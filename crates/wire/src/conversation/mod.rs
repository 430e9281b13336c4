//! The neutral form of all dialects: a [`Conversation`] for requests, [`AnswerPiece`]s for answers.
//!
//! A surface reads its requests into a conversation and writes its answers from pieces. A dialect writes its requests
//! from a conversation and reads its answers into pieces. So one reader and one writer translate a dialect to every
//! surface. Content that a dialect cannot express goes to [`Losses`].

pub mod arguments;
pub mod bounds;
pub mod call_ids;
pub mod calls;

pub mod members;

pub mod outgoing;

mod custom;
mod form;
mod in_turn;

pub mod losses;
mod piece;
mod said;
#[cfg(any(test, feature = "test-support"))]
pub mod sample;
pub mod signature;
mod streams;
pub mod tool_names;

pub use calls::{AnswerCalls, Fragment};
pub use custom::{Customs, as_functions};
pub use form::{
    Audio, CacheHint, Conversation, ConversationTurn, Document, Effort, Format, Image, MessagePart, Reasoning,
    ReasoningPart, Role, Sampling, Source, Tool, ToolCall, ToolChoice, ToolResult,
};
pub use in_turn::InTurn;
pub use losses::Losses;
pub use piece::{AnswerPiece, Citation, FinishReason, PARAGRAPH};
pub use said::{SaidAnswer, SaidCall};
pub use streams::{ReadPieces, WritePieces};
pub use tool_names::{NameRestorer, ToolNames};
