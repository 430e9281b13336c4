//! Classifies and measures one event of an upstream, and makes the bytes that are passed on, in one pass. Not for reading: see
//! `stream`.

use std::ops::Range;

use bytes::Bytes;

use super::item::{ItemKind, StreamItem};
use super::meter::Meter;
use super::stream::EventStream;
use photofinish_base::failure::FailureKind;
use photofinish_base::pace::aside;
use photofinish_config::keyring::scrub;
use photofinish_wire::answer::error::{self, ErrorFacts};
use photofinish_wire::stream::frame::{Chunk, Frame};
use photofinish_wire::stream::template::{MoreText, Template};
use photofinish_wire::{PayloadKind, SseEvent};

impl EventStream {
    pub(super) fn item(&mut self, event: SseEvent) -> StreamItem {
        let size = event.raw.len();
        let event = SseEvent { raw: self.response_translation.named(event.raw) };
        self.pace.event(size);
        // A translation builds a tree, which takes longer than reading in place.
        let cost = if self.is_translated() { size.saturating_mul(4) } else { size };
        aside(cost, || self.item_of(event, size))
    }

    fn item_of(&mut self, event: SseEvent, size: usize) -> StreamItem {
        if self.signs.done {
            return self.item_behind(event, size);
        }
        let more = self.more_text(&event);
        let (kind, instead) = match more {
            Some(_) => (ItemKind::Payload, None),
            None => self.classify(&event),
        };
        let kind = match kind {
            // The translation knows whether usage is wanted.
            ItemKind::UsageOnly if self.is_translated() => ItemKind::Other,
            kind => kind,
        };
        let raw = match kind {
            ItemKind::LeftOut => Bytes::new(),
            ItemKind::Error { .. } if self.is_translated() => Bytes::new(),
            ItemKind::Error { .. } => scrub(event.raw, self.key.as_ref()),
            ItemKind::Heartbeat if self.is_translated() => self.heartbeat(),
            _ => self.response_translation.pass(instead.unwrap_or(event)),
        };
        if let Some(tape) = &mut self.guard.tape {
            tape.cover(self.response_translation.said());
        }
        let fault = if matches!(kind, ItemKind::Error { .. }) { None } else { self.fault() };
        match fault {
            Some(facts) => StreamItem::new(Bytes::new(), ItemKind::Error { facts, data: Bytes::new() }, size),
            None => StreamItem { raw, kind, size, more: more.filter(|_| !self.is_translated()) },
        }
    }

    /// A fault of the whole answer so far.
    fn fault(&mut self) -> Option<ErrorFacts> {
        if self.response_translation.is_overfull() {
            let message = "it goes on without end: more items or bytes than an answer has";
            return Some(ErrorFacts { kind: FailureKind::Endless, ..malformed(message) });
        }
        if !self.signs.done && !self.response_translation.has_calls() {
            return None;
        }
        if self.signs.done {
            self.response_translation.end_calls();
        }
        if self.response_translation.is_broken() {
            self.note_broken_call();
            return Some(malformed("the arguments of a tool call are no JSON object"));
        }
        (self.signs.done && !self.is_complete()).then(|| self.incomplete())
    }

    /// It ended without a finish reason.
    pub(super) fn incomplete(&self) -> ErrorFacts {
        if self.guard.meter.is_garbled() {
            return malformed("none of its events can be read");
        }
        let message = "the provider ended it without a finish reason".to_owned();
        ErrorFacts { kind: FailureKind::Closed, certain: false, ..malformed(message) }
    }

    /// Adds the blank line that the last event of a body lacks.
    pub(super) fn last_item(&mut self, event: SseEvent) -> StreamItem {
        let item = self.item(event);
        if self.is_translated() || item.raw.is_empty() {
            return item;
        }
        let mut raw = item.raw.to_vec();
        raw.extend_from_slice(if raw.ends_with(b"\n") { b"\n" } else { b"\n\n" });
        StreamItem { raw: Bytes::from(raw), ..item }
    }

