//! Joins another upstream's answer to the delivered part of a broken one: skips what it repeats, and writes the rest as
//! if the first had continued.

use bytes::{Bytes, BytesMut};
use photofinish_dialects::DialectFormat as _;

use super::continued::{Continued, Diverged};
use super::delivered::DeliveredAnswer;
use photofinish_wire::answer::usage::Usage;
use photofinish_wire::conversation::{AnswerPiece, ReadPieces, WritePieces};
use photofinish_wire::dialect::Surface;
use photofinish_wire::stream::mended::mended;

/// The request to the other upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinMethod {
    /// With this many bytes of the delivered text in the request: its answer continues after them.
    Prefix(usize),
    /// With the original request: it must repeat the delivered text.
    Replay,
}

/// The answer being joined.
pub struct JoinedAnswer {
    surface: Surface,
    reader: Box<dyn ReadPieces>,
    writer: Box<dyn WritePieces>,
    /// Reused for each event.
    pieces: Vec<AnswerPiece>,
    /// Reasoning that must be repeated. None if its reasoning is skipped.
    thoughts: Option<Repeated>,
    text: Repeated,
    /// The text behind a prefix. None for a replay, which repeats what was delivered.
    behind: Option<Continued>,
    /// The client has nothing yet: it gets this answer as it is.
    is_all: bool,
    /// Usage of the delivered part.
    before: Usage,
    /// Usage of this answer.
    usage: Usage,
}

impl JoinedAnswer {
    /// `include_usage`: a chat client asked for usage.
    pub fn new(delivered: &DeliveredAnswer, way: JoinMethod, include_usage: bool) -> JoinedAnswer {
        let text = match way {
            JoinMethod::Prefix(shown) => Repeated::new(delivered.text().get(shown..).unwrap_or_default(), true),
            JoinMethod::Replay => Repeated::new(delivered.text(), false),
        };
        let behind = matches!(way, JoinMethod::Prefix(_)).then(|| Continued::behind(delivered.text()));
        let thoughts = delivered.thoughts();
        JoinedAnswer {
            surface: delivered.surface(),
            reader: delivered.surface().dialect().reader(),
            writer: delivered.writer(include_usage),
            pieces: Vec::new(),
            thoughts: (!thoughts.is_empty()).then(|| Repeated::new(thoughts, false)),
            text,
            behind,
            is_all: delivered.is_nothing(),
            before: delivered.usage(),
            usage: Usage::default(),
        }
    }

    /// The client gets this answer as it is.
    pub fn is_all(&self) -> bool {
        self.is_all
    }

    /// Adds whole events, and appends the bytes for the client.
    ///
    /// # Errors
    /// If the answer differs from the delivered text.
    pub fn add(&mut self, events: &Bytes, out: &mut BytesMut) -> Result<(), Diverged> {
        if self.is_all {
            out.extend_from_slice(events);
            return Ok(());
        }
        let mut scanner = self.surface.framing().decoder(usize::MAX);
        scanner.push(events.clone());
        let mut pieces = std::mem::take(&mut self.pieces);
        while let Some(event) = scanner.next_event().ok().flatten().or_else(|| scanner.finish()) {
            // What was only read leniently comes as it was.
            let event = mended(self.surface.framing(), &event).unwrap_or(event);
            self.reader.read(&event, &mut pieces);
        }
        let taken = pieces.drain(..).try_for_each(|piece| self.take(piece, out));
        self.pieces = pieces;
        taken
    }

    /// Appends the end of the complete answer, with the usage of both.
    ///
    /// # Errors
    /// If it ended before it repeated the delivered text.
    pub fn end(&mut self, out: &mut BytesMut) -> Result<(), Diverged> {
        if self.is_all {
            return Ok(());
        }
        if !self.is_level() {
            return Err(Diverged);
        }
        self.say_held(false, out)?;
        let usage = self.before.plus(self.usage);
        if usage != Usage::default() {
            self.writer.write(AnswerPiece::Usage(usage), out);
        }
        self.writer.end(out);
        Ok(())
    }

