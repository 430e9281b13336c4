//! What the Responses API remembers: answers that a client may name again, by caller, and which upstreams made the others. In
//! memory alone; they are prompts, so nothing here is logged, and nothing that holds them has a `Debug`.
//!
//! An answer that an upstream of this API gave is stored there, and only its ids are kept, with the upstream. A translated answer is
//! kept whole. Not for the way from a request to its race: see `prepare`.

pub mod calls;
mod conversations;
pub mod keeper;
mod listed;
pub mod recall;
