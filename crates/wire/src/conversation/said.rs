//! What an answer says so far, for those who judge it: its calls and its text. Collected from the pieces as they pass, so that no
//! event is read again. Not for passing it on.

use super::{AnswerPiece, FinishReason, PARAGRAPH};
use crate::json::unescape;

/// Bytes of the arguments of all calls of an answer, and of its text.
const SAID_MAX: usize = 64 << 10;
/// Calls of an answer, and choices with text.
const PARTS_MAX: usize = 256;

#[derive(Debug, Default)]
pub struct SaidAnswer {
    pub calls: Vec<SaidCall>,
    /// One for each choice with text, if text is kept.
    pub texts: Vec<(u32, String)>,
    /// That of the latest text.
    latest_choice: Option<u32>,
    /// Its own limit of tokens ended it.
    pub is_cut: bool,
    pub refuses: bool,
    /// There is more than is kept, or a part could not be read.
    pub is_partial: bool,
    keeps_text: bool,
    bytes: usize,
}

#[derive(Debug)]
pub struct SaidCall {
    key: (u32, u32),
    pub name: String,
    /// The input of the tool is free text.
    pub is_free: bool,
    /// As they came: JSON, if they are valid.
    pub arguments: String,
}

impl SaidAnswer {
    pub fn new(keeps_text: bool) -> SaidAnswer {
        SaidAnswer { keeps_text, ..SaidAnswer::default() }
    }

    pub fn keeps_text(&self) -> bool {
        self.keeps_text
    }

    /// Bytes that it holds.
    pub fn len(&self) -> usize {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The upstream begins anew.
    pub fn restart(&mut self) {
        *self = SaidAnswer::new(self.keeps_text);
    }

    /// No more is kept, and what was kept is forgotten.
    pub fn give_up(&mut self) {
        *self = SaidAnswer { is_partial: true, ..SaidAnswer::new(self.keeps_text) };
    }

    pub fn add(&mut self, piece: &AnswerPiece) {
        match piece {
            AnswerPiece::Call { index, call, name, custom, .. } if self.has_room(name.len(), self.calls.len()) => {
                let (key, name) = ((*index, *call), name.clone());
                self.calls.push(SaidCall { key, name, is_free: *custom, arguments: String::new() });
            }
            AnswerPiece::Arguments { index, call, text } => {
                let place = self.calls.iter().rposition(|said| said.key == (*index, *call));
                if let Some(place) = place.filter(|_| self.has_room(text.len(), 0)) {
                    self.calls[place].arguments.push_str(text);
                }
            }
            AnswerPiece::Text { index, text } if self.keeps_text => self.add_text(*index, text),
            AnswerPiece::NextMessage { index } if self.keeps_text => self.add_text(*index, PARAGRAPH),
            AnswerPiece::Refusal { .. } => self.refuses = true,
            AnswerPiece::Finish { finish: FinishReason::Length, .. } => self.is_cut = true,
            AnswerPiece::Finish { finish: FinishReason::Refusal | FinishReason::Filtered, .. } => self.refuses = true,
            _ => {}
        }
    }

    fn add_text(&mut self, index: u32, text: &str) {
        if !self.has_room(text.len(), self.texts.len()) {
            return;
        }
        self.latest_choice = Some(index);
        match self.texts.iter_mut().find(|(choice, _)| *choice == index) {
            Some((_, said)) => said.push_str(text),
            None => self.texts.push((index, text.to_owned())),
        }
    }

    /// Adds the text between the quotes of a JSON string to the arguments of this call.
    pub fn add_quoted_arguments(&mut self, (index, call): (u32, u32), inner: &str) {
        match unescape(inner) {
            Some(text) => self.add(&AnswerPiece::Arguments { index, call, text: text.into_owned() }),
            None => self.is_partial = true,
        }
    }

    /// The same for the text of the choice that came last.
    pub fn add_quoted_text(&mut self, inner: &str) {
        let Some(index) = self.latest_choice else { return self.is_partial = true };
        match unescape(inner) {
            Some(text) => self.add_text(index, &text),
            None => self.is_partial = true,
        }
    }

    fn has_room(&mut self, bytes: usize, parts: usize) -> bool {
        self.bytes += bytes;
        if self.bytes > SAID_MAX || parts >= PARTS_MAX {
            self.give_up();
        }
        !self.is_partial
    }
}
