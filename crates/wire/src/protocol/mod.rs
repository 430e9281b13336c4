//! The wire formats. Only this room knows a provider's JSON.
//!
//! Pure: bytes in, facts out. Nothing here waits, connects, or decides the meaning of a fact for a race.
//!
//! Files import in one direction: vocabulary (`dialect`, `client_error`, `ends`, `frame`, `neutral`, `sse`) ← helpers (`json`,
//! `usage`, `event_reader`, `outgoing`, …) ← dialects (`openai`, `responses`, `anthropic`, `gemini`, `bedrock`,
//! `ollama`) ← `dispatch` ← `request_translation`, `response_translation`, `rescue`.

pub mod anthropic;
mod arguments;
pub mod assemble;
mod bare_error;
pub mod bedrock;
mod binary;
pub mod bounds;
mod call_ids;
mod claude;
pub mod client_error;
pub mod completions;
pub mod dialect;
mod dispatch;
pub mod embeddings;
pub mod ends;
pub mod error;
mod event_reader;
pub mod frame;
pub mod framing;
pub mod gemini;
pub mod headers;
pub mod json;
pub mod limits;
mod lines;
mod lost_names;
mod members;
mod mended;
pub mod model_list;
pub mod neutral;
mod numbers;
pub mod ollama;
mod open_calls;
pub mod openai;
pub mod opening;
mod other_dialect;
mod outgoing;
pub mod parameter;
pub mod passed_call;
pub mod path_call;
pub mod prefix;
pub mod quirks;
mod raw_members;
pub mod request;
pub mod request_translation;
pub mod rescue;
pub mod reset;
pub mod response_translation;
pub mod responses;
pub mod service_tier;
pub mod sse;
mod surrogates;
pub mod template;
pub mod usage;
mod values;
mod whole;

pub use dialect::{AnswerForm, Dialect, Surface};
pub use frame::PayloadKind;
