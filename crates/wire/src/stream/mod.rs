//! Streams: cutting bytes into events ([`framing`]), and reading one event for the race and the meter ([`frame`]). The dialects read
//! the members of an event.

pub(crate) mod binary;
pub(crate) mod event_reader;
pub mod frame;
pub mod framing;

pub(crate) mod mended;

pub mod sse;
pub mod template;
