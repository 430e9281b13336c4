//! For a surface that can have one block open at a time: everything that comes while a call is open waits, in order, until the call is
//! complete. Nothing is dropped. Not for surfaces whose calls may alternate.

use bytes::{Bytes, BytesMut};

use super::{AnswerPiece, WritePieces};
use crate::client_error::ErrorShape;

/// Gives a writer each call whole: its start, all its arguments, its end.
pub struct InTurn<W> {
    writer: W,
    /// By choice.
    choices: Vec<(u32, ChoiceTurns)>,
}

/// What waits of one choice.
#[derive(Default)]
struct ChoiceTurns {
    /// The call that is being written.
    open: Option<u32>,
    waiting: Vec<WaitingPiece>,
}

enum WaitingPiece {
    Piece(AnswerPiece),
    Call { start: AnswerPiece, call: u32, arguments: String, has_ended: bool },
}

impl<W: WritePieces> InTurn<W> {
    pub fn new(writer: W) -> InTurn<W> {
        InTurn { writer, choices: Vec::new() }
    }

    fn turns(&mut self, index: u32) -> (&mut ChoiceTurns, &mut W) {
        let at = self.choices.iter().position(|(choice, _)| *choice == index).unwrap_or_else(|| {
            self.choices.push((index, ChoiceTurns::default()));
            self.choices.len() - 1
        });
        (&mut self.choices[at].1, &mut self.writer)
    }
}

impl ChoiceTurns {
    fn take(&mut self, piece: AnswerPiece, write: &mut impl FnMut(AnswerPiece)) {
        match (&piece, self.open) {
            (AnswerPiece::Finish { index, .. }, _) => {
                self.close(*index, write);
                write(piece);
            }
            (AnswerPiece::Call { call, .. }, None) => {
                self.open = Some(*call);
                write(piece);
            }
            (AnswerPiece::Arguments { call, .. }, Some(open)) if *call == open => write(piece),
            (AnswerPiece::CallEnd { call, .. }, Some(open)) if *call == open => {
                self.open = None;
                write(piece);
                self.go_on(write, false);
            }
            (_, None) => write(piece),
            (_, Some(_)) => self.wait(piece),
        }
    }

    fn wait(&mut self, piece: AnswerPiece) {
        let of_call = |number: u32| move |waiting: &&mut WaitingPiece| matches!(waiting, WaitingPiece::Call { call, .. } if *call == number);
        match piece {
            AnswerPiece::Call { call, .. } => {
                self.waiting.push(WaitingPiece::Call {
                    start: piece,
                    call,
                    arguments: String::new(),
                    has_ended: false,
                });
            }
            AnswerPiece::Arguments { call, text, .. } => {
                if let Some(WaitingPiece::Call { arguments, .. }) = self.waiting.iter_mut().rev().find(of_call(call)) {
                    arguments.push_str(&text);
                }
            }
            AnswerPiece::CallEnd { call, .. } => {
                if let Some(WaitingPiece::Call { has_ended, .. }) = self.waiting.iter_mut().rev().find(of_call(call)) {
                    *has_ended = true;
                }
            }
            AnswerPiece::Text { index, text } => match self.waiting.last_mut() {
                // Pieces of a text need no place of their own.
                Some(WaitingPiece::Piece(AnswerPiece::Text { text: before, .. })) => before.push_str(&text),
                _ => self.waiting.push(WaitingPiece::Piece(AnswerPiece::Text { index, text })),
            },
            other => self.waiting.push(WaitingPiece::Piece(other)),
        }
    }

    /// Gives out everything that waits: no more comes.
    fn close(&mut self, index: u32, write: &mut impl FnMut(AnswerPiece)) {
        if let Some(call) = self.open.take() {
            write(AnswerPiece::CallEnd { index, call });
        }
        self.go_on(write, true);
    }

    /// Gives out what waits, up to the next call that is not complete, or all.
    fn go_on(&mut self, write: &mut impl FnMut(AnswerPiece), all: bool) {
        let mut waiting = std::mem::take(&mut self.waiting).into_iter();
        for next in waiting.by_ref() {
            match next {
                WaitingPiece::Piece(piece) => write(piece),
                WaitingPiece::Call { start, call, arguments, has_ended } => {
                    let index = if let AnswerPiece::Call { index, .. } = start { index } else { 0 };
                    write(start);
                    if !arguments.is_empty() {
                        write(AnswerPiece::Arguments { index, call, text: arguments });
                    }
                    if !(has_ended || all) {
                        self.open = Some(call);
                        break;
                    }
                    write(AnswerPiece::CallEnd { index, call });
                }
            }
        }
        self.waiting = waiting.collect();
    }
}

impl<W: WritePieces> WritePieces for InTurn<W> {
    fn write(&mut self, piece: AnswerPiece, out: &mut BytesMut) {
        let Some(index) = piece.index() else { return self.writer.write(piece, out) };
        let (turns, writer) = self.turns(index);
        turns.take(piece, &mut |piece| writer.write(piece, out));
    }

    fn end(&mut self, out: &mut BytesMut) {
        for (index, turns) in &mut self.choices {
            turns.close(*index, &mut |piece| self.writer.write(piece, out));
        }
        self.writer.end(out);
    }

    fn error_event(&mut self, error: &ErrorShape<'_>) -> Option<Bytes> {
        self.writer.error_event(error)
    }
}
