//! What one event of an upstream is, and what goes down of it: classified and metered in one pass. Reading is `stream`'s.

use bytes::Bytes;

use super::meter::Meter;
use super::stream::EventStream;
use crate::failure::FailureKind;
use crate::pace::aside;
use crate::protocol::error::{self, ErrorFacts};
use crate::protocol::frame::{Chunk, Frame};
use crate::protocol::sse::Event;
use crate::protocol::template::Template;
use crate::routing::keyring::scrub;

/// One event: what goes down of it, and what it is.
#[derive(Debug)]
pub struct Item {
    /// In the caller's dialect, the closing blank line included: the bytes that came, or their translation, which may be empty.
    pub raw: Bytes,
    pub kind: Kind,
    /// Bytes of the upstream's event.
    pub size: usize,
}

/// What a reader has to tell apart.
#[derive(Debug)]
pub enum Kind {
    /// Nothing that decides anything: a role, usage beside a finish.
    Other,
    /// A comment or a ping: the upstream is alive, and says no more.
    Heartbeat,
    /// Generated output.
    Payload,
    /// The chunk that only `include_usage` brings.
    UsageOnly,
    /// The last event that goes down (`[DONE]`).
    Done,
    /// An error in a 200, with its data.
    Error { facts: ErrorFacts, data: Bytes },
    /// No JSON: to be left out.
    Malformed,
}

impl EventStream {
    pub(super) fn item(&mut self, event: Event) -> Item {
        let size = event.raw.len();
        self.pace.event(size);
        // A tree is built of what is translated, which takes longer than reading it where it stands.
        let cost = if self.is_translated() { size.saturating_mul(4) } else { size };
        aside(cost, || self.item_of(event, size))
    }

    fn item_of(&mut self, event: Event, size: usize) -> Item {
        let kind = match self.classify(&event) {
            // Whether usage is wanted is known to the translation.
            Kind::UsageOnly if self.is_translated() => Kind::Other,
            kind => kind,
        };
        let raw = match kind {
            Kind::Error { .. } if self.is_translated() => Bytes::new(),
            Kind::Error { .. } => scrub(event.raw, self.key.as_ref()),
            Kind::Heartbeat if self.is_translated() => self.heartbeat(),
            _ => self.downward.pass(event, matches!(kind, Kind::Done)),
        };
        if self.downward.is_overfull() {
            let message = "an answer of more items than an answer has".to_owned();
            let facts = ErrorFacts { kind: FailureKind::Malformed, certain: true, status: None, message };
            return Item { raw: Bytes::new(), kind: Kind::Error { facts, data: Bytes::new() }, size };
        }
        Item { raw, kind, size }
    }

    /// The last event of a body that forgot its blank line gets one.
    pub(super) fn last_item(&mut self, event: Event) -> Item {
        let Item { raw, kind, size } = self.item(event);
        if self.is_translated() {
            return Item { raw, kind, size };
        }
        let mut raw = raw.to_vec();
        raw.extend_from_slice(if raw.ends_with(b"\n") { b"\n" } else { b"\n\n" });
        Item { raw: Bytes::from(raw), kind, size }
    }

    /// What a heartbeat becomes in a translation: nothing before the first token, for it would come too late.
    fn heartbeat(&self) -> Bytes {
        let begun = self.guard.meter.first_token_us().is_some() && !self.done;
        Bytes::from_static(if begun { self.surface().heartbeat() } else { b"" })
    }

    /// Behind the end only usage counts.
    fn behind_the_end(&mut self, event: &Event) -> Kind {
        if let Frame::Chunk(Chunk { usage, timings, time_info, .. }) = self.downward.read(event) {
            let chunk = Chunk { usage, timings, time_info, ..Chunk::default() };
            self.guard.meter.chunk(&chunk, self.read_at);
        }
        Kind::Other
    }

    fn classify(&mut self, event: &Event) -> Kind {
        if self.done {
            return self.behind_the_end(event);
        }
        let meter = &mut self.guard.meter;
        if let Some(payload) = self.template.as_ref().and_then(|template| template.payload_of(event)) {
            meter.payload(payload, self.read_at);
            return Kind::Payload;
        }
        let frame = self.downward.read(event);
        if !matches!(frame, Frame::KeepAlive) {
            meter.event(self.read_at);
        }
        match frame {
            Frame::KeepAlive => {
                meter.keepalive();
                Kind::Heartbeat
            }
            Frame::Done(chunk) => {
                self.done = true;
                // An answer without a stream of its own may stand in its last event.
                let chunk = new_in(chunk, meter);
                meter.chunk(&chunk, self.read_at);
                if chunk.payload.is_some() { Kind::Payload } else { Kind::Done }
            }
            Frame::Error { data, usage } => {
                meter.chunk(&Chunk { usage, ..Chunk::default() }, self.read_at);
                let data = scrub(Bytes::copy_from_slice(&data), self.key.as_ref());
                Kind::Error { facts: error::of_frame(&data), data }
            }
            Frame::Malformed => {
                meter.malformed += 1;
                Kind::Malformed
            }
            Frame::Chunk(chunk) => {
                let chunk = new_in(chunk, meter);
                meter.chunk(&chunk, self.read_at);
                if chunk.payload.is_some() {
                    self.template = Template::learn(event, &chunk);
                    Kind::Payload
                } else if chunk.usage_only {
                    Kind::UsageOnly
                } else {
                    Kind::Other
                }
            }
        }
    }
}

/// Some events say once more what others said before: their payload counts only where there was none.
fn new_in<'a>(chunk: Chunk<'a>, meter: &Meter) -> Chunk<'a> {
    let is_old = chunk.repeated && meter.first_token_us().is_some();
    if is_old { Chunk { payload: None, ..chunk } } else { chunk }
}
