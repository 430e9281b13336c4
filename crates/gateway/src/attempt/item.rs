//! One event of an answer, as its readers receive it.

use std::ops::Range;

use bytes::Bytes;

use photofinish_base::failure::Failure;
use photofinish_wire::answer::error::ErrorFacts;

/// One event: the bytes that are passed on, and its kind.
#[derive(Debug)]
pub struct StreamItem {
    /// In the caller's dialect, with the closing blank line: the original bytes, or their translation, which may be empty.
    pub raw: Bytes,
    pub kind: ItemKind,
    /// Bytes of the upstream's event.
    pub size: usize,
    /// Set if it differs in its text alone from the payload before it: where this text stands in `raw`, between its
    /// quotes. Never set in a translation.
    pub more: Option<Range<usize>>,
}

impl StreamItem {
    /// An event that was read as a whole.
    pub fn new(raw: Bytes, kind: ItemKind, size: usize) -> StreamItem {
        StreamItem { raw, kind, size, more: None }
    }
}

/// The kinds that readers distinguish.
#[derive(Debug)]
pub enum ItemKind {
    /// An event that does not matter for a race: a role, usage together with a finish.
    Other,
    /// A comment or a ping: the upstream is alive.
    Heartbeat,
    /// Generated output.
    Payload,
    /// The chunk that only `include_usage` brings.
    UsageOnly,
    /// The last event of the answer (`[DONE]`).
    Done,
    /// An error in a 200, with its data.
    Error { facts: ErrorFacts, data: Bytes },
    /// Noise, or of another dialect, or its content follows in other events.
    LeftOut,
}

/// The last event of an answer, before its usage chunk: see [`EventStream::join_usage_chunk`](super::EventStream::join_usage_chunk).
#[derive(Default)]
pub(super) enum LastEvent {
    /// Events are passed on as they come.
    #[default]
    Passed,
    /// It has not come yet.
    Awaited,
    Held(StreamItem),
    /// It was passed on. This came after it.
    Followed(Box<Result<StreamItem, Failure>>),
}
