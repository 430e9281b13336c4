//! An upstream's answer on its way down: what each event is, and what it becomes where the caller called another dialect.

use bytes::{Bytes, BytesMut};

use super::assemble::ITEMS_MAX;
use super::dialect::{Dialect, ErrorShape, Surface};
use super::frame::Frame;
use super::framing::{Cutter, Framing};
use super::neutral::{Customs, Piece, ReadPieces, WritePieces};
use super::responses;
use super::sse::Event;
use super::upward::Upward;

/// What was called, what the upstream speaks, and what the answer needs to be translated. One for each attempt.
pub struct Downward {
    surface: Surface,
    dialect: Dialect,
    /// None where the upstream speaks the caller's own dialect.
    translation: Option<Translation>,
    /// The first event and the last, of an untranslated stream whose broken end needs them (Responses). Shared, not copied.
    seen: Option<(Event, Event)>,
}

struct Translation {
    reader: Box<dyn ReadPieces>,
    writer: Box<dyn WritePieces>,
    customs: Customs,
    /// Used again for each event.
    pieces: Vec<Piece>,
    /// Calls and encrypted blocks of reasoning so far.
    items: usize,
    ended: bool,
}

impl Downward {
    /// `model` stands in a translated answer until the upstream names its own; `include_usage`: a chat client asked for usage.
    pub fn new(upward: &Upward, model: &str, include_usage: bool) -> Downward {
        let (surface, dialect) = (upward.surface(), upward.dialect());
        let translation = upward.is_translated().then(|| Translation {
            customs: match surface {
                Surface::Messages => Customs::for_functions(),
                _ => Customs::new(upward.customs().clone()),
            },
            reader: dialect.reader(),
            writer: surface.writer(model, include_usage, upward.echo()),
            pieces: Vec::new(),
            items: 0,
            ended: false,
        });
        Downward { surface, dialect, translation, seen: None }
    }

    pub fn surface(&self) -> Surface {
        self.surface
    }

    pub fn is_translated(&self) -> bool {
        self.translation.is_some()
    }

    pub fn framing(&self) -> Framing {
        self.dialect.framing()
    }

    /// Holds back at most `max` bytes.
    pub fn cutter(&self, max: usize) -> Cutter {
        self.dialect.framing().cutter(max)
    }

    /// What one event of the upstream is.
    pub fn read<'a>(&self, event: &'a Event) -> Frame<'a> {
        self.dialect.read(self.surface, event)
    }

    /// The bytes of a stream that the upstream would have sent, had it not answered as a whole. None if it is no answer.
    pub fn events_of_whole(&self, body: &[u8]) -> Option<Bytes> {
        self.dialect.events_of_whole(self.surface, body)
    }

    /// What the event becomes for the caller; may be empty. `is_last`: nothing that the caller is to see comes behind it.
    pub fn pass(&mut self, event: Event, is_last: bool) -> Bytes {
        let Some(translation) = &mut self.translation else {
            self.remember(&event);
            return event.raw;
        };
        let mut out = BytesMut::new();
        translation.event(&event, &mut out);
        if is_last {
            translation.end(&mut out);
        }
        out.freeze()
    }

    /// Whether a translated answer has more items than an answer has: what is beyond them is left out.
    pub fn is_overfull(&self) -> bool {
        self.translation.as_ref().is_some_and(|translation| translation.items > ITEMS_MAX)
    }

    /// The event that ends a broken stream, which goes on from what was passed of it.
    pub fn error_event(&mut self, error: &ErrorShape<'_>) -> Bytes {
        let written = self.translation.as_mut().and_then(|translation| translation.writer.error_event(error));
        match (written, &self.seen) {
            (Some(written), _) => written,
            (None, Some((first, last))) => responses::error_event_behind(first, last, error),
            (None, None) => self.surface.error_event(error),
        }
    }

    fn remember(&mut self, event: &Event) {
        // Comments have no number.
        if self.surface != Surface::Responses || event.raw.starts_with(b":") {
            return;
        }
        let event = Event { raw: event.raw.clone() };
        match &mut self.seen {
            Some((_, last)) => *last = event,
            None => self.seen = Some((Event { raw: event.raw.clone() }, event)),
        }
    }

    /// What ends an answer that is complete and whose own end did not come. Empty where it was given out before.
    pub fn ending(&mut self) -> Bytes {
        let Some(translation) = &mut self.translation else { return Bytes::from_static(self.surface.ending()) };
        let mut out = BytesMut::new();
        translation.end(&mut out);
        out.freeze()
    }
}

impl Translation {
    fn event(&mut self, event: &Event, out: &mut BytesMut) {
        self.reader.read(event, &mut self.pieces);
        for piece in self.pieces.drain(..) {
            self.items +=
                usize::from(matches!(piece, Piece::Call { .. } | Piece::Redacted { .. } | Piece::Signature { .. }));
            if self.items > ITEMS_MAX {
                continue;
            }
            self.customs.pass(piece, |piece| self.writer.write(piece, out));
        }
    }

    fn end(&mut self, out: &mut BytesMut) {
        if !std::mem::replace(&mut self.ended, true) {
            self.customs.close(|piece| self.writer.write(piece, out));
            self.writer.end(out);
        }
    }
}
