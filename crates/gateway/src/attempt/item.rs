//! The events of one answer as they are passed on, and those that wait. Not for reading them: see `stream`.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;

use photofinish_base::failure::Failure;
use photofinish_wire::SseEvent;
use photofinish_wire::answer::error::ErrorFacts;

/// Events that were read, and are not passed on yet.
#[derive(Default)]
pub(super) struct HeldEvents {
    /// Read during a hold; they are returned first.
    pub ahead: HeldBack,
    /// The events of a whole answer that came as one event. They come before all others.
    pub expanded: VecDeque<SseEvent>,
    /// The last event, held back for later ones, and the bytes that may still come.
    pub end: Option<(StreamItem, usize)>,
    /// The event before the usage chunk, which a client may not have asked for.
    pub last: LastEvent,
}

/// One event: the bytes that are passed on, and its kind.
#[derive(Debug)]
pub struct StreamItem {
    /// In the caller's dialect, with the closing blank line: the original bytes, or their translation, which may be empty.
    pub raw: Bytes,
    pub kind: ItemKind,
    /// Bytes of the upstream's event.
    pub size: usize,
    /// Set if it differs in its text alone from the payload before it: the place of this text in `raw`, between its
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

/// The last event of an answer, before its usage chunk: see `EventStream::join_usage_chunk`.
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

/// Bytes that are read ahead during a hold, including the size of each item; beyond that reading waits.
const READ_AHEAD_MAX: usize = 256 << 10;

#[derive(Default)]
pub struct HeldBack {
    items: VecDeque<StreamItem>,
    bytes: usize,
}

impl HeldBack {
    pub fn is_full(&self) -> bool {
        self.bytes >= READ_AHEAD_MAX
    }

    pub fn push(&mut self, item: StreamItem) {
        self.bytes += cost(&item);
        self.items.push_back(item);
    }

    pub fn pop(&mut self) -> Option<StreamItem> {
        let item = self.items.pop_front()?;
        self.bytes -= cost(&item);
        Some(item)
    }
}

fn cost(item: &StreamItem) -> usize {
    item.raw.len() + size_of::<StreamItem>()
}
