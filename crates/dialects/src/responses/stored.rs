//! Reads what is kept of an answer: its id, its items, and the whole of it at the end of a stream.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::read::ResponsesWire;
use photofinish_wire::stream::event_reader::{EventData, data_of};
use photofinish_wire::stream::sse::{SseEvent, SseScanner};

/// A response, as far as it must be known to be found again.
#[derive(Deserialize)]
pub struct StoredAnswer<'a> {
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    #[serde(borrow)]
    pub status: Option<Cow<'a, str>>,
    /// The items of its output.
    #[serde(borrow, default)]
    pub output: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct ItemId<'a> {
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
}

impl<'a> StoredAnswer<'a> {
    /// None: it is no response.
    pub fn read(answer: &'a [u8]) -> Option<StoredAnswer<'a>> {
        serde_json::from_slice(answer).ok()
    }

    /// The ids of its items, each with its item.
    pub fn items(&self) -> impl Iterator<Item = (Cow<'a, str>, &'a str)> + '_ {
        self.output.iter().filter_map(|item| Some((item_id(item.get())?, item.get())))
    }

    /// It changes no more.
    pub fn has_ended(&self) -> bool {
        !matches!(self.status.as_deref(), Some("queued" | "in_progress"))
    }
}

/// The id of an item.
pub fn item_id(item: &str) -> Option<Cow<'_, str>> {
    serde_json::from_str::<ItemId<'_>>(item).ok()?.id
}

/// The response in the last of these events that has one.
pub fn response_in(events: &Bytes) -> Option<Bytes> {
    let mut scanner = SseScanner::new(usize::MAX);
    scanner.push(events.clone());
    let mut found = None;
    while let Some(event) = scanner.next_event().ok().flatten().or_else(|| scanner.finish()) {
        found = response_of(&event).or(found);
    }
    found
}

/// The response in an event.
pub fn response_of(event: &SseEvent) -> Option<Bytes> {
    let EventData::Json { data, name } = data_of(event) else { return None };
    let wire = ResponsesWire::read(std::str::from_utf8(&data).ok()?, name).ok()?;
    Some(Bytes::copy_from_slice(wire.response?.as_bytes()))
}
