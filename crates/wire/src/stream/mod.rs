//! Streams: cutting bytes into events ([`framing`]), and reading one event for the race and the meter ([`frame`]). The dialects read
//! the members of an event.

pub mod binary;
pub mod event_reader;
pub mod frame;
pub mod framing;

pub mod mended;

pub mod service_tier;
pub mod sse;
pub mod template;