    /// A heartbeat in a translation. Empty before the first token: it would be held back.
    fn heartbeat(&self) -> Bytes {
        let begun = self.guard.meter.first_token_us().is_some();
        Bytes::from_static(if begun { self.surface().heartbeat() } else { b"" })
    }

    /// An event after the end: usage counts, a vendor's own events are passed on, and output is ignored.
    fn item_behind(&mut self, event: SseEvent, size: usize) -> StreamItem {
        let kind = match self.response_translation.read(&event) {
            // The rest of a split line end is not an event.
            Frame::KeepAlive => (!event.raw.trim_ascii().is_empty()).then_some(ItemKind::Other),
            Frame::Chunk(Chunk { usage, timings, time_info, usage_only, payload, finished, .. }) => {
                let generated = payload.is_some() || finished != 0;
                let chunk = Chunk { usage, timings, time_info, ..Chunk::default() };
                self.guard.meter.chunk(&chunk, self.clock.read_at);
                match usage_only && !self.is_translated() {
                    true => Some(ItemKind::UsageOnly),
                    false => (!generated).then_some(ItemKind::Other),
                }
            }
            _ => None,
        };
        match kind {
            Some(kind) => StreamItem::new(self.response_translation.pass_behind(event), kind, size),
            None => StreamItem::new(Bytes::new(), ItemKind::Other, size),
        }
    }

    /// Measures an event that differs in its text alone from the payload before it, and returns the place of its text.
    fn more_text(&mut self, event: &SseEvent) -> Option<Range<usize>> {
        let MoreText { payload, at, calls } = self.shapes.template.as_ref()?.fits(event)?;
        self.guard.meter.payload(payload, self.clock.read_at);
        if (calls || self.guard.tape.is_some())
            && let Ok(text) = std::str::from_utf8(&event.raw[at.clone()])
        {
            match payload.kind {
                _ if calls => self.response_translation.check_more(text),
                PayloadKind::Text => self.response_translation.more_text(text),
                _ => {}
            }
        }
        Some(at)
    }

    /// The kind of an event, and the event that is passed on in its place, if it is another.
    fn classify(&mut self, event: &SseEvent) -> (ItemKind, Option<SseEvent>) {
        let frame = self.response_translation.read(event);
        if matches!(frame, Frame::Malformed) {
            return self.unreadable(event);
        }
        if let (Some(tape), Frame::Chunk(chunk) | Frame::Done(chunk)) = (&mut self.guard.tape, &frame)
            && (chunk.calls || chunk.payload.is_some_and(|payload| payload.kind == PayloadKind::Tool))
        {
            tape.note_call();
        }
        let kind = self.kind_of(event, frame);
        let is_bare = matches!(kind, ItemKind::Payload | ItemKind::Other | ItemKind::UsageOnly | ItemKind::Done);
        (kind, if is_bare { self.response_translation.framed(event) } else { None })
    }

    /// An event that is no JSON. It is read leniently first. If that fails it is a hole in the answer, and the answer never
    /// ends well: what is left may mean something else.
    #[cold]
    fn unreadable(&mut self, event: &SseEvent) -> (ItemKind, Option<SseEvent>) {
        if let Some(mended) = self.response_translation.mended(event) {
            self.shapes.lenient = true;
            let kind = self.kind_of(&mended, self.response_translation.read(&mended));
            // Clients of the same dialect get it as it came.
            return (kind, Some(mended).filter(|_| self.is_translated()));
        }
        let meter = &mut self.guard.meter;
        meter.event(self.clock.read_at);
        meter.malformed += 1;
        // After the end nothing counts as a part of the answer.
        if self.response_translation.is_noise(event) || self.is_complete() {
            return (ItemKind::LeftOut, None);
        }
        (hole(), None)
    }

