//! An answer in neutral form, as it arrives.

use bytes::{Bytes, BytesMut};
use serde_json::Value;

use crate::answer::ends::End;
use crate::answer::usage::Usage;
use crate::client_error::ErrorShape;
use crate::json::numbers::parse;
use crate::json::values::json;
use crate::stream::sse::SseEvent;

/// One piece of an answer, in the order of the stream. `index` is the choice of a chat answer with `n` > 1, else 0.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerPiece {
    /// The vendor's id and model, as soon as known. May occur more than once.
    Start {
        id: Option<String>,
        model: Option<String>,
    },
    Text {
        index: u32,
        text: String,
    },
    Refusal {
        index: u32,
        text: String,
    },
    /// Reasoning text. `block` separates blocks that a vendor signs individually.
    Thinking {
        index: u32,
        block: u32,
        text: String,
    },
    /// The signature or encrypted content of a block of reasoning, with its owner: see [`super::signature`].
    Signature {
        index: u32,
        block: u32,
        signature: String,
    },
    /// A block of reasoning that is shown only encrypted. The data names its owner, like a signature.
    Redacted {
        index: u32,
        block: u32,
        data: String,
    },
    /// The start of a call. `call` counts the calls of a choice from 0. `id` may be empty if the vendor sends none; the
    /// writer makes one.
    Call {
        index: u32,
        call: u32,
        id: String,
        name: String,
        custom: bool,
        signature: Option<String>,
    },
    /// More of the JSON text of the arguments.
    Arguments {
        index: u32,
        call: u32,
        text: String,
    },
    /// Generated audio: base64, and its transcript. Either may be empty.
    Audio {
        index: u32,
        id: Option<String>,
        data: String,
        transcript: String,
    },
    /// A complete generated image.
    Image {
        index: u32,
        media_type: String,
        data: String,
    },
    Finish {
        index: u32,
        finish: FinishReason,
    },
    /// Usage so far: it replaces what came before. Input tokens include cached ones, output tokens include reasoning.
    Usage(Usage),
    /// Output that no other dialect has (a vendor's own tool, a citation), by the vendor's name.
    Other(String),
}

/// Why an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishReason {
    Stop,
    /// A stop sequence, if the vendor names it.
    StopSequence(Option<String>),
    /// `max_tokens`, or the context window.
    Length,
    ToolCalls,
    /// The vendor's filter cut it.
    Filtered,
    /// The model refused.
    Refusal,
    /// The vendor paused a long turn; sending it back continues it (Anthropic's `pause_turn`).
    Pause,
    /// An unknown word, or the word of an answer that broke off. Never written as a good end.
    Other(String),
}

impl FinishReason {
    /// The meaning of a vendor's word.
    pub fn of(word: &str) -> FinishReason {
        match End::of(word) {
            End::Stop => FinishReason::Stop,
            End::StopSequence => FinishReason::StopSequence(None),
            End::Length => FinishReason::Length,
            End::ToolCalls => FinishReason::ToolCalls,
            End::Filtered => FinishReason::Filtered,
            End::Refusal => FinishReason::Refusal,
            End::Pause => FinishReason::Pause,
            End::BrokenOff | End::Unknown => FinishReason::Other(word.to_owned()),
        }
    }
}

/// Calls whose arguments may not be complete, for a surface that writes each call in one piece.
#[derive(Default)]
pub struct HeldCalls(Vec<HeldCall>);

/// A call with its arguments so far.
pub struct HeldCall {
    index: u32,
    call: u32,
    pub id: Option<String>,
    pub name: String,
    arguments: String,
    pub signature: Option<String>,
}

impl HeldCalls {
    /// Adds a call, or more of its arguments.
    pub fn hold(&mut self, piece: AnswerPiece) {
        match piece {
            AnswerPiece::Call { index, call, id, name, signature, .. } => {
                let id = Some(id).filter(|id| !id.is_empty());
                self.0.push(HeldCall { index, call, id, name, arguments: String::new(), signature });
            }
            AnswerPiece::Arguments { index, call, text } => {
                let held = self.0.iter_mut().rev().find(|held| (held.index, held.call) == (index, call));
                held.into_iter().for_each(|held| held.arguments.push_str(&text));
            }
            _ => {}
        }
    }

    /// Takes the calls of a choice out.
    pub fn take(&mut self, index: u32) -> Vec<HeldCall> {
        self.0.extract_if(.., |held| held.index == index).collect()
    }
}

impl HeldCall {
    /// Arguments that are no object end a stream with an error before they are written.
    pub fn arguments(&self) -> Value {
        parse(self.arguments.as_bytes()).unwrap_or_else(|_| json!({}))
    }
}

/// Reads the events of one stream into pieces.
pub trait ReadPieces: Send {
    /// Adds the pieces of this event. Never fails: what cannot be read adds nothing.
    fn read(&mut self, event: &SseEvent, pieces: &mut Vec<AnswerPiece>);
}

/// Writes pieces as events of a surface, for one stream.
pub trait WritePieces: Send {
    /// Appends the events of this piece, each with its closing blank line. May append nothing yet.
    fn write(&mut self, piece: AnswerPiece, out: &mut BytesMut);
    /// Appends the end of a complete stream: everything that waited for usage and finish, and the surface's end. Called
    /// once, after the last piece.
    fn end(&mut self, out: &mut BytesMut);
    /// The event that ends a broken stream, if it must continue what was written. None: any error event is suitable.
    fn error_event(&mut self, _error: &ErrorShape<'_>) -> Option<Bytes> {
        None
    }
}
