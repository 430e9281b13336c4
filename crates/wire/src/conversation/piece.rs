//! An answer in neutral form, as it arrives.

use crate::answer::ends::End;
use crate::answer::usage::Usage;

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
    /// The text goes on in another message: a paragraph, where a surface has one text.
    NextMessage {
        index: u32,
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
    /// The arguments of the call are complete, or as complete as they get. Comes once for each call.
    CallEnd {
        index: u32,
        call: u32,
    },
    /// A source that a text relies on.
    Citation {
        index: u32,
        citation: Citation,
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

impl AnswerPiece {
    /// The choice that it belongs to, if it belongs to one.
    pub fn index(&self) -> Option<u32> {
        match self {
            AnswerPiece::Start { .. } | AnswerPiece::Usage(_) | AnswerPiece::Other(_) => None,
            AnswerPiece::Text { index, .. }
            | AnswerPiece::NextMessage { index }
            | AnswerPiece::Refusal { index, .. }
            | AnswerPiece::Thinking { index, .. }
            | AnswerPiece::Signature { index, .. }
            | AnswerPiece::Redacted { index, .. }
            | AnswerPiece::Call { index, .. }
            | AnswerPiece::Arguments { index, .. }
            | AnswerPiece::CallEnd { index, .. }
            | AnswerPiece::Citation { index, .. }
            | AnswerPiece::Audio { index, .. }
            | AnswerPiece::Image { index, .. }
            | AnswerPiece::Finish { index, .. } => Some(*index),
        }
    }
}

/// What separates two messages of one text.
pub const PARAGRAPH: &str = "\n\n";

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

/// A source on the web.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Citation {
    pub url: String,
    pub title: Option<String>,
    /// The place in the text of the answer, in characters: its begin, and the character after its end. None: of the answer as a whole.
    pub span: Option<(u64, u64)>,
    /// The words of the source.
    pub quote: Option<String>,
}
