//! A whole answer out of a stream, for a client that did not ask to stream. How it is put together is the surface's to know.

use bytes::Bytes;

use super::sse::Event;

/// A whole answer in the making. One for each stream.
pub trait Assemble: Send {
    /// Takes in one event of the surface's own dialect. False if it cannot be read, and so nothing whole can be made any more.
    fn add(&mut self, event: &Event) -> bool;

    /// The answer as the surface gives it without `stream`: a JSON text. Called once.
    fn finish(&mut self) -> Bytes;
}
