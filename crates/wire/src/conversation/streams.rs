//! Streams of events become pieces, and pieces streams of events. Each dialect has a reader, each surface a writer.

use bytes::{Bytes, BytesMut};

use super::AnswerPiece;
use super::calls::AnswerCalls;
use crate::client_error::ErrorShape;
use crate::stream::sse::SseEvent;

/// Reads the events of one stream into pieces.
pub trait ReadPieces: Send {
    /// Adds the pieces of this event. Never fails: what cannot be read adds nothing.
    fn read(&mut self, event: &SseEvent, pieces: &mut Vec<AnswerPiece>);
    /// The calls so far.
    fn calls(&mut self) -> &mut AnswerCalls;
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
