//! The `responses` dialect: OpenAI's Responses API, for upstreams and for apps.
//!
//! [`read()`] is for the race. [`ResponsesReader`] and [`request()`] translate for upstreams, [`conversation()`] and [`ResponsesWriter`]
//! for apps.

mod assemble;
mod check;
mod content;
mod conversation;
mod envelope;
mod foreign;
mod items;
mod namespaces;
mod numbered;
mod output;
mod read;
mod reader;
mod request;
mod whole;
mod wire;
mod writer;

#[cfg(test)]
mod tests;

use crate::client_error::{ErrorShape, Invalid};
use crate::dialect::TranslationOptions;
use crate::stream::event_reader::{EventData, data_of};
use crate::stream::sse::SseEvent;

pub use assemble::ResponseAssembly;
pub use check::check;
pub use conversation::conversation;
pub use envelope::{error_event, error_event_behind};
pub use foreign::without_reasoning;
pub use read::read;
pub use reader::ResponsesReader;
pub use request::request;
pub use whole::events_of_whole;
pub use writer::{OpenMessage, ResponsesWriter};

/// Whether every official client treats this event as an error and stops. The SDKs raise at `error`, which Codex
/// ignores; all support `response.failed`.
pub fn is_error_event(event: &SseEvent) -> bool {
    const FAILED: &str = "response.failed";
    let kind_is_failed = |data: &[u8]| {
        let wire = std::str::from_utf8(data).ok().and_then(|text| wire::ResponsesWire::read(text, b"").ok());
        wire.is_some_and(|wire| wire.kind == FAILED)
    };
    event.fields().name == Some(FAILED.as_bytes())
        || matches!(data_of(event), EventData::Json { data, .. } if kind_is_failed(&data))
}
