//! The part of an answer that a client has received, as far as another upstream needs it to continue.

use bytes::Bytes;
use photofinish_dialects::DialectFormat as _;
use photofinish_dialects::SurfaceFormat as _;

use super::wire_position::WirePosition;
use photofinish_wire::answer::usage::Usage;
use photofinish_wire::client_error::ErrorShape;
use photofinish_wire::conversation::{AnswerPiece, ReadPieces, WritePieces};
use photofinish_wire::dialect::Surface;

/// Bytes of text, and of reasoning, that are kept for a rescue: more than the longest answers (128,000 tokens) have. A
/// longer answer is not continued.
const DELIVERED_MAX: usize = 1 << 20;

/// Bytes of events that are kept unread: few answers break, so most are never read here.
const UNREAD_MAX: usize = 256 << 10;

/// Gets everything that the client gets.
pub struct DeliveredAnswer {
    surface: Surface,
    /// The latest events, in order.
    unread: Vec<Bytes>,
    unread_bytes: usize,
    /// The client lists `functions` instead of tools.
    legacy_functions: bool,
    reader: Box<dyn ReadPieces>,
    /// Reused for each event.
    pieces: Vec<AnswerPiece>,
    place: WirePosition,
    text: String,
    /// Reasoning received before any text.
    thoughts: String,
    /// The latest piece was reasoning.
    thinks: bool,
    /// Pieces of text and reasoning: each was a token at least.
    tokens: i64,
    /// Usage of the upstreams that broke off.
    usage: Usage,
    /// An event came that is no comment.
    began: bool,
    /// The answer contains something that no other upstream can continue.
    barred: bool,
}

impl DeliveredAnswer {
    /// An answer on this surface, still empty. `legacy_functions`: the client lists `functions` instead of tools.
    pub fn new(surface: Surface, legacy_functions: bool) -> DeliveredAnswer {
        DeliveredAnswer {
            surface,
            unread: Vec::new(),
            unread_bytes: 0,
            legacy_functions,
            reader: surface.dialect().reader(),
            pieces: Vec::new(),
            place: WirePosition::new(surface),
            text: String::new(),
            thoughts: String::new(),
            thinks: false,
            tokens: 0,
            usage: Usage::default(),
            began: false,
            barred: false,
        }
    }

    /// Adds whole events that the client gets.
    pub fn add(&mut self, events: &Bytes) {
        self.unread_bytes += events.len();
        self.unread.push(events.clone());
        if self.unread_bytes > UNREAD_MAX {
            self.read_up();
        }
    }

    /// Reads what was added. The other methods see only what was read.
    pub fn read_up(&mut self) {
        self.unread_bytes = 0;
        let unread = std::mem::take(&mut self.unread);
        unread.iter().for_each(|events| self.read(events));
    }

    fn read(&mut self, events: &Bytes) {
        let mut scanner = self.surface.framing().decoder(usize::MAX);
        scanner.push(events.clone());
        while let Ok(Some(event)) = scanner.next_event() {
            self.began |= event.fields().data.is_some() || !self.surface.has_comments();
            self.place.see(&event, self.text.len());
            if self.barred {
                continue;
            }
            let mut pieces = std::mem::take(&mut self.pieces);
            self.reader.read(&event, &mut pieces);
            pieces.drain(..).for_each(|piece| self.take(piece));
            self.pieces = pieces;
        }
        // The reader may keep the beginning of a call back.
        if !self.reader.calls().is_empty() || self.text.len() > DELIVERED_MAX || self.thoughts.len() > DELIVERED_MAX {
            self.bar();
        }
    }

    /// Marks the answer as impossible to continue. Drops the stored text.
    pub fn bar(&mut self) {
        self.barred = true;
        (self.text, self.thoughts) = (String::new(), String::new());
        (self.unread, self.unread_bytes) = (Vec::new(), 0);
    }

    /// Memory in bytes, including that of a writer that continues.
    pub fn bytes(&self) -> usize {
        self.unread_bytes + 2 * (self.text.capacity() + self.thoughts.capacity())
    }

    /// Whether another answer may continue this one: no call began, no reasoning is signed or may still be signed, and it contains
    /// nothing that only its own vendor can continue. One of which the client has nothing may be any other.
    pub fn may_go_on(&mut self) -> bool {
        self.read_up();
        // Open reasoning cannot be continued after text, or where its vendor signs it.
        let thinks = self.thinks && (!self.text.is_empty() || self.surface != Surface::Chat);
        !self.barred && !thinks && (!self.began || self.place.is_known())
    }

    /// The client has nothing of it.
    pub fn is_nothing(&self) -> bool {
        !self.began
    }

    /// The answer will never be continued.
    pub fn is_barred(&self) -> bool {
        self.barred
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Tokens so far, at least.
    pub fn tokens(&self) -> i64 {
        self.tokens
    }

    /// Reasoning to be repeated. None once there is text.
    pub(super) fn thoughts(&self) -> &str {
        if self.text.is_empty() { &self.thoughts } else { "" }
    }

    pub fn surface(&self) -> Surface {
        self.surface
    }

    pub(super) fn usage(&self) -> Usage {
        self.usage
    }

    /// Adds the usage of an upstream that broke off, as far as it reported any.
    pub fn spent(&mut self, usage: Usage) {
        self.usage = self.usage.plus(usage);
    }

    /// Continues after the last event. `include_usage`: a chat client asked for usage.
    pub(super) fn writer(&self, include_usage: bool) -> Box<dyn WritePieces> {
        self.place.writer(&self.text, include_usage, self.legacy_functions)
    }

    /// The error event that ends the broken answer.
    pub fn error_event(&mut self, error: &ErrorShape<'_>) -> Bytes {
        self.read_up();
        self.place.error_event(error).unwrap_or_else(|| self.surface.error_event(error))
    }

    fn take(&mut self, piece: AnswerPiece) {
        self.tokens += i64::from(matches!(piece, AnswerPiece::Text { .. } | AnswerPiece::Thinking { .. }));
        match piece {
            AnswerPiece::Start { .. } | AnswerPiece::NextMessage { .. } | AnswerPiece::Usage(_) => {}
            // The other surfaces repeat them at the end.
            AnswerPiece::Citation { .. } if self.surface == Surface::Chat => {}
            AnswerPiece::Text { index: 0, text } => {
                self.thinks = false;
                self.text.push_str(&text);
            }
            AnswerPiece::Thinking { index: 0, text, .. } => {
                self.thinks = true;
                if self.text.is_empty() {
                    self.thoughts.push_str(&text);
                }
            }
            _ => self.bar(),
        }
    }
}
