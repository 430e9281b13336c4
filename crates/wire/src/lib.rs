//! Every wire format of LLM APIs: requests, streams, dialects, translation. Pure: bytes in, values out, and back. Not for
//! connections.

pub mod protocol;
