//! Every wire format of LLM APIs: requests, streams, dialects, translation. Only this crate knows a provider's JSON. Not for
//! connections.
//!
//! Pure: bytes in, facts out. Nothing here waits, connects, or decides what a fact means for a race.
//!
//! Files import in one direction: vocabulary (`dialect`, `client_error`, `stream`, `json`) ← what requests and answers have in
//! common (`translate`, `quirks`, `request`, `answer`) ← the dialects (`dialects`) ← translations (`translate::request`,
//! `translate::response`, `answer::rescue`).

#[macro_use]
mod macros;

pub mod answer;
pub mod client_error;
pub mod dialect;
pub mod dialects;
pub mod json;
pub mod judge;
pub mod quirks;
pub mod request;
pub mod stream;
pub mod translate;

pub use answer::usage::Usage;
pub use dialect::{AnswerForm, Dialect, PassedCall, PathCall, Surface};
pub use quirks::TranslationOptions;
pub use request::ApiRequest;
pub use request::prefix::Prefix;
pub use stream::frame::PayloadKind;
pub use stream::sse::SseEvent;
pub use translate::Losses;
pub use translate::request::RequestTranslation;
pub use translate::response::ResponseTranslation;
