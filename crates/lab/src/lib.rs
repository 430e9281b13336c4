//! What measures, and what asks "what if": simulated providers, rehearsed and replayed traffic, the load generator, probes, what
//! differs between hosts. Not for clients' requests.

pub mod bench;
pub mod probe;
pub mod rehearse;
pub mod replay;
pub mod simulate;
pub mod verify;
