//! What every dialect means, in words of none of them: a [`Conversation`] goes up, [`AnswerPiece`]s come down.
//!
//! A surface reads its requests into a conversation and writes its answers from pieces; a dialect writes its requests from a
//! conversation and reads its answers into pieces. So a dialect is translated to every surface by one reader and one writer.
//! What a dialect cannot say is told to [`Losses`], never left out in silence.

mod conversation;
mod custom;
mod losses;
mod piece;
pub mod signature;

#[cfg(test)]
mod tests;

pub use conversation::{
    Audio, CacheHint, Conversation, ConversationTurn, Document, Effort, Format, Image, MessagePart, Reasoning,
    ReasoningPart, Role, Sampling, Source, Tool, ToolCall, ToolChoice, ToolResult,
};
pub use custom::{Customs, as_functions};
pub use losses::Losses;
pub use piece::{AnswerPiece, FinishReason, ReadPieces, WritePieces};
