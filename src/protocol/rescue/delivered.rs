//! What a client got of an answer, as far as it takes to go on with it.

use bytes::Bytes;

use super::wire_position::WirePosition;
use crate::protocol::client_error::ErrorShape;
use crate::protocol::dialect::Surface;
use crate::protocol::neutral::{AnswerPiece, ReadPieces, WritePieces};
use crate::protocol::sse::SseScanner;
use crate::protocol::usage::Usage;

/// Bytes of text, and of reasoning, that are kept: more than the longest answers have, which are of 128,000 tokens. What is longer
/// is not gone on with.
const DELIVERED_MAX: usize = 1 << 20;

/// Fed with everything that the client gets.
pub struct DeliveredAnswer {
    surface: Surface,
    reader: Box<dyn ReadPieces>,
    /// Used again for each event.
    pieces: Vec<AnswerPiece>,
    place: WirePosition,
    text: String,
    /// Reasoning, as long as there is no text.
    thoughts: String,
    /// Reasoning came last.
    thinks: bool,
    /// As far as it was told.
    usage: Usage,
    /// There is something in it that nobody else can go on with.
    barred: bool,
}

impl DeliveredAnswer {
    /// Nothing yet of an answer on this surface.
    pub fn new(surface: Surface) -> DeliveredAnswer {
        DeliveredAnswer {
            surface,
            reader: surface.dialect().reader(),
            pieces: Vec::new(),
            place: WirePosition::new(surface),
            text: String::new(),
            thoughts: String::new(),
            thinks: false,
            usage: Usage::default(),
            barred: false,
        }
    }

    /// Whole events that the client gets now.
    pub fn add(&mut self, events: &Bytes) {
        let mut scanner = SseScanner::new(usize::MAX);
        scanner.push(events.clone());
        while let Ok(Some(event)) = scanner.next_event() {
            self.place.see(&event, self.text.len());
            if self.barred {
                continue;
            }
            let mut pieces = std::mem::take(&mut self.pieces);
            self.reader.read(&event, &mut pieces);
            pieces.drain(..).for_each(|piece| self.take(piece));
            self.pieces = pieces;
        }
        if self.text.len() > DELIVERED_MAX || self.thoughts.len() > DELIVERED_MAX {
            self.bar();
        }
    }

    /// It is not gone on with, whatever comes. What was kept for that is dropped.
    pub fn bar(&mut self) {
        self.barred = true;
        (self.text, self.thoughts) = (String::new(), String::new());
    }

    /// Bytes that it takes, with what a writer makes of it.
    pub fn bytes(&self) -> usize {
        2 * (self.text.capacity() + self.thoughts.capacity())
    }

    /// Whether another answer may be joined to it: there is text or reasoning, no call was begun, no reasoning was signed or
    /// may be signed yet, and nothing is in it that only its own maker could go on with.
    pub fn may_go_on(&self) -> bool {
        // Behind text, or where its vendor signs it, reasoning that is under way cannot be joined to.
        let thinks = self.thinks && (!self.text.is_empty() || self.surface != Surface::Chat);
        let says = !self.text.is_empty() || !self.thoughts.is_empty();
        says && !self.barred && !thinks && self.place.is_known()
    }

    /// Nobody will ever go on with it.
    pub fn is_barred(&self) -> bool {
        self.barred
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Reasoning; of an answer that has text nothing is to be repeated of it.
    pub(super) fn thoughts(&self) -> &str {
        if self.text.is_empty() { &self.thoughts } else { "" }
    }

    pub(super) fn surface(&self) -> Surface {
        self.surface
    }

    pub(super) fn usage(&self) -> Usage {
        self.usage
    }

    /// Counts of one who went on with it and broke off too.
    pub fn spent(&mut self, usage: Usage) {
        self.usage = self.usage.plus(usage);
    }

    /// Goes on behind the last event. `include_usage`: a chat client asked for usage.
    pub(super) fn writer(&self, include_usage: bool) -> Box<dyn WritePieces> {
        self.place.writer(&self.text, include_usage)
    }

    /// The event that ends it because it broke.
    pub fn error_event(&self, error: &ErrorShape<'_>) -> Bytes {
        self.place.error_event(error).unwrap_or_else(|| self.surface.error_event(error))
    }

    fn take(&mut self, piece: AnswerPiece) {
        match piece {
            AnswerPiece::Start { .. } => {}
            AnswerPiece::Usage(usage) => self.usage = usage.or(self.usage),
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