    fn is_level(&self) -> bool {
        self.text.is_level() && self.thoughts.as_ref().is_none_or(Repeated::is_level)
    }

    fn take(&mut self, piece: AnswerPiece, out: &mut BytesMut) -> Result<(), Diverged> {
        match piece {
            AnswerPiece::Start { .. } => {}
            AnswerPiece::Usage(usage) => self.usage = usage.or(self.usage),
            AnswerPiece::Thinking { index: 0, block, text } => {
                // Once text was delivered, the other model's reasoning is skipped.
                let Some(thoughts) = &mut self.thoughts else { return Ok(()) };
                let text = thoughts.rest(&text)?.to_owned();
                if !text.is_empty() {
                    self.writer.write(AnswerPiece::Thinking { index: 0, block, text }, out);
                }
            }
            AnswerPiece::Signature { .. } | AnswerPiece::Redacted { .. } if self.thoughts.is_none() => {}
            AnswerPiece::NextMessage { .. } if !self.is_level() || self.behind.is_some() => {}
            AnswerPiece::Citation { .. } => self.writer.write(piece, out),
            AnswerPiece::Text { index: 0, text } => {
                if !self.thoughts.as_ref().is_none_or(Repeated::is_level) {
                    return Err(Diverged);
                }
                let text = self.text.rest(&text)?.to_owned();
                let text = self.behind.as_mut().map_or(Ok(text.clone()), |behind| behind.add(text.clone()))?;
                self.say(text, out);
            }
            // The signature would cover words of two models.
            AnswerPiece::Signature { .. } | AnswerPiece::Redacted { .. } => return Err(Diverged),
            AnswerPiece::Finish { index, finish } if self.is_level() => {
                // The delivered part broke off: that it is the whole answer is said by no continuation without a word.
                self.say_held(false, out)?;
                self.writer.write(AnswerPiece::Finish { index, finish }, out);
            }
            other if self.is_level() => {
                self.say_held(true, out)?;
                self.writer.write(other, out);
            }
            _ => return Err(Diverged),
        }
        Ok(())
    }

    /// Gives out the text that was held back: something else follows it.
    fn say_held(&mut self, may_be_empty: bool, out: &mut BytesMut) -> Result<(), Diverged> {
        if let Some(mut behind) = self.behind.take() {
            self.say(behind.end(may_be_empty)?, out);
        }
        Ok(())
    }

    fn say(&mut self, text: String, out: &mut BytesMut) {
        if !text.is_empty() {
            self.writer.write(AnswerPiece::Text { index: 0, text }, out);
        }
    }
}

/// Text that must be repeated.
struct Repeated {
    all: String,
    /// Bytes repeated so far.
    at: usize,
    /// It may be skipped: trailing blanks of the delivered text, which some servers do not accept.
    may_lack: bool,
}

impl Repeated {
    fn new(all: &str, may_lack: bool) -> Repeated {
        Repeated { all: all.to_owned(), at: 0, may_lack }
    }

    fn is_level(&self) -> bool {
        self.may_lack || self.at == self.all.len()
    }

    /// The part of `new` that is not a repetition.
    fn rest<'a>(&mut self, new: &'a str) -> Result<&'a str, Diverged> {
        let left = self.all.get(self.at..).unwrap_or_default();
        let same: usize = left
            .chars()
            .zip(new.chars())
            .take_while(|(before, now)| before == now)
            .map(|(character, _)| character.len_utf8())
            .sum();
        let rest = new.get(same..).unwrap_or_default();
        if same < left.len() && !rest.is_empty() {
            if !self.may_lack {
                return Err(Diverged);
            }
            self.at = self.all.len();
        } else {
            self.at += same;
        }
        Ok(rest)
    }
}
