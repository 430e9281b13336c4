//! An answer as it comes, in words of no dialect.

use bytes::{Bytes, BytesMut};

use crate::protocol::client_error::ErrorShape;
use crate::protocol::sse::SseEvent;
use crate::protocol::usage::Usage;

/// One piece of an answer. A reader gives them in the order of the stream; `index` tells apart the choices of a chat answer with
/// `n` > 1, and is 0 everywhere else.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerPiece {
    /// The vendor's names for answer and model, as soon as they are known; may come more than once.
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
    /// Reasoning text. `block` tells apart blocks that a vendor signs one by one.
    Thinking {
        index: u32,
        block: u32,
        text: String,
    },
    /// The signature (or encrypted content) of a block of reasoning, with its owner: see [`super::signature`].
    Signature {
        index: u32,
        block: u32,
        signature: String,
    },
    /// A block of reasoning that is shown encrypted only. The data has its owner, as a signature has.
    Redacted {
        index: u32,
        block: u32,
        data: String,
    },
    /// A call begins. `call` counts the calls of a choice from 0. `id` may be empty where the vendor gives none: a writer makes one.
    Call {
        index: u32,
        call: u32,
        id: String,
        name: String,
        custom: bool,
        signature: Option<String>,
    },
    /// More of the arguments' JSON text.
    Arguments {
        index: u32,
        call: u32,
        text: String,
    },
    /// Generated audio: base64, and its transcript; either may be empty.
    Audio {
        index: u32,
        id: Option<String>,
        data: String,
        transcript: String,
    },
    /// A generated image, whole.
    Image {
        index: u32,
        media_type: String,
        data: String,
    },
    Finish {
        index: u32,
        finish: FinishReason,
    },
    /// Counts so far; the largest of each stands. Input tokens count those out of a cache too.
    Usage(Usage),
    /// Something was generated that no other dialect has a word for (a vendor's own tool ran, a citation): the vendor's name for it.
    Other(String),
}

/// Why an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishReason {
    Stop,
    /// A stop sequence, where the vendor names it.
    StopSequence(Option<String>),
    /// `max_tokens`, or the context window.
    Length,
    ToolCalls,
    /// The vendor's filter cut it.
    Filtered,
    /// The model declined.
    Refusal,
    /// The vendor paused a long turn, to be continued by sending it back (Anthropic's `pause_turn`).
    Pause,
    Other(String),
}

/// Reads one upstream's events into pieces. One for each stream.
pub trait ReadPieces: Send {
    /// Adds what this event carries, if anything. Never fails: what cannot be read carries nothing.
    fn read(&mut self, event: &SseEvent, pieces: &mut Vec<AnswerPiece>);
}

/// Writes pieces as the events of a surface. One for each stream.
pub trait WritePieces: Send {
    /// Appends the events that this piece makes, each with its closing blank line; may be none yet.
    fn write(&mut self, piece: AnswerPiece, out: &mut BytesMut);
    /// Appends what ends the stream well: what was held back until usage and finish were known, and the surface's own end.
    /// Called once, after the last piece.
    fn end(&mut self, out: &mut BytesMut);
    /// The event that ends the stream in the midst, where it has to go on from what was written. None: any will do.
    fn error_event(&mut self, _error: &ErrorShape<'_>) -> Option<Bytes> {
        None
    }
}
