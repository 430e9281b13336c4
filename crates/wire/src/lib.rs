//! What requests and answers of all LLM APIs have in common: JSON, streams, the neutral conversation, usage, errors, and what
//! upstreams demand beyond their dialect. Not for one dialect's forms (`photofinish_dialects`), nor for connections.
//!
//! Pure: bytes in, facts out. Nothing here waits, connects, or decides what a fact means for a race.
//!
//! Rooms import in one direction: `json` ← `stream` ← `dialect` ← `answer` ← `conversation` ← `quirks`.

#[macro_use]
mod macros;

pub mod answer;
pub mod client_error;
pub mod conversation;
pub mod dialect;
pub mod json;
pub mod quirks;
pub mod stream;

pub use answer::usage::Usage;
pub use conversation::Losses;
pub use dialect::{AnswerForm, Dialect, PassedCall, PathCall, Surface};
pub use quirks::TranslationOptions;
pub use quirks::prefix::Prefix;
pub use stream::frame::PayloadKind;
pub use stream::sse::SseEvent;