    fn kind_of(&mut self, event: &SseEvent, frame: Frame<'_>) -> ItemKind {
        let meter = &mut self.guard.meter;
        if !matches!(frame, Frame::KeepAlive) {
            meter.event(self.clock.read_at);
        }
        match frame {
            Frame::KeepAlive => {
                meter.keepalive();
                ItemKind::Heartbeat
            }
            Frame::Done(chunk) => {
                self.signs.done = true;
                // The last event may hold an answer that was not streamed.
                let chunk = new_in(chunk, meter);
                self.take(event, &chunk).unwrap_or(match chunk.payload {
                    Some(_) => ItemKind::Payload,
                    None => ItemKind::Done,
                })
            }
            Frame::Error { data, usage } => {
                meter.chunk(&Chunk { usage, ..Chunk::default() }, self.clock.read_at);
                let data = scrub(Bytes::copy_from_slice(&data), self.key.as_ref());
                ItemKind::Error { facts: error::of_frame(&data), data }
            }
            // After the first token an event of another dialect is only left out.
            Frame::Foreign(dialect) if meter.first_token_us().is_none() => {
                meter.malformed += 1;
                ItemKind::Error { facts: malformed(in_dialect(dialect)), data: Bytes::new() }
            }
            Frame::Malformed | Frame::Foreign(_) => {
                meter.malformed += 1;
                ItemKind::LeftOut
            }
            // A whole answer after a part of it only repeats that.
            Frame::Chunk(Chunk { whole: true, .. }) if self.shapes.sends_wholes || meter.first_token_us().is_none() => {
                self.shapes.sends_wholes = true;
                self.held.expanded.extend(self.response_translation.events_in(event));
                if self.held.expanded.is_empty() { hole() } else { ItemKind::LeftOut }
            }
            Frame::Chunk(chunk) => {
                meter.readable = true;
                let chunk = new_in(chunk, meter);
                if let Some(failed) = self.take(event, &chunk) {
                    return failed;
                }
                if chunk.payload.is_some() {
                    self.shapes.template = Template::learn(event, &chunk);
                    ItemKind::Payload
                } else if chunk.usage_only {
                    ItemKind::UsageOnly
                } else {
                    ItemKind::Other
                }
            }
        }
    }

    /// Measures a chunk and checks its calls. Some: it ends the answer as one that broke off.
    fn take(&mut self, event: &SseEvent, chunk: &Chunk<'_>) -> Option<ItemKind> {
        if let Some(facts) = self.response_translation.broken_off(event, chunk) {
            let Chunk { finish_reason, usage, timings, time_info, .. } = chunk.clone();
            let end = Chunk { finish_reason, usage, timings, time_info, ..Chunk::default() };
            self.guard.meter.chunk(&end, self.clock.read_at);
            return Some(ItemKind::Error { facts, data: Bytes::new() });
        }
        self.guard.meter.chunk(chunk, self.clock.read_at);
        self.response_translation.check(event, chunk);
        None
    }
}

/// The message for an answer in another dialect.
pub(super) fn in_dialect(dialect: &str) -> String {
    format!("it answers in the dialect `{dialect}`: is the provider's own `dialect` right?")
}

/// An event that may have carried a part of the answer is lost.
fn hole() -> ItemKind {
    let message = "an event cannot be read, and may have carried a part of the answer";
    ItemKind::Error { facts: malformed(message), data: Bytes::new() }
}

fn malformed(message: impl Into<String>) -> ErrorFacts {
    ErrorFacts {
        kind: FailureKind::Malformed,
        certain: true,
        whole_account: false,
        status: None,
        message: message.into(),
        reset: None,
    }
}

/// Some events repeat earlier ones: their payload counts only if there was none.
fn new_in<'a>(chunk: Chunk<'a>, meter: &Meter) -> Chunk<'a> {
    let is_old = chunk.repeated && meter.first_token_us().is_some();
    if is_old { Chunk { payload: None, ..chunk } } else { chunk }
}
