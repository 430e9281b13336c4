//! The two traits of a dialect: [`UpstreamFormat`] where upstreams speak it, [`ClientFormat`] where clients do. Re-exports the types of
//! their signatures for those who implement them. Not for choosing one: see the crate's root.

pub use std::borrow::Cow;
pub use std::sync::Arc;

pub use bytes::Bytes;
pub use photofinish_wire::answer::growing::GrowingAnswer;
pub use photofinish_wire::client_error::{ErrorShape, Invalid};
pub use photofinish_wire::conversation::signature::RemovedReasoning;
pub use photofinish_wire::conversation::{Conversation, InTurn, Losses, ReadPieces, WritePieces};
pub use photofinish_wire::dialect::Surface;
pub use photofinish_wire::quirks::TranslationOptions;
pub use photofinish_wire::stream::frame::Frame;
pub use photofinish_wire::stream::sse::SseEvent;
pub use serde_json::{Map, Value};

/// A dialect that upstreams speak.
pub trait UpstreamFormat: Sync {
    /// The content of one event. This decides what counts as payload (the rules: `docs/measurement.md`).
    fn read<'e>(&self, event: &'e SseEvent) -> Frame<'e>;

    /// Turns a whole answer into the bytes of a stream. None if the body is not an answer.
    fn events_of_whole(&self, body: &[u8]) -> Option<Bytes>;

    /// Reads a stream for translation.
    fn reader(&self) -> Box<dyn ReadPieces>;

    /// Writes a conversation as a request.
    fn request(&self, conversation: &Conversation, options: &TranslationOptions, losses: &mut Losses) -> Value;

    /// Whether its tools may take free text instead of JSON.
    fn has_custom_tools(&self, _options: &TranslationOptions) -> bool {
        false
    }

    /// The path of a request for a model that asks for no embeddings, appended to the base URL. May have a query.
    fn path(&self, surface: Surface, model: &str, streams: bool) -> Cow<'static, str>;

    /// The path of a request for embeddings.
    fn embeddings_path(&self, _surface: Surface, _model: &str) -> Cow<'static, str> {
        "/embeddings".into()
    }
}

/// What a translated answer is written for.
pub struct AskedWriting<'a> {
    pub surface: Surface,
    /// Used until the upstream names its own.
    pub model: &'a str,
    pub include_usage: bool,
    /// A chat client lists `functions`.
    pub legacy_functions: bool,
    /// It is the short form of its conversation.
    pub compacts: bool,
    /// Members of the request that the answer repeats.
    pub echo: &'a Arc<Map<String, Value>>,
}

/// A dialect that clients speak.
pub trait ClientFormat: Sync {
    /// Reads a request for translation.
    ///
    /// # Errors
    /// The problem, in the words of the surface's vendor.
    fn conversation(&self, surface: Surface, body: &[u8]) -> Result<Conversation, Invalid>;

    /// A passed-through request without reasoning of earlier turns. None: it contained none.
    fn without_reasoning(&self, _body: &[u8], _taken: RemovedReasoning) -> Option<Vec<u8>> {
        None
    }

    /// Writes a translated answer.
    fn writer(&self, asked: &AskedWriting<'_>) -> Box<dyn WritePieces>;

    /// A whole answer that grows, for a client that did not ask to stream.
    fn growing(&self) -> GrowingAnswer;

    /// An error in its shape.
    fn error(&self, error: &ErrorShape<'_>) -> Value;

    /// The event that ends a broken stream.
    fn error_event(&self, error: &ErrorShape<'_>) -> Bytes {
        framed(&self.error(error))
    }

    /// The event that ends a stream with an upstream's own error, as its body says it. None: it has to be written anew.
    fn own_error_event(&self, said: &Value) -> Option<Bytes> {
        said["error"].is_object().then(|| framed(said))
    }

    /// Whether its official client treats this event as an error.
    fn is_error_event(&self, event: &SseEvent) -> bool;
}

fn framed(said: &Value) -> Bytes {
    format!("data: {said}\n\n").into()
}
