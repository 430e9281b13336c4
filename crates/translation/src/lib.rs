//! What a client asks, and what it is answered: its request parsed and made into what an upstream takes, the upstream's answer
//! made into what the client expects, continued. Not for one dialect's forms: see `photofinish_dialects`.

pub mod adapt;
pub mod request;
pub mod rescue;
pub mod translate;

pub use request::{ApiRequest, RequestSettings};
pub use translate::request::RequestTranslation;
pub use translate::response::ResponseTranslation;
